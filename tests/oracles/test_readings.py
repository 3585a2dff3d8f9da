"""How often other readings of TAR at a FAR differ from ours: the table of docs/lab/oracles.md, counted again."""

import json
import math
from fractions import Fraction
from pathlib import Path

import pytest

from verisphere.decide import SortedScores, threshold_at

from .cases import POOLS, make_cases
from .readings import READINGS, Reading

DOCS = Path(__file__).parents[2] / "docs" / "lab" / "oracles.md"
BOB = "bob.measure 6.1.1 `far_threshold`, `farfrr`"


@pytest.fixture(scope="module")
def decided():
    """(case, target, our TAR and FAR, bob.measure's) over the pools of cosines, two impostors or more."""
    answers = json.loads((Path(__file__).parent / "bob" / "answers.json").read_text())["points"]
    listed = []
    for number, (case, points) in enumerate(zip(make_cases(), answers, strict=True)):
        if number % len(POOLS) > 2 or points is None:
            continue
        genuine, impostor = SortedScores(case.genuine), SortedScores(case.impostor)
        for far, (_, passed, found) in zip(case.fars, points, strict=True):
            threshold = threshold_at(impostor, far)
            ours = Reading(genuine.above(threshold) / len(case.genuine), impostor.above(threshold) / len(case.impostor))
            theirs = Reading(found / len(case.genuine), passed / len(case.impostor))
            listed.append((case, far, ours, theirs))
    return listed


def row(words, decided, read):
    """One line of the table: how often TAR is lower than ours, equal, higher; how often FAR is above its target."""
    lower = equal = higher = above = 0
    for case, far, ours, theirs in decided:
        other = read(case, far, theirs)
        alike = math.isclose(other.tar, ours.tar, abs_tol=1e-6)  # torchmetrics counts in float32
        lower += not alike and other.tar < ours.tar
        equal += alike
        higher += not alike and other.tar > ours.tar
        if other.far is not None:
            passed = round(other.far * len(case.impostor))
            above += passed > Fraction(far) * len(case.impostor)
    exceeded = "-" if other.far is None else f"{above:,}"
    return f"| {words} | {lower:,} | {equal:,} | {higher:,} | {exceeded} |"


def test_how_many_are_decided(decided):
    assert f"{len(decided):,} decisions" in DOCS.read_text()


def test_bob_measure(decided):
    assert row(BOB, decided, lambda case, far, theirs: theirs) in DOCS.read_text()


@pytest.mark.parametrize("words", READINGS)
def test_libraries(decided, words):
    assert row(words, decided, lambda case, far, theirs: READINGS[words](case, far)) in DOCS.read_text()
