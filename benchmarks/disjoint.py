"""How often the promises from comparisons that share no person held, up to 60,000 people, in six kinds of world.

The worlds of benchmarks/promises.py and one of two types of people that reaches a cap of 5. The numbers of people are
the fewest that `expected` takes, and the fewest that `confident` takes, three and ten times as many; `worst-group` has
two domains of so many people each, of which the second one's scores are higher by 0.3. The true FAR of a threshold is
exact.

`python benchmarks/disjoint.py [--full] [--part-of K]`: rows of part `disjoint` in benchmarks/few_people.csv (`--full`,
2,000 sets), else in few_people_quick.csv. Cells that are there are not made again.
"""

from collections.abc import Iterator

import numpy as np
from cells import Size, parser
from few_people import NOISE, TIMES, Cell, Known, Rounded, cell, six_populations, table_in

from verisphere.decide import independent_threshold
from verisphere.decide.sample_size import people_needed
from verisphere.decide.worst_group import worst_group_threshold

SHIFT = 0.3  # of the scores of the second domain


def of_disjoint(sets: int, rates: tuple[str, ...], known: Known) -> Iterator[list[Cell]]:
    """`expected`, `confident` and `worst-group` in each world."""
    for far in rates:
        least = people_needed(far, "confident")
        numbers = people_needed(far, "expected"), *(min(times * least, 60_000) for times in TIMES)
        for name, make in six_populations(far).items():
            made: Rounded | None = None
            for people in dict.fromkeys(numbers):
                if not known("disjoint", name, people, far):
                    made = made or make()
                    yield list(held(made, name, people, far, sets))


def held(drawn: Rounded, name: str, people: int, far: str, sets: int) -> Iterator[Cell]:
    """Every promise at one number of people."""
    random = np.random.default_rng([21, people])

    def scores() -> np.ndarray:
        value = random.choice(drawn.value, (2, people // 2), p=drawn.share)
        return np.asarray(value.sum(0) + NOISE * random.standard_normal(people // 2))

    enough = people >= people_needed(far, "confident")
    fars: dict[str, list[float]] = {name: [] for name in ("expected", "confident", "worst-group")[: 1 + 2 * enough]}
    for _ in range(sets):
        of = {"one": scores(), "other": scores() + SHIFT}
        for guarantee in ("expected", "confident")[: 1 + enough]:
            fars[guarantee].append(drawn.far_at(independent_threshold(of["one"], far, guarantee).threshold))
        if not enough:
            continue
        worst = worst_group_threshold(of, dict.fromkeys(of, people), far).threshold
        fars["worst-group"].append(drawn.far_at(worst - SHIFT))
    for promise, found in fars.items():
        yield cell("disjoint", name, people, far, promise, drawn.cap, np.array(found), drawn.far)


def main() -> None:
    size = Size.of(parser(__doc__, "2,000 sets of each cell, and FAR 1e-3 and 1e-4").parse_args())
    table = table_in(size.path("few_people"))
    rates = ("1e-2", "1e-3", "1e-4") if size.full else ("1e-2",)
    table.fill(of_disjoint(size.sets(2_000, 100), rates, table.has))


if __name__ == "__main__":
    main()
