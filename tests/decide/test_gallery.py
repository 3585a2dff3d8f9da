"""A threshold of a gallery: ranks by hand, the wrong labels that it allows for, and what is said."""

import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from verisphere.decide import (
    NO_REVIEW,
    FoundRate,
    GalleryThreshold,
    Review,
    TooFewComparisonsError,
    gallery_threshold,
    independent_rank,
    one_probe_each,
    strangers_needed,
)

DRAWS = np.random.default_rng(0).normal(size=3000)


def test_the_threshold_is_the_statistic_of_the_rank_of_independent_draws():
    found = gallery_threshold(DRAWS, "1e-2", people=1000)
    rank = independent_rank(3000, "1e-2", "confident")
    assert (found.rank, found.threshold) == (rank, np.sort(DRAWS)[::-1][rank - 1])
    assert (found.strangers, found.people, found.statistic, found.review) == (3000, 1000, "best", NO_REVIEW)
    assert gallery_threshold(DRAWS, "1e-2", "expected", people=1000).rank == 30


@pytest.mark.parametrize(("fpir", "confident", "expected"), [("1e-1", 29, 9), ("1e-2", 299, 99), ("1e-3", 2995, 999)])
def test_how_many_strangers_are_needed(fpir, confident, expected):
    assert strangers_needed(fpir, "confident") == confident
    assert strangers_needed(fpir, "expected") == expected
    gallery_threshold(DRAWS[:confident], fpir, people=10)
    with pytest.raises(
        TooFewComparisonsError, match=rf"needs {confident:,} strangers, .* got {confident - 1:,}: add 1;"
    ):
        gallery_threshold(DRAWS[: confident - 1], fpir, people=10)


def test_a_refusal_names_what_is_possible():
    with pytest.raises(TooFewComparisonsError) as caught:
        gallery_threshold(DRAWS[:150], "1e-2", people=10)
    line = "possible: 'confident' at FPIR 1.98e-2 or higher, 'expected' at FPIR 6.63e-3 or higher"
    assert line in str(caught.value)


def test_a_refusal_with_wrong_verdicts_names_a_rate_that_these_strangers_allow():
    review = Review(reviewed=4, removed=3, unfound=1, wrong=2)
    with pytest.raises(TooFewComparisonsError) as caught:
        gallery_threshold(DRAWS[:400], "1e-2", people=10, review=review)
    possible = dict(re.findall(r"'(\w+)' at FPIR (\S+) or higher", str(caught.value)))
    assert set(possible) == {"confident", "expected"}
    for guarantee, rate in possible.items():
        assert strangers_needed(rate, guarantee, review) <= 400 < strangers_needed(float(rate) / 1.1, guarantee, review)


@pytest.mark.parametrize("fpir", ["0", "1", "1.5", "-1", "x", "1e-13"])
def test_an_fpir_that_no_guarantee_can_be_about(fpir):
    with pytest.raises(ValueError, match=r"an? FPIR"):
        gallery_threshold(DRAWS, fpir, people=10)


def test_what_cannot_be_a_threshold_is_refused():
    with pytest.raises(ValueError, match="NaN"):
        gallery_threshold([0.1, np.nan] * 200, "1e-2", people=10)
    with pytest.raises(ValueError, match="must be finite"):
        gallery_threshold(np.full(299, np.inf), "1e-2", people=10)
    with pytest.raises(ValueError, match="approximate"):
        gallery_threshold(DRAWS, "1e-2", "approximate", people=10)
    with pytest.raises(ValueError, match="statistic is 'worst'; allowed are best"):
        gallery_threshold(DRAWS, "1e-2", people=10, statistic="worst")
    with pytest.raises(ValueError, match="rank 22 of 3,000 strangers is not what is allowed: 21"):
        GalleryThreshold("1e-2", "confident", 0.5, 3000, 22, 10)
    with pytest.raises(ValueError, match="at least one person"):
        gallery_threshold(DRAWS, "1e-2", people=0)


# --- wrong labels ---


def test_unfound_wrong_labels_count_as_no_strangers_and_wrong_verdicts_move_the_rank():
    plain = independent_rank(3000, "1e-2", "confident")
    assert Review(unfound=1000).rank(3000, "1e-2", "confident") == independent_rank(2000, "1e-2", "confident") < plain
    assert Review(5, 5, wrong=2).rank(3000, "1e-2", "confident") == plain - 2
    assert gallery_threshold(DRAWS, "1e-2", people=9, review=Review(5, 5, 0, 2)).rank == plain - 2


def test_no_more_verdicts_can_be_wrong_than_comparisons_were_removed():
    assert (Review(5, 1, wrong=3).errors, Review(5, 3, wrong=3).errors) == (1, 3)  # what was asked for is kept
    assert Review(5, 1, wrong=3).rank(3000, "1e-2", "confident") == Review(5, 1, wrong=1).rank(
        3000, "1e-2", "confident"
    )


def test_at_the_fewest_strangers_no_wrong_verdict_can_be_stood():
    review = Review(reviewed=3, removed=1, wrong=1)
    needed = strangers_needed("1e-2", "confident", review)
    assert (review.rank(needed, "1e-2", "confident"), review.rank(needed - 1, "1e-2", "confident")) == (1, 0)
    with pytest.raises(
        TooFewComparisonsError, match=rf"needs {needed} strangers, allowing for 1 wrong, .*: add {needed - 299};"
    ):
        gallery_threshold(DRAWS[:299], "1e-2", people=10, review=review)


@pytest.mark.parametrize("rate", ["0.9", "0.5", "1e-1", "1e-3"])
@pytest.mark.parametrize("guarantee", ["confident", "expected"])
def test_the_fewest_for_any_number_of_wrong_verdicts(rate, guarantee):
    for wrong in (0, 1, 7):
        review = Review(9, 9, unfound=3, wrong=wrong)
        needed = strangers_needed(rate, guarantee, review)
        assert review.rank(needed, rate, guarantee) >= 1 > review.rank(needed - 1, rate, guarantee)


def test_the_rank_that_is_left_is_never_below_that_of_the_true_strangers():
    """Every way to remove, plant and overlook in a small case: the threshold is at least the true j-th value."""
    true = [8.0, 7.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.5, 0.2, 0.1]
    planted = [9.0, 6.0]  # wrong labels: one of them is found
    for dropped in combinations(true, 1):  # and one true stranger is dropped by a wrong verdict
        for unfound in planted:
            left = [value for value in true if value not in dropped] + [unfound]
            review = Review(reviewed=2, removed=2, unfound=1, wrong=1)
            rank = review.rank(len(left), "0.25", "expected")
            wanted = independent_rank(len(true), "0.25", "expected")
            assert rank >= 1
            assert sorted(left)[::-1][rank - 1] >= sorted(true)[::-1][wanted - 1]


@pytest.mark.parametrize(
    ("numbers", "words"),
    [((1, 2, 0, 0), "2 removed of 1"), ((0, 0, -1, 0), "unfound must be at least 0")],
)
def test_a_review_that_cannot_be(numbers, words):
    with pytest.raises(ValueError, match=words):
        Review(*numbers)


# --- one draw a person ---


def test_of_several_photographs_of_a_person_one_is_drawn():
    person = np.array([0, 0, 0, 1, 2, 2])
    drawn = [one_probe_each(person, seed) for seed in range(50)]
    assert all(person[rows].tolist() == [0, 1, 2] for rows in drawn)
    assert {int(rows[0]) for rows in drawn} == {0, 1, 2}
    assert one_probe_each(person, 4).tolist() == one_probe_each(person, 4).tolist()
    with pytest.raises(ValueError, match="seed"):
        one_probe_each(person, -1)


# --- words ---


def test_the_promise_in_words():
    found = gallery_threshold(DRAWS, "1e-2", people=1000, review=Review(20, 3, 1, 1))
    assert found.promise() == (
        "We are 95 % confident that at most 1 in 100 strangers are found in this gallery of 1,000 people, provided "
        "that the review of 20 pairs is right, but for at most 1 of those found to be the same, and at most 1 more "
        "show the same person under two names; how many enrolled people are missed is not recorded."
    )
    for words in ("strangers are drawn as those calibrated on", "none of whom is enrolled", "without a look"):
        assert words in found.meaning()
    average = gallery_threshold(DRAWS, "1e-2", "expected", people=2)
    assert average.promise().startswith("On average over calibrations, at most 1 in 100 strangers are found")
    assert "up to 48 % of which find more" in average.meaning()


@pytest.mark.parametrize(
    ("identified", "words"),
    [
        (975, "1 in 40 probes of enrolled people are missed (between 1 in 62 and 1 in 27)"),
        (1000, "none of 1,000 probes of enrolled people were missed (at most 1 in 270)"),
        (0, "all 1,000 probes of enrolled people were missed (at least 99.63 %)"),
    ],
)
def test_misses_in_words(identified, words):
    assert str(FoundRate.of("probes.npz", identified, 1000)) == words
    with pytest.raises(ValueError, match="1001 of 1000"):
        FoundRate.of("probes.npz", 1001, 1000)


def test_one_probe_is_said_as_one():
    assert str(FoundRate.of("p.npz", 1, 1)) == "none of 1 probe of enrolled people was missed (at most 97.5 %)"
    assert str(FoundRate.of("p.npz", 0, 1)) == "the only probe of enrolled people was missed (at least 1 in 40)"
    assert "gallery of 1 person;" in gallery_threshold(DRAWS, "1e-2", people=1).promise()


def test_bounds_are_those_of_the_counts():
    with pytest.raises(ValueError, match="of TPIR are not those of 9 of 10 probes"):
        replace(FoundRate.of("p.npz", 9, 10), tpir_lower_95=0.8)
