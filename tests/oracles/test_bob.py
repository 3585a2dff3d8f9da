"""bob.measure's committed answers (bob/answers.json, made by bob/ask.py in an environment of its own) against ours.

bob.measure accepts score >= threshold. Its `far_threshold` is the smallest impostor score v for which the share of
impostors >= v is at most f; the next float above the largest where there is none; for f = 1 the next float below the
smallest. So it accepts as many impostors as we do, while its threshold lies one impostor score higher: genuine scores
strictly between ours and that one are accepted by us and rejected by bob.measure.
"""

import json
import math
from fractions import Fraction
from pathlib import Path

import pytest

from verisphere.decide import binomial_bounds, operating_point

from . import brute_force
from .cases import asked_elsewhere, digest, make_cases, make_galleries

CASES = make_cases()


@pytest.fixture(scope="module")
def answers():
    answers = json.loads((Path(__file__).parent / "bob" / "answers.json").read_text())
    assert answers["cases_sha256"] == digest(asked_elsewhere()), "made for other cases: run bob/ask.py again"
    return answers


def within_reach(score):
    """Whether there is a float between a score and the score + 1 (or - 1), by which bob.measure steps past it."""
    return abs(score) < 2**53


def decided(answers):
    """(case, target, [bob's threshold, its impostors accepted, its genuine accepted]) where it can step past scores."""
    return [
        (case, far, found)
        for case, points in zip(CASES, answers["points"], strict=True)
        if points is not None and all(map(within_reach, case.impostor))
        for far, found in zip(case.fars, points, strict=True)
    ]


def test_fewer_than_two_impostors_are_refused_there(answers):
    refused = [case for case, points in zip(CASES, answers["points"], strict=True) if points is None]
    assert {len(case.impostor) for case in refused} == {1}
    assert len(refused) + sum(len(case.impostor) > 1 for case in CASES) == len(CASES)


def reads_the_target_alike(case, far):
    """Whether j / n <= f allows as many impostors in floats as it does in exact numbers."""
    total = len(case.impostor)
    exactly = math.floor(Fraction(far) * total)
    return exactly == total or (exactly + 1) / total > float(far)


def test_points(answers):
    """As many impostors pass; its threshold is one impostor score higher; genuine scores between are the difference."""
    compared = 0
    for case, far, (threshold, passed, found) in decided(answers):
        if not reads_the_target_alike(case, far):
            continue
        ours = operating_point(case.genuine, case.impostor, far)
        between = sum(ours.threshold < score < threshold for score in case.genuine)
        assert ours.impostor_accepted == passed, (case, far)
        assert ours.genuine_accepted - found == between, (case, far)
        higher = [score for score in case.impostor if score > ours.threshold]
        if ours.threshold == -math.inf:
            assert threshold == math.nextafter(min(case.impostor), -math.inf), (case, far)
        elif higher:
            assert threshold == min(higher), (case, far)
        else:
            assert threshold == math.nextafter(ours.threshold, math.inf), (case, far)
            assert between == 0, (case, far)
        compared += 1
    assert compared > 3500


def test_a_target_just_below_a_fraction_is_exceeded_there(answers):
    """0.333... of 40 digits is below 1/3 and equal to it as a float: of three impostors bob.measure accepts one."""
    exceeded = 0
    for case, far, (_, passed, _) in decided(answers):
        if reads_the_target_alike(case, far):
            continue
        ours = operating_point(case.genuine, case.impostor, far)
        if passed != ours.impostor_accepted:  # else scores tie at the impostor in question
            exceeded += 1
            assert passed > ours.impostor_accepted, (case, far)
            assert Fraction(passed, len(case.impostor)) > Fraction(far), (case, far)
    assert exceeded > 30


def test_scores_that_it_cannot_step_past(answers):
    """At an infinite or huge score the next float above score + 1 is the score: at FAR 0 it still accepts those."""
    exceeded = 0
    for case, points in zip(CASES, answers["points"], strict=True):
        if points is None or within_reach(max(case.impostor)):
            continue
        for far, (_, passed, _) in zip(case.fars, points, strict=True):
            allowed = math.floor(Fraction(far) * len(case.impostor))
            assert operating_point(case.genuine, case.impostor, far).impostor_accepted <= allowed, (case, far)
            exceeded += passed > allowed
    assert exceeded > 50


def test_searches(answers):
    """Its cut just above a score accepts what ours at the score does; ties with the mate lose in both."""
    for search, found in zip(make_galleries(len(answers["galleries"])), answers["galleries"], strict=True):
        mates, others = search.mates, search.others
        assert found["cmc"] == brute_force.cumulative_matches(mates, others)
        scores = sorted({score for part in mates + others for score in part})
        for place, score in enumerate(scores):
            at, above = 2 * place, 2 * place + 1
            if score > -math.inf:  # minus infinity has no float below it
                lower = math.nextafter(score, -math.inf)
                assert found["false_alarms"][at] == brute_force.false_alarms(mates, others, lower), search
                assert found["identified"][at] == brute_force.found(mates, others, lower), search
            if score < math.inf:
                assert found["false_alarms"][above] == brute_force.false_alarms(mates, others, score), search
                assert found["identified"][above] == brute_force.found(mates, others, score), search


def test_bounds(answers):
    for total, pairs in enumerate(answers["bounds"], start=1):
        for accepted, pair in enumerate(pairs):
            assert binomial_bounds(accepted, total) == pytest.approx(tuple(pair), rel=0, abs=1e-9)
