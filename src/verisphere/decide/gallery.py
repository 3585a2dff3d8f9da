"""A threshold with a guarantee about strangers who are searched in one gallery (1:N).

A gallery that does not change gives each probe one number, its statistic: the best score, or another (`statistics`).
A probe is found iff statistic > threshold. One probe of each of n strangers, none of whom is enrolled, is a sample of n
independent draws, whatever the size of the gallery. So the FPIR at the j-th largest statistic follows the order
statistics of `guarantee` (Wilks 1941), with strangers in place of comparisons. Nothing is assumed about the statistic,
except that it was chosen without a look at these strangers.
A stranger who is enrolled under another name does no harm to a guarantee but to its worth: `review`.
"""

import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from jaxtyping import Int64

from verisphere.base.seeds import check_seed, numpy_generator
from verisphere.base.trained_on import SharedWithTraining
from verisphere.base.vocabulary import ImageSource, check_bounds, check_rate, check_word
from verisphere.base.words import counted
from verisphere.decide.bounds import binomial_bounds
from verisphere.decide.genuine import misses_in_words
from verisphere.decide.guarantee import TooFewComparisonsError, one_row_each
from verisphere.decide.order import Ordered, ScoresLike, SortedScores
from verisphere.decide.point import Far, far_text
from verisphere.decide.review import NO_REVIEW, Review
from verisphere.decide.sample_size import (
    CONFIDENCE,
    Guarantee,
    at_most,
    comparisons_needed,
    lowest_far,
    percent,
    promised_rate,
    share_above,
)
from verisphere.decide.statistics import STATISTICS

#: More strangers than the fewest: with 1,000 enrolled people of LFW at FPIR 1e-2 (docs/galleries.md).
WORTH = "the least is a bad buy: on LFW three times as many halved the misses of enrolled people (docs/galleries.md)"


@dataclass(frozen=True)
class FoundRate:
    """The number and share of probes of enrolled people that are found as themselves: measured, not guaranteed.

    >>> rate = FoundRate.of("probes.npz", 975, 1000)
    >>> print(rate)
    1 in 40 probes of enrolled people are missed (between 1 in 62 and 1 in 27)

    Attributes:
        file: the embeddings file of the probes.
        identified: probes with statistic > threshold whose best person is their own.
        total: number of probes of enrolled people.
        tpir: identified / total.
        tpir_lower_95: exact binomial bound, which takes probes as independent.
        tpir_upper_95: the upper bound, likewise.
        in_training: people and images of the probes that the model was trained on; None for none.
    """

    file: str
    identified: int
    total: int
    tpir: float
    tpir_lower_95: float
    tpir_upper_95: float
    in_training: SharedWithTraining | None = None

    def __post_init__(self) -> None:
        check_rate(self.tpir, self.identified, self.total)
        check_bounds(self.tpir, self.tpir_lower_95, self.tpir_upper_95)
        stated, bounds = (self.tpir_lower_95, self.tpir_upper_95), binomial_bounds(self.identified, self.total)
        if not all(math.isclose(*pair, abs_tol=1e-6) for pair in zip(stated, bounds, strict=True)):
            raise ValueError(f"bounds {stated} of TPIR are not those of {self.identified} of {self.total} probes")

    @classmethod
    def of(cls, file: str, identified: int, total: int, in_training: SharedWithTraining | None = None) -> "FoundRate":
        """The rate of a count."""
        return cls(file, identified, total, identified / total, *binomial_bounds(identified, total), in_training)

    def __str__(self) -> str:
        """The rate of misses (FNIR) as it is said to people; `meaning` has the exact wording."""
        bounds = self.tpir_lower_95, self.tpir_upper_95
        return misses_in_words(
            self.identified, self.total, bounds, "probes of enrolled people", ("were missed", "are missed")
        )

    def meaning(self) -> str:
        """TPIR and FNIR with their bounds, and where they were measured, in one sentence."""
        return (
            f"of probes of enrolled people, {100 * (1 - self.tpir):.2f} % are missed (FNIR; 95 % bounds "
            f"{100 * (1 - self.tpir_upper_95):.2f} to {100 * (1 - self.tpir_lower_95):.2f} %, of independent probes; "
            f"TPIR {self.tpir:.4f}, {self.identified:,} of {self.total:,} probes of {self.file})"
        )


@dataclass(frozen=True)
class GalleryThreshold:
    """A threshold for one gallery and its guarantee: a probe is found iff statistic > threshold.

    >>> print(gallery_threshold(np.linspace(0, 0.5, 299), "1e-2", people=40))  # doctest: +ELLIPSIS
    Found: the best score above 0.5. We are 95 % confident that at most 1 in 100 strangers are found in this gallery ...

    Attributes:
        fpir_target: the FPIR asked for, as it was given.
        guarantee: `confident` or `expected`.
        threshold: the threshold, a finite value of the statistic.
        strangers: number of strangers, one probe of each, that remain after a review.
        rank: rank of the statistic that is the threshold: the largest is of rank 1.
        people: number of people in the gallery.
        statistic: name of the statistic; see `verisphere.decide.statistics`.
        review: the review of the strangers' best comparisons, and the wrong labels that are allowed for.
        seed: seed of the choice of one probe of each stranger; None if nothing was chosen.
        calibrated_on: source of the strangers' images; None if it is not known.
        identified: number and share of the probes of enrolled people that are found; None if none were given.
        in_training: people and images of the strangers that the model was trained on, as was accepted.
        implausible: what follows from scores that cannot be right, as was accepted; empty for none.
    """

    fpir_target: str
    guarantee: Guarantee
    threshold: float
    strangers: int
    rank: int
    people: int
    statistic: str = "best"
    review: Review = NO_REVIEW
    seed: int | None = None
    calibrated_on: ImageSource | None = None
    identified: FoundRate | None = None
    in_training: SharedWithTraining | None = None
    implausible: str = ""

    def __post_init__(self) -> None:
        check_word("statistic", self.statistic, STATISTICS)
        promised_rate(self.fpir_target, "an FPIR")
        rank = self.review.rank(self.strangers, self.fpir_target, self.guarantee)
        if rank < 1:
            raise ValueError(too_few_strangers(self.strangers, self.fpir_target, self.guarantee, self.review))
        if self.rank != rank:
            raise ValueError(f"rank {self.rank} of {self.strangers:,} strangers is not what is allowed: {rank}")
        if not math.isfinite(self.threshold):
            raise ValueError(f"a threshold that is shipped must be finite, got {self.threshold}")
        if self.seed is not None:
            check_seed(self.seed)
        if self.people < 1:
            raise ValueError(f"a gallery has at least one person, got {self.people}")

    def __str__(self) -> str:
        """The threshold with its promise, as it is said to people; `meaning` has the exact wording."""
        warning = self.warning()
        first = f"{warning[0].upper()}{warning[1:]}. " if warning else ""
        return f"{first}Found: {STATISTICS[self.statistic].words} above {self.threshold:.6g}. {self.promise()}"

    def promise(self) -> str:
        """What is promised about strangers, and how many enrolled people are missed, in one sentence for people."""
        confident = self.guarantee == "confident"
        how = f"We are {percent(CONFIDENCE)} confident that" if confident else "On average over calibrations,"
        missed = "how many enrolled people are missed is not recorded" if self.identified is None else self.identified
        rests = self.review.rests_on()
        return (
            f"{how} {at_most(self.fpir_target, 'strangers')} are found in this gallery of "
            f"{counted(self.people, 'person')}{f', {rests}' if rests else ''}; {missed}."
        )

    def warning(self) -> str:
        """That the model was trained on people of the calibration, or that its scores cannot be right; else empty."""
        known = "" if not self.in_training else f"{self.in_training.found()}, so it promises nothing about new people"
        missed, rate = "", self.identified
        if rate is not None and rate.in_training:
            missed = f"{rate.in_training.found()} of {rate.file}, so more enrolled people may be missed than measured"
        return "; ".join(part for part in (known, self.implausible, missed) if part)

    def misses(self) -> str:
        """The share of probes of enrolled people that are missed, in one sentence."""
        if self.identified is None:
            return "how many enrolled people are missed is not recorded"
        return self.identified.meaning()

    def meaning(self) -> str:
        """The guarantee, what it assumes, and the strangers whom it is about, in one sentence."""
        known = "" if self.calibrated_on is None else f" ({self.calibrated_on.described(self.strangers)})"
        rule = f"found iff {STATISTICS[self.statistic].words} > {self.threshold:.6g}"
        how = (
            f"with {percent(CONFIDENCE)} confidence, at most {self.fpir_target} of strangers are found"
            if self.guarantee == "confident"
            else f"at most {self.fpir_target} of strangers are found on average over calibrations like this one, up to "
            f"{percent(share_above(self.strangers - self.review.unfound, self.fpir_target))} of which find more"
        )
        first = "; ".join(part for part in (self.warning(), rule) if part)
        rests, enrolled = f"; {self.review.rests_on()}" if self.review else "", counted(self.people, "person")
        return (
            f"{first}: {how}, searched by one photograph or template each in this gallery of {enrolled}, where "
            f"strangers are drawn as those calibrated on{known}, none of whom is enrolled, and the gallery was chosen "
            f"without a look at their scores{rests} ({self.strangers:,} strangers; rank {self.rank:,})"
        )


def strangers_needed(fpir: Far, guarantee: Guarantee, review: Review = NO_REVIEW) -> int:
    """The fewest strangers that can give a guarantee at an FPIR.

    >>> strangers_needed("1e-2", "confident"), strangers_needed("1e-3", "expected")
    (299, 999)
    """
    promised_rate(fpir, "an FPIR")
    return review.needed(comparisons_needed(fpir, guarantee), fpir, guarantee)


def too_few_strangers(strangers: int, fpir: Far, guarantee: Guarantee, review: Review = NO_REVIEW) -> str:
    """One line: the number of strangers needed, the number there are, and the guarantees that these allow."""
    needed = strangers_needed(fpir, guarantee, review)
    kinds: tuple[Guarantee, ...] = ("confident", "expected")
    here = max(strangers - review.unfound, 0)
    lowest = [(kind, _lowest_fpir(strangers, kind, review)) for kind in kinds if here]
    can = [f"{kind!r} at FPIR {rate} or higher" for kind, rate in lowest if rate]
    possible = f"; possible: {', '.join(can)}" if can else ""
    return (
        f"guarantee {guarantee!r} at FPIR {far_text(fpir)} needs {needed:,} strangers{review.allowing()}, one "
        f"photograph each; got {strangers:,}: add {needed - strangers:,}{possible}; {WORTH}"
    )


def _lowest_fpir(strangers: int, guarantee: Guarantee, review: Review) -> str:
    """An FPIR that these strangers are enough for, to a twentieth the lowest; empty for none."""
    rate = Decimal(lowest_far(max(strangers - review.unfound, 0), guarantee) or 1)
    while rate < 1 and strangers_needed(rate, guarantee, review) > strangers:
        rate = Decimal(f"{rate * Decimal('1.05'):.2e}")
    return f"{rate:.2e}" if rate < 1 else ""


def gallery_threshold(
    statistics: ScoresLike | Ordered,
    fpir: Far,
    guarantee: Guarantee = "confident",
    *,
    people: int,
    statistic: str = "best",
    review: Review = NO_REVIEW,
    seed: int | None = None,
) -> GalleryThreshold:
    """The threshold of a gallery at an FPIR, from the statistics of strangers who are not enrolled.

    >>> promise = gallery_threshold(np.linspace(0, 0.5, 299), "1e-2", people=1000)
    >>> promise.threshold, promise.rank
    (0.5, 1)

    Args:
        statistics: one number for each stranger; the caller must know that no person is in it twice.
        fpir: target FPIR; a decimal string is read exactly, a float as its shortest decimal.
        guarantee: `confident` or `expected`.
        people: number of people in the gallery.
        statistic: name of the statistic.
        review, seed: see `GalleryThreshold`.

    Raises:
        TooFewComparisonsError: the strangers are too few for this guarantee at this FPIR.
        ValueError: NaN, a threshold that would be infinite, an FPIR below 1e-12, or of 1 or more.
    """
    order = statistics if isinstance(statistics, Ordered) else SortedScores(statistics, "stranger")  # perhaps empty
    promised_rate(fpir, "an FPIR")
    rank = review.rank(order.total, fpir, guarantee)
    if rank < 1:
        raise TooFewComparisonsError(too_few_strangers(order.total, fpir, guarantee, review))
    threshold = order.ranked(rank)
    return GalleryThreshold(far_text(fpir), guarantee, threshold, order.total, rank, people, statistic, review, seed)


def one_probe_each(person: Int64[np.ndarray, " rows"], seed: int) -> Int64[np.ndarray, " people"]:
    """One row of each person, drawn at random: several photographs of a person are one draw.

    >>> rows = one_probe_each(np.array([0, 0, 1, 2, 2]), seed=0)
    >>> len(rows), np.array([0, 0, 1, 2, 2])[rows].tolist()
    (3, [0, 1, 2])

    Args:
        person: number of each row's person.
        seed: seed of the draw. Choosing among several seeds breaks a guarantee.
    """
    return one_row_each(person, numpy_generator(seed))
