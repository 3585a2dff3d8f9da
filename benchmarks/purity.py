"""How often the promise of `verisphere purity` holds: in drawn worlds, and in LFW (docs/clusters.md).

`python benchmarks/purity.py LFW.npz` takes an hour on one core and writes purity.csv beside this file, the source of
the table in docs/clusters.md; without a file it draws the worlds alone, and the rows of LFW stay. Seeds are fixed. The
loosest thresholds of the libraries of the worlds are kept in purity_worlds.npz: a killed run continues, and a larger
number of populations adds to those that are there. Delete that file when clusters change.

A population is divided into libraries of different people. `expected` takes 19 of them, and the twentieth is the next
library; `confident` takes 59, and its threshold is right where at most 5 % of all libraries drawn in that world are
impure at it, those of the other populations included. Populations of a world are drawn anew. Those of LFW are the same
people in another order, so that its draws overlap: any two populations share all people, and two thresholds of
`confident` come from about half of the people each, of whom they share about half.
"""

import csv
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from gallery_page import markdown
from scipy.sparse import coo_array

from verisphere.base.vocabulary import Embeddings
from verisphere.decide.purity import LIBRARIES_FAIL, figures_of, libraries_of
from verisphere.files.disk import write_whole
from verisphere.files.embeddings import read_embeddings
from verisphere.score import unit_rows
from verisphere.score.linkage import average_linkage
from verisphere.score.near_pairs import near_pairs
from verisphere.ship.clusters.face_tree import MOST_PAIRS, FaceTree
from verisphere.ship.clusters.purity import STEP, Library

ROWS = Path(__file__).with_name("purity.csv")
WORLDS = Path(__file__).with_name("purity_worlds.npz")
POPULATIONS, LIBRARIES, FACES, IMPURITY = 500, 60, 60, 0.02
OF_LFW, FACES_OF_LFW, IMPURITY_OF_LFW = 500, 150, 0.01
CALIBRATING, FACES_OF_59, FLOOR_OF_59 = 59, 100, 0.25  # no threshold of 59 libraries of LFW is as low as the floor
IN_GENERAL = 60  # populations of LFW whose libraries show what fails in general
DIM = 24
Draw = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]


def alike(random: np.random.Generator, people: int) -> tuple[np.ndarray, np.ndarray]:
    """Centers and spreads of people who are all equally hard to recognise."""
    return random.standard_normal((people, DIM)), np.full(people, 0.85)


def hard(random: np.random.Generator, people: int) -> tuple[np.ndarray, np.ndarray]:
    """Some people are much harder to recognise than others."""
    return random.standard_normal((people, DIM)), 0.6 + 0.25 * random.standard_exponential(people)


def families(random: np.random.Generator, people: int) -> tuple[np.ndarray, np.ndarray]:
    """Every tenth person has a brother or sister who looks alike, and may come into the same library or another."""
    centers = random.standard_normal((people, DIM))
    centers[1::10] = centers[::10][: len(centers[1::10])] + 0.45 * centers[1::10]
    return centers, np.full(people, 0.75)


def population(draw: Draw, random: np.random.Generator) -> Embeddings:
    """Faces of people who have 1 to 7 images each, for the libraries of one population."""
    people = LIBRARIES * (FACES + 8) // 4 + 60
    centers, spread = draw(random, people)
    person = np.repeat(np.arange(people), random.integers(1, 8, people))
    rows = centers[person] + spread[person, None] * random.standard_normal((len(person), DIM))
    return Embeddings(rows, identities=person)


def libraries(faces: Embeddings, size: int, random: np.random.Generator) -> list[Library]:
    """The libraries of a population."""
    person = np.unique(faces.identities, return_inverse=True)[1]
    return [Library(faces.take(rows), person[rows]) for rows in libraries_of(person, size, random)]


def recall(found: list[Library], threshold: float) -> float:
    """Mean B-cubed recall of libraries at a threshold."""
    return float(np.mean([one.figures(FaceTree(one.faces, threshold), threshold).recall for one in found]))


def drawn_libraries(number: int, draw: Draw, one: int) -> list[Library]:
    """The libraries of a population of a world."""
    random = np.random.default_rng([number, one])
    return libraries(population(draw, random), FACES, random)[:LIBRARIES]


def loosest_of(number: int, draw: Draw) -> np.ndarray:
    """The loosest threshold of each library in steps, a row for each population; kept ones are not looked for again."""
    kept = dict(np.load(WORLDS)) if WORLDS.exists() else {}
    steps = [*kept.get(draw.__name__, ())]
    for one in range(len(steps), POPULATIONS):
        loosest = [library.loosest(IMPURITY) for library in drawn_libraries(number, draw, one)]
        steps.append(np.rint(np.array(loosest) / STEP).astype(np.uint8))
        if one % 20 == 19:
            kept[draw.__name__] = np.array(steps)
            write_whole(WORLDS, lambda path: np.savez_compressed(path, **kept))
            print(draw.__name__, one + 1, flush=True)
    return np.array(steps[:POPULATIONS])


def worlds() -> Iterator[list[object]]:
    """Rows of the drawn worlds."""
    for number, draw in enumerate((alike, hard, families)):
        loosest, recalls = loosest_of(number, draw), []
        for one in range(20):
            drawn, strict = drawn_libraries(number, draw, one), (loosest[one, :19].max(), loosest[one, :59].max())
            recalls.append([recall(drawn, round(steps * STEP, 3)) for steps in strict])
        of_twenty = loosest.reshape(-1, 20)
        kept = of_twenty[:, 19] <= of_twenty[:, :19].max(1)
        found = np.mean(recalls, axis=0)
        yield [draw.__name__, FACES, IMPURITY, "expected", len(kept), round(kept.mean(), 4), round(found[0], 3)]
        strict = loosest[:, :59].max(1)
        failing = (loosest.ravel()[None] > strict[:, None]).mean(1)
        kept = failing <= float(LIBRARIES_FAIL)
        yield [draw.__name__, FACES, IMPURITY, "confident", len(kept), round(kept.mean(), 4), round(found[1], 3)]


def lfw(path: Path) -> Iterator[list[object]]:
    """The row of a real set."""
    faces, kept, recalls = read_embeddings(path), [], []
    for one in range(OF_LFW):
        drawn = libraries(faces, FACES_OF_LFW, np.random.default_rng([9, one]))
        for start in range(0, len(drawn) - 19, 20):
            twenty = drawn[start : start + 20]
            loosest = [library.loosest(IMPURITY_OF_LFW) for library in twenty]
            kept.append(loosest[19] <= max(loosest[:19]))
            if len(recalls) < 20:
                recalls.append(recall(twenty[19:], max(loosest[:19])))
        print("LFW", len(kept), flush=True)
        if len(kept) >= OF_LFW:
            break
    mean = round(float(np.mean(kept)), 4)
    yield ["LFW", FACES_OF_LFW, IMPURITY_OF_LFW, "expected", len(kept), mean, round(float(np.mean(recalls)), 3)]


def lfw_confident(path: Path) -> Iterator[list[object]]:
    """The row of `confident`: 59 libraries calibrate, and those of the people who remain are new to them.

    Whether the loosest threshold of a library is above another one is seen from the near pairs of LFW, which are found
    once; only where it may be, it is looked for. What fails in general is the share of the libraries of the first
    populations.
    """
    faces, random = read_embeddings(path), [np.random.default_rng([10, one]) for one in range(OF_LFW)]
    units = unit_rows(faces.embeddings)
    near = near_pairs(units, FLOOR_OF_59, most=MOST_PAIRS)
    graph = coo_array((near.score, (near.left, near.right)), shape=(len(faces), len(faces))).tocsr()
    person = np.unique(faces.identities, return_inverse=True)[1]

    def loosest_above(rows: np.ndarray, floor: float) -> float:
        """The loosest threshold of the library of these rows, or a floor where that is lower."""
        among = graph[rows][:, rows].tocoo()
        pairs = np.stack([among.row, among.col], 1)[among.data >= floor].astype(np.int64)
        some, pairs = np.unique(pairs, return_inverse=True)  # rows without a near pair are alone
        tree = average_linkage(units.numpy()[rows[some]], pairs.reshape(-1, 2), floor)
        labels = tree.labels(floor)
        wrong = figures_of(labels, person[rows[some]]).impurity * len(some) if len(some) else 0.0
        if wrong / len(rows) <= IMPURITY_OF_LFW:
            return floor
        return max(floor, Library(faces.take(rows), person[rows]).loosest(IMPURITY_OF_LFW))

    everything, thresholds, new, recalls = list[float](), list[float](), list[float](), list[float]()
    for one in range(OF_LFW):
        drawn, strict = libraries_of(person, FACES_OF_59, random[one]), FLOOR_OF_59
        for rows in drawn[:CALIBRATING]:
            strict = loosest_above(rows, strict)
        assert strict > FLOOR_OF_59, strict
        thresholds.append(strict)
        new.append(float(np.mean([loosest_above(rows, strict) > strict for rows in drawn[CALIBRATING:]])))
        if one < IN_GENERAL:
            everything += [loosest_above(rows, FLOOR_OF_59) for rows in drawn]
        if one < 20:
            recalls.append(recall([Library(faces.take(rows), person[rows]) for rows in drawn[CALIBRATING:]], strict))
        if one % 20 == 19:
            print("LFW, confident", one + 1, flush=True)
    failing = 1 - np.searchsorted(np.sort(everything), thresholds, side="right") / len(everything)
    kept = failing <= float(LIBRARIES_FAIL)
    print(f"of the new libraries of a population {np.mean(new):.4f} fail, {1 / (CALIBRATING + 1):.4f} expected")
    print(f"in general {np.quantile(failing, (0.5, 0.9, 0.95, 1))}, of {len(everything):,} libraries")
    mean = round(float(kept.mean()), 4)
    yield ["LFW", FACES_OF_59, IMPURITY_OF_LFW, "confident", len(kept), mean, round(float(np.mean(recalls)), 3)]


def read_rows(path: Path = ROWS) -> list[dict[str, str]]:
    """The rows of the benchmark."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def held(rows: list[dict[str, str]]) -> str:
    """The table of docs/clusters.md."""
    head = ["people", "library", "impurity at most", "guarantee", "held", "B-cubed recall"]
    body = [
        [
            row["world"],
            f"{row['faces']} faces",
            f"{100 * float(row['impurity']):g} %",
            f"`{row['guarantee']}`",
            f"{100 * float(row['held']):.1f} % of {row['draws']}",
            f"{float(row['recall']):.3f}",
        ]
        for row in rows
    ]
    return markdown(head, body)


def main() -> None:
    """Write all rows, each when it is finished; those of sets that are not named stay."""
    paths, former = [Path(path) for path in sys.argv[1:]], read_rows() if ROWS.exists() else []
    with ROWS.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["world", "faces", "impurity", "guarantee", "draws", "held", "recall"])
        if not paths:
            table.writerows(row.values() for row in former if row["world"] == "LFW")
        for part in [*(rows(path) for path in paths for rows in (lfw, lfw_confident)), worlds()]:
            for row in part:
                table.writerow(row)
                file.flush()


if __name__ == "__main__":
    main()
