"""A threshold with a guarantee about people who took no part in choosing it.

Let s(1) >= ... >= s(n) be impostor scores of comparisons that share no person, each of two people drawn in the same
way. At the threshold t = s(j) the FAR on new people is a random number, because s(j) is one; without ties it follows
Beta(j, n - j + 1), and ties only lower it (Wilks 1941, "Determination of sample sizes for setting tolerance limits").
So its mean is at most j / (n + 1), and it is at most f with probability P(Bin(n, f) >= j) or more. The two guarantees:

- `confident`, the default: the largest j with P(Bin(n, f) <= j - 1) <= 0.05; FAR <= f with 95 % confidence;
- `expected`: j = floor(f (n + 1)); the mean FAR over many calibrations is at most f. The FAR of a single calibration
  lies above f with probability P(Bin(n, f) <= j - 1) (`share_above`). If f (n + 1) is a whole number, this is 37 % for
  j = 1 and approaches one half as j grows; between such n it is less, down to 14 % just before j = 2.

Comparisons that share people are worth fewer than n draws, and neither guarantee holds for them. All pairs of a set can
give only `approximate`: a quantile of the threshold over a bootstrap of people. It is an estimate; the confidence
stated with it is the most that any choice from this number of people can have without an assumption about them
(`confidence_limit`).

A guarantee is about two new people, each as likely as any other, and one image of each. The FAR over all pairs of a set
is another quantity if some people have many images, since these people weigh more in it.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from jaxtyping import Int64

from verisphere.base.seeds import numpy_generator
from verisphere.base.trained_on import SharedWithTraining
from verisphere.base.vocabulary import REDRAWING, ImageSource, Progress, Redrawing, TrainingRecord, check_word, quietly
from verisphere.decide.assumption import ASSUMED, Assumption, under_assumptions
from verisphere.decide.bootstrap import PairScores, redrawn_thresholds
from verisphere.decide.both_errors import FAR_CHANCE, AskedFrr, PromisedFrr
from verisphere.decide.each_domain import DomainThreshold, check_domains, meaning_within, promise_within
from verisphere.decide.genuine import GenuineRate
from verisphere.decide.order import Ordered, ScoresLike, ordered
from verisphere.decide.point import Far, far_text
from verisphere.decide.review import NO_REVIEW, Review
from verisphere.decide.sample_size import (
    CHANCE,
    CONFIDENCE,
    Guarantee,
    at_most,
    comparisons_needed,
    confidence_limit,
    people_needed,
    percent,
    promised_rate,
    share_above,
    too_few,
)


class TooFewComparisonsError(ValueError):
    """A guarantee was requested that this number of comparisons cannot give.

    >>> independent_threshold([0.1, 0.2], "1e-2", "expected")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    verisphere.decide.guarantee.TooFewComparisonsError: guarantee 'expected' at FAR 1e-2 needs 198 people (99 ...
    """


@dataclass(frozen=True)
class GuaranteedThreshold:
    """A threshold and its guarantee: accept iff score > threshold.

    >>> scores = [0.1, 0.5, 0.3, 0.2, 0.4, 0.0, -0.1, -0.2, -0.3]
    >>> promise = independent_threshold(scores, "0.1", "expected")
    >>> promise.threshold, promise.rank, promise.meaning().split(":")[0]
    (0.5, 1, 'accept iff score > 0.5')

    Attributes:
        far_target: the FAR asked for, as it was given.
        guarantee: kind of the guarantee; see the module.
        threshold: the threshold, a finite score.
        comparisons: number of impostor comparisons that the threshold was chosen from; for `approximate` all pairs of
            the set's people.
        rank: j, where the threshold is the j-th largest score; None for `approximate`.
        people: number of people in the comparisons; None if a scores file does not state it.
        confidence: 0.95 for `confident`; for `approximate` an upper limit, see `confidence_limit`; else None.
        replicates: replicates of the bootstrap for `approximate`, else None.
        seed: seed of the random choice of comparisons or of the bootstrap; None if nothing was chosen at random.
        calibrated_on: source of the images of these people; None if the file does not state it.
        genuine: number and share of the genuine comparisons that pass; None if no file with such comparisons was given.
        in_training: people and images of the calibration that the model was trained on, as was accepted; None for none.
        implausible: what follows from scores that cannot be right, as was accepted; empty for none.
        review: the review of the comparisons, and the wrong labels that are allowed for (`verisphere.decide.review`).
        assumption: what `capped`, `tail` and `convention` assume about people; None for the others.
        domains: for `worst-group`, what each domain needs (`verisphere.decide.worst_group`); else empty.
        frr: the FRR that is promised beside the FAR, with which the confidence is of both at once
            (`verisphere.decide.both_errors`); None for none.
        weak_checks: why rates that were measured on other files say little, though these were accepted; the promise
            stands all the same. Empty for nothing.
    """

    far_target: str
    guarantee: Guarantee
    threshold: float
    comparisons: int
    rank: int | None
    people: int | None
    confidence: float | None
    replicates: int | None
    seed: int | None
    calibrated_on: ImageSource | None = None
    genuine: GenuineRate | None = None
    in_training: SharedWithTraining | None = None
    implausible: str = ""
    review: Review = NO_REVIEW
    assumption: Assumption | None = None
    domains: tuple[DomainThreshold, ...] = ()
    frr: PromisedFrr | None = None
    weak_checks: str = ""

    def __post_init__(self) -> None:
        promised_rate(self.far_target)
        check_word("guarantee", self.guarantee, Guarantee)
        if not math.isfinite(self.threshold):
            raise ValueError(f"a threshold that is shipped must be finite, got {self.threshold}")
        if self.comparisons < 1 or (self.people is not None and self.people < 2):
            raise ValueError(f"{self.comparisons} comparisons of {self.people} people set no threshold")
        assumed = self.assumption.guarantee if self.assumption else None
        if assumed != (self.guarantee if self.guarantee in ASSUMED else None):
            raise ValueError(f"guarantee {self.guarantee!r} comes with another assumption, or with none")
        if bool(self.domains) != (self.guarantee == "worst-group") or (
            self.domains and self.threshold != max(one.threshold for one in self.domains)
        ):
            raise ValueError("a threshold of guarantee 'worst-group', and no other, is the highest of its domains' own")
        check_domains(self.domains, self.far_target, self.comparisons, self.people)
        redrawn = self.guarantee in ("approximate", "tail")
        if redrawn and (self.replicates is None or self.replicates < 1 or self.people is None or self.seed is None):
            raise ValueError(f"a threshold of guarantee {self.guarantee!r} states its people, replicates and seed")
        if not redrawn and self.replicates is not None:
            raise ValueError(f"replicates belong to a bootstrap, not to guarantee {self.guarantee!r}")
        if self.frr:
            self.frr.check(self.guarantee)
        rank = self._rank()
        if rank is not None and rank < 1 and not self.assumption:
            raise ValueError(
                _too_few(self.far_target, self.guarantee, self.comparisons, self.people, self.review, bool(self.frr))
            )
        if self.review and (redrawn or self.assumption or self.domains):
            raise ValueError(f"a threshold of guarantee {self.guarantee!r} can take no review into account")
        if self.rank != rank or rank == 0:
            raise ValueError(
                f"rank {self.rank} of {self.comparisons:,} comparisons is not what guarantee {self.guarantee!r} takes "
                f"at FAR {self.far_target}: {rank}"
            )
        confidence = None if self.guarantee in ("expected", "tail", "convention") else CONFIDENCE
        if self.guarantee == "approximate" and self.people is not None:
            confidence = confidence_limit(self.people, self.far_target)
            if self.confidence == CONFIDENCE:  # older files state the target of the quantile
                object.__setattr__(self, "confidence", confidence)
        if self.confidence != confidence:
            raise ValueError(f"guarantee {self.guarantee!r} has confidence {confidence}, got {self.confidence}")

    def _rank(self) -> int | None:
        if self.guarantee == "approximate" or self.domains:
            return None
        if self.assumption is None:
            return self.review.rank(self.comparisons, self.far_target, self.guarantee, _far_chance(bool(self.frr)))
        if self.people is None or self.comparisons != self.people * (self.people - 1) // 2:
            raise ValueError(f"{self.comparisons} comparisons are not all pairs of {self.people} people")
        return self.assumption.rank(self.people, self.far_target)

    def __str__(self) -> str:
        """The threshold with its promise, as it is said to people; `meaning` and `misses` have the exact wording.

        >>> scores = [0.1, 0.5, 0.3, 0.2, 0.4, 0.0, -0.1, -0.2, -0.3]
        >>> print(independent_threshold(scores, "0.1", "expected"))  # doctest: +ELLIPSIS
        Same person: score above 0.5. On average over calibrations, at most 1 in 10 pairs of strangers pass; how ...
        """
        first = "".join(f"{note[0].upper()}{note[1:]}. " for note in self.first())
        return f"{first}Same person: score above {self.threshold:.6g}. {self.promise()}"

    def promise(self) -> str:
        """What is promised about strangers, and how many pairs of one person fail, in one sentence for people."""
        fail = "how many pairs of one person fail is not recorded" if self.genuine is None else str(self.genuine)
        if self.assumption:
            return f"{self.assumption.promise(self.far_target)}; {fail}."
        if self.domains:
            return f"{promise_within(self.domains)}; {fail}."
        confidence = percent(self.confidence or CONFIDENCE)
        how = {
            "confident": f"We are {confidence} confident that",
            "expected": "On average over calibrations,",
            "approximate": f"By an estimate with at most {confidence} confidence,",
        }[self.guarantee]
        rests = f", {self.review.rests_on()}" if self.review else ""
        also = f" and, at once, {self.frr.promise()}" if self.frr else ""
        band = f"; {self.frr.band(self.threshold)}" if self.frr else ""
        return f"{how} {at_most(self.far_target)} pass{also}{rests}{band}; {fail}."

    def warning(self) -> str:
        """That the model was trained on people of the calibration, or that its scores cannot be right; else empty."""
        known = f"{self.in_training.found()} calibrated on" if self.in_training else ""
        if known:
            known += ", so its threshold promises nothing about new people"
        return "; ".join(part for part in (known, self.implausible) if part)

    def first(self) -> tuple[str, ...]:
        """What has to be said before the threshold: its warning, and why checks of it say little."""
        return tuple(filter(None, (self.warning(), self.weak_checks)))

    def misses(self) -> str:
        """The share of comparisons of one person that are rejected, in one sentence."""
        if self.genuine is None:
            return "how many comparisons of one person are rejected is not recorded"
        return self.genuine.meaning()

    def meaning(self, training: TrainingRecord | None = None) -> str:
        """The guarantee and the people whom it is about, in one sentence; with the model's training data if given."""
        if training is not None:
            return f"{self.meaning()}; {training.described()}"
        rule = "; ".join([*self.first(), f"accept iff score > {self.threshold:.6g}"])
        known = "" if self.calibrated_on is None else f" ({self.calibrated_on.described(self.people)})"
        what = f"comparisons of two new people like those calibrated on{known}, scored by the same model,"
        if self.assumption:
            return self.assumption.meaning(rule, what, self.far_target, self.people or 0, self.replicates)
        if self.domains:
            return meaning_within(self.domains, rule, what)
        if self.guarantee == "approximate":
            confidence = confidence_limit(self.people or 0, self.far_target)
            more = f"no choice from {self.people:,} people has more" if confidence < CONFIDENCE else "it can have less"
            return (
                f"{rule}: without guarantee, of {what} at most {self.far_target} are accepted, an estimate with at "
                f"most {percent(confidence)} confidence ({more} where few people resemble many others; upper quantile "
                f"over {self.replicates:,} redrawings of {self.people:,} people, from all their {self.comparisons:,} "
                "impostor pairs)"
            )
        share = f"{self.comparisons:,} comparisons that share no person"
        rests = f"; {self.review.rests_on()}" if self.review else ""
        basis = f"{share}, as was stated" if self.people is None else f"{share}, from {self.people:,} people"
        also = f"; and, at once, {self.frr.meaning(self.threshold)}" if self.frr else ""
        sure, mean = f"with {percent(CONFIDENCE)} confidence, ", ""
        if self.guarantee == "expected":
            above = percent(share_above(self.comparisons, self.far_target))
            sure, mean = "", f" on average over calibrations like this one, up to {above} of which accept more"
        return (
            f"{rule}: {sure}of {what} at most {self.far_target} are accepted{mean}{rests} ({basis}; rank "
            f"{self.rank:,}){also}"
        )

    def unsure(self, score: float) -> bool:
        """Whether a score is between the promised FAR's threshold and the promised FRR's: neither same nor different.

        >>> independent_threshold([0.1, 0.5, 0.3, 0.2, 0.4, 0.0, -0.1, -0.2, -0.3], "0.1", "expected").unsure(0.4)
        False
        """
        return self.frr is not None and bool(self.frr.threshold <= score <= self.threshold)


def disjoint_pairs(person: Int64[np.ndarray, " rows"], seed: int) -> Int64[np.ndarray, "pairs 2"]:
    """Rows to compare so that no two comparisons share a person: a random matching of people, a random image of each.

    Every matching and every choice of images is equally likely; if the number of people is odd, one is excluded.

    >>> person = np.array([0, 0, 1, 2, 2, 3])
    >>> pairs = disjoint_pairs(person, seed=0)
    >>> len(pairs), sorted(person[pairs].ravel().tolist())
    (2, [0, 1, 2, 3])

    Args:
        person: number of each row's person.
        seed: seed of the choice. Trying several seeds and keeping the best threshold breaks the guarantee.

    Raises:
        ValueError: a negative seed.
    """
    random = numpy_generator(seed)
    chosen = one_row_each(person, random)
    pairs = len(chosen) // 2
    return chosen[random.permutation(len(chosen))[: 2 * pairs]].reshape(pairs, 2)


def one_row_each(person: Int64[np.ndarray, " rows"], random: np.random.Generator) -> Int64[np.ndarray, " people"]:
    """A random row of each person, in the order of the persons' numbers."""
    rows = np.argsort(person, kind="stable")  # each person's rows side by side
    _, first, images = np.unique(person[rows], return_index=True, return_counts=True)
    return rows[first + random.integers(images)].astype(np.int64)


def independent_threshold(
    scores: ScoresLike | Ordered,
    far: Far,
    guarantee: Guarantee,
    people: int | None = None,
    seed: int | None = None,
    review: Review = NO_REVIEW,
    frr: AskedFrr | None = None,
) -> GuaranteedThreshold:
    """The threshold at a FAR from impostor scores of comparisons that share no person.

    >>> independent_threshold([0.1, 0.5, 0.3, 0.2, 0.4, 0.0, -0.1, -0.2, -0.3], "0.1", "expected").threshold
    0.5

    Args:
        scores: impostor scores; the caller must know that no person takes part in two of the comparisons.
        far: target FAR; a decimal string is read exactly, a float as its shortest decimal.
        guarantee: `expected` or `confident`.
        people: number of people that the comparisons were chosen from, if known.
        seed: seed of that choice.
        review: the review that removed comparisons, and the wrong labels that are allowed for.
        frr: an FRR to promise at once, `confident` then taking 4 % of the 5 % for the FAR.

    Raises:
        TooFewComparisonsError: the comparisons are too few for this guarantee at this FAR; the message states the
            number that is needed.
        ValueError: NaN scores, a threshold that would be infinite, a FAR below 1e-12, or of 1 or more.
    """
    order = ordered(scores, "impostor")
    rank = review.rank(order.total, far, guarantee, _far_chance(frr is not None))
    if rank < 1:
        raise TooFewComparisonsError(_too_few(far, guarantee, order.total, people, review, frr is not None))
    threshold = order.ranked(rank)
    if not math.isfinite(threshold):
        raise ValueError(
            f"the threshold at FAR {far_text(far)} would be {threshold}: {order.above(threshold):,} of {order.total:,} "
            "impostor scores lie above it; a shipped threshold must be finite"
        )
    beside = frr.promised(guarantee, order, threshold) if frr else None
    if isinstance(beside, str):
        raise TooFewComparisonsError(beside)
    return GuaranteedThreshold(
        far_target=far_text(far),
        guarantee=guarantee,
        threshold=threshold,
        comparisons=order.total,
        rank=rank,
        people=people,
        confidence=None if guarantee == "expected" else CONFIDENCE,
        replicates=None,
        seed=seed,
        review=review,
        frr=beside,
    )


def _far_chance(both: bool) -> Decimal:
    return FAR_CHANCE if both else CHANCE


def _too_few(far: Far, guarantee: Guarantee, comparisons: int, people: int | None, review: Review, both: bool) -> str:
    if not review and not both:
        also = under_assumptions(far, people) if people and guarantee != "approximate" else ""
        return "; ".join(part for part in (too_few(far, guarantee, comparisons, people), also) if part)
    chance = _far_chance(both)
    needed = review.needed(comparisons_needed(far, guarantee, chance), far, guarantee, chance)
    return (
        f"guarantee {guarantee!r} at FAR {far_text(far)}{' beside an FRR' if both else ''} needs {needed:,} "
        "comparisons that share no person"
        f"{review.allowing()}; there are {comparisons:,}: add {2 * (needed - comparisons):,} people"
    )


def approximate_threshold(
    pairs: PairScores, far: Far, redrawing: Redrawing = REDRAWING, progress: Progress = quietly
) -> GuaranteedThreshold:
    """The 95 % quantile of the threshold at a FAR over redrawn people, from all pairs of a set.

    The quantile is a replicate's threshold: the smallest that 95 % of them do not exceed. The confidence that is stated
    for it is the `confidence_limit` of this number of people, not 95 %.

    >>> people = np.arange(60)
    >>> first, second = np.triu_indices(60, 1)
    >>> scores = np.linspace(0.5, -0.5, len(first))
    >>> none, nobody = np.array([]), np.zeros(0, np.int64)
    >>> pairs = PairScores(none, nobody, scores, np.stack([first, second], 1), images=np.ones(60, np.int64))
    >>> promise = approximate_threshold(pairs, "0.1", Redrawing(replicates=20))
    >>> promise.confidence, promise.comparisons
    (0.95, 1770)

    Args:
        pairs: the impostor scores with their people.
        far: target FAR.
        redrawing: how often people are redrawn, and the seed of the draws.
        progress: reports the progress over replicates.

    Raises:
        TooFewComparisonsError: fewer people than `people_needed`.
        TooFewScoresError: more of the highest scores are needed than were given.
        ValueError: a quantile that would be infinite, or a FAR below 1e-12, or of 1 or more.
    """
    people = len(pairs.images)
    if people < people_needed(far, "approximate"):
        raise TooFewComparisonsError(too_few(far, "approximate", people // 2, people))
    thresholds = np.sort(redrawn_thresholds(pairs, far, redrawing, progress))
    threshold = float(thresholds[math.ceil(Fraction(95, 100) * redrawing.replicates) - 1])
    if not math.isfinite(threshold):
        raise ValueError(f"the threshold at FAR {far_text(far)} would be {threshold}; a shipped one must be finite")
    return GuaranteedThreshold(
        far_target=far_text(far),
        guarantee="approximate",
        threshold=threshold,
        comparisons=pairs.impostor_total,
        rank=None,
        people=people,
        confidence=confidence_limit(people, far),
        replicates=redrawing.replicates,
        seed=redrawing.seed,
    )
