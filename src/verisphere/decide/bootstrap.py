"""The variation of a figure when other people are drawn: a bootstrap over identities.

Comparisons that share a person are dependent, so people are redrawn, not comparisons (the subset bootstrap of Bolle,
Ratha and Pankanti 2004). A replicate draws as many identities as there are, with replacement; an impostor pair then
counts as often as the product of its two people's draws, a genuine pair as often as its person was drawn (two copies of
one person are still one person: they make neither genuine nor impostor pairs with each other). Each replicate finds its
own threshold by the rule `at_most`.

Intervals from the replicates (`intervals.py`, `effective.py`) need not contain the true value 95 % of the time: where
few people resemble many others, a set without them cannot show that they exist (`sample_size.confidence_limit`).
`benchmarks/intervals.py` measures how often they contain it.

Many replicates are computed together, a block of pairs at a time (`weights.py`). Such a run of replicates is a piece of
work (`verisphere.base.work`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from jaxtyping import Bool, Float64, Int64

from verisphere.base.seeds import numpy_generator
from verisphere.base.vocabulary import REDRAWING, Progress, Redrawing, quietly
from verisphere.base.work import About, Arrays, results
from verisphere.decide.point import Far, exact_rate
from verisphere.decide.weights import Weights, first_over, weight_of_first

T = TypeVar("T")

REPLICATES_TOGETHER = 128  # the draws of a block's people then stay in the cache
COUNTS_HELD = 1 << 24  # numbers drawn at once; limits the replicates of a run if there are many people


@dataclass(frozen=True, eq=False)
class PairScores:
    """The scores and people that a bootstrap needs, of all pairs of a set of images or of a list of pairs.

    >>> genuine, people = np.array([0.9, 0.8, 0.7]), np.array([0, 1, 2])
    >>> impostor, two = np.array([0.5, 0.4, 0.3]), np.array([[0, 1], [1, 2], [0, 2]])
    >>> pairs = PairScores(genuine, people, impostor, two, images=np.array([1, 1, 1]))
    >>> pairs.impostor_total, pairs.complete
    (3, True)

    Attributes:
        genuine: score of every genuine pair.
        genuine_person: number of the person of each genuine pair.
        impostor: the highest impostor scores, descending; enough of them for the target FAR (see `enough`).
        impostor_people: the two people of each impostor pair.
        images: number of images of each person; the impostor pairs are all pairs of two people's images.
        listed: True where the pairs are those of a list: then all impostor pairs are present, and only the length of
            `images`, the number of people, is used.
        down_to: every impostor score above this one is present; None stands for the last score in `impostor`.
    """

    genuine: Float64[np.ndarray, " genuine"]
    genuine_person: Int64[np.ndarray, " genuine"]
    impostor: Float64[np.ndarray, " impostor"]
    impostor_people: Int64[np.ndarray, "impostor 2"]
    images: Int64[np.ndarray, " people"]
    listed: bool = False
    down_to: float | None = None

    def __post_init__(self) -> None:
        if (self.impostor[1:] > self.impostor[:-1]).any():
            raise ValueError("impostor scores must be descending")

    @classmethod
    def of_list(
        cls,
        score: Float64[np.ndarray, " pairs"],
        genuine: Bool[np.ndarray, " pairs"],
        people: Int64[np.ndarray, "pairs 2"],
    ) -> "PairScores":
        """The pairs of a list, from each pair's score, whether it is genuine, and the numbers of its two people."""
        numbers, members = np.unique(people, return_inverse=True)
        members = members.reshape(people.shape).astype(np.int64)
        order = np.argsort(-score[~genuine], kind="stable")
        return cls(
            genuine=score[genuine],
            genuine_person=members[genuine, 0],
            impostor=score[~genuine][order],
            impostor_people=members[~genuine][order],
            images=np.ones(len(numbers), np.int64),
            listed=True,
        )

    @property
    def impostor_total(self) -> int:
        """Number of impostor pairs, present or not."""
        if self.listed:
            return len(self.impostor)
        return int((self.images.sum() ** 2 - (self.images**2).sum()) // 2)

    @cached_property
    def lowest_genuine(self) -> tuple[Float64[np.ndarray, " genuine"], Int64[np.ndarray, "genuine 1"]]:
        """Genuine scores, ascending, and the person of each pair."""
        order = np.argsort(self.genuine, kind="stable")
        return self.genuine[order], self.genuine_person[order, None]

    @property
    def floor(self) -> float:
        """Every impostor score above this one is present."""
        if self.complete:
            return -np.inf
        if self.down_to is not None:
            return self.down_to
        return float(self.impostor[-1]) if len(self.impostor) else np.inf

    @property
    def complete(self) -> bool:
        """Whether every impostor pair is present."""
        return len(self.impostor) == self.impostor_total


class TooFewScoresError(ValueError):
    """The impostor scores that are present do not reach the target FAR in a replicate.

    >>> none, nobody = np.array([]), np.zeros((0, 2), np.int64)
    >>> pairs = PairScores(none, np.zeros(0, np.int64), none, nobody, images=np.array([1, 1, 1]))
    >>> redrawn_thresholds(pairs, "0.1", Redrawing(replicates=1))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    verisphere.decide.bootstrap.TooFewScoresError: 0 impostor scores do not reach the target FAR in a replicate
    """


def enough(far: Far, impostor_total: int, times: int = 2) -> int:
    """Number of highest impostor scores that a bootstrap uses: `times` what the target accepts, and a margin.

    >>> enough("1e-3", impostor_total=100_000_000)
    220000
    """
    return min(impostor_total, times * (int(exact_rate(far) * impostor_total) + 10_000))


def ask_deeper(ask: Callable[[int], T], times: int = 2) -> T:
    """Call `ask(times)`, doubling `times` as long as it raises `TooFewScoresError`.

    A replicate needs more of the highest scores than `enough` says where few people share most of these scores and one
    of those people was drawn often.

    >>> def ask(times):
    ...     if times < 8:
    ...         raise TooFewScoresError
    ...     return times
    >>> ask_deeper(ask)
    8
    """
    while True:
        try:
            return ask(times)
        except TooFewScoresError:
            times *= 2


# --- draws ---


def draws_of(people: int, redrawing: Redrawing) -> Iterator[Int64[np.ndarray, "some people"]]:
    """How often each person is drawn in each replicate, in runs of replicates, so that memory stays bounded."""
    random = numpy_generator(redrawing.seed)
    shares = np.full(people, 1 / people)
    for done in range(0, redrawing.replicates, _run(people)):
        size = min(_run(people), redrawing.replicates - done)
        yield random.multinomial(people, shares, size=size).astype(np.int64)


def _run(people: int) -> int:
    """Number of replicates in a run."""
    return min(REPLICATES_TOGETHER, max(COUNTS_HELD // people, 1))


def over_redrawn(
    people: int,
    redrawing: Redrawing,
    figures: Callable[[Weights], Float64[np.ndarray, "*figures replicates"]],
    about: About,
    progress: Progress = quietly,
) -> Float64[np.ndarray, "*figures replicates"]:
    """Figures of each replicate of `draws_of`, whose runs are pieces; `about` has all else that determines them."""

    def compute(numbers: Iterable[int]) -> Iterator[Arrays]:
        draws = enumerate(draws_of(people, redrawing))  # those of the runs between are drawn, too, and dropped
        for number in numbers:
            weights = Weights(next(drawn for turn, drawn in draws if turn == number))
            try:
                found = {"figures": figures(weights)}
            except TooFewScoresError as error:  # a result like others, since every rank then asks for more scores
                found = {"too_few": np.array(str(error))}
            yield found

    parts: list[np.ndarray] = []
    runs = -(-redrawing.replicates // _run(people))
    for part in results(
        "redrawn", lambda: [people, redrawing, about()], range(runs), compute, progress, "redrawing people"
    ):
        if "too_few" in part:
            raise TooFewScoresError(str(part["too_few"]))
        parts.append(part["figures"])
    return np.concatenate(parts, axis=-1)


def everyone(people: int) -> Weights:
    """The weights of the set itself: every person once."""
    return Weights(np.ones((1, people), np.int64))


# --- figures of replicates ---


def thresholds_of(pairs: PairScores, weights: Weights, fars: Sequence[Far]) -> Float64[np.ndarray, "fars replicates"]:
    """The threshold at each target FAR, by the rule `at_most`, in each replicate."""
    rates, totals = [exact_rate(far) for far in fars], impostor_totals(pairs, weights).tolist()
    allowed = np.array([[int(rate * total) for total in totals] for rate in rates], np.int64)
    first = first_over(weights, pairs.impostor_people, allowed)
    beyond = first == len(pairs.impostor)
    if beyond.any() and not pairs.complete:
        raise TooFewScoresError(f"{len(pairs.impostor)} impostor scores do not reach the target FAR in a replicate")
    thresholds = np.full(first.shape, -np.inf)
    thresholds[~beyond] = pairs.impostor[first[~beyond]]
    return thresholds


def tars_at(
    pairs: PairScores, weights: Weights, thresholds: Float64[np.ndarray, "cuts replicates"]
) -> Float64[np.ndarray, "cuts replicates"]:
    """TAR of each replicate at its own thresholds; NaN where nobody with a genuine pair was drawn."""
    score, person = pairs.lowest_genuine
    rejected = np.searchsorted(score, thresholds, side="right")  # rejected ones are summed: most sets have fewer
    total = weights.draws @ np.bincount(pairs.genuine_person, minlength=len(pairs.images))
    return _share(total - weight_of_first(weights, person, rejected), total)


def fars_at(
    pairs: PairScores, weights: Weights, thresholds: Float64[np.ndarray, " cuts"]
) -> Float64[np.ndarray, "cuts replicates"]:
    """FAR of each replicate at fixed thresholds; NaN where no two people with an impostor pair were drawn."""
    if (thresholds < pairs.floor).any():
        raise TooFewScoresError(f"{len(pairs.impostor)} impostor scores do not reach down to the threshold")
    accepted = [np.count_nonzero(pairs.impostor > threshold) for threshold in thresholds]
    ends = np.repeat(np.array(accepted, np.int64)[:, None], len(weights), axis=1)
    return _share(weight_of_first(weights, pairs.impostor_people, ends), impostor_totals(pairs, weights))


def impostor_totals(pairs: PairScores, weights: Weights) -> Int64[np.ndarray, " replicates"]:
    """The number of impostor pairs of each replicate; pairs of two copies of one person are no impostor pairs."""
    if pairs.listed:
        return weights.total(pairs.impostor_people)
    images = weights.draws * pairs.images
    return (images.sum(1) ** 2 - (images**2).sum(1)) // 2


def _share(
    accepted: Int64[np.ndarray, "cuts replicates"], total: Int64[np.ndarray, " replicates"]
) -> Float64[np.ndarray, "cuts replicates"]:
    return np.divide(accepted, total, out=np.full(accepted.shape, np.nan), where=total > 0)


def redrawn_thresholds(
    pairs: PairScores, far: Far, redrawing: Redrawing = REDRAWING, progress: Progress = quietly
) -> Float64[np.ndarray, " replicates"]:
    """The threshold at a target FAR in each replicate.

    >>> genuine, people = np.array([0.9, 0.8, 0.7]), np.array([0, 1, 2])
    >>> impostor, two = np.array([0.5, 0.4, 0.3]), np.array([[0, 1], [1, 2], [0, 2]])
    >>> pairs = PairScores(genuine, people, impostor, two, images=np.array([1, 1, 1]))
    >>> redrawn_thresholds(pairs, "0.4", Redrawing(replicates=4, seed=0))
    array([ 0.4, -inf,  0.5,  0.4])

    Raises:
        TooFewScoresError: the impostor scores that are present do not reach the target FAR in a replicate.
    """

    def thresholds(weights: Weights) -> Float64[np.ndarray, " replicates"]:
        return thresholds_of(pairs, weights, [far])[0]

    return over_redrawn(len(pairs.images), redrawing, thresholds, lambda: [pairs, exact_rate(far)], progress)
