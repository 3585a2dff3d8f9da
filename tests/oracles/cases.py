"""Seeded cases on which decision rules go wrong: few distinct scores, both zeros, infinities, targets that fall on a
whole number of impostors.

Only `random.Random.random` is drawn from, whose stream Python promises to keep: every environment makes the same cases.
As a script it writes them for tools that live in an environment of their own:

    python tests/oracles/cases.py cases.json
"""

import hashlib
import json
import math
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

#: How many cases the acceptance of the decision code asks for.
CASES = 2000

QUARTERS = [-1.0, -0.75, -0.5, -0.25, -0.0, 0.0, 0.25, 0.5, 0.75, 1.0]
TENTHS = [-0.3, -0.1, -0.0, 0.0, 0.1, 0.2, 0.3, 0.7, 0.9]
# One unit in the last place apart around 0.1, and 0.1 as float32 and as bfloat16 hold it.
NEIGHBOURS = [0.1, math.nextafter(0.1, 1), math.nextafter(0.1, 0), 0.10000000149011612, 0.10009765625, -0.0, 0.0]
# Scores outside [-1, 1] are kept; the smallest float64 above 0 is not 0.
WIDE = [-1e300, -40.0, -1.5, -5e-324, -0.0, 0.0, 5e-324, 1.5, 40.0, 1e300]
INFINITE = [-math.inf, -0.5, -0.0, 0.0, 0.5, math.inf]
POOLS = [QUARTERS, TENTHS, NEIGHBOURS, WIDE, INFINITE]
SIZES = [1, 2, 4, 5, 8, 10, 16, 20, 25, 32, 40, 50]  # of which every j/n is a short decimal
FIXED = ["0", "1", "1e-4", "0.29", "0.57", "1E-1", ".5"]


@dataclass(frozen=True)
class Case:
    """Scores of both classes, and the targets to decide them at."""

    genuine: list[float]
    impostor: list[float]
    fars: list[str]


@dataclass(frozen=True)
class Gallery:
    """Probes searched in one gallery.

    Attributes:
        probes: the person on each probe.
        people: the person on each image of the gallery; some have several.
        scores: for each probe a row with its score with each image.
    """

    probes: list[str]
    people: list[str]
    scores: list[list[float]]

    @property
    def mates(self) -> list[list[float]]:
        """For each probe its scores with its own person's images; none where that person is not in the gallery."""
        return [
            [score for score, person in zip(row, self.people, strict=True) if person == probe]
            for probe, row in zip(self.probes, self.scores, strict=True)
        ]

    @property
    def others(self) -> list[list[float]]:
        """For each probe its best score with each other person of the gallery."""
        return [
            [
                max(score for score, person in zip(row, self.people, strict=True) if person == other)
                for other in sorted(set(self.people) - {probe})
            ]
            for probe, row in zip(self.probes, self.scores, strict=True)
        ]


def pick(source: random.Random, items: Sequence[T]) -> T:
    return items[int(source.random() * len(items))]


def between(source: random.Random, low: int, high: int) -> int:
    """A whole number, both ends included."""
    return low + int(source.random() * (high - low + 1))


def some(source: random.Random, pool: Sequence[float], count: int) -> list[float]:
    """So many scores of a few of the pool's values, so that most are tied."""
    few = [pick(source, pool) for _ in range(between(source, 1, 6))]
    return [pick(source, few) for _ in range(count)]


def size(source: random.Random) -> int:
    return pick(source, SIZES) if source.random() < 0.6 else between(source, 1, 60)


def decimal(value: Fraction, digits: int = 40) -> str:
    """A number in [0, 1] as a decimal, cut off (not rounded) after so many digits.

    >>> decimal(Fraction(3, 8)), decimal(Fraction(2, 3), 5), decimal(Fraction(1))
    ('0.375', '0.66666', '1')
    """
    whole, rest = divmod(value, 1)
    text = str(math.floor(rest * 10**digits)).rjust(digits, "0").rstrip("0")
    return f"{whole}.{text}" if text else str(whole)


def target(source: random.Random, impostors: int) -> str:
    """A FAR: on a whole number of impostors, halfway between two (a tie of rule `nearest`), or any other."""
    kind, step = source.random(), between(source, 0, impostors)
    if kind < 0.4:
        return decimal(Fraction(step, impostors))  # cut off below j/n where that has no end: one impostor fewer
    if kind < 0.6:
        return decimal(Fraction(min(2 * step + 1, 2 * impostors), 2 * impostors))
    if kind < 0.8:
        return pick(source, FIXED)
    return decimal(Fraction(between(source, 0, 1000), 1000))


def make_cases(count: int = CASES, seed: int = 0, pools: Sequence[Sequence[float]] = POOLS) -> list[Case]:
    """So many cases, pools in turn, three targets each."""
    source = random.Random(seed)
    made = []
    for index in range(count):
        pool = pools[index % len(pools)]
        genuine, impostor = some(source, pool, size(source)), some(source, pool, size(source))
        made.append(Case(genuine, impostor, [target(source, len(impostor)) for _ in range(3)]))
    return made


def make_galleries(count: int = CASES, seed: int = 1) -> list[Gallery]:
    """So many searches: 2 to 12 probes, the first mated and the second not, 1 to 12 people with 1 to 3 images each."""
    source = random.Random(seed)
    made = []
    for index in range(count):
        pool = POOLS[index % len(POOLS)]
        few = [pick(source, pool) for _ in range(between(source, 2, 6))]
        enrolled = [f"person {number}" for number in range(between(source, 1, 12))]
        people = [person for person in enrolled for _ in range(between(source, 1, 3))]
        probes = [pick(source, enrolled), "stranger"]
        probes += [pick(source, [*enrolled, "stranger"]) for _ in range(between(source, 0, 10))]
        if source.random() < 0.5:  # else nearly all are mated, for want of more strangers
            probes = [*probes[:2], *("stranger" if source.random() < 0.5 else probe for probe in probes[2:])]
        made.append(Gallery(probes, people, [[pick(source, few) for _ in people] for _ in probes]))
    return made


def as_json(cases: Sequence[Case], galleries: Sequence[Gallery]) -> str:
    """The cases as other environments read them; infinities as Python's json writes them."""
    searches = [{"mates": gallery.mates, "others": gallery.others} for gallery in galleries]
    return json.dumps({"cases": [vars(case) for case in cases], "galleries": searches})


def asked_elsewhere() -> str:
    """What bob/ask.py is asked: every case, and as many searches as leave its answers small."""
    return as_json(make_cases(), make_galleries(300))


def digest(text: str) -> str:
    """SHA-256, which ties answers to the cases they were given for."""
    return hashlib.sha256(text.encode()).hexdigest()


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(asked_elsewhere())
