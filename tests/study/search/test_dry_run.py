"""The dry run of a search: its rounds are those that the search takes, and nothing is made."""

import json
from pathlib import Path

import pytest

from tiny_searches import searched, written
from verisphere.cli.start import main
from verisphere.study.search.dry_run import search_cost
from verisphere.train.dry_run.one_training import DryRunOptions

HALVING = "{class_path: verisphere.study.search.SuccessiveHalving, init_args: {trainings: 4, first: 0.5}}"


def with_schedule(path: Path, schedule: str) -> Path:
    lines = [f"schedule: {schedule}" if line.startswith("schedule") else line for line in path.read_text().splitlines()]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("schedule", [None, HALVING], ids=["each epoch", "halving"])
def test_the_rounds_are_those_that_the_search_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schedule: str | None
):
    # The page takes longer than such a search.
    monkeypatch.setattr("verisphere.study.search.search.write_page", lambda *_: None)
    path = written(tmp_path)
    if schedule is not None:
        with_schedule(path, schedule)
    cost = search_cost(path, ["--epochs=2"], DryRunOptions(device="cpu"))
    result = searched(path, tmp_path / "out", "--epochs=2")
    assert [len(entry.starts) for entry in cost.rounds] == [len(whole.round.starts) for whole in result.rounds]
    assert cost.trainings.count * 2 == pytest.approx(result.epochs)


def test_it_makes_nothing_and_says_what_all_of_it_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], process_as_it_was: None
):
    path = written(tmp_path, candidates=3)
    before = sorted(tmp_path.rglob("*"))
    assert main(["search", str(path), "--dry-run", "--epochs", "4", "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "12 candidates in 4 rounds; 12 epochs of training, 3 times as many as of one training; " in out
    assert sorted(tmp_path.rglob("*")) == before
    assert main(["search", str(path), "--dry-run", "--epochs", "4", "--json", str(tmp_path / "cost.json")]) == 0
    found = json.loads((tmp_path / "cost.json").read_text())
    assert (found["rounds"], found["candidates"], found["trainings"]) == (4, 12, 3)
    assert found["steps"] * found["training"]["backbone_flops"] < found["flops"]


def test_without_data_or_people_of_the_reward(tmp_path: Path):
    path = written(tmp_path)
    path.write_text(path.read_text().replace("own_parts.Noise, init_args: {people: 6, images: 3}", "own_parts.Absent"))
    words = ["--epochs=2", "--batch_size=8"]
    cost = search_cost(path, words, DryRunOptions(classes=1000, images=80, device="cpu"))
    assert (cost.trainings.steps, cost.trainings.all_steps) == (20, 60)
    assert search_cost(path, words, DryRunOptions(classes=1000, device="cpu")).trainings.flops is None
    in_steps = "--unit=steps --steps=9 --epochs=null --save_every=3 --schedule.warmup=0 --schedule.margin_warmup=0"
    with pytest.raises(ValueError, match="a training is stated in steps and the rounds of a search in epochs"):
        search_cost(path, in_steps.split(), DryRunOptions(classes=1000, device="cpu"))


def test_options_that_do_not_go_together(tmp_path: Path, capsys: pytest.CaptureFixture[str], process_as_it_was: None):
    assert main(["search", str(written(tmp_path)), "--images", "3"]) == 2
    assert "belongs to --dry-run" in capsys.readouterr().err
