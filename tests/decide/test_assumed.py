"""Thresholds under an assumption: what they state, what is refused, and what a refusal offers."""

from dataclasses import replace

import numpy as np
import pytest

from made_pairs import all_pairs, likeness
from verisphere.base.vocabulary import Redrawing
from verisphere.decide import TooFewComparisonsError, independent_rank, independent_threshold
from verisphere.decide.assumed import assumed_threshold, check_given, scores_needed
from verisphere.decide.assumption import Assumption, under_assumptions
from verisphere.decide.capped import capped_rank

PAIRS = all_pairs(likeness(300, 0.0, 3))


def test_a_capped_threshold_is_the_score_of_its_rank_and_says_what_it_assumes():
    found = assumed_threshold(PAIRS, "1e-3", "capped", cap=2.0, redrawing=Redrawing(seed=7))
    rank = capped_rank(300, "1e-3", 2)
    assert (found.rank, found.threshold) == (rank, PAIRS.impostor[rank - 1])
    assert (found.people, found.comparisons, found.confidence, found.seed) == (300, 44_850, 0.95, 7)
    assert found.promise().startswith(
        "We are 95 % confident that at most 1 in 1,000 pairs of strangers pass, provided that people differ no more "
        "than a cap of 2 allows;"
    )
    assert "at most 2 times the square of the FAR; among these people the factor is" in found.meaning()
    assert found.meaning().endswith(f"(44,850 pairs of 300 people, one image each; rank {rank})")


def test_a_convention_takes_pairs_as_draws_and_claims_no_confidence():
    found = assumed_threshold(PAIRS, "1e-3", "convention")
    assert found.rank == independent_rank(44_850, "1e-3", "confident")
    assert assumed_threshold(all_pairs(likeness(120, 0.0, 0)), "1e-3", "convention").rank == 3
    assert found.confidence is None
    assert found.promise().startswith("By the convention that takes all pairs as independent, which they are not, at")
    assert "no confidence follows" in found.meaning()


def test_a_tail_states_its_fit_and_its_replicates():
    found = assumed_threshold(PAIRS, "1e-4", "tail", redrawing=Redrawing(replicates=20, seed=1))
    assert (found.rank, found.confidence, found.replicates) == (None, None, 20)
    assert found.assumption.tail.excesses == 448
    assert found.promise().startswith("By an estimate from a fitted tail, at most 1 in 10,000 pairs of strangers pass;")
    assert "over 20 redrawings of the people; 44,850 pairs of 300 people" in found.meaning()


def test_a_cap_that_the_people_contradict_is_refused_and_a_missing_one_too():
    differing = all_pairs(likeness(300, 0.7, 3))
    with pytest.raises(ValueError, match=r"these people contradict a cap of 1\.5 at FAR 1e-2: among these people"):
        assumed_threshold(differing, "1e-2", "capped", cap=1.5)
    with pytest.raises(ValueError, match="guarantee 'capped' takes a cap, such as --cap 2"):
        check_given("capped", None)
    with pytest.raises(ValueError, match="a cap is for guarantee 'capped', not for 'tail'"):
        check_given("tail", 2.0)


def test_too_few_people_are_told_what_they_can_have():
    few = all_pairs(likeness(60, 0.0, 0))
    what = r"needs 90 people; got 60; possible: a cap of at most 1\.7 at FAR 1e-1$"
    with pytest.raises(TooFewComparisonsError, match=what):
        assumed_threshold(few, "1e-3", "capped", cap=2.0)
    assert assumed_threshold(few, "1e-1", "capped", cap=1.7).rank
    with pytest.raises(TooFewComparisonsError, match=r"cap of 2 at FAR 1e-3 needs 90 people; got 10$"):
        assumed_threshold(all_pairs(likeness(10, 0.0, 0)), "1e-3", "capped", cap=2.0)
    with pytest.raises(
        TooFewComparisonsError,
        match=r"needs 479 people; got 300; possible: FAR 1\.\d\de-4 with this cap, or a cap of at most 6\.\d at ",
    ):
        assumed_threshold(PAIRS, "1e-3", "capped", cap=10.0)
    with pytest.raises(TooFewComparisonsError, match="guarantee 'convention' at FAR 1e-4 needs 246 people; got 60"):
        assumed_threshold(few, "1e-4", "convention")
    with pytest.raises(TooFewComparisonsError, match=r"no method can promise it .* 'capped' with a cap of"):
        independent_threshold(np.zeros(200), "1e-3", "confident", people=400)
    with pytest.raises(ValueError, match="needs 400 scores in the tail, so 284 people; got 60"):
        assumed_threshold(few, "1e-4", "tail", redrawing=Redrawing(replicates=2, seed=0))
    assert under_assumptions("1e-6", 20) == ""


def test_scores_that_are_read_reach_the_rank_and_the_tail():
    assert scores_needed("1e-3", "convention", 300, None) == independent_rank(44_850, "1e-3", "confident")
    assert scores_needed("1e-4", "tail", 300, None) == 449
    assert scores_needed("1e-3", "capped", 300, 2.0) == 4_485


def test_a_threshold_that_states_another_rank_or_assumption_is_refused():
    found = assumed_threshold(PAIRS, "1e-3", "capped", cap=2.0)
    with pytest.raises(ValueError, match="is not what guarantee 'capped' takes"):
        replace(found, rank=found.rank + 1)
    with pytest.raises(ValueError, match="comes with another assumption, or with none"):
        replace(found, assumption=None)
    with pytest.raises(ValueError, match="comes with another assumption"):
        replace(found, assumption=Assumption("convention"))
    with pytest.raises(ValueError, match=r"has confidence 0\.95"):
        replace(found, confidence=None)
    with pytest.raises(ValueError, match="are not all pairs"):
        replace(found, comparisons=100)
    with pytest.raises(ValueError, match="a cap belongs to guarantee 'capped'"):
        Assumption("tail", cap=2.0)
    with pytest.raises(ValueError, match="rests on no assumption"):
        Assumption("confident")


@pytest.mark.parametrize("cap", [50.0, 1e308])
def test_a_cap_that_these_people_cannot_have_is_another_rank_in_a_file(cap):
    found = assumed_threshold(PAIRS, "1e-3", "capped", cap=2.0)
    for rank in (found.rank, 0):
        with pytest.raises(ValueError, match=f"rank {rank} of 44,850 comparisons is not what guarantee 'capped' takes"):
            replace(found, rank=rank, assumption=replace(found.assumption, cap=cap))


def test_an_observed_cap_or_a_tail_that_contradicts_itself_is_refused():
    capped = assumed_threshold(PAIRS, "1e-3", "capped", cap=2.0).assumption
    for wrong in ({"fars": ()}, {"caps": ()}, {"fars": (), "caps": ()}, {"lower": 9.0, "upper": 9.0}, {"upper": 0.1}):
        with pytest.raises(ValueError, match="an observed cap lies between its bounds"):
            replace(capped.observed, **wrong)
    with pytest.raises(ValueError, match=r"a cap of 2.0 is contradicted by the observed one"):
        replace(capped, observed=replace(capped.observed, lower=2.1, at_target=2.2, upper=2.3))
    tail = assumed_threshold(PAIRS, "1e-4", "tail", redrawing=Redrawing(replicates=2, seed=1))
    other = replace(tail.assumption, tail=replace(tail.assumption.tail, excesses=500))
    with pytest.raises(ValueError, match="a tail of 500 scores is not that of 44,850 pairs"):
        replace(tail, assumption=other)
