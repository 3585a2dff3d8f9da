"""How often intervals over redrawn people hold, beside other rules for them, in made-up worlds.

    python benchmarks/intervals.py [--full] [--part-of K] [--people NUMBER ...]

A cell is one world and number of people. Its rows go to intervals_quick.csv, or with --full to intervals.csv, when it
is finished; cells that are there are not computed again, so a stopped run continues. All rules are given the same sets,
and all but `m out of n` the same replicates, of as many people as the set has. The worlds are like those of
promises.py, with further ones: people with many images, domains, and a few look-alikes. TAR is 0.5, 0.9 or
0.99 at the target FAR, and the difference of two models that are equally good is 0.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from cells import Size, Table, parser
from promises import Draw, heavy, moderate, nothing, tailed, two_types
from scipy.special import ndtr, ndtri, stdtrit

from verisphere.base.vocabulary import Redrawing
from verisphere.decide import Interval, PairScores, TooFewScoresError
from verisphere.decide.bootstrap import draws_of, everyone, fars_at, tars_at, thresholds_of
from verisphere.decide.intervals import (
    far_interval,
    percentile_interval,
    tar_at_target,
    threshold_interval,
)
from verisphere.decide.weights import Weights

FARS, TARS = ("1e-2", "1e-3"), (0.5, 0.9, 0.99)
PEOPLE = (40, 100, 400)
TRUTH = 1_000_000  # comparisons that the truth is of
SHARES = (0.55, 0.25, 0.15, 0.05)  # of people, in each domain
NOISE = np.sqrt(0.5)  # of a pair
OURS = "effective number"
Ends = tuple[float, float]


def three(random: np.random.Generator, people: int) -> np.ndarray:
    """Three images of everybody."""
    return np.full(people, 3)


def some(random: np.random.Generator, people: int) -> np.ndarray:
    """Two images and a few more: Poisson."""
    return 2 + random.poisson(1.5, people)


def many(random: np.random.Generator, people: int) -> np.ndarray:
    """Two images of most people and up to forty of a few: Pareto with index 1, whose mean would be infinite."""
    return np.minimum(2 + random.pareto(1.0, people).astype(int), 40)


@dataclass(frozen=True)
class World:
    """A population of people, as in promises.py.

    Attributes:
        name: what the world is called.
        likeness, difficulty: how people differ.
        images: draws the number of images of each person.
        domains: whether people belong to domains, within which they are more alike, and some of which are harder.
    """

    name: str
    likeness: Draw
    difficulty: Draw
    images: Callable[[np.random.Generator, int], np.ndarray] = three
    domains: bool = False

    def people(self, random: np.random.Generator, size: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Likeness, difficulty and domain of people."""
        domain = random.choice(len(SHARES), size, p=SHARES) if self.domains else np.zeros(size, int)
        return self.likeness(random, size), self.difficulty(random, size) + 0.4 * domain, domain

    @cached_property
    def impostors(self) -> np.ndarray:
        """Scores of many comparisons that share nobody, ascending."""
        random = np.random.default_rng(1)
        likeness, _, domain = self.people(random, (2, TRUTH))
        score = (
            likeness.sum(0) + 0.3 * random.standard_normal((2, TRUTH)).sum(0) + NOISE * random.standard_normal(TRUTH)
        )
        return np.sort(score + 0.7 * (self.domains & (domain[0] == domain[1])))

    @cached_property
    def levels(self) -> dict[tuple[str, float], float]:
        """What genuine scores are raised by for each TAR at each target FAR."""
        random = np.random.default_rng(2)
        score = np.sqrt(0.18 + 0.5) * random.standard_normal(TRUTH) - self.people(random, (TRUTH,))[1]
        return {(far, tar): self.threshold(far) - float(np.quantile(score, 1 - tar)) for far in FARS for tar in TARS}

    def threshold(self, far: str) -> float:
        """Everybody's."""
        return float(self.impostors[TRUTH - 1 - int(float(far) * TRUTH)])

    def far(self, threshold: float) -> float:
        """Everybody's."""
        return 1 - float(np.searchsorted(self.impostors, threshold, side="right")) / TRUTH

    def draw(self, people: int, number: int, times: int) -> list[PairScores]:
        """Two models' scores of all pairs of a set of people, the genuine ones still to be raised by a level.

        There are `times` as many impostor scores as the largest FAR accepts.
        """
        random = np.random.default_rng([3, people, number])
        likeness, difficulty, domain = self.people(random, (people,))
        images = self.images(random, people)
        person = np.repeat(np.arange(people), images)
        left, right = np.triu_indices(len(person), 1)
        same = person[left] == person[right]
        own = person[left[same]]
        left, right = left[~same], right[~same]
        both = np.stack([person[left], person[right]], 1)
        drawn = likeness[person] + 0.3 * random.standard_normal(len(person))
        common = drawn[left] + drawn[right] + (0.5 * random.standard_normal((people, people)))[both[:, 0], both[:, 1]]
        common += 0.7 * (self.domains & (domain[both[:, 0]] == domain[both[:, 1]]))
        ease = 0.3 * np.sqrt(2) * random.standard_normal(len(own)) - difficulty[own]
        models = []
        for _ in range(2):
            score = common + 0.5 * random.standard_normal(len(common))
            count = min(len(score), int(times * float(FARS[0]) * len(score)) + 200)
            rows = np.argpartition(-score, count - 1)[:count]
            rows = rows[np.argsort(-score[rows])]
            genuine = ease + NOISE * random.standard_normal(len(own))
            models.append(PairScores(genuine, own, score[rows], both[rows], images.astype(np.int64)))
        return models


WORLDS = (
    World("alike", nothing, nothing),
    World("differing", moderate, moderate),
    World("tails", tailed, tailed),
    World("heavy-tailed difficulty", moderate, heavy),
    World("heavy tails", heavy, heavy),
    World("many images of a few", moderate, moderate, many),
    World("many images of a few, tails", tailed, heavy, many),
    World("domains", moderate, moderate, some, domains=True),
    World("few look-alikes", two_types, moderate, some),
)


@dataclass(frozen=True)
class Row:
    """How often the intervals of one rule held.

    Attributes:
        world, people: the cell.
        far: target FAR.
        figure: TAR, threshold, FAR at the threshold, or difference of two TARs.
        tar: everybody's TAR at the target FAR; 0 for threshold and FAR.
        rule: how the interval was made.
        held: share of sets whose interval contains the truth.
        below, above: share of sets in which the truth lies below or above the interval.
        width: median width.
        sets: number of sets.
        drawn: people in a replicate, `n` or `m` (out of n).
    """

    world: str
    people: int
    far: str
    figure: str
    tar: float
    rule: str
    held: float
    below: float
    above: float
    width: float
    sets: int
    drawn: str = "n"


def ends(interval: Interval) -> Ends:
    return interval.lower_95, interval.upper_95


def between(replicates: np.ndarray, lower: float, upper: float) -> Ends:
    """Two quantiles of replicates, of which some may be infinite."""
    known = replicates[~np.isnan(replicates)]
    return float(np.quantile(known, lower, method="lower")), float(np.quantile(known, upper, method="higher"))


def others(value: float, replicates: np.ndarray, influence: np.ndarray) -> Iterator[tuple[str, Ends]]:
    """The rules that ours is compared with.

    The middle 95 %; the same with Student's quantiles for the normal ones (Hesterberg 2015); BCa with the acceleration
    of the jackknife (Efron 1987); and BCa with Student's quantiles.
    """
    people = len(influence)
    wide = float(stdtrit(people - 1, 0.975)) * np.sqrt(people / (people - 1))
    yield "percentile", ends(percentile_interval(value, replicates))
    yield "expanded percentile", between(replicates, ndtr(-wide), ndtr(wide))
    share = np.mean(replicates < value) + 0.5 * np.mean(replicates == value)
    bias = float(ndtri(np.clip(share, 1 / len(replicates), 1 - 1 / len(replicates))))
    variance = float((influence**2).sum())
    acceleration = float((influence**3).sum()) / (6 * variance**1.5) if variance else 0.0
    for name, z in (("BCa", 1.96), ("expanded BCa", wide)):
        levels = [ndtr(bias + (bias + end) / max(1 - acceleration * (bias + end), 0.05)) for end in (-z, z)]
        yield name, between(replicates, *levels)


def studentised(value: float, replicates: np.ndarray, people: int) -> Ends:
    """Student's interval of the log odds, with the standard error of the replicates."""
    if not 0 < value < 1:
        return value, value
    half = float(stdtrit(people - 1, 0.975)) * float(np.nanstd(replicates)) / (value * (1 - value))
    odds = np.log(value / (1 - value)) + np.array([-half, half])
    lower, upper = 1 / (1 + np.exp(-odds))
    return float(lower), float(upper)


def influence_at(pairs: PairScores, threshold: float, value: float) -> np.ndarray:
    """Each person's influence on TAR at a fixed threshold."""
    return np.bincount(pairs.genuine_person, (pairs.genuine > threshold) - value, len(pairs.images))


@dataclass(frozen=True, eq=False)
class Figure:
    """A figure of one set.

    Attributes:
        far: target FAR.
        name: TAR, threshold, FAR at the threshold, or difference of two TARs.
        tar: everybody's TAR at the target FAR; 0 for threshold and FAR.
        truth: everybody's.
        cut: the threshold that it is measured at.
        value: that of the set.
        replicates: the replicates of redrawn people.
        influence: each person's.
    """

    far: str
    name: str
    tar: float
    truth: float
    cut: float
    value: float
    replicates: np.ndarray
    influence: np.ndarray


Found = Iterator[tuple[Figure, str, Ends]]  # with a rule and its interval


def with_replicates(world: World, models: list[PairScores], runs: Iterable[Weights]) -> tuple[np.ndarray, ...]:
    """Thresholds, FARs at the set's own thresholds and TARs of each replicate; last the other model's TAR."""
    pairs, other = models
    cuts = thresholds_of(pairs, everyone(len(pairs.images)), FARS)[:, 0]
    equal, parts = world.levels[FARS[0], 0.9], []
    for weights in runs:
        thresholds = thresholds_of(pairs, weights, FARS)
        tars = [
            tars_at(pairs, weights, thresholds[FARS.index(far), None] - level)
            for (far, _), level in world.levels.items()
        ]
        theirs = tars_at(other, weights, thresholds_of(other, weights, FARS[:1]) - equal)
        parts.append((thresholds, fars_at(pairs, weights, cuts), np.concatenate([*tars, theirs])))
    return tuple(np.concatenate(part, axis=1) for part in zip(*parts, strict=True))


def figures(world: World, models: list[PairScores], replicates: tuple[np.ndarray, ...]) -> Iterator[Figure]:
    """Every figure of one set."""
    pairs, other = models
    people, (thresholds, rates, tars) = len(pairs.images), replicates
    cuts, other_cuts = (thresholds_of(each, everyone(people), FARS)[:, 0] for each in models)
    for place, far in enumerate(FARS):
        cut = float(cuts[place])
        value = float(np.count_nonzero(pairs.impostor > cut) / pairs.impostor_total)
        compared = pairs.images * (pairs.images.sum() - pairs.images)
        accepted = np.bincount(pairs.impostor_people[pairs.impostor > cut].ravel(), minlength=people)
        influence = accepted - value * compared
        yield Figure(far, "FAR", 0.0, world.far(cut), cut, value, rates[place], influence)
        yield Figure(far, "threshold", 0.0, world.threshold(far), cut, cut, thresholds[place], influence)
    for ((far, tar), level), of in zip(world.levels.items(), tars, strict=False):
        cut = float(cuts[FARS.index(far)] - level)
        value = float(np.mean(pairs.genuine > cut))
        influence = influence_at(pairs, cut, value)
        yield Figure(far, "TAR", tar, tar, cut, value, of, influence)
        if (far, tar) == (FARS[0], 0.9):
            cut = float(other_cuts[0] - level)
            theirs = float(np.mean(other.genuine > cut))
            influence = influence - influence_at(other, cut, theirs)
            yield Figure(far, "difference", tar, 0.0, cut, value - theirs, of - tars[-1], influence)


def of_all(world: World, models: list[PairScores], redrawing: Redrawing) -> Found:
    """The intervals of one set by every rule that draws as many people as the set has."""
    pairs, people = models[0], len(models[0].images)
    for each in figures(world, models, with_replicates(world, models, map(Weights, draws_of(people, redrawing)))):
        for rule, interval in others(each.value, each.replicates, each.influence):
            yield each, rule, interval
        if each.name == "FAR":
            of_far = far_interval(pairs, each.cut, each.value, each.replicates)
            yield each, OURS, ends(of_far)
        elif each.name == "threshold":  # follows the FAR at it
            yield each, OURS, ends(threshold_interval(pairs, each.cut, of_far))
        elif each.name == "TAR":
            yield each, OURS, ends(tar_at_target(pairs, each.cut, each.value, each.replicates))
        if each.name in ("FAR", "TAR"):
            yield each, "studentised", studentised(each.value, each.replicates, people)


def of_fewer(world: World, models: list[PairScores], redrawing: Redrawing) -> Found:
    """The intervals of one set by replicates of m = n^0.7 people (Bickel, Goetze and van Zwet 1997).

    What a replicate differs by from the set is shrunk by sqrt(m / n), since all figures vary like one over the root of
    the number of people. The interval is the middle 95 %, or its mirror image at the figure, as that theory has it.
    """
    people = len(models[0].images)
    fewer = round(people**0.7)
    random = np.random.default_rng([redrawing.seed, 7])
    draws = random.multinomial(fewer, np.full(people, 1 / people), size=redrawing.replicates).astype(np.int64)
    for each in figures(world, models, with_replicates(world, models, [Weights(draws)])):
        shrunk = each.value + (each.replicates - each.value) * (fewer / people) ** 0.5
        lower, upper = between(shrunk, 0.025, 0.975)
        yield each, "m out of n", (lower, upper)
        yield each, "m out of n, mirrored", (2 * each.value - upper, 2 * each.value - lower)


#: How many people the replicates have, with the rules that use them.
DRAWN = {"n": of_all, "m": of_fewer}


def cells(numbers: Sequence[int], sets: int, known: Callable[..., bool]) -> Iterator[list[Row]]:
    """The rows of each world and number of people; first all rules but `m out of n`."""
    for drawn in DRAWN:
        for people in numbers:
            for world in WORLDS:
                if not known(world.name, people, drawn):
                    yield list(cell(world, people, sets, 200, drawn))


def cell(world: World, people: int, sets: int, replicates: int, drawn: str) -> Iterator[Row]:
    """The rows of one world and number of people."""
    held: dict[tuple[str, str, float, str], list[tuple[float, float, float]]] = {}
    for number in range(sets):
        for each, rule, interval in of_set(world, people, number, replicates, drawn):
            held.setdefault((each.far, each.name, each.tar, rule), []).append((each.truth, *interval))
    for key, kept in held.items():
        truth, lower, upper = np.array(kept).T
        below, above = float((truth < lower - 1e-12).mean()), float((truth > upper + 1e-12).mean())
        width = float(np.median(upper - lower))
        yield Row(world.name, people, *key, 1 - below - above, below, above, width, sets, drawn)


def of_set(world: World, people: int, number: int, replicates: int, drawn: str) -> list[tuple["Figure", str, Ends]]:
    """The intervals of one set, from as many impostor scores as they need."""
    times = 8
    while True:
        try:
            return list(DRAWN[drawn](world, world.draw(people, number, times), Redrawing(replicates, number)))
        except TooFewScoresError:
            times *= 4


def main() -> None:
    made = parser(__doc__, "300 sets of each cell, and 400 people")
    made.add_argument("--people", type=int, nargs="*", help="only these numbers of people")
    options = made.parse_args()
    size = Size.of(options)
    table = Table(size.path("intervals"), Row, ("world", "people", "drawn"), digits=4)
    numbers = options.people or (PEOPLE if size.full else PEOPLE[:2])
    table.fill(cells(numbers, size.sets(300, 20), table.has))


if __name__ == "__main__":
    main()
