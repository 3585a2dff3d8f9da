"""The tables of docs/promises.md and docs/lab/promises.md on few people are those of benchmarks/few_people.csv."""

from pathlib import Path
from types import ModuleType

from verisphere.decide.capped import capped_people_needed
from verisphere.decide.sample_size import people_needed
from verisphere.decide.tail import tail_reaches

ROOT = Path(__file__).parents[2]
MADE_BY = "few_people_page"


def test_the_promise_under_a_cap_held_where_the_cap_is_reached(made: ModuleType):
    rows = [row for row in made.read_rows() if "at the cap" in row["population"] and row["part"] == "worlds"]
    held = [float(row["held"]) for row in rows if row["promise"].startswith("capped")]
    assert len(held) == 54
    assert all(row["sets"] == "2000" for row in rows)
    assert min(held) >= 0.95 - 2 * (0.95 * 0.05 / 2000) ** 0.5
    assert min(float(row["held"]) for row in rows if row["promise"] == "convention") < 0.6


def test_the_numbers_of_people_are_those_of_the_library():
    page = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
    for start, numbers in (
        ("| `confident` | nothing |", [people_needed(far, "confident") for far in ("1e-2", "1e-3", "1e-4")]),
        ("| `capped --cap 2` |", [capped_people_needed(far, 2.0) for far in ("1e-2", "1e-3", "1e-4")]),
        ("| `capped --cap 5` |", [capped_people_needed(far, 5.0) for far in ("1e-2", "1e-3", "1e-4")]),
    ):
        line = next(line for line in page.splitlines() if line.startswith(start))
        assert line.endswith(f"| {'; '.join(f'{number:,}' for number in numbers)} |")
    reached = {
        far: [n for n in range(2, 5_000) if tail_reaches(far, n * (n - 1) // 2)] for far in ("1e-2", "1e-3", "1e-4")
    }
    assert not reached["1e-2"]  # a tail is a hundredth of all pairs, and half of it is for its lower FARs
    assert "| an estimate | none; 284; 284 |" in page
    assert min(reached["1e-3"]) == min(reached["1e-4"]) == 284
