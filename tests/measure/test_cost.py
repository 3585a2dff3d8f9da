"""What a command would take of a set: counted by hand, by the same rates for a file and for shards."""

import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from feature_files import write_matrix
from shard_writer import written
from verisphere.base.vocabulary import Embeddings
from verisphere.cli import main
from verisphere.files.embeddings import write_embeddings
from verisphere.images.synthetic.synthetic_faces import SyntheticFaces
from verisphere.measure.cost import COMMANDS, EACH, Cost, FirstPieces, cost_of
from verisphere.measure.render import render_zip


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    rows = Embeddings(np.ones((10, 256), np.float32), identities=np.arange(10) // 2)
    write_embeddings(tmp_path / "set.npz", rows)
    write_embeddings(tmp_path / "other.npz", rows)
    write_embeddings(tmp_path / "wide.npz", Embeddings(np.ones((11, 512), np.float32), identities=np.arange(11)))
    write_embeddings(tmp_path / "few.npz", rows.take(np.arange(5)))
    (tmp_path / "pairs.csv").write_text("left,right,label\n000000,000001,1\n000002,000003,1\n000000,000009,0\n")
    (tmp_path / "meta.txt").write_text("".join(f"{row:06} {row // 2} 1\n" for row in range(10)))
    (tmp_path / "templates.txt").write_text("0 1 1\n0 2 0\n\n1 3 0\n1 4 0\n")
    (tmp_path / "people.csv").write_text("TEMPLATE_ID,SUBJECT_ID\n0,7\n1,8\n2,9\n")
    (tmp_path / "features").mkdir()
    for name in ("a.bin", "b.bin"):
        write_matrix(tmp_path / "features" / name, np.ones((256, 1), np.float32))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.yaml").write_text("")
    write_embeddings(tmp_path / "run" / "five.npz", rows.take(np.arange(5)))
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
        assert (cost.rows, cost.dim, cost.pairs, cost.bytes) == (10, 256, pairs, 10 * 256 * 4)
        further = EACH["cluster"] * 10 if kind == "cluster" else 0
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
        ("evaluate identification set.npz --by-image", 2 * 50),
        ("evaluate identification set.npz --gallery set --distractors other.npz", 2 * 100),
        ("calibrate set.npz --gallery set --fpir 1e-1 --out out.json", 5 * 10),
        ("clean duplicates set.npz --no-images --out out", 10),
        ("clean overlap set.npz set --out out", 2 * 5 * 10),
        ("clean overlap train.zip test.zip --embeddings set.npz other.npz --out out", 2 * 5 * 10),
        ("evaluate pairs set.npz --pairs pairs.csv", 3),
        ("evaluate pairs set.npz --pairs pairs.csv --against set", 2 * 3),
        ("evaluate distractors set.npz --distractors other.npz", 10 * 10),
        ("evaluate distractors set.npz --distractors other.npz --distractors features", 10 * 12),
        ("evaluate ijb set.npz --meta meta.txt --pairs templates.txt", 4),
        ("evaluate ijb set.npz --meta meta.txt --gallery people.csv --probes people.csv", 3 * 3),
        ("evaluate ijb set.npz --meta meta.txt --pairs templates.txt --gallery people.csv --probes people.csv", 4 + 9),
        ("evaluate two-sets set.npz few.npz", 10 * 5),
        ("report set.npz wide.npz", 2 * (45 + 55)),
        ("report run set.npz", 2 * (10 + 45)),
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
        ("clean overlap people.txt set.npz --out out", "name those of both sets by --embeddings"),
        ("evaluate all-pairs set.npz --plot out.png", "--dry-run computes nothing: omit --plot"),
        ("evaluate all-pairs set.npz --curve out.csv", "--dry-run computes nothing: omit --curve"),
        ("evaluate all-pairs set.npz --work work", "--dry-run computes nothing: omit --work"),
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
        ("evaluate pairs set.npz other.npz --pairs pairs.csv", "2 embeddings files for 1 list of pairs"),
        ("evaluate ijb set.npz --meta meta.txt", "there is nothing to evaluate: give --pairs (1:1)"),
        ("evaluate distractors set.npz --distractors other.npz --distractors other.npz", "other.npz: named twice"),
        ("report set.npz set.npz", "set.npz: named twice; a report shows it once"),
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
        ["evaluate", "pairs", "set.npz", "--pairs", "pairs.csv"],
        ["report", "set.npz", "--out", "report"],
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


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The current folder with nine drawn faces, and their photographs' landmarks, a suite of one set, and a network."""
    monkeypatch.chdir(tmp_path)
    render_zip(SyntheticFaces(people=3, images=3, seed=3), Path("faces.zip"), None)
    with zipfile.ZipFile("faces.zip") as faces:
        names = [name for name in faces.namelist() if name.endswith(".png")]
        points = [[38.3, 51.7], [73.5, 51.5], [56.0, 71.7], [41.5, 92.4], [70.7, 92.2]]
        Path("landmarks.json").write_text(json.dumps({name: {"landmarks": points} for name in names}))
        for number, name in enumerate(names[:4]):
            place = Path("suite", "lfw", f"P{number // 2}", f"P{number // 2}_000{number % 2 + 1}.png")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(faces.read(name))
    Path("suite", "lfw", "pairs.txt").write_text("1\t1\nP0\t1\t2\nP0\t1\tP1\t1\n")
    Path("suite", "cplfw").mkdir()
    Path("net.yaml").write_text(
        "class_path: verisphere.backbones.MobileFaceNet\ninit_args: {embedding_size: 8, width: 0.1, activation: relu}\n"
    )
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("words", "pieces", "bytes_of_pieces"),
    [
        ("embed net.yaml faces.zip --out out.npz --batch-size 2", 5, 5 * (2 * 8 * 4 + 2 * 8)),
        ("embed net.yaml faces.zip --out shards --batch-size 2 --store int8", 5, 5 * (2 * 8 * 4 + 2 * 8)),
        ("evaluate suite suite --model net.yaml --batch-size 1", 3, 3 * (8 * 4 + 8)),
        ("align faces.zip crops --landmarks landmarks.json", 1, None),
    ],
)
def test_work_on_images_is_timed_by_its_first_piece(
    words: str, pieces: int, bytes_of_pieces: int | None, images: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Cost] = []
    monkeypatch.setattr(FirstPieces, "cost", lambda *told, cost=FirstPieces.cost: made.append(cost(*told)) or made[-1])
    before = sorted(Path().rglob("*"))
    assert not main([*words.split(), "--device", "cpu", "--dry-run"])
    assert sorted(Path().rglob("*")) == before
    assert made[0].pieces == pieces
    assert made[0].bytes > 1000 if bytes_of_pieces is None else made[0].bytes == bytes_of_pieces
    assert 0 < made[0].cpu_hours < 1
    assert f"nothing more was computed\npieces   about {pieces}" in made[0].text()


def test_steps_that_a_dry_run_does_not_count_are_named(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(files["file"].parent)
    for words, named in (("--intervals", True), ("--by-person people.csv", False), ("", False)):
        assert not main(["evaluate", "all-pairs", "set.npz", "--far", "1e-4", *words.split(), "--dry-run"])
        assert ("; without the bootstrap's replicates\n" in capsys.readouterr().out) == named


def test_sets_that_a_dry_run_does_not_count_are_named(images: None, capsys: pytest.CaptureFixture[str]) -> None:
    Path("suite", "cfp").mkdir()
    Path("suite", "cfp", "pairs.txt").write_text("1\t1\nNobody\t1\t2\nNobody\t1\tP1\t1\n")
    words = ["evaluate", "suite", "suite", "--model", "net.yaml", "--batch-size", "1", "--device", "cpu", "--dry-run"]
    assert not main(words)
    told = capsys.readouterr()
    assert "cfp is not counted: " in told.err
    assert told.err.count("is not counted") == 1
    assert "; without the evaluation of the sets\n" in told.out
    assert "pieces   about 3" in told.out


def test_what_ends_first_is_named(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    cost = cost_of("all-pairs", [files["file"]])
    assert "first    hours end: memory and disk suffice here" in cost.text()
    assert "first    memory ends: " in replace(cost, memory=2**60).text()
    assert "first    the disk ends: " in replace(cost, mapped=2**60).text()


def test_templates_and_probes_alone_are_held(files: dict[str, Path]) -> None:
    paths = [files["file"]]
    numbers = [cost_of("ijb", paths, held=held).memory for held in (5, 1)]
    assert numbers[0] - numbers[1] == 3.25 * 4 * 4 * 256
    of_both = [cost_of("distractors", paths, others).memory for others in (paths, [files["shards"]])]
    assert cost_of("distractors", paths, [files["file"].with_name("other.npz")]).memory - of_both[0] == 600 * 10
    assert of_both[1] < of_both[0] + 600 * 10  # rows of shards are mapped


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
