"""Recipes, runs, models and files that were made before the rooms of the source were moved are still read, as they are.

`files/` was written by the commands of version 0.1.0 and is never made anew. Class paths in it are those of that time,
by the rooms' names and, in modules.yaml, by the modules'. Only the command line and the front door are used here.

| file | made by |
|---|---|
| run/ | `train recipe.yaml`, stopped after the first of two epochs; resumed.jsonl is the metrics of both |
| embeddings.npz | `embed run faces.zip`, of `data render faces.zip --people 10 --images 4 --seed 9 --difficulty easy` |
| figures.json | `evaluate all-pairs embeddings.npz --far 1e-1 --far 1e-2` |
| calibration.json | `calibrate embeddings.npz --far 0.2 --far 0.3 --guarantee expected` |
| model/ | `export run --calibration calibration.json --evaluation figures.json` |
| experiment/ | what experiment.yaml left in its folder: the plan, and the embeddings of its set by the model of run/ |
| trainable/model | `adopt net.onnx --colour BGR --mean 0 --scale 1 --trainable`, which reads every operator from it |
| trainable/embeddings.npz | `embed trainable/model faces.zip` |
"""

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import verisphere
from verisphere.cli import main

FILES = Path(__file__).parent / "files"
DRAWN = "--aligned --accept-drawn-model"
EXPERIMENT = "experiment"  # verb of several trainings
STEP_3, STEP_6 = "checkpoints/step-00000003", "checkpoints/step-00000006"

pytestmark = pytest.mark.usefixtures("process_as_it_was")

Call = Callable[..., str]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs a command in a copy of the files, on the CPU as they were made; returns standard output."""
    shutil.copytree(FILES, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)

    def run(line: str) -> str:
        capsys.readouterr()
        verb, *_ = words = line.split()
        words += ["--device", "cpu"] if verb in ("train", "embed", "verify") else []
        code = main(["--default-allocator", *words])
        said = capsys.readouterr()
        assert code == 0, said.err
        return said.out

    return run


@pytest.fixture(scope="module")
def faces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The images of embeddings.npz."""
    path = tmp_path_factory.mktemp("faces") / "faces.zip"
    options = ["--people", "10", "--images", "4", "--seed", "9", "--difficulty", "easy"]
    assert main(["--default-allocator", "data", "render", str(path), *options]) == 0
    return path


def rows(path: str | Path) -> np.ndarray:
    with np.load(path) as archive:
        return archive["embeddings"]


def metrics(path: str | Path) -> list[dict[str, float]]:
    read = [json.loads(line) for line in Path(path).read_text().splitlines()]
    return [{name: value for name, value in one.items() if name != "images_per_second"} for one in read]


def assert_holds(found: object, expected: object) -> None:
    """Every value of an earlier result is there and the same; objects may have fields that came later."""
    if isinstance(expected, dict):
        assert isinstance(found, dict)
        for name, value in expected.items():
            assert_holds(found[name], value)
    elif isinstance(expected, list):
        assert isinstance(found, list)
        for ours, theirs in zip(found, expected, strict=True):
            assert_holds(ours, theirs)
    else:
        assert found == expected


PLANNED = ("step", "epoch", "rate", "margin_share")


def assert_alike(found: list[dict[str, float]], expected: list[dict[str, float]], until: int) -> None:
    """As alike as one training is on two kinds of processors: its plan always, its losses up to a step.

    What two processors round differently grows with every step of these unstable trainings, in their gradients first.
    """
    assert [one.keys() for one in found] == [one.keys() for one in expected]
    for ours, theirs in zip(found, expected, strict=True):
        planned = [name for name in PLANNED if name in theirs]
        assert [ours[name] for name in planned] == pytest.approx([theirs[name] for name in planned], rel=1e-6)
        if theirs["step"] <= until and "loss" in theirs:
            assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)


@pytest.mark.parametrize("recipe", ["recipe.yaml", "run/recipe.yaml"])
def test_a_run_goes_on_from_its_checkpoint(recipe: str, call: Call):
    call(f"train {recipe} --out run --resume")
    assert Path("run", STEP_6, "state.json").is_file()
    assert_alike(metrics("run/metrics.jsonl"), metrics("resumed.jsonl"), until=4)


def test_a_recipe_trains_as_it_did(call: Call):
    call("train recipe.yaml --out anew --save_every 1")
    assert_alike(metrics("anew/metrics.jsonl"), metrics("resumed.jsonl"), until=2)


def test_a_training_starts_from_a_run(call: Call):
    call("train recipe.yaml --out started --start run --optimizer.rate 1e-9")
    first = metrics("started/metrics.jsonl")[0]
    assert first["loss"] == pytest.approx(6.456579, rel=1e-3)  # 6.424743 with start weights of its own


def test_class_paths_by_module_inside_each_other(faces: Path, call: Call):
    shutil.copy(faces, "faces.zip")
    call("train modules.yaml --out other")
    found = metrics("other/metrics.jsonl")
    assert found[0]["loss"] == pytest.approx(6.975936, rel=1e-3)  # the next steps depend on the kind of processor
    assert found[3].keys() == {"step", "validation_tar_at_far_1e-1"}
    assert "40 images of 10 people, 4 numbers each" in call("embed other faces.zip --out other.npz --workers 0")


def test_a_dry_run_reads_a_resolved_recipe(call: Call):
    assert "MobileFaceNet" in call("train run/recipe.yaml --dry-run --memory 4")


@pytest.mark.parametrize("model", ["run", f"run/{STEP_3}", "model", "model/model.onnx"])
def test_a_model_gives_the_same_embeddings(model: str, faces: Path, call: Call):
    if model.endswith(".onnx"):
        pytest.importorskip("onnxruntime")
    call(f"embed {model} {faces} --out again.npz --workers 0")
    found, expected = rows("again.npz"), rows("embeddings.npz")
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


def test_a_network_read_from_a_graph_gives_the_same_embeddings(faces: Path, call: Call):
    call(f"embed trainable/model {faces} --out again.npz --workers 0")
    found, expected = rows("again.npz"), rows("trainable/embeddings.npz")
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def test_a_graph_is_read_into_the_same_operators_and_weights(call: Call):
    pytest.importorskip("onnxruntime")
    call("adopt trainable/net.onnx --colour BGR --mean 0 --scale 1 --trainable --out again")
    again, before = (json.loads(Path(name, "model.json").read_text()) for name in ("again", "trainable/model"))
    assert again["backbone"] == before["backbone"]
    for name in ("backbone.safetensors", "backbone.yaml"):
        assert Path("again", name).read_bytes() == Path("trainable/model", name).read_bytes()


def test_the_front_door_loads_a_model_folder():
    model = verisphere.load(FILES / "model")
    expected = json.loads((FILES / "calibration.json").read_text())["thresholds"]
    assert [one.threshold for one in model.thresholds] == [one["threshold"] for one in expected]


def test_embeddings_give_the_same_figures(call: Call):
    call("evaluate all-pairs embeddings.npz --far 1e-1 --far 1e-2 --json again.json")
    assert_holds(json.loads(Path("again.json").read_text()), json.loads(Path("figures.json").read_text()))


def test_a_calibration_gives_the_same_thresholds(call: Call):
    call("calibrate embeddings.npz --far 0.2 --far 0.3 --guarantee expected --out again.json")
    again, before = (json.loads(Path(name).read_text()) for name in ("again.json", "calibration.json"))
    pairs = zip([*again["checks"][0]["points"], *(found["genuine"] for found in again["thresholds"])],
                [*before["checks"][0]["points"], *(found["genuine"] for found in before["thresholds"])],
                strict=True)  # fmt: skip
    for ours, theirs in pairs:  # earlier versions took genuine pairs as independent
        assert ours.pop("tar_lower_95") < theirs.pop("tar_lower_95") < ours["tar"]
        assert ours.pop("tar_upper_95") > theirs.pop("tar_upper_95") > ours["tar"]
    for document in (again, before):
        for found in document["thresholds"]:
            found.pop("meaning")
    assert_holds(again, before)


def test_a_report_shows_the_run_the_embeddings_and_the_calibration(call: Call, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("verisphere.report.blocks.save_plot", lambda _, path: path.write_text("") or path)
    call("report run embeddings.npz --calibration calibration.json --far 1e-1 --out report")
    page = Path("report/report.html").read_text()
    threshold = json.loads(Path("calibration.json").read_text())["thresholds"][0]["threshold"]
    assert f"{threshold:.6f}" in page
    assert "MobileFaceNet" in page
    (found,) = json.loads(Path("report/figures.json").read_text())["sets"]
    expected = json.loads(Path("figures.json").read_text())["operating_points"][0]
    assert (found["operating_points"][0]["far_target"], found["operating_points"][0]["tar"]) == ("1e-1", 0.35)
    assert found["operating_points"][0]["threshold"] == expected["threshold"]


def test_verify_decides_as_before(faces: Path, call: Call):
    with np.load("embeddings.npz") as archive, zipfile.ZipFile(faces) as images:
        units = archive["embeddings"] / np.linalg.norm(archive["embeddings"], axis=1, keepdims=True)
        for place, name in enumerate(archive["names"][:8]):
            Path(f"{place}.png").write_bytes(images.read(str(name)))
    threshold = json.loads(Path("calibration.json").read_text())["thresholds"][0]["threshold"]
    for other in (1, 2, 3, 4, 5):
        said = json.loads(call(f"verify 0.png {other}.png --model model --far 0.2 {DRAWN} --json"))
        assert said["score"] == pytest.approx(units[0] @ units[other], abs=1e-5)
        assert said["threshold"]["threshold"] == threshold
        assert any("earlier version, which did not record the pixels" in note for note in said["notes"])
        assert said["same"] == (units[0] @ units[other] > threshold)


@pytest.mark.slow
def test_a_run_is_exported_with_its_calibration_and_figures(call: Call):
    pytest.importorskip("onnxruntime")
    call(
        "export run --calibration calibration.json --evaluation figures.json --out again --name before "
        "--accept-unrecorded-pixels"
    )
    again, before = (json.loads(Path(name, "model.json").read_text()) for name in ("again", "model"))
    for new, fields in zip(again["thresholds"], before["thresholds"], strict=True):
        assert new == new | fields  # nothing of it has changed
        assert not [name for name in new.keys() - fields.keys() if new[name] and name != "review"]
    weights = "backbone.safetensors"
    assert again["files"][weights] == before["files"][weights]


def test_trainings_that_are_finished_and_measured_are_found_again(call: Call):
    run = Path("experiment/runs/base/seed-3")
    shutil.copytree("run", run)
    measured = Path("experiment/unseen.npz").rename(run / "unseen.npz")
    before = measured.read_bytes()
    (run / "finished.json").write_text('{"seconds": 12.5}\n')
    said = call(f"{EXPERIMENT} experiment.yaml --out experiment --replicates 20 --threads 1")
    assert "| base |" in said
    expected = json.loads(Path("figures.json").read_text())["operating_points"][0]["tar"]
    (figure,) = json.loads(Path("experiment/results.json").read_text())["arms"]["base"]["figures"]
    assert figure["mean"] == expected
    assert not (run / STEP_6).exists()
    assert measured.read_bytes() == before
