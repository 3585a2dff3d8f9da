"""The folder of an experiment: it may grow, and what was only asked for may change; what was trained may not."""

import json
from pathlib import Path

import pytest

from tiny_experiments import EXPERIMENT, Refusing
from verisphere.study.experiments.arms import read_experiment
from verisphere.study.experiments.experiment import run_experiment
from verisphere.study.experiments.folder import differences, open_experiment
from verisphere.study.experiments.recipes import resolve
from verisphere.train.recipe import Recipe, read_recipe

OLD_PATHS = """\
recipe: old.yaml
arms: {squares: {backbone: verisphere.embed.pixels.Pixels}}
evaluate:
  drawn: {faces: {class_path: verisphere.data.SyntheticFaces, init_args: {people: 3, images: 2}}, far: ["0.1"]}
"""


def test_an_experiment_may_grow():
    before = {"warm": None, "arms": {"a": {"x": 1}}, "seeds": [0], "evaluate": {"s": {"faces": 1, "flip": False}}}
    sets = {"s": {"faces": 1, "flip": False, "far": ["0.1"]}, "t": {"faces": 2, "flip": False}}
    now = before | {"arms": {"b": {"x": 2}, "a": {"x": 1}}, "seeds": [1, 0], "evaluate": sets}
    assert differences(before, now) == []


def test_what_was_only_asked_for_may_change(files: Path, monkeypatch: pytest.MonkeyPatch):
    """An arm, seed or set is the folder's once something has been trained; a relative folder is told in full."""
    monkeypatch.chdir(files)

    def recipe(arm: str) -> Recipe:
        return read_recipe(files / "out" / "runs" / arm / "seed-3" / "recipe.yaml", []).recipe

    assert len(run_experiment(read_experiment(files / "experiment.yaml"), Path("out"), Refusing(jobs=4)).failed) == 4
    assert (recipe("fast").start, recipe("fast").optimizer.rate) == (str(files / "out" / "warm"), 0.5)
    changed = (
        EXPERIMENT.replace("rate: 0.5", "rate: 0.4").replace("seeds: [0, 3]", "seeds: [3]").replace("true", "false")
    )
    (files / "experiment.yaml").write_text(changed)
    assert len(run_experiment(read_experiment(files / "experiment.yaml"), Path("out"), Refusing(jobs=4)).failed) == 2
    assert recipe("fast").optimizer.rate == 0.4
    (files / "out" / "runs" / "fast" / "seed-3" / "checkpoints" / "step-00000001").mkdir(parents=True)
    for old, new, message in (
        ("rate: 0.4", "rate: 0.3", "arm 'fast': optimizer.rate was 0.4 and is 0.3"),
        ("seeds: [3]", "seeds: [0]", "seed 3 is missing"),
        ("flip: false", "flip: true", "set 'plain': flip was False and is True"),
        ("epochs: 2", "epochs: 3", "warm: epochs was 2.0 and is 3.0"),
    ):
        (files / "experiment.yaml").write_text(changed.replace(old, new))
        with pytest.raises(ValueError, match=f"this folder holds another experiment: {message}; choose another --out"):
            run_experiment(read_experiment(files / "experiment.yaml"), Path("out"), Refusing())
    (files / "experiment.yaml").write_text(
        changed.replace("  base: {}", "  plain: {}").replace("line: base", "line: plain")
    )
    assert len(run_experiment(read_experiment(files / "experiment.yaml"), Path("out"), Refusing()).failed) == 2


def test_a_folder_with_class_paths_of_before_goes_on(tmp_path: Path):
    """It was begun when backbones and images had other modules; both old and present names continue it."""
    (tmp_path / "old.yaml").write_text(
        "data: {class_path: verisphere.data.SyntheticFaces, init_args: {people: 4, images: 2}}\n"
        "backbone: verisphere.embed.mobilefacenet.MobileFaceNet\n"
        "loss: verisphere.losses.ArcFace\n"
        "batch_size: 2\n"
    )
    out = tmp_path / "out"
    today = OLD_PATHS.replace("verisphere.embed", "verisphere.backbones")
    today = today.replace("verisphere.data", "verisphere.images")

    def begin(text: str) -> None:
        (tmp_path / "experiment.yaml").write_text(text)
        (run,) = open_experiment(out, resolve(read_experiment(tmp_path / "experiment.yaml"), out / "warm"))["squares"]
        run.begin()
        (run.folder / "checkpoints" / "step-00000001").mkdir(parents=True, exist_ok=True)

    begin(OLD_PATHS)
    kept = out / "plan.json"
    before = kept.read_text().replace("verisphere.backbones.", "verisphere.embed.")
    before = before.replace("verisphere.images.", "verisphere.data.")
    assert before.count("verisphere.embed.") == 1
    assert before.count("verisphere.data.") == 2
    for text in (OLD_PATHS, today):
        kept.write_text(before)
        begin(text)
        assert json.loads(kept.read_text())["evaluate"]["drawn"]["faces"]["class_path"].startswith("verisphere.images.")
    with pytest.raises(
        ValueError, match=r"arm 'squares': backbone.class_path was 'verisphere.backbones.pixels.Pixels'"
    ):
        begin(today.replace("pixels.Pixels", "iresnet.IResNet"))
