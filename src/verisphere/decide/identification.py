"""1:N: a probe is searched in a gallery of people; open-set and closed-set identification, on scores alone.

Terms of ISO/IEC 19795-1: a probe is *mated* where its person is enrolled in the gallery, else *non-mated*. FPIR, the
false-positive identification rate, is the share of non-mated probes whose best score passes the threshold (score >
threshold). TPIR, the true-positive identification rate (1 - FNIR), is the share of mated probes whose mate passes and
outranks every other person. The score of a person of the gallery is the best of that person's images.

Ties lose: the identification rank of a mated probe is 1 + the number of other people whose score is equal to its mate's
or higher. Of several galleries each is decided by itself, and the rates are averaged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean

import numpy as np
from jaxtyping import Float64, Int64

from verisphere.base.vocabulary import Rule, check_bounds, check_rate
from verisphere.base.words import check_at_least
from verisphere.decide.bounds import binomial_bounds
from verisphere.decide.curve import Curve, roc
from verisphere.decide.point import Far, exact_rate, operating_point


@dataclass(frozen=True, eq=False)
class ProbeScores:
    """The scores of many probes in one gallery, reduced to those that identification needs.

    >>> matrix = np.array([[0.9, 0.2, 0.3], [0.5, 0.5, 0.1], [0.4, 0.6, 0.2]])
    >>> scores = probe_scores(matrix, np.array(["a", "a", "z"]), np.array(["a", "b", "c"]))
    >>> scores.rival.tolist(), scores.people
    ([0.3, 0.5], 3)

    Attributes:
        mate: each mated probe's score with its own person.
        rival: each mated probe's best score with another person; minus infinity if no other person is enrolled.
        rank: 1 + number of other people who score at least as high as the mate.
        stranger: each non-mated probe's best score.
        people: number of people who are enrolled.
    """

    mate: Float64[np.ndarray, " mated"]
    rival: Float64[np.ndarray, " mated"]
    rank: Int64[np.ndarray, " mated"]
    stranger: Float64[np.ndarray, " nonmated"]
    people: int

    def __post_init__(self) -> None:
        if not len(self.mate) == len(self.rival) == len(self.rank):
            raise ValueError(f"{len(self.mate)} mates, {len(self.rival)} rivals and {len(self.rank)} ranks")
        for name in ("mate", "rival", "stranger"):
            scores = getattr(self, name)
            bad = np.isnan(scores)
            if bad.any():
                raise ValueError(
                    f"{bad.sum()} of {len(scores)} {name} scores are NaN, the first at position {bad.argmax()}"
                )
        if ((self.rank < 1) | (self.rank > self.people)).any():
            raise ValueError(f"ranks run from {self.rank.min()} to {self.rank.max()} among {self.people} people")
        wrong = (self.rank == 1) != (self.mate > self.rival)
        if self.people > 1 and wrong.any():
            probe = int(wrong.argmax())
            raise ValueError(
                f"mated probe {probe} has rank {self.rank[probe]}, which its mate's score {self.mate[probe]} and the "
                f"best other score {self.rival[probe]} contradict"
            )


def probe_scores(scores: Float64[np.ndarray, "probes images"], probes: np.ndarray, gallery: np.ndarray) -> ProbeScores:
    """Reduce a matrix of scores to the scores that identification needs of each probe.

    >>> matrix = np.array([[0.9, 0.2, 0.3], [0.5, 0.5, 0.1], [0.4, 0.6, 0.2]])
    >>> scores = probe_scores(matrix, np.array(["a", "a", "z"]), np.array(["a", "b", "c"]))
    >>> scores.mate.tolist(), scores.rank.tolist(), scores.stranger.tolist()
    ([0.9, 0.5], [1, 2], [0.6])

    Args:
        scores: scores with a row for each probe and a column for each image of the gallery.
        probes: the person on each probe.
        gallery: the person on each image of the gallery; one person may have several.

    Raises:
        ValueError: NaN scores; another number of people than of rows or columns; an empty gallery.
    """
    if scores.shape != (len(probes), len(gallery)) or not len(gallery):
        raise ValueError(
            f"{len(probes)} probes and {len(gallery)} images of a gallery do not make scores {scores.shape}"
        )
    if np.isnan(scores).any():
        raise ValueError(f"{np.isnan(scores).sum()} of {scores.size} scores are NaN")
    order = np.argsort(gallery, kind="stable")
    people, first = np.unique(gallery[order], return_index=True)
    best = np.maximum.reduceat(scores[:, order], first, axis=1)  # (probe, person)
    mated = np.isin(probes, people)
    own = np.searchsorted(people, probes[mated])
    rows = np.arange(len(own))
    mate = best[mated][rows, own]
    others = best[mated]
    others[rows, own] = -np.inf
    return ProbeScores(
        mate=mate,
        rival=others.max(axis=1, initial=-np.inf),
        rank=(best[mated] >= mate[:, None]).sum(axis=1, dtype=np.int64),  # the mate itself makes the 1
        stranger=best[~mated].max(axis=1),
        people=len(people),
    )


def exact_fpir(fpir: Far) -> Fraction:
    """A target FPIR as the exact number that was written; see `exact_rate`.

    >>> exact_fpir("1e-2")
    Fraction(1, 100)

    Raises:
        ValueError: not a decimal number in [0, 1].
    """
    try:
        return exact_rate(fpir)
    except ValueError as error:
        raise ValueError(str(error).replace("a FAR", "an FPIR")) from None


@dataclass(frozen=True)
class IdentificationPoint:
    """Open-set identification in one gallery at one threshold.

    Rates travel with their counts and the two-sided exact binomial 95 % bounds, which take probes as independent.

    >>> mate, rival, rank = np.array([0.9, 0.5]), np.array([0.2, 0.5]), np.array([1, 2])
    >>> scores = ProbeScores(mate, rival, rank, stranger=np.array([0.6, 0.3]), people=3)
    >>> point = identification_point(scores, fpir="0.5")
    >>> point.mated_identified, point.mated_total, point.nonmated_passed
    (1, 2, 1)

    Attributes:
        fpir_target: the FPIR asked for, as it was given.
        rule: rule by which the threshold was chosen from the best scores of the non-mated probes, see `threshold_at`.
        rank: a mate counts where its rank is no higher than this.
        threshold: the threshold, which may be minus infinity.
        tpir: share of mated probes identified: score > threshold and a rank no higher than `rank`.
        fpir: share of non-mated probes whose best score > threshold.
        below_resolution: the target times the non-mated probes is below one, so none of them may pass.
    """

    fpir_target: str
    rule: str
    rank: int
    threshold: float
    tpir: float
    fpir: float
    mated_identified: int
    mated_total: int
    nonmated_passed: int
    nonmated_total: int
    below_resolution: bool
    fpir_lower_95: float
    fpir_upper_95: float
    tpir_lower_95: float
    tpir_upper_95: float

    def __post_init__(self) -> None:
        check_at_least("a rank", self.rank)
        check_rate(self.tpir, self.mated_identified, self.mated_total)
        check_rate(self.fpir, self.nonmated_passed, self.nonmated_total)
        check_bounds(self.tpir, self.tpir_lower_95, self.tpir_upper_95)
        check_bounds(self.fpir, self.fpir_lower_95, self.fpir_upper_95)


def identification_point(
    scores: ProbeScores, fpir: Far = "1e-2", rank: int = 1, rule: Rule = "at_most"
) -> IdentificationPoint:
    """TPIR at a target FPIR, the threshold chosen as `threshold_at` does from the non-mated probes' best scores.

    >>> mate, rival, rank = np.array([0.9, 0.5]), np.array([0.2, 0.5]), np.array([1, 2])
    >>> scores = ProbeScores(mate, rival, rank, stranger=np.array([0.6, 0.3]), people=3)
    >>> point = identification_point(scores, fpir="0.5")
    >>> point.threshold, point.tpir, point.fpir
    (0.3, 0.5, 0.5)

    Args:
        scores: the scores of the probes in one gallery.
        fpir: target FPIR.
        rank: a mate counts where its rank is no higher.
        rule: see `threshold_at`.

    Raises:
        ValueError: there are no mated or no non-mated probes; a bad FPIR, rank or rule.
    """
    exact_fpir(fpir)
    point = operating_point(_identifiable(scores, rank), scores.stranger, fpir, rule)
    return IdentificationPoint(
        fpir_target=point.far_target,
        rule=point.rule,
        rank=rank,
        threshold=point.threshold,
        tpir=point.tar,
        fpir=point.far,
        mated_identified=point.genuine_accepted,
        mated_total=point.genuine_total,
        nonmated_passed=point.impostor_accepted,
        nonmated_total=point.impostor_total,
        below_resolution=point.below_resolution,
        fpir_lower_95=point.far_lower_95,
        fpir_upper_95=point.far_upper_95,
        tpir_lower_95=point.tar_lower_95,
        tpir_upper_95=point.tar_upper_95,
    )


def identification_curve(scores: ProbeScores, rank: int = 1) -> Curve:
    """The exact curve of TPIR (its `tar`) over FPIR (its `far`), a point for each threshold that changes a decision.

    >>> mate, rival, rank = np.array([0.9, 0.5]), np.array([0.2, 0.5]), np.array([1, 2])
    >>> scores = ProbeScores(mate, rival, rank, stranger=np.array([0.6, 0.3]), people=3)
    >>> curve = identification_curve(scores)
    >>> curve.far.tolist(), curve.tar.tolist()
    ([0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 0.5, 0.5])

    Raises:
        ValueError: there are no mated or no non-mated probes; a bad rank.
    """
    return roc(_identifiable(scores, rank), scores.stranger)


@dataclass(frozen=True)
class RankRate:
    """Closed-set identification in one gallery, without a threshold: the share of mated probes up to a rank.

    >>> RankRate(rank=1, rate=0.5, identified=1, mated_total=2, lower_95=0.1, upper_95=0.9).rate
    0.5

    Attributes:
        rank: the mate is among this many best people, ties lost.
        rate: share of mated probes; the rank-k identification rate.
    """

    rank: int
    rate: float
    identified: int
    mated_total: int
    lower_95: float
    upper_95: float

    def __post_init__(self) -> None:
        check_at_least("a rank", self.rank)
        check_rate(self.rate, self.identified, self.mated_total)
        check_bounds(self.rate, self.lower_95, self.upper_95)


def rank_rate(scores: ProbeScores, rank: int = 1) -> RankRate:
    """The rank-k identification rate of the mated probes.

    >>> mate, rival, rank = np.array([0.9, 0.5]), np.array([0.2, 0.5]), np.array([1, 2])
    >>> scores = ProbeScores(mate, rival, rank, stranger=np.array([0.6, 0.3]), people=3)
    >>> rank_rate(scores).rate, rank_rate(scores, rank=2).rate
    (0.5, 1.0)

    Raises:
        ValueError: there are no mated probes; a rank below 1.
    """
    check_at_least("a rank", rank)
    _check_mated(scores)
    identified, total = int((scores.rank <= rank).sum()), len(scores.rank)
    return RankRate(rank, identified / total, identified, total, *binomial_bounds(identified, total))


@dataclass(frozen=True)
class Cmc:
    """The cumulative match characteristic of one gallery: rank-k rates for every k, where they rise.

    >>> Cmc(rank=(1, 2), identified=(1, 2), mated_total=2, people=3).identified
    (1, 2)

    Attributes:
        rank: ranks at which some mate lies, ascending.
        identified: mated probes with this rank or a lower one.
        mated_total: number of mated probes; `identified` ends there.
        people: number of people who are enrolled, the highest possible rank.
    """

    rank: tuple[int, ...]
    identified: tuple[int, ...]
    mated_total: int
    people: int

    def __post_init__(self) -> None:
        rising = all(np.diff(column).min(initial=1) > 0 for column in (self.rank, self.identified))
        whole = len(self.rank) == len(self.identified) and self.identified[-1:] == (self.mated_total,)
        if not (rising and whole and self.rank[0] >= 1 and self.rank[-1] <= self.people):
            raise ValueError("a CMC must rise from rank to rank up to the number of mated probes, within the people")


def cmc(scores: ProbeScores) -> Cmc:
    """The cumulative match characteristic.

    >>> mate, rival, rank = np.array([0.9, 0.5]), np.array([0.2, 0.5]), np.array([1, 2])
    >>> scores = ProbeScores(mate, rival, rank, stranger=np.array([0.6, 0.3]), people=3)
    >>> cmc(scores).rank, cmc(scores).identified
    ((1, 2), (1, 2))

    Raises:
        ValueError: there are no mated probes.
    """
    _check_mated(scores)
    ranks, counts = np.unique(scores.rank, return_counts=True)
    return Cmc(tuple(ranks.tolist()), tuple(counts.cumsum().tolist()), len(scores.rank), scores.people)


@dataclass(frozen=True)
class MeanPoint:
    """Open-set rates averaged over galleries, each at its own threshold; galleries weigh the same.

    The mean is not the rate of one experiment, so it has no exact bounds; the points of the galleries have them.

    >>> mate, rival, rank = np.array([0.9, 0.5]), np.array([0.2, 0.5]), np.array([1, 2])
    >>> scores = ProbeScores(mate, rival, rank, stranger=np.array([0.6, 0.3]), people=3)
    >>> point = identification_point(scores, fpir="0.5")
    >>> mean_point([point, point]).galleries
    2
    """

    fpir_target: str
    rule: str
    rank: int
    tpir: float
    fpir: float
    galleries: int
    below_resolution: bool


@dataclass(frozen=True)
class MeanRank:
    """A rank-k rate averaged over galleries; see `MeanPoint`.

    >>> MeanRank(rank=1, rate=0.5, galleries=2)
    MeanRank(rank=1, rate=0.5, galleries=2)
    """

    rank: int
    rate: float
    galleries: int


def mean_point(points: Sequence[IdentificationPoint]) -> MeanPoint:
    """The mean of one point of each gallery.

    >>> mate, rival, rank = np.array([0.9, 0.5]), np.array([0.2, 0.5]), np.array([1, 2])
    >>> scores = ProbeScores(mate, rival, rank, stranger=np.array([0.6, 0.3]), people=3)
    >>> point = identification_point(scores, fpir="0.5")
    >>> mean_point([point, point]).tpir
    0.5

    Raises:
        ValueError: there are no points, or they differ in target, rule or rank.
    """
    asked = {(point.fpir_target, point.rule, point.rank) for point in points}
    if len(asked) != 1:
        raise ValueError(f"points of {len(asked)} different questions have no mean: {sorted(asked)}")
    ((target, rule, rank),) = asked
    return MeanPoint(
        target,
        rule,
        rank,
        fmean(point.tpir for point in points),
        fmean(point.fpir for point in points),
        len(points),
        any(point.below_resolution for point in points),
    )


def mean_rank(rates: Sequence[RankRate]) -> MeanRank:
    """The mean of one rank-k rate of each gallery.

    >>> mate, rival, rank = np.array([0.9, 0.5]), np.array([0.2, 0.5]), np.array([1, 2])
    >>> scores = ProbeScores(mate, rival, rank, stranger=np.array([0.6, 0.3]), people=3)
    >>> mean_rank([rank_rate(scores, rank=2)]).rate
    1.0

    Raises:
        ValueError: there are no rates, or they differ in rank.
    """
    asked = {rate.rank for rate in rates}
    if len(asked) != 1:
        raise ValueError(f"rates at {len(asked)} different ranks have no mean: {sorted(asked)}")
    return MeanRank(rates[0].rank, fmean(rate.rate for rate in rates), len(rates))


def _identifiable(scores: ProbeScores, rank: int) -> Float64[np.ndarray, " mated"]:
    """The mate's score if its rank is low enough, else minus infinity; refuses a bad rank, and probes of one kind."""
    check_at_least("a rank", rank)
    _check_mated(scores)
    if not len(scores.stranger):
        raise ValueError(
            f"all {len(scores.mate)} probes are mated: everybody on them is enrolled, so no FPIR can be stated"
        )
    return np.where(scores.rank <= rank, scores.mate, -np.inf)


def _check_mated(scores: ProbeScores) -> None:
    if not len(scores.mate):
        raise ValueError(
            f"none of {len(scores.stranger)} probes is mated: no person on them is enrolled, so no TPIR can be stated"
        )
