"""The result of cleaning: counts, the four categories of figure 7, files and their text."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from verisphere.base.vocabulary import NOBODY
from verisphere.files.label_lists import read_labels
from verisphere.study.clean.cleaning import JSON, KEPT, Cleaning
from verisphere.study.clean.rules import Rule
from verisphere.study.clean.sub_classes import SamplesInSubClasses, sub_classes

# Ann: two clean samples at 10 and 20 degrees, a noisy one at 80 that is nearest to the other sub-center, and a clean
# one at 30 that is nearest to the other, too. Ben: one sample at 90 degrees, noisy, so nobody is left of him.
DEGREES = [(10.0, 90.0), (20.0, 90.0), (80.0, 30.0), (30.0, 25.0), (90.0, 95.0)]
NAMES = ("Ann/1", "Ann/2", "Ann/3", "Ann/4", "Ben/1")
IDENTITIES = ("Ann",) * 4 + ("Ben",)
TRUTH = ("Ann", "Ann", "Ben", "Ann", "Cid")


def found(truth: tuple[str, ...] | None = TRUTH) -> SamplesInSubClasses:
    cosines = np.cos(np.radians(DEGREES)).astype(np.float32)
    sub = sub_classes(cosines, np.array([0, 0, 0, 0, 1]), classes=2)
    return SamplesInSubClasses(NAMES, IDENTITIES, ("Ann", "Ben"), sub, "by hand", true_identities=truth)


def test_the_counts_and_the_truth():
    cleaning = Cleaning.by(Rule(75.0), found())
    assert cleaning.kept.tolist() == [True, True, False, True, False]
    assert cleaning.counts == {"angle": 2, "sub_center": 0, "few_images": 0}
    assert cleaning.lost == ["Ben"]
    assert cleaning.agreement is not None
    assert (cleaning.agreement.precision, cleaning.agreement.recall, cleaning.agreement.noise_after) == (1.0, 1.0, 0.0)
    assert cleaning.agreement.noise_before == pytest.approx(2 / 5)


def counts(cleaning: Cleaning) -> dict[str, int]:
    return cleaning.summary()["sub_classes"]


def test_the_four_categories_of_figure_7():
    # Ben's one sub-class is dominant, and its sample is noisy
    assert counts(Cleaning.by(Rule(), found())) == {
        "dominant_clean": 2,
        "dominant_noisy": 1,
        "non_dominant_clean": 1,
        "non_dominant_noisy": 1,
    }
    assert counts(Cleaning.by(Rule(), found(None))) == {"dominant": 3, "non_dominant": 2}


def test_people_without_images_have_no_empty_sub_centers():
    # Ann has samples at both sub-centers, Ben at one of two; an embeddings file has NOBODY among its people, too
    sub = sub_classes(np.cos(np.radians(DEGREES)).astype(np.float32), np.array([0, 0, 0, 0, 1]), classes=3)
    with_nobody = replace(found(), people=("Ann", "Ben", NOBODY), sub=sub)
    assert Cleaning.by(Rule(), with_nobody).summary()["empty_sub_centers"] == 1


def test_the_compared_angles_are_of_the_angle_alone():
    # with --only-dominant Ann/4 is dropped, too, but not in the comparison of the angles
    cleaning = Cleaning.by(Rule(75.0, only_dominant=True), found())
    assert int((~cleaning.kept).sum()) == 3
    assert [(at.angle, at.dropped, at.identities_lost) for at in cleaning.at_angles()] == [
        (70.0, 2, 1),
        (75.0, 2, 1),
        (80.0, 1 if found().sub.angle[2] <= 80 else 2, 1),
        (85.0, 1, 1),
    ]


def test_the_files(tmp_path: Path):
    cleaning = Cleaning.by(Rule(75.0), found())
    cleaning.write(tmp_path)
    kept = read_labels(tmp_path / KEPT)
    assert kept.names == ("Ann/1", "Ann/2", "Ann/4")
    assert kept.identities == ("Ann",) * 3
    assert kept.true_identities == ("Ann",) * 3
    written = json.loads((tmp_path / JSON).read_text())
    assert written["samples"][2] == {
        "name": "Ann/3",
        "identity": "Ann",
        "sub_center": 1,
        "angle_deg": 80.0,
        "nearest_deg": 30.0,
        "kept": False,
        "reason": "angle",
        "true_identity": "Ben",
    }
    assert len(written["samples"]) == written["images"] == 5
    assert written["images_kept"] == 3
    assert written["truth"]["recall"] == 1.0


def test_numbers_that_are_not_finite_stay_valid_json(tmp_path: Path):
    # without noise the recall is 0 of 0
    cleaning = Cleaning.by(Rule(None), found(IDENTITIES))
    cleaning.write(tmp_path)
    written = json.loads((tmp_path / JSON).read_text(), parse_constant=lambda word: pytest.fail(word))
    assert written["truth"]["recall"] is None


def test_the_text_says_what_was_dropped_and_who_is_lost():
    text = Cleaning.by(Rule(75.0), found()).text()
    assert "by hand: 3 of 5 images kept, 2 dropped (40.0%)" in text
    assert "2 beyond 75 degrees\n" in text
    assert "1 of 2 identities lost, the first is Ben" in text
    assert "precision 1.0000, recall 1.0000" in text
