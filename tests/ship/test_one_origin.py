"""Two things are put together only if all between photograph and number agrees: each setting, in each reader."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from foreign_graphs import SIDE, graph, written
from verisphere.backbones.backbone import Backbone
from verisphere.base.vocabulary import Embeddings, Origin, Preprocessing
from verisphere.cli import main
from verisphere.files.embeddings import pool_embeddings, read_embeddings, write_embeddings
from verisphere.files.gallery_calibration import GalleryCalibration, read_gallery_calibration
from verisphere.images.photos import Photos
from verisphere.measure.distractors import DistractorOptions, evaluate_distractors
from verisphere.measure.evaluate import Options, evaluate_all_pairs, evaluate_one_threshold
from verisphere.measure.identification import IdentificationOptions, evaluate_galleries
from verisphere.measure.listed import evaluate_pairs
from verisphere.measure.two_sets import evaluate_two_sets
from verisphere.models.folder import Model, load
from verisphere.models.model_json import taken_pixels
from verisphere.ship import arrays
from verisphere.ship.adopt import adopt_onnx
from verisphere.ship.calibrate import calibrate, read_calibration
from verisphere.ship.card.figures import read_figures
from verisphere.ship.card.thresholds import gallery_section
from verisphere.ship.deciding import Choice
from verisphere.ship.export import Results, check_same
from verisphere.ship.face_search import aligned_faces
from verisphere.ship.identify import identify, identify_each
from verisphere.ship.notes import notes_on_model
from verisphere.ship.pixels import Told
from verisphere.study.clean.same_person.overlap import find_overlap, open_people

PIXELS = Preprocessing((4, 4), "RGB", "NCHW", 127.5, 127.5, "embedding")
OURS = Origin("ab" * 32, False, "float32", "here", False, "arcface_112x112 by MTCNN", PIXELS)
#: Every setting with another value, and both values in words.
OTHERS = {
    "weights": (replace(OURS, model="cd" * 32), "weights cdcdcdcdcdcd... against abababababab..."),
    "size": (replace(OURS, preprocessing=replace(PIXELS, size=(4, 8))), "size 4 x 8 against 4 x 4"),
    "colour": (replace(OURS, preprocessing=replace(PIXELS, colour="BGR")), "colour BGR against RGB"),
    "layout": (replace(OURS, preprocessing=replace(PIXELS, layout="NHWC")), "layout NHWC against NCHW"),
    "mean": (replace(OURS, preprocessing=replace(PIXELS, mean=0.0)), "mean 0 against 127.5"),
    "scale": (replace(OURS, preprocessing=replace(PIXELS, scale=127.50001)), "scale 127.50001 against 127.5"),
    "output": (replace(OURS, preprocessing=replace(PIXELS, output="other")), "output other against embedding"),
    "output with a number": (
        replace(OURS, preprocessing=replace(PIXELS, output="embedding (2)")),
        "output embedding (2) against embedding",
    ),
    "template with a blank": (
        replace(OURS, alignment="mine (tight) by MTCNN"),
        "template mine (tight) against arcface_112x112",
    ),
    "template": (replace(OURS, alignment="mine by MTCNN"), "template mine against arcface_112x112"),
    "template that the model takes": (
        replace(OURS, alignment=None, template="mine"),
        "template mine against arcface_112x112",
    ),
    "detector": (replace(OURS, alignment="arcface_112x112 by SCRFD"), "detector SCRFD against MTCNN"),
    "flip": (replace(OURS, flip=True), "flip true against false"),
    "precision": (replace(OURS, precision="bfloat16"), "precision bfloat16 against float32"),
}
ALIKE = {
    "the place of the images": replace(OURS, images="there"),
    "drawn": replace(OURS, drawn=True),
    "given landmarks": replace(OURS, alignment="arcface_112x112 by the landmarks in points.csv"),
    "no alignment": replace(OURS, alignment=None),
    "an unknown origin": None,
}


class Sums(Backbone):
    """The sums of the two halves of a picture."""

    input_size = (4, 4)
    embedding_output = "embedding"

    def __init__(self) -> None:
        super().__init__(2)

    def embed(self, images: torch.Tensor) -> torch.Tensor:
        return images.unflatten(3, (2, 2)).sum((1, 2, 4))


def rows(path: Path, origin: Origin | None, seed: int, people: int = 12) -> Path:
    """People with two images each, whose names no other seed has."""
    person = np.repeat(np.arange(people), 2)
    made = np.random.default_rng(seed).normal(size=(2 * people, 2)).astype(np.float32)
    names = np.array([f"{seed}/{place}.png" for place in range(2 * people)])
    domains = np.where(np.arange(2 * people) < people, "day", "night")
    write_embeddings(path, Embeddings(made, names, np.array([f"p{one}" for one in person]), domains, origin=origin))
    return path


def _pairs(one: Path, two: Path, folder: Path) -> object:
    for seed in (0, 1):
        pairs = [f"{seed}/{2 * fold}.png,{seed}/{2 * fold + 1 + other}.png,{1 - other},{fold}" for fold in (0, 1)
                 for other in (0, 1)]  # fmt: skip
        (folder / f"pairs{seed}.csv").write_text("\n".join(["left,right,label,fold", *pairs]) + "\n")
    return evaluate_pairs([one, two], [folder / "pairs0.csv", folder / "pairs1.csv"], Options(["0.5"]))


def _identified(one: Path, two: Path, folder: Path) -> object:
    threshold = calibrate(one, ["0.2"], "expected").thresholds[0]
    network = Sums().eval()
    assert taken_pixels(network) == PIXELS
    model = Model(folder / "model", "test", network, OURS.model, False, "arcface_112x112", (threshold,))
    probe = folder / "probe.png"
    Image.fromarray(np.random.default_rng(3).integers(0, 256, (4, 4, 3), np.uint8)).save(probe)
    found = identify(probe, two, model, aligned_faces((4, 4), ("arcface_112x112 by MTCNN",)),
                     Choice(accept_pair_threshold=True))  # fmt: skip
    if "detector" in found.gallery_note:  # another detector is said first, since photographs are looked at now
        raise ValueError(found.text().splitlines()[0])
    return found


def _figures(one: Path, two: Path, folder: Path, calibration: Path | None = None) -> None:
    evaluate_all_pairs(two, Options(["0.5"], calibration=calibration)).write_json(folder / "figures.json")
    check_same(folder / "model", read_embeddings(one).origin, None, None, [folder / "figures.json"], False)


READERS: dict[str, Callable[[Path, Path, Path], object]] = {
    "calibrate --check": lambda one, two, folder: calibrate(one, ["0.2"], "expected", checks=[two]),
    "export --calibration": lambda one, two, folder: check_same(
        folder / "model", read_embeddings(one).origin, calibrate(two, ["0.2"], "expected"), two, (), False
    ),
    "export --evaluation": _figures,
    "export --gallery-calibration": lambda one, two, folder: _beside_a_gallery(one, two, folder, False),
    "export --gallery-calibration --evaluation": lambda one, two, folder: _beside_a_gallery(one, two, folder, True),
    "identify": _identified,
    "one-threshold": lambda one, two, folder: evaluate_one_threshold([one, two], Options(["0.5"], skip_empty=True)),
    "evaluate --calibration": lambda one, two, folder: evaluate_all_pairs(one, Options(["0.5"], calibration=two)),
    "two sets": lambda one, two, folder: evaluate_two_sets(one, two, Options(["0.5"])),
    "pairs": _pairs,
    "identification": lambda one, two, folder: evaluate_galleries(
        one, [two], IdentificationOptions(ranks=(1,), fpirs=())
    ),
    "distractors": lambda one, two, folder: evaluate_distractors(
        "megaface", one, [two], DistractorOptions(fars=(), ranks=(1,))
    ),
    "overlap": lambda one, two, folder: find_overlap(open_people(one), open_people(two), embeddings=(one, two)),
}


def _of_gallery(strangers: Path, gallery: Path, **options: Any) -> GalleryCalibration:
    """A calibration on strangers, and perhaps a cohort, none of whom is enrolled."""
    about = {"fpir": "0.5", "guarantee": "expected", "accept_implausible": True}
    return arrays.calibrate(_renamed(strangers), gallery=read_embeddings(gallery), **about, **options)


def _renamed(path: Path) -> Embeddings:
    rows = read_embeddings(path)
    return replace(rows, identities=np.char.add(path.stem, rows.identities))


def _exported(one: Path, two: Path, plain: Path) -> None:
    """A calibration on a file of unknown origin, which was checked on that of another model than the exported one."""
    file = two.with_suffix(".json")
    calibrate(plain, ["0.2"], "expected", checks=[two]).write_json(file)
    own = read_embeddings(one).origin
    check_same(one.parent / "model", own, read_calibration(file), file, (), accept_unrecorded=True)


def _beside_a_gallery(one: Path, two: Path, folder: Path, figures: bool) -> None:
    """A calibration of a gallery beside figures, or beside another calibration, for a model that both may be of."""
    gallery, other, enrolled = folder / "gallery.json", folder / "other.json", folder / "enrolled.npz"
    strangers, rest = (one, two) if figures else (two, one)
    _of_gallery(strangers, rows(enrolled, read_embeddings(strangers).origin, 5)).write_json(gallery)
    found = evaluate_all_pairs(rest, Options(["0.5"])) if figures else calibrate(rest, ["0.2"], "expected")
    found.write_json(other)
    results = Results(gallery=gallery, evaluation=[other]) if figures else Results(other, gallery)
    results.check(folder / "model", replace(OURS, alignment=None, preprocessing=None), accept_unrecorded=False)


WITH_AN_UNKNOWN: dict[str, Callable[[Path, Path, Path], object]] = {
    "one-threshold": lambda one, two, plain: evaluate_one_threshold([one, plain], Options(["0.5"], calibration=two)),
    "one-threshold, plain first": lambda one, two, plain: evaluate_one_threshold(
        [plain, one], Options(["0.5"], calibration=two)
    ),
    "distractors of a gallery": lambda one, two, plain: evaluate_galleries(
        plain, [one], IdentificationOptions(ranks=(1,), fpirs=()), [two]
    ),
    "two checks": lambda one, two, plain: calibrate(plain, ["0.2"], "expected", checks=[one, two]),
    "export --calibration": _exported,
    "export --evaluation, its one threshold": lambda one, two, plain: _figures(one, plain, plain.parent, two),
    "calibrate --gallery --cohort": lambda one, two, plain: _of_gallery(one, plain, rule="s", cohort=_renamed(two)),
    "calibrate --gallery --probes": lambda one, two, plain: _of_gallery(one, plain, probes=read_embeddings(two)),
    "two galleries": lambda one, two, plain: evaluate_galleries(
        plain, [one, two], IdentificationOptions(ranks=(1,), fpirs=())
    ),
    "promised rates in a gallery": lambda one, two, plain: evaluate_galleries(
        one,
        [rows(plain, None, 2, people=6)],
        IdentificationOptions(ranks=(1,), fpirs=(), calibration=_of_gallery(two, plain)),
    ),
    "promised rates in the gallery of strangers of unknown origin": lambda one, two, plain: evaluate_galleries(
        one,
        [rows(plain, None, 2, people=6)],
        IdentificationOptions(ranks=(1,), fpirs=(), calibration=_of_gallery(plain, two)),
    ),
    "two files of distractors": lambda one, two, plain: evaluate_distractors(
        "megaface", plain, [one, two], DistractorOptions(fars=(), ranks=(1,))
    ),
}


@pytest.mark.parametrize("reader", WITH_AN_UNKNOWN)
def test_two_known_origins_are_compared_beside_an_unknown_one(reader, tmp_path):
    plain = rows(tmp_path / "plain.npz", None, 2)
    for name, (theirs, words) in OTHERS.items():
        one, two = rows(tmp_path / "one.npz", OURS, 0), rows(tmp_path / f"{name}.npz", theirs, 1)
        with pytest.raises(ValueError, match=" against ") as caught:
            WITH_AN_UNKNOWN[reader](one, two, plain)
        assert words in str(caught.value), name


@pytest.mark.parametrize("reader", READERS)
def test_each_setting_alone_is_refused_with_both_values(reader, tmp_path):
    one = rows(tmp_path / "one.npz", OURS, 0)
    for name, (theirs, words) in OTHERS.items():
        two = rows(tmp_path / f"{name}.npz", theirs, 1)
        with pytest.raises(ValueError, match=" against ") as caught:
            READERS[reader](one, two, tmp_path)
        assert words in str(caught.value), name
        assert str(caught.value).count(" against ") == 1, "nothing else differs"


@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_setting_may_differ(reader, tmp_path):
    one = rows(tmp_path / "one.npz", OURS, 0)
    for place, theirs in enumerate(ALIKE.values()):
        READERS[reader](one, rows(tmp_path / f"{place}.npz", theirs, 1), tmp_path)


MEASURED = "one-threshold", "evaluate --calibration", "two sets", "pairs", "identification", "distractors", "overlap"


@pytest.mark.parametrize("reader", MEASURED)
def test_figures_say_once_which_file_records_no_pixels(reader, tmp_path, caplog):
    said = "was made by an earlier version, which did not record the pixels"
    one, old = rows(tmp_path / "one.npz", OURS, 0), rows(tmp_path / "old.npz", replace(OURS, preprocessing=None), 1)
    READERS[reader](one, rows(tmp_path / "two.npz", OURS, 1), tmp_path)
    assert said not in caplog.text
    READERS[reader](one, old, tmp_path)
    READERS[reader](one, old, tmp_path)
    assert (caplog.text.count(said), f"{old} {said}" in caplog.text) == (1, True)


def test_a_pool_keeps_its_origin_and_loses_what_one_part_does_not_record(tmp_path):
    older = replace(OURS, preprocessing=None)
    sets = {name: rows(tmp_path / f"{name}.npz", origin, place) for place, (name, origin) in enumerate(
        (("ours", OURS), ("there", replace(OURS, images="there")), ("older", older)))}  # fmt: skip
    opened = {name: read_embeddings(path) for name, path in sets.items()}
    assert opened["ours"].origin == OURS
    assert pool_embeddings([(name, opened[name]) for name in ("ours", "there")]).origin == replace(OURS, images="")
    assert pool_embeddings([(name, opened[name]) for name in ("ours", "older")]).origin == replace(older, images="")


# --- files of an earlier version ---


def test_a_file_that_records_no_pixels_is_refused_unless_accepted(tmp_path):
    one, older = rows(tmp_path / "one.npz", OURS, 0), rows(tmp_path / "older.npz", replace(OURS, preprocessing=None), 1)
    for own, other in ((one, older), (older, one)):
        with pytest.raises(ValueError, match=r"older\.npz: made by an earlier version, .*--accept-unrecorded-pixels"):
            calibrate(own, ["0.2"], "expected", checks=[other])
        calibrate(own, ["0.2"], "expected", checks=[other], accept_unrecorded_pixels=True)
    for reader in ("export --calibration", "export --evaluation"):
        with pytest.raises(ValueError, match=r"made by an earlier version, .*--accept-unrecorded-pixels"):
            READERS[reader](one, older, tmp_path)
    plain = rows(tmp_path / "plain.npz", None, 2)
    with pytest.raises(ValueError, match=r"older\.npz: made by an earlier version, .*--accept-unrecorded-pixels"):
        calibrate(plain, ["0.2"], "expected", checks=[older])
    accepted = calibrate(plain, ["0.2"], "expected", checks=[older], accept_unrecorded_pixels=True)
    with pytest.raises(ValueError, match=r"its check on older\.npz: made by an earlier version"):
        check_same(tmp_path, OURS, accepted, older, (), accept_unrecorded=False)
    check_same(tmp_path, OURS, calibrate(older, ["0.2"], "expected"), older, (), accept_unrecorded=True)
    with pytest.raises(ValueError, match=r"gallery: made by an earlier version, .*--accept-unrecorded-pixels"):
        _of_gallery(one, older)
    file = tmp_path / "gallery.json"
    _of_gallery(one, older, accept_unrecorded_pixels=True).write_json(file)
    with pytest.raises(ValueError, match=r"gallery\.json: made by an earlier version, .*--accept-unrecorded-pixels"):
        Results(gallery=file).check(tmp_path, OURS, accept_unrecorded=False)
    Results(gallery=file).check(tmp_path, OURS, accept_unrecorded=True)
    words = "rates were also measured on older.npz, which was made by an earlier version"
    assert accepted.thresholds[0].meaning().startswith(words)
    assert not calibrate(older, ["0.2"], "expected").thresholds[0].weak_checks, "of itself other notes tell"
    card = " ".join(gallery_section(read_gallery_calibration(file), "gallery.json"))
    assert "**Embeddings of its gallery were made by an earlier version, which did not record the pixels" in card
    note = _identified(one, older, tmp_path).text().splitlines()[0]
    assert note.startswith("The embeddings behind older.npz were made by an earlier version, which did not record the")


def test_figures_are_compared_with_the_checks_of_a_calibration_too(tmp_path):
    """The calibration's own crops record no detector, nor does the model."""
    own = replace(OURS, alignment=None, template="arcface_112x112")
    file, check = rows(tmp_path / "own.npz", own, 0), rows(tmp_path / "check.npz", OURS, 1)
    evaluate_all_pairs(rows(tmp_path / "other.npz", OTHERS["detector"][0], 2), Options(["0.5"])).write_json(
        tmp_path / "figures.json"
    )
    checked = calibrate(file, ["0.2"], "expected", checks=[check])
    with pytest.raises(
        ValueError, match=r"other\.npz: not made as .*its check on check\.npz was \(detector SCRFD against"
    ):
        check_same(tmp_path, own, checked, tmp_path / "c.json", [tmp_path / "figures.json"], False)


def test_a_calibration_is_not_said_to_hide_how_its_own_file_was_made(tmp_path, caplog):
    file, other = rows(tmp_path / "own.npz", OURS, 0), rows(tmp_path / "plain.npz", None, 1)
    check_same(tmp_path, OURS, calibrate(file, ["0.2"], "expected"), tmp_path / "own.json", (), False)
    assert not caplog.records
    checked = calibrate(file, ["0.2"], "expected", checks=[other])
    caplog.clear()
    check_same(tmp_path, OURS, checked, tmp_path / "checked.json", (), False)
    (record,) = caplog.records
    assert "its check on plain.npz: nothing in it says how it was made" in record.getMessage()


def test_rows_of_another_detector_than_the_thresholds_are_said_where_the_photograph_records_none(tmp_path, monkeypatch):
    one = rows(tmp_path / "one.npz", OURS, 0)
    two = rows(tmp_path / "two.npz", OTHERS["detector"][0], 1)
    probe = tmp_path / "probe.png"
    Image.fromarray(np.random.default_rng(3).integers(0, 256, (4, 4, 3), np.uint8)).save(probe)
    threshold = calibrate(one, ["0.2"], "expected").thresholds[0]
    monkeypatch.setattr("verisphere.ship.deciding.sealed_origin", lambda model: (tmp_path / "c.json", OURS))
    model = Model(tmp_path / "model", "test", Sums().eval(), OURS.model, False, "arcface_112x112", (threshold,))
    choice = Choice(accept_pair_threshold=True)
    for gallery, said in ((two, True), (one, False)):
        notes = identify(probe, gallery, model, aligned_faces((4, 4)), choice).notes
        assert any("two.npz was not made as c.json" in note and "SCRFD against MTCNN" in note for note in notes) == said


def test_probes_of_a_calibration_that_alone_record_a_detector_are_compared_too(tmp_path):
    plain = replace(OURS, alignment=None)
    strangers, gallery = (rows(tmp_path / f"{place}.npz", plain, place) for place in range(2))
    probes = read_embeddings(rows(tmp_path / "probes.npz", OTHERS["detector"][0], 2))
    _of_gallery(strangers, gallery, probes=probes).write_json(tmp_path / "found.json")
    model = Model(tmp_path / "model", "test", Sums().eval(), OURS.model, False, "arcface_112x112", ())
    choice = Choice(calibration=tmp_path / "found.json")
    for asked, told in ((OURS, True), (OTHERS["detector"][0], False)):
        found = identify_each(rows(tmp_path / "asked.npz", asked, 3), gallery, model, aligned_faces((4, 4)), choice)
        said = "found.json (its probes) was made otherwise (detector SCRFD against MTCNN)"
        assert any(said in note for note in found.notes) == told


def test_crops_of_another_detector_are_said_first_of_rows_and_of_two_photographs(tmp_path):
    ours, other = rows(tmp_path / "ours.npz", OURS, 0), rows(tmp_path / "other.npz", OTHERS["detector"][0], 1)
    plain = rows(tmp_path / "plain.npz", replace(OURS, alignment=None), 2)
    choice, words = (
        Choice(accept_pair_threshold=True),
        "made otherwise (detector MTCNN against SCRFD): the crops differ",
    )
    for calibrated, gallery, told in ((ours, plain, True), (plain, ours, True), (plain, plain, False)):
        thresholds = calibrate(calibrated, ["0.2"], "expected").thresholds
        model = Model(tmp_path / "model", "test", Sums().eval(), OURS.model, False, "arcface_112x112", thresholds)
        found = identify_each(other, gallery, model, aligned_faces((4, 4)), choice)
        assert any(words in note for note in found.notes) == told
    mine = rows(tmp_path / "mine.npz", OTHERS["template"][0], 3)
    with pytest.raises(ValueError, match=r"mine\.npz: .*template mine against arcface_112x112"):
        identify_each(mine, plain, model, aligned_faces((4, 4)), choice)
    find = aligned_faces((4, 4), ("arcface_112x112 by MTCNN", "arcface_112x112 by SCRFD"))
    assert f"Photographs were {words}, and so may the rates." in notes_on_model(
        model, thresholds[0], False, find, plain, None
    )


# --- one file, adopted twice ---


@pytest.fixture
def twice(tmp_path: Path) -> tuple[Path, Path]:
    """Faces of eight people, and the network of one file that takes their pixels as they are."""
    random = np.random.default_rng(0)
    for person in range(8):
        (tmp_path / "faces" / f"p{person}").mkdir(parents=True)
        for number in range(2):
            pixels = random.integers(0, 256, (SIDE, SIDE, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "faces" / f"p{person}" / f"{number}.png")
    file = written(tmp_path / "net.onnx", graph())
    adopt_onnx(file, tmp_path / "plain", Told(colour="RGB", mean=0.0, scale=1.0, template="own"))
    return file, tmp_path


@pytest.mark.usefixtures("process_as_it_was")
@pytest.mark.parametrize(
    ("told", "words"),
    [
        (
            Told(colour="RGB", mean=127.5, scale=128.0, template="own"),
            "mean 0 against 127.5, scale 1 against 128",
        ),
        (Told(colour="BGR", mean=0.0, scale=1.0, template="own"), "colour RGB against BGR"),
        (Told(colour="RGB", mean=0.0, scale=1.0, template="mine"), "template own against mine"),
    ],
)
def test_a_threshold_of_one_file_with_other_pixels_is_refused(twice, told, words, capsys):
    file, folder = twice
    first, second = folder / "plain", folder / "second"
    adopt_onnx(file, second, told)
    for model in (first, second):
        assert main(["embed", str(model), str(folder / "faces"), "--out", str(folder / f"{model.name}.npz")]) == 0
    found = folder / "found.json"
    calibrated = ["calibrate", str(folder / f"{first.name}.npz"), "--far", "0.3", "--guarantee", "expected"]
    assert main([*calibrated, "--out", str(found)]) == 0
    assert main(["export", str(first), "--calibration", str(found), "--out", str(folder / "right")]) == 0
    capsys.readouterr()
    assert main(["export", str(second), "--calibration", str(found), "--out", str(folder / "wrong")]) == 2
    assert words in capsys.readouterr().err
    assert not (folder / "wrong").exists()
    other = str(folder / "second.npz")
    assert main([*calibrated, "--check", other, "--out", str(folder / "checked.json")]) == 2
    assert " against " in capsys.readouterr().err
    probe = str(folder / "faces" / "p0" / "0.png")
    for gallery, code in ((f"{first.name}.npz", 0), ("second.npz", 2)):
        identified = [
            "identify",
            probe,
            str(folder / gallery),
            "--model",
            str(folder / "right"),
            "--aligned",
            "--accept-pair-threshold",
        ]
        assert main(identified) == code, capsys.readouterr().err


@pytest.mark.usefixtures("process_as_it_was")
def test_the_card_names_checks_and_figures_whose_pixels_were_not_compared(twice):
    first = twice[1] / "plain"
    own, old, found, figures = (twice[1] / name for name in ("own.npz", "old.npz", "found.json", "figures.json"))
    assert main(["embed", str(first), str(twice[1] / "faces"), "--out", str(own)]) == 0
    read = read_embeddings(own)
    write_embeddings(old, replace(read, origin=replace(read.origin, preprocessing=None)))
    calibrated = ["calibrate", str(own), "--far", "0.3", "--guarantee", "expected", "--out", str(found)]
    export = ["export", str(first), "--calibration", str(found), "--accept-unrecorded-pixels"]
    assert main(["evaluate", "all-pairs", str(old), "--far", "0.5", "--json", str(figures)]) == 0
    for place, (checks, evaluations) in enumerate(((["--check", str(old)], []), ([], ["--evaluation", str(figures)]))):
        assert main([*calibrated, *checks, "--accept-unrecorded-pixels"]) == 0
        assert main([*export, *evaluations, "--out", str(twice[1] / f"model{place}")]) == 0
        card = (twice[1] / f"model{place}" / "model_card.md").read_text()
        assert "**Pixels were not compared**: old.npz was made by an earlier version" in card


@pytest.mark.usefixtures("process_as_it_was")
def test_neither_the_own_check_nor_a_list_is_said_to_record_no_origin(twice, capsys):
    first, (own, found, pairs, figures) = twice[1] / "plain", [
        twice[1] / name for name in ("own.npz", "found.json", "pairs.csv", "figures.json")
    ]  # fmt: skip
    assert main(["embed", str(first), str(twice[1] / "faces"), "--out", str(own)]) == 0
    assert main(["calibrate", str(own), "--far", "0.3", "--guarantee", "expected", "--out", str(found)]) == 0
    names = read_embeddings(own).names
    listed = [
        f"{names[2 * fold]},{names[2 * fold + 1 + other]},{1 - other},{fold}" for fold in (0, 1) for other in (0, 1)
    ]
    pairs.write_text("\n".join(["left,right,label,fold", *listed]) + "\n")
    assert main(["evaluate", "pairs", str(own), "--pairs", str(pairs), "--far", "0.5", "--json", str(figures)]) == 0
    capsys.readouterr()
    assert main(["export", str(first), "--calibration", str(found), "--evaluation", str(figures), "--out",
                 str(twice[1] / "model")]) == 0  # fmt: skip
    assert "taken on trust" not in capsys.readouterr().err
    card = (twice[1] / "model" / "model_card.md").read_text()
    assert "Nothing here shows" not in card
    assert "pairs.csv (SHA-256 " in card
    assert [source.is_list for source in read_figures(figures).sources] == [False, True]


@pytest.mark.usefixtures("process_as_it_was")
def test_crops_of_another_template_are_refused_where_no_calibration_records_one(twice, capsys):
    model, faces, own, gallery = (str(twice[1] / name) for name in ("plain", "faces", "own.npz", "gallery"))
    assert main(["embed", model, faces, "--out", own]) == 0
    few = ["--fpir", "0.3", "--guarantee", "expected", "--accept-implausible"]
    assert main(["gallery", "create", gallery, "--strangers", own, *few]) == 0
    probe, out = f"{faces}/p0/0.png", str(twice[1] / "out")
    assert main(["gallery", "enrol", gallery, faces, "--model", model, "--aligned", "--person", "Ann"]) == 0
    of_rows = ["gallery", "identify", gallery, own, "--model", model, "--each", f"{out}.csv"]
    assert main(of_rows) == 0, "rows and a gallery show no photograph, for which a template would have to be known"
    record = {"format": 1, "drawn": None, "alignment": "mine by MTCNN"}
    (twice[1] / "faces" / "images.json").write_text(json.dumps(record))
    (twice[1] / "faces" / "p0" / "images.json").write_text(json.dumps(record))
    aligned = ["--model", model, "--aligned"]
    capsys.readouterr()
    for words in (
        ["verify", probe, probe, *aligned],
        ["identify", probe, own, *aligned],
        ["gallery", "enrol", gallery, faces, *aligned],
        ["calibrate", own, "--gallery", faces, *aligned, *few, "--out", out],
        ["export", model, "--precision", "fp16", "--measured-on", faces, "--far", "0.3", "--out", out],
    ):
        assert main(words) == 2, words
        assert "its faces are aligned to mine, but the model takes own; align" in capsys.readouterr().err, words
    with pytest.raises(ValueError, match="its faces are aligned to mine, but the model takes own"):
        load(model, "cpu").extract(Photos(faces), faces)
