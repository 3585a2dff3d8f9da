"""Tables of results: aligned, and silent about what the comparisons cannot show."""

import dataclasses
import math

import numpy as np
import pytest

from verisphere.decide import Interval, kfold_accuracy, one_threshold, operating_point
from verisphere.report.tables import (
    accuracy_line,
    interval_text,
    number,
    one_threshold_table,
    operating_points_table,
    small,
    table,
)

GENUINE, IMPOSTOR = [0.9, 0.8, 0.3], [0.5, 0.4, 0.2, 0.1]


def cells(text: str) -> list[list[str]]:
    """Cells of the table in a text."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def test_a_table_is_markdown_with_aligned_columns():
    assert table(["name", "TAR"], [["day", "0.5"], ["a long night", "0.25"]]).splitlines() == [
        "| name         |  TAR |",
        "|:-------------|-----:|",
        "| day          |  0.5 |",
        "| a long night | 0.25 |",
    ]


@pytest.mark.parametrize(
    ("value", "text"), [(0.5, "0.5000"), (-math.inf, "-inf"), (math.inf, "inf"), (math.nan, "nan"), (1 / 3, "0.3333")]
)
def test_numbers(value: float, text: str):
    assert number(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.0, "0"), (1e-6, "1e-06"), (0.123456, "0.123")])
def test_small_numbers(value: float, text: str):
    assert small(value) == text


def test_an_operating_point_in_a_row():
    # n = 4, k = 1: the threshold is 0.4; 2 of 3 genuine and 1 of 4 impostor scores pass.
    _, _, row = cells(operating_points_table([operating_point(GENUINE, IMPOSTOR, far="0.25")]))
    assert row[0] == "0.25"
    assert (row[1], row[2], row[4]) == ("0.400000", "0.6667", "2 / 3")
    assert (row[5], row[7]) == ("0.25", "1 / 4")
    # Clopper-Pearson for 2 of 3 and 1 of 4
    assert (row[3], row[6]) == ("0.0943 .. 0.9916", "0.00631 .. 0.806")


def test_below_resolution_no_tar_is_printed():
    points = [operating_point(GENUINE, IMPOSTOR, far=far) for far in ("0.25", "0.1")]
    text = operating_points_table(points)
    _, _, seen, unseen = cells(text)
    assert "-" not in seen
    assert (unseen[0], unseen[2], unseen[3]) == ("0.1*", "-", "-")
    # the threshold, the counts and the FAR with its bounds are what they are
    assert (unseen[1], unseen[4], unseen[5], unseen[7]) == ("0.500000", "2 / 3", "0", "0 / 4")
    assert "* below resolution: 4 impostors cannot show a FAR this low" in text
    assert "below resolution" not in operating_points_table(points[:1])


def test_everything_accepted_and_another_rule():
    text = operating_points_table([operating_point(GENUINE, IMPOSTOR, far="1", rule="nearest")])
    assert cells(text)[2][1] == "-inf"
    assert text.endswith("rule: nearest (a realised FAR may lie above its target)")


def test_large_counts_are_grouped():
    counts = {"impostor_total": 87_307_271, "far": 1 / 87_307_271, "far_lower_95": 0.0}
    point = dataclasses.replace(operating_point(GENUINE, IMPOSTOR, far="0.25"), **counts)
    assert "1 / 87,307,271" in operating_points_table([point])


DOMAINS = {"day": ([0.9, 0.7], [0.6, 0.5, 0.1, 0.0]), "night": ([0.55, 0.2], [0.4, 0.3])}


def test_one_threshold_of_two_domains():
    # 6 impostors, k = floor(0.3 * 6) = 1: 0.5. day: own k = 1, also 0.5; night: 0.3 * 2 < 1, so no rate of its own.
    text = one_threshold_table(one_threshold(DOMAINS, far="0.3"))
    _, _, day, night = cells(text)
    assert text.startswith("one threshold 0.500000 at FAR 0.3 (impostors: all)")
    assert day == ["day", "1.0000", "0.25", "0.00631 .. 0.806", "0.5000", "1.0000", "2", "4"]
    assert night == ["night", "0.5000", "0 (< 0.5)", "0 .. 0.842", "0.4000", "-", "2", "2"]
    assert "FAR 0 entered as 1 / impostors in: night" in text
    assert "too few impostors to show this FAR at a threshold of their own: night" in text
    # t_d - t_c: 0 and -0.1
    assert text.splitlines()[5].endswith("gamma 0.0707")
    # TAR 1 and 0.5: mean 0.75, standard deviation 0.25
    assert text.splitlines()[5].startswith("TAR mean 0.7500, standard deviation 0.2500;")


def test_skipped_domains_are_named():
    domains = {**DOMAINS, "fog": ([], [0.1])}
    text = one_threshold_table(one_threshold(domains, far="0.5", skip_empty=True, union="within"))
    assert text.endswith("skipped for want of genuine or impostor comparisons: fog")
    assert "(impostors: within)" in text
    assert "too few" not in text


def test_accuracy_and_interval_in_a_line():
    # Fold 0: cut from fold 1, whose best cuts are 0.1 and any up to below 0.8: 0.1 decides 0.9 and 0.2, one rightly.
    scores, genuine = np.array([0.9, 0.2, 0.8, 0.1]), np.array([True, False, True, False])
    line = accuracy_line(kfold_accuracy(scores, genuine, np.array([0, 0, 1, 1])))
    assert line == "accuracy 0.75000, standard deviation 0.35355, standard error 0.25000 (2 folds, 4 pairs)"
    assert interval_text(Interval(0.01, -0.02, 0.04, 100)) == "+0.0100 (-0.0200 .. +0.0400)"
