"""How often promises from all pairs of few people hold: under a cap, by a fitted tail, and by convention.

    python benchmarks/few_people.py [--full] [--part-of K] [--data FOLDER] [--only PART ...]

A cell is one population, number of people and FAR. Its promises go to few_people_quick.csv, or with --full to
few_people.csv, when it is finished; cells that are there are not computed again, so a stopped run continues.

The worlds are those of promises.py, with the likeness and the image of a person rounded to one of some hundred values.
The FAR of a threshold, and the cap that the world reaches there, are then sums. Three further populations differ just
as much as the stated cap allows. A threshold of rank j keeps its promise iff at least j pairs lie above the true
threshold, so a set is drawn as counts: people of each value, then accepted pairs of each two values. The fitted tail
needs scores, which are drawn. LFW without its duplicate identities is a population, too: people are drawn from it
without replacement, and the FAR is that of all pairs of the rest.
"""

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path

import numpy as np
from cells import Size, Table, parser
from few_people_peers import peers
from gallery_faces import Faces
from promises import World, worlds
from scipy.stats import norm

from verisphere.base.vocabulary import Redrawing, quietly
from verisphere.decide import PairScores, independent_rank
from verisphere.decide.capped import capped_people_needed, capped_rank
from verisphere.decide.sample_size import confidence_limit, people_needed
from verisphere.decide.tail import tail_reaches, tail_threshold

DATA = Path(__file__).parents[2] / "shared" / "data"
VALUES, DRAWN = 120, 240_000  # values of a person, and people that they are made from
NOISE = math.sqrt(0.5)  # of a pair
RATES = ("1e-2", "1e-3", "1e-4")
CAPS = (2.0, 5.0)
PARTS = ("worlds", "tails", "LFW", "floor", "peers")
TIMES = (1, 3, 10)  # people, as multiples of the fewest


#: How people differ in a population that reaches a cap: its likeness, up to a factor.
SHAPES: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "normal": lambda random: random.standard_normal(DRAWN),
    "exponential": lambda random: random.standard_exponential(DRAWN),
    "two types": lambda random: (random.random(DRAWN) < 0.05).astype(float),
}


@dataclass(frozen=True)
class Cell:
    """How often one promise held.

    Attributes:
        part: what the cell belongs to.
        population: where the people are from.
        people: number of people, one image each.
        far: target FAR.
        promise: guarantee, with its cap.
        reached: the cap that the population reaches at this FAR.
        held: share of sets in which the FAR was at most the target.
        mean: mean of the FAR over the target; empty where only counts were drawn.
        tar: mean TAR of two photographs of a person, for LFW.
        sets: number of sets.
    """

    part: str
    population: str
    people: int
    far: str
    promise: str
    reached: float
    held: float
    mean: float | None
    tar: float | None
    sets: int


class Rounded:
    """A population whose people have one of `VALUES` values or so, the highest ones finer than the rest.

    Args:
        name: what it is called.
        drawn: values of many people, ascending, that the rounded ones are made from.
        far: target FAR.
    """

    def __init__(self, name: str, drawn: np.ndarray, far: float) -> None:
        depth = np.concatenate([np.geomspace(1, 1e-4, VALUES // 2), np.geomspace(1e-4, 1e-5, VALUES // 6)[1:]])
        ends = np.unique(np.concatenate([DRAWN - DRAWN * depth, np.linspace(0, DRAWN, VALUES // 3)]).astype(int))
        parts = [part for part in np.split(drawn, ends[1:-1]) if len(part)]
        self.name, self.value = name, np.array([part.mean() for part in parts])
        self.share = np.array([len(part) for part in parts]) / DRAWN
        self.threshold = self._threshold(far)
        self.rates = self.accepted(self.threshold)
        self.far = self.far_at(self.threshold)
        self.cap = float(self.share @ (self.rates @ self.share) ** 2) / self.far**2

    @classmethod
    def of(cls, world: World) -> "Rounded":
        """A world of promises.py."""
        random = np.random.default_rng([world.seed, 11])
        drawn = world.likeness(random, (DRAWN,)) + 0.3 * random.standard_normal(DRAWN)
        return cls(world.name, np.sort(drawn), world.target)

    @classmethod
    def at_cap(cls, name: str, cap: float, far: float) -> "Rounded":
        """A population of one of `SHAPES`, whose people differ as much as the cap allows at this FAR."""
        drawn = np.sort(SHAPES[name](np.random.default_rng([16, len(name)])))
        low, high = 0.0, 4.0
        while high - low > 1e-4:
            middle = (low + high) / 2
            low, high = (middle, high) if cls(name, middle * drawn, far).cap <= cap else (low, middle)
        return cls(name, low * drawn, far)

    def accepted(self, threshold: float) -> np.ndarray:
        """The chance that a pair of each two values is accepted."""
        return np.asarray(norm.sf(threshold - self.value[:, None] - self.value[None, :], scale=NOISE))

    def far_at(self, threshold: float) -> float:
        """Everybody's."""
        return float(self.share @ self.accepted(threshold) @ self.share)

    def _threshold(self, far: float) -> float:
        low, high = -20.0, 60.0
        while high - low > 1e-9:
            middle = (low + high) / 2
            low, high = (middle, high) if self.far_at(middle) > far else (low, middle)
        return high

    def counts(self, people: int, sets: int) -> np.ndarray:
        """The number of accepted pairs at the true threshold, in each of some sets."""
        random = np.random.default_rng([12, people])
        left, right = np.triu_indices(len(self.value))
        rates, same = self.rates[left, right], left == right
        found = np.empty(sets, np.int64)
        for number, of_value in enumerate(random.multinomial(people, self.share, size=sets)):
            pairs = np.where(same, of_value[left] * (of_value[left] - 1) // 2, of_value[left] * of_value[right])
            there = pairs > 0
            found[number] = random.binomial(pairs[there], rates[there]).sum()
        return found

    def draw(self, people: int, number: int) -> PairScores:
        """The highest scores of all pairs of a set."""
        random = np.random.default_rng([13, people, number])
        value = random.choice(self.value, people, p=self.share)
        left, right = np.triu_indices(people, 1)
        return highest(value[left] + value[right] + NOISE * random.standard_normal(len(left)), left, right, people)


class Photographs:
    """LFW as a population: one photograph of each person."""

    def __init__(self, data: Path) -> None:
        everybody = Faces.read("LFW", data / "lfw_embeddings.npz")
        faces = Faces.read("LFW", data / "lfw_embeddings.npz", everybody.duplicates())
        rows = faces.rows(np.arange(len(faces.people)))
        self.name, self.scores = "LFW", rows @ rows.T
        left, right = np.triu_indices(len(rows), 1)
        scores = self.scores[left, right]
        order = np.argsort(-scores)[: len(scores) // 5]  # far more than any promise accepts
        self.truth, self.pairs = np.sort(scores), np.stack([left, right], 1)[order]
        self.genuine = np.sort((faces.rows(faces.mated) * faces.rows(faces.mated, 1)).sum(1))

    def tar_at(self, threshold: float) -> float:
        """Of the first two photographs of each person who has two."""
        return 1 - float(np.searchsorted(self.genuine, threshold, side="right")) / len(self.genuine)

    def far_of_others(self, drawn: np.ndarray, threshold: float) -> float:
        """Of all pairs of the people who were not drawn."""
        above = len(self.truth) - int(np.searchsorted(self.truth, threshold, side="right"))
        if above > len(self.pairs):
            raise ValueError(f"{above} pairs are above {threshold}, more than the {len(self.pairs)} that are kept")
        others = np.ones(len(self.scores), bool)
        others[drawn] = False
        rest = len(self.scores) - len(drawn)
        return float(others[self.pairs[:above]].all(1).sum()) / (rest * (rest - 1) / 2)

    def cap_at(self, far: str) -> float:
        """The cap that it reaches."""
        accepted = self.scores > self.truth[-1 - int(float(far) * len(self.truth))]
        people, partners = len(accepted), accepted.sum(1) - 1
        moment = float((partners * (partners - 1)).mean()) / ((people - 1) * (people - 2))  # two different partners
        return moment / (float(partners.mean()) / (people - 1)) ** 2

    def draw(self, people: int, number: int) -> tuple[PairScores, np.ndarray]:
        """The highest scores of all pairs of some people, drawn without replacement, and these people."""
        drawn = np.random.default_rng([14, people, number]).choice(len(self.scores), people, replace=False)
        left, right = pairs_of(people)
        return highest(self.scores[drawn[left], drawn[right]], left, right, people), drawn

    def apart(self, drawn: np.ndarray) -> np.ndarray:
        """The scores of pairs of the drawn people that share nobody."""
        return self.scores[drawn[0 : len(drawn) // 2 * 2 : 2], drawn[1::2]]


@cache
def pairs_of(people: int) -> tuple[np.ndarray, np.ndarray]:
    """The two people of every pair."""
    return np.triu_indices(people, 1)


def highest(score: np.ndarray, left: np.ndarray, right: np.ndarray, people: int) -> PairScores:
    """The highest twentieth of all pairs."""
    kept = np.argpartition(-score, len(score) // 20)[: len(score) // 20 + 1]
    kept = kept[np.argsort(-score[kept], kind="stable")]
    rows = np.stack([left[kept], right[kept]], 1)
    return PairScores(np.zeros(0), np.zeros(0, np.int64), score[kept], rows, np.ones(people, np.int64))


def ranks(people: int, far: str, cap: float | None) -> Iterator[tuple[str, int]]:
    """The rank that each promise of all pairs takes: under a cap, and by convention."""
    for stated in CAPS if cap is None else (cap,):
        yield f"capped, c = {stated:g}", capped_rank(people, far, stated)
    yield "convention", independent_rank(people * (people - 1) // 2, far, "confident")


Known = Callable[[str, str, int, str], bool]
Cells = Iterator[list[Cell]]  # each number of people of a population at once


def of_counts(sets: int, rates: tuple[str, ...], known: Known) -> Cells:
    """`capped` in populations that reach its cap, and beside `convention` in the worlds, which go beyond it.

    The numbers of people are the fewest, three and ten times as many.
    """
    for far in rates:
        for cap in CAPS:
            numbers = [min(times * capped_people_needed(far, cap), 10_000) for times in TIMES]
            for name in SHAPES:
                label = f"{name}, at the cap {cap:g}"
                if not all(known("worlds", label, people, far) for people in numbers):
                    population = Rounded.at_cap(name, cap, float(far))
                    population.name = label
                    yield from counted(population, numbers, far, cap, sets, known)
            for world in worlds(float(far)):
                if not all(known("worlds", f"{world.name}, stated {cap:g}", people, far) for people in numbers):
                    population = Rounded.of(world)
                    population.name = f"{world.name}, stated {cap:g}"
                    yield from counted(population, numbers, far, cap, sets, known)


def counted(population: Rounded, numbers: list[int], far: str, cap: float, sets: int, known: Known) -> Cells:
    """The promises of all pairs in one population."""
    for people in numbers:
        if known("worlds", population.name, people, far):
            continue
        counts, of = population.counts(people, sets), ("worlds", population.name, people, far)
        yield [
            Cell(*of, promise, population.cap, float((counts >= rank).mean()), None, None, sets)
            for promise, rank in ranks(people, far, cap)
            if rank
        ]


def six_populations(far: str) -> dict[str, Callable[[], Rounded]]:
    """The worlds of promises.py, and one of two types of people that reaches a cap of 5; each is made when called."""
    made = {world.name: partial(Rounded.of, world) for world in worlds(float(far))}
    return made | {"two types, at the cap 5": partial(Rounded.at_cap, "two types", 5.0, float(far))}


def of_tails(sets: int, rates: tuple[str, ...], numbers: tuple[int, ...], known: Known) -> Cells:
    """The fitted tail in six populations."""
    for far in rates:
        for name, make in six_populations(far).items():
            missing = [people for people in numbers if not known("tails", name, people, far)]
            if not missing:
                continue
            population = make()
            for people in missing:
                fars = []
                for number in range(sets):
                    pairs = population.draw(people, number)
                    fars.append(population.far_at(tail_threshold(pairs, far, Redrawing(100, number), quietly)[0]))
                yield [cell("tails", name, people, far, "tail", population.cap, np.array(fars), population.far)]


def of_photographs(
    faces: Photographs, sets: int, tails: int, people: int, fars: tuple[str, ...], known: Known
) -> Cells:
    """Every promise, with people drawn from LFW; the same draws serve all FARs."""
    missing = [far for far in fars if not known("LFW", "LFW", people, far)]
    rates: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for number in range(sets if missing else 0):
        pairs, drawn = faces.draw(people, number)
        for far in missing:
            thresholds = {
                promise: float(pairs.impostor[rank - 1]) for promise, rank in ranks(people, far, None) if rank
            }
            thresholds |= from_apart(faces.apart(drawn), far)
            if number < tails and tail_reaches(far, people * (people - 1) // 2):
                thresholds["tail"] = tail_threshold(pairs, far, Redrawing(100, number), quietly)[0]
            for promise, threshold in thresholds.items():
                rate = faces.far_of_others(drawn, threshold), faces.tar_at(threshold)
                rates.setdefault((far, promise), []).append(rate)
    for far in missing:
        reached, both = faces.cap_at(far), {key[1]: np.array(of).T for key, of in rates.items() if key[0] == far}
        yield [
            cell("LFW", "LFW", people, far, promise, reached, found, float(far), float(tars.mean()))
            for promise, (found, tars) in both.items()
        ]


def of_peers(sets: int, cells: tuple[tuple[str, int], ...], known: Known) -> Cells:
    """MAPIE and crepes beside ours on the same sets.

    All pairs of 300 people, and those of them that share no person; then pairs that share no person of as many people
    as `confident` needs, where they claim the same.
    """
    for far, people in cells:
        for name in ("normal, at the cap 2", *(world.name for world in worlds(float(far)))):
            if known("peers", name, people, far):
                continue
            of = {world.name: world for world in worlds(float(far))}
            population = Rounded.of(of[name]) if name in of else Rounded.at_cap("normal", 2.0, float(far))
            fars: dict[str, list[float]] = {}
            alone = people >= people_needed(far, "confident")
            for number in range(sets):
                chosen = (
                    of_apart(population, people, far, number) if alone else of_both(population, people, far, number)
                )
                for promise, threshold in chosen.items():
                    fars.setdefault(promise, []).append(population.far_at(min(threshold, 1e3)))
            yield [
                cell("peers", name, people, far, promise, population.cap, np.array(rates), population.far)
                for promise, rates in fars.items()
            ]


def of_both(population: Rounded, people: int, far: str, number: int) -> dict[str, float]:
    """The threshold of each promise from all pairs of a set, and from those that share no person."""
    random = np.random.default_rng([17, number])
    value = random.choice(population.value, people, p=population.share)
    left, right = np.triu_indices(people, 1)
    score = value[left] + value[right] + NOISE * random.standard_normal(len(left))
    ordered = np.sort(score)[::-1]
    chosen = {promise: float(ordered[rank - 1]) for promise, rank in ranks(people, far, 2.0) if rank}
    apart = beside_theirs(score[(right == left + 1) & (left % 2 == 0)], far)
    return chosen | {f"{peer}, all pairs": choose(score, float(far)) for peer, choose in peers().items()} | apart


def of_apart(population: Rounded, people: int, far: str, number: int) -> dict[str, float]:
    """The threshold of each promise from pairs that share no person alone."""
    random = np.random.default_rng([19, people, number])
    value = random.choice(population.value, (2, people // 2), p=population.share)
    return beside_theirs(value.sum(0) + NOISE * random.standard_normal(people // 2), far)


def beside_theirs(score: np.ndarray, far: str) -> dict[str, float]:
    """The thresholds of ours and of the peers from pairs that share no person."""
    theirs = {f"{peer}, pairs that share no person": choose(score, float(far)) for peer, choose in peers().items()}
    return from_apart(score, far) | theirs


def from_apart(score: np.ndarray, far: str) -> dict[str, float]:
    """The threshold of each promise that assumes nothing, from pairs that share no person."""
    ordered, chosen = np.sort(score)[::-1], {}
    for guarantee in ("confident", "expected"):
        if rank := independent_rank(len(score), far, guarantee):
            chosen[guarantee] = float(ordered[rank - 1])
    return chosen


def of_floor(sets: int, rates: tuple[str, ...], known: Known) -> Cells:
    """The worst cases of any method: none of N people is one of the few who resemble everybody; max(a, b) as score."""
    for far in rates:
        share = 1 - math.sqrt(1 - float(far))
        for people in (200, 600, 2000, 5990):
            name = "few who resemble everybody"
            if not known("floor", name, people, far):
                held = float((np.random.default_rng([15, people]).binomial(people, share, sets) > 0).mean())
                promise = f"any threshold; at most {confidence_limit(people, far):.2f}"
                yield [Cell("floor", name, people, far, promise, share / float(far) ** 2, held, None, None, sets)]
            name = "the higher of two values"
            if not known("floor", name, people, far):
                fars = 1 - np.random.default_rng([18, people]).beta(people, 1, sets) ** 2
                yield [cell("floor", name, people, far, "largest of all pairs", 4 / 3, fars, float(far))]


def cell(
    part: str,
    name: str,
    people: int,
    far: str,
    promise: str,
    cap: float,
    fars: np.ndarray,
    target: float,
    tar: float | None = None,
) -> Cell:
    """A cell of thresholds whose FARs are known."""
    held = float((fars <= target * (1 + 1e-9)).mean())
    return Cell(part, name, people, far, promise, cap, held, float(fars.mean()) / float(far), tar, len(fars))


def table_in(path: Path) -> Table:
    """The table of all parts, which `disjoint.py` fills, too."""
    return Table(path, Cell, ("part", "population", "people", "far"))


def main() -> None:
    made = parser(__doc__, "2,000 sets of each cell, and 300 with a bootstrap inside")
    made.add_argument("--data", type=Path, default=DATA, help="folder of lfw_embeddings.npz")
    made.add_argument("--only", nargs="*", choices=PARTS)
    options = made.parse_args()
    size = Size.of(options)
    table = table_in(size.path("few_people"))
    full, known, sets, tails = size.full, table.has, size.sets(2_000, 100), size.sets(300, 10)
    of_tail = (284, 400, 1_000, 2_840) if full else (400,)  # from the fewest that it takes to ten times as many
    beside = (("1e-2", 300), ("1e-2", 598), ("1e-3", 5_990))
    parts: dict[str, Cells] = {
        "floor": of_floor(10 * sets, RATES[:2], known),
        "worlds": of_counts(sets, RATES if full else RATES[:2], known),
        "tails": of_tails(tails, RATES[1:], of_tail, known),
    }
    if len(peers()) == 3:
        parts["peers"] = of_peers(sets, beside if full else beside[:1], known)
    elif options.only is None or "peers" in options.only:
        print("skipped: peers, as MAPIE and crepes are not both installed", file=sys.stderr)
    if (options.data / "lfw_embeddings.npz").is_file():
        numbers, fars = (100, 300, 500, 1_000, 2_000) if full else (300,), RATES
        if not all(known("LFW", "LFW", people, far) for people in numbers for far in fars):
            faces = Photographs(options.data)
            of = (of_photographs(faces, sets, tails, people, fars, known) for people in numbers)
            parts["LFW"] = chain.from_iterable(of)
    else:
        print(f"skipped: LFW, as there is no {options.data / 'lfw_embeddings.npz'}", file=sys.stderr)
    for name, found in parts.items():
        if options.only is None or name in options.only:
            table.fill(found)


if __name__ == "__main__":
    main()
