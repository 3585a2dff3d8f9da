"""Searches from a file to the run of their result: equal to a plain training where nothing is searched, and the same
however often they were ended.
"""

import json
import re
import signal
import sys
from copy import deepcopy
from dataclasses import replace
from functools import partial
from glob import glob
from pathlib import Path

import numpy as np
import pytest
import torch

import verisphere.study.search.candidate as candidate
import verisphere.study.search.search as search_module
from interrupting import Interrupting
from processes import WorkerFailed
from processes import run as run_processes
from tiny_runs import OWN, command, files, metrics
from tiny_searches import left, searched, written
from verisphere.files.metrics import METRICS
from verisphere.models.checkpoint import list_checkpoints, read_checkpoint
from verisphere.study.search.candidate import REWARD, Computing
from verisphere.study.search.definition import read_search
from verisphere.study.search.folder import SEARCH_JSON, read_search_json
from verisphere.study.search.search import NoCandidate, result_text, run_search
from verisphere.train.loop import TrainingDiverged, TrainingStopped
from verisphere.train.recipe import read_recipe
from verisphere.train.session import train_run


@pytest.fixture(autouse=True)
def _own_parts_can_be_imported_and_no_page_is_drawn(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(OWN)
    monkeypatch.setattr(search_module, "write_page", lambda *_: None)  # it takes longer than such a search


@pytest.mark.parametrize("every", [1.0, 0.5])
def test_a_search_of_one_candidate_that_changes_nothing_is_the_training_itself(tmp_path: Path, every: float):
    path = written(tmp_path, low=0.02, high=0.02, candidates=1, every=every)
    result = searched(path, tmp_path / "searched")
    train_run(read_recipe(tmp_path / "recipe.yaml", []), tmp_path / "trained", device="cpu")
    assert files(tmp_path / "searched") == files(tmp_path / "trained")
    entries = {entry["step"]: entry["loss"] for entry in metrics(tmp_path / "trained")}
    assert {entry["step"]: entry["loss"] for entry in metrics(tmp_path / "searched")} == entries
    assert (len(result.rounds), result.epochs) == (3 / every, 3.0)


def test_candidates_with_equal_values_are_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    trained = []
    real = candidate.train_run
    monkeypatch.setattr(candidate, "train_run", lambda *given, **more: trained.append(given) or real(*given, **more))
    alike = searched(written(tmp_path, low=0.02, high=0.02, candidates=3), tmp_path / "alike")
    assert len(trained) == 3, "one training in each of three rounds, not three"
    assert alike.epochs == 3.0
    assert all(len(set(entry.round.measured)) == 1 and len(entry.round.measured) == 3 for entry in alike.rounds)
    alone = searched(written(tmp_path, low=0.02, high=0.02, candidates=1), tmp_path / "alone")
    assert files(tmp_path / "alike") == files(tmp_path / "alone")
    assert alone.epochs == 3.0


def test_candidates_with_equal_values_and_copied_parents_are_trained_once(tmp_path, monkeypatch):
    trained = []
    real = candidate.train_run
    monkeypatch.setattr(candidate, "train_run", lambda *given, **more: trained.append(given) or real(*given, **more))
    path = written(tmp_path, low=0.02, high=0.02)
    schedule = "EachEpoch, init_args: {candidates: 3, every: 1.0}"
    assert schedule in path.read_text()
    path.write_text(path.read_text().replace(schedule, "PopulationBased, init_args: {members: 3, every: 1.0}"))
    result = searched(path, tmp_path / "out")
    assert [[start.parent for start in entry.round.starts] for entry in result.rounds[1:]] == [[0, 1, 2]] * 2
    assert len(trained) == result.epochs == 3


def test_candidates_of_a_round_begin_alike_and_the_best_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    begun: dict[tuple[str, str], dict[str, bytes] | None] = {}
    real = candidate.train_run

    def noted(read, folder, **session):
        begun[folder.parent.name, folder.name] = files(folder) if list_checkpoints(folder) else None
        result = real(read, folder, **session)
        ended[folder.parent.name, folder.name] = files(folder)
        return result

    ended: dict[tuple[str, str], dict[str, bytes]] = {}
    monkeypatch.setattr(candidate, "train_run", noted)
    result = searched(written(tmp_path), tmp_path / "out")
    assert [begun["0001", place] for place in "123"] == [None] * 3
    for number, whole in enumerate(result.rounds):
        name = f"{number + 1:04d}"
        rewards = [json.loads((tmp_path / "out" / "rounds" / name / place / REWARD).read_text()) for place in "123"]
        assert list(whole.round.measured) == [entry["reward"] for entry in rewards]
        assert whole.round.best == int(np.argmax(whole.round.measured))
        assert len({tuple(ended[name, place].items()) for place in "123"}) == 3  # the rates differ
        if number:
            before = f"{number:04d}", str(result.rounds[number - 1].round.best + 1)
            assert [begun[name, place] for place in "123"] == [ended[before]] * 3
    assert files(tmp_path / "out") == ended["0003", str(result.candidate + 1)]
    assert read_recipe(tmp_path / "out" / "recipe.yaml", []).recipe.optimizer.rate == result.values["optimizer.rate"]
    assert not list((tmp_path / "out" / "rounds").rglob("*.safetensors"))


class Ended(BaseException):
    """Stands for a process that is killed."""


STAGES = {
    "a parent's checkpoint is linked": (candidate, "copy_folder"),
    "a candidate is trained": (candidate, "train_run"),
    "a reward is measured": (candidate, "_write"),
    "a round is recorded": (search_module, "write_search"),
    "checkpoints are removed": (search_module, "remove_checkpoints"),
    "the result is published": (search_module, "_publish"),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What a search with two candidates leaves that was not ended."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(OWN)
        patch.setattr(search_module, "write_page", lambda *_: None)
        searched(written(folder, candidates=2), folder / "out")
    return left(folder / "out")


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_search_that_is_ended_at_any_stage_ends_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[str, object], before: bool
):
    """One search, ended at each stage once for each set of files that is there then, and continued each time."""
    search, out = read_search(written(tmp_path, candidates=2)), tmp_path / "ended"
    ended: set[tuple[str, ...]] = set()

    def ending(stage, real, *arguments, **named):
        result = None if before else real(*arguments, **named)
        point = (stage, *sorted(glob("**", root_dir=out, recursive=True)))
        if point not in ended:
            ended.add(point)
            raise Ended
        return real(*arguments, **named) if before else result

    for stage, (module, name) in STAGES.items():
        monkeypatch.setattr(module, name, partial(ending, stage, getattr(module, name)))

    def attempt() -> bool:
        """Whether the search came to its end; reading its file for each attempt would take most of the time."""
        parts = {"method": deepcopy(search.method), "schedule": deepcopy(search.schedule)}
        try:
            run_search(replace(search, **parts), out, Computing("cpu"))
        except Ended:
            return False
        return True

    while not attempt():
        assert len(ended) < 50, "it makes no progress"
    assert {stage for stage, *_ in ended} == STAGES.keys()
    assert left(out) == whole
    assert attempt()  # a finished one stays as it is
    assert left(out) == whole


def test_a_candidate_that_diverges_is_never_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    real = candidate.train_run

    def diverging(read, folder, **session):
        if folder.name in lost:
            raise TrainingDiverged("step 3: the loss is nan")
        return real(read, folder, **session)

    monkeypatch.setattr(candidate, "train_run", diverging)
    lost = {"1", "3"}
    result = searched(written(tmp_path), tmp_path / "out")
    assert [whole.round.best for whole in result.rounds] == [1, 1, 1]
    assert [whole.round.measured[0] for whole in result.rounds] == [None] * 3
    assert result.rounds[0].another_wins == 0.0
    lost = {"1", "2", "3"}
    with pytest.raises(NoCandidate, match="every candidate of round 1 diverged; narrow the space, or lower the rate"):
        searched(written(tmp_path), tmp_path / "none")


def test_the_command_searches_and_says_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path, out = written(tmp_path, candidates=2), tmp_path / "out"
    assert command("search", path, "--out", out, "--device", "cpu", "--epochs", "2") == 0
    text = capsys.readouterr().out
    assert "| round | to epoch | candidates |" in text
    assert "4 epochs were trained, 2 times as many as of one training" in text
    assert (out / METRICS).is_file()
    asked = json.loads((out / SEARCH_JSON).read_text())
    assert (len(asked["rounds"]), asked["reward"]) == (2, "TAR at FAR 0.1")
    assert command("search", path, "--out", out, "--device", "cpu", "--epochs", "3") == 2
    assert (
        "this folder holds another search: recipe: epochs was 2.0 and is 3.0; choose another" in capsys.readouterr().err
    )
    assert command("search", tmp_path / "recipe.yaml", "--out", out) == 2
    assert "recipe.yaml: not a search: it has no space" in capsys.readouterr().err
    for verb, kind in (("train", "a recipe"), ("experiment", "an experiment")):
        assert command(verb, path, "--out", tmp_path / verb) == 2
        assert f"it is a search, not {kind}: verisphere search takes it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("optimizer.rate:", "optimizer.speed:"), "optimizer.speed: there is no speed in optimizer"),
        (("figure: tar", "figure: accuracy"), "reward: figure is accuracy, which needs pairs or drawn_pairs"),
        (("figure: tar", "figure: gamma"), "reward: figure is gamma, which needs one_far"),
        (("figure: tar", "figure: size"), "reward: figure is 'size'; allowed are tar, accuracy, gamma"),
        (("replicates: 20", "replicates: 1"), "reward: replicates is 1"),
        (("images: 3", "images: 1"), "reward: "),
        (("reward:\n", "reward: {}\nx:\n"), "x"),
        (("every: 1.0", "every: 0.1"), "schedule: a round of 0.1 epochs has no step; an epoch has 3"),
        (("method:", "methods:"), "methods"),
        (("recipe: recipe.yaml", "recipe: other.yaml"), "other.yaml"),
        (("recipe: recipe.yaml", "set: {schedule.shape: plateau}\nrecipe: recipe.yaml"), "plateau"),
    ],
)
def test_a_wrong_search_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: tuple[str, str], error: str
):
    path = written(tmp_path)
    text = path.read_text()
    assert change[0] in text
    path.write_text(text.replace(*change))
    assert command("search", path, "--out", tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert error in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_search_without_a_reward_is_refused(tmp_path: Path):
    path = written(tmp_path)
    path.write_text(path.read_text().partition("reward:")[0])
    with pytest.raises(ValueError, match="reward is missing: a set by which candidates are compared"):
        read_search(path)


@pytest.fixture(scope="module")
def ended_search(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ended")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(OWN)
        patch.setattr(search_module, "write_page", lambda *_: None)
        searched(written(folder, candidates=2), folder / "out", "--epochs=2")
    return folder


@pytest.mark.parametrize(
    ("place", "value", "error"),
    [
        ((), [], "it must be an object, got []"),
        ((), {}, "format is missing"),
        (("format",), 2, "format is 2, and this version reads 1"),
        (("rounds", 0, "candidates"), [], "rounds[0]: candidates is empty"),
        (("rounds", 0, "best"), 7, "rounds[0]: best is 7, and candidate"),
        (("rounds", 1, "candidates", 0, "parent"), 3, "rounds[1]: a parent is no candidate of the round before"),
        (("rounds", 0, "candidates", 1, "reward"), "0.5", "rounds[0].candidates[1].reward must be a number, got '0.5'"),
        (
            ("rounds", 0, "candidates", 0, "draw"),
            [0.1, 0.2],
            "rounds[0].candidates[0]: a candidate has 2 draws and 1 values",
        ),
        (
            ("rounds", 0, "candidates", 0, "values"),
            {"rate": None},
            "rounds[0].candidates[0]: rate must be a number, got None",
        ),
    ],
)
def test_a_search_json_that_was_changed_is_named_with_the_place(
    ended_search: Path, tmp_path: Path, place, value, error
):
    content = json.loads((ended_search / "out" / SEARCH_JSON).read_text())
    at = content
    for part in place[:-1]:
        at = at[part]
    if place:
        at[place[-1]] = value
    else:
        content = value
    (tmp_path / SEARCH_JSON).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=re.escape(error)) as refused:
        read_search_json(tmp_path / SEARCH_JSON)
    assert "search.json: " in str(refused.value)
    assert "was it changed" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{}", "reward is missing"),
        ('{"reward": "high"}', "reward must be a number, got 'high'"),
        ('{"reward": 0.5, "replicates": [0.1, true]}', "replicates[1] must be a number, got True"),
    ],
)
def test_a_reward_that_was_changed_is_named(tmp_path: Path, text: str, error: str):
    (tmp_path / REWARD).write_text(text)
    with pytest.raises(ValueError, match=re.escape(error)):
        candidate.read_reward(tmp_path)


def test_people_of_the_training_in_the_reward_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path = written(tmp_path, candidates=1)
    searched(path, tmp_path / "out", "--epochs=1")
    assert "reward: 5 of its 6 people are people of the training, such as p0" in caplog.text


def test_whole_trainings_go_on_where_one_alone_diverges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = written(tmp_path)
    whole = "{class_path: verisphere.study.search.WholeTrainings, init_args: {trainings: 3, at_once: 1}}"
    lines = [
        line if not line.startswith("schedule") else f"schedule: {whole}" for line in path.read_text().splitlines()
    ]
    path.write_text("\n".join(lines) + "\n")
    real = candidate.train_run

    def diverging(read, folder, **session):
        if folder.parent.name in lost:
            raise TrainingDiverged("step 3: the loss is nan")
        return real(read, folder, **session)

    monkeypatch.setattr(candidate, "train_run", diverging)
    lost = {"0001", "0003"}
    result = searched(path, tmp_path / "out", "--epochs=1")
    assert (result.number, len(result.rounds)) == (1, 3)
    assert "diverged" in result_text(read_search(path, ["--epochs=1"]), result)
    lost = {"0001", "0002", "0003"}
    with pytest.raises(NoCandidate, match="every training diverged"):
        searched(path, tmp_path / "none", "--epochs=1")


def test_a_signal_in_the_last_step_of_a_candidate_stops_the_search_before_the_next(
    tmp_path: Path, whole: dict[str, object]
):
    path = written(tmp_path, candidates=2)

    def last_step(items, description, total=None, done=0):
        return Interrupting(2)(items, description.rpartition(": ")[2], total, done)  # of three an epoch

    with pytest.raises(TrainingStopped) as stopped:
        run_search(read_search(path, []), tmp_path / "stopped", Computing("cpu", progress=last_step))
    assert (stopped.value.reason, stopped.value.advice) == (signal.SIGTERM, "the same command continues")
    searched(path, tmp_path / "stopped")
    assert left(tmp_path / "stopped") == whole


def test_a_parent_whose_checkpoint_is_gone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, out = written(tmp_path, candidates=1), tmp_path / "out"
    real = candidate.train_run

    def ending(read, folder, **session):
        if folder.parent.name == "0002":
            raise Ended
        return real(read, folder, **session)

    with monkeypatch.context() as patch:
        patch.setattr(candidate, "train_run", ending)
        with pytest.raises(Ended):
            searched(path, out)
    for run in (out / "rounds").glob("*/1"):
        candidate.remove_checkpoints(run)
    with pytest.raises(ValueError, match=r"rounds/0001/1: its checkpoint, with which 1 begins, is gone"):
        searched(path, out)


def begin_rank() -> None:
    """What the first fixture of this file does, in a process of its own."""
    sys.path.insert(0, str(OWN))
    search_module.write_page = lambda *_: None


def both_ranks(folder: str) -> tuple[int, float]:
    """A training, and a search that changes nothing, by the ranks of a group."""
    begin_rank()
    path = Path(folder)
    train_run(read_recipe(path / "recipe.yaml", []), path / "trained", device="cpu")
    result = searched(path / "search.yaml", path / "searched")
    return len(result.rounds), result.reward


def test_two_ranks_train_a_candidate_as_they_train_a_run(tmp_path: Path):
    written(tmp_path, low=0.02, high=0.02, candidates=1)
    first, second = run_processes(both_ranks, 2, str(tmp_path))
    assert first == second
    assert first[0] == 3
    both = [read_checkpoint(tmp_path / name) for name in ("searched", "trained")]
    for part in ("backbone", "head", "optimizer"):
        ours, theirs = (checkpoint.tensors(part) for checkpoint in both)
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def side_by_side(folder: str, out: str, groups: int) -> tuple[int, float]:
    begin_rank()
    result = run_search(read_search(Path(folder) / "search.yaml", []), Path(out), Computing("cpu", groups=groups))
    return result.candidate, result.reward


@pytest.mark.parametrize("size", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_groups_side_by_side_end_with_the_bits_of_one_group(tmp_path: Path, size: int):
    written(tmp_path)
    run_processes(side_by_side, size, str(tmp_path), str(tmp_path / "one"), 1)
    results = run_processes(side_by_side, 2 * size, str(tmp_path), str(tmp_path / "two"), 2)
    assert len(set(results)) == 1
    assert left(tmp_path / "two") == left(tmp_path / "one")


def with_a_faulty_candidate(folder: str) -> None:
    real = candidate.train_run

    def faulty(read, folder, **session):
        if folder.name == "2":
            raise OSError("the disk is full")
        return real(read, folder, **session)

    candidate.train_run = faulty
    side_by_side(folder, f"{folder}/out", 2)


def test_a_candidate_that_fails_in_one_group_ends_the_others(tmp_path: Path):
    written(tmp_path)
    with pytest.raises(WorkerFailed, match="the disk is full") as failed:
        run_processes(with_a_faulty_candidate, 2, str(tmp_path))
    assert "FailedElsewhere: process 1: the disk is full" in failed.value.texts[0]
    assert not failed.value.killed
    assert {path.parent.name for path in (tmp_path / "out").glob(f"rounds/0001/*/{REWARD}")} == {"1", "3"}


def test_ranks_that_cannot_be_divided_are_refused(tmp_path: Path):
    path = written(tmp_path)
    with pytest.raises(ValueError, match="groups is 2; it must divide the number of processes, which is 1"):
        run_search(read_search(path, []), tmp_path / "out", Computing("cpu", groups=2))
