"""docs/cleaning.md: its links, its keys of clean.json, and its pictures, which are drawn from drawn faces."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from figures.cleaning import SHEET, DrawnSet, discriminants, draw_cleaning, trained_sub_centers
from verisphere.study.clean.cleaning import Cleaning
from verisphere.study.clean.page import IN_DOMINANT, NEAREST, SPLIT, TO_DOMINANT
from verisphere.study.clean.rules import ANGLES, Reason, Rule
from verisphere.study.clean.sub_classes import SamplesInSubClasses, sub_classes

PAGE = Path(__file__).parents[2] / "docs" / "cleaning.md"
TEXT = PAGE.read_text(encoding="utf-8")
TINY = DrawnSet(people=4, images=12, others=10, others_images=4, components=16, dim=6, steps=30)


def test_every_rule_and_its_default_is_named():
    assert Rule() == Rule(75.0, only_dominant=False, min_images=1)
    assert "at 75 degrees" in TEXT
    assert all(f"{angle:g}" in TEXT for angle in ANGLES)
    assert all(f"`{reason.word}`" in TEXT for reason in Reason if reason)


def test_every_key_of_clean_json_is_named():
    sub = sub_classes(np.zeros((2, 1), np.float32), np.array([0, 0]), classes=1)
    cleaning = Cleaning.by(
        Rule(), SamplesInSubClasses(("a/1", "a/2"), ("a", "a"), ("a",), sub, "", true_identities=("a", "b"))
    )
    summary = cleaning.summary()
    keys = {*summary, *summary["truth"], *summary["at_angles"][0], *next(cleaning.samples())}
    assert not [key for key in sorted(keys) if f"`{key}`" not in TEXT]


@pytest.mark.slow
def test_the_pictures_are_those_of_the_command(tmp_path: Path):
    text = draw_cleaning(tmp_path, TINY)
    assert "precision" in text
    committed = PAGE.parent / "images" / "cleaning"
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in committed.iterdir()}
    assert {path.stem for path in committed.iterdir()} == {SPLIT, IN_DOMINANT, NEAREST, TO_DOMINANT, SHEET}
    for path in committed.iterdir():
        assert path.stat().st_size < 120_000
        assert np.asarray(Image.open(path).convert("L")).std() > 20
        assert f"images/cleaning/{path.name}" in TEXT


def test_discriminants_ignore_what_varies_within_people():
    # the people differ in the first value alone, their images in the second
    rows = np.array([[-1, 5], [-1, -5], [1, 5], [1, -5]], np.float32)
    mean, projection = discriminants(rows, np.array([0, 0, 1, 1]), components=2, dim=1)
    assert mean.tolist() == [0.0, 0.0]
    assert abs(projection[1, 0]) < 1e-6 * abs(projection[0, 0])


def test_sub_centers_find_two_groups_of_one_identity():
    # eight images in one direction and four at a right angle to it; from this start each group draws its own center
    rows = np.repeat(np.eye(3, dtype=np.float32), [8, 4, 6], axis=0)
    size = DrawnSet(people=2, sub_centers=2, steps=120, seed=2)
    cosines = trained_sub_centers(rows, np.repeat([0, 1], [12, 6]), size)
    assert cosines.shape == (18, 2)
    assert cosines[:12].argmax(axis=1).tolist() == [0] * 8 + [1] * 4
    assert cosines.max(axis=1).min() > 0.7
