"""How often a FAR and an FRR that were promised at once both hold, on people whose truth is known.

Worlds of benchmarks/promises.py and one in which those who resemble others are also hard to recognise, so that both
promises rest on the same people; from the fewest people that can have the promise to ten times as many, each with two
images. LFW without its duplicate identities is a population, too: 1,500 people drawn from it promise, and the rest are
looked at. There a rate over few people is a sample itself, so the means say more than the share of sets.

    python benchmarks/both_errors.py [--full] [--part-of K] [--data FOLDER]

Rows go to both_errors_quick.csv, or with --full to both_errors.csv; a stopped run continues (`cells.py`).
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cells import Size, Table, parser
from few_people import DATA
from gallery_faces import Faces
from promises import TRUTH, World, tailed, worlds

from verisphere.decide import SortedScores, independent_threshold
from verisphere.decide.both_errors import FAR_CHANCE, AskedFrr, folded
from verisphere.decide.sample_size import comparisons_needed

FAR, FRR = "1e-2", "0.05"
DRAWN = 1_500  # people of LFW who promise
LFW = "LFW, the rest"


@dataclass(frozen=True)
class Row:
    """How often the promises held.

    Attributes:
        population: where the people are from.
        people: number of people in each set.
        guarantee: the guarantee that both rates were promised with.
        sets: how many were drawn.
        far: share of them in which the FAR held; of `expected` the mean FAR over the target.
        frr: the same of the FRR.
        both: share in which both held; None for `expected`.
        unsure_genuine: mean share of genuine comparisons that are unsure.
        unsure_impostor: mean share of impostor comparisons that are unsure.
    """

    population: str
    people: int
    guarantee: str
    sets: int
    far: float
    frr: float
    both: float | None
    unsure_genuine: float
    unsure_impostor: float


def genuine_of(world: World, difficulty: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A genuine score of each person of this difficulty."""
    own = 0.3 * random.standard_normal((2, *difficulty.shape)).sum(0)
    return world.level - difficulty + own + np.sqrt(0.5) * random.standard_normal(difficulty.shape)


def of_world(world: World, coupled: bool, people: int, sets: int) -> Iterator[Row]:
    """Both guarantees in one world; where `coupled`, how much a person resembles others is also how hard they are."""
    random = np.random.default_rng([world.seed, 6, people])

    def hard(like: np.ndarray) -> np.ndarray:
        return like if coupled else world.difficulty(random, like.shape)

    truth = np.sort(genuine_of(world, hard(world.likeness(random, (TRUTH,))), random))
    lowest = truth[int(float(FRR) * TRUTH)]
    for guarantee in ("confident", "expected"):
        found = []
        for _ in range(sets):
            like = world.likeness(random, (people,))
            image = like + 0.3 * random.standard_normal(people)
            impostor = image[::2] + image[1::2] + np.sqrt(0.5) * random.standard_normal(people // 2)
            asked = AskedFrr(FRR, "one", SortedScores(genuine_of(world, hard(like), random)))
            threshold = independent_threshold(impostor, FAR, guarantee, frr=asked)
            low = threshold.frr.threshold
            band = [np.searchsorted(scores, [min(low, threshold.threshold), threshold.threshold]) / TRUTH
                    for scores in (truth, world.truth)]  # fmt: skip
            frr = np.searchsorted(truth, low) / TRUTH
            held = world.threshold <= threshold.threshold, low <= lowest
            found.append((*held, world.far(threshold.threshold), frr, *(part[1] - part[0] for part in band)))
        yield row(named(world, coupled), people, guarantee, np.array(found, float))


def named(world: World, coupled: bool) -> str:
    """What a population is called."""
    return f"{world.name}, resembling is hard" if coupled else world.name


def row(name: str, people: int, guarantee: str, found: np.ndarray) -> Row:
    """The row of some sets: whether both held, both rates and the unsure shares of each."""
    kept, rates, unsure = found[:, :2], found[:, 2:4], found[:, 4:].mean(0)
    sets = len(found)
    if guarantee == "expected":
        far, frr = rates.mean(0) / (float(FAR), float(FRR))
        return Row(name, people, guarantee, sets, far, frr, None, *unsure)
    return Row(name, people, guarantee, sets, *kept.mean(0), kept.all(1).mean(), *unsure)


def of_lfw(sets: int, data: Path) -> Iterator[Row]:
    """Both guarantees with people drawn from LFW."""
    path = data / "lfw_embeddings.npz"
    faces = Faces.read("LFW", path, Faces.read("LFW", path).duplicates())
    random, units = np.random.default_rng(7), faces.units.astype(np.float32)
    scores = {}
    for number in faces.mated.tolist():
        own = faces.units[faces.first[number] : faces.first[number] + faces.count[number]]
        scores[number] = (own @ own.T)[np.triu_indices(len(own), 1)]
    for guarantee in ("confident", "expected"):
        found = []
        for seed in range(sets):
            drawn = random.permutation(len(faces.people))
            one = units[faces.first + random.integers(faces.count)]
            here, rest = drawn[:DRAWN], drawn[DRAWN:]
            impostor = (one[here[::2]] * one[here[1::2]]).sum(1)
            mine = [scores[number] for number in here.tolist() if number in scores]
            person = np.repeat(np.arange(len(mine)), list(map(len, mine)))
            asked = AskedFrr(FRR, "one", SortedScores(folded(np.concatenate(mine), person, "one", seed)))
            threshold = independent_threshold(impostor, FAR, guarantee, frr=asked)
            low, high = min(threshold.frr.threshold, threshold.threshold), threshold.threshold
            others = one[rest] @ one[rest].T
            np.fill_diagonal(others, -2.0)
            pairs = len(rest) * (len(rest) - 1)
            far, band = np.count_nonzero(others > high) / pairs, np.count_nonzero(others >= low) / pairs
            theirs = [scores[number] for number in rest.tolist() if number in scores]
            frr = np.mean([np.mean(each < threshold.frr.threshold) for each in theirs])
            unsure = np.mean([np.mean((each >= low) & (each <= high)) for each in theirs])
            found.append((far <= float(FAR), frr <= float(FRR), far, frr, unsure, band - far))
        yield row(LFW, DRAWN, guarantee, np.array(found, float))


def cells(size: Size, data: Path, known: Callable[..., bool]) -> Iterator[list[Row]]:
    """Both guarantees of each population and number of people."""
    least = 2 * comparisons_needed(FAR, "confident", FAR_CHANCE)
    populations = [*((world, False) for world in worlds(float(FAR))), (World("tails", 1e-2, tailed, tailed), True)]
    for world, coupled in populations:
        for people in (least, 3 * least, 10 * least):
            if not known(named(world, coupled), people):
                yield list(of_world(world, coupled, people, size.sets(2_000, 100)))
    if not (data / "lfw_embeddings.npz").is_file():
        print(f"skipped: LFW, as there is no {data / 'lfw_embeddings.npz'}", file=sys.stderr)
    elif not known(LFW, DRAWN):
        yield list(of_lfw(size.sets(200, 20), data))


def main() -> None:
    made = parser(__doc__, "2,000 sets of each cell, and 200 of LFW")
    made.add_argument("--data", type=Path, default=DATA, help="folder of lfw_embeddings.npz")
    options = made.parse_args()
    size = Size.of(options)
    table = Table(size.path("both_errors"), Row, ("population", "people"), digits=4)
    table.fill(cells(size, options.data, table.has))


if __name__ == "__main__":
    main()
