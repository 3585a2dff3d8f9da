"""What a command would take of a set: counted by hand, by the same rates for a file and for shards."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from shard_writer import written
from verisphere.base.vocabulary import Embeddings
from verisphere.cli import main
from verisphere.files.embeddings import write_embeddings
from verisphere.measure.cost import COMMANDS, cost_of


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    rows = Embeddings(np.ones((10, 256), np.float32), identities=np.arange(10) // 2)
    write_embeddings(tmp_path / "set.npz", rows)
    write_embeddings(tmp_path / "other.npz", rows)
    write_embeddings(tmp_path / "wide.npz", Embeddings(np.ones((11, 512), np.float32), identities=np.arange(11)))
    write_embeddings(tmp_path / "few.npz", rows.take(np.arange(5)))
    return {"file": tmp_path / "set.npz", "shards": written(tmp_path / "set", rows, at_once=5)}


def test_short_work_is_told_in_seconds(files: dict[str, Path]) -> None:
    cost = cost_of("all-pairs", [files["file"]])
    assert " s of one core" in cost.text()
    assert "2.5 hours of one core" in replace(cost, cpu_hours=2.5).text()


@pytest.mark.parametrize(
    ("kind", "pairs"),
    [("all-pairs", 45), ("cluster", 45), ("duplicates", 45 + 10), ("identification", 50)],
)
def test_pairs_bytes_and_hours_are_those_of_a_count_by_hand(kind, pairs, files: dict[str, Path]) -> None:
    costs = {name: cost_of(kind, [path], fars=["1e-4"]) for name, path in files.items()}
    for cost in costs.values():
        assert (cost.rows, cost.dim, cost.pairs, cost.read) == (10, 256, pairs, 10 * 256 * 4)
        further = 3.3e-4 * 10 if kind == "cluster" else 0
        assert cost.cpu_hours * 3600 == pytest.approx(pairs / (2 * COMMANDS[kind][0]) + further)
        assert f"{pairs} at most" in cost.text()
    assert costs["file"].memory == costs["shards"].memory + costs["shards"].mapped
    assert costs["file"].mapped == 0 < costs["shards"].mapped == 3.25 * 10 * 256 * 4


def test_a_gallery_and_a_high_far_count(files: dict[str, Path]) -> None:
    assert cost_of("identification", [files["file"]], [files["shards"], files["file"]]).pairs == 200
    low, high = (cost_of("all-pairs", [files["file"]], fars=[far]).cpu_hours for far in ("1e-4", "1e-1"))
    assert high > 2 * low


def test_the_pairs_of_another_model_count_by_the_length_of_its_rows(files: dict[str, Path]) -> None:
    wide = files["file"].parent / "wide.npz"
    alone, both = (cost_of("all-pairs", [files["file"]], against=paths) for paths in ([], [wide]))
    assert (alone.pairs, both.pairs) == (45, 90)
    assert both.cpu_hours == pytest.approx(3 * alone.cpu_hours)


@pytest.mark.parametrize(
    ("words", "pairs"),
    [
        ("evaluate all-pairs set.npz --far 1e-4 --intervals", 2 * 45),
        ("evaluate all-pairs set.npz --far 1e-4 --by-person people.csv", 2 * 45),
        ("evaluate all-pairs set.npz --far 1e-4 --against set", 4 * 45),
        ("evaluate identification set.npz --galleries 3", 3 * 50),
        ("evaluate identification set.npz --gallery set --distractors other.npz", 2 * 100),
        ("calibrate set.npz --gallery set --fpir 1e-1 --out out.json", 5 * 10),
        ("clean duplicates set.npz --no-images --out out", 10),
    ],
)
def test_what_multiplies_the_pairs_counts(
    words: str, pairs: int, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(files["file"].parent)
    assert not main([*words.split(), "--dry-run"])
    assert f"pairs    {pairs:,} at most" in capsys.readouterr().out


def test_a_high_far_of_a_calibration_takes_as_long_as_that_of_an_evaluation(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(files["file"].parent)
    said = []
    for verb in (["calibrate"], ["evaluate", "all-pairs"]):
        out = ["--out", "out.json"] if verb == ["calibrate"] else []
        assert not main([*verb, "set.npz", "--far", "1e-1", *out, "--dry-run"])
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("evaluate all-pairs set.npz --plot out.png", "--dry-run compares nothing: omit --plot"),
        ("evaluate all-pairs set.npz --curve out.csv", "--dry-run compares nothing: omit --curve"),
        ("evaluate all-pairs set.npz --work work", "--dry-run compares nothing: omit --work"),
        ("evaluate identification set.npz --distractors set.npz", "--distractors are enrolled beside the people of a"),
        ("evaluate identification set.npz --gallery set --galleries 2", "--galleries draws a gallery from one file"),
        ("evaluate identification set.npz --galleries 0", "galleries must be at least 1, got 0"),
        ("evaluate identification set.npz --gallery set --gallery set", "two galleries are both called 'set'"),
        ("evaluate identification set.npz --gallery set --distractors set.npz", "set.npz: its images are distractors"),
        ("evaluate all-pairs set.npz set.npz", "two embeddings files are both called 'set'; rename one file"),
        ("evaluate all-pairs set.npz --against few.npz", "few.npz: 5 rows, but it must have the 10 of set.npz"),
        ("evaluate all-pairs set.npz other.npz --against set", "--against compares two models on one file, not on 2"),
        ("clean duplicates set.npz --threshold 5 --out out", "threshold is 5.0; a threshold of scores lies above -1"),
        ("cluster set.npz --threshold 5 --out out", "--threshold 5: allowed are scores above -1 and below 1"),
        ("embed net.yaml faces.zip --out x.csv", "--out x.csv: an embeddings file ends in .npz"),
        ("calibrate set.npz --out out.json", "name the FAR of a threshold for two photographs"),
    ],
)
def test_what_a_dry_run_does_not_use_is_refused(
    words: str, said: str, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(files["file"].parent)
    assert main([*words.split(), "--dry-run"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", "all-pairs", "set.npz", "--far", "1e-4"],
        ["evaluate", "identification", "set.npz"],
        ["clean", "duplicates", "set.npz", "--out", "out"],
        ["cluster", "set.npz", "--threshold", "0.5", "--out", "out"],
        ["calibrate", "set.npz", "--far", "1e-1", "--out", "out.json"],
    ],
)
def test_dry_runs_write_nothing(
    words: list[str], files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(files["file"].parent)
    before = sorted(Path().iterdir())
    assert not main([*words, "--dry-run"])
    assert "10 rows of 256 numbers; nothing was computed" in capsys.readouterr().out
    assert sorted(Path().iterdir()) == before


def test_embedding_is_timed_on_one_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from verisphere.images.synthetic.synthetic_faces import SyntheticFaces
    from verisphere.measure.render import render_zip

    monkeypatch.chdir(tmp_path)
    render_zip(SyntheticFaces(people=3, images=2, seed=3), Path("faces.zip"), None)
    Path("net.yaml").write_text(
        "class_path: verisphere.backbones.MobileFaceNet\ninit_args: {embedding_size: 8, width: 0.1, activation: relu}\n"
    )
    threads = torch.get_num_threads()
    assert not main(["embed", "net.yaml", "faces.zip", "--out", "out.npz", "--batch-size", "2", "--dry-run"])
    torch.set_num_threads(threads)
    said = capsys.readouterr().out
    assert "6 rows of 8 numbers; nothing was computed" in said
    assert "by 2 images in" in said
    assert not Path("out.npz").exists()
    assert main(["embed", "net.yaml", "faces.zip", "--out", "out.npz", "--work", "work", "--dry-run"]) == 2
    assert "--dry-run keeps nothing: omit --work" in capsys.readouterr().err
    assert not Path("work").exists()


def test_rows_that_cannot_be_compared_are_refused(files: dict[str, Path]) -> None:
    narrow = files["file"].with_name("narrow.npz")
    write_embeddings(narrow, Embeddings(np.ones((10, 8), np.float32), identities=np.arange(10)))
    for paths, others in (([files["file"], narrow], []), ([files["file"]], [narrow])):
        with pytest.raises(ValueError, match=r"narrow\.npz: 8 numbers a row, but .*set\.npz has 256; scores compare"):
            cost_of("identification", paths, others)
    assert cost_of("all-pairs", [files["file"]], against=[narrow]).pairs == 90


def test_a_set_without_numbers_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "none.npz", embeddings=np.zeros((3, 0), np.float32), names=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"none.npz: embeddings have the shape \(3, 0\)"):
        cost_of("all-pairs", [tmp_path / "none.npz"])
