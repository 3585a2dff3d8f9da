"""`verisphere experiment` on the command line: output, exit codes, signals. A script stands in for trainings."""

import json
import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from verisphere.study.experiments.folder import Run
from verisphere.study.experiments.run import Launch

pytestmark = pytest.mark.usefixtures("process_as_it_was")

OWN = Path(__file__).parents[1] / "train"  # own_parts.py
RECIPE = """\
data: {class_path: own_parts.Noise, init_args: {people: 6, images: 4}}
backbone: {class_path: own_parts.TinyNet}
loss: {class_path: own_parts.OwnLoss}
batch_size: 6
"""
# Logs a loss that its recipe's scale says, as a training would; a scale of 13 is bad luck, and one of 99 takes long.
SCRIPT = """
import json, pathlib, re, signal, sys, time
folder = pathlib.Path(sys.argv[1])
scale = float(re.search("scale: ([0-9.]+)", (folder / "recipe.yaml").read_text())[1])
signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
(folder / "began").touch()
if scale == 13:
    sys.exit("verisphere: the loss is nan")
if scale == 99:
    time.sleep(60)
(folder / "metrics.jsonl").write_text(json.dumps({"step": 1, "loss": scale}))
"""


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def words(self: Launch, run: Run) -> list[str]:
        return [sys.executable, "-S", "-c", SCRIPT, str(run.begin().parent)]

    monkeypatch.syspath_prepend(OWN)
    monkeypatch.setattr(Launch, "words", words)
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    return tmp_path / "recipe.yaml"


@pytest.fixture
def run(run):
    return partial(run, "experiment")


def test_a_grid_of_a_recipe(run, recipe: Path, tmp_path: Path):
    out = tmp_path / "out"
    asked = [recipe, "--out", out, "--grid", "loss.init_args.scale=2,4", "--grid", "clip=null,5", "--seeds", "1,2"]
    code, text, err = run(*asked, "--epochs", "0.5", "--jobs", "2")
    assert code == 0
    arms = [f"scale={scale},clip={clip}" for scale in (2, 4) for clip in ("null", 5)]
    assert [path.parent.name for path in sorted(out.glob("runs/*/seed-1"))] == sorted(arms)
    assert "| scale=4,clip=5    |       0 s |     4.000 |          0.000 |" in text
    assert "means over 2 seeds (1, 2)" in text
    assert text.endswith(f"{out}: results.csv, results.json, plots; a run in runs/ARM/seed-S each\n")
    assert "scale=4,clip=5, seed 2: trained in " in err
    resolved = json.loads((out / "plan.json").read_text())["arms"]["scale=2,clip=5"]
    assert (resolved["epochs"], resolved["clip"], resolved["loss"]["init_args"]["scale"]) == (0.5, 5.0, 2.0)
    assert run(*asked, "--epochs", "0.5")[2].startswith("8 of 8 trainings are finished already")


def test_a_failure_is_named_below_the_table(run, recipe: Path, tmp_path: Path):
    out = tmp_path / "out"
    code, text, err = run(recipe, "--out", out, "--grid", "loss.init_args.scale=2,13")
    assert code == 1
    assert "| scale=2 |       0 s |     2.000 |              - |" in text  # one seed has no spread
    assert "scale=13" not in text
    log = out / "runs" / "scale=13" / "seed-0" / "log.txt"
    assert err.splitlines()[-1] == (
        f"verisphere: 1 trainings failed (arms in the results: scale=2): scale=13, seed 0: the loss is nan (see {log})"
    )
    assert len(json.loads((out / "results.json").read_text())["failed"]) == 1


def test_a_warm_start_that_fails_ends_the_experiment(run, recipe: Path, tmp_path: Path):
    experiment = tmp_path / "experiment.yaml"
    experiment.write_text("recipe: recipe.yaml\nwarm: {loss.init_args.scale: 13}\narms: {a: {}}\n")
    code, text, err = run(experiment, "--out", tmp_path / "out")
    assert (code, text) == (1, "")
    assert "the training that every arm starts from failed: warm, seed 0: the loss is nan (see " in err
    assert not (tmp_path / "out" / "runs").exists()


def test_a_failed_baseline_leaves_no_difference(run, recipe: Path, tmp_path: Path):
    code, text, _ = run(recipe, "--out", tmp_path / "out", "--grid", "loss.init_args.scale=13,2")
    assert code == 1
    assert "| scale=2 |" in text


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_end_it_with_their_code(run, recipe: Path, tmp_path: Path, heard_hangup, number: int, code: int):
    out = tmp_path / "out"

    def interrupt() -> None:
        while not list(out.glob("runs/*/*/began")):
            time.sleep(0.02)
        os.kill(os.getpid(), number)

    threading.Thread(target=interrupt).start()
    found, text, err = run(recipe, "--out", out, "--grid", "loss.init_args.scale=99,2")
    assert (found, text) == (code, "")
    assert "stopping what is under way (1), with checkpoints; the same command continues from there" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seeds", "1,x"], "argument --seeds: '1,x' is not a list of whole numbers such as 0,1,2"),
        (["--grid", "epoch=1,2"], "arm 'epoch=1': "),
        (["--grid", "epochs=1,2", "--epochs", "1"], "--epochs: the grid sets it; change it there"),
    ],
)
def test_a_wrong_call_is_one_line(refused, recipe: Path, tmp_path: Path, options: list[str], message: str):
    assert message in refused(recipe, "--out", tmp_path / "out", *options)
    assert not (tmp_path / "out" / "runs").exists()


def test_it_is_not_for_torchrun(run, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("verisphere.base.distributed.launched", lambda: True)
    monkeypatch.setattr("verisphere.cli.processes.launched", lambda: False)
    monkeypatch.setattr("verisphere.cli.processes.end_with_launcher", lambda: None)
    code, _, err = run(recipe, "--out", tmp_path / "out")
    assert code == 2
    assert "an experiment starts its trainings itself: start it without torchrun" in err
