"""docs/papers.md: every equation and table of the papers is there, and what it names exists."""

import importlib
import re
from pathlib import Path

import pytest

from verisphere.files.packaged_recipes import packaged_recipes

DOCS = Path(__file__).parents[2] / "docs"
EQUATIONS, TABLES = (DOCS / "papers.md").read_text(encoding="utf-8").split("## Tables\n")

#: How many numbered equations and tables each paper has.
PAPERS = {
    "ArcFace": (8, 11),
    "SphereFace2": (10, 16),
    "AnchorFace": (6, 8),
    "OneFace": (8, 6),
    "Loss function search": (12, 10),
}


def rows(text: str) -> list[list[str]]:
    """The cells of each row of the tables in a text, without their headings."""
    lines = re.findall(r"^\| (.*) \|$", text, re.MULTILINE)
    return [
        cells
        for line in lines
        if len(cells := line.split(" | ")) == 4 and cells[2] not in ("function", "what it compares")
    ]


def numbers(cell: str) -> list[int]:
    """The numbers that a cell such as "2, 4 to 6, algorithm 1" counts; those of sections and algorithms are none."""
    counted = []
    for part in cell.split(", "):
        if match := re.fullmatch(r"(\d+)(?: to (\d+))?", part):
            counted += range(int(match[1]), int(match[2] or match[1]) + 1)
    return counted


def equations_of(paper: str) -> list[list[str]]:
    return rows(re.split(r"\n###? ", EQUATIONS.split(f"### {paper}\n")[1])[0])


@pytest.mark.parametrize("paper", PAPERS)
def test_every_equation_of_a_paper_has_a_row(paper: str):
    listed = [number for row in equations_of(paper) for number in numbers(row[0])]
    assert listed == list(range(1, PAPERS[paper][0] + 1))


@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_of_a_paper_has_a_row(paper: str):
    named = paper.replace("function ", "")
    listed = [number for row in rows(TABLES) if row[0] == named for number in numbers(row[1])]
    assert sorted(listed) == list(range(1, PAPERS[paper][1] + 1))


@pytest.mark.parametrize("row", rows(EQUATIONS), ids=lambda row: row[1].replace(" ", "_"))
def test_the_functions_and_tests_of_an_equation_exist(row: list[str]):
    dotted = re.findall(r"`([\w.]+)`", row[2])
    assert dotted
    for name in dotted:
        module, _, function = name.rpartition(".")
        assert callable(getattr(importlib.import_module(f"verisphere.{module}"), function)), name
    files = re.findall(r"\]\(([^)]+)\): ((?:`\w+`(?:, )?)+)", row[3])
    assert files
    assert row[3].count("](") == len(files)
    for path, listed in files:
        text = (DOCS / path).read_text(encoding="utf-8")
        for test in re.findall(r"`(\w+)`", listed):
            assert f"\ndef {test}(" in text, (path, test)


@pytest.mark.parametrize("row", rows(TABLES), ids=lambda row: f"{row[0]}_{row[1]}".replace(" ", "_"))
def test_the_recipes_of_a_table_exist(row: list[str]):
    named = [name for name in re.findall(r"`([^`]+)`", row[3]) if not name.startswith("verisphere ")]
    assert named or "nothing to train" in row[3]
    for name in named:
        if name.startswith("make study OF="):
            assert (DOCS.parent / "studies" / name.removeprefix("make study OF=") / "__main__.py").is_file()
            continue
        pattern = re.escape(name).replace(r"\.\.\.", ".+")
        assert any(re.fullmatch(pattern, packaged) for packaged in packaged_recipes()), name
