"""A table of inversions: its cells, what is refused, and that a table which was ended ends as one that was not."""

import csv
from pathlib import Path

import pytest
import torch

from studies.inversions import table
from studies.inversions.__main__ import main
from studies.inversions.table import CELLS, RESULTS, read_table, run_table
from tiny_inversion import make

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
    cells = read_table(made / "table.yaml")
    assert [cell.name for cell in cells] == [
        "centers, with", "centers, without", "photographs, with", "photographs, without"
    ]  # fmt: skip
    assert [cell.asked.settings.batch_norm for cell in cells] == [5e-3, 0, 5e-3, 0]
    assert [cell.asked.centers for cell in cells] == [True, True, False, False]
    assert [cell.name for cell in read_table(made / "table.yaml", ["centers", "without"])] == ["centers, without"]
    assert len(read_table(made / "table.yaml", ["centers"])) == 2


def test_the_table_of_the_docs_is_that_of_the_paper_in_small():
    file = Path(table.__file__).with_name("lfw_table.yaml")
    cells = read_table(file)
    assert len(cells) == 4 * 2 * 2
    assert len({(cell.asked.model, cell.asked.centers, cell.asked.settings.batch_norm) for cell in cells}) == 16
    assert len(read_table(file, ["ArcFace", "SphereFace", "centers"])) == 4


class Ended(Exception):
    pass


def test_a_table_that_was_ended_continues_and_ends_alike(made, tmp_path):
    cells = read_table(made / "table.yaml", ["without"], trust=True)
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


def test_the_command_plans_runs_and_shows(made, tmp_path, capsys, process_as_it_was):
    out = tmp_path / "out"
    assert main(["table.yaml", "--trust-code", "--dry-run", "--only", "centers"]) == 0
    assert "all 2, one after another" in capsys.readouterr().out
    command = ["table.yaml", "--trust-code", "--only", "centers", "--only", "without", "--out", str(out)]
    assert main(command) == 0
    assert "centers, without" in capsys.readouterr().out
    (made / "longer.yaml").write_text("base: table.yaml\nsteps: 5\n")
    for words, message in (
        (["longer.yaml", *command[1:]], "made with steps 4, and"),
        (["table.yaml", "--only", "nobody", "--out", str(out)], "nobody"),
    ):
        assert main(words) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("steps: 3", "has the key `axes`, and this file has none"),
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
        read_table(tmp_path / "t.yaml")
