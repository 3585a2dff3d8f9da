"""Scores as log-likelihood ratios, and the probability of one person that follows from a prior.

A ratio log p(score | one person) - log p(score | two people), by the natural logarithm, is added to the log-odds of a
prior. The map of scores is a line, fitted by logistic regression at equal weights of both kinds (Bruemmer and du Preez
2006), with Jeffreys' prior (Firth 1993), so that it is finite also where genuine and impostor scores do not overlap.

No ratio is claimed beyond what the people can show. If none of n independent comparisons is above a score, a further
one is with a mean probability of 1 / (n + 1): a ratio is at most log(n + 1), with n comparisons of two people that
share nobody, and at least -log(m + 1), with m people who have genuine comparisons. Outside the fitted scores it is that
of the nearest one.

The cost is Cllr = (mean over genuine of log2(1 + exp(-ratio)) + mean over impostors of log2(1 + exp(ratio))) / 2: 0 if
perfect, 1 if nothing is said. Its minimum over increasing maps is that of the pool-adjacent-violators algorithm (PAV).
"""

import math
from dataclasses import dataclass, replace
from numbers import Real
from typing import TypeAlias

import numpy as np
from jaxtyping import Float64
from scipy.optimize import minimize
from scipy.special import expit, logit, xlogy

from verisphere.base.vocabulary import Progress, Redrawing
from verisphere.base.words import counted, share
from verisphere.decide.bootstrap import PairScores, everyone, fars_at, over_redrawn
from verisphere.decide.intervals import Interval, percentile_interval
from verisphere.decide.weights import Weights

Scores: TypeAlias = Float64[np.ndarray, " scores"]


@dataclass(frozen=True)
class StatedProbability:
    """The probability of one person after a comparison, its prior, and the log-likelihood ratio between the two.

    `at_bound` says that the people calibrated on can show no larger ratio, or no smaller one.
    """

    probability: float
    prior: float
    ratio: float
    at_bound: bool

    def __str__(self) -> str:
        after, before = (share(rate, per_cent=True) for rate in (self.probability, self.prior))
        ratio = f"log-likelihood ratio {self.ratio:.2f}{', the bound of this calibration' * self.at_bound}"
        return f"Probability of one person: {after}, if it was {before} before ({ratio})."


@dataclass(frozen=True)
class ScoreProbability:
    """A map of scores to log-likelihood ratios, and how well it does on the scores that it was fitted on.

    Attributes:
        people: number of people with genuine comparisons, each of whom counts once.
        comparisons: number of comparisons of two people of which no two share a person.
        cllr: cost of the ratios, in bits.
        min_cllr: least cost of an increasing map of the same scores, in bits.
        stated: mean probability, at an even prior, of comparisons with nearly equal ratios, ascending.
        observed: share of genuine ones among these, each kind weighing one half, over redrawn people; empty where
            people are not known.
    """

    slope: float
    intercept: float
    lowest: float
    highest: float
    people: int
    comparisons: int
    cllr: float
    min_cllr: float
    stated: tuple[float, ...] = ()
    observed: tuple[Interval, ...] = ()

    def __post_init__(self) -> None:
        if not (0 < self.slope < math.inf and self.lowest < self.highest and min(self.people, self.comparisons) > 0):
            raise ValueError(f"a ratio that rises by {self.slope} from score {self.lowest} to {self.highest}")
        if not 0 <= self.min_cllr <= self.cllr + 1e-9 < math.inf or len(self.observed) != len(self.stated):
            raise ValueError(f"Cllr {self.cllr}, at least {self.min_cllr}, with {len(self.observed)} observed shares")
        if not all(0 <= probability <= 1 for probability in self.stated):
            raise ValueError(f"probabilities lie between 0 and 1, got {self.stated}")

    def ratios(self, scores: Scores) -> Scores:
        """The log-likelihood ratio of each score."""
        line = self.slope * np.clip(scores, self.lowest, self.highest) + self.intercept
        return np.clip(line, -math.log1p(self.people), math.log1p(self.comparisons))

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest ratio."""
        least, most = self.ratios(np.array([self.lowest, self.highest])).tolist()
        return least, most

    def at(self, score: float, prior: float) -> StatedProbability:
        """The probability that a comparison with this score is of one person, if it was `prior` before."""
        check_prior(prior)
        if score != score:
            raise ValueError("score must be a number, got NaN")
        ratio = float(self.ratios(np.array([score]))[0])
        return StatedProbability(float(expit(logit(prior) + ratio)), prior, ratio, ratio in self.bounds)

    def meaning(self) -> str:
        """The map, its bounds and its cost, in one sentence."""
        return (
            f"the log-likelihood ratio of one person is {self.slope:.4g} * score {self.intercept:+.4g}, from "
            f"{self.bounds[0]:.2f} to {self.bounds[1]:.2f} ({counted(self.people, 'person')} with genuine comparisons; "
            f"{counted(self.comparisons, 'comparison')} of two people that share nobody); Cllr {self.cllr:.4f}, at "
            f"least {self.min_cllr:.4f} by an increasing map"
        )


def check_prior(prior: object) -> None:
    """Refuse a prior that no comparison could change, or so near to one that nobody knows it."""
    if not (isinstance(prior, Real) and 1e-12 <= float(prior) <= 1 - 1e-12):
        raise ValueError(
            f"the probability before a comparison must be from 1e-12 to 1 - 1e-12, such as 0.5, got {prior!r}"
        )


@dataclass(frozen=True, eq=False)
class WeighedScores:
    """Ascending scores with the weights of genuine and of impostor comparisons at each; those of a kind sum to 1."""

    scores: Scores
    genuine: Scores
    impostor: Scores

    def cllr(self, ratios: Scores) -> float:
        """The cost of these log-likelihood ratios, in bits."""
        cost = self.genuine @ np.logaddexp(0, -ratios) + self.impostor @ np.logaddexp(0, ratios)
        return float(cost) / (2 * math.log(2))

    def min_cllr(self) -> float:
        """The cost of the ratios by PAV: neighbours are pooled as long as the ratio of their weights falls."""
        pools: list[tuple[float, float]] = []
        for same, other in zip(self.genuine.tolist(), self.impostor.tolist(), strict=True):
            while pools and pools[-1][0] * other >= same * pools[-1][1]:
                before = pools.pop()
                same, other = same + before[0], other + before[1]
            pools.append((same, other))
        weights = np.array(pools)
        return (0.0 - float(xlogy(weights, weights / weights.sum(1, keepdims=True)).sum())) / (2 * math.log(2))

    def fitted(self, people: int, comparisons: int) -> ScoreProbability:
        """The map of these scores, of so many people with genuine comparisons, and comparisons that share nobody."""
        ends = float(self.scores[0]), float(self.scores[-1])
        if not (ends[0] < ends[1] and all(map(math.isfinite, ends))):
            raise ValueError("scores that are infinite, or all one and the same, have no log-likelihood ratio")
        weight = (self.genuine + self.impostor) / 2
        middle = weight @ self.scores
        with np.errstate(over="ignore"):
            spread = math.sqrt(weight @ (self.scores - middle) ** 2)
        if not 1e-150 < spread < math.inf:
            raise ValueError(f"scores from {ends[0]:g} to {ends[1]:g} are too near or too far apart for their ratios")
        design = np.stack([(self.scores - middle) / spread, np.ones(len(weight))])
        total = people + comparisons

        def cost(line: Float64[np.ndarray, " 2"]) -> float:
            ratios = line @ design
            determinant = np.linalg.det(design * (weight * expit(ratios) * expit(-ratios)) @ design.T)
            return total * math.log(2) * self.cllr(ratios) - math.log(max(determinant, 1e-300)) / 2

        steep, level = minimize(cost, [1.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-9}).x
        if steep <= 0:
            raise ValueError("genuine scores are no higher than impostor scores, so no score speaks for one person")
        line = float(steep / spread), float(level - steep * middle / spread)
        least = self.min_cllr()
        fitted = ScoreProbability(*line, *ends, people, comparisons, least, least)
        return replace(fitted, cllr=self.cllr(fitted.ratios(self.scores)))

    def with_reliability(
        self, found: ScoreProbability, pairs: PairScores, borders: Scores, redrawing: Redrawing, progress: Progress
    ) -> ScoreProbability:
        """The map with what it states, and what is observed over redrawn people, between ascending borders of scores.

        The pairs are those of the weights, one image of each in those of two people, with every impostor score above
        the lowest border.
        """
        of_person = np.bincount(pairs.genuine_person, minlength=len(pairs.images))
        above = [np.bincount(pairs.genuine_person, pairs.genuine > border, len(of_person)) for border in borders]
        shares = np.vstack([of_person > 0, above / np.maximum(of_person, 1)])  # (1 + borders, people)
        inside = np.abs(np.diff(shares, axis=0, append=0))  # (bins, people)

        def observed(weights: Weights) -> Float64[np.ndarray, "bins replicates"]:
            fars = np.vstack([np.ones(len(weights)), fars_at(pairs, weights, borders)])
            same, other = inside @ weights.draws.T / (shares[0] @ weights.draws.T), np.diff(fars, axis=0, append=0)
            return np.asarray(same / (same - other))

        place, weight = np.searchsorted(borders, self.scores), self.genuine + self.impostor
        stated = weight * expit(found.ratios(self.scores))
        sums = [np.bincount(place, one, len(borders) + 1) for one in (stated, weight)]
        with np.errstate(invalid="ignore"):  # a bin without comparisons, or nobody with a genuine one was drawn
            stated, of_all = sums[0] / sums[1], observed(everyone(len(of_person)))[:, 0]
            runs = over_redrawn(len(of_person), redrawing, observed, lambda: [borders, pairs], progress)
        seen = np.flatnonzero(np.isfinite(stated * of_all)).tolist()
        intervals = tuple(percentile_interval(float(of_all[number]), runs[number]) for number in seen)
        return replace(found, stated=tuple(stated[seen].tolist()), observed=intervals)
