"""A table of inversions: its cells, what is refused, and that a table which was ended ends as one that was not."""

import csv
from pathlib import Path

import pytest
import torch

from tiny_inversion import make
from tiny_runs import command
from verisphere.files.packaged_recipes import packaged_recipes
from verisphere.invert.table import CELLS, RESULTS, is_table, read_table, run_table

CPU = torch.device("cpu")
TABLE = """\
base: inversions/small
steps: 4
count: 3
flip: false
judge: judge.yaml
axes:
  target:
    centers: {{model: {run}, centers: true, faces: data.yaml}}
    photographs: {{model: {run}, faces: others.yaml}}
  term:
    with: {{}}
    without: {{batch_norm: 0}}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    make(folder)
    (folder / "table.yaml").write_text(TABLE.format(run="run"))
    return folder


@pytest.fixture(autouse=True)
def _there(made: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(made)


def read(path: Path) -> list[list[str]]:
    return list(csv.reader(path.read_text().splitlines()))


def test_a_cell_is_one_entry_of_each_axis(made):
    cells = read_table(made / "table.yaml", {"rate": 0.05})
    assert [cell.name for cell in cells] == [
        "centers, with", "centers, without", "photographs, with", "photographs, without"
    ]  # fmt: skip
    assert [cell.asked.settings.batch_norm for cell in cells] == [5e-3, 0, 5e-3, 0]
    assert {cell.asked.settings.rate for cell in cells} == {0.05}
    assert [cell.asked.centers for cell in cells] == [True, True, False, False]
    assert [cell.name for cell in read_table(made / "table.yaml", {}, ["centers", "without"])] == ["centers, without"]
    assert len(read_table(made / "table.yaml", {}, ["centers"])) == 2


def test_the_packaged_table_is_that_of_the_paper_in_small():
    assert [name for name, path in packaged_recipes().items() if name.startswith("inversions/") and is_table(path)] == [
        "inversions/lfw_table"
    ]
    cells = read_table(Path("inversions/lfw_table"), {})
    assert len(cells) == 4 * 2 * 2
    assert len({(cell.asked.model, cell.asked.centers, cell.asked.settings.batch_norm) for cell in cells}) == 16
    assert len(read_table(Path("inversions/lfw_table"), {}, ["ArcFace", "SphereFace", "centers"])) == 4


class Ended(Exception):
    pass


def test_a_table_that_was_ended_continues_and_ends_alike(made, tmp_path):
    cells = read_table(made / "table.yaml", {}, ["without"], trust=True)
    whole = run_table(cells, tmp_path / "whole", CPU, save_every=2)
    begun = 0

    def ended(items, description, total=None, done=0):
        nonlocal begun
        begun += "batch" in description
        for place, item in enumerate(items):
            if begun == 2 and place == 3:
                raise Ended
            yield item

    with pytest.raises(Ended):
        run_table(cells, tmp_path / "parts", CPU, save_every=2, progress=ended)
    assert len(read(tmp_path / "parts" / RESULTS)) == 2  # the header and the first cell
    assert run_table(cells, tmp_path / "parts", CPU, save_every=2) == whole
    assert read(tmp_path / "parts" / RESULTS) == read(tmp_path / "whole" / RESULTS)
    assert len(read(tmp_path / "whole" / RESULTS)) == 3
    for folder in sorted((tmp_path / "whole" / CELLS).iterdir()):
        other = tmp_path / "parts" / CELLS / folder.name
        for image in sorted((folder / "images").iterdir()):
            assert (other / "images" / image.name).read_bytes() == image.read_bytes()


def test_the_verb_plans_runs_and_shows(made, tmp_path, capsys):
    out = tmp_path / "out"
    assert command("invert", "table.yaml", "--trust-code", "--dry-run", "--only", "centers") == 0
    assert "all 2, one after another" in capsys.readouterr().out
    assert command("invert", "table.yaml", "--trust-code", "--only", "centers", "--only", "without", "--out", out) == 0
    assert "centers, without" in capsys.readouterr().out
    for words, message in (
        (
            ["table.yaml", "--only", "centers", "--only", "without", "--steps", "5", "--out", out],
            "made with steps 4, and",
        ),
        (["table.yaml", "--only", "nobody", "--out", out], "nobody"),
        (["table.yaml", "--faces", "data.yaml", "--out", out], "--faces: the table table.yaml says so"),
        (["table.yaml"], "--out is missing"),
        (["run", "--only", "centers", "--centers", "--out", tmp_path / "x"], "--only chooses cells of a table"),
    ):
        assert command("invert", *words) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("axes: {}", "axes is {}; expected names of axes"),
        ("axes: {model: {a: 3}}", "a is 3; expected arguments"),
        ("axes: {model: {a: {model: run, centres: true}}}", "centres"),
        ("axes: {model: {a: {centers: true}}}", "a: model is missing"),
        ("axes: {model: {a: {model: 3}}}", "model is 3; expected a path"),
        ("axes: {model: {a: {model: run, steps: 0, centers: true}}}", "steps"),
    ],
)
def test_bad_tables_are_named(tmp_path, content, message):
    (tmp_path / "t.yaml").write_text(content)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "t.yaml", {})
