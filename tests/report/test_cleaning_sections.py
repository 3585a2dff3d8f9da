"""The page about cleaning: its numbers in words, its pictures, and no name that becomes markup."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from cleaning_examples import contents
from read_page import Page
from verisphere.report.cleaning_findings import (
    ByImages,
    CleaningFindings,
    IdentityShown,
    NoiseDropped,
    Sheet,
    Shot,
    SubClass,
)
from verisphere.report.cleaning_sections import MOST_LOST, cleaning_page

EVIL = '<script>alert("1")</script> & $x$'
URI = "data:image/jpeg;base64,AAAA"
PERCENT = "\N{NO-BREAK SPACE}%"


def rendered(findings: CleaningFindings) -> str:
    return cleaning_page(findings).html(lambda plot: b"<svg/>")


def page(**changes: object) -> Page:
    return Page(rendered(contents(**changes)))


def with_pictures(shot: Shot) -> CleaningFindings:
    part = SubClass(0, 1, int(not shot.kept), (shot,))
    return contents(
        pictures=True,
        shown=[IdentityShown(shot.identity, 0, (part,), empty=0)],
        sheets_dropped=[Sheet("Dropped", 1, (shot,))],
        sheets_kept=[],
    )


def test_the_page_is_well_formed_and_can_be_read_by_machine():
    found = Page(rendered(with_pictures(Shot("Ann/1.jpg", "Ann", 80.0, kept=False, uri=URI))))
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    assert [link["href"] for link in found.all("a")] == [f"#{anchor}" for anchor in ids]
    assert all(image["alt"] for image in found.all("img"))
    assert all(cell.get("scope") in ("col", "row") for cell in found.all("th"))
    headings = [int(name[1]) for name, _ in found.elements if re.fullmatch(r"h\d", name)]
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(headings))


def test_nothing_is_fetched_and_nothing_runs():
    text = rendered(with_pictures(Shot("Ann/1.jpg", "Ann", 80.0, kept=False, uri=URI)))
    for name, attributes in Page(text).elements:
        assert name not in ("script", "link", "iframe", "object", "embed", "base", "form")
        assert not any(attribute.startswith("on") for attribute in attributes)
        source = attributes.get("src")
        assert source is None or source.startswith("data:image/")
    assert "url(" not in text
    assert "://" not in text


def test_every_name_is_text():
    shot = Shot(f"{EVIL}/{EVIL}", EVIL, 80.0, kept=False, true_identity=f"{EVIL}!", uri=URI)
    findings = replace(with_pictures(shot), title=EVIL, method=EVIL, lost=[(EVIL, 3)])
    text = rendered(findings)
    assert "<script" not in text
    found = Page(text)
    assert found.text.count(EVIL) >= 7
    assert any(EVIL in (image["alt"] or "") for image in found.all("img"))


def test_the_summary():
    text = page().text
    assert f"2 of 6 images (33.3{PERCENT}) are dropped, 4 are kept. None of 2 identities are lost." in text
    assert "sub-centers of runs/k3; at most 3 sub-classes of an identity (K = 3)." in text
    # 4 of 6 images are in dominant sub-classes; 2 of 2 x 3 sub-centers are empty
    assert f"4 of 6 images (66.7{PERCENT}) are nearest to the dominant sub-center" in text
    assert f"2 of 6 sub-centers (33.3{PERCENT}) are empty" in text
    assert f"2 of 2 dropped images (100.0{PERCENT}) have a wrong label" in text
    assert f"2 of 2 images with a wrong label (100.0{PERCENT}) are dropped" in text
    assert "none of 4 images with a right label are dropped too" in text


def cells(found: Page, caption: str) -> str:
    """The text of the table below a caption, its cells divided by single spaces."""
    words = [words for tag, words in found.words if tag in ("p", "th", "td")]
    after = words[words.index(caption) + 1 :]
    return " ".join(after[:60])


def test_noise_before_and_after():
    # 6 images, 2 wrong: a third; of the 4 that are kept none is wrong
    assert f"before 6 2 33.3{PERCENT} dropped 2 2 100.0{PERCENT} after 4 0 0.0{PERCENT}" in cells(
        page(), "Wrong labels before and after"
    )


def test_the_compared_angles():
    # at 70 degrees 3 are dropped, 2 of them noisy; of the 3 that remain none is noisy, and 1 of 4 right labels is gone
    text = cells(page(), "What each angle drops")
    share, two_thirds = f"50.0{PERCENT}", f"66.7{PERCENT}"
    assert f"70\N{DEGREE SIGN} 3 {share} 1 {two_thirds} 100.0{PERCENT} 0.0{PERCENT} 25.0{PERCENT}" in text
    assert "75\N{DEGREE SIGN} (the rule) 2" in text


def test_without_the_truth_neither_precision_nor_recall_is_stated():
    at_angles = [replace(at, agreement=None) for at in contents().at_angles]
    by_images = [ByImages(3, 4, identities=2, lost=0, images=6, dropped=2)]
    categories = [replace(category, noisy=None) for category in contents().categories[::2]]
    found = page(truth=None, at_angles=at_angles, by_images=by_images, categories=categories)
    shown = found.text.partition("How each number was made")[0] + cells(found, "What each angle drops")
    assert "have a wrong label" not in shown
    assert "Right labels dropped" not in found.text
    assert "Whether the dropped images are noise is not known here" in found.text


def test_rank_1_among_the_classes_where_it_was_asked_for():
    caption = "Share of the images whose nearest class is their own"
    rank_1 = {
        "all": {"all_sub_centers": 0.75, "dominant_only": 0.5},
        "kept": {"all_sub_centers": 1.0, "dominant_only": 1.0},
    }
    assert "all images 0.7500 0.5000 kept images 1.0000 1.0000" in cells(page(rank_1=rank_1), caption)
    assert caption not in page().text


def test_an_empty_share_is_a_dash():
    # nothing dropped: the precision is 0 of 0
    truth = NoiseDropped(noisy=0, clean=6, noisy_dropped=0, clean_dropped=0)
    found = page(kept=6, dropped={"more than 75 degrees": 0}, truth=truth, sheets_dropped=[])
    assert "have a wrong label" not in found.text
    assert f"dropped 0 0 - after 6 0 0.0{PERCENT}" in cells(found, "Wrong labels before and after")
    assert "No image was dropped." in found.text


def test_identities_lost_are_named_with_their_images():
    lost = [(f"person {number}", 40 - number) for number in range(MOST_LOST + 3)]
    found = page(lost=lost)
    assert "person 0 40" in cells(found, "Identities of which no image is kept, those with most images first")
    assert f"person {MOST_LOST - 1}" in found.text
    assert f"person {MOST_LOST} " not in found.text
    assert "And 3 more; clean.json names all." in found.text
    assert "None: at least one image of every identity is kept." in page().text


def test_the_loss_by_number_of_images_leaves_out_rows_without_identities():
    text = cells(page(), "The loss by number of images of an identity")
    assert f"Right labels dropped 3 to 4 2 0 6 2 33.3{PERCENT} 0.0{PERCENT}" in text


def test_images_without_identity_are_counted():
    assert "Without identity: 1 image. No rule applies" in page(nobody=1).text


@pytest.mark.parametrize(
    ("kept", "truth", "told", "wrong"),
    [
        (False, "Ann", "label right", True),
        (False, "Cid", "truly Cid", False),
        (True, "Ann", "label right", False),
        (True, "Cid", "truly Cid", True),
    ],
)
def test_a_wrong_decision_is_marked(kept: bool, truth: str, told: str, wrong: bool):
    shot = Shot("Ann/1.jpg", "Ann", 80.0, kept, truth, URI)
    found = Page(rendered(with_pictures(shot)))
    assert told in found.text
    assert any(span.get("class") == "wrong" for span in found.all("span")) == wrong
    framed = [entry for entry in found.all("li") if entry.get("class") == "dropped"]
    assert bool(framed) != kept


def test_the_sub_classes_of_an_identity():
    text = page().text
    assert "3 images, 1 outside the dominant sub-class, 1 dropped." in text
    assert "1 sub-center of the identity without an image." in text
    assert "Sub-center 1: 2 images, 1 shown, 0 dropped dominant" in text
    assert "Sub-center 0: 1 image, 1 dropped" in text
    assert text.index("Sub-center 1:") < text.index("Sub-center 0:")


def test_one_center_has_no_sub_classes():
    found = page(sub_centers=1, shown=[], categories=contents().categories[:2])
    assert found.text.count("With one sub-center (K = 1) there are no non-dominant sub-classes.") == 2
    assert "The categories of ArcFace" not in found.text
    assert "ArcFace, figure 7a" in found.text


def test_no_images_no_angles():
    assert "there are no angles" in page(categories=[], shown=[], sheets_kept=[]).text


def test_without_pictures_the_page_says_how_to_get_them():
    found = page()
    assert "No pictures: the images were not given." in found.text
    assert "--faces DATA" in found.text
    assert all(image["src"].startswith("data:image/svg") for image in found.all("img"))
    assert "These pictures show people" not in found.text


def test_pictures_of_people_are_announced_and_drawn_ones_are_not():
    findings = with_pictures(Shot("Ann/1.jpg", "Ann", 80.0, kept=False, uri=URI))
    assert "These pictures show people" in Page(rendered(findings)).text
    assert "These pictures show people" not in Page(rendered(replace(findings, people=False))).text
    assert "No pictures" not in Page(rendered(findings)).text


def test_a_long_name_is_shortened_for_the_eye_alone():
    name = f"Ann/{'x' * 100}7.jpg"
    found = Page(rendered(with_pictures(Shot(name, "Ann", 80.0, kept=False, uri=URI))))
    assert "x" * 100 not in found.text
    assert "x7.jpg" in found.text
    assert any(name in (image["alt"] or "") for image in found.all("img"))
