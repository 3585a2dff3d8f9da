"""The tables of docs/promises.md and docs/lab/promises.md on promises from few people, from few_people.csv.

`python benchmarks/few_people_page.py` prints them; a test compares the pages with them.
"""

import csv
from itertools import count
from pathlib import Path

from gallery_page import markdown, percent

from verisphere.decide.capped import capped_people_needed
from verisphere.decide.sample_size import comparisons_needed, people_needed
from verisphere.decide.tail import tail_reaches

ROWS = Path(__file__).with_name("few_people.csv")
Line = dict[str, str]
PROMISES = ("confident", "expected", "capped, c = 2", "capped, c = 5", "tail", "convention")


def read_rows(path: Path = ROWS) -> list[Line]:
    """The rows of the file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def of_faces(rows: list[Line]) -> str:
    """LFW: what each promise gives, by people and FAR, or how many people it needs."""
    lines = []
    chosen = [row for row in rows if row["part"] == "LFW"]
    for people in sorted({int(row["people"]) for row in chosen}):
        for far in ("1e-2", "1e-3", "1e-4"):
            of = {row["promise"]: row for row in chosen if (row["far"], int(row["people"])) == (far, people)}
            lines.append([f"{people:,}", far, *(_faces_cell(of.get(name), people, far, name) for name in PROMISES)])
    return markdown(["people", "FAR f", *(f"`{promise}`" for promise in PROMISES)], lines)


def _faces_cell(row: Line | None, people: int, far: str, promise: str) -> str:
    if row is not None:
        return f"{float(row['tar']):.3f} ({percent(float(row['held']))}; {float(row['mean']):.2f} f)"
    needed = _needed(promise, far)
    return f"needs {needed:,}" if people < needed else "lower FARs only"


def _needed(promise: str, far: str) -> int:
    """The fewest people from which a promise can be had; 0 where no number of people gives it."""
    kind, _, cap = promise.partition(", c = ")
    if kind == "capped":
        return capped_people_needed(far, float(cap))
    if kind == "tail":
        numbers = range(2, 10_000)
        return next((people for people in numbers if tail_reaches(far, people * (people - 1) // 2)), 0)
    if kind == "convention":
        pairs = comparisons_needed(far, "confident")
        return next(people for people in count(2) if people * (people - 1) // 2 >= pairs)
    return people_needed(far, "confident" if kind == "confident" else "expected")


def covered(rows: list[Line]) -> str:
    """The worlds: the least share over the numbers of people, where the cap holds and where it does not."""
    lines = []
    names = dict.fromkeys(row["population"] for row in rows if row["part"] == "worlds")
    for name in names:
        for far in ("1e-2", "1e-3", "1e-4"):
            of = [row for row in rows if (row["population"], row["far"], row["part"]) == (name, far, "worlds")]
            if of:
                capped = [float(row["held"]) for row in of if row["promise"].startswith("capped")]
                by_convention = [float(row["held"]) for row in of if row["promise"] == "convention"]
                people = ", ".join(dict.fromkeys(f"{int(row['people']):,}" for row in of))
                lines.append(
                    [
                        name,
                        far,
                        people,
                        f"{float(of[0]['reached']):.1f}",
                        percent(min(capped), 1),
                        percent(min(by_convention), 1),
                    ]
                )
    header = [
        "population, and the cap stated",
        "FAR",
        "people",
        "cap it reaches",
        "`capped`: least",
        "`convention`: least",
    ]
    return markdown(header, lines)


def tails(rows: list[Line]) -> str:
    """The fitted tail in the worlds, by the number of people."""
    chosen = [row for row in rows if row["part"] == "tails"]
    numbers = sorted({int(row["people"]) for row in chosen})
    lines = []
    for far, name in sorted(dict.fromkeys((row["far"], row["population"]) for row in chosen), key=lambda of: of[0]):
        of = {int(row["people"]): row for row in chosen if (row["far"], row["population"]) == (far, name)}
        shown = (f"{percent(float(of[people]['held']))}; {float(of[people]['mean']):.2f} f" for people in numbers)
        lines.append([name, far, f"{float(of[numbers[0]]['reached']):.1f}", *shown])
    return markdown(["population", "FAR f", "cap it reaches", *(f"{people:,} people" for people in numbers)], lines)


def beside_peers(rows: list[Line]) -> str:
    """MAPIE and crepes beside ours, on the same sets: the share that kept the FAR, and its mean."""
    of = [row for row in rows if row["part"] == "peers"]
    populations = list(dict.fromkeys(row["population"] for row in of))
    lines = []
    for far, people, promise in dict.fromkeys((row["far"], row["people"], row["promise"]) for row in of):
        cells = {
            row["population"]: f"{percent(float(row['held']))}; {float(row['mean']):.2f} f"
            for row in of
            if (row["far"], row["people"], row["promise"]) == (far, people, promise)
        }
        lines.append([f"{int(people):,}", far, promise, *(cells.get(name, "") for name in populations)])
    return markdown(["people", "FAR f", "threshold by", *populations], lines)


def disjoint(rows: list[Line]) -> str:
    """The promises from comparisons that share no person: the least share over the numbers of people."""
    lines = []
    chosen = [row for row in rows if row["part"] == "disjoint"]
    for far in dict.fromkeys(row["far"] for row in chosen):
        for name in dict.fromkeys(row["population"] for row in chosen):
            of = [row for row in chosen if (row["population"], row["far"]) == (name, far)]
            held = {
                promise: [float(row["held"]) for row in of if row["promise"] == promise]
                for promise in ("confident", "worst-group")
            }
            numbers = sorted({int(row["people"]) for row in of if row["promise"] == "confident"})
            means = {int(row["people"]): float(row["mean"]) for row in of if row["promise"] == "expected"}
            fewest = {people: means.pop(people) for people in list(means) if people < numbers[0]}
            spread = f"{min(means.values()):.2f} to {max(means.values()):.2f} f"
            people = ", ".join(f"{number:,}" for number in numbers)
            least = (percent(min(shares), 1) for shares in held.values())
            lines.append([name, far, people, *least, spread, ", ".join(f"{mean:.2f} f" for mean in fewest.values())])
    header = ["world", "FAR f", "people", "`confident`: least", "`worst-group`: least", "`expected`: mean FAR"]
    columns = 6 + any(line[-1] for line in lines)  # the last one where these cells are filled
    return markdown([*header, "`expected` of its fewest"][:columns], [line[:columns] for line in lines])


def tables(rows: list[Line]) -> dict[str, tuple[str, str]]:
    """Each table with its page."""
    return {
        "LFW": ("promises.md", of_faces(rows)),
        "peers": ("promises.md", beside_peers(rows)),
        "worlds": ("lab/promises.md", covered(rows)),
        "tails": ("lab/promises.md", tails(rows)),
        "disjoint": ("lab/promises.md", disjoint(rows)),
    }


def main() -> None:
    for name, (page, text) in tables(read_rows()).items():
        print(f"{name} ({page})\n\n{text}\n")


if __name__ == "__main__":
    main()
