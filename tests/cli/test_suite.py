"""`verisphere evaluate suite` from its arguments to the exit code."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from verisphere.cli import main

pytestmark = pytest.mark.usefixtures("process_as_it_was")


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """A suite of one set, two people of two images each in one fold of two, and a model."""
    random = np.random.default_rng(0)
    for name in ("Ann", "Bo", "Cy", "Di"):
        for number in (1, 2):
            path = tmp_path / "suite" / "lfw" / name / f"{name}_000{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(random.integers(256, size=(16, 16, 3), dtype=np.uint8)).save(path)
    folds = "Ann\t1\t2\nAnn\t1\tBo\t1\nCy\t1\t2\nCy\t1\tDi\t1\n"
    (tmp_path / "suite" / "lfw" / "pairs.txt").write_text(f"2\t1\n{folds}")
    (tmp_path / "pixels.yaml").write_text("class_path: verisphere.backbones.Pixels\ninit_args: {side: 4}\n")
    return str(tmp_path / "suite"), str(tmp_path / "pixels.yaml")


def test_table_and_json(files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder, model = files
    out = tmp_path / "suite.json"
    assert main(["evaluate", "suite", folder, "--model", model, "--far", "0.5", "--json", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "| lfw |" in printed
    assert "TAR at FAR 0.5" in printed
    assert json.loads(out.read_text())["sets"]["lfw"]["result"]["operating_points"][0]["far_target"] == "0.5"


def test_a_suite_goes_on_whether_a_set_was_embedded_or_not(files: tuple[str, str], tmp_path: Path):
    folder, model = files
    words = ["evaluate", "suite", folder, "--model", model, "--far", "0.5", "--embeddings", str(tmp_path / "rows")]
    kept = ["--work", str(tmp_path / "work"), "--json"]
    assert main([*words, *kept, str(tmp_path / "first.json")]) == 0
    for path in (tmp_path / "work").glob("set 1-01-*/*.npz"):
        path.unlink()
    assert main([*words, *kept, str(tmp_path / "second.json")]) == 0  # its rows are there, so no step embeds
    for path in (tmp_path / "rows").iterdir():
        path.unlink()
    assert main([*words, *kept, str(tmp_path / "third.json")]) == 0
    first, second, third = (
        json.loads((tmp_path / f"{name}.json").read_text())["sets"] for name in ("first", "second", "third")
    )
    assert first == second == third


def test_a_set_that_fails_gives_the_others_and_exit_code_2(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder, model = files
    (tmp_path / "suite" / "second").mkdir()
    (tmp_path / "suite" / "second" / "pairs.csv").write_text("left,right,label\nNo/1.png,No/2.png,1\n")
    out = tmp_path / "suite.json"
    assert main(["evaluate", "suite", folder, "--model", model, "--far", "0.5", "--json", str(out)]) == 2
    shown = capsys.readouterr()
    assert "| lfw |" in shown.out
    last = shown.err.strip().splitlines()[-1]
    assert last.startswith(f"verisphere: {folder}: 1 of 2 sets could not be evaluated: second (")
    assert json.loads(out.read_text())["not_evaluated"] == ["second"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--model", "nowhere"], "nowhere"),
        (["--workers", "-1", "--model", "x.yaml"], "--workers -1"),
        (["--embeddings", "kept", "--no-flip"], "--flip does nothing here: nothing is embedded without --model"),
        (["--embeddings", "kept", "--batch-size", "3"], "--batch-size does nothing here"),
    ],
)
def test_wrong_calls(files: tuple[str, str], refused, arguments: list[str], says: str):
    assert says in refused("evaluate", "suite", files[0], *arguments)


def test_the_json_replaces_no_file_of_a_set_but_that_of_an_earlier_run(files: tuple[str, str], tmp_path: Path, refused):
    folder, model = files
    pairs, earlier = tmp_path / "suite" / "lfw" / "pairs.txt", tmp_path / "suite" / "figures.json"
    before = pairs.read_text()
    command = ["evaluate", "suite", folder, "--model", model, "--far", "0.5", "--json"]
    assert (
        refused(*command, pairs) == f"verisphere: {pairs}: a file of suite, which is read here; write to another name\n"
    )
    assert pairs.read_text() == before
    earlier.write_text("{}")
    assert main([*command, str(earlier)]) == 0
