"""What log-likelihood ratios that were fitted on some people of LFW cost on others.

    python benchmarks/probability.py [--full] [--data FOLDER]

In each of some random orders of LFW's people the first 300, or 1,000, are calibrated on, and the last 1,500 measured:
every genuine pair with the weight that lets each person count once, and all pairs of one random image of each person.
Rows go to probability_quick.csv, or with --full to probability.csv; a stopped run continues (`cells.py`).
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cells import Size, Table, parser

import verisphere
from verisphere.decide.probability import WeighedScores

DATA = Path(__file__).parents[2] / "shared" / "data"
ORDERS, MEASURED, PEOPLE = 6, 1500, (300, 1000)


@dataclass(frozen=True)
class Row:
    """What the ratios of one calibration cost on people of whom it knows nothing.

    Attributes:
        order: number of the random order of people.
        people: how many were calibrated on.
        cllr: Cllr on the others.
        least: the least of any increasing map of their scores.
        slope, intercept: the line.
    """

    order: int
    people: int
    cllr: float
    least: float
    slope: float
    intercept: float


def weighed(units: np.ndarray, person: np.ndarray, seed: int) -> WeighedScores:
    """The scores of a set, not counted in bins."""
    left, right = np.triu_indices(len(person), 1)
    same = person[left] == person[right]
    genuine = np.einsum("ij,ij->i", units[left[same]], units[right[same]])
    weights = 1 / np.bincount(person[left[same]])[person[left[same]]]
    order = np.random.default_rng(seed).permutation(len(person))
    single = units[order[np.unique(person[order], return_index=True)[1]]]
    impostor = (single @ single.T)[np.triu_indices(len(single), 1)]
    scores = np.concatenate([genuine, impostor])
    kinds = np.zeros((2, len(scores)))
    kinds[0, : len(genuine)], kinds[1, len(genuine) :] = weights / weights.sum(), 1 / len(impostor)
    order = np.argsort(scores)
    return WeighedScores(scores[order], *kinds[:, order])


def cells(embeddings: np.ndarray, person: np.ndarray, orders: int, known: Callable[..., bool]) -> Iterator[list[Row]]:
    """One calibration each."""
    units = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    for seed in range(orders):
        order = np.random.default_rng(seed).permutation(person.max() + 1)
        for people in PEOPLE:
            if known(seed, people):
                continue
            last, first = np.isin(person, order[-MEASURED:]), np.isin(person, order[:people])
            others = weighed(units[last], person[last], seed)
            options = {"far": "1e-1", "guarantee": "expected", "probability": True, "replicates": 20}
            line = verisphere.calibrate(embeddings[first], person[first], **options).probability
            cost = others.cllr(line.ratios(others.scores)), others.min_cllr()
            yield [Row(seed, people, *cost, line.slope, line.intercept)]


def main() -> None:
    made = parser(__doc__, f"{ORDERS} random orders")
    made.add_argument("--data", type=Path, default=DATA, help="folder of lfw_embeddings.npz")
    options = made.parse_args()
    path, size = options.data / "lfw_embeddings.npz", Size.of(options)
    if not path.is_file():
        print(f"skipped: LFW, as there is no {path}", file=sys.stderr)
        return
    with np.load(path) as rows:
        embeddings, person = rows["embeddings"], np.unique(rows["identities"], return_inverse=True)[1]
    table = Table(size.path("probability"), Row, ("order", "people"))
    table.fill(cells(embeddings, person, ORDERS if size.full else 1, table.has))
    for people in PEOPLE:
        costs = [(float(row["cllr"]), float(row["least"])) for row in table.rows() if row["people"] == str(people)]
        mean, least = np.mean(costs, axis=0)
        print(f"{people:,} people: Cllr on others {mean:.4f} on average, least {least:.4f}")


if __name__ == "__main__":
    main()
