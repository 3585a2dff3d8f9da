"""An FRR promised beside a FAR: a lower threshold for "different people", and "unsure" between the two.

Each person with two images or more gives one number, so that numbers are independent: the score of a random pair of
their images (`one`), or of all their pairs the lower median (`median`) or the lowest (`lowest`). Let u be the j-th
lowest of n numbers. Two photographs show different people iff their score lies below u, and the FRR is the share of
people whose number lies below u. It is the mirror image of the FAR at a threshold (`verisphere.decide.guarantee`): at
most e with the confidence with which Bin(n, e) >= j, ties only lowering it, and at most j / (n + 1) on average.

Both numbers come from the same people, so the two promises may fail together or one without the other; the chance that
one of them fails is at most the sum. `confident` leaves 4 % to the FAR and 1 % to the FRR, together 5 %: strangers who
pass are rare, so a FAR pays for every percent in people, and a genuine rate of some percent hardly does. `expected` is
about two means, which hold side by side.
"""

import math
from dataclasses import astuple, dataclass
from decimal import Decimal
from typing import Literal

import numpy as np
from jaxtyping import Float64, Int64

from verisphere.base.seeds import numpy_generator
from verisphere.base.vocabulary import check_word
from verisphere.base.words import counted, of_things, share
from verisphere.decide.order import Ordered, SortedScores
from verisphere.decide.point import Far, exact_rate, far_text
from verisphere.decide.sample_size import Guarantee, comparisons_needed, independent_rank, lowest_far, promised_rate

Fold = Literal["one", "median", "lowest"]
#: The chance of failing that `confident` leaves to each of the two promises.
FAR_CHANCE, FRR_CHANCE = Decimal("0.04"), Decimal("0.01")
_FOLDED = {
    "one": (
        "pairs of one person",
        "are called different",
        "of people's scores, each of a random pair of their images,",
    ),
    "median": (
        "people",
        "are called different by the median of all pairs of their photographs",
        "of people's medians over all pairs of their images",
    ),
    "lowest": (
        "people",
        "have a pair of photographs that is called different",
        "of people's lowest scores over all pairs of their images",
    ),
}


@dataclass(frozen=True)
class Unsure:
    """How some genuine and impostor numbers are answered by two thresholds.

    `rejected` is the share of the genuine ones below the lower threshold; `genuine` and `impostor` are the shares of
    these between the thresholds, both included.
    """

    rejected: float
    genuine: float
    impostor: float

    def __post_init__(self) -> None:
        shares = astuple(self)
        if not all(0 <= rate <= 1 for rate in shares) or self.rejected + self.genuine > 1 + 1e-9:
            raise ValueError("shares lie between 0 and 1, those of a kind together, got {}, {} and {}".format(*shares))

    @classmethod
    def at(cls, genuine: Ordered, impostor: Ordered, low: float, high: float) -> "Unsure":
        """The shares at two thresholds; the band is empty where `low` lies above `high`."""
        below = just_below(min(low, math.nextafter(high, math.inf)))
        pools = genuine, impostor
        between = [(scores.above(below) - scores.above(high)) / scores.total for scores in pools]
        return cls((genuine.total - genuine.above(below)) / genuine.total, *between)

    def of(self, genuine: str) -> str:
        """For people, with the word for the genuine ones.

        >>> Unsure(0.01, 0.052, 0.0004).of("genuine comparisons")
        '1 % of genuine comparisons are called different; 5.2 % of them and 0.04 % of impostor ones are unsure'
        """
        called, between, impostor = (share(rate, per_cent=True) for rate in astuple(self))
        unsure = f"{between} of them and {impostor} of impostor ones are unsure"
        unsure = unsure if self.genuine or self.impostor else "none is unsure"
        return f"{called} of {genuine} are called different; {unsure}"


@dataclass(frozen=True)
class PromisedFrr:
    """The FRR that is promised beside a FAR: different people iff score < threshold.

    Attributes:
        threshold: u, the lower threshold; where it lies above that of the FAR, no score is unsure.
        people: number of people who gave a number, without those that a review allows to be others.
        rank: j, where u is the j-th lowest number.
    """

    frr_target: str
    threshold: float
    people: int
    rank: int
    fold: Fold
    measured: Unsure

    def __post_init__(self) -> None:
        check_word("fold", self.fold, Fold)
        if not math.isfinite(self.threshold):
            raise ValueError(f"a threshold that is shipped must be finite, got {self.threshold}")

    def check(self, guarantee: Guarantee) -> None:
        """Raises ValueError unless the rank is that of the guarantee."""
        check_frr(self.frr_target, self.fold, guarantee)
        rank = independent_rank(self.people, self.frr_target, guarantee, FRR_CHANCE)
        if rank < 1 or self.rank != rank:
            raise ValueError(
                f"rank {self.rank} of {self.people:,} people is not what guarantee {guarantee!r} takes at FRR "
                f"{self.frr_target}: {rank}"
            )

    def promise(self) -> str:
        """What is promised about one person's photographs, for people, without subject or end."""
        things, are, _ = _FOLDED[self.fold]
        return f"at most {of_things(share(float(exact_rate(self.frr_target)), 'upper'), things)} {are}"

    def band(self, high: float) -> str:
        """Where the answer is unsure, and how often, for people."""
        if self.threshold > high:
            return "no score is unsure"
        return f"from {self.threshold:.6g} to {high:.6g} the answer is unsure: {self.measured.of('people')}"

    def meaning(self, high: float) -> str:
        """The promise in its exact wording."""
        there = "where photographs are called different" if self.threshold <= high else "and the threshold is lower"
        return (
            f"{_FOLDED[self.fold][2]} at most {self.frr_target} lie below {self.threshold:.6g}, {there} (rank "
            f"{self.rank:,} from below of {self.people:,} people with two images or more); {self.band(high)}"
        )


@dataclass(frozen=True, eq=False)
class AskedFrr:
    """An FRR that is asked for, and the numbers of people that promise it; `unfound` ones may be others once more.

    Without those the j-th lowest number is no lower, so the rank that the rest allow keeps the promise.
    """

    frr: Far
    fold: Fold
    numbers: SortedScores
    unfound: int = 0

    def promised(self, guarantee: Guarantee, impostor: Ordered, high: float) -> PromisedFrr | str:
        """The promise beside a threshold at a FAR, or why people are too few for it."""
        people = max(self.numbers.total - self.unfound, 0)
        rank = independent_rank(people, self.frr, guarantee, FRR_CHANCE)
        if rank < 1:
            needed = comparisons_needed(self.frr, guarantee, FRR_CHANCE)
            lowest = lowest_far(people, guarantee, FRR_CHANCE)
            possible = f"; possible: FRR {lowest} or higher" if lowest else ""
            return (
                f"guarantee {guarantee!r} at FRR {far_text(self.frr)} needs {counted(needed, 'person')} with two "
                f"images or more; there are {people:,}{possible}"
            )
        low = self.numbers.ranked(self.numbers.total + 1 - rank)
        measured = Unsure.at(self.numbers, impostor, low, high)
        return PromisedFrr(far_text(self.frr), low, people, rank, self.fold, measured)


def check_frr(frr: Far | None, fold: Fold | None, guarantee: Guarantee) -> None:
    """Refuses an FRR that cannot be promised beside a guarantee, and a fold without one."""
    if fold is not None:
        check_word("fold", fold, Fold)
    if frr is None:
        if fold is not None:
            raise ValueError(f"fold {fold!r} says which number of a person an FRR is about; name the FRR (--frr, frr=)")
        return
    if guarantee not in ("confident", "expected"):
        raise ValueError(f"an FRR is promised beside guarantee 'confident' or 'expected', not {guarantee!r}")
    promised_rate(frr, "an FRR")


def just_below(score: float) -> float:
    """The next lower number: scores above it are those of at least `score`."""
    return math.nextafter(score, -math.inf)


def folded(
    scores: Float64[np.ndarray, " genuine"], person: Int64[np.ndarray, " genuine"], fold: Fold, seed: int
) -> Float64[np.ndarray, " people"]:
    """One number of each person, from all genuine scores.

    >>> scores, person = np.array([0.9, 0.5, 0.7, 0.2]), np.array([0, 0, 0, 1])
    >>> folded(scores, person, "median", 0).tolist(), folded(scores, person, "lowest", 0).tolist()
    ([0.7, 0.2], [0.5, 0.2])
    """
    check_word("fold", fold, Fold)
    order = np.lexsort((scores, person))
    _, first, pairs = np.unique(person[order], return_index=True, return_counts=True)
    place = {"one": lambda: numpy_generator(seed).integers(pairs), "median": lambda: (pairs - 1) // 2}
    return scores[order[first + (place[fold]() if fold in place else 0)]]
