"""An FRR promised beside a FAR, and the scores between their two thresholds."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from scipy.stats import binom, norm

from verisphere.decide import SortedScores, TooFewComparisonsError, independent_threshold
from verisphere.decide.both_errors import FAR_CHANCE, FRR_CHANCE, AskedFrr, Unsure, folded
from verisphere.decide.sample_size import CHANCE, comparisons_needed, independent_rank

RANDOM = np.random.default_rng(0)


def asked(numbers, frr="0.05", fold="one"):
    return AskedFrr(frr, fold, SortedScores(numbers))


@pytest.mark.parametrize("chance", [FAR_CHANCE, FRR_CHANCE, Decimal("0.05"), Decimal("0.5")])
@pytest.mark.parametrize("rate", ["0.2", "0.03", "1e-3"])
def test_the_rank_is_the_largest_whose_promise_fails_seldom_enough(chance, rate):
    for number in (1, 2, 40, 137, 1000, 8000):
        rank = independent_rank(number, rate, "confident", chance)
        fails = binom.cdf(np.arange(-1, number), number, float(rate))  # of rank 0, 1, ...
        assert rank == np.flatnonzero(fails <= float(chance) * (1 + 1e-12))[-1]
    needed = comparisons_needed(rate, "confident", chance)
    assert independent_rank(needed, rate, "confident", chance) == 1
    assert needed == 1 or independent_rank(needed - 1, rate, "confident", chance) == 0


def test_both_chances_add_up_to_that_of_one_promise():
    assert FAR_CHANCE + FRR_CHANCE == CHANCE


def test_scores_between_the_thresholds_are_unsure():
    impostor, genuine = RANDOM.normal(size=400), RANDOM.normal(2.5, 1, 300)
    found = independent_threshold(impostor, "0.02", "confident", 800, 3, frr=asked(genuine))
    assert found.rank == independent_rank(400, "0.02", "confident", FAR_CHANCE)
    assert (
        found.threshold
        == np.sort(impostor)[-found.rank]
        > independent_threshold(impostor, "0.05", "confident").threshold
    )
    low, rank = found.frr.threshold, found.frr.rank
    assert rank == binom.ppf(0.01, 300, 0.05) == 7  # ...(rank - 1) of Bin(300, 0.05) <= 1 %
    assert low == np.sort(genuine)[rank - 1] < found.threshold
    scores = low, found.threshold, np.nextafter(low, -9), found.threshold + 1e-9
    assert [found.unsure(score) for score in scores] == [True, True, False, False]
    assert found.frr.measured == Unsure(
        np.mean(genuine < low),
        np.mean((genuine >= low) & (genuine <= found.threshold)),
        np.mean((impostor >= low) & (impostor <= found.threshold)),
    )
    assert "at most 1 in 20 pairs of one person are called different" in found.promise()
    assert f"from {low:.6g} to {found.threshold:.6g} the answer is unsure" in found.promise()
    assert "(rank 7 from below of 300 people with two images or more)" in found.meaning()
    assert "We are 95 % confident" in found.promise()


def test_no_score_is_unsure_where_the_thresholds_cross():
    found = independent_threshold(RANDOM.normal(size=400), "0.02", "expected", frr=asked(RANDOM.normal(9, 1, 300)))
    assert found.frr.threshold > found.threshold
    assert not any(found.unsure(score) for score in (found.threshold, found.frr.threshold, 5.0))
    assert (found.frr.measured.genuine, found.frr.measured.impostor) == (0, 0)
    assert "no score is unsure" in found.promise()
    assert "On average over calibrations" in found.promise()


def test_too_few_people_of_either_kind_are_refused_with_the_number_needed():
    impostor, genuine = RANDOM.normal(size=60), RANDOM.normal(size=89)
    with pytest.raises(TooFewComparisonsError, match=r"FAR 0\.05 beside an FRR needs 63 comparisons .* add 6 people"):
        independent_threshold(impostor, "0.05", "confident", frr=asked(genuine))
    with pytest.raises(TooFewComparisonsError, match=r"FRR 0\.05 needs 90 people .* are 89; possible: FRR 5\.05e-2"):
        independent_threshold(impostor, "0.1", "confident", frr=asked(genuine))


def test_a_promise_that_was_altered_is_refused(unchecked):
    found = independent_threshold(RANDOM.normal(size=400), "0.02", "confident", frr=asked(RANDOM.normal(2, 1, 300)))
    assert found.frr is not None
    for altered in (
        {"frr": replace(found.frr, rank=found.frr.rank + 1)},
        {"frr": replace(found.frr, people=250)},
        {"frr": replace(found.frr, frr_target="0.04")},
        {"frr": None},  # the rank is that of a FAR alone
    ):
        with pytest.raises(ValueError, match=r"is not what guarantee 'confident' takes"):
            replace(found, **altered)
    with pytest.raises(ValueError, match="fold"):
        replace(found.frr, fold="best")
    with pytest.raises(ValueError, match="between 0 and 1"):
        Unsure(0.1, -0.1, 0)
    with pytest.raises(ValueError, match="those of a kind together"):
        Unsure(0.6, 0.5, 0)


def test_each_fold_takes_its_number_of_a_person():
    scores = RANDOM.normal(size=300)
    person = RANDOM.integers(40, size=300)
    people = [scores[person == one] for one in np.unique(person)]
    assert folded(scores, person, "lowest", 0).tolist() == [one.min() for one in people]
    assert folded(scores, person, "median", 0).tolist() == [np.sort(one)[(len(one) - 1) // 2] for one in people]
    drawn = np.stack([folded(scores, person, "one", seed) for seed in range(400)])
    assert all(np.isin(column, one).all() for column, one in zip(drawn.T, people, strict=True))
    assert np.allclose(drawn.mean(0), [one.mean() for one in people], atol=0.35)
    assert all(len(np.unique(column)) == len(one) for column, one in zip(drawn.T, people, strict=True))


@pytest.mark.parametrize("shared", [0.0, 0.8])
def test_both_promises_hold_together_in_95_of_100_sets(shared):
    """Genuine and impostor numbers of the same people: independent of each other, or high and low together."""
    random, sets, far, frr = np.random.default_rng(5), 1500, 0.05, 0.1
    high, low = norm.isf(far), norm.ppf(frr)
    kept = np.zeros((3, sets), bool)
    for number in range(sets):
        people = random.normal(size=240)
        mixed = [shared * people + (1 - shared**2) ** 0.5 * random.normal(size=240) for _ in range(2)]
        found = independent_threshold(mixed[0][::2], far, "confident", frr=asked(mixed[1], str(frr)))
        assert found.frr is not None
        kept[:2, number] = found.threshold >= high, found.frr.threshold <= low
    kept[2] = kept[0] & kept[1]
    for held, least in zip(kept.mean(1), (0.96, 0.99, 0.95), strict=True):
        assert held >= least - 3 * (least * (1 - least) / sets) ** 0.5
