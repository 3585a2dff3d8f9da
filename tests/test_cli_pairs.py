"""Listed pairs through the command line, with and without a score of each."""

import json
from pathlib import Path

import numpy as np
import pytest

from verisphere.cli import main
from verisphere.data.embeddings_file import write_embeddings
from verisphere.vocabulary import Embeddings

pytestmark = pytest.mark.usefixtures("process_as_it_was")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    random = np.random.default_rng(0)
    person = np.arange(60) % 12
    rows = (random.normal(size=(12, 8))[person] + random.normal(size=(60, 8))).round(1)
    names, people = (np.array([f"{kind}{n}" for n in numbers]) for kind, numbers in (("i", range(60)), ("p", person)))
    write_embeddings(tmp_path / "rows.npz", Embeddings(rows.astype(np.float32), names, people))
    left, right = np.triu_indices(60, 1)
    listed = [f"i{a},i{b},{int(person[a] == person[b])}" for a, b in zip(left, right, strict=True)]
    (tmp_path / "pairs.csv").write_text("\n".join(["left,right,label", *listed]) + "\n")
    return tmp_path / "rows.npz", tmp_path / "pairs.csv"


@pytest.mark.parametrize("rule", ["at_most", "nearest", "interpolated"])
def test_points_alone_are_the_points_of_the_whole_evaluation(rule: str, files: tuple[Path, Path], tmp_path: Path):
    rows, pairs = files
    found = []
    for name, more in (("whole", []), ("points", ["--points-only"])):
        out = tmp_path / f"{name}.json"
        asked = ["evaluate", "pairs", rows, "--pairs", pairs, "--far", "1e-1", "--far", "0.033", "--rule", rule]
        assert main(["--default-allocator", *map(str, asked), *more, "--json", str(out)]) == 0
        found.append(json.loads(out.read_text()))
    assert found[0]["operating_points"] == found[1]["operating_points"]
    assert ("accuracy" in found[0], "accuracy" in found[1]) == (True, False)


@pytest.mark.parametrize("option", [["--intervals"], ["--curve", "out.csv"]])
def test_what_needs_every_score_is_refused(option: list[str], files: tuple[Path, Path], capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    rows, pairs = files
    asked = ["evaluate", "pairs", str(rows), "--pairs", str(pairs), "--points-only", *option]
    try:
        code = main(["--default-allocator", *asked])
    except SystemExit as leaving:
        code = leaving.code
    output = capsys.readouterr()
    assert (code, output.out, len(output.err.splitlines())) == (2, "", 1)
    assert "--points-only makes no score of each pair, which --against, --calibration, --intervals" in output.err
    assert not (tmp_path / "out.csv").exists()
