"""How often intervals over redrawn people hold, beside other rules for them, in made-up worlds.

    python benchmarks/intervals.py [--full] [--people NUMBER ...]

A cell is one world and number of people. Its rows go to intervals_quick.csv, or with --full to intervals.csv, when it
is finished; cells that are there are not computed again, so a stopped run continues. All rules are given the same
replicates of the same sets. The worlds are like those of promises.py, with further ones: people with many images,
domains, and a few look-alikes. TAR is 0.5, 0.9 or 0.99 at the target FAR, and the difference of two models that are
equally good is 0.
"""

import argparse
import csv
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path

import numpy as np
from promises import Draw, heavy, moderate, nothing, tailed
from scipy.special import ndtr, ndtri, stdtrit

from verisphere.base.vocabulary import Redrawing, quietly
from verisphere.decide import Interval, PairScores, TooFewScoresError
from verisphere.decide.bootstrap import everyone, fars_at, redrawn, tars_at, thresholds_of
from verisphere.decide.intervals import (
    far_interval,
    percentile_interval,
    tar_at_target,
    threshold_interval,
)

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


def two_types(random: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    """One person in twenty resembles everybody somewhat."""
    return (random.random(size) < 0.05).astype(float)


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


Found = Iterator[tuple[str, str, float, str, float, Ends]]  # FAR, figure, TAR, rule, truth, interval


def of_set(world: World, models: list[PairScores], redrawing: Redrawing) -> Found:
    """Every interval of one set."""
    pairs, other = models
    people = len(pairs.images)
    cuts, other_cuts = (thresholds_of(each, everyone(people), FARS)[:, 0] for each in models)
    levels, places = list(world.levels.items()), {far: place for place, far in enumerate(FARS)}
    equal = world.levels[FARS[0], 0.9]
    runs = []
    for weights in redrawn(people, redrawing, quietly):
        thresholds = thresholds_of(pairs, weights, FARS)
        tars = [tars_at(pairs, weights, thresholds[places[far], None] - level) for (far, _), level in levels]
        theirs = tars_at(other, weights, thresholds_of(other, weights, FARS[:1]) - equal)
        runs.append((thresholds, fars_at(pairs, weights, cuts), np.concatenate([*tars, theirs])))
    thresholds, rates, tars = (np.concatenate(parts, axis=1) for parts in zip(*runs, strict=True))
    for place, far in enumerate(FARS):
        cut = float(cuts[place])
        value = float(np.count_nonzero(pairs.impostor > cut) / pairs.impostor_total)
        of_far = far_interval(pairs, cut, value, rates[place])
        compared = pairs.images * (pairs.images.sum() - pairs.images)
        accepted = np.bincount(pairs.impostor_people[pairs.impostor > cut].ravel(), minlength=people)
        truth = world.far(cut)
        for rule, interval in others(value, rates[place], accepted - value * compared):
            yield far, "FAR", 0.0, rule, truth, interval
        yield far, "FAR", 0.0, "studentised", truth, studentised(value, rates[place], people)
        yield far, "FAR", 0.0, OURS, truth, ends(of_far)
        truth = world.threshold(far)
        for rule, interval in others(cut, thresholds[place], accepted - value * compared):
            yield far, "threshold", 0.0, rule, truth, interval
        yield far, "threshold", 0.0, OURS, truth, ends(threshold_interval(pairs, cut, of_far))
    for ((far, tar), level), replicates in zip(levels, tars, strict=False):
        cut = cuts[places[far]] - level
        value = float(np.mean(pairs.genuine > cut))
        influence = influence_at(pairs, cut, value)
        for rule, interval in others(value, replicates, influence):
            yield far, "TAR", tar, rule, tar, interval
        yield far, "TAR", tar, "studentised", tar, studentised(value, replicates, people)
        yield far, "TAR", tar, OURS, tar, ends(tar_at_target(pairs, cut, value, replicates))
        if (far, tar) == (FARS[0], 0.9):
            cut = other_cuts[0] - level
            theirs = float(np.mean(other.genuine > cut))
            influence, apart = influence - influence_at(other, cut, theirs), replicates - tars[-1]
            for rule, interval in others(value - theirs, apart, influence):
                yield far, "difference", tar, rule, 0.0, interval


def cell(world: World, people: int, sets: int, replicates: int) -> Iterator[Row]:
    """The rows of one world and number of people."""
    found: dict[tuple[str, str, float, str], list[tuple[float, float, float]]] = {}
    for number in range(sets):
        for far, figure, tar, rule, truth, interval in drawn(world, people, number, replicates):
            found.setdefault((far, figure, tar, rule), []).append((truth, *interval))
    for (far, figure, tar, rule), kept in found.items():
        truth, lower, upper = np.array(kept).T
        below, above = float((truth < lower - 1e-12).mean()), float((truth > upper + 1e-12).mean())
        width = float(np.median(upper - lower))
        yield Row(world.name, people, far, figure, tar, rule, 1 - below - above, below, above, width, sets)


def drawn(world: World, people: int, number: int, replicates: int) -> list[tuple[str, str, float, str, float, Ends]]:
    """The intervals of one set, from as many impostor scores as they need."""
    times = 8
    while True:
        try:
            return list(of_set(world, world.draw(people, number, times), Redrawing(replicates, number)))
        except TooFewScoresError:
            times *= 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="300 sets of each cell, and 400 people (half an hour)")
    parser.add_argument("--people", type=int, nargs="*", help="only these numbers of people")
    options = parser.parse_args()
    path = Path(__file__).with_name("intervals.csv" if options.full else "intervals_quick.csv")
    sets, numbers = (300, PEOPLE) if options.full else (20, PEOPLE[:2])
    names, started = [field.name for field in fields(Row)], time.monotonic()
    if not path.exists():
        path.write_text(",".join(names) + "\n", encoding="utf-8")
    with path.open(newline="", encoding="utf-8") as file:
        done = {(row["world"], row["people"]) for row in csv.DictReader(file)}
    for people in options.people or numbers:
        for world in WORLDS:
            if (world.name, str(people)) in done:
                continue
            rows = list(cell(world, people, sets, 200))
            with path.open("a", newline="", encoding="utf-8") as file:
                values = ({key: _written(value) for key, value in asdict(row).items()} for row in rows)
                csv.DictWriter(file, names, lineterminator="\n").writerows(values)
            held = [row.held for row in rows if row.rule == OURS]
            told = f"{world.name}, {people} people: {OURS} held in {min(held):.3f} to {max(held):.3f}"
            print(f"{time.monotonic() - started:5.0f} s  {told}", file=sys.stderr, flush=True)


def _written(value: object) -> object:
    return f"{value:.4g}" if isinstance(value, float) else value


if __name__ == "__main__":
    main()
