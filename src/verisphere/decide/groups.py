"""Differences of error rates between groups of people, or of images, at one threshold.

`group_figures.py` defines the figures. A quotient by zero is undefined and is reported as undefined, with a bound where
one exists. Bounds come from exact binomial bounds of the groups' rates, widened so that all of them hold together with
95 % (Bonferroni; comparisons are taken as independent), or from a bootstrap over identities.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float64

from verisphere.decide.bounds import binomial_bounds
from verisphere.decide.group_figures import MEASURES, Box, bounds_of
from verisphere.decide.one_threshold import OneThreshold


@runtime_checkable
class Counted(Protocol):
    """The counts of a group's comparisons at one threshold: a `DomainResult`, an `OperatingPoint` or `GroupCounts`."""

    @property
    def genuine_accepted(self) -> int:
        """Comparisons of one person that were accepted."""
        ...

    @property
    def genuine_total(self) -> int:
        """Comparisons of one person."""
        ...

    @property
    def impostor_accepted(self) -> int:
        """Comparisons of two people that were accepted."""
        ...

    @property
    def impostor_total(self) -> int:
        """Comparisons of two people."""
        ...


@dataclass(frozen=True)
class GroupCounts:
    """Counts of a group's comparisons, at a threshold that accepts iff score > threshold.

    >>> GroupCounts(genuine_accepted=90, genuine_total=100, impostor_accepted=2, impostor_total=1000).impostor_total
    1000
    """

    genuine_accepted: int
    genuine_total: int
    impostor_accepted: int
    impostor_total: int

    def __post_init__(self) -> None:
        for kind in ("genuine", "impostor"):
            accepted, total = getattr(self, f"{kind}_accepted"), getattr(self, f"{kind}_total")
            if not (0 <= accepted <= total and total >= 1):
                raise ValueError(
                    f"{accepted} of {total} {kind} comparisons cannot be: 0 <= accepted <= total with total >= 1"
                )


@dataclass(frozen=True)
class Measure:
    """One figure of difference with its bounds, or the reason why it is undefined.

    >>> counts = GroupCounts(90, 100, 0, 1000)
    >>> group_differences({"day": counts, "night": counts}, threshold=0.4, far_target="1e-3").far_max_min.undefined
    'no false accept in any group'

    Attributes:
        value: the figure; None where it is undefined.
        undefined: the reason why there is no value; None where there is one.
        lower_95, upper_95: bounds of the value; None on a side without a bound.
        bounds: the method by which the bounds were found.
    """

    value: float | None
    undefined: str | None
    lower_95: float | None
    upper_95: float | None
    bounds: Literal["binomial", "bootstrap"] | None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.undefined is None):
            raise ValueError(f"a figure has a value or a reason to have none, got {self.value} and {self.undefined!r}")
        for number in (self.value, self.lower_95, self.upper_95):
            if number is not None and not np.isfinite(number):
                raise ValueError(f"a figure of difference must be finite or undefined, got {number}")


@dataclass(frozen=True)
class Differential:
    """One group's error rates in relation to those of all groups.

    A ratio is the group's rate / the geometric mean of all groups' rates; None where a group has none of these errors,
    which makes that mean 0.
    """

    far: float
    frr: float
    far_ratio: float | None
    frr_ratio: float | None


@dataclass(frozen=True)
class GroupDifferences:
    """The differences of the groups at one threshold; see `group_figures.py` for each figure.

    >>> day, night = GroupCounts(90, 100, 2, 1000), GroupCounts(80, 100, 4, 1000)
    >>> list(group_differences({"day": day, "night": night}, threshold=0.4, far_target="1e-3").measures)[:2]
    ['far_max_min', 'far_max_geometric_mean']

    Attributes:
        far_target: the FAR that the threshold was chosen for.
        rule: the rule by which the threshold was chosen.
        threshold: the one threshold.
        groups: names of the groups.
        alpha: weight of FAR in `fdr`, `inequity_rate` and `garbe`; FRR has 1 - alpha.
        bounds: how the figures' bounds were found, in words.
        differentials: the rates of each group in relation to all groups, by its name.
    """

    far_target: str
    rule: str
    threshold: float
    groups: tuple[str, ...]
    alpha: float
    bounds: str
    far_max_min: Measure
    far_max_geometric_mean: Measure
    frr_max_min: Measure
    frr_max_geometric_mean: Measure
    fdr: Measure
    inequity_rate: Measure
    garbe: Measure
    differentials: dict[str, Differential] = field(default_factory=dict)

    @property
    def measures(self) -> dict[str, Measure]:
        """The figures by the names of their fields."""
        return {name: getattr(self, name) for name in MEASURES}


def group_differences(
    groups: Mapping[str, Counted], threshold: float, far_target: str, rule: str = "at_most", alpha: float = 0.5
) -> GroupDifferences:
    """The differences of groups at one threshold, from their counts at it, with joint binomial bounds.

    >>> day, night = GroupCounts(90, 100, 2, 1000), GroupCounts(80, 100, 4, 1000)
    >>> differences = group_differences({"day": day, "night": night}, threshold=0.4, far_target="1e-3")
    >>> differences.far_max_min.value, round(differences.fdr.value, 6), round(differences.garbe.value, 6)
    (2.0, 0.949, 0.333333)

    Args:
        groups: counts of each group's comparisons at the threshold.
        threshold: the one threshold.
        far_target: the FAR that the threshold was chosen for.
        rule: the rule by which the threshold was chosen.
        alpha: weight of FAR against FRR, in [0, 1].

    Raises:
        ValueError: no group; alpha outside [0, 1].
    """
    if not groups:
        raise ValueError("differences need groups, got none")
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha}")
    alone = len(groups) == 1
    accepts = [(counts.impostor_accepted, counts.impostor_total) for counts in groups.values()]
    rejects = [(counts.genuine_total - counts.genuine_accepted, counts.genuine_total) for counts in groups.values()]
    far, frr = (np.array([count / total for count, total in errors]) for errors in (accepts, rejects))
    zeros = {
        kind: [name for name, rate in zip(groups, rates, strict=True) if not rate]
        for kind, rates in (("far", far), ("frr", frr))
    }
    confidence = 1 - 0.05 / (2 * len(groups))
    bounds = {} if alone else bounds_of(_box(accepts, confidence), _box(rejects, confidence), alpha)
    measures = {}
    for name, measure in MEASURES.items():
        value = np.nan if alone else float(measure(far, frr, alpha))
        lower, upper = bounds.get(name, (np.nan, np.nan))
        defined = bool(np.isfinite(value))
        measures[name] = Measure(
            value=value if defined else None,
            undefined=None if defined else _why(name, zeros, list(groups), alpha),
            lower_95=_finite(lower),
            upper_95=_finite(upper),
            bounds=None if alone else "binomial",
        )
    text = (
        "none, of one group alone"
        if alone
        else f"exact binomial, for {len(groups)} groups together with 95 %, comparisons taken as independent"
    )
    ratios = (_to_geometric_mean(far), _to_geometric_mean(frr))
    columns = zip(groups, far.tolist(), frr.tolist(), *ratios, strict=True)
    differentials = {name: Differential(*figures) for name, *figures in columns}
    return GroupDifferences(
        far_target, rule, threshold, tuple(groups), alpha, text, **measures, differentials=differentials
    )


def differences_of(result: OneThreshold, alpha: float = 0.5) -> GroupDifferences:
    """The differences of domains at their one threshold.

    >>> from verisphere.decide import one_threshold
    >>> scores = {"bright": ([0.9, 0.8], [0.4, 0.1]), "dark": ([0.7, 0.2], [0.5, 0.3])}
    >>> differences_of(one_threshold(scores, far="0.5")).frr_max_min.undefined
    'no false reject in bright'
    """
    return group_differences(result.domains, result.calibration_threshold, result.far_target, result.rule, alpha)


def with_redrawn_bounds(
    differences: GroupDifferences,
    far: Float64[np.ndarray, "groups replicates"],
    tar: Float64[np.ndarray, "groups replicates"],
    people: int,
) -> GroupDifferences:
    """The same differences, with the middle 95 % over redrawn people as the bounds of each defined figure.

    An undefined figure keeps its binomial bound: a group without a false accept has none in any replicate either.

    >>> day, night = GroupCounts(90, 100, 2, 1000), GroupCounts(80, 100, 4, 1000)
    >>> differences = group_differences({"day": day, "night": night}, threshold=0.4, far_target="1e-3")
    >>> far, tar = np.array([[0.002, 0.003], [0.004, 0.004]]), np.array([[0.9, 0.91], [0.8, 0.82]])
    >>> with_redrawn_bounds(differences, far, tar, people=50).far_max_min.bounds
    'bootstrap'

    Args:
        differences: the differences at the same threshold.
        far: FAR of each group in each replicate, NaN where the group has no such pairs (see `rates_at`).
        tar: TAR, laid out like `far`.
        people: number of people who were redrawn.
    """
    seen = ~np.isnan(far).any(0) & ~np.isnan(tar).any(0)
    if len(differences.groups) == 1 or not seen.any():
        return differences
    rates = far.T[seen], 1 - tar.T[seen]
    changed: dict[str, Any] = {}
    for name, measure in differences.measures.items():
        if measure.value is None:
            continue
        values = MEASURES[name](*rates, differences.alpha)
        values = values[~np.isnan(values)]
        if len(values):
            lower, upper = np.quantile(values, 0.025, method="lower"), np.quantile(values, 0.975, method="higher")
            changed[name] = replace(measure, lower_95=_finite(lower), upper_95=_finite(upper), bounds="bootstrap")
    text = (
        f"bootstrap, {far.shape[1]:,} redrawings of {people:,} people at this threshold, held fixed; of what is "
        f"undefined {differences.bounds}"
    )
    return replace(differences, bounds=text, **changed)


def _why(name: str, zeros: Mapping[str, Sequence[str]], groups: Sequence[str], alpha: float) -> str:
    """The reason why a figure is undefined: there is only one group, or a rate of zero is a divisor."""
    if len(groups) == 1:
        return f"{groups[0]} alone has nothing to differ from"
    reasons = []
    for kind, weight, error in (("far", alpha, "accept"), ("frr", 1 - alpha, "reject")):
        divides = name.startswith(kind) or (name in ("inequity_rate", "garbe") and weight > 0)
        if divides and len(zeros[kind]) == len(groups):
            reasons.append(f"no false {error} in any group")
        elif divides and zeros[kind] and name != "garbe":  # a Gini coefficient divides by the mean alone
            reasons.append(f"no false {error} in {', '.join(zeros[kind])}")
    return "; ".join(reasons)


def _to_geometric_mean(rates: Float64[np.ndarray, " groups"]) -> list[float | None]:
    """Each rate over the geometric mean of all; None for every rate if one of them is 0."""
    if not rates.all():
        return [None] * len(rates)
    return [float(ratio) for ratio in rates / np.exp(np.log(rates).mean())]


def _finite(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None


def _box(errors: Sequence[tuple[int, int]], confidence: float) -> Box:
    lower, upper = np.array([binomial_bounds(count, total, confidence) for count, total in errors]).T
    return Box(lower, upper)
