"""A threshold below the FAR that few people show, by a tail fitted to their highest scores.

Above a high enough score u the excesses of most distributions follow a generalised Pareto distribution (Pickands 1975,
Balkema and de Haan 1974): P(s > u + x) = P(s > u) (1 + g x / h)^(-1 / g), with shape g and scale h. The threshold of a
FAR f is where this is f. ISO/IEC 5152 estimates low error rates in this way. The parameters are those of
probability-weighted moments (Hosking and Wallis 1987, equation 6), which need no search and exist where g is below 1.

The excesses are those of pairs that share people, so people are redrawn, and the threshold is the upper 95 % quantile
over redrawings. What is assumed is that the tail continues as it was fitted. `checked_to` is the lowest FAR at which
the people have enough pairs to compare the fit with them, and `worst` the largest ratio there of a FAR that they show
to the fitted one. Below it nothing was compared, and people too rare to be among them are not seen at all.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.special import boxcox, inv_boxcox

from verisphere.base.vocabulary import Progress, Redrawing
from verisphere.decide.bootstrap import PairScores, impostor_totals, over_redrawn
from verisphere.decide.point import Far, far_text
from verisphere.decide.sample_size import promised_rate
from verisphere.decide.weights import Weights

TAIL_SHARE = 0.01  # of all pairs, of which the tail is made
MOST_EXCESSES, FEWEST_EXCESSES = 20_000, 400
_COMPARED = 10  # accepted pairs at the lowest FAR at which the fit is compared with what people show


@dataclass(frozen=True)
class FittedTail:
    """A generalised Pareto distribution of the highest impostor scores.

    Attributes:
        start: the score u where the tail begins.
        shape: the shape g; below 0 the scores have an upper limit.
        scale: the scale h.
        checked_to: lowest FAR at which the fit was compared with the people's pairs.
        worst: largest ratio there, and at higher FARs of the tail, of the FAR that the people show to the fitted one.
    """

    excesses: int
    start: float
    shape: float
    scale: float
    checked_to: float
    worst: float

    def described(self) -> str:
        """What the tail was fitted to, and how well, in one sentence."""
        return (
            f"a generalised Pareto tail of the highest {self.excesses:,} scores (above {self.start:.4f}, shape "
            f"{self.shape:.2f}), whose FARs are at most {self.worst:.2f} times as high among these people down to FAR "
            f"{self.checked_to:.1e}; below it nothing could be compared"
        ).replace("e-0", "e-")


def tail_pairs(impostor_total: int) -> int:
    """Number of highest scores that a tail is fitted to; one more is needed, where it begins."""
    return min(int(TAIL_SHARE * impostor_total), MOST_EXCESSES)


def tail_fars(impostor_total: int) -> tuple[float, float] | None:
    """The lowest FAR of a tail, at which a tenth of a pair is accepted, and the highest; None with too few pairs."""
    count = tail_pairs(impostor_total)
    return None if count < FEWEST_EXCESSES else (1 / (10 * impostor_total), count / impostor_total / 2)


def tail_reaches(far: Far, impostor_total: int) -> bool:
    """Whether so many pairs have a tail for a FAR."""
    fars = tail_fars(impostor_total)
    return fars is not None and fars[0] <= float(promised_rate(far)) <= fars[1]


def tail_threshold(pairs: PairScores, far: Far, redrawing: Redrawing, progress: Progress) -> tuple[float, FittedTail]:
    """The upper 95 % quantile over redrawn people of the fitted threshold at a FAR, and the tail of the set itself.

    At least the `tail_pairs` + 1 highest scores of all pairs must be there.
    """
    rate, count, fars = float(promised_rate(far)), tail_pairs(pairs.impostor_total), tail_fars(pairs.impostor_total)
    if fars is None:
        raise ValueError(
            f"guarantee 'tail' needs {FEWEST_EXCESSES} scores in the tail, so "
            f"{math.ceil(0.5 + math.sqrt(2 * FEWEST_EXCESSES / TAIL_SHARE)):,} people; got {len(pairs.images):,}"
        )
    if not tail_reaches(far, pairs.impostor_total):
        raise ValueError(
            f"guarantee 'tail' is for FARs from {fars[0]:.2e} to {fars[1]:.2e} with these people, got {far_text(far)}: "
            "above, their own pairs show the FAR ('approximate'); below, less than a tenth of a pair would be accepted"
        )
    start, people = float(pairs.impostor[count]), pairs.impostor_people[:count]
    excess = np.maximum(pairs.impostor[:count] - start, 0.0)
    if excess[0] == excess[-1]:
        raise ValueError(f"guarantee 'tail' needs unequal scores; the {count:,} highest are all {pairs.impostor[0]:g}")
    shape, scale = _fitted(excess, np.ones(count))
    # a fitted tail may end below some scores, where its share is NaN
    fitted = np.fmax(count / pairs.impostor_total / inv_boxcox(excess / scale, shape), fars[0])
    worst = float((np.arange(1, count + 1) / pairs.impostor_total / fitted)[_COMPARED - 1 :].max())
    tail = FittedTail(count, start, shape, scale, _COMPARED / pairs.impostor_total, worst)

    def beyond(weight: Float64[np.ndarray, " pairs"], total: int) -> float:
        """The fitted threshold of a replicate, less the start of the tail."""
        if not (share := weight.sum() / total / rate):
            return 0.0  # nobody with a score in the tail was drawn: the threshold is no higher than its start
        shape, scale = _fitted(excess, weight)
        if not math.isfinite(shape):
            return float(excess[weight > 0].max())  # one excess alone
        return scale * min(float(boxcox(share, shape)), 1e300)  # of an extreme shape, no overflow

    def each(weights: Weights) -> Float64[np.ndarray, " replicates"]:
        totals = enumerate(impostor_totals(pairs, weights).tolist())
        weighed = ((weights.each(people, np.array([place]))[0].astype(float), total) for place, total in totals)
        return np.array([beyond(*one) for one in weighed])

    ordered = np.sort(over_redrawn(len(pairs.images), redrawing, each, lambda: [rate, pairs], progress))
    return start + float(ordered[math.ceil(0.95 * redrawing.replicates) - 1]), tail


def _fitted(excess: Float64[np.ndarray, " pairs"], weight: Float64[np.ndarray, " pairs"]) -> tuple[float, float]:
    """Shape and scale by probability-weighted moments; the excesses descend."""
    total = weight.sum()
    exceeding = (np.cumsum(weight) - weight / 2) / total  # share of the excesses that are as large
    mean, moment = (weight * excess).sum() / total, (weight * excess * exceeding).sum() / total
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(2 - mean / (mean - 2 * moment)), float(2 * mean * moment / (mean - 2 * moment))
