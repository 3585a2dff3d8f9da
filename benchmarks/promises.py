"""How often the promises of thresholds hold, in made-up worlds of people whose truth is known; see also intervals.py.

    python benchmarks/promises.py [--full] [--part-of K]

A cell is one world, number of people and FAR. Its rows go to promises_quick.csv, or with --full to promises.csv, the
source of the figures in docs/lab/promises.md, when it is finished; a stopped run continues (`cells.py`). Seeds are
fixed, so a run can be repeated.

In a world every person has a likeness to others and a difficulty. An impostor score is the likeness of its two people
plus noise of the images and of the pair; a genuine score is noise less the person's difficulty. Thresholds come from
sets of people, by the functions that `verisphere calibrate` calls. What is true of everybody comes from a million
comparisons that share nobody.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from cells import Size, Table, parser
from gallery_page import markdown, percent

from verisphere.base.vocabulary import Redrawing
from verisphere.decide import (
    PairScores,
    approximate_threshold,
    ask_deeper,
    comparisons_needed,
    confidence_limit,
    enough,
    independent_threshold,
    people_needed,
    share_above,
)

TRUTH = 1_000_000  # comparisons: a FAR of 1e-2 is known to 1 % of itself
IMAGES = 3  # of each person
TAR = 0.9  # of everybody at the target FAR: genuine scores lie where it is this, in every world
#: The promises, with the titles of their columns.
SHOWN = {"confident": "`confident`", "expected": "`expected`; mean FAR", "approximate": "`approximate` (limit)"}
Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def nothing(random: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    """Nobody differs."""
    return np.zeros(size)


def moderate(random: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    """Everybody differs a little."""
    return 0.5 * random.standard_normal(size)


def tailed(random: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    """Some differ more than the rest: an exponential tail."""
    return 0.5 * random.standard_exponential(size)


def heavy(random: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    """Few differ much: the absolute value of Student's t with two degrees of freedom, whose variance is infinite."""
    return 0.3 * np.abs(random.standard_t(2, size))


def two_types(random: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    """One person in twenty resembles everybody somewhat."""
    return (random.random(size) < 0.05).astype(float)


def hubs(far: float) -> Draw:
    """As few resemble everybody as make a share of all pairs slightly above the target FAR: the worst case."""
    share = 1 - (1 - 1.05 * far) ** 0.5
    return lambda random, size: 5.0 * (random.random(size) < share)


@dataclass(frozen=True)
class World:
    """A population of people.

    Attributes:
        name: what the world is called.
        target: FAR at which everybody's TAR is `tar`.
        likeness: draws how much a person resembles others; impostor scores rise by it.
        difficulty: draws how hard a person is to recognise; genuine scores fall by it.
        seed: determines every random draw of this world.
        tar: TAR of everybody at the target FAR.
    """

    name: str
    target: float
    likeness: Draw
    difficulty: Draw
    seed: int = 0
    tar: float = TAR

    def impostors(self, random: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
        """Scores of comparisons that share no person."""
        images = 0.3 * random.standard_normal((2, *size))
        chance = np.sqrt(0.5) * random.standard_normal(size)
        return self.likeness(random, (2, *size)).sum(0) + images.sum(0) + chance

    @cached_property
    def truth(self) -> np.ndarray:
        """Scores of many comparisons that share nobody, ascending."""
        return np.sort(self.impostors(np.random.default_rng([self.seed, 1]), (TRUTH,)))

    def far(self, threshold: float) -> float:
        """Everybody's, at a threshold."""
        return 1 - np.searchsorted(self.truth, threshold, side="right") / TRUTH

    @cached_property
    def threshold(self) -> float:
        """Everybody's, at the target FAR."""
        return float(self.truth[TRUTH - 1 - int(self.target * TRUTH)])

    @cached_property
    def level(self) -> float:
        """What genuine scores are raised by, so that `tar` of everybody's lie above the threshold."""
        random = np.random.default_rng([self.seed, 2])
        noise = np.sqrt(2 * 0.3**2 + 0.5) * random.standard_normal(TRUTH)
        return self.threshold - float(np.quantile(noise - self.difficulty(random, (TRUTH,)), 1 - self.tar))

    def draw_set(self, people: int, number: int) -> Callable[[int], PairScores]:
        """All pairs of a set of people, to be asked how deep the highest impostor scores are to go."""
        random = np.random.default_rng([self.seed, 3, people, number])
        image = 0.3 * random.standard_normal((people, IMAGES)) + self.likeness(random, (people, 1))
        left, right = np.triu_indices(people, 1)
        impostor = image[left][:, :, None] + image[right][:, None, :]
        impostor += 0.5 * random.standard_normal((len(left), 1, 1)) + 0.5 * random.standard_normal(impostor.shape)
        first, second = np.triu_indices(IMAGES, 1)
        own = 0.3 * random.standard_normal((people, IMAGES))
        genuine = self.level - self.difficulty(random, (people, 1)) + own[:, first] + own[:, second]
        genuine += np.sqrt(0.5) * random.standard_normal(genuine.shape)
        scores = impostor.ravel()

        def highest(times: int) -> PairScores:
            count = enough(self.target, len(scores), times)
            rows = np.argpartition(-scores, count - 1)[:count]
            rows = rows[np.argsort(-scores[rows], kind="stable")]
            pair = rows // IMAGES**2
            return PairScores(
                genuine=genuine.ravel(),
                genuine_person=np.repeat(np.arange(people), len(first)),
                impostor=scores[rows],
                impostor_people=np.stack([left[pair], right[pair]], 1),
                images=np.full(people, IMAGES),
            )

        return highest


@dataclass(frozen=True)
class Held:
    """How often one promise held in one world.

    Attributes:
        world: its name.
        people: in each set.
        far: target.
        promise: guarantee of a threshold, or interval of a figure.
        stated: share of sets in which it is said to hold: the confidence, for `expected` at least 1 - `share_above`,
            for `approximate` at most this; None where it is refused.
        held: share of the sets in which it held.
        sets: how many.
        mean_far: the thresholds' mean FAR over the target; `expected` promises at most 1.
        tar: everybody's TAR.
    """

    world: str
    people: int
    far: float
    promise: str
    stated: float | None
    held: float | None
    sets: int
    mean_far: float | None = None
    tar: float = TAR


#: Target FARs, with the numbers of people in a set: for the tables up to ten times the fewest of `approximate`, 50 and
#: 138.
QUICK = {1e-1: (60, 200), 1e-2: (60, 200)}
FULL = {1e-1: (50, 60, 200, 500), 1e-2: (60, 138, 200, 600, 1_380)}


def worlds(far: float) -> tuple[World, ...]:
    """The worlds; the worst one is worst at a FAR of its own."""
    return (
        World("alike", far, nothing, nothing),
        World("differing", far, moderate, moderate),
        World("tails", far, tailed, tailed),
        World("heavy tails", far, heavy, heavy),
        World("worst case", far, hubs(far), moderate),
    )


def of_matched(world: World, people: int, sets: int) -> Iterator[Held]:
    """`expected` and `confident`, from comparisons that share no person."""
    far, comparisons = world.target, people // 2
    scores = world.impostors(np.random.default_rng([world.seed, 4, people]), (sets, comparisons))
    for guarantee in ("expected", "confident"):
        if comparisons < comparisons_needed(far, guarantee):
            yield Held(world.name, people, far, guarantee, None, None, sets)
            continue
        fars = np.array([world.far(independent_threshold(row, far, guarantee).threshold) for row in scores])
        stated = 0.95 if guarantee == "confident" else 1 - share_above(comparisons, far)
        yield Held(world.name, people, far, guarantee, stated, _share(fars <= far), sets, float(fars.mean() / far))


def of_all_pairs(world: World, people: int, sets: int, replicates: int) -> Iterator[Held]:
    """`approximate`, from all pairs of a set."""
    far = world.target
    if people < people_needed(far, "approximate"):
        yield Held(world.name, people, far, "approximate", None, None, sets)
        return
    fars = []
    for number in range(sets):
        highest = world.draw_set(people, number)

        def ask(times: int, highest: Callable[[int], PairScores] = highest, seed: int = number) -> float:
            return approximate_threshold(highest(times), far, Redrawing(replicates, seed)).threshold

        fars.append(world.far(ask_deeper(ask)))
    kept, mean = np.array(fars) <= far, float(np.mean(fars) / far)
    yield Held(world.name, people, far, "approximate", confidence_limit(people, far), _share(kept), sets, mean)


def _share(kept: np.ndarray) -> float:
    return float(kept.mean())


def simulate(size: Size, known: Callable[..., bool]) -> Iterator[list[Held]]:
    """Every promise in every world, at every FAR, for every size of set; a world of two types of people, too."""
    replicates = 200 if size.full else 100
    for far, numbers in (FULL if size.full else QUICK).items():
        for world in (*worlds(far), World("two types", far, two_types, moderate)):
            for people in numbers:
                if not known(world.name, people, far):
                    matched = of_matched(world, people, size.sets(10_000, 1_000))
                    yield [*matched, *of_all_pairs(world, people, size.sets(300, 60), replicates)]


def text(rows: Sequence[dict[str, str]]) -> str:
    """The table of docs/lab/promises.md: a line for each FAR, number of people and world."""
    lines: dict[tuple[str, str, str], dict[str, dict[str, str]]] = {}
    for row in sorted(rows, key=lambda row: (-float(row["far"]), int(row["people"]))):
        lines.setdefault((row["far"], row["people"], row["world"]), {})[row["promise"]] = row
    cells = [[*place, *(_cell(promises[name]) for name in SHOWN)] for place, promises in lines.items()]
    return markdown(["FAR", "people", "world", *SHOWN.values()], cells)


def _cell(row: dict[str, str]) -> str:
    if not row["held"] or not row["stated"]:
        return "refused"
    held = percent(float(row["held"]))
    if row["promise"] == "expected":
        return f"{held}; {float(row['mean_far']):.2f} f"
    return held + (f" ({percent(float(row['stated']))})" if row["promise"] == "approximate" else "")


def main() -> None:
    size = Size.of(parser(__doc__, "also 600 people, and more sets and replicates").parse_args())
    filled = Table(size.path("promises"), Held, ("world", "people", "far"))
    filled.fill(simulate(size, filled.has))
    print(f"share of sets in which a promise held (f: the target FAR; rows in {filled.path.name})\n")
    print(text(filled.rows()))


if __name__ == "__main__":
    main()
