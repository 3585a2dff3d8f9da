"""The tables of docs/uncertainty.md and docs/lab/promises.md on intervals over redrawn people, from intervals.csv.

`python benchmarks/intervals_page.py` prints them; a test compares the pages with them.
"""

import csv
from pathlib import Path
from statistics import median

from gallery_page import markdown

ROWS = Path(__file__).with_name("intervals.csv")
Line = dict[str, str]
BEFORE = "percentile"
#: The rule by which each figure's intervals are made.
OURS = {"TAR": "effective number", "threshold": "effective number", "FAR": "effective number", "difference": BEFORE}
#: Worlds in which few people resemble many others.
TAILED = ("tails", "heavy tails", "many images of a few, tails")
FIGURES = {"TAR": "TAR", "threshold": "threshold", "FAR": "FAR at the threshold", "difference": "difference of TARs"}


def read_rows(path: Path = ROWS) -> list[Line]:
    """The rows of the file, in one order whatever the order in which cells were finished."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    worlds = list(dict.fromkeys(row["world"] for row in sorted(rows, key=lambda row: int(row["people"]))))
    return sorted(rows, key=lambda row: (int(row["people"]), worlds.index(row["world"])))


def spread(rows: list[Line]) -> str:
    """The least, the middle and the most of what was held, in per cent."""
    held = [100 * float(row["held"]) for row in rows]
    return f"{min(held):.0f}, {median(held):.0f}, {max(held):.0f} %" if held else ""


def summary(rows: list[Line]) -> str:
    """The rules in use and the middle 95 %: by figure, kind of world and people x FAR."""
    lines = []
    for figure, title in FIGURES.items():
        for tailed in (False, True):
            for enough in (True, False):
                of = [
                    row
                    for row in rows
                    if row["figure"] == figure
                    and (row["world"] in TAILED) == tailed
                    and (int(row["people"]) * float(row["far"]) >= 1) == enough
                ]
                ours, before = ([row for row in of if row["rule"] == rule] for rule in (OURS[figure], BEFORE))
                if ours:
                    worlds = "few resemble many" if tailed else "others"
                    crowd = "1 or more" if enough else "less than 1"
                    lines.append([title, worlds, crowd, str(len(ours)), spread(ours), spread(before)])
    head = ["interval of", "people", "people x FAR", "cells", "held: least, middle, most", "middle 95 % of replicates"]
    return markdown(head, lines)


def rules(rows: list[Line]) -> str:
    """Every rule: what it held, and how wide it is beside the middle 95 % of the replicates."""
    key = ("world", "people", "far", "figure", "tar")
    widths = {tuple(row[name] for name in key): float(row["width"]) for row in rows if row["rule"] == BEFORE}
    lines = []
    for figure, title in FIGURES.items():
        for rule in dict.fromkeys(row["rule"] for row in rows):
            of = [row for row in rows if (row["figure"], row["rule"]) == (figure, rule)]
            wide = [(float(row["width"]), widths[tuple(row[name] for name in key)]) for row in of]
            ratios = [ours / theirs for ours, theirs in wide if theirs > 0]
            enough = sum(float(row["held"]) >= 0.94 for row in of)
            if of:
                lines.append([title, rule, spread(of), f"{enough} of {len(of)}", f"{median(ratios):.2f}"])
    return markdown(["interval of", "rule", "held: least, middle, most", "94 % or more", "width"], lines)


def cells(rows: list[Line]) -> str:
    """What the intervals held in every cell."""
    lines = []
    places = dict.fromkeys((row["people"], row["far"], row["world"]) for row in rows)
    for people, far, world in places:
        of = {
            (row["figure"], float(row["tar"])): f"{100 * float(row['held']):.0f} %"
            for row in rows
            if (row["people"], row["far"], row["world"], row["rule"]) == (people, far, world, OURS[row["figure"]])
        }
        columns = [*(("TAR", tar) for tar in (0.5, 0.9, 0.99)), ("threshold", 0.0), ("FAR", 0.0), ("difference", 0.9)]
        lines.append([people, far, world, *(of.get(column, "") for column in columns)])
    head = ["people", "FAR", "world", "TAR 0.5", "TAR 0.9", "TAR 0.99", "threshold", "FAR at it", "difference"]
    return markdown(head, lines)


def tables(rows: list[Line]) -> dict[str, tuple[str, str]]:
    """Each table with its page."""
    return {
        "summary": ("uncertainty.md", summary(rows)),
        "rules": ("lab/promises.md", rules(rows)),
        "cells": ("lab/promises.md", cells(rows)),
    }


def main() -> None:
    for name, (page, text) in tables(read_rows()).items():
        print(f"{name} ({page})\n\n{text}\n")


if __name__ == "__main__":
    main()
