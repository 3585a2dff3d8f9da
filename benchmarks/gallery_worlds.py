"""Made-up worlds of strangers and galleries: how often thresholds hold, what growth does, and wrong labels.

A person has a likeness to others. A stranger's score with an enrolled person is the likeness of both, plus noise of the
two images and of the pair, as in promises.py. Given a gallery, the best score of a stranger is therefore his own
likeness and noise plus a draw whose distribution is a product of normal ones, which is inverted on a grid.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from gallery_pools import Pool, Row, coverage
from promises import Draw, heavy, moderate, nothing, tailed
from scipy.special import log_ndtr

from verisphere.decide import gallery_threshold

IMAGE, PAIR = 0.3, np.sqrt(0.5)  # standard deviations of the noise of an image and of a pair
GRID = 512


def hubs(share: float) -> Draw:
    """A share of people who resemble everybody."""
    return lambda random, size: 5.0 * (random.random(size) < share)


@dataclass(frozen=True)
class World:
    """A population of people.

    Attributes:
        name: what the world is called.
        likeness: draws how much a person resembles others.
        enrolled: the same of people who are enrolled, where these differ.
    """

    name: str
    likeness: Draw
    enrolled: Draw | None = None

    def gallery(self, random: np.random.Generator, people: int) -> np.ndarray:
        """Likeness and noise of the photographs of people who are enrolled."""
        likeness = (self.enrolled or self.likeness)(random, (people,))
        return likeness + IMAGE * random.standard_normal(people)

    def strangers(self, random: np.random.Generator, gallery: np.ndarray, count: int) -> np.ndarray:
        """The best score of each of so many strangers."""
        own = self.likeness(random, (count,)) + IMAGE * random.standard_normal(count)
        return own + best_of(gallery, random.random(count))


def best_of(gallery: np.ndarray, quantiles: np.ndarray) -> np.ndarray:
    """Quantiles of the highest of the gallery's numbers, each with the noise of a pair."""
    near = gallery[gallery > gallery.max() - 12 * PAIR]  # the others are never the highest
    grid = np.linspace(gallery.max() - 6 * PAIR, gallery.max() + 8 * PAIR, GRID)
    logs = np.concatenate([log_ndtr((part[:, None] - near) / PAIR).sum(1) for part in np.array_split(grid, 16)])
    return np.interp(quantiles, np.exp(logs), grid)


def worlds(rate: str) -> tuple[World, ...]:
    """The worlds of promises.py; in the worst case slightly more strangers than the target resemble everybody."""
    return (
        World("alike", nothing),
        World("differing", moderate),
        World("tails", tailed),
        World("heavy tails", heavy),
        World("worst case", hubs(1.05 * float(rate)), nothing),
    )


def covered(sizes: Sequence[int], rates: Sequence[str], galleries: int, pool: int, runs: int) -> Iterator[Row]:
    """Coverage in every world, for every size of gallery and every rate."""
    for rate in rates:
        for number, world in enumerate(worlds(rate)):
            for people in sizes:
                random = np.random.default_rng([1, people, number, round(1 / float(rate))])
                pools = [Pool(world.strangers(random, world.gallery(random, people), pool)) for _ in range(galleries)]
                yield from coverage("coverage, worlds", world.name, people, pools, [rate], runs, random)


def covered_again(galleries: int, pool: int, runs: int) -> Iterator[Row]:
    """The world whose cells were furthest from what is exact, with more calibrations of other seeds."""
    world = next(world for world in worlds("1e-2") if world.name == "heavy tails")
    for people in (1_000, 10_000):
        random = np.random.default_rng([14, people])
        pools = [Pool(world.strangers(random, world.gallery(random, people), pool)) for _ in range(galleries)]
        yield from coverage("coverage again", world.name, people, pools, ["1e-2"], runs, random)


def grown(sizes: Sequence[int], rate: str, galleries: int, pool: int, runs: int) -> Iterator[Row]:
    """FPIR after people joined a gallery, of thresholds from before, and of one that no gallery was asked for.

    The counter-example: one enrolled person in twice the number of the gallery resembles everybody.
    """
    for people in sizes:
        rare = World("one in 2n enrolled resembles everybody", nothing, hubs(1 / (2 * people)))
        for world in (World("differing", moderate), World("heavy tails", heavy), rare):
            random = np.random.default_rng([2, people])
            first = [world.gallery(random, people) for _ in range(galleries)]
            before = [Pool(world.strangers(random, gallery, pool)) for gallery in first]
            fixed = float(np.quantile(np.concatenate([part.statistics for part in before]), 1 - float(rate)))
            strangers = 1_000
            thresholds = [
                gallery_threshold(part.draw(random, strangers), rate, people=people).threshold
                for part in before
                for _ in range(runs)
            ]
            start = [before[place // runs].rate(threshold) for place, threshold in enumerate(thresholds)]
            for share in (0.1, 0.5, 1.0):
                joined = max(round(share * people), 1)
                after = [
                    Pool(world.strangers(random, np.concatenate([gallery, world.gallery(random, joined)]), pool))
                    for gallery in first
                ]
                rates = [after[place // runs].rate(threshold) for place, threshold in enumerate(thresholds)]
                about = ("growth", world.name, f"+{joined} people", people, rate, strangers)
                yield Row(*about, "law", 1 + joined / people)
                yield Row(*about, "mean FPIR / mean before", np.mean(rates) / np.mean(start), runs=len(rates))
                held = np.mean(np.array(rates) <= (1 + joined / people) * float(rate))
                yield Row(*about, "held at law x f", float(held), runs=len(rates))
                of_fixed = [part.rate(fixed) for part in after]
                over = np.mean(of_fixed) / np.mean([part.rate(fixed) for part in before])
                yield Row(*about, "the same, threshold fixed without the gallery", float(over), runs=galleries)
