"""The page of a cleaning: its numbers in words, who is chosen for it, which images are read, and what is written."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from read_page import Page, read_alone
from six_images import SUB, TRUTH, one_center, six_images
from verisphere.base.provenance import ImageSource
from verisphere.images.decoded_faces import InMemory
from verisphere.images.select import even_steps
from verisphere.study.clean.cleaning import Cleaning
from verisphere.study.clean.nearest_class import NearestClass
from verisphere.study.clean.page import (
    MOST_LOST,
    Sheet,
    cleaning_page,
    rows_of_identity,
    rule_in_words,
    sheet_of_kept,
    sheets_of_dropped,
    telling_identities,
    write_page,
)
from verisphere.study.clean.rules import Rule
from verisphere.study.clean.sub_classes import NONE, SamplesInSubClasses, SubClasses, sub_classes

EVIL = '<script>alert("1")</script> & $x$'
PERCENT = "\N{NO-BREAK SPACE}%"
DRAWN = ImageSource("drawn", drawn=True)
# Ann: dominant is sub-center 0, by the larger cosines of its two samples (cos 10 + cos 20 = 1.92 over cos 30 + cos 25 =
# 1.77). At 75 degrees Ann/3 and Ben's one sample are dropped.
DEGREES = [(10.0, 90.0), (20.0, 90.0), (80.0, 30.0), (30.0, 25.0), (90.0, 95.0)]
NAMES = ("Ann/1", "Ann/2", "Ann/3", "Ann/4", "Ben/1")


def five_images(rule: Rule | None = None) -> Cleaning:
    sub = sub_classes(np.cos(np.radians(DEGREES)).astype(np.float32), np.array([0, 0, 0, 0, 1]), classes=2)
    return Cleaning.by(
        rule or Rule(), SamplesInSubClasses(NAMES, ("Ann",) * 4 + ("Ben",), ("Ann", "Ben"), sub, "by hand")
    )


class Counted(InMemory):
    """Faces that note which of them are read."""

    def __init__(self, names: Sequence[str], source: ImageSource | None = None) -> None:
        self.read: list[str] = []
        pixels = torch.full((len(names), 3, 16, 16), 90, dtype=torch.uint8)
        super().__init__(pixels, tuple(names), ("a",) * len(names), source=source)

    def images(self, indices: Sequence[int]) -> torch.Tensor:
        self.read += [self.names[index] for index in indices]
        return super().images(indices)


def page(cleaning: Cleaning, faces: InMemory | None = None, title: str = "A cleaning") -> Page:
    return read_alone(cleaning_page(cleaning, faces, title).html(lambda plot: b"<svg/>"))


def with_pictures(**changes: Any) -> Page:
    cleaning = six_images(**changes)
    return page(cleaning, Counted(cleaning.found.names))


def cells(found: Page, caption: str) -> str:
    """The text of the table below a caption, its cells divided by single spaces."""
    words = [words for tag, words in found.words if tag in ("p", "th", "td")]
    after = words[words.index(caption) + 1 :]
    return " ".join(after[:60])


# --- numbers in words ---


def test_the_summary():
    text = page(six_images()).text
    assert f"2 of 6 images (33.3{PERCENT}) are dropped, 4 are kept. None of 2 identities are lost." in text
    assert "sub-centers of runs/k3; at most 3 sub-classes of an identity (K = 3)." in text
    # 4 of 6 images are in dominant sub-classes; 2 of 2 x 3 sub-centers are empty
    assert f"4 of 6 images (66.7{PERCENT}) are nearest to the dominant sub-center" in text
    assert f"2 of 6 sub-centers (33.3{PERCENT}) are empty" in text
    assert f"2 of 2 dropped images (100.0{PERCENT}) have a wrong label" in text
    assert f"2 of 2 images with a wrong label (100.0{PERCENT}) are dropped" in text
    assert "none of 4 images with a right label are dropped too" in text
    # 6 images, 2 wrong: a third; of the 4 that are kept none is wrong
    found = cells(page(six_images()), "Wrong labels before and after")
    assert f"before 6 2 33.3{PERCENT} dropped 2 2 100.0{PERCENT} after 4 0 0.0{PERCENT}" in found


def test_empty_sub_centers_are_told_of_only_where_there_are_some():
    filled = replace(SUB, sub_center=np.array([1, 1, 0, 0, 0, 1]), counts=np.array([[1, 2], [2, 1]]))
    text = page(six_images(sub=filled)).text
    assert f"4 of 6 images (66.7{PERCENT}) are nearest to the dominant sub-center" in text
    assert "empty" not in text


def test_each_reason_has_its_row():
    # Ann/3 and Ben/1 by the angle, Ann/4 by its sub-center; then two images of Ann are left, fewer than 3
    text = cells(page(five_images(Rule(75.0, only_dominant=True, min_images=3))), "Dropped images by rule")
    assert f"more than 75 degrees to the dominant sub-center 2 40.0{PERCENT}" in text
    assert f"nearer to another sub-center 1 20.0{PERCENT}" in text
    assert f"fewer than 3 images of the identity remain 2 40.0{PERCENT} all dropped images 5 100.0{PERCENT}" in text
    assert "An image is counted once" in text


def test_the_compared_angles():
    # at 85 degrees one is dropped, and noisy; of the 5 that remain one is noisy
    text = cells(page(six_images()), "What each angle drops")
    share = f"16.7{PERCENT}"
    assert f"85\N{DEGREE SIGN} 1 {share} 0 100.0{PERCENT} 50.0{PERCENT} 20.0{PERCENT} 0.0{PERCENT}" in text
    assert "75\N{DEGREE SIGN} (the rule) 2" in text


def test_without_the_truth_neither_precision_nor_recall_is_stated():
    found = page(six_images(truth=None))
    shown = found.text.partition("How each number was made")[0] + cells(found, "What each angle drops")
    assert "have a wrong label" not in shown
    assert "Right labels dropped" not in found.text
    assert "Whether the dropped images are noise is not known here" in found.text


def test_rank_1_among_the_classes_where_it_was_asked_for():
    caption = "Share of the images whose nearest class is their own"
    nearest = NearestClass(np.array([1, 1, 0, 1, 1, 1], bool), np.array([1, 1, 0, 1, 0, 1], bool))
    assert "all images 0.8333 0.6667 kept images 1.0000 1.0000" in cells(
        page(six_images(nearest_class=nearest)), caption
    )
    assert caption not in page(six_images()).text


def test_an_empty_share_is_a_dash():
    # nothing dropped: the precision is 0 of 0
    found = page(six_images(Rule(None), truth=("Ann",) * 3 + ("Ben",) * 3))
    assert "have a wrong label" not in found.text
    assert f"dropped 0 0 - after 6 0 0.0{PERCENT}" in cells(found, "Wrong labels before and after")
    assert "No image was dropped." in found.text


def test_identities_lost_are_named_with_their_images():
    # each has one or two images, all at 90 degrees
    count = MOST_LOST + 3
    labels = np.sort(np.concatenate([np.arange(count), np.arange(3)]))
    zeros, angles = np.zeros(len(labels), np.int64), np.full(len(labels), 90, np.float32)
    sub = SubClasses(labels, zeros, zeros[:count], np.ones((count, 1), np.int64), angles, angles)
    people = tuple(f"person {number}" for number in range(count))
    names = tuple(map(str, range(len(labels))))
    identities = tuple(people[label] for label in labels)
    found = page(Cleaning.by(Rule(), SamplesInSubClasses(names, identities, people, sub, "by hand")))
    heading = "Identities of which no image is kept, those with most images first"
    assert "person 0 2 person 1 2 person 2 2 person 3 1" in cells(found, heading)
    named = found.text.partition(heading)[2].partition("Angles of the images")[0]
    assert f"person {MOST_LOST - 1}" in named
    assert f"person {MOST_LOST}" not in named
    assert "And 3 more; clean.json names all." in named
    assert "Identities lost" not in cells(page(six_images()), "What is lost, by the number of images of an identity")


def test_the_loss_by_number_of_images():
    caption = "What is lost, by the number of images of an identity"
    assert f"Right labels dropped 3 to 4 2 0 6 2 33.3{PERCENT} 0.0{PERCENT}" in cells(page(six_images()), caption)
    shown = cells(page(five_images()), caption)
    assert f"Share dropped 1 1 1 1 1 100.0{PERCENT} 3 to 4 1 0 4 1 25.0{PERCENT}" in shown


def test_the_sub_classes_of_an_identity():
    text = page(six_images()).text
    assert "3 images, 1 outside the dominant sub-class, 1 dropped." in text
    assert "1 sub-center of the identity without an image." in text
    assert "Sub-center 1: 2 images, 0 dropped dominant" in text
    assert "Sub-center 0: 1 image, 1 dropped" in text
    assert text.index("Sub-center 1:") < text.index("Sub-center 0:")


def test_one_center_has_no_sub_classes():
    found = page(six_images(sub=one_center()))
    assert found.text.count("With one sub-center (K = 1) there are no non-dominant sub-classes.") == 2
    assert "The categories of ArcFace" not in found.text
    assert "ArcFace, figure 7a" in found.text


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Rule(75.0), "Images at more than 75 degrees to the dominant sub-center of their identity are dropped; an"),
        (Rule(None), "No image is dropped."),
        (Rule(None, only_dominant=True), "Images that are nearer to another sub-center than to the dominant one are"),
        (Rule(None, min_images=4), "Identities of which fewer than 4 images remain are dropped as a whole."),
    ],
)
def test_the_rule_in_words(rule: Rule, words: str):
    assert rule_in_words(rule).startswith(words)


# --- which images are shown ---


def test_an_identity_in_its_sub_classes():
    assert telling_identities(five_images()) == [0]  # Ben has nothing outside his dominant sub-class
    rows = rows_of_identity(five_images(), 0)
    assert [(number, shown.tolist()) for number, _, shown in rows] == [(0, [0, 1]), (1, [3, 2])]


def test_telling_are_the_identities_with_most_dropped_images_outside():
    # of each class: images near sub-center 0 at 10 degrees, and outside it at the stated angles
    outside = {0: [30.0, 35.0, 40.0], 1: [80.0], 2: [30.0, 80.0, 85.0], 3: [], 4: [40.0, 80.0]}
    rows, labels = [], []
    for label, angles in outside.items():
        rows += [(10.0, 90.0)] * 5 + [(angle, 5.0) for angle in angles]
        labels += [label] * (5 + len(angles))
    sub = sub_classes(np.cos(np.radians(rows)).astype(np.float32), np.array(labels), classes=5)
    names = tuple(map(str, range(len(labels))))
    cleaning = Cleaning.by(Rule(), SamplesInSubClasses(names, tuple(map(str, labels)), tuple("01234"), sub, "by hand"))
    # dropped outside: 0, 1, 2, 0, 1; of classes 1 and 4, class 4 has more images outside
    assert telling_identities(cleaning, count=9) == [2, 4, 1, 0]
    assert telling_identities(cleaning, count=2) == [2, 4]


def test_even_steps():
    assert even_steps(0, 4).tolist() == []
    assert even_steps(1, 4).tolist() == [0]
    assert even_steps(7, 3).tolist() == [0, 3, 6]


def names_of(sheet: Sheet) -> list[str]:
    return [NAMES[place] for place in sheet.shown]


def test_the_sheets_are_in_order_and_no_identity_fills_one():
    largest, nearest = sheets_of_dropped(five_images(Rule(15.0)))
    assert names_of(largest) == ["Ben/1", "Ann/3", "Ann/4"]  # a third image of Ann is not shown
    assert names_of(nearest) == ["Ann/2", "Ann/4", "Ben/1"]
    (alone,) = sheets_of_dropped(five_images())  # all are on it, so the other order would repeat them
    assert names_of(alone) == ["Ben/1", "Ann/3"]
    kept = sheet_of_kept(five_images())
    assert kept.total == 3
    assert names_of(kept) == ["Ann/4", "Ann/2"]  # 30 and 20 degrees; a third image of Ann is not shown


def test_every_rule_has_its_sheet():
    sheets = sheets_of_dropped(five_images(Rule(75.0, only_dominant=True, min_images=3)))
    assert [(sheet.total, names_of(sheet)) for sheet in sheets] == [
        (2, ["Ben/1", "Ann/3"]),
        (1, ["Ann/4"]),
        (2, ["Ann/1", "Ann/2"]),
    ]
    alone = five_images(Rule(None, only_dominant=True))
    assert sheet_of_kept(alone).heading == "Kept, largest angle first"
    assert len(sheets_of_dropped(alone)) == 1


# --- pictures and names ---


@pytest.mark.parametrize(
    ("dropped", "right", "told", "wrong"),
    [
        (True, True, "label right", True),
        (True, False, "truly Cid", False),
        (False, True, "label right", False),
        (False, False, "truly Cid", True),
    ],
)
def test_a_wrong_decision_is_marked(dropped: bool, right: bool, told: str, wrong: bool):
    truth = ("Ann" if right else "Cid",) * 3 + ("Ben" if right else "Cid",) * 3
    found = with_pictures(rule=Rule(5.0 if dropped else None), truth=truth)
    assert told in found.text
    assert any(span.get("class") == "wrong" for span in found.all("span")) == wrong
    framed = [entry for entry in found.all("li") if entry.get("class") == "dropped"]
    assert bool(framed) == dropped


def test_every_name_is_text():
    names = tuple(f"{EVIL}/{number}" for number in range(6))
    cleaning = six_images(
        truth=(EVIL, f"{EVIL}!") + (EVIL,) * 4, names=names, identities=(EVIL,) * 6, people=(EVIL, "Ben"), method=EVIL
    )
    found = page(cleaning, Counted(names), EVIL)
    assert found.text.count(EVIL) >= 7
    assert any(EVIL in (image["alt"] or "") for image in found.all("img"))


def test_a_long_name_is_shortened_for_the_eye_alone():
    names = (f"Ann/{'x' * 100}7.jpg", *map(str, range(5)))
    found = with_pictures(names=names)
    assert "x" * 100 not in found.text
    assert "x7.jpg" in found.text
    assert any(names[0] in (image["alt"] or "") for image in found.all("img"))


def test_one_page_and_its_plots_are_written(tmp_path: Path):
    write_page(six_images(), Counted(six_images().found.names), tmp_path, "A cleaning")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.html", "plots"]
    kinds = ("dominant", "non_dominant_angle", "non_dominant_nearest", "sub_classes")
    assert sorted(path.name for path in (tmp_path / "plots").glob("*.png")) == [f"{kind}.png" for kind in kinds]
    for path in (tmp_path / "plots").glob("*.png"):
        assert np.asarray(Image.open(path).convert("L")).std() > 5
    shown = Page((tmp_path / "index.html").read_text(encoding="utf-8"))
    assert {image["src"].partition(";")[0] for image in shown.all("img")} == {"data:image/jpeg"}
    assert len(shown.all("svg")) == len(kinds)
    assert "These pictures show people" in shown.text
    assert "No pictures" not in shown.text


def test_only_the_shown_images_are_read_each_once():
    faces = Counted(("Zoe/9", *NAMES), DRAWN)
    assert "These pictures show people" not in page(five_images(), faces).text
    assert sorted(faces.read) == sorted(NAMES)


def test_an_image_that_is_not_there_is_one_clear_line_and_nothing_is_written(tmp_path: Path):
    with pytest.raises(ValueError, match=r"1 of 5 images are not in it, the first is 'Ben/1'") as error:
        write_page(five_images(), Counted(NAMES[:4]), tmp_path, "")
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_without_faces_the_page_has_names_and_angles_and_says_how_to_get_pictures():
    found = page(six_images())
    assert "No pictures: the images were not given." in found.text
    assert "--faces DATA" in found.text
    assert not found.all("img")
    assert "90.0\N{DEGREE SIGN} dropped" in found.text


# --- sets of little ---


def test_images_without_identity_are_counted():
    nobody = np.arange(6) == 5
    sub = replace(SUB, labels=np.where(nobody, -1, SUB.labels), sub_center=np.where(nobody, NONE, SUB.sub_center))
    assert "Without identity: 1 image. No rule applies" in page(six_images(sub=sub)).text


def test_an_identity_without_a_dominant_sub_class_has_no_angles():
    # as DBSCAN leaves it where it finds no cluster
    sub = replace(SUB, dominant=np.array([1, -1]), angle=np.array([10, 20, 90, np.nan, np.nan, np.nan], np.float32))
    cleaning = six_images(Rule(None, only_dominant=True), TRUTH, sub)
    assert cleaning.lost == ["Ben"]
    assert "no angle dropped" in page(cleaning, Counted(cleaning.found.names)).text


def test_a_set_of_nobody_has_no_angles():
    sub = sub_classes(np.full((2, 3), np.nan, np.float32), np.array([-1, -1]), classes=1)
    text = page(Cleaning.by(Rule(), SamplesInSubClasses(("1", "2"), ("-1", "-1"), ("a",), sub, "by hand"))).text
    assert "there are no angles" in text
    assert "None of 2 images are dropped, 2 are kept." in text
