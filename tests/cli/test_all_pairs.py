"""All pairs through the command line: other screens and a saved state give the same file."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from faults.verbs import listing
from verisphere.base.vocabulary import Embeddings
from verisphere.files.embeddings import write_embeddings

pytestmark = pytest.mark.usefixtures("process_as_it_was")


@pytest.fixture
def run(run):
    return partial(run, "evaluate")


def saved(path: Path, seed: int = 0) -> Path:
    random = np.random.default_rng(seed)
    person = np.arange(300) % 40
    rows = random.normal(size=(40, 24))[person] + random.normal(size=(300, 24))
    names, people = (np.array([f"{kind}{n}" for n in numbers]) for kind, numbers in (("i", range(300)), ("p", person)))
    write_embeddings(
        path, Embeddings(rows.astype(np.float32), names, people, np.array(["bright", "dark"])[np.arange(300) % 2])
    )
    return path


@pytest.mark.parametrize(
    "options",
    [
        ["--screen", "int8"],
        ["--screen", "bfloat16"],
        ["--screen", "float32"],
        ["--screen", "float64"],
        ["--work", "kept"],
    ],
)
def test_the_same_figures_by_every_way(options: list[str], tmp_path: Path, run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    rows = saved(tmp_path / "rows.npz")
    keeps = "--work" in options  # the second time from what the first has kept
    found = []
    for more in [[], options, options] if keeps else [[], options]:
        asked = ["all-pairs", rows, "--far", "1e-1", "--far", "1e-3", "--json", tmp_path / "out.json", *more]
        assert run(*asked)[0] == 0
        found.append(json.loads((tmp_path / "out.json").read_text()))
    assert all(figures == found[0] for figures in found)
    assert (tmp_path / "kept").exists() == keeps


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--work", "rows.npz"], "rows.npz: it is, or holds, rows.npz, which is read here"),
        (["--work", "notes.txt"], "notes.txt is a file, no folder"),
        (["--work", "other"], "rows.npz: other: the work of other inputs or options (verisphere evaluate all-pairs "),
        (["--work", "other", "--part", "3/2"], "--part: allowed are 1/N to N/N, such as 3/16, got '3/2'"),
        (["--part", "1/2"], "--part takes pieces of a folder: name it by --work"),
        (["--merge"], "--merge takes pieces of a folder: name it by --work"),
        (["--work", "new", "--merge", "--part", "1/2"], "--merge makes the result of all parts, so it takes no --part"),
    ],
)
def test_what_cannot_be_is_one_line(
    options: list[str], message: str, tmp_path: Path, refused, run, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    rows, _ = saved(tmp_path / "rows.npz"), (tmp_path / "notes.txt").write_text("hello")
    assert run("all-pairs", saved(tmp_path / "b.npz", 1), "--far", "1e-1", "--work", "other")[0] == 0
    before = listing(tmp_path)
    assert message in refused("all-pairs", rows.name, "--far", "1e-1", *options)
    assert before == listing(tmp_path)


def test_rates_of_each_person(tmp_path: Path, says, run):
    rows, out = saved(tmp_path / "rows.npz"), tmp_path / "people.csv"
    asked = ["all-pairs", rows, "--far", "1e-1", "--far", "1e-2", "--by-person", out, "--json", tmp_path / "out.json"]
    text = says(*asked)
    assert "rates of each person, rule: at_most" in text
    assert "worst decile by FAR at FAR 1e-1: " in text
    assert "OPIS " in text
    lines = [line.split(",") for line in out.read_text().splitlines()]
    assert lines[0][:4] == ["far_target", "threshold", "person", "frr"]
    read = json.loads((tmp_path / "out.json").read_text())
    for point, spread in zip(read["operating_points"], read["by_person"]["thresholds"], strict=True):
        people = [line for line in lines[1:] if line[0] == point["far_target"]]
        assert len(people) == spread["far"]["people"] == 40
        assert sum(int(line[7]) for line in people) == 2 * point["impostor_accepted"]
        assert sum(int(line[4]) for line in people) == point["genuine_accepted"]
        rates = sorted((float(line[6]) for line in people), reverse=True)
        assert sum(rates[:4]) / 4 == pytest.approx(spread["far"]["worst_decile_rate"], rel=1e-12)
    assert read["by_person"]["opis"]["fars"] == ["1e-1", "1e-2"]
    assert run(*asked[:-1], out)[0] == 2  # two outputs in one place
