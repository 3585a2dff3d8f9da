"""Paired figures over redrawn people, against the definition by brute force on copies of people, and by hand."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from redrawing import draw_people, pairs_of_images
from verisphere.base.vocabulary import Redrawing
from verisphere.decide import PairScores, one_threshold, tar_differences_at
from verisphere.decide.intervals import Redrawn, tars_redrawn
from verisphere.decide.paired import RedrawnSpread, mean_difference, spread_redrawn

FARS = ("0.02", "0.1", "0.29")
Scored = tuple[np.ndarray, np.ndarray, np.ndarray]  # scores of all pairs of images, person and domain of each image


def scored(seed: int, people: int = 8, ties: bool = False) -> Scored:
    """Images of people in two domains; most people are in one of them, some in both."""
    generator = np.random.default_rng(seed)
    person = np.repeat(np.arange(people), 4)
    domain = np.where(person % 3 == 0, np.arange(len(person)) % 2, person % 2)
    score = generator.normal(size=(len(person), len(person))) + 2.5 * (person[:, None] == person[None, :])
    score = score + score.T + 0.7 * (domain[:, None] + domain[None, :])
    return (np.round(score) if ties else score), person, domain


def pairs_of(case: Scored, domain: int | None = None) -> PairScores:
    """All pairs of images, or those within a domain, with the numbers of people kept."""
    score, person, domains = case
    return pairs_of_images(score, person, None if domain is None else np.flatnonzero(domains == domain))


def spread_of_copies(case: Scored, draws: np.ndarray, far: str) -> tuple[float, float, float] | None:
    """The definition: each person as often as drawn, each copy with all images; all pairs of images.

    Two copies of one person make no pair. None where a domain has no genuine or no impostor pair.
    """
    score, person, domain = case
    images = [(image, (person[image], copy)) for image in range(len(person)) for copy in range(draws[person[image]])]
    within: dict[str, tuple[list[float], list[float]]] = {"0": ([], []), "1": ([], [])}
    across = []
    for (one, whose), (other, whose_else) in itertools.combinations(images, 2):
        if whose == whose_else and domain[one] == domain[other]:
            within[str(domain[one])][0].append(score[one, other])
        elif whose[0] != whose_else[0]:
            (within[str(domain[one])][1] if domain[one] == domain[other] else across).append(score[one, other])
    if not all(genuine and impostor for genuine, impostor in within.values()):
        return None
    found = one_threshold(within, far=far, across=across)
    return found.gamma, math.sqrt(found.tar_variance), math.sqrt(found.neg_log10_far_variance)


@pytest.mark.parametrize("far", FARS)
@pytest.mark.parametrize("ties", [False, True])
def test_a_replicate_is_physical_copies_of_people(far: str, ties: bool):
    undefined = 0
    for seed in range(3):
        case = scored(seed, people=6, ties=ties)
        domains = {str(number): pairs_of(case, number) for number in (0, 1)}
        found = spread_redrawn(pairs_of(case), domains, far, redrawing=Redrawing(12, seed))
        figures = found.gamma, found.tar_std, found.neg_log10_far_std
        for replicate, draws in enumerate(draw_people(6, 12, seed)):
            expected = spread_of_copies(case, draws, far)
            undefined += expected is None
            for place, figure in enumerate(figures):
                seen = figure.replicates[replicate]
                assert np.isnan(seen) if expected is None else seen == pytest.approx(expected[place], abs=1e-12)
    assert undefined < 30


@pytest.mark.parametrize("far", FARS)
def test_the_value_is_that_of_one_threshold(far: str):
    case = scored(5)
    found = spread_redrawn(pairs_of(case), {str(n): pairs_of(case, n) for n in (0, 1)}, far, redrawing=Redrawing(1))
    expected = spread_of_copies(case, np.ones(8, int), far)
    assert (found.gamma.value, found.tar_std.value, found.neg_log10_far_std.value) == pytest.approx(expected)


def test_a_domain_that_accepts_everything_is_no_distance_from_another_that_does():
    case = scored(2)
    found = spread_redrawn(pairs_of(case), {str(n): pairs_of(case, n) for n in (0, 1)}, "1", redrawing=Redrawing(5))
    assert found.gamma.value == found.tar_std.value == found.neg_log10_far_std.value == 0
    assert set(found.gamma.replicates.tolist()) <= {0.0}


def test_one_seed_is_the_difference_of_two_models():
    ours, theirs = pairs_of(scored(0)), pairs_of(scored(1))
    redrawn = [tars_redrawn(pairs, FARS, redrawing=Redrawing(40, 3)) for pairs in (ours, theirs)]
    for far, one, other in zip(FARS, *redrawn, strict=True):
        assert mean_difference([one], [other]) == tar_differences_at(ours, theirs, [far], Redrawing(40, 3))[0]


def test_an_arm_against_itself_differs_by_nothing():
    arm = [tars_redrawn(pairs_of(scored(seed)), ["0.1"], redrawing=Redrawing(20))[0] for seed in range(3)]
    interval = mean_difference(arm, arm)
    assert (interval.value, interval.lower_95, interval.upper_95, interval.holds_zero) == (0.0, 0.0, 0.0, True)


def test_the_mean_over_seeds_by_hand():
    arm = [Redrawn(0.9, np.array([0.8, 0.9, np.nan])), Redrawn(0.7, np.array([0.6, 0.7, 0.7]))]
    other = [Redrawn(0.5, np.array([0.5, 0.3, 0.5])), Redrawn(0.6, np.array([0.5, 0.5, 0.5]))]
    # differences 0.4 and 0.1; replicates (0.3 + 0.1) / 2 = 0.2 and (0.6 + 0.2) / 2 = 0.4, the third has none
    interval = mean_difference(arm, other)
    assert interval.value == pytest.approx(0.25)
    assert (interval.lower_95, interval.upper_95) == pytest.approx((0.2 + 0.025 * 0.2, 0.4 - 0.025 * 0.2))
    assert interval.replicates == 3


def test_replicates_of_a_spread_are_reflected_at_the_value():
    """Values 0.1 - 0.3; the replicates' middle lies 0.1 too high, and so the interval ends as much below."""
    arm = [Redrawn(0.1, np.array([0.2, 0.2, 0.3]), spread=True)]
    other = [Redrawn(0.3, np.array([0.3, 0.3, 0.3]), spread=True)]
    plain = mean_difference([Redrawn(0.1, arm[0].replicates)], [Redrawn(0.3, other[0].replicates)])
    found = mean_difference(arm, other)
    assert (plain.lower_95, plain.upper_95) == pytest.approx((-0.1, -0.005))
    assert (found.value, found.lower_95, found.upper_95) == pytest.approx((-0.2, -0.395, -0.3))
    assert not found.holds_zero


def test_a_gap_that_is_closed_is_seen_to_be():
    """People of two domains, one of whose impostors score higher; another model has that no more: 30 sets of each."""
    seen = percentiles = 0
    for number in range(30):
        drawing = np.random.default_rng(number)
        gap, none = (spread_of(drawing, shift).gamma for shift in (0.06, 0.0))
        seen += not mean_difference([none], [gap]).holds_zero
        plain = [replace(one, spread=False) for one in (none, gap)]
        percentiles += not mean_difference(plain[:1], plain[1:]).holds_zero
    assert seen >= 24
    assert percentiles < seen - 5  # these lean towards "no difference"


def spread_of(drawing: np.random.Generator, shift: float) -> RedrawnSpread:
    """60 people with two images each: a pair's score is noise and what its people bring, more in the second domain."""
    images, domain = np.repeat(np.arange(60), 2), np.arange(60) % 2
    own = drawing.normal(0, 0.05, 60) + shift * domain
    left, right = np.triu_indices(120, 1)
    first, second = images[left], images[right]
    score = 0.5 * (own[first] + own[second]) + drawing.normal(0, 0.1, len(left)) + 0.5 * (first == second)

    def pairs(chosen: np.ndarray, count: np.ndarray) -> PairScores:
        genuine, impostor = chosen & (first == second), np.flatnonzero(chosen & (first != second))
        impostor = impostor[np.argsort(-score[impostor], kind="stable")]
        people = np.stack([first, second], 1)
        return PairScores(score[genuine], first[genuine], score[impostor], people[impostor], count)

    everyone, both = np.ones(len(left), bool), np.full(60, 2)
    inside = {
        str(name): pairs((domain[first] == name) & (domain[second] == name), np.where(domain == name, 2, 0))
        for name in (0, 1)
    }
    return spread_redrawn(pairs(everyone, both), inside, "0.05", redrawing=Redrawing(60, 1))


def test_two_infinite_figures_have_no_difference():
    infinite = Redrawn(math.inf, np.array([math.inf, 1.0]))
    interval = mean_difference([infinite], [Redrawn(math.inf, np.array([math.inf, 0.5]))])
    assert math.isnan(interval.value)
    assert (interval.lower_95, interval.upper_95) == (0.5, 0.5)


@pytest.mark.parametrize(
    ("ours", "theirs", "message"),
    [
        ([2], [], "1 and 0 trainings do not make pairs"),
        ([], [], "0 and 0 trainings do not make pairs"),
        ([2], [3], r"figures over \[2, 3\] replicates are not of the same draws"),
    ],
)
def test_what_does_not_pair_is_refused(ours: list[int], theirs: list[int], message: str):
    arms = [[Redrawn(0.5, np.zeros(length)) for length in lengths] for lengths in (ours, theirs)]
    with pytest.raises(ValueError, match=message):
        mean_difference(*arms)


def test_a_domain_of_other_people_is_refused():
    case = scored(0)
    with pytest.raises(ValueError, match="domain 'b' does not number the 8 people of the whole set"):
        spread_redrawn(pairs_of(case), {"a": pairs_of(case, 0), "b": pairs_of(scored(0, people=5), 1)}, "0.1")
    with pytest.raises(ValueError, match="no domain"):
        spread_redrawn(pairs_of(case), {}, "0.1")
