"""`make promises`: tables that are filled cell by cell, whatever is killed, and the processes that fill them."""

import csv
import importlib
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
FILL = """
    import sys
    from dataclasses import dataclass
    from pathlib import Path

    sys.path.insert(0, {folder!r})
    from cells import Table

    @dataclass
    class Row:
        cell: int
        rule: str
        held: float | None

    table = Table(Path(sys.argv[1]), Row, ("cell",))
    order = [n for n in range(40) if not table.has(n)]
    table.fill([Row(n, rule, n / 3 if rule == "b" else None) for rule in "abc"] for n in order[:: int(sys.argv[2])])
"""


@pytest.fixture(scope="module")
def coverage() -> Iterator[ModuleType]:
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module("coverage_of_promises")
    finally:
        sys.path.remove(str(FOLDER))


def filling(path: Path, step: int = 1) -> subprocess.Popen:
    """A process that adds forty cells of three rows, some of them or all."""
    code = textwrap.dedent(FILL).format(folder=str(FOLDER))
    return subprocess.Popen([sys.executable, "-c", code, str(path), str(step)], stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen) -> int:
    """The exit status."""
    process.communicate()
    return process.returncode


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_killed_run_leaves_whole_cells_and_continues_to_the_same_table(tmp_path: Path):
    whole, stopped = tmp_path / "whole.csv", tmp_path / "stopped.csv"
    assert ended(filling(whole)) == 0
    for cells in (1, 7, 20):
        with filling(stopped) as process:
            for _ in range(3 * cells):
                process.stderr.readline()
            process.send_signal(signal.SIGKILL)
        counted = Counter(row["cell"] for row in rows(stopped))
        assert set(counted.values()) == {3}
        assert len(counted) >= cells
    assert ended(filling(stopped)) == 0
    assert stopped.read_bytes() == whole.read_bytes()
    assert {row["held"] for row in rows(whole) if row["cell"] == "2"} == {"", "0.666667"}


def test_two_processes_fill_one_table(tmp_path: Path):
    path = tmp_path / "both.csv"
    both = [filling(path), filling(path, 2)]
    assert [ended(process) for process in both] == [0, 0]
    assert Counter(row["cell"] for row in rows(path)) == {str(number): 3 for number in range(40)}


def test_the_full_tables_have_every_cell_of_their_scripts(coverage):
    intervals, few_people = (importlib.import_module(name) for name in ("intervals", "few_people"))
    of = {name: [word for task in coverage.FULL if task.script == name for word in task.options]
          for name in ("intervals", "few_people")}  # fmt: skip
    assert sorted(int(word) for word in of["intervals"] if word.isdigit()) == list(intervals.PEOPLE)
    assert sorted(word for word in of["few_people"] if word[0] != "-") == sorted(few_people.PARTS)
    scripts = {task.script for task in coverage.FULL}
    assert scripts == {task.script for task in coverage.QUICK} == {*coverage.TABLES, "disjoint"}
    assert all((FOLDER / f"{name}.py").is_file() for name in scripts)


def test_a_task_that_fails_is_named_and_the_others_are_completed(coverage, tmp_path: Path, monkeypatch, capsys):
    script = "import os, sys; from pathlib import Path; Path(__file__).with_suffix('.ran').write_text("
    (tmp_path / "good.py").write_text(script + "' '.join([*sys.argv[1:], os.environ['OMP_NUM_THREADS']]))")
    (tmp_path / "bad.py").write_text("raise SystemExit(3)")
    for name in ("good_quick.csv", "good.csv"):
        (tmp_path / name).write_text("before")
    monkeypatch.setattr(coverage, "FOLDER", tmp_path)
    monkeypatch.setattr("cells.FOLDER", tmp_path)
    monkeypatch.setattr(coverage, "TABLES", ("good",))
    tasks = (coverage.Task("bad", ("--only", "x")), coverage.Task("good", lfw=True))
    monkeypatch.setattr(coverage, "FULL", tasks)
    monkeypatch.setattr(coverage, "QUICK", tasks[1:])
    monkeypatch.setattr(sys, "argv", ["coverage", "--full", "--part-of", "20", "--data", "faces"])
    assert coverage.main() == 1
    assert "not completed: bad --only x; the same command continues" in capsys.readouterr().err
    assert (tmp_path / "good.ran").read_text() == "--full --part-of 20 --data faces 1"
    assert not (tmp_path / "good_quick.csv").exists()
    assert (tmp_path / "good.csv").exists()  # a part of the sets keeps the tables of the docs
    monkeypatch.setattr(sys, "argv", ["coverage"])
    assert coverage.main() == 0
    assert (tmp_path / "good.ran").read_text() == "1"
    assert (tmp_path / "good.csv").exists()
    monkeypatch.setattr(sys, "argv", ["coverage", "--full"])
    assert coverage.main() == 1
    assert (tmp_path / "good.csv").exists()
    monkeypatch.setattr(sys, "argv", ["coverage", "--full", "--anew"])
    coverage.main()
    assert not (tmp_path / "good.csv").exists()
