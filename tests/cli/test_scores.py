"""Evaluations through the command line: what each kind prints and writes, and the one line of a wrong call."""

import csv
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from verisphere.base.vocabulary import FARS

pytestmark = pytest.mark.usefixtures("process_as_it_was")


@pytest.fixture
def run(run):
    return partial(run, "evaluate")


PLAIN = "score,label\n0.9,1\n0.4,1\n0.6,0\n0.5,0\n0.3,0\n0.1,0\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    people = np.repeat([f"p{number}" for number in range(12)], 4)
    rows = np.repeat(generator.normal(size=(12, 16)), 4, 0) + 0.8 * generator.normal(size=(48, 16))
    names = np.array([f"{person}/{image}.jpg" for image, person in enumerate(people)])
    domains = np.array(["day", "night"])[np.arange(48) % 2]
    columns = {"embeddings": rows.astype(np.float32), "names": names, "identities": people}
    np.savez(tmp_path / "faces.npz", **columns, domains=domains)
    np.savez(tmp_path / "plain.npz", **columns)
    (tmp_path / "scores.csv").write_text(PLAIN)
    (tmp_path / "pairs.csv").write_text(
        "left,right,label,fold\n"
        + "".join(f"p{n}/{4 * n + n % 2}.jpg,p{n}/{4 * n + n % 2 + 2}.jpg,1,{n % 3}\n" for n in range(12))
        + "".join(f"p{n}/{4 * n + n % 2}.jpg,p{n + 1}/{4 * n + n % 2 + 4}.jpg,0,{n % 3}\n" for n in range(11))
    )
    return tmp_path


KINDS = {
    "scores": ("scores", "scores.csv"),
    "pairs": ("pairs", "faces.npz", "--pairs", "pairs.csv"),
    "all-pairs": ("all-pairs", "faces.npz"),
    "all-pairs of files": ("all-pairs", "faces.npz", "plain.npz"),
}


def placed(words: tuple[str, ...], folder: Path) -> list[str]:
    return [str(folder / word) if word.endswith((".npz", ".csv")) else word for word in words]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_evaluation_has_its_figures_at_the_usual_rates(says, files: Path, kind: str):
    out = says(*placed(KINDS[kind], files), "--json", files / "out.json")
    read = json.loads((files / "out.json").read_text())
    assert [point["far_target"] for point in read["operating_points"]] == list(FARS)
    assert ("accuracy" in read) == (kind == "pairs")
    assert ("one_threshold" in read) == (kind != "scores")
    assert all(f"| {far}" in out for far in FARS)
    assert "below resolution" in out


def test_options_of_domains_reach_the_evaluation(run, files: Path):
    for more, union in ((["--union", "within"], "within"), (["--calibration", files / "plain.npz"], "calibration")):
        run("all-pairs", files / "faces.npz", *more, "--json", files / "out.json")
        assert json.loads((files / "out.json").read_text())["one_threshold"][0]["union"] == union


@pytest.mark.parametrize("rule", ["at_most", "nearest", "interpolated"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_output_names_the_rule(says, files: Path, kind: str, rule: str):
    out_file, curve = files / "out.json", files / "deep" / "curve.csv"
    words = ["--far", "0.2", "--rule", rule, "--json", out_file, "--curve", curve]
    plot = ["--plot", files / "curve.png"] if rule == "at_most" else []  # a plot takes longer than all else
    out = says(*placed(KINDS[kind], files), *words, *plot)
    assert f"rule: {rule} (" in out
    read = json.loads(out_file.read_text())
    assert {point["rule"] for point in read["operating_points"]} == {rule}
    for one in read.get("one_threshold", ()):
        assert (one["rule"], one["group_differences"]["rule"]) == (rule, rule)
        assert f"at one threshold, rule: {rule}" in out
    with curve.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["rule"] for row in rows if row["far_target"]] == [rule]
    fars = [float(row["far"]) for row in rows]
    assert fars == sorted(fars, reverse=True)
    assert (fars[0], rows[0]["threshold"]) == (1, "-inf")
    if plot:
        assert (files / "curve.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("scores", "scores.csv", "--intervals"), "unrecognised arguments: --intervals"),  # nobody is known
        (("all-pairs", "faces.npz", "--intervals", "--rule", "nearest"), "leave --rule nearest out"),
        (("scores", "scores.csv", "--plot", "curve.jpg"), "curve.jpg: a picture's name must end in .png or .svg"),
        (("scores", "scores.csv", "--curve", "scores.csv"), "scores.csv, which is read here"),
        (("scores", "scores.csv", "--json", "new.csv", "--curve", "new.csv"), "two of --json, --curve"),
        (("scores", "scores.csv", "--curve", "scores.csv/deep.csv"), "scores.csv"),
    ],
)
def test_a_wrong_call_is_one_line_and_leaves_nothing(refused, files: Path, words: tuple[str, ...], says: str):
    before = {path: path.read_bytes() for path in files.iterdir()}
    assert says in refused(*placed(words, files))
    assert {path: path.read_bytes() for path in files.iterdir()} == before


@pytest.mark.parametrize(
    ("last", "says"),
    [
        (("--json", "ok.json", "--plot", "faces.npz/x.png"), "faces.npz is a file, no folder"),
        (("--json", "ok.json", "--curve", "ok.json/x.csv"), "above it is a file to be written, no folder"),
        (("--curve", "deep/x.csv", "--json", "deep"), "above it is a file to be written, no folder"),
    ],
)
def test_every_output_is_looked_at_before_the_work(
    refused, files: Path, last: tuple[str, ...], says: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(files)
    monkeypatch.setattr("verisphere.measure.evaluate.evaluate_scores", lambda *_: pytest.fail("must not be called"))
    before = sorted(files.rglob("*"))
    assert says in refused("scores", "scores.csv", *last)
    assert sorted(files.rglob("*")) == before


@pytest.mark.parametrize("option", [("--union", "within"), ("--skip-empty",), ("--alpha", "0.9"), ("--alpha", "0.5")])
@pytest.mark.parametrize("kind", ["scores", "pairs", "all-pairs"])
def test_an_option_for_domains_is_refused_where_there_are_none(refused, files: Path, kind: str, option):
    people = np.repeat(np.arange(4), 3).astype(str)
    rows = np.random.default_rng(0).normal(size=(12, 8)).astype(np.float32)
    names = np.arange(12).astype(str)
    np.savez(files / "plain.npz", embeddings=rows, names=names, identities=people)
    (files / "plain.csv").write_text("score,label\n0.9,1\n0.1,0\n")
    (files / "plain_pairs.csv").write_text("left,right,label\n0,1,1\n0,4,0\n" * 1)
    words = {
        "scores": [files / "plain.csv"],
        "pairs": [files / "plain.npz", "--pairs", files / "plain_pairs.csv"],
        "all-pairs": [files / "plain.npz"],
    }
    said = refused(kind, *words[kind], *option, "--far", "1e-1")
    assert f"{option[0]} does nothing here: it is for the one threshold of domains, but there are no domains" in said


@pytest.mark.parametrize("option", [("--replicates", "50"), ("--seed", "0")])
@pytest.mark.parametrize("kind", ["pairs", "all-pairs"])
def test_an_option_of_the_redrawing_is_refused_where_nobody_is_redrawn(refused, files: Path, kind: str, option):
    words = [kind, "a.npz", *(["--pairs", "p.csv"] if kind == "pairs" else []), *option]
    said = refused(*words)
    assert f"{option[0]} does nothing here: people are redrawn only for --intervals and --against; omit it" in said


def test_the_union_is_refused_beside_a_calibration(refused, files: Path):
    said = refused("all-pairs", "a.npz", "--calibration", "b.npz", "--union", "all")
    assert "--union does nothing here: --calibration alone sets the one threshold" in said
