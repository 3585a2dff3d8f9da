"""The tables of docs/galleries.md, docs/promises.md and docs/lab/promises.md are those of benchmarks/galleries.csv."""

import re
from pathlib import Path
from types import ModuleType

from verisphere.decide import independent_rank, people_needed, strangers_needed

ROOT = Path(__file__).parents[2]
MADE_BY = "gallery_page"


def test_the_promises_held(made: ModuleType):
    """Of many cells a few are further off than two standard errors; repeated with more calibrations, none is."""
    rows = made.read_rows(made.ROWS)
    for parts, runs, allowed in ((("coverage", "coverage of faces"), 2_000, 4), (("coverage again",), 20_000, 0)):
        cells = [row for row in rows if row.part in parts]
        held = [row.value for row in cells if row.case.endswith(", confident") and row.figure == "held"]
        over = [row for row in cells if row.case.endswith(", expected") and row.figure == "mean FPIR / f"]
        assert all(row.runs == runs for row in cells)
        assert len(held) == len(over) == (148 if allowed else 4)
        error = (0.95 * 0.05 / runs) ** 0.5
        assert min(held) >= 0.95 - 4 * error
        assert sum(value < 0.95 - 2 * error for value in held) <= allowed
        assert sum(row.lower > 1 for row in over) <= allowed
        assert all(row.value - 2 * (row.value - row.lower) <= 1 for row in over)  # four standard errors


def test_the_numbers_of_strangers_are_those_of_the_ranks():
    page, first = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("galleries.md", "promises.md"))
    rates = {"1 in 10": "1e-1", "1 in 100": "1e-2", "1 in 1,000": "1e-3"}
    for words, rate in rates.items():
        line = re.search(rf"^\| strangers at {words} \|(.+)\|$", page, re.MULTILINE)
        assert line is not None
        for rank, cell in enumerate(line[1].split("|"), 1):
            number = int(cell.replace(",", ""))
            ranks = [independent_rank(count, rate, "confident") for count in (number - 1, number)]
            assert ranks == [rank - 1, rank]
    assert [strangers_needed(rate, "confident") for rate in rates.values()] == [29, 299, 2995]
    assert "29, 299, 2,995 strangers" in first
    assert [people_needed(rate, "confident") for rate in rates.values()] == [58, 598, 5990]
    assert "58, 598, 5,990 people" in first
