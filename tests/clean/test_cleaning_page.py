"""The page of a cleaning: who is chosen for it, which images are read, and what is written."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from read_page import Page
from verisphere.clean.cleaning import Cleaning
from verisphere.clean.found import Found
from verisphere.clean.page import cleaning_findings, even_steps, rule_in_words, telling_identities, write_page
from verisphere.clean.rules import Rule
from verisphere.clean.sub_classes import SubClasses, sub_classes
from verisphere.images.decoded_faces import InMemory
from verisphere.provenance import ImageSource
from verisphere.report.cleaning_findings import NoiseDropped, Shot

# Ann: dominant is sub-center 0, by the larger cosines of its two samples (cos 10 + cos 20 = 1.92 over cos 30 + cos 25 =
# 1.77). At 75 degrees Ann/3 and Ben's one sample are dropped.
DEGREES = [(10.0, 90.0), (20.0, 90.0), (80.0, 30.0), (30.0, 25.0), (90.0, 95.0)]
NAMES = ("Ann/1", "Ann/2", "Ann/3", "Ann/4", "Ben/1")
IDENTITIES = ("Ann",) * 4 + ("Ben",)
TRUTH = ("Ann", "Ann", "Ben", "Ann", "Cid")


def cleaning(rule: Rule | None = None, truth: Sequence[str] | None = TRUTH, **changes: Sequence[str]) -> Cleaning:
    sub = sub_classes(np.cos(np.radians(DEGREES)).astype(np.float32), np.array([0, 0, 0, 0, 1]), classes=2)
    given = {"names": NAMES, "identities": IDENTITIES, "people": ("Ann", "Ben"), **changes}
    return Cleaning.by(rule or Rule(), Found(sub=sub, method="by hand", true_identities=truth, **given))


class Counted(InMemory):
    """Faces that note which of them are read."""

    def __init__(self, names: Sequence[str], source: ImageSource | None = None) -> None:
        self.read: list[str] = []
        pixels = torch.full((len(names), 3, 16, 16), 90, dtype=torch.uint8)
        super().__init__(pixels, tuple(names), ("a",) * len(names), source=source)

    def images(self, indices: Sequence[int]) -> torch.Tensor:
        self.read += [self.names[index] for index in indices]
        return super().images(indices)


def test_the_numbers():
    findings = cleaning_findings(cleaning(), "A cleaning")
    assert (findings.images, findings.kept, findings.identities, findings.nobody) == (5, 3, 2, 0)
    assert (findings.sub_centers, findings.empty) == (2, 1)
    assert findings.lost == [("Ben", 1)]
    assert findings.truth == NoiseDropped(noisy=2, clean=3, noisy_dropped=2, clean_dropped=0)
    assert list(findings.dropped.items()) == [("more than 75 degrees to the dominant sub-center", 2)]
    assert [at.angle for at in findings.at_angles] == [70.0, 75.0, 80.0, 85.0]
    assert [(part.name, len(part.angle)) for part in findings.categories] == [
        ("dominant and clean", 2),
        ("dominant and noisy", 1),
        ("non-dominant and clean", 1),
        ("non-dominant and noisy", 1),
    ]


def test_the_loss_by_number_of_images():
    rows = {row.first: row for row in cleaning_findings(cleaning(), "").by_images if row.identities}
    assert list(rows) == [1, 3]
    assert (rows[1].images, rows[1].dropped, rows[1].lost, rows[1].clean, rows[1].clean_dropped) == (1, 1, 1, 0, 0)
    assert (rows[3].last, rows[3].images, rows[3].dropped, rows[3].lost, rows[3].clean) == (4, 4, 1, 0, 3)


def test_an_identity_in_its_sub_classes():
    (ann,) = cleaning_findings(cleaning(), "").shown  # Ben has nothing outside his dominant sub-class
    assert (ann.identity, ann.dominant, ann.empty) == ("Ann", 0, 0)
    shown = [(part.number, part.dropped, [shot.name for shot in part.shown]) for part in ann.sub_classes]
    assert shown == [(0, 0, ["Ann/1", "Ann/2"]), (1, 1, ["Ann/4", "Ann/3"])]
    assert [shot.kept for shot in ann.sub_classes[1].shown] == [True, False]


def test_telling_are_the_identities_with_most_dropped_images_outside():
    # of each class: images near sub-center 0 at 10 degrees, and outside it at the stated angles
    outside = {0: [30.0, 35.0, 40.0], 1: [80.0], 2: [30.0, 80.0, 85.0], 3: [], 4: [40.0, 80.0]}
    rows, labels = [], []
    for label, angles in outside.items():
        rows += [(10.0, 90.0)] * 5 + [(angle, 5.0) for angle in angles]
        labels += [label] * (5 + len(angles))
    sub = sub_classes(np.cos(np.radians(rows)).astype(np.float32), np.array(labels), classes=5)
    names = tuple(map(str, range(len(labels))))
    found = Found(names, tuple(map(str, labels)), tuple("01234"), sub, "by hand")
    # dropped outside: 0, 1, 2, 0, 1; of classes 1 and 4, class 4 has more images outside
    assert telling_identities(Cleaning.by(Rule(), found), count=9) == [2, 4, 1, 0]
    assert telling_identities(Cleaning.by(Rule(), found), count=2) == [2, 4]
    # with few images nothing of 10 sub-centers is lost either: 8 more of them are empty
    wide = np.full((len(labels), 10), 95.0)
    wide[:, :2] = rows
    ten = sub_classes(np.cos(np.radians(wide)).astype(np.float32), np.array(labels), classes=5)
    first = cleaning_findings(Cleaning.by(Rule(), Found(names, found.identities, found.people, ten, "")), "").shown[0]
    assert (first.identity, first.empty, len(first.sub_classes)) == ("2", 8, 2)


def test_even_steps():
    assert even_steps(0, 4).tolist() == []
    assert even_steps(1, 4).tolist() == [0]
    assert even_steps(7, 3).tolist() == [0, 3, 6]


def names_of(shots: Sequence[Shot]) -> list[str]:
    return [shot.name for shot in shots]


def test_the_sheets_are_in_order_and_no_identity_fills_one():
    findings = cleaning_findings(cleaning(), "")
    largest, nearest = findings.sheets_dropped
    assert names_of(largest.shown) == ["Ben/1", "Ann/3"]
    assert names_of(nearest.shown) == ["Ann/3", "Ben/1"]
    (kept,) = findings.sheets_kept
    assert kept.total == 3
    assert names_of(kept.shown) == ["Ann/4", "Ann/2"]  # 30 and 20 degrees; a third image of Ann is not shown
    assert (kept.shown[0].identity, kept.shown[0].true_identity) == ("Ann", "Ann")
    assert kept.shown[0].angle == pytest.approx(30.0, abs=1e-3)


def test_every_rule_has_its_sheet():
    findings = cleaning_findings(cleaning(Rule(75.0, only_dominant=True, min_images=3)), "")
    by_reason = [(sheet.total, names_of(sheet.shown)) for sheet in findings.sheets_dropped]
    # Ann/3 and Ben/1 by the angle, Ann/4 by its sub-center; then two images of Ann are left, fewer than 3
    assert by_reason[1:] == [(2, ["Ann/3", "Ben/1"]), (1, ["Ann/4"]), (2, ["Ann/1", "Ann/2"])]
    assert list(findings.dropped.values()) == [2, 1, 2]
    alone = cleaning_findings(cleaning(Rule(None, only_dominant=True)), "")
    assert [sheet.heading for sheet in alone.sheets_kept] == ["Kept, largest angle first"]
    assert len(alone.sheets_dropped) == 1


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


@pytest.fixture
def without_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the plots out, which take most of the time of a page."""
    monkeypatch.setattr("verisphere.report.cleaning_sections.cleaning_figures", lambda findings: {})


def test_one_page_and_its_plots_are_written(tmp_path: Path):
    write_page(cleaning(), Counted(NAMES), tmp_path, "A cleaning")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.html", "plots"]
    kinds = ("dominant", "non_dominant_angle", "non_dominant_nearest", "sub_classes")
    assert sorted(path.name for path in (tmp_path / "plots").glob("*.png")) == [f"{kind}.png" for kind in kinds]
    for path in (tmp_path / "plots").glob("*.png"):
        assert np.asarray(Image.open(path).convert("L")).std() > 5
    shown = Page((tmp_path / "index.html").read_text(encoding="utf-8"))
    assert {image["src"].partition(";")[0] for image in shown.all("img")} == {
        "data:image/svg+xml",
        "data:image/jpeg",
    }
    assert "These pictures show people" in shown.text


@pytest.mark.usefixtures("without_plots")
def test_only_the_shown_images_are_read_each_once(tmp_path: Path):
    faces = Counted(("Zoe/9", *NAMES), ImageSource("drawn", drawn=True))
    write_page(cleaning(), faces, tmp_path, "")
    assert sorted(faces.read) == sorted(NAMES)
    assert "These pictures show people" not in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_an_image_that_is_not_there_is_one_clear_line_and_nothing_is_written(tmp_path: Path):
    with pytest.raises(ValueError, match=r"1 of 5 images are not in it, the first is 'Ben/1'") as error:
        write_page(cleaning(), Counted(NAMES[:4]), tmp_path, "")
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("without_plots")
def test_without_faces_names_and_angles_are_there(tmp_path: Path):
    write_page(cleaning(), None, tmp_path, "")
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "data:image/jpeg" not in text
    assert "--faces DATA" in Page(text).text
    assert "90.0\N{DEGREE SIGN} dropped" in Page(text).text


@pytest.mark.usefixtures("without_plots")
def test_hostile_names_stay_text(tmp_path: Path):
    evil = "<img src=x onerror=alert(1)>"
    names = tuple(f"{evil}/{number}" for number in range(5))
    changes = {"names": names, "identities": (evil,) * 4 + ("Ben",), "people": (evil, "Ben")}
    write_page(cleaning(truth=(evil, "x", evil, evil, evil), **changes), Counted(names), tmp_path, evil)
    shown = Page((tmp_path / "index.html").read_text(encoding="utf-8"))
    assert not any("onerror" in attributes for _, attributes in shown.elements)
    assert evil in shown.text


def test_one_center_and_nobody(tmp_path: Path):
    cosines = np.cos(np.radians([[10.0], [20.0], [80.0]])).astype(np.float32)
    sub = sub_classes(cosines, np.array([0, 0, -1]), classes=1)
    found = Found(("a/1", "a/2", "b/1"), ("a", "a", "-1"), ("a",), sub, "class means")
    findings = cleaning_findings(Cleaning.by(Rule(), found), "")
    assert (findings.nobody, findings.kept, findings.shown, findings.sub_centers) == (1, 3, [], 1)
    write_page(Cleaning.by(Rule(), found), None, tmp_path, "")
    text = Page((tmp_path / "index.html").read_text(encoding="utf-8")).text
    assert "Without identity: 1 image." in text
    assert [path.name for path in (tmp_path / "plots").glob("*.png")] == ["sub_classes.png"]


def test_an_identity_without_a_dominant_sub_class_has_no_angles(tmp_path: Path):
    # as DBSCAN leaves it where it finds no cluster
    sub = SubClasses(
        np.array([0, 0, 1]),
        np.array([0, 0, 0]),
        np.array([0, -1]),
        np.array([[2, 0], [1, 0]]),
        np.array([10, 20, np.nan], np.float32),
        np.array([10, 20, 0], np.float32),
    )
    found = Found(("a/1", "a/2", "b/1"), ("a", "a", "b"), ("a", "b"), sub, "")
    cleaning = Cleaning.by(Rule(None, only_dominant=True), found)
    assert cleaning_findings(cleaning, "").lost == [("b", 1)]
    write_page(cleaning, Counted(found.names), tmp_path, "")
    assert "no angle dropped" in Page((tmp_path / "index.html").read_text(encoding="utf-8")).text


def test_a_set_of_nobody_has_no_angles(tmp_path: Path):
    sub = sub_classes(np.full((2, 3), np.nan, np.float32), np.array([-1, -1]), classes=1)
    write_page(Cleaning.by(Rule(), Found(("1", "2"), ("-1", "-1"), ("a",), sub, "by hand")), None, tmp_path, "")
    text = Page((tmp_path / "index.html").read_text(encoding="utf-8")).text
    assert "there are no angles" in text
    assert "None of 2 images are dropped, 2 are kept." in text
