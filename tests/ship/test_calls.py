"""The slogan from Python: `verisphere.train`, `adopt`, `verify` and `identify` give what the verbs give."""

import inspect
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import verisphere
from foreign_graphs import SIDE, graph, written
from tiny_runs import OWN, RECIPE, metrics
from verisphere.cli import main
from verisphere.cli.start import parser
from verisphere.images.detect.from_function import FunctionDetector
from verisphere.report.outcome import TrainingOutcome
from verisphere.ship import calls
from verisphere.ship.adopt import AdoptResult

pytestmark = pytest.mark.usefixtures("process_as_it_was")


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(OWN))
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    return path


def test_a_training_is_that_of_the_verb(recipe, tmp_path):
    outcome = verisphere.train(recipe, tmp_path / "ours", epochs=2, **{"optimizer.rate": 0.03})
    assert isinstance(outcome, TrainingOutcome)
    assert outcome.loss.step == 6
    assert (
        main(["train", str(recipe), "--out", str(tmp_path / "theirs"), "--epochs", "2", "--optimizer.rate", "0.03"])
        == 0
    )
    ours, theirs = ([entry["loss"] for entry in metrics(tmp_path / name)] for name in ("ours", "theirs"))
    assert ours == theirs
    again = verisphere.train(recipe, tmp_path / "ours", resume=True, epochs=2, **{"optimizer.rate": 0.03})
    assert again == outcome


def test_the_room_of_training_stays_a_room():
    from verisphere.train import Recipe, loop

    assert verisphere.train is sys.modules["verisphere.train"]
    assert (verisphere.train.Recipe, verisphere.train.loop) == (Recipe, loop)
    assert callable(verisphere.train)
    assert not callable(verisphere.losses)


def test_a_wrong_field_is_one_line(recipe, tmp_path):
    with pytest.raises(ValueError, match=r"there is no field 'epoch' \(did you mean epochs\?\)"):
        verisphere.train(recipe, tmp_path / "run", epoch=2)
    assert not (tmp_path / "run").exists()


def test_a_recipe_that_follows_teachers_names_them_as_for_the_verb(recipe, tmp_path):
    recipe.write_text(RECIPE + "distill: {kl: 0}\n")
    with pytest.raises(ValueError, match=r"--distill\.teachers is missing: runs, model folders"):
        verisphere.train(recipe, tmp_path / "run", epochs=1)
    assert not (tmp_path / "run").exists()
    verisphere.train(recipe, tmp_path / "run", epochs=1, **{"distill.teachers": []})


def test_a_model_is_adopted_as_by_the_verb(tmp_path):
    path = written(tmp_path / "net.onnx", graph())
    found = verisphere.adopt(path, str(tmp_path / "ours"), colour="RGB", mean=127.5, scale=128.0, template="mine_8x8")
    assert isinstance(found, AdoptResult)
    words = ["--colour", "RGB", "--mean", "127.5", "--scale", "128", "--template", "mine_8x8"]
    assert main(["adopt", str(path), *words, "--out", str(tmp_path / "theirs")]) == 0
    pixels = np.random.default_rng(0).integers(0, 256, (2, SIDE, SIDE, 3), dtype=np.uint8)
    ours, theirs = (verisphere.load(tmp_path / name).embed(pixels) for name in ("ours", "theirs"))
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("model", "options", "line"),
    [
        ("net.pth", {}, "net.pth: a checkpoint does not say whose network it fills; give --preset with one of arcface"),
        ("net.pth", {"preset": "sface"}, "net.pth: --preset sface is for ONNX files"),
        ("net.pth", {"preset": "magface", "mean": 0.0}, "net.pth: --mean describes an ONNX file"),
        ("net.pth", {"preset": "magface", "trainable": True}, "net.pth: --trainable describes an ONNX file"),
        ("ours:embed", {"trainable": True}, "--trainable is for ONNX files; ours:embed is a function"),
        ("ours:embed", {"probe": "faces"}, "--probe is for ONNX files; ours:embed is a function"),
        ("net.onnx", {"detector": "mtcnn"}, "--detector finds the faces on the photographs of --probe"),
    ],
)
def test_what_does_not_apply_is_refused(tmp_path, model, options, line):
    with pytest.raises(ValueError, match=f"^{line}"):
        verisphere.adopt(model, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_model_that_is_loaded_decides_as_its_folder(tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(np.zeros((SIDE, SIDE, 3), np.uint8)).save(path)
    written(tmp_path / "net.onnx", graph())
    verisphere.adopt(tmp_path / "net.onnx", tmp_path / "model", colour="RGB", mean=1.0, scale=2.0, template="mine_8x8")
    for model in (tmp_path / "model", str(tmp_path / "model"), verisphere.load(tmp_path / "model")):
        with pytest.raises(ValueError, match="this model ships no threshold for two photographs"):
            verisphere.verify(path, path, model, aligned=True)
        with pytest.raises(ValueError, match="gallery"):
            verisphere.identify(path, tmp_path, model, aligned=True)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"aligned": True, "detector": "mtcnn"}, "detector is not used: aligned looks for no face; omit it"),
        ({"aligned": True, "min_face": 40}, "min_face is not used: aligned looks for no face; omit it"),
        (
            {"detector": FunctionDetector(lambda image: [], "mine"), "min_face": 40},
            "min_face is not used: a detector that is no name",
        ),
    ],
)
def test_what_would_not_be_used_is_refused_as_by_the_verb(options, line):
    for call in (verisphere.verify, verisphere.identify):
        with pytest.raises(ValueError, match=f"^{line}"):
            call("a.png", "b.png", "model", **options)


@pytest.mark.parametrize("name", ["train", "adopt", "verify", "identify"])
def test_every_option_of_a_verb_is_an_argument(name):
    """But for those of the terminal, of many probes and of a dry run."""
    apart = {
        "help",
        "threads",
        "json",
        "explain",
        "each",
        "dry_run",
        "processes",
        "per_node",
        "classes",
        "images",
        "memory",
    }
    (verbs,) = [action for action in parser()._actions if hasattr(action, "choices") and action.choices]
    options = {action.dest for action in verbs.choices[name]._actions}
    arguments = set(inspect.signature(getattr(calls, name)).parameters)
    assert options - apart <= arguments
