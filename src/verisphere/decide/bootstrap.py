"""How far a TAR moves when other people had been drawn: a bootstrap over identities.

Comparisons that share a person rise and fall together, so people are redrawn, not comparisons (the subset bootstrap
of Bolle, Ratha and Pankanti 2004). A replicate draws as many identities as there are, with replacement; an impostor
pair then counts as often as the product of its two people's draws, a genuine pair as often as its person was drawn (two
copies of one person are still one person: they make neither genuine nor impostor pairs with each other). The threshold
is found anew in each replicate by the rule `at_most`.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from verisphere.decide.point import Far, exact_rate
from verisphere.vocabulary import Progress, quietly


@dataclass(frozen=True, eq=False)
class PairScores:
    """The pairs among a set of images that a bootstrap needs.

    Attributes:
        genuine: score of every genuine pair.
        genuine_person: number of its person.
        impostor: the highest impostor scores, descending; enough of them for the target FAR (see `enough`).
        impostor_people: the two people of each.
        images: how many images each person has; impostor pairs are all pairs of two people's images.
    """

    genuine: Float64[np.ndarray, " genuine"]
    genuine_person: Int64[np.ndarray, " genuine"]
    impostor: Float64[np.ndarray, " impostor"]
    impostor_people: Int64[np.ndarray, "impostor 2"]
    images: Int64[np.ndarray, " people"]

    def __post_init__(self) -> None:
        if (self.impostor[1:] > self.impostor[:-1]).any():
            raise ValueError("impostor scores must be descending")

    @property
    def impostor_total(self) -> int:
        """Number of impostor pairs, listed or not."""
        return int((self.images.sum() ** 2 - (self.images**2).sum()) // 2)


class TooFewScoresError(ValueError):
    """The impostor scores handed over do not reach the target FAR in a replicate."""


def enough(far: Far, impostor_total: int, times: int = 2) -> int:
    """How many of the highest impostor scores to hand over: `times` what the target accepts, and some more."""
    return min(impostor_total, times * (int(exact_rate(far) * impostor_total) + 10_000))


@dataclass(frozen=True)
class Interval:
    """A figure with the middle 95 % of its bootstrap distribution."""

    value: float
    lower_95: float
    upper_95: float
    replicates: int


def draw_people(people: int, replicates: int, seed: int) -> Int64[np.ndarray, "replicates people"]:
    """How often each person is drawn in each replicate.

    Raises:
        ValueError: fewer than one replicate.
    """
    if replicates < 1:
        raise ValueError(f"replicates must be at least 1, got {replicates}")
    random = np.random.default_rng(seed)
    return random.multinomial(people, np.full(people, 1 / people), size=replicates).astype(np.int64)


def weighted_tar(pairs: PairScores, draws: Int64[np.ndarray, " people"], far: Far) -> float:
    """TAR at the target FAR when person p counts draws[p] times.

    Raises:
        TooFewScoresError: the listed impostors do not reach the target FAR under these draws.
    """
    threshold = weighted_threshold(pairs, draws, far)
    weight = draws[pairs.genuine_person]
    counted = weight.sum()
    return float((weight * (pairs.genuine > threshold)).sum() / counted) if counted else float("nan")


def weighted_threshold(pairs: PairScores, draws: Int64[np.ndarray, " people"], far: Far) -> float:
    """The threshold at the target FAR, by the rule `at_most`, when person p counts draws[p] times.

    Raises:
        TooFewScoresError: the listed impostors do not reach the target FAR under these draws.
    """
    images = draws * pairs.images
    total = int(images.sum() ** 2 - images @ images) // 2  # pairs within one person's copies are no impostors
    return _score_over(pairs, draws, int(exact_rate(far) * total))


def _score_over(pairs: PairScores, draws: Int64[np.ndarray, " people"], allowed: int) -> float:
    """The score of the first impostor pair, from the top, whose weight would bring the sum over `allowed`."""
    passed, step = 0, max(allowed // 4, 1024)  # in runs: most replicates need little more than `allowed` of the pairs
    for start in range(0, len(pairs.impostor), step):
        first, second = pairs.impostor_people[start : start + step].T
        sums = passed + np.cumsum(draws[first] * draws[second])
        if sums[-1] > allowed:
            return float(pairs.impostor[start + int(np.searchsorted(sums, allowed, side="right"))])
        passed = int(sums[-1])
    if len(pairs.impostor) < pairs.impostor_total:
        raise TooFewScoresError(f"{len(pairs.impostor)} impostor scores do not reach the target FAR in a replicate")
    return -np.inf


def tar_interval(pairs: PairScores, far: Far, replicates: int = 1000, seed: int = 0) -> Interval:
    """TAR at a target FAR with its 95 % interval over redrawn people."""
    draws = draw_people(len(pairs.images), replicates, seed)
    tars = np.array([weighted_tar(pairs, draw, far) for draw in draws])
    return _interval(weighted_tar(pairs, np.ones_like(pairs.images), far), tars)


def tar_difference(
    ours: PairScores,
    theirs: PairScores,
    far: Far,
    replicates: int = 1000,
    seed: int = 0,
    progress: Progress = quietly,
) -> Interval:
    """TAR of one model less TAR of another at the same target FAR, each at its own threshold, over the same people.

    Both models see the same draws, so what people have in common cancels.

    Raises:
        ValueError: the two do not describe the same images of the same people.
    """
    if not np.array_equal(ours.images, theirs.images):
        raise ValueError("the two models were not given the same images of the same people")
    draws = draw_people(len(ours.images), replicates, seed)
    shown = progress(draws, "redrawing people", replicates)
    gaps = np.array([weighted_tar(ours, draw, far) - weighted_tar(theirs, draw, far) for draw in shown])
    ones = np.ones_like(ours.images)
    return _interval(weighted_tar(ours, ones, far) - weighted_tar(theirs, ones, far), gaps)


def accuracy_difference(
    ours: Float64[np.ndarray, " pairs"],
    theirs: Float64[np.ndarray, " pairs"],
    people: Int64[np.ndarray, "pairs 2"],
    weights: Float64[np.ndarray, " pairs"] | None = None,
    replicates: int = 1000,
    seed: int = 0,
) -> Interval:
    """Share of right decisions of one model less that of another on the same listed pairs, over redrawn people.

    Args:
        ours: 1 where our decision on a pair was right, else 0; decisions are fixed, at each fold's threshold.
        theirs: the same for the other model.
        people: the two people of each pair, the same number twice for a genuine pair, which then counts once for each
            time its person was drawn.
        weights: of each pair in the mean; alike without.
    """
    weights = np.full(len(ours), 1 / len(ours)) if weights is None else weights
    numbers, members = np.unique(people, return_inverse=True)
    first, second = members.reshape(people.shape).T
    gap = ours - theirs
    values = []
    for draw in draw_people(len(numbers), replicates, seed):
        weight = weights * np.where(first == second, draw[first], draw[first] * draw[second])
        values.append(float(weight @ gap / weight.sum()) if weight.any() else np.nan)
    return _interval(float(weights @ gap / weights.sum()), np.array(values))


def _interval(value: float, replicates: Float64[np.ndarray, " replicates"]) -> Interval:
    lower, upper = np.nanquantile(replicates, [0.025, 0.975])
    return Interval(value, float(lower), float(upper), len(replicates))
