"""Dropped against noisy samples by hand, and the truth of a list."""

import math
from pathlib import Path

import numpy as np
import pytest

from verisphere.base.identity import names_taken
from verisphere.base.words import Names
from verisphere.study.clean.truth import NoiseDropped, agreement, noisy_labels, truth_of_list


def test_counts_and_rates_by_hand():
    # of 10 samples 4 are noisy; 3 of these and 2 clean ones are dropped, so that 1 of 5 kept ones is noisy
    dropped = np.array([True] * 3 + [False] + [True] * 2 + [False] * 4)
    found = agreement(dropped, np.arange(10) < 4)
    assert found == NoiseDropped(noisy=4, clean=6, noisy_dropped=3, clean_dropped=2)
    assert (found.dropped, found.precision, found.recall) == (5, 3 / 5, 3 / 4)
    assert (found.noise_before, found.noise_after) == (4 / 10, 1 / 5)


def test_a_rate_of_nothing_is_no_number():
    nothing_dropped = NoiseDropped(noisy=0, clean=3, noisy_dropped=0, clean_dropped=0)
    assert math.isnan(nothing_dropped.precision)
    assert math.isnan(nothing_dropped.recall)
    assert nothing_dropped.noise_after == 0
    assert NoiseDropped(noisy=1, clean=2, noisy_dropped=0, clean_dropped=1).precision == 0
    assert math.isnan(NoiseDropped(noisy=1, clean=2, noisy_dropped=1, clean_dropped=2).noise_after)


def test_labels_that_differ_are_noisy():
    assert noisy_labels(("Ann", "Ann"), ("Ann", "Ben")).tolist() == [False, True]


def test_the_truth_of_some_images_in_their_order(tmp_path: Path):
    path = tmp_path / "truth.csv"
    path.write_text("name,identity,true_identity\na/1,Ann,Ann\na/2,Ann,Ben\na/3,Ann,Cid\n")
    assert truth_of_list(path, ["a/3", "a/1"], ["Ann", "Ann"], None) == ["Cid", "Ann"]
    with pytest.raises(ValueError, match=r"truth.csv: 2 of 3 images are not in the list, the first is 'b/2'; .* 'a/1'"):
        truth_of_list(path, ["a/2", "b/2", "b/1"], ["Ann"] * 3, None)
    path.write_text("name,identity\na/1,Ann\n")
    with pytest.raises(ValueError, match=r"truth.csv: no column true_identity; `verisphere clean noise` writes such"):
        truth_of_list(path, ["a/1"], ["Ann"], None)


@pytest.mark.parametrize("how", ["merge", "exact"])
def test_a_true_identity_in_another_spelling(tmp_path: Path, how: Names):
    path, given = tmp_path / "truth.csv", (["a/1", "a/2"], ["Ann Lee", "Ben"])
    path.write_text("name,identity,true_identity\na/1,x,ann\u00a0lee\na/2,x,Cid\n")
    with pytest.raises(ValueError, match=r"truth.csv: 'Ann Lee' \(in the set\) and .*\(a true identity\) are one"):
        truth_of_list(path, *given, None)
    truth = ["Ann Lee", "Cid"] if how == "merge" else ["ann\u00a0lee", "Cid"]
    assert truth_of_list(path, *given, how) == truth
    with names_taken(how):
        assert truth_of_list(path, *given, None) == truth
    path.write_text("name,identity,true_identity\na/1,x,cid\na/2,x,Cid\n")  # in the list alone
    with pytest.raises(ValueError, match=r"'cid' .*and 'Cid' .* are one name"):
        truth_of_list(path, *given, None)
    assert truth_of_list(path, *given, how) == (["Cid", "Cid"] if how == "merge" else ["cid", "Cid"])
