"""From a run to a model folder: what is in it, that it works, and what is refused."""

import errno
import hashlib
import json
import os
import resource
import shutil
import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from processes import forked
from verisphere.base.vocabulary import Embeddings, Origin, Preprocessing
from verisphere.files.embeddings import write_embeddings
from verisphere.measure.evaluate import Options, evaluate_all_pairs
from verisphere.models import onnx_file
from verisphere.models.build import build_backbone
from verisphere.models.checkpoint import save_checkpoint
from verisphere.models.folder import load
from verisphere.models.onnx_file import read_onnx
from verisphere.ship import export
from verisphere.ship.calibrate import calibrate
from verisphere.ship.export import export_model
from verisphere.ship.face_search import aligned_faces
from verisphere.ship.notes import notes_on_model, sealed_origin

for package in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(package)

OWN = Path(__file__).parents[1] / "train"  # own_parts.py
CLASS = "verisphere.backbones.MobileFaceNet"
ARGUMENTS = {"embedding_size": 8, "width": 0.1, "activation": "relu"}
RECIPE = """\
data: {class_path: verisphere.images.Photos, init_args: {path: faces.zip}}
backbone: {class_path: verisphere.backbones.MobileFaceNet, init_args: {width: 0.1}}
loss: {class_path: verisphere.losses.ArcFace, init_args: {margin: 0.3}}
"""


def make_run(run: Path, step: int = 7, class_path: str = CLASS, arguments: object = ARGUMENTS) -> Path:
    """A run such as a training leaves; returns its folder."""
    description = {"class_path": class_path, "init_args": arguments}
    torch.manual_seed(step)
    parts = {
        "backbone": dict(build_backbone(description, trust=True).state_dict()),
        "head": {"centers": torch.ones(3, 8)},
    }
    data = {"images": 40, "people": 3, "sha256": "0"}
    save_checkpoint(run, step, parts, {"backbone": description, "seed": 5, "data": data})
    (run / "recipe.yaml").write_text(RECIPE)
    return run


def weights(run: Path, step: int = 7) -> Path:
    return run / "checkpoints" / f"step-{step:08d}" / "backbone.safetensors"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


SOURCE = {"place": "faces.zip", "drawn": None, "alignment": None}  # as the recipe has it


def make_calibration(path: Path, origin: Origin | None, far: str = "0.1") -> Path:
    """A calibration file, and the embeddings that it is of."""
    random = np.random.default_rng(0)
    names = np.array([f"{row}" for row in range(80)])
    rows = random.normal(size=(40, 8)).repeat(2, 0) + 0.5 * random.normal(size=(80, 8))
    people = np.array([f"{row // 2}" for row in range(80)])
    write_embeddings(path.with_suffix(".npz"), Embeddings(rows.astype(np.float32), names, people, origin=origin))
    calibrate(path.with_suffix(".npz"), [far], "expected").write_json(path)
    return path


@pytest.fixture(scope="module", autouse=True)
def _own_parts_can_be_imported():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(OWN)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "small")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    """A run of a network of a user's own, which is exported in a few seconds."""
    return make_run(tmp_path_factory.mktemp("runs") / "tiny", class_path="own_parts.TinyNet", arguments={})


@pytest.fixture(scope="module")
def calibration(tiny, tmp_path_factory) -> Path:
    pixels = Preprocessing((16, 16), "RGB", "NCHW", 127.5, 127.5)
    origin = Origin(digest(weights(tiny)), True, "float32", "faces", preprocessing=pixels)
    return make_calibration(tmp_path_factory.mktemp("calibration") / "found.json", origin)


@pytest.fixture(scope="module")
def exported(tiny, calibration, tmp_path_factory) -> tuple[Path, export.ExportResult]:
    """The one whole export of this file."""
    figures = calibration.with_name("all.json")
    evaluate_all_pairs(calibration.with_suffix(".npz"), Options(["0.1"])).write_json(figures)
    out = tmp_path_factory.mktemp("models") / "model"
    result = export_model(
        tiny, out, calibration=calibration, evaluation=[figures], with_head=True, template="own", trust_code=True
    )
    return out, result


@pytest.fixture
def no_conversion(monkeypatch):
    """Exports without ONNX, for what has nothing to do with it."""
    monkeypatch.setattr(export, "write_onnx", lambda path, backbone, about: path.write_text("no network"))
    monkeypatch.setattr(export, "read_onnx", lambda path: path)
    monkeypatch.setattr(export, "compare_onnx", lambda file, model: onnx_file.Agreement(0.0, 0.0, (1, 7)))


# --- what is written ---


def test_the_folder_holds_what_it_lists(exported, tiny, calibration):
    out, result = exported
    fields = json.loads((out / "model.json").read_text())
    names = ["backbone.safetensors", "model.onnx", "head.safetensors", "recipe.yaml", "calibration.json"]
    names += ["evaluation-all.json", "model_card.md", "trained_on.safetensors"]
    assert sorted(fields["files"]) == sorted(names)
    assert sorted(path.name for path in out.iterdir()) == sorted([*names, "model.json"])
    for name, entry in fields["files"].items():
        assert entry == {"sha256": digest(out / name), "bytes": (out / name).stat().st_size}
    for copied, source in (("backbone.safetensors", weights(tiny)), ("calibration.json", calibration)):
        assert (out / copied).read_bytes() == source.read_bytes()
    assert fields["training"] == {"step": 7, "images": 40, "people": 3, "seed": 5, "sources": [SOURCE]}
    meaning = result.description.thresholds[0].meaning()
    trained = "the model was trained on images of 3 people from faces.zip, alignment not recorded"
    assert fields["thresholds"][0]["meaning"] == f"{meaning}; {trained}"
    assert fields["name"] == "tiny"
    assert fields["preprocessing"] == {"size": [16, 16], "colour": "RGB", "mean": 127.5, "scale": 127.5,
                                       "layout": "NCHW"}  # fmt: skip


def test_what_is_shipped_gives_the_same_embedding_by_either_road(exported):
    out, result = exported
    model, file = load(out, "cpu", trust_code=True), read_onnx(out / "model.onnx")
    assert model.flip  # the calibration's word
    faces = np.random.default_rng(3).integers(0, 256, (7, 16, 16, 3), np.uint8)
    for count in (1, 7):
        ours, theirs = (each.embed(faces[:count]).astype(np.float64) for each in (model, file))
        lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
        assert (1 - (ours * theirs).sum(1) / lengths).max() < 1e-4
        np.testing.assert_allclose(theirs, ours, rtol=1e-3, atol=1e-4)
    assert file.about.backbone == model.sha256
    assert result.agreement.cosine < 1e-4


def test_the_text_says_what_was_made(exported):
    out, result = exported
    text = result.text()
    assert str(out) in text
    assert "batches of 1 and 7" in text
    assert result.description.thresholds[0].meaning() in text
    assert "note: the head is inside" in text
    assert "note: faces are aligned to 'own' elsewhere" in text


@pytest.mark.usefixtures("no_conversion")
def test_a_run_alone_is_enough(run, tmp_path):
    result = export_model(run, tmp_path / "model", name="plain")
    assert not (tmp_path / "model" / "head.safetensors").exists()
    model = load(tmp_path / "model", "cpu")
    assert (model.name, model.flip, model.thresholds) == ("plain", False, ())
    assert any("ships no threshold" in note for note in result.notes)
    assert "ships no threshold" in (tmp_path / "model" / "model_card.md").read_text()


@pytest.mark.usefixtures("no_conversion")
def test_a_checkpoint_may_be_named_and_may_have_left_its_run(run, tmp_path):
    moved = shutil.copytree(weights(run).parent, tmp_path / "alone")
    result = export_model(moved, tmp_path / "model", flip=True)
    assert (result.description.name, result.description.flip) == ("alone", True)
    assert any("in no run with a recipe.yaml" in note for note in result.notes)
    inside = export_model(weights(run).parent, tmp_path / "other")
    assert "recipe.yaml" in inside.description.files


@pytest.mark.usefixtures("no_conversion")
def test_a_calibration_without_origin_is_taken_and_said_to_be_tied_to_nothing(run, tmp_path):
    path = make_calibration(tmp_path / "found.json", None)
    result = export_model(run, tmp_path / "model", calibration=path, flip=True)
    assert result.description.flip
    assert any("nothing ties the threshold to this model" in note for note in result.notes)
    assert "Nothing ties this threshold to this model" in (tmp_path / "model" / "model_card.md").read_text()
    model = load(tmp_path / "model", "cpu")
    find = aligned_faces(model.backbone.input_size)
    notes = notes_on_model(model, model.thresholds[0], True, find, *sealed_origin(model))
    assert notes[0] == "Nothing ties the threshold to this model: its calibration does not say which one it is of."


# --- what is refused ---


def refused(tmp_path: Path, message: str, run: Path, **arguments: object) -> None:
    """One line, and no folder."""
    with pytest.raises((ValueError, OSError), match=message) as caught:
        export_model(run, tmp_path / "refused", **arguments)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "refused").exists()
    assert not list(tmp_path.glob(".part-*"))


@pytest.mark.parametrize(
    ("precision", "advice"),
    [("bfloat16", "embed without --bfloat16"), ("int8", "export the int8 folder that made the embeddings")],
)
def test_a_calibration_of_another_precision_is_refused(run, tmp_path, precision, advice):
    path = make_calibration(tmp_path / "found.json", Origin(digest(weights(run)), False, precision, "faces"))
    line = rf"found.json: not made as .* embeds \(.*precision {precision} against float32.*\); {advice}"
    refused(tmp_path, line, run, calibration=path)


@pytest.mark.parametrize("flip", [True, False])
def test_flip_is_what_the_calibration_did(run, tmp_path, flip):
    path = make_calibration(tmp_path / "found.json", Origin(digest(weights(run)), flip, "float32", "faces"))
    asked = str(not flip).lower()
    refused(tmp_path, f"flip {str(flip).lower()} against {asked}", run, calibration=path,
            flip=not flip)  # fmt: skip


def test_a_template_of_another_size_is_refused(run, tiny, tmp_path):
    for template in ("arcface_144x144", "none"):
        refused(tmp_path, rf"template '{template}' does not fit MobileFaceNet, which takes 112 x 112 pixels; allowed "
                "are arcface_112x112", run, template=template)  # fmt: skip
    refused(tmp_path, "does not fit TinyNet, which takes 16 x 16 pixels; allowed is a name of your own", tiny,
            trust_code=True)  # fmt: skip


def test_two_evaluations_of_one_name_are_refused(run, exported, tmp_path):
    figures = json.loads((exported[0] / "evaluation-all.json").read_text())
    for source in figures["sources"]:
        source["origin"] = None
    path = tmp_path / "all.json"
    path.write_text(json.dumps(figures))
    refused(tmp_path, r"two evaluations would be called evaluation-all\.json", run, evaluation=[path, path])


def test_what_is_no_run_is_refused(exported, tmp_path):
    refused(tmp_path, "neither a checkpoint", tmp_path / "absent")
    refused(tmp_path, "an exported model already", exported[0])


def test_a_spoilt_run_is_refused(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / "recipe.yaml").write_text("- 1")
    refused(tmp_path, r"recipe\.yaml: not a resolved recipe", copy)
    shutil.copy(run / "recipe.yaml", copy)
    weights(copy).with_name("head.safetensors").write_bytes(b"")
    refused(tmp_path, r"head\.safetensors is damaged", copy, with_head=True)
    weights(copy).write_bytes(b"")
    refused(tmp_path, r"backbone\.safetensors is damaged", copy)


def test_a_folder_in_the_way_stays_as_it_is(run, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(FileExistsError, match="never overwritten"):
        export_model(run, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


def test_a_name_of_two_lines_is_refused(run, tmp_path):
    refused(tmp_path, "a name is one line of text", run, name="two\nlines")


def test_a_foreign_network_needs_trust(tiny, tmp_path):
    refused(tmp_path, "--trust-code", tiny, template="own")


def test_without_the_extra_nothing_is_begun(run, tmp_path, monkeypatch):
    def missing() -> None:
        raise ValueError("ONNX needs onnx; in a clone pip install '.[export]'")

    monkeypatch.setattr(export, "require_export", missing)
    refused(tmp_path, r"pip install '\.\[export\]'", tmp_path / "not even a run")
    assert run.exists()


def test_an_onnx_file_that_differs_is_refused(tiny, exported, tmp_path, monkeypatch):
    """A conversion that goes wrong: the file of a model with the mirror image, for one without."""

    def wrong(path: Path, backbone: object, about: object) -> None:
        shutil.copy(exported[0] / "model.onnx", path)

    monkeypatch.setattr(export, "write_onnx", wrong)
    refused(tmp_path, r"model\.onnx differs from TinyNet on a batch of 1", tiny, flip=False, template="own",
            trust_code=True)  # fmt: skip


# --- a full disk ---


def test_a_full_disk_while_weights_are_copied_names_the_copy(run, tmp_path):
    """No file may be longer than this, as where a disk is full."""
    most = weights(run).stat().st_size - 1
    call = [*forked(), "export", str(run), "--out", str(tmp_path / "model")]
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (most, most))
    done = subprocess.run(call, capture_output=True, text=True, timeout=300, preexec_fn=limit)
    assert done.stderr == f"verisphere: {tmp_path / 'model' / 'backbone.safetensors'}: File too large\n"
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_while_onnx_is_written_names_the_folder(run, tmp_path, monkeypatch):
    def no_room(path, backbone, about):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(export, "write_onnx", no_room)
    with pytest.raises(OSError, match="No space left") as caught:
        export_model(run, tmp_path / "model")
    assert caught.value.filename == str(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_place_inside_the_source_is_refused_before_any_work(tmp_path: Path):
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    for place in ("run/model", "link/deep/model"):
        with pytest.raises(
            FileExistsError, match=f"{place}: lies inside .*run, which is read here; choose a place out"
        ):
            export.export_model(tmp_path / "run", tmp_path / place)
    assert not list((tmp_path / "run").iterdir())
    (tmp_path / "run/checkpoints").mkdir()  # a run may hold its model
    with pytest.raises(FileNotFoundError, match="neither a checkpoint"):
        export.export_model(tmp_path / "run", tmp_path / "run/model")


def test_a_file_in_the_folders_place_is_refused_before_any_work(tmp_path: Path):
    (tmp_path / "model").write_text("mine")
    with pytest.raises(FileExistsError, match="model: a file, and a folder was to be written under its name"):
        export.export_model(tmp_path / "no run", tmp_path / "model")
    assert (tmp_path / "model").read_text() == "mine"
