"""The calibration of a gallery, to a file and back; what it covers; and the verdicts of a review."""

import json
from dataclasses import replace

import numpy as np
import pytest

from verisphere.decide import FoundRate, Review, gallery_threshold
from verisphere.files.calibration import Source, read_calibration
from verisphere.files.gallery_calibration import (
    GalleryCalibration,
    PromisedGallery,
    read_gallery_calibration,
    read_thresholds,
)
from verisphere.files.verdicts import Suspicious, Verdict, read_verdicts, verdicts_csv

DIGESTS = np.array([5, -3, 2**62, 7], np.int64)
DRAWS = np.random.default_rng(0).normal(size=500)
SOURCE = Source("strangers.npz", "0" * 64, "embeddings", 600, 501)


def calibration(statistic: str = "best", fpirs: tuple[str, ...] = ("1e-1", "1e-2")) -> GalleryCalibration:
    thresholds = tuple(
        gallery_threshold(DRAWS, fpir, people=3, statistic=statistic, review=Review(2, 1)) for fpir in fpirs
    )
    seals = (f"{'1' * 16}-{'2' * 16}", f"{'3' * 16}-{'4' * 16}")
    verdicts = Verdict("a.jpg", "b.jpg", "same", seals[0]), Verdict("c.jpg", "d.jpg", "cannot say", seals[1])
    gallery = PromisedGallery.of("people.npz", 3, DIGESTS)
    return GalleryCalibration(SOURCE, gallery, None, thresholds, verdicts=verdicts)


def test_a_calibration_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "gallery.json"
    calibration().write_json(path)
    again = read_gallery_calibration(path)
    assert again == calibration()
    assert again.json() == calibration().json()
    assert read_thresholds(path) == again
    assert (again.threshold("0.01").fpir_target, again.statistic) == ("1e-2", "best")
    with pytest.raises(ValueError, match="at FPIR 1e-1, 1e-2; name one"):
        again.threshold()
    with pytest.raises(ValueError, match="no threshold at FPIR 1e-3; there is: 1e-1, 1e-2"):
        again.threshold("1e-3")


def test_a_reader_of_two_photographs_says_what_the_file_is(tmp_path):
    path = tmp_path / "gallery.json"
    calibration().write_json(path)
    with pytest.raises(ValueError, match="it is that of a gallery, which `verisphere identify --calibration` takes"):
        read_calibration(path)
    path.write_text('{"format": 1, "thresholds": []}')
    with pytest.raises(ValueError, match="no object of kind 'gallery'; thresholds for two photographs have no gallery"):
        read_gallery_calibration(path)
    for reader in (read_thresholds, read_gallery_calibration):
        path.write_text("[")
        with pytest.raises(ValueError, match=r"gallery\.json: not a calibration as `verisphere calibrate"):
            reader(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda document: document.update(format=2), "format 2, and this version reads format 1"),
        (lambda document: document["gallery"].update(digests="!"), "not 8 bytes each in base64"),
        (lambda document: document["gallery"].update(digests="AAAA"), "not 8 bytes each in base64"),
        (lambda document: document["verdicts"][0].update(word="different"), "1 strangers were removed, .* remove 0"),
        (lambda document: document["verdicts"][1].update(document["verdicts"][0]), "is no pair, or has two verdicts"),
        (lambda document: document["verdicts"][0].update(seal="x"), "'x', which is no pair"),
        (lambda document: document["thresholds"][0].update(seed=-1), "seed must be 0 or more, got -1"),
        (lambda document: document["strangers"].update(rows=500), "of 500 rows with 501 people"),
        (lambda document: document.update(implausible=["labels"]), "differ in `implausible`"),
        (lambda document: document["thresholds"][1].update(implausible="labels"), "differ in `implausible`"),
        (lambda document: document["gallery"].update(photographs=5), "5 photographs has 4 digests"),
        (lambda document: document["gallery"].update(sha256="1" * 64), "are not those of its sha256"),
        (lambda document: document["thresholds"][0].update(rank=9), "rank 9 of 500 strangers is not what is allowed"),
        (lambda document: document["thresholds"][0].update(fpir_target="1e-2"), "not what is allowed|asked for twice"),
        (lambda document: document["thresholds"][0].update(statistic="gap"), "of several statistics"),
        (lambda document: document.update(thresholds=[]), "no FPIR to calibrate at"),
        (lambda document: document["verdicts"][0].update(word="perhaps"), "verdicts"),
        (lambda document: document.pop("gallery"), "gallery"),
        (lambda document: document["gallery"].update(people=2), "is of 3 people"),
        (
            lambda document: document["strangers"].update(people=400),
            "501 strangers and 2 verdicts, the calibration of 3, 400",
        ),
        (lambda document: document["verdicts"].pop(), "2 verdicts, .* and 1"),
    ],
)
def test_a_changed_calibration_is_refused_in_one_line(tmp_path, change, words):
    path = tmp_path / "gallery.json"
    document = json.loads(calibration().json())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=words) as caught:
        read_gallery_calibration(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_statistic_with_a_cohort_names_it():
    thresholds = (gallery_threshold(DRAWS, "1e-1", people=3, statistic="z"),)
    with pytest.raises(ValueError, match="the rule 'z' does not fit no cohort"):
        GalleryCalibration(SOURCE, PromisedGallery.of("people.npz", 3, DIGESTS), None, thresholds)
    with pytest.raises(ValueError, match=r"the rule 'best' does not fit the cohort 'strangers\.npz' with the rows ''"):
        replace(calibration(), cohort=SOURCE)


# --- what it covers ---


def test_the_gallery_and_by_the_best_score_every_part_of_it_are_covered():
    best = calibration()
    assert best.why_not(3, DIGESTS[::-1]) == ""
    assert best.why_not(2, DIGESTS[:2]) == ""
    assert (
        best.why_not(3, np.append(DIGESTS, DIGESTS[:1])) == ""
    )  # a photograph that is there twice changes no best score
    added = best.why_not(4, np.append(DIGESTS, 9))
    assert "promised for 3 people by 4 photographs" in added
    assert "this gallery has 4 people by 5 photographs" in added
    assert "1 of these are not in it" in added
    changed = best.why_not(3, np.append(DIGESTS[:3], 8))
    assert "1 of these are not in it" in changed
    assert "known by" not in changed
    assert (
        "4 of these are not in it (a folder or archive is known by its photographs, and an embeddings file by its "
        in (best.why_not(3, DIGESTS + 1))
    )


def test_one_person_by_one_photograph_is_said_as_one():
    assert str(PromisedGallery.of("people.npz", 1, DIGESTS[:1])).startswith("1 person by 1 photograph, SHA-256")


def test_a_part_of_the_gallery_is_said_to_be_one():
    best = calibration()
    assert best.part(2, DIGESTS[:2]) == (
        "this is a part of the gallery that the threshold is promised for (2 of 3 people, 2 of 4 photographs): the "
        "promise covers it"
    )
    measured = [replace(found, identified=FoundRate.of("p.npz", 9, 10)) for found in best.thresholds]
    assert replace(best, thresholds=tuple(measured)).part(2, DIGESTS[:2]).endswith("was measured on the whole")
    assert best.part(3, DIGESTS) == best.part(3, np.append(DIGESTS, DIGESTS[:1])) == best.part(3, DIGESTS + 1) == ""


@pytest.mark.parametrize("statistic", ["gap", "next", "median"])
def test_by_any_other_statistic_a_part_is_not_covered(statistic):
    other = calibration(statistic)
    assert other.why_not(3, DIGESTS) == ""
    for changed in (DIGESTS[:2], np.append(DIGESTS, DIGESTS[:1])):  # a median counts how often a photograph is there
        assert "have left, or are there twice, and by the rule" in other.why_not(2, changed)


# --- verdicts ---

PAIRS = [
    Suspicious("=a.jpg", "b,1.jpg", "Ann", "Ben", 0.7, "a-b"),
    Suspicious("c.jpg", "d.jpg", "Cy", "Di", 0.5, "c-d"),
]


def filled(tmp_path, *cells: str):
    lines = verdicts_csv(PAIRS).splitlines()
    path = tmp_path / "review.csv"
    path.write_text("\n".join([lines[0], *(line + cell for line, cell in zip(lines[1:], cells, strict=True))]))
    return path


def test_verdicts_are_read_in_any_case_and_empty_ones_are_skipped(tmp_path):
    path = filled(tmp_path, "Same", "")
    assert read_verdicts(path) == (
        Verdict("'=a.jpg", "b,1.jpg", "same", "a-b"),
    )  # a plain cell, as a spreadsheet keeps it
    assert [one.word for one in read_verdicts(filled(tmp_path, " cannot  say ", "DIFFERENT"))] == [
        "cannot say",
        "different",
    ]


def test_a_review_that_says_nothing_or_something_else(tmp_path):
    with pytest.raises(ValueError, match=r"review\.csv: no pair has a verdict; fill the column verdict"):
        read_verdicts(filled(tmp_path, "", " "))
    with pytest.raises(ValueError, match=r"line 3: the verdict is 'yes'; allowed are same, different, cannot say"):
        read_verdicts(filled(tmp_path, "same", "yes"))
    path = filled(tmp_path, "same", "same")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines, lines[1]]))
    with pytest.raises(ValueError, match=r"line 4: .* have a verdict already"):
        read_verdicts(path)
    path.write_text("pair,photograph\n1,a\n")
    with pytest.raises(ValueError, match=r"no column 'other_photograph' .* the file is the review\.csv"):
        read_verdicts(path)
    with pytest.raises(FileNotFoundError):
        read_verdicts(tmp_path / "absent.csv")
