"""How often the promises from comparisons that share no person held, up to 60,000 people, in six kinds of world.

The worlds of benchmarks/promises.py and one of two types of people that reaches a cap of 5. The numbers of people are
the fewest that `confident` takes, three and ten times as many; `worst-group` has two domains of so many people each, of
which the second one's scores are higher by 0.3. The true FAR of a threshold is exact.

`python benchmarks/disjoint.py [--full]`: rows of part `disjoint` in benchmarks/few_people.csv (`--full`, 2,000 sets,
a quarter of an hour of a core), else in few_people_quick.csv. Cells that are there are not made again.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from few_people import NOISE, TIMES, Cell, Known, Rounded, cell, known_cells, write
from promises import worlds

from verisphere.decide import independent_threshold
from verisphere.decide.sample_size import people_needed
from verisphere.decide.worst_group import worst_group_threshold

SHIFT = 0.3  # of the scores of the second domain


def of_disjoint(sets: int, rates: tuple[str, ...], known: Known) -> Iterator[Cell]:
    """`expected`, `confident` and `worst-group` in each world."""
    for far in rates:
        for number in range(6):
            made: Rounded | None = None
            for times in TIMES:
                people = min(times * people_needed(far, "confident"), 60_000)
                name = (*(world.name for world in worlds(float(far))), "two types, at the cap 5")[number]
                if known("disjoint", name, people, far) or (people == 60_000 and times > TIMES[1] and far == "1e-4"):
                    continue
                made = made or population(number, far)
                yield from held(made, name, people, far, sets)


def population(number: int, far: str) -> Rounded:
    """One of the six."""
    made = worlds(float(far))
    return Rounded.of(made[number]) if number < len(made) else Rounded.at_cap("two types", 5.0, float(far))


def held(drawn: Rounded, name: str, people: int, far: str, sets: int) -> Iterator[Cell]:
    """Every promise at one number of people."""
    random = np.random.default_rng([21, people])

    def scores() -> np.ndarray:
        value = random.choice(drawn.value, (2, people // 2), p=drawn.share)
        return np.asarray(value.sum(0) + NOISE * random.standard_normal(people // 2))

    fars: dict[str, list[float]] = {"expected": [], "confident": [], "worst-group": []}
    for _ in range(sets):
        of = {"one": scores(), "other": scores() + SHIFT}
        for guarantee in ("expected", "confident"):
            fars[guarantee].append(drawn.far_at(independent_threshold(of["one"], far, guarantee).threshold))
        worst = worst_group_threshold(of, dict.fromkeys(of, people), far).threshold
        fars["worst-group"].append(drawn.far_at(worst - SHIFT))
    for promise, found in fars.items():
        yield cell("disjoint", name, people, far, promise, drawn.cap, np.array(found), drawn.far)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="2,000 sets of each cell, and FAR 1e-4")
    full = parser.parse_args().full
    path = Path(__file__).with_name("few_people.csv" if full else "few_people_quick.csv")
    done = known_cells(path)
    rates = ("1e-2", "1e-3", "1e-4") if full else ("1e-2",)
    write(of_disjoint(2_000 if full else 100, rates, lambda *one: tuple(map(str, one)) in done), path)


if __name__ == "__main__":
    main()
