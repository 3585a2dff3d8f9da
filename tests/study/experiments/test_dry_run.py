"""The dry run of an experiment: every training counted, the sums, and nothing made."""

import json
from pathlib import Path

import pytest

from verisphere.cli.start import main
from verisphere.study.experiments.arms import read_experiment
from verisphere.study.experiments.dry_run import experiment_cost
from verisphere.train.dry_run.one_training import DryRunOptions
from verisphere.train.dry_run.several import flops_text

SEARCHED = """\
recipe: recipe.yaml
set: {data.init_args.path: nowhere}
arms:
  whole: {}
  cleaned: {cleaned: {arm: whole}}
  searched:
    search:
      space: {optimizer.rate: {class_path: verisphere.study.search.Logarithmic, init_args: {low: 0.01, high: 0.1}}}
      schedule: {class_path: verisphere.study.search.EachEpoch, init_args: {candidates: 3}}
      reward: {faces: {class_path: verisphere.images.Photos, init_args: {path: nowhere}}, far: ["0.1"]}
seeds: [0, 1]
baseline: searched
"""
NOWHERE = """\
data: {class_path: verisphere.images.Photos, init_args: {path: nowhere}}
backbone: {class_path: own_parts.TinyNet}
loss: {class_path: verisphere.losses.ArcFace}
epochs: 2
batch_size: 10
"""


def test_every_training_is_counted_with_its_steps_and_work(files: Path) -> None:
    cost = experiment_cost(read_experiment(files / "experiment.yaml"), DryRunOptions(memory=1.0, device="cpu"), jobs=2)
    # 24 images in batches of 8 are three steps an epoch; the warm training has two epochs, an arm one
    counted = {entry.name: (entry.count, entry.steps, entry.epochs) for entry in cost.trainings}
    assert counted == {"warm": (1, 6, 2), "base": (2, 3, 1), "fast": (2, 3, 1)}
    assert (cost.count, cost.steps) == (5, 6 + 2 * 3 + 2 * 3)
    one = cost.trainings[0].cost
    assert one.classes == 6
    assert cost.flops == 18 * (one.backbone_flops + one.head_flops) > 0
    assert cost.largest == 2 * max(entry.cost.total for entry in cost.trainings)  # two at a time
    assert cost.fits is False  # PyTorch alone takes half a GiB in each
    assert "so it does not fit" in cost.text()


def test_it_makes_nothing_and_writes_figures_where_asked(
    files: Path, capsys: pytest.CaptureFixture[str], process_as_it_was: None
) -> None:
    before = sorted(files.rglob("*"))
    command = ["experiment", str(files / "experiment.yaml"), "--dry-run", "--device", "cpu"]
    assert main(command) == 0
    assert "together: 5 trainings, 18 steps, " in capsys.readouterr().out
    assert sorted(files.rglob("*")) == before
    assert main([*command, "--json", str(files / "cost.json")]) == 0
    written = json.loads((files / "cost.json").read_text())
    assert [arm["name"] for arm in written["arms"]] == ["warm", "base", "fast"]
    assert (written["trainings"], written["steps"]) == (5, 18)


def test_searches_cleanings_and_fewer_seeds_without_any_data(files: Path) -> None:
    (files / "recipe.yaml").write_text(NOWHERE)
    (files / "arms.yaml").write_text(SEARCHED)
    experiment = read_experiment(files / "arms.yaml")
    cost = experiment_cost(experiment, DryRunOptions(classes=50, images=105, device="cpu"))
    counted = {entry.name: (entry.count, entry.steps) for entry in cost.trainings}
    assert counted == {"whole": (2, 20), "cleaned": (2, 20), "searched": (6, 20)}  # three candidates in each epoch
    assert "counted as if the cleaning dropped nothing" in cost.text()
    unknown = experiment_cost(experiment, DryRunOptions(classes=50, device="cpu"))
    assert (unknown.count, unknown.steps, unknown.flops) == (10, None, None)
    assert "2 epochs" in unknown.text()
    assert "--images tells their steps and work" in unknown.text()
    with pytest.raises(FileNotFoundError, match="nowhere"):
        experiment_cost(experiment, DryRunOptions(device="cpu"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--dry-run", "--replicates", "5"], "--dry-run trains nothing: omit --replicates"),
        (["--dry-run", "--images", "5"], "--images needs --classes"),
    ],
)
def test_options_that_do_not_go_together(
    files: Path, capsys: pytest.CaptureFixture[str], process_as_it_was: None, words: list[str], message: str
) -> None:
    assert main(["experiment", str(files / "experiment.yaml"), *words]) == 2
    assert message in capsys.readouterr().err


def test_units_of_work() -> None:
    assert [flops_text(number) for number in (5e8, 2.25e12, 4.7e18)] == ["0.5 GFLOP", "2.25 TFLOP", "4.7 EFLOP"]
