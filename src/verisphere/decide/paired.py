"""Figures of several trainings in the same redrawings of people, so that variation common to all of them cancels.

Equal redrawings of the same number of people give the same draws (`bootstrap.py`), so replicate r of one model
corresponds to replicate r of any other model on the same images. Figures are kept and subtracted replicate by
replicate; the pairs of only one model need to be held at a time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from verisphere.base.vocabulary import REDRAWING, Progress, Redrawing, quietly
from verisphere.decide.bootstrap import (
    PairScores,
    TooFewScoresError,
    everyone,
    impostor_totals,
    over_redrawn,
    tars_at,
    thresholds_of,
)
from verisphere.decide.intervals import Interval, Redrawn, percentile_interval
from verisphere.decide.point import Far, exact_rate
from verisphere.decide.weights import Weights, weight_of_first


@dataclass(frozen=True, eq=False)
class RedrawnSpread:
    """The spread of domains at one threshold (see `OneThreshold`), with population standard deviations over domains.

    A FAR of 0 counts as 1 / the domain's impostors, and gamma is sqrt(mean over domains of (t_d - t_c)^2).
    """

    gamma: Redrawn
    tar_std: Redrawn
    neg_log10_far_std: Redrawn


def spread_redrawn(
    pooled: PairScores,
    domains: Mapping[str, PairScores],
    far: Far,
    redrawing: Redrawing = REDRAWING,
    progress: Progress = quietly,
) -> RedrawnSpread:
    """The spread of domains at one threshold; each replicate finds its own t_c, of the pooled pairs, and every t_d.

    A person who is in several domains is drawn once for all of them; people of all are numbered as in `pooled`, and
    `images` are the domain's own. A replicate in which a domain has no genuine or no impostor pair has no such figure.
    """
    people = len(pooled.images)
    others = [name for name, pairs in domains.items() if len(pairs.images) != people or pairs.listed]
    if not domains or others:
        raise ValueError(
            f"domain {others[0]!r} does not number the {people} people of the whole set" if others else "no domain"
        )
    parts = list(domains.values())
    value = _spreads(pooled, parts, everyone(people), far)[:, 0]

    def spreads(weights: Weights) -> Float64[np.ndarray, "3 replicates"]:
        return _spreads(pooled, parts, weights, far)

    replicates = over_redrawn(people, redrawing, spreads, lambda: [exact_rate(far), pooled, parts], progress)
    figures = zip(value, replicates, strict=True)
    return RedrawnSpread(*(Redrawn(float(whole), redrawn_values, spread=True) for whole, redrawn_values in figures))


def mean_difference(ours: Sequence[Redrawn], theirs: Sequence[Redrawn]) -> Interval:
    """Mean over seeds of the difference of a figure between two arms at the same seed, over the same redrawn people.

    The interval shows how the mean varies with the people; the spread over seeds shows how it varies with the seed. The
    interval is the middle 95 % of the replicates; for a figure that is itself a spread, these 95 % are reflected at the
    value, which is the basic bootstrap interval (Davison and Hinkley 1997, section 5.2). Replicates of a spread are too
    large, most of all where the spread is small: a model that had closed the gap between domains would seem to have
    closed half of it. In a simulation of a gap known to be closed, the percentiles contained the true value in 38 of 49
    sets, and the basic interval in 47. Both arms have a figure for each seed, in the same order, from the same draws.

    >>> arm = [Redrawn(0.9, np.array([0.9, 0.8])), Redrawn(0.7, np.array([0.7, 0.8]))]
    >>> other = [Redrawn(0.6, np.array([0.7, 0.5])), Redrawn(0.6, np.array([0.5, 0.7]))]
    >>> round(mean_difference(arm, other).value, 6)
    0.2
    """
    if not ours or len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} and {len(theirs)} trainings do not make pairs, one of each a seed")
    lengths = {len(one.replicates) for one in (*ours, *theirs)}
    if len(lengths) != 1:
        raise ValueError(f"figures over {sorted(lengths)} replicates are not of the same draws")
    with np.errstate(invalid="ignore"):  # two infinite figures have no difference: NaN, which is excluded
        values = [np.float64(one.value) - other.value for one, other in zip(ours, theirs, strict=True)]
        replicates = [one.replicates - other.replicates for one, other in zip(ours, theirs, strict=True)]
        interval = percentile_interval(float(np.mean(values)), np.mean(replicates, axis=0))
    if not any(one.spread for one in (*ours, *theirs)):
        return interval
    lower, upper = (2 * interval.value - end for end in (interval.upper_95, interval.lower_95))
    return replace(interval, lower_95=lower, upper_95=upper)


def chance_of(ours: Redrawn, theirs: Redrawn) -> float:
    """The two-sided p-value of a difference over the same redrawn people, from the same draws.

    Twice the share of replicates without the difference or with one of the other sign, the set itself counted among
    them (Davison and Hinkley 1997, section 4.4): it is at least 2 / (replicates + 1).

    >>> chance_of(Redrawn(0.9, np.array([0.9, 0.8, 0.7])), Redrawn(0.6, np.array([0.7, 0.5, 0.6])))
    0.5
    """
    differences = ours.replicates - theirs.replicates
    differences = differences[~np.isnan(differences)]
    against = int(min((differences <= 0).sum(), (differences >= 0).sum()))
    return min(2 * (against + 1) / (len(differences) + 1), 1.0)


def holm(chances: Sequence[float]) -> list[float]:
    """P-values of comparisons made together (Holm 1979).

    Where those of at most 5 % are taken for differences, the chance that any of them is none is at most 5 %.

    >>> holm([0.01, 0.25, 0.125])
    [0.03, 0.25, 0.25]
    """
    order = np.argsort(chances)
    times = np.arange(len(order), 0, -1) * np.array(chances)[order]
    together = np.empty(len(order))
    together[order] = np.maximum.accumulate(times).clip(max=1)
    return [float(chance) for chance in together]


def _spreads(
    pooled: PairScores, domains: Sequence[PairScores], weights: Weights, far: Far
) -> Float64[np.ndarray, "3 replicates"]:
    """Gamma, and the standard deviations of TAR and of -log10 FAR, in each replicate."""
    common = thresholds_of(pooled, weights, [far])  # (1, replicates)
    own = np.concatenate([thresholds_of(pairs, weights, [far]) for pairs in domains])  # (domains, replicates)
    tar = np.concatenate([tars_at(pairs, weights, common) for pairs in domains])
    exponent = np.stack([_exponents(pairs, weights, common[0]) for pairs in domains])
    with np.errstate(invalid="ignore"):
        distance = np.where(own == common, 0.0, own - common)  # two infinite thresholds are equal
        found = np.stack([np.sqrt(np.mean(distance**2, axis=0)), tar.std(axis=0), exponent.std(axis=0)])
    found[:, np.isnan(tar).any(0) | np.isnan(exponent).any(0)] = np.nan
    return found


def _exponents(
    pairs: PairScores, weights: Weights, thresholds: Float64[np.ndarray, " replicates"]
) -> Float64[np.ndarray, " replicates"]:
    """-log10 FAR of a domain at a threshold of each replicate; NaN where it has no impostor pair there."""
    if (thresholds < pairs.floor).any():
        raise TooFewScoresError(f"{len(pairs.impostor)} impostor scores do not reach down to the threshold")
    above = len(pairs.impostor) - np.searchsorted(pairs.impostor[::-1], thresholds, side="right")
    accepted = weight_of_first(weights, pairs.impostor_people, above[None])[0]
    total = impostor_totals(pairs, weights)
    share = np.divide(np.maximum(accepted, 1), total, out=np.full(len(weights), np.nan), where=total > 0)
    return -np.log10(share)
