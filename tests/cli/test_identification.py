"""`verisphere evaluate identification`: what it prints and writes, and the one line that a wrong call leaves."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from verisphere.base.vocabulary import PRECISIONS
from verisphere.cli.start import parser

pytestmark = pytest.mark.usefixtures("process_as_it_was")


@pytest.fixture
def run(run):
    return partial(run, "evaluate", "identification")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """12 people by 4 images; and the same as probes and gallery, of whom 4 are not enrolled."""
    random = np.random.default_rng(0)
    person = np.repeat(np.arange(12), 4)
    rows = (random.normal(size=(12, 16))[person] + 0.8 * random.normal(size=(48, 16))).astype(np.float32)
    names, people = np.array([f"{n}.jpg" for n in range(48)]), np.array([f"p{n}" for n in person])
    enrolled = (np.arange(48) % 4 == 0) & (person < 8)
    for name, chosen in (("all", person >= 0), ("probes", ~enrolled), ("gallery", enrolled)):
        np.savez(tmp_path / f"{name}.npz", embeddings=rows[chosen], names=names[chosen], identities=people[chosen])
    return tmp_path


def test_identification_prints_and_writes(says, files: Path):
    outputs = files / "out.json", files / "out.csv", files / "out.png"
    out = says(
        *(files / "probes.npz", "--gallery", files / "gallery.npz", "--fpir", "0.10", "--fpir", "1E-1", "--rank", 2),
        *("--json", outputs[0], "--top", 3, "--candidates", outputs[1], "--plot", outputs[2]),
    )
    assert "gallery: 8 people by 8 images; 24 mated and 16 non-mated probes" in out
    read = json.loads(outputs[0].read_text())["galleries"]["gallery"]
    assert [point["fpir_target"] for point in read["operating_points"]] == ["0.10", "1E-1"]
    assert [rate["rank"] for rate in read["ranks"]] == [2]
    assert len(outputs[1].read_text().splitlines()) == 1 + 40 * 3
    assert outputs[2].stat().st_size > 10_000


def test_one_file_is_split(says, files: Path):
    out = says(files / "all.npz", "--enrol", 2, "--strangers", 0.25, "--seed", 4, "--galleries", 2)
    assert "seed 5: 9 people by 18 images; 18 mated and 12 non-mated probes" in out
    assert "mean of 2" in out
    assert out.count("| seed 4 ") == 6  # three FPIRs and three ranks


def test_closed_set_and_rule(run, files: Path):
    out_file = files / "out.json"
    code, out, _ = run(files / "all.npz", "--strangers", 0, "--closed-set", "--json", out_file)
    assert (code, "FPIR" in out) == (0, False)
    run(files / "all.npz", "--rule", "nearest", "--open-rank", 3, "--screen", "bfloat16", "--json", out_file)
    read = json.loads(out_file.read_text())
    point = read["galleries"]["seed 0"]["operating_points"][0]
    assert (read["rule"], point["rule"], point["rank"]) == ("nearest", "nearest", 3)


@pytest.mark.parametrize("kind", ["identification", "all-pairs"])
def test_every_screen_can_be_named(kind: str):
    for screen in PRECISIONS:
        assert parser().parse_args(["evaluate", kind, "x", "--screen", screen]).screen == screen


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["all.npz", "--json", "all.npz"], "it is, or holds, "),
        (["probes.npz", "--gallery", "gallery.npz", "--plot", "gallery.npz"], "it is, or holds, "),
        (
            ["all.npz", "--json", "o.csv", "--candidates", "o.csv", "--top", "1"],
            "two of --json, --candidates and --plot",
        ),
        (["all.npz", "--plot", "out.txt"], "a picture's name must end in .png or .svg"),
        (["all.npz", "--top", "3"], "--top says how many candidates --candidates lists: give both or neither"),
        (["all.npz", "--closed-set", "--fpir", "0.1"], "--closed-set requests ranks alone"),
        (["all.npz", "--closed-set", "--open-rank", "2"], "--open-rank does nothing here: ranks alone, by --closed-"),
        (["all.npz", "--closed-set", "--rule", "nearest"], "--rule does nothing here: ranks alone, by --closed-set"),
        (["probes.npz", "--gallery", "gallery.npz", "--seed", "0"], "--seed draws a gallery from one file"),
        (["probes.npz", "--gallery", "gallery.npz", "--strangers", "0.1"], "--strangers draws a gallery from one file"),
        (["all.npz", "--json", "o.json", "--plot", "all.npz/x.png"], "all.npz is a file, no folder"),
        (["all.npz", "--top", "1", "--json", "o.json", "--candidates", "o.json/o.csv"], "o.json above it is a file to"),
    ],
)
def test_a_wrong_call_leaves_one_line(refused, files: Path, words: list[str], says: str):
    placed = [str(files / word) if "." in word and word[0] not in "0-" else word for word in words]
    before = {path.name: path.read_bytes() for path in files.iterdir()}
    assert says in refused(*placed)
    assert {path.name: path.read_bytes() for path in files.iterdir()} == before
