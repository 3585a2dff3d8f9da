"""Tables of results: aligned, and silent about what the comparisons cannot show."""

import dataclasses
import math

import numpy as np
import pytest

from verisphere.base.vocabulary import Redrawing
from verisphere.decide import (
    GroupCounts,
    Interval,
    Measure,
    PairScores,
    group_differences,
    kfold_accuracy,
    one_threshold,
    operating_point,
    point_intervals,
)
from verisphere.decide.intervals import COVERAGE
from verisphere.report.tables import (
    accuracy_line,
    group_differences_table,
    interval_text,
    intervals_table,
    measure_text,
    noise_line,
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
    ("value", "text"),
    [
        *[(0.5, "0.5000"), (-math.inf, "-inf"), (math.inf, "inf"), (math.nan, "nan"), (1 / 3, "0.3333")],
        *[(-7e30, "-7e+30"), (1e300, "1e+300"), (1234567.0, "1.235e+06"), (-1e6, "-1e+06"), (999_999.5, "999999.5000")],
    ],
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


def test_a_threshold_of_many_digits_is_short():
    point = dataclasses.replace(operating_point(GENUINE, IMPOSTOR, far="0.25"), threshold=-7e30)
    assert cells(operating_points_table([point]))[2][1] == "-7e+30"


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
    assert day == ["day", "1.0000", "0.25", "0.00631 .. 0.806", "0.602", "0.5000", "1.0000", "2", "4"]
    assert night == ["night", "0.5000", "0 (< 0.5)", "0 .. 0.842", "> 0.301", "0.4000", "-", "2", "2"]
    assert "FAR 0 entered as 1 / impostors in: night" in text
    assert "too few impostors to show this FAR at a threshold of their own: night" in text
    # t_d - t_c: 0 and -0.1
    assert text.splitlines()[5].endswith("gamma 0.0707")
    # TAR 1 and 0.5: mean 0.75, standard deviation 0.25
    assert text.splitlines()[5].startswith("TAR mean 0.7500, standard deviation 0.2500;")


def test_skipped_domains_are_named():
    domains = {**DOMAINS, "fog": ([], [0.1])}
    text = one_threshold_table(one_threshold(domains, far="0.5", skip_empty=True, union="within"))
    assert text.endswith("skipped, without genuine or without impostor comparisons: fog")
    assert "(impostors: within)" in text
    assert "too few" not in text


def test_accuracy_and_interval_in_a_line():
    # Fold 0: cut from fold 1, whose best cuts are 0.1 and any up to below 0.8: 0.1 decides 0.9 and 0.2, one rightly.
    scores, genuine = np.array([0.9, 0.2, 0.8, 0.1]), np.array([True, False, True, False])
    line = accuracy_line(kfold_accuracy(scores, genuine, np.array([0, 0, 1, 1])))
    assert line == "accuracy 0.75000, standard deviation 0.35355, standard error 0.25000 (2 folds, 4 pairs)"
    assert interval_text(Interval(0.01, -0.02, 0.04, 100)) == "+0.0100 (-0.0200 .. +0.0400)"


@pytest.mark.parametrize(
    ("rule", "means"),
    [("at_most", "never above"), ("nearest", "may lie above"), ("interpolated", "may lie above")],
)
def test_every_table_names_the_rule(rule: str, means: str):
    text = operating_points_table([operating_point(GENUINE, IMPOSTOR, far="0.25", rule=rule)])
    assert text.endswith(f"rule: {rule} (a realised FAR {'is ' * (rule == 'at_most')}{means} its target)")
    head = one_threshold_table(one_threshold(DOMAINS, far="0.3", rule=rule)).splitlines()[0]
    assert head.endswith(f"rule: {rule}")


def some_intervals(far: str = "0.25"):
    pairs = PairScores.of_list(
        np.array(GENUINE + IMPOSTOR),
        np.array([True] * 3 + [False] * 4),
        np.array([[0, 0], [1, 1], [2, 2], [0, 1], [1, 2], [2, 3], [3, 0]]),
    )
    return point_intervals(pairs, [far], redrawing=Redrawing(50))


def test_an_interval_over_people_stands_beside_its_tar():
    points = [operating_point(GENUINE, IMPOSTOR, far=far) for far in ("0.25", "0.1")]
    found = some_intervals()[0]
    header, _, row, unresolved = cells(operating_points_table(points, [found]))
    assert header[2:6] == ["TAR", "95 % bounds", "95 % over people", "genuine"]
    assert row[4] == f"{found.tar.lower_95:.4f} .. {found.tar.upper_95:.4f}"
    assert unresolved[4] == "-"
    assert len(cells(operating_points_table(points))[0]) == 8


def test_an_interval_has_a_width_where_nothing_is_rejected():
    """At 0.75 every genuine pair is accepted: any redrawing gives 1, and each of three people counts as one pair."""
    (found,) = some_intervals("0.75")
    _, _, row = cells(operating_points_table([operating_point(GENUINE, IMPOSTOR, far="0.75")], [found]))
    assert found.people_with_errors == 0
    assert row[4] == f"{0.025 ** (1 / 3):.4f} .. 1.0000"


def test_thresholds_and_fars_over_people():
    found = some_intervals()[0]
    text = intervals_table([found])
    _, _, row = cells(text)
    assert (row[0], row[1], row[3]) == ("0.25", "0.400000", "0.25")
    assert row[2] == f"{found.threshold.lower_95:.6f} .. {found.threshold.upper_95:.6f}"
    assert text.endswith(
        "intervals from 50 redrawings of 4 people (seed 0), TAR and threshold with the threshold found anew in each, "
        f"rule: at_most\n{COVERAGE}"
    )


def test_differences_of_groups():
    counts = {"day": GroupCounts(90, 100, 2, 1000), "night": GroupCounts(80, 100, 4, 1000)}
    seen = group_differences(counts, 0.4, "1e-2", alpha=0.25)
    counts["night"] = GroupCounts(80, 100, 0, 1000)
    text = group_differences_table([seen, group_differences(counts, 0.5, "1e-3", alpha=0.25)])
    header, _, first, second = cells(text)
    assert text.startswith("differences of 2 groups at one threshold, rule: at_most")
    assert header[:4] == ["FAR target", "threshold", "FAR max/min", "FAR max/mean"]
    assert header[4:] == ["FRR max/min", "FRR max/mean", "FDR", "IR", "GARBE"]
    assert [cell.split(" ")[0] for cell in first] == [
        "1e-2",
        "0.4000",
        "2",
        "1.41",
        "2",
        "1.41",
        "0.9245",
        "2",
        "0.333",
    ]
    assert second[2] == "undefined (>= 1)"
    assert "FDR = 1 - (0.25 (max FAR - min FAR) + 0.75 (max FRR - min FRR))" in text
    assert "IR = (max/min FAR)^0.25 (max/min FRR)^0.75; GARBE = 0.25 Gini(FAR) + 0.75 Gini(FRR)" in text
    assert "bounds: exact binomial, for 2 groups together with 95 %, comparisons taken as independent" in text
    assert text.endswith("undefined at FAR 1e-3: no false accept in night")


@pytest.mark.parametrize(
    ("measure", "text"),
    [
        (Measure(2.0, None, 1.5, 3.25, "binomial"), "2 (1.5 .. 3.25)"),
        (Measure(2.0, None, 1.5, None, "bootstrap"), "2 (1.5 .. -)"),
        (Measure(0.0, None, 0.0, 0.0, "bootstrap"), "0 (0 .. 0)"),
        (Measure(None, "no false accept in b", 3.0, None, "binomial"), "undefined (>= 3)"),
        (Measure(None, "no false accept in b", 0.25, 1.0, "binomial"), "undefined (>= 0.25, <= 1)"),
        (Measure(None, "a alone", None, None, None), "undefined"),
    ],
)
def test_a_figure_of_difference(measure: Measure, text: str):
    assert measure_text(measure) == text


def test_noise_in_plain_words():
    line = noise_line(Interval(0.0021, -0.0044, 0.0081, 1000), "accuracy against b.npz")
    assert line == ("accuracy against b.npz: 0.0021 is inside the noise: 95 % of redrawn people give -0.0044 to 0.0081")
    assert ": 0.0000 is inside" in noise_line(Interval(-1e-9, -0.1, 0.1, 10), "tar")
