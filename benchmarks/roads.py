"""A gallery under a new model by two roads, images embedded anew and rows over a bridge, at one promised FPIR.

`python benchmarks/roads.py OLD.npz NEW.npz` takes embeddings of one set by two models, writes roads.csv beside this
file, the source of a table in docs/bridge.md, and takes a minute on one core. Seeds are fixed. Both ways are gone,
from the old model to the new one and back.

In each split some people are drawn for bridges, 1,000 others with two photographs are enrolled by one and look for
themselves by another, 1,500 give the threshold by one photograph each, and the rest are strangers who are found or not.
`strangers` compares thresholds that a map's own people give with those of as many others.
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from bridge import Faces

from verisphere.decide import gallery_threshold
from verisphere.files.embeddings import read_embeddings
from verisphere.score.bridge import fit_map

ROWS = Path(__file__).with_name("roads.csv")
FPIR, PEOPLE, SPLITS = "1e-2", (50, 200, 500), 20
ENROLLED, STRANGERS = 1_000, 1_500
SHARES = (0.1, 0.5, 0.9)  # of photographs whose images were kept
OWN_FPIR, OWN_PEOPLE = "5e-2", 850
Found = Iterator[tuple[str, int | str, str, list[float]]]


def photographs(faces: Faces, people: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The rows of one photograph of each person, and of another of those who have one."""
    order = random.permutation(faces.rows(people))
    first = order[np.unique(faces.person[order], return_index=True)[1]]
    rest = np.setdiff1d(order, first)
    rest = random.permutation(rest)
    return first, rest[np.unique(faces.person[rest], return_index=True)[1]]


def carried(faces: Faces, people: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Old rows by a map that was fitted on some people."""
    known = faces.rows(people)
    person = np.unique(faces.person[known], return_inverse=True)[1]
    found = fit_map(faces.old[known].astype(np.float32), faces.new[known].astype(np.float32), person)
    return found.apply(faces.old[rows].astype(np.float32)).astype(np.float64)


def roads(faces: Faces) -> Found:
    """TPIR, and FPIR in the promised one, of each road."""
    several = np.bincount(faces.person) > 1
    found: dict[tuple[str, int | str, str], list[float]] = {}
    for split in range(SPLITS):
        random = np.random.default_rng(split)
        order = random.permutation(len(faces.names))
        known, order = order[: max(PEOPLE)], order[max(PEOPLE) :]
        enrolled = order[several[order]][:ENROLLED]
        order = order[~np.isin(order, enrolled)]
        stored, shown = photographs(faces, enrolled, random)
        drawn, fresh = (photographs(faces, part, random)[0] for part in (order[:STRANGERS], order[STRANGERS:]))
        anew, over = faces.new[stored], {people: carried(faces, known[:people], stored) for people in PEOPLE}
        cases: list[tuple[str, int | str, np.ndarray, np.ndarray]]
        cases = [
            ("none: the old model, before", "", faces.old, faces.old[stored]),
            ("images anew", "", faces.new, anew),
        ]
        cases += [("bridge", people, faces.new, rows) for people, rows in over.items()]
        for share in SHARES:
            kept = np.arange(ENROLLED)[:, None] < share * ENROLLED
            cases.append(
                (
                    f"{100 * share:.0f} % of the images anew, bridge for the others",
                    max(PEOPLE),
                    faces.new,
                    np.where(kept, anew, over[max(PEOPLE)]),
                )
            )
        for road, fitted, by, rows in cases:
            scores = by[shown] @ rows.T
            promise = gallery_threshold((by[drawn] @ rows.T).max(1), FPIR, "confident", people=ENROLLED, seed=split)
            right = (scores.argmax(1) == np.arange(ENROLLED)) & (scores.max(1) > promise.threshold)
            passed = (by[fresh] @ rows.T).max(1) > promise.threshold
            found.setdefault((road, fitted, "TPIR"), []).append(float(right.mean()))
            found.setdefault((road, fitted, "FPIR / target"), []).append(float(passed.mean()) / float(FPIR))
    yield from ((*about, values) for about, values in found.items())


def strangers(faces: Faces) -> Found:
    """FPIR in the promised one, on average, by thresholds of the people of a map and of as many others."""
    found: dict[str, list[float]] = {"the map's own people": [], "others": []}
    for split in range(SPLITS):
        random = np.random.default_rng([OWN_PEOPLE, split])
        order = random.permutation(len(faces.names))
        known, others, enrolled, rest = np.split(order, np.cumsum([OWN_PEOPLE, OWN_PEOPLE, ENROLLED]))
        rows = carried(faces, known, faces.rows(enrolled))
        fresh = (faces.new[photographs(faces, rest, random)[0]] @ rows.T).max(1)
        for name, drawn in zip(found, (known, others), strict=True):
            best = (faces.new[photographs(faces, drawn, random)[0]] @ rows.T).max(1)
            promise = gallery_threshold(best, OWN_FPIR, "expected", people=ENROLLED, seed=split)
            found[name].append(float((fresh > promise.threshold).mean()) / float(OWN_FPIR))
    yield from ((name, OWN_PEOPLE, "FPIR / target", values) for name, values in found.items())


def main() -> None:
    """Write roads.csv."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    old, new = (read_embeddings(path) for path in (options.old, options.new))
    ways = {"there": Faces(old, new), "back": Faces(new, old)}
    with ROWS.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["way", "method", "people", "figure", "mean", "deviation", "runs"])
        for way, faces in ways.items():
            for *about, values in (*roads(faces), *strangers(faces)):
                rows.writerow([way, *about, f"{np.mean(values):.4g}", f"{np.std(values, ddof=1):.4g}", len(values)])
            file.flush()


if __name__ == "__main__":
    main()
