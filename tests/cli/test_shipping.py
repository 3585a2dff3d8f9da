"""The command line after a training, in the order of README's own photos: embed, calibrate, export, verify, report."""

import csv
import hashlib
import json
import logging
import shutil
import signal
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from blue_squares import photo, write_blue_squares
from verisphere.base.vocabulary import Embeddings
from verisphere.cli.messages import show
from verisphere.cli.parsing import TEMPLATES as CLI_TEMPLATES
from verisphere.cli.start import main, parser
from verisphere.decide import GUARANTEES
from verisphere.files.embeddings import read_embeddings, write_embeddings
from verisphere.images.detect import TEMPLATES
from verisphere.models.build import build_backbone
from verisphere.models.checkpoint import save_checkpoint

DRAWN = ("--aligned", "--accept-drawn-model")
NETWORK = {
    "class_path": "verisphere.backbones.mobilefacenet.MobileFaceNet",
    "init_args": {"embedding_size": 16, "width": 0.1, "activation": "relu"},
}
RECIPE = """\
data: {class_path: verisphere.images.Photos, init_args: {path: faces.zip}}
backbone:
  class_path: verisphere.backbones.mobilefacenet.MobileFaceNet
  init_args: {embedding_size: 16, width: 0.1, activation: relu}
loss: {class_path: verisphere.losses.ArcFace, init_args: {margin: 0.3, scale: 32.0}}
"""


@pytest.fixture(autouse=True, scope="module")
def _log_and_signals_as_before():
    logger = logging.getLogger("verisphere")
    kept = logger.handlers[:], logger.level, signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP)
    yield
    logger.handlers[:], logger.level = kept[0], kept[1]
    signal.signal(signal.SIGTERM, kept[2])
    signal.signal(signal.SIGHUP, kept[3])


def call(*arguments: object) -> int:
    return main(["--default-allocator", *map(str, arguments)])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, shallow: None) -> Path:
    """A run with an untrained network, aligned faces, and all that the verbs make of them."""
    place = tmp_path_factory.mktemp("shipping")
    assert call("data", "render", place / "faces.zip", "--people", 24, "--images", 3, "--difficulty", "easy") == 0
    with zipfile.ZipFile(place / "faces.zip") as archive:
        archive.extractall(place / "faces")
    run = place / "run"
    torch.manual_seed(0)
    backbone = dict(build_backbone(NETWORK).state_dict())
    data = {"images": 72, "people": 24, "sha256": "0"}
    save_checkpoint(run, 5, {"backbone": backbone}, {"backbone": NETWORK, "seed": 0, "data": data})
    (run / "recipe.yaml").write_text(RECIPE)
    (run / "people.txt").write_text("nobody\n")
    (run / "metrics.jsonl").write_text(
        '{"step": 1, "epoch": 0.5, "loss": 9.0, "rate": 0.1}\n{"step": 5, "epoch": 1.0, "loss": 3.0, "rate": 0.0}\n'
    )
    embeddings = run / "others.npz"
    assert call("embed", run, place / "faces.zip", "--flip", "--out", embeddings, "--workers", 0) == 0
    figures, calibration = place / "figures.json", place / "calibration.json"
    assert call("evaluate", "all-pairs", embeddings, "--far", "1e-1", "--json", figures) == 0
    calibrated = ("--far", "0.2", "--far", "0.1", "--guarantee", "expected")  # 24 people are too few for `confident`
    assert call("calibrate", embeddings, *calibrated, "--out", calibration) == 0
    exported = call(
        "export", run, "--calibration", calibration, "--evaluation", figures, "--out", place / "model", "--name", "tiny"
    )
    assert exported == 0
    return place


def test_the_choices_of_the_command_line_are_those_of_the_library():
    assert tuple(TEMPLATES) == CLI_TEMPLATES
    for guarantee in GUARANTEES:
        options = parser().parse_args(["calibrate", "x", "--far", "1", "--out", "y", "--guarantee", guarantee])
        assert options.guarantee == guarantee


def test_embeddings_say_which_model_made_them(place):
    origin = read_embeddings(place / "run" / "others.npz").origin
    model = json.loads((place / "model" / "model.json").read_text())
    assert origin.flip
    assert origin.model == model["files"]["backbone.safetensors"]["sha256"]
    assert model["flip"] is True
    assert [one["far_target"] for one in model["thresholds"]] == ["0.2", "0.1"]


def test_a_run_its_model_folder_and_its_onnx_file_give_the_same_embeddings(place, says, tmp_path):
    faces = place / "faces.zip"
    for number, model in enumerate((place / "model", place / "model" / "model.onnx")):
        out = tmp_path / f"{number}.npz"
        assert "72 images of 24 people" in says("embed", model, faces, "--out", out, "--workers", 0)
        found, expected = read_embeddings(out), read_embeddings(place / "run" / "others.npz")
        assert np.allclose(found.embeddings, expected.embeddings, atol=1e-4)
        assert found.origin == replace(expected.origin, template="arcface_112x112")  # a run names none


def test_an_onnx_file_flips_as_it_was_exported(place, refused, tmp_path):
    onnx, faces = place / "model" / "model.onnx", place / "faces.zip"
    line = refused("embed", onnx, faces, "--no-flip", "--out", tmp_path / "a.npz", "--workers", 0)
    assert "flip is false, but the ONNX file adds the mirror image's embedding inside" in line


def test_verify(place, says, refused):
    person = sorted(path for path in (place / "faces").iterdir() if path.is_dir())[0]
    one, two, _ = sorted(person.iterdir())
    said = says("verify", one, two, "--model", place / "model", "--far", "0.1", *DRAWN)
    drawn, answer = said.splitlines()[:2]
    assert drawn.startswith("This model was calibrated on drawn faces")
    assert answer.startswith(("Same person: score ", "Different people: score "))
    assert said.splitlines()[2].startswith("On average over calibrations, at most 1 in 10 pairs of strangers pass; ")
    assert "accept iff score > " not in said
    explained = says("verify", one, two, "--model", place / "model", "--far", "0.1", *DRAWN, "--explain")
    assert explained.startswith(said.removesuffix("\n"))
    assert "accept iff score > " in explained
    line = refused("verify", one, two, "--model", place / "model", "--far", "0.1", *DRAWN, "--explain", "--json")
    assert line == "verisphere: --json has the exact wording that --explain prints; omit one\n"
    found = json.loads(says("verify", one, one, "--model", place / "model", "--far", "0.10", *DRAWN, "--json"))
    assert found["same"] is True
    assert found["score"] == pytest.approx(1)
    folders = says("verify", person, person, "--model", place / "model", "--far", "0.2", *DRAWN)
    assert "of 9 comparisons pass" in folders


def test_a_probability_is_shipped_where_it_was_asked_for(place, says, refused, tmp_path):
    embeddings, plot, found = place / "run" / "others.npz", tmp_path / "plot.png", tmp_path / "found.json"
    options = ("--far", "0.1", "--guarantee", "expected", "--out", found)
    line = refused("calibrate", embeddings, *options, "--plot", plot)
    assert "--plot" in line
    assert "it draws how reliable a --probability is" in line
    said = says("calibrate", embeddings, *options, "--probability", "--plot", plot)
    assert "probability: the log-likelihood ratio of one person is " in said
    assert plot.stat().st_size > 10_000
    says("export", place / "run", "--calibration", found, "--out", tmp_path / "model")
    ratio = json.loads(found.read_text())["probability"]
    card = (tmp_path / "model" / "model_card.md").read_text()
    assert "`verisphere verify --probability PRIOR` adds the probability of one person, which is fitted" in card
    assert f"Cllr {ratio['cllr']:.4f}, at least {ratio['min_cllr']:.4f} by an increasing map" in card
    assert "--probability PRIOR" not in (place / "model" / "model_card.md").read_text()
    one, two, other = sorted((place / "faces").rglob("*.png"))[:3]
    verified = ("verify", one, two, "--model", tmp_path / "model", *DRAWN)
    plain, answer = says(*verified), says(*verified, "--probability", "0.5")
    assert answer.startswith(plain)  # the answer and the promise, then the probability
    assert answer.removeprefix(plain).startswith("Probability of one person: ")
    stated = json.loads(says(*verified, "--probability", "0.1", "--json"))
    score, probability = stated["score"], stated["probability"]
    bounds = -np.log(ratio["people"] + 1), np.log(ratio["comparisons"] + 1)
    assert probability["ratio"] == pytest.approx(np.clip(ratio["slope"] * score + ratio["intercept"], *bounds))
    assert probability["probability"] == pytest.approx(1 / (1 + 9 * np.exp(-probability["ratio"])))
    assert probability["prior"] == 0.1
    assert json.loads(says(*verified, "--json"))["probability"] is None
    for prior in ("0", "1", "nan"):
        assert "must be from 1e-12 to 1 - 1e-12" in refused(*verified, "--probability", prior)
    line = refused("verify", one, one.parent, "--model", tmp_path / "model", *DRAWN, "--probability", "0.5")
    assert "a probability is that of two photographs, and these are 3 comparisons" in line
    line = refused("verify", one, other, "--model", place / "model", "--far", "0.1", *DRAWN, "--probability", "0.5")
    assert "it ships no probability; calibrate with --probability, and export it again" in line


def test_a_model_behind_which_drawings_stand_has_to_be_accepted(place, says, refused):
    one, two = sorted((place / "faces").rglob("*.png"))[:2]
    model = ("--model", place / "model", "--far", "0.1", "--aligned")
    for verb, other in (("verify", two), ("identify", place / "faces")):
        line = refused(verb, one, other, *model)
        assert "this model was calibrated on drawn faces" in line
        assert "--accept-drawn-model" in line
    said = says("verify", one, two, *model, "--accept-drawn-model", "--explain")
    assert "people like those calibrated on (drawn faces of 24 people who do not exist)" in said
    assert "the model was trained on images of 24 people from faces.zip" in said  # as the run's recipe names it
    assert "of comparisons of two images of one person, " in said
    assert "of 72 genuine comparisons of others.npz" in said
    found = json.loads(says("verify", one, two, *model, "--accept-drawn-model", "--json"))
    assert found["drawn"].startswith("this model was calibrated on drawn faces")
    assert found["threshold"]["calibrated_on"]["drawn"] is True
    genuine = found["threshold"]["genuine"]
    assert genuine["tar_lower_95"] <= genuine["tar"] == genuine["accepted"] / 72 <= genuine["tar_upper_95"]
    assert "drawn" in (place / "model" / "model_card.md").read_text()


def test_identify_in_an_embeddings_file(place, says):
    probe = sorted((place / "faces").rglob("*.png"))[0]
    model = ("--model", place / "model", "--far", "0.1", *DRAWN, "--top", "30", "--accept-pair-threshold")
    by_photos = json.loads(says("identify", probe, place / "faces.zip", *model, "--json"))
    by_embeddings = json.loads(says("identify", probe, place / "run" / "others.npz", *model, "--json"))
    assert by_embeddings["people"] == 24
    assert len(by_photos["matches"]) == by_photos["passing"]
    for ours, theirs in zip(by_embeddings["matches"], by_photos["matches"], strict=True):
        assert ours["name"] == theirs["name"]
        assert ours["passed"] == theirs["passed"]
        assert ours["score"] == pytest.approx(theirs["score"], abs=1e-5)


def test_report(place, says, tmp_path):
    said = says("report", place / "run", "--out", tmp_path / "report", "--far", "0.1", "--one-far", "0.1")
    page = tmp_path / "report" / "report.html"
    assert str(page) in said
    assert "others" in page.read_text()
    says("report", place / "model", "--faces", place / "faces.zip", "--out", tmp_path / "shipped", "--far", "0.1")
    first = (tmp_path / "shipped" / "report.html").read_text()
    assert "tried on these pairs" in first
    assert "over people: " in first


# --- what a wrong call says ------------------------------------------------------------------------------------------


def test_too_few_people_to_calibrate(place, refused, tmp_path):
    line = refused("calibrate", place / "run" / "others.npz", "--far", "1e-3", "--out", tmp_path / "c.json")
    assert line.endswith(
        "others.npz: guarantee 'confident' at FAR 1e-3 needs 5,990 people (2,995 comparisons that share no person); "
        "got 24 people (12 comparisons); possible: 'confident' at FAR 0.221 or higher, "
        "'expected' at FAR 7.70e-2 or higher, 'approximate' only with 50 people or more\n"
    )
    assert not (tmp_path / "c.json").exists()


def test_a_changed_byte_in_the_model_folder(place, refused, tmp_path):
    for name in ("backbone.safetensors", "model.onnx", "model.json", "calibration.json", "model_card.md"):
        copy = tmp_path / name / "model"
        shutil.copytree(place / "model", copy)
        content = bytearray((copy / name).read_bytes())
        content[len(content) // 2] ^= 1
        (copy / name).write_bytes(content)
        one = next((place / "faces").rglob("*.png"))
        line = refused("verify", one, one, "--model", copy, "--far", "0.1", "--aligned")
        assert str(copy / name) in line


def test_nothing_is_written_over_what_is_read(place, refused, tmp_path):
    embeddings, figures = tmp_path / "set.npz", tmp_path / "scores.csv"
    shutil.copy(place / "run" / "others.npz", embeddings)
    figures.write_text("score,label\n0.9,1\n0.1,0\n")
    calls = [
        ("calibrate", embeddings, "--far", "0.2", "--out", embeddings),
        ("calibrate", place / "run" / "others.npz", "--far", "0.2", "--check", embeddings, "--out", embeddings),
        ("evaluate", "all-pairs", embeddings, "--json", embeddings),
        ("evaluate", "all-pairs", embeddings, embeddings, "--json", embeddings),
        ("evaluate", "scores", figures, "--json", figures),
        ("evaluate", "pairs", embeddings, "--pairs", figures, "--json", figures),
        ("report", embeddings, "--out", tmp_path),
        ("align", place / "faces.zip", place / "faces.zip"),
        ("export", place / "run", "--calibration", place / "calibration.json", "--out", place / "calibration.json"),
    ]
    files = (embeddings, figures, place / "faces.zip", place / "calibration.json")
    before = [path.read_bytes() for path in files]
    for call_ in calls:
        assert "which is read here; write to another name" in refused(*call_)
    assert [path.read_bytes() for path in files] == before


@pytest.mark.parametrize("verb", [("calibrate", "--far", "0.2"), ("embed", "faces.zip")])
def test_an_output_that_cannot_be_written_is_said_before_any_work(verb, refused, tmp_path):
    """The input is absent, and yet the line is about the output: nothing was read until it had been looked at."""
    (tmp_path / "file").write_bytes(b"no folder")
    (tmp_path / "folder.npz").mkdir()
    name, *more = verb
    line = refused(name, tmp_path / "absent", *more, "--out", tmp_path / "file" / "out.npz")
    assert "out.npz: cannot be written, for " in line
    assert "file is a file, no folder" in line
    assert "folder.npz: " in refused(name, tmp_path / "absent", *more, "--out", tmp_path / "folder.npz")
    assert (tmp_path / "file").read_bytes() == b"no folder"


def test_the_shipped_folder_names_paths_as_they_were_typed(place, says, tmp_path, monkeypatch):
    monkeypatch.chdir(place)
    says("embed", "run", "faces.zip", "--flip", "--out", tmp_path / "a.npz", "--workers", 0)
    said = says("calibrate", tmp_path / "a.npz", "--far", "0.25", "--out", tmp_path / "found.json")
    assert "with 95 % confidence" in said
    assert "to ship it" in said
    assert str(place) not in (tmp_path / "found.json").read_text()
    assert json.loads((tmp_path / "found.json").read_text())["origin"]["images"] == "faces.zip"


def test_a_path_that_is_not_unicode_can_be_printed(capsys):
    show("gal\udcffery: 3 of 3")
    assert capsys.readouterr().out == "gal\\udcffery: 3 of 3\n"


def test_faces_by_another_detector(place, says, refused, tmp_path):
    weights = write_blue_squares(tmp_path / "squares.onnx")
    (tmp_path / "photos").mkdir()
    for name, left in (("one.png", 32), ("other.png", 64)):
        Image.fromarray(photo(96, 128, (left, 32))).save(tmp_path / "photos" / name)
    said = says("align", tmp_path / "photos", tmp_path / "out", "--detector", weights)
    assert "2 of 2 photos aligned to arcface_112x112" in said
    one, other = tmp_path / "photos" / "one.png", tmp_path / "photos" / "other.png"
    model = ("--model", place / "model", "--far", "0.1", "--accept-drawn-model")
    found = json.loads(says("verify", one, other, *model, "--detector", weights, "--json"))
    assert found["same"] is True  # much the same crop
    gallery = tmp_path / "gallery" / "Ann"
    gallery.mkdir(parents=True)
    shutil.copy(one, gallery)
    assert "Ann" in says("identify", other, gallery.parent, *model, "--detector", weights)

    assert "there is no detector 'mtcn' (did you mean mtcnn?)" in refused(
        "align", one.parent, "x", "--detector", "mtcn"
    )
    line = refused("verify", one, other, *model, "--detector", "people:find")
    assert "detector 'people:find' is not part of verisphere" in line
    assert "--trust-code" in line
    line = refused("verify", one, other, *model, "--detector", weights, "--aligned")
    assert "--detector does nothing here: --aligned looks for no face" in line
    line = refused("verify", one, other, *model, "--min-face", "40", "--aligned")
    assert "--min-face does nothing here: --aligned looks for no face" in line


def test_faces_by_a_function(says, tmp_path, monkeypatch):
    (tmp_path / "people_faces.py").write_text(
        "def find(image):\n"
        "    points = [(38, 52), (74, 52), (56, 72), (42, 92), (71, 92)]\n"
        "    return [((10, 10, 100, 110), 0.9, points)]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "photos").mkdir()
    Image.fromarray(photo(120, 120)).save(tmp_path / "photos" / "one.png")
    words = ("--detector", "people_faces:find", "--trust-code")
    assert "1 of 1 photos aligned" in says("align", tmp_path / "photos", tmp_path / "out", *words)
    recorded = json.loads((tmp_path / "out" / "images.json").read_text())
    digest = hashlib.sha256((tmp_path / "people_faces.py").read_bytes()).hexdigest()
    assert recorded["alignment"] == f"arcface_112x112 by people_faces:find ({digest[:12]})"


def test_labels_of_other_rows_are_refused_in_one_line_unless_they_are_accepted(refused, says, tmp_path: Path):
    person = np.repeat(np.arange(60), 4)
    rows = np.eye(60, dtype=np.float32)[person] + np.random.default_rng(0).normal(0, 0.05, (240, 60))
    write_embeddings(tmp_path / "shifted.npz", Embeddings(rows, identities=np.roll(person, 1)))
    call = ("calibrate", tmp_path / "shifted.npz", "--far", "1e-1", "--out", tmp_path / "thresholds.json")
    line = refused(*call)
    assert "as if the labels belonged to the row before; if the file is right, say --accept-implausible" in line
    assert not (tmp_path / "thresholds.json").exists()
    out = says(*call, "--accept-implausible")
    assert out.startswith("implausible: shifted.npz: with all labels moved by one row")
    out = says("evaluate", "all-pairs", tmp_path / "shifted.npz")
    assert out.startswith("implausible: with all labels moved by one row")


# --- a gallery ---


@pytest.mark.parametrize(("page", "out"), [("page", "page/c.json"), ("page", "page"), ("file/page", "c.json")])
def test_a_page_that_cannot_be_made_is_refused_before_the_calibration_is_written(refused, tmp_path, page, out):
    (tmp_path / "file").write_text("")
    rows = Embeddings(np.random.default_rng(0).normal(size=(120, 8)), identities=np.arange(120).astype(str))
    write_embeddings(tmp_path / "people.npz", rows)
    refused("calibrate", tmp_path / "people.npz", "--far", "0.1", "--out", tmp_path / out, "--review", tmp_path / page)
    assert not (tmp_path / out).exists()


def test_a_threshold_of_a_gallery_is_shipped_shown_and_measured(place, says, refused, tmp_path):
    rows = read_embeddings(place / "run" / "others.npz")
    people = np.unique(rows.identities)
    enrolled = np.isin(rows.identities, people[:12])
    first = np.isin(np.arange(len(rows)), np.unique(rows.identities, return_index=True)[1])
    write_embeddings(tmp_path / "gallery.npz", rows.take(enrolled & first))
    write_embeddings(tmp_path / "strangers.npz", rows.take(~enrolled))
    write_embeddings(tmp_path / "probes.npz", rows.take(~(enrolled & first)))
    asked = ("--gallery", tmp_path / "gallery.npz", "--fpir", "0.1", "--guarantee", "expected")
    promised = tmp_path / "promised.json"
    says("calibrate", tmp_path / "strangers.npz", *asked, "--out", promised)
    model = tmp_path / "model"
    made = says("export", place / "run", "--gallery-calibration", promised, "--out", model, "--name", "tiny")
    assert "gallery.json" in made
    assert "at most 1 in 10 strangers are found in this gallery of 12 people" in made
    card = (model / "model_card.md").read_text()
    assert "## Threshold of a gallery" in card
    assert "It holds for the gallery gallery.npz (12 people by 12 photographs" in card
    assert "), for any part of it, and for no other" in card
    assert "- Not calibrated for two photographs." in card
    assert "this folder ships no threshold for two photographs" in card
    assert "- strangers.npz, the strangers of the gallery: " in card
    assert "Nothing here shows that the people" not in card
    assert "it ships no threshold for two photographs, and `verify` refuses it" in made
    assert "ships no threshold for two photographs" in refused("verify", promised, promised, "--model", model, *DRAWN)
    assert json.loads((model / "model.json").read_text())["flip"] is True  # as the calibration has it
    probe = next((place / "faces").rglob("*.png"))
    found = json.loads(says("identify", probe, tmp_path / "gallery.npz", "--model", model, *DRAWN, "--json"))
    assert found["threshold"]["fpir_target"] == "0.1"
    assert found["people"] == 12
    line = refused("identify", probe, place / "run" / "others.npz", "--model", model, *DRAWN)
    assert "promised for 12 people by 12 photographs" in line
    each = tmp_path / "each.csv"
    text = says(
        "identify",
        tmp_path / "probes.npz",
        tmp_path / "gallery.npz",
        "--model",
        model,
        "--accept-drawn-model",
        "--each",
        each,
    )
    assert "60 probes among 12 people" in text
    assert len(each.read_text().splitlines()) == 61
    assert "name a file for them by --each" in refused("identify", tmp_path / "probes.npz", promised, "--model", model)
    measure = ("evaluate", "identification", tmp_path / "probes.npz", "--gallery", tmp_path / "gallery.npz")
    figures = tmp_path / "figures.json"
    said = says(*measure, "--fpir", "0.1", "--calibration", promised, "--json", figures)
    assert "gallery, at the thresholds of the calibration" in said
    (rate,) = json.loads(figures.read_text())["promised"]["gallery"]
    assert (rate["strangers"], rate["identified"]["total"], rate["why_not"]) == (36, 24, "")
    assert rate["threshold"] == found["threshold"]["threshold"]
    with each.open(newline="") as file:
        passed = [row for row in csv.DictReader(file) if row["status"] == "found"]
    assert rate["strangers_found"] == sum(row["probe"].split("/")[0] not in set(people[:12]) for row in passed)
    assert "so name this gallery by --gallery" in refused(
        "evaluate", "identification", tmp_path / "probes.npz", "--calibration", promised
    )
    says("report", place / "run", "--out", tmp_path / "report", "--far", "0.1", "--calibration", promised)
    page = (tmp_path / "report" / "report.html").read_text()
    assert "Threshold of a gallery" in page
    assert "The promise ends when a photograph is added to the gallery or changed" in page
    smaller = ("--precision", "int8", "--measured-on", place / "faces.zip", "--out", tmp_path / "small")
    assert "make it first" in refused("export", place / "run", "--gallery-calibration", promised, *smaller)


def test_figures_on_crops_of_another_detector_than_the_calibration_are_refused(place, refused, says, tmp_path):
    rows = read_embeddings(place / "run" / "others.npz")
    assert rows.origin is not None
    for name in ("one", "two"):
        origin = replace(rows.origin, drawn=None, alignment=f"arcface_112x112 by {name}")
        write_embeddings(tmp_path / f"{name}.npz", replace(rows, origin=origin))
    says("calibrate", tmp_path / "one.npz", "--far", "0.1", "--guarantee", "expected", "--out", tmp_path / "c.json")
    says("evaluate", "all-pairs", tmp_path / "two.npz", "--far", "0.1", "--json", tmp_path / "f.json")
    export = ("export", place / "run", "--calibration", tmp_path / "c.json", "--evaluation", tmp_path / "f.json")
    line = refused(*export, "--out", tmp_path / "model")
    assert "detector one against two" in line or "detector two against one" in line
