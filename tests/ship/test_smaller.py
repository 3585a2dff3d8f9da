"""A model in float16 or int8, from the export to a decision; and thresholds of another precision, which are refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from foreign_graphs import SIDE, graph, written
from verisphere.base.trained_on import TrainedOn, image_digests
from verisphere.cli import main
from verisphere.files.embeddings import read_embeddings
from verisphere.images.photos import Photos
from verisphere.models.checkpoint import save_checkpoint
from verisphere.models.folder import load
from verisphere.models.model_json import read_model_json
from verisphere.models.trained_on import as_tensors
from verisphere.ship.export import export_model
from verisphere.ship.smaller import export_smaller

for package in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(package)

pytestmark = pytest.mark.usefixtures("process_as_it_was")
RECIPE = """\
data: {class_path: verisphere.images.SyntheticFaces, init_args: {people: 2}}
backbone: {class_path: own_parts.TinyNet}
loss: {class_path: verisphere.losses.ArcFace}
"""


def call(*words: object) -> int:
    return main(["--default-allocator", *map(str, words)])


def calibrated(model: Path, faces: Path, out: Path, *more: object) -> Path:
    """A calibration of a model on some faces."""
    assert call("embed", model, faces, "--out", out.with_suffix(".npz"), "--workers", 0, *more) == 0
    assert call("calibrate", out.with_suffix(".npz"), "--far", "0.1", "--guarantee", "expected", "--out", out) == 0
    return out


@pytest.fixture(scope="module")
def room(tmp_path_factory) -> Path:
    """A room with `faces`, an adopted `model`, the `small` one in int8, and a calibration of each."""
    room = tmp_path_factory.mktemp("room")
    generator = np.random.default_rng(0)
    for person in range(60):
        base = generator.integers(0, 256, (SIDE, SIDE, 3))
        (room / "faces" / f"p{person}").mkdir(parents=True)
        for number in range(2):
            pixels = (base + generator.normal(0, 60, base.shape)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(room / "faces" / f"p{person}" / f"{number}.png")
    told = ("--colour", "BGR", "--mean", 127.5, "--scale", 127.5, "--template", "mine_8x8", "--licence", "MIT")
    assert call("adopt", written(room / "net.onnx", graph("NHWC")), *told, "--out", room / "model") == 0
    calibrated(room / "model", room / "faces", room / "float32.json")
    small = ("--precision", "int8", "--measured-on", room / "faces", "--far", "0.1", "--far", "1e-4")
    assert call("export", room / "model", *small, "--names", "exact", "--out", room / "small") == 0
    calibrated(room / "small", room / "faces", room / "int8.json")
    return room


def test_the_folder_says_what_it_is_and_what_it_lost(room):
    about = read_model_json(room / "small" / "model.json")
    before = read_model_json(room / "model" / "model.json")
    assert (about.reduced.precision, about.reduced.measured_on) == ("int8", "faces")
    assert about.reduced.weights == before.files["network.onnx"].sha256
    assert (about.preprocessing, about.adopted) == (before.preprocessing, before.adopted)
    assert set(about.files) == {"network.onnx", "precision.json", "model_card.md"}
    drop = json.loads((room / "small" / "precision.json").read_text())
    assert (drop["images"], drop["ranges"]) == (108, {"images": 12, "people": 6, "seed": 0})
    assert drop["names_rule"] == "exact"
    first, second = drop["points"]
    assert first["drop"]["value"] == first["float32"]["tar"] - first["smaller"]["tar"]
    assert (second["drop"], second["float32"]["below_resolution"]) == (None, True)
    card = (room / "small" / "model_card.md").read_text()
    assert "The network runs in int8: 8-bit weights with a scale for each channel" in card
    assert "ranges of int8 from 12 images of people who are not measured (6 of that set, drawn by seed 0)" in card
    assert "Trained on: not known." in card
    assert "\n\n\\* below resolution" in card
    assert "From [precision.json](precision.json), SHA-256" in card
    assert '"reduced"' not in (room / "model" / "model.json").read_text()


def test_its_own_thresholds_ship_and_decide(room, tmp_path, capsys):
    assert read_embeddings(room / "int8.npz").origin.precision == "int8"
    shipped, again = tmp_path / "shipped", tmp_path / "again"
    assert call("export", room / "small", "--calibration", room / "int8.json", "--out", shipped) == 0
    for name in ("network.onnx", "precision.json"):
        assert (shipped / name).read_bytes() == (room / "small" / name).read_bytes()
    assert "computed in int8, as the model computes them" in (shipped / "model_card.md").read_text()
    one, other = room / "faces" / "p1" / "0.png", room / "faces" / "p1" / "1.png"
    assert call("verify", one, other, "--model", shipped, "--aligned") == 0
    # the same model and images give the same graph, so its calibration may come along at once
    whole = ("--precision", "int8", "--measured-on", room / "faces", "--calibration", room / "int8.json")
    capsys.readouterr()
    assert call("export", room / "model", *whole, "--out", again) == 0
    said = capsys.readouterr()
    assert (again / "network.onnx").read_bytes() == (room / "small" / "network.onnx").read_bytes()
    assert "int8 against float32, measured on 108 images of 54 people from faces" in said.out
    assert "images a second here, by one thread: " in said.out
    assert load(again).thresholds == load(shipped).thresholds


def refused(capsys, tmp_path: Path, *words: object) -> str:
    """The one line of a call that is refused, which leaves nothing."""
    capsys.readouterr()
    assert call(*words, "--out", tmp_path / "refused") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert not (tmp_path / "refused").exists()
    return said


def test_thresholds_of_another_precision_are_refused(room, tmp_path, capsys):
    smaller = ("--precision", "int8", "--measured-on", room / "faces")
    float32, int8 = ("--calibration", room / "float32.json"), ("--calibration", room / "int8.json")
    for words in ((room / "small", *float32), (room / "model", *smaller, *float32)):
        line = refused(capsys, tmp_path, "export", *words)
        assert "float32.json: not made as " in line
        assert "precision float32 against int8); embed with the int8 folder that" in line
    line = refused(capsys, tmp_path, "export", room / "model", *int8)
    assert "precision int8 against float32); export the int8 folder that made the embeddings" in line
    half = ("--precision", "fp16", "--measured-on", room / "faces")
    assert "precision int8 against fp16" in refused(capsys, tmp_path, "export", room / "model", *half, *int8)


def test_what_cannot_be_made_smaller_or_measured(room, tmp_path, capsys, monkeypatch):
    faces, model = room / "faces", room / "model"
    singles = tmp_path / "singles"
    for person in ("a", "b", "c"):
        (singles / person).mkdir(parents=True)
        shutil.copy(faces / "p1" / "0.png", singles / person)
    shutil.copytree(faces / "p1", singles / "-1")  # of nobody, so they make no pair either
    (tmp_path / "theirs.py").write_text("def embed(images):\n    return images.reshape(len(images), -1)[:, :6] * 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    told = ("--size", f"{SIDE}x{SIDE}", "--template", "mine_8x8", "--trust-code", "--out", tmp_path / "function")
    assert call("adopt", "theirs:embed", *told) == 0
    fp16, int8 = ("--precision", "fp16", "--measured-on"), ("--precision", "int8", "--measured-on")
    for words, line in (
        ((model, "--precision", "int8"), "--precision int8 changes scores; give --measured-on FACES"),
        ((model, "--measured-on", faces), "--measured-on is for --precision"),
        ((model, *int8, faces, "--with-head"), "--with-head ships a head in float32"),
        (
            (model, *fp16, faces, "--template", "arcface_112x112"),
            "its template is mine_8x8, and arcface_112x112 was asked",
        ),
        ((room / "small", "--template", "arcface_112x112"), "model folder keeps its own, so omit --template"),
        ((room / "small", "--with-head"), "a model in int8 has no head"),
        ((room / "small", *fp16, faces), "runs in int8 already; export the model in float32 that it was made of"),
        ((tmp_path / "function", *fp16, faces, "--trust-code"), "a function cannot be written in another precision"),
        ((model, *fp16, tmp_path / "absent"), "absent"),
        ((model, *fp16, singles), "singles: no two images are of one person, so no TAR can be measured"),
        ((model, *int8, singles), "singles: no two images beside those that set the ranges of int8 are of one person"),
        ((model, *fp16, faces, "--far", "1e-2", "--far", "0.01"), "FAR 1e-2 is asked for twice; give each once"),
        (
            (model, *int8, faces, "--far", "1e-5"),
            "faces: 5,724 pairs of different people (54 people are measured) cannot",
        ),
        ((model, *int8, singles, "--far", "2"), "a FAR must lie between 0 and 1"),
    ):
        assert line in refused(capsys, tmp_path, "export", *words)
    assert call("embed", room / "small", faces, "--bfloat16", "--out", tmp_path / "e.npz") == 2
    assert "precision is bfloat16, but an ONNX file runs in int8; omit --bfloat16" in capsys.readouterr().err


def test_a_run_becomes_a_smaller_model_that_keeps_its_training(room, tmp_path, monkeypatch):
    """Its ONNX graph normalises inside; the recipe and the record of the training, which was on drawings, travel."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "train")
    from own_parts import TinyNet

    torch.manual_seed(0)
    run = tmp_path / "run"
    described = {"class_path": "own_parts.TinyNet", "init_args": {}}
    seen = Photos(room / "faces", size=(16, 16)).images([0, 3]).numpy()
    record = TrainedOn(np.zeros(0, np.int64), np.sort(image_digests(seen)))
    parts = {"backbone": dict(TinyNet().state_dict()), "trained_on": as_tensors(record)}
    save_checkpoint(run, 3, parts, {"backbone": described, "data": {"images": 4, "people": 2, "sha256": "0"}})
    (run / "recipe.yaml").write_text(RECIPE)
    out, faces = tmp_path / "small", room / "faces"
    with_flip = {"flip": True, "template": "own", "trust_code": True}
    result = export_smaller(run, out, "fp16", faces, fars=["0.1"], **with_flip)
    assert "note: drawn faces stand behind this model" in result.text()
    known = "the model was trained on 2 of the 120 images; the drop of TAR is not that of new people"
    assert known in result.text()
    assert known in (out / "model_card.md").read_text()
    assert json.loads((out / "precision.json").read_text())["in_training"]["images"] == 2
    small = load(tmp_path / "small")
    assert (small.flip, small.training.drawn, small.precision) == (True, True, "fp16")
    assert (tmp_path / "small" / "recipe.yaml").read_text() == RECIPE
    assert "loss: ArcFace()" in (tmp_path / "small" / "model_card.md").read_text()
    assert json.loads((out / "precision.json").read_text())["flip"] is True
    assert "with that of the mirror image added" in (out / "model_card.md").read_text()
    wanted = "measured with flip true, so it cannot ship with flip false.*--precision fp16` with the wanted flip"
    with pytest.raises(ValueError, match=wanted):
        export_model(out, tmp_path / "other", flip=False)
    assert export_model(out, tmp_path / "again").description.flip
    pixels = torch.randint(0, 256, (5, 3, 16, 16), dtype=torch.uint8)
    network = TinyNet().eval()
    network.load_state_dict(parts["backbone"])
    with torch.inference_mode():
        images = network.normalise(pixels)
        rows = (network(images) + network(images.flip(-1))).numpy()
    np.testing.assert_allclose(small.embed(pixels), rows, rtol=0, atol=2e-3 * np.abs(rows).max())


def test_a_calibration_that_switches_the_flip_of_an_adopted_model_is_said(room, tmp_path, capsys):
    found = calibrated(room / "model", room / "faces", tmp_path / "flipped.json", "--flip")
    capsys.readouterr()
    assert call("export", room / "model", "--calibration", found, "--out", tmp_path / "made") == 0
    does = "does not add the embedding of the mirror image, but the model made of it adds it"
    assert capsys.readouterr().err.count(f"{room / 'model'} {does}") == 1
    card = (tmp_path / "made" / "model_card.md").read_text()
    assert "mirror image is added before the cosine, but the model was adopted without it." in card
    assert call("export", room / "model", "--calibration", room / "float32.json", "--out", tmp_path / "as it was") == 0
    assert "mirror" not in capsys.readouterr().err
    assert "but the model was adopted" not in (tmp_path / "as it was" / "model_card.md").read_text()
    smaller = ("--precision", "fp16", "--measured-on", room / "faces", "--far", "0.1", "--flip")
    assert call("export", room / "model", *smaller, "--out", tmp_path / "small") == 0
    assert f"{room / 'model'} {does}" in capsys.readouterr().err
    assert "but the model was adopted without it" in (tmp_path / "small" / "model_card.md").read_text()
