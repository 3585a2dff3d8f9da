"""One threshold for all domains, and how far each domain is from it (OneFace, Liu et al. 2022, section 4.1)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from statistics import fmean, pvariance
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from verisphere.base.vocabulary import OperatingPoint, Rule, Union, check_rate, check_rates, check_word
from verisphere.decide.order import Ordered, ScoresLike, SortedScores, ordered
from verisphere.decide.point import Far, exact_rate, operating_point, point_at, threshold_at

_DOMAINS_NAMED = 10  # most domains that an error lists
ThresholdSource = Literal["all", "within", "calibration"]


@dataclass(frozen=True)
class DomainResult:
    """One domain at the common threshold, and at its own.

    >>> scores = {"bright": ([0.9, 0.8], [0.3, 0.1]), "dark": ([0.7, 0.4], [0.5, 0.2])}
    >>> dark = one_threshold(scores, far="0.25").domains["dark"]
    >>> dark.tar, dark.far, dark.threshold, dark.far_own
    (1.0, 0.5, 0.5, 0.0)

    Attributes:
        tar: share of the domain's genuine comparisons that the common threshold accepts.
        far: share of its impostor comparisons that it accepts.
        threshold: the domain's own threshold at the same target FAR (t_d).
        tar_own: TAR at its own threshold.
        far_own: FAR at its own threshold, at most the target.
        below_resolution: the target times the domain's impostor count is below one.
    """

    tar: float
    far: float
    threshold: float
    tar_own: float
    far_own: float
    genuine_accepted: int
    genuine_total: int
    impostor_accepted: int
    impostor_total: int
    genuine_accepted_own: int
    impostor_accepted_own: int
    below_resolution: bool
    far_lower_95: float
    far_upper_95: float
    tar_lower_95: float
    tar_upper_95: float

    def __post_init__(self) -> None:
        check_rates(self)
        check_rate(self.tar_own, self.genuine_accepted_own, self.genuine_total)
        check_rate(self.far_own, self.impostor_accepted_own, self.impostor_total)

    @property
    def neg_log10_far(self) -> float:
        """-log10 FAR at the common threshold; a FAR of 0, which has no logarithm, counts as 1 / impostors."""
        return -math.log10(max(self.impostor_accepted, 1) / self.impostor_total)


@dataclass(frozen=True)
class OneThreshold:
    """Every domain at one threshold.

    >>> scores = {"bright": ([0.9, 0.8], [0.3, 0.1]), "dark": ([0.7, 0.4], [0.5, 0.2])}
    >>> result = one_threshold(scores, far="0.25")
    >>> list(result.domains), round(result.gamma, 4), result.far_is_bound
    (['bright', 'dark'], 0.1414, ('bright',))

    Attributes:
        far_target: the FAR asked for, as it was given.
        calibration_threshold: the common threshold (t_c).
        union: `all` where impostor pairs across domains count for t_c, `within` where they do not, `calibration` where
            t_c comes from a separate set.
        domains: each domain's figures, in the order given.
        tar_mean, tar_variance: mean and population variance of TAR over domains.
        neg_log10_far_mean, neg_log10_far_variance: mean and population variance of -log10 FAR over domains; a FAR of 0
            counts as 1 / the domain's number of impostors.
        far_is_bound: the domains whose FAR is 0.
        gamma: sqrt(mean over domains of (t_d - t_c)^2).
        skipped: domains excluded because they have no impostor or no genuine pairs; their impostors still count for
            t_c.
    """

    far_target: str
    rule: str
    calibration_threshold: float
    union: str
    domains: dict[str, DomainResult]
    tar_mean: float
    tar_variance: float
    neg_log10_far_mean: float
    neg_log10_far_variance: float
    far_is_bound: tuple[str, ...]
    gamma: float
    skipped: tuple[str, ...]

    def __post_init__(self) -> None:
        exact_rate(self.far_target)
        check_word("rule", self.rule, Rule)
        check_word("union", self.union, ThresholdSource)
        if math.isnan(self.calibration_threshold):
            raise ValueError("the one threshold is NaN, which decides nothing")

    @property
    def tar_std(self) -> float:
        """The population's standard deviation of TAR over domains, as tables 2 and 3 of OneFace print it."""
        return math.sqrt(self.tar_variance)

    @property
    def neg_log10_far_std(self) -> float:
        """The population's standard deviation of -log10 FAR over domains."""
        return math.sqrt(self.neg_log10_far_variance)

    def fields(self) -> dict[str, Any]:
        """All figures by name, including those that follow from others."""
        domains = {
            name: asdict(domain) | {"neg_log10_far": domain.neg_log10_far} for name, domain in self.domains.items()
        }
        return asdict(self) | {
            "domains": domains,
            "tar_std": self.tar_std,
            "neg_log10_far_std": self.neg_log10_far_std,
        }


def one_threshold(
    domains: Mapping[str, tuple[ScoresLike, ScoresLike]],
    far: Far = "1e-4",
    across: ScoresLike | None = None,
    calibration: ScoresLike | Ordered | None = None,
    rule: Rule = "at_most",
    union: Union = "all",
    skip_empty: bool = False,
) -> OneThreshold:
    """One threshold over all domains, from scores in memory.

    The common threshold t_c has the target FAR over the impostors of all domains pooled, pairs across domains included
    (`across`); or over a separate calibration set.

    >>> scores = {"bright": ([0.9, 0.8], [0.3, 0.1]), "dark": ([0.7, 0.4], [0.5, 0.2])}
    >>> result = one_threshold(scores, far="0.25")
    >>> result.calibration_threshold, result.domains["dark"].far, result.tar_mean
    (0.3, 0.5, 1.0)

    Args:
        domains: for each domain its (genuine, impostor) scores.
        far: target FAR.
        across: impostor scores of pairs across domains; they count only for t_c.
        calibration: impostor scores of a separate set; if given, only these determine t_c.
        rule: see `threshold_at`.
        union: `within` excludes `across`.
        skip_empty: exclude, and name, domains without impostors or without genuine pairs instead of refusing them.

    Raises:
        ValueError: NaN scores; no impostors at all; an empty domain without `skip_empty`; no domain left.
    """
    check_word("union", union, Union)
    split = {
        name: (SortedScores(genuine, f"{name}: genuine"), SortedScores(impostor, f"{name}: impostor"))
        for name, (genuine, impostor) in domains.items()
    }
    between = SortedScores([] if across is None else across, "cross-domain impostor")
    if calibration is not None:
        pooled: Ordered = ordered(calibration, "calibration impostor")
    else:
        parts = [impostor.values.cpu() for _, impostor in split.values()]
        if union == "all":
            parts.append(between.values.cpu())
        pooled = ordered(torch.cat(parts) if parts else torch.empty(0), "impostor")
    return compare_domains(split, pooled, far, rule, "calibration" if calibration is not None else union, skip_empty)


def compare_domains(
    domains: Mapping[str, tuple[Ordered, Ordered]],
    pooled: Ordered,
    far: Far,
    rule: Rule = "at_most",
    union: str = "all",
    skip_empty: bool = False,
) -> OneThreshold:
    """One threshold over all domains, from `Ordered` scores, with the pooled impostors already chosen.

    >>> from verisphere.decide import SortedScores
    >>> day = SortedScores([0.9, 0.8]), SortedScores([0.3, 0.1])
    >>> compare_domains({"day": day}, SortedScores([0.5, 0.3, 0.2, 0.1]), far="0.25").domains["day"].far
    0.0

    Raises:
        ValueError: a domain without impostors or without genuine pairs, unless they are to be skipped; no domain left.
    """
    totals = {name: {"genuine": same.total, "impostor": other.total} for name, (same, other) in domains.items()}
    missing = {name: [kind for kind, count in counts.items() if not count] for name, counts in totals.items()}
    lacking = {name: kinds for name, kinds in missing.items() if kinds}
    if lacking and not skip_empty:
        raise ValueError(
            f"{lacking_text(lacking)}, so there is no rate at any threshold; skip such domains by --skip-empty "
            "(skip_empty=True)"
        )
    usable = {name: scores for name, scores in domains.items() if name not in lacking}
    if not usable:
        raise ValueError(f"no domain has both genuine and impostor comparisons (looked at {len(domains)})")

    threshold = threshold_at(pooled, far, rule)
    at_common = {name: point_at(*scores, threshold, far, rule) for name, scores in usable.items()}
    at_own = {name: operating_point(*scores, far, rule) for name, scores in usable.items()}
    bounded = tuple(name for name, point in at_common.items() if point.impostor_accepted == 0)
    tars = [point.tar for point in at_common.values()]
    distances = [_distance(point.threshold, threshold) for point in at_own.values()]
    results = {name: _both(at_common[name], at_own[name]) for name in usable}
    exponents = [domain.neg_log10_far for domain in results.values()]
    return OneThreshold(
        far_target=next(iter(at_common.values())).far_target,
        rule=rule,
        calibration_threshold=threshold,
        union=union,
        domains=results,
        tar_mean=fmean(tars),
        tar_variance=pvariance(tars),
        neg_log10_far_mean=fmean(exponents),
        neg_log10_far_variance=pvariance(exponents),
        far_is_bound=bounded,
        gamma=math.hypot(*distances) / math.sqrt(len(distances)),
        skipped=tuple(lacking),
    )


def lacking_text(lacking: Mapping[str, Sequence[str]]) -> str:
    """The domains that lack a kind of comparison, in words; the first ten by name.

    >>> lacking_text({"day": ["genuine"], "night": ["genuine", "impostor"]})
    "domain 'day' has no genuine comparison, domain 'night' has no genuine and no impostor comparison"
    """
    parts = [f"domain {name[:60]!r} has no {' and no '.join(kinds)} comparison" for name, kinds in lacking.items()]
    more = [f"and {len(parts) - _DOMAINS_NAMED} more lack one or both"] if len(parts) > _DOMAINS_NAMED else []
    return ", ".join([*parts[:_DOMAINS_NAMED], *more])


def _distance(own: float, common: float) -> float:
    return 0.0 if own == common else own - common  # two infinite thresholds are equal


def _both(common: OperatingPoint, own: OperatingPoint) -> DomainResult:
    """A domain's result: the fields of the point at the common threshold, and of the one at its own threshold."""
    names = {field.name for field in fields(DomainResult)}
    at_common = {name: value for name, value in vars(common).items() if name in names and name != "threshold"}
    return DomainResult(
        **at_common,
        threshold=own.threshold,
        tar_own=own.tar,
        far_own=own.far,
        genuine_accepted_own=own.genuine_accepted,
        impostor_accepted_own=own.impostor_accepted,
    )


def split_domains(
    score: np.ndarray | Tensor, genuine: np.ndarray, domains: np.ndarray
) -> tuple[dict[str, tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """Scores by domain as `one_threshold` takes them, and the impostor scores of pairs across domains.

    >>> score, genuine = np.array([0.9, 0.3, 0.2]), np.array([True, False, False])
    >>> split, across = split_domains(score, genuine, np.array(["day", "day", ""]))
    >>> split["day"], across
    ((array([0.9]), array([0.3])), array([0.2]))

    Args:
        score: (n,) scores.
        genuine: (n,) True where a comparison shows one person.
        domains: (n,) domain of each comparison; the empty string marks a pair across domains.
    """
    score = np.asarray(score)
    split = {
        str(name): (score[genuine & (domains == name)], score[~genuine & (domains == name)])
        for name in np.unique(domains)
        if name != ""
    }
    return split, score[~genuine & (domains == "")]
