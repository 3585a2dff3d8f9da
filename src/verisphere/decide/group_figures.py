"""Figures that measure how much groups differ at one threshold, from their rates; and bounds of these figures.

With FAR_g and FRR_g = 1 - TAR_g of each group g at the same threshold, n groups, and a weight alpha of false accepts
against false rejects:

- max / min: max_g x_g / min_g x_g of x = FAR or FRR; and max / geometric mean: max_g x_g / (prod_g x_g)^(1/n), which
  one outlying small rate moves less (Grother 2022, NIST IR 8429).
- Inequity Rate (same source): IR = (max FAR / min FAR)^alpha * (max FRR / min FRR)^(1 - alpha); 1 is equal.
- Fairness Discrepancy Rate (de Freitas Pereira and Marcel 2022, arXiv:2011.02395):
  FDR = 1 - (alpha * (max FAR - min FAR) + (1 - alpha) * (max FRR - min FRR)); 1 is equal.
- GARBE (Howard et al. 2022, arXiv:2203.05051): alpha * G(FAR) + (1 - alpha) * G(FRR) with the Gini coefficient
  G(x) = n / (n - 1) * sum_ij |x_i - x_j| / (2 n^2 mean(x)); 0 is equal, 1 where one group has all the errors.

An infinity stands for a quotient by zero, NaN for 0 / 0; `groups.py` calls both undefined.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike

Rates = Float64[np.ndarray, "*sets groups"]
Values = Float64[np.ndarray, "*sets"]


def max_over_min(rates: Rates) -> Values:
    """The largest rate over the smallest."""
    return _quotient(rates.max(-1), rates.min(-1))


def max_over_geometric_mean(rates: Rates) -> Values:
    """The largest rate over the geometric mean of all."""
    with np.errstate(divide="ignore"):
        mean = np.exp(np.log(rates).mean(-1))  # 0 where a rate is
    return np.asarray(np.maximum(_quotient(rates.max(-1), mean), 1.0))  # rounding can bring equal rates below 1


def spread(rates: Rates) -> Values:
    """The largest rate less the smallest."""
    return np.asarray(rates.max(-1) - rates.min(-1))


def gini(rates: Rates) -> Values:
    """The Gini coefficient with the correction n / (n - 1) for n groups.

    >>> gini(np.array([0.1, 0.1])).item(), gini(np.array([0.0, 0.0, 0.3])).item()
    (0.0, 1.0)
    """
    groups = rates.shape[-1]
    place = 2 * np.arange(1, groups + 1) - groups - 1  # sum over pairs of |x_i - x_j| is 2 sum of place * sorted
    apart = 2 * (np.sort(rates, -1) * place).sum(-1)
    return _quotient(apart, 2 * groups * (groups - 1) * rates.mean(-1))


def fairness_discrepancy_rate(far: Rates, frr: Rates, alpha: float) -> Values:
    """FDR of de Freitas Pereira and Marcel."""
    return np.asarray(1 - (alpha * spread(far) + (1 - alpha) * spread(frr)))


def inequity_rate(far: Rates, frr: Rates, alpha: float) -> Values:
    """IR of NIST; a ratio with weight 0 does not count, even if it is undefined."""
    parts = [max_over_min(rates) ** weight for rates, weight in ((far, alpha), (frr, 1 - alpha)) if weight]
    return np.asarray(np.prod(parts, axis=0))


def garbe(far: Rates, frr: Rates, alpha: float) -> Values:
    """GARBE of Howard et al.; a Gini coefficient with weight 0 does not count, even if it is undefined."""
    parts = [weight * gini(rates) for rates, weight in ((far, alpha), (frr, 1 - alpha)) if weight]
    return np.asarray(np.sum(parts, axis=0))


def _quotient(above: ArrayLike, below: ArrayLike) -> Float64[np.ndarray, "..."]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.divide(above, below))


#: Each figure of the FAR and the FRR of groups, and alpha.
MEASURES: dict[str, Callable[[Rates, Rates, float], Values]] = {
    "far_max_min": lambda far, frr, alpha: max_over_min(far),
    "far_max_geometric_mean": lambda far, frr, alpha: max_over_geometric_mean(far),
    "frr_max_min": lambda far, frr, alpha: max_over_min(frr),
    "frr_max_geometric_mean": lambda far, frr, alpha: max_over_geometric_mean(frr),
    "fdr": fairness_discrepancy_rate,
    "inequity_rate": inequity_rate,
    "garbe": garbe,
}


@dataclass(frozen=True, eq=False)
class Box:
    """Lower and upper bounds of each group's rate; every figure is bounded over all rates within them."""

    lower: Float64[np.ndarray, " groups"]
    upper: Float64[np.ndarray, " groups"]

    def _others(self) -> Float64[np.ndarray, "groups rest"]:
        """For each group the lower bounds of the others."""
        groups = len(self.lower)
        return np.tile(self.lower, (groups, 1))[~np.eye(groups, dtype=bool)].reshape(groups, groups - 1)

    def max_over_min(self) -> tuple[float, float]:
        """The least value, for rates as close together as their bounds allow, and the largest, for rates far apart."""
        least = max(float(_quotient(self.lower.max(), self.upper.min())), 1.0)
        return least, float(_quotient(self.upper, self._others().min(1)).max())

    def max_over_geometric_mean(self) -> tuple[float, float]:
        """The least value and the largest.

        For the least, every rate lies as near to the highest lower bound as its bounds allow: at a given maximum the
        quotient falls as the other rates rise, and it falls with the maximum until that reaches a lower bound. For the
        largest, one rate lies at its upper bound and all others at their lower bounds.
        """
        top = self.lower.max()
        least = float(max_over_geometric_mean(np.minimum(self.upper, top))) if top else 1.0
        highest = np.concatenate([self.upper[:, None], self._others()], axis=1)
        return least, float(max_over_geometric_mean(highest).max())

    def spread(self) -> tuple[float, float]:
        """Least and largest difference of two rates."""
        least = max(float(self.lower.max() - self.upper.min()), 0.0)
        return least, float((self.upper - self._others().min(1)).max())

    def gini(self) -> tuple[float, float]:
        """Outer bounds, wider than necessary: the sum of differences and the mean are bounded separately."""
        groups = len(self.lower)
        gap = self.lower[:, None] - self.upper[None]
        far_apart, near = np.maximum(-gap, -gap.T), np.maximum(np.maximum(gap, gap.T), 0)
        np.fill_diagonal(far_apart, 0)
        scale = 2 * groups * (groups - 1)
        least = float(_quotient(near.sum(), scale * self.upper.mean()))
        most = float(_quotient(far_apart.sum(), scale * self.lower.mean()))
        return least, min(most, 1.0)


def bounds_of(far: Box, frr: Box, alpha: float) -> dict[str, tuple[float, float]]:
    """Bounds of every figure; each figure rises in its two parts, except FDR, which falls."""
    weighted = [(box, weight) for box, weight in ((far, alpha), (frr, 1 - alpha)) if weight]

    def both(name: str) -> list[tuple[tuple[float, float], float]]:
        return [(getattr(box, name)(), weight) for box, weight in weighted]

    apart, ratios, ginis = both("spread"), both("max_over_min"), both("gini")
    return {
        "far_max_min": far.max_over_min(),
        "far_max_geometric_mean": far.max_over_geometric_mean(),
        "frr_max_min": frr.max_over_min(),
        "frr_max_geometric_mean": frr.max_over_geometric_mean(),
        "fdr": (
            1 - sum(weight * ends[1] for ends, weight in apart),
            1 - sum(weight * ends[0] for ends, weight in apart),
        ),
        "inequity_rate": (
            float(np.prod([ends[0] ** weight for ends, weight in ratios])),
            float(np.prod([ends[1] ** weight for ends, weight in ratios])),
        ),
        "garbe": (
            sum(weight * ends[0] for ends, weight in ginis),
            sum(weight * ends[1] for ends, weight in ginis),
        ),
    }
