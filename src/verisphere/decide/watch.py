"""Whether promised rates still hold: tests that may be looked at after every event, for as long as one likes.

An event is 1 where two different people pass, or a stranger is found: while the promise holds with a chance of at most
f, given all that came before. For odds rho > 1 the product of rho^x / (1 + f (rho - 1)) over events x is the likelihood
ratio of rho times the odds of f. Its mean is then at most 1, and so is that of any mixture: an *e-process*, which ever
reaches 1 / a with a chance of at most a (Ville 1939; Robbins 1970; Waudby-Smith and Ramdas 2024, arXiv:2010.09686). One
half of it bets from the first event on, one half is spread over all later beginnings, some of them near to a change (as
in Shin, Ramdas and Rinaldo 2024, arXiv:2203.03532): what was lost in a good year need not be won back first.
"""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float64, Int64

from verisphere.decide.bounds import binomial_bounds

#: How often a watch may ever raise a false alarm, and the evidence that raises one.
FALSE_ALARMS, ALARM = 0.05, 20.0
#: Odds over those of a limit that are bet on; and the logarithms of odds that are bet on where there is no limit.
_ODDS, _LOG_ODDS = np.array([1.25, 1.5, 2.0, 3.0, 6.0, 20.0]), 2.0 ** np.arange(-6, 3)
_MOST = 1e300
#: Levels with which scores are compared, as shares of the reference below the cut; this share, and its least number.
_LEVELS, _BELOW, _FEWEST = np.array([0.1, 0.25, 0.5, 0.75, 0.9]), 0.9, 20


@dataclass(eq=False)
class RateTest:
    """The e-process of "each rate is at most its limit": the mean over its limits.

    Attributes:
        limits: limits of the rates, above 0 and below 1; dimensions before the last are independent streams.
        size: number of events that the limits were found from, as in an urn to which each event is added; infinite for
            limits that are promised.
        slack: what is added to each limit; of a reference, the largest share of genuine pairs below the cut.
        levels: levels of scores; the limits are those of the rates above each and, where there are more, below each.
        cut: scores from here on do not count.
        hits: number of events that were 1, by limit.
        wealth: what each odds has come to.
    """

    limits: Float64[np.ndarray, "*streams limits"]
    size: float = np.inf
    slack: float | Float64[np.ndarray, "*streams 1"] = 0.0
    levels: Float64[np.ndarray, " levels"] = field(default_factory=lambda: np.zeros(0))
    cut: float = np.inf
    events: int = 0
    hits: Int64[np.ndarray, "*streams limits"] = field(init=False)
    wealth: Float64[np.ndarray, "*streams limits odds"] = field(init=False)

    def __post_init__(self) -> None:
        self.hits = np.zeros(self.limits.shape, np.int64)
        self.wealth = np.full((*self.limits.shape, len(_ODDS)), 0.5 / len(_ODDS))

    @property
    def limits_now(self) -> Float64[np.ndarray, "*streams limits"]:
        """The limits of the next event."""
        drawn = (self.hits - self.limits * self.events) / (self.size + self.events)
        return np.minimum(self.limits + drawn + self.slack, 1.0)

    def _waiting(self, events: int) -> Float64[np.ndarray, "*streams limits"]:
        """The part of the mixture that does not bet yet."""
        return np.asarray(0.5 / (1 + np.log1p(self.limits * events)))

    def add(self, passed: Bool[np.ndarray, "*streams limits"]) -> None:
        """Take one more event into account."""
        begin = self._waiting(self.events) - self._waiting(self.events + 1)
        factor = np.where(passed[..., None], _ODDS, 1.0) / (1 + self.limits_now[..., None] * (_ODDS - 1))
        self.wealth = np.minimum((self.wealth + begin[..., None] / len(_ODDS)) * factor, _MOST)
        self.hits += passed
        self.events += 1

    @property
    def by_limit(self) -> Float64[np.ndarray, "*streams limits"]:
        """The evidence against each limit; 1 at first."""
        return np.asarray(self.wealth.sum(-1) + self._waiting(self.events))

    def passed(self, score: float) -> Bool[np.ndarray, " limits"] | None:
        """On which side of the levels a score lies; None from the cut on."""
        sides = np.concatenate([score > self.levels, score < self.levels])[: len(self.limits)]
        return None if score >= self.cut < np.inf else sides

    def in_words(self, limit: int) -> str:
        """The scores that a limit is about, in words."""
        side, level = divmod(limit, len(self.levels))
        return f"{('above', 'below')[side]} {self.levels[level]:.6g}"


def anytime_bounds(passed: int, total: int) -> tuple[float, float]:
    """Bounds of the mean chance of all events so far that hold at every moment at once with 95 % confidence.

    A confidence sequence (Robbins 1970) for chances that may change and depend on what came before: with mean chance m,
    the product of 1 + p (rho - 1) over n events is at most (1 + m (rho - 1))^n by Jensen's inequality, so a mixture of
    rho^k / (1 + m (rho - 1))^n over fixed rho is at most a martingale. Each bound fails with a chance of 2.5 %.

    >>> [round(bound, 4) for bound in anytime_bounds(10, 1000)]
    [0.0026, 0.0242]
    """
    return _lower(passed, total), 1 - _lower(total - passed, total)


def _lower(passed: int, total: int) -> float:
    low, high = 0.0, passed / max(total, 1)
    while low < (middle := (low + high) / 2) < high:
        terms = _LOG_ODDS * passed - total * np.log1p(middle * np.expm1(_LOG_ODDS))
        too_low = np.logaddexp.reduce(terms) >= np.log(2 / FALSE_ALARMS * len(_LOG_ODDS))
        low, high = (middle, high) if too_low else (low, middle)
    return low


def reference_test(
    scores: np.ndarray, threshold: float, genuine: tuple[int, int] | np.ndarray, share: float
) -> RateTest:
    """The test of "scores are like those of a reference", by the rates above and below its levels.

    The next score lies above the j-th largest of m with a chance of j / (m + 1) and, once k of n scores did, of
    (j + k) / (m + 1 + n): an urn, whatever the distribution, where there are no ties. So this is a conformal test
    martingale (Vovk, Gammerman and Shafer 2005, section 7.1), of ranks in six bins. There are few genuine pairs below
    the cut, the lower of the threshold and the 90 % quantile of the reference: the largest share that they can have
    there, by bounds of 95 %, is added to every limit. It follows from the genuine scores of independent comparisons, or
    from how many are at most the threshold, and of how many; `share` is that of genuine pairs in use, at most, below 1.

    >>> reference_test(np.arange(100.0), 99.0, (0, 50), 0.5).levels
    array([ 9., 22., 45., 67., 81.])
    """
    ascending = np.sort(scores)
    cut = min([threshold, *ascending[int(_BELOW * len(ascending)) :][:1].tolist()])
    below = ascending[ascending < cut]
    if len(below) < _FEWEST:
        raise ValueError(f"{len(below):,} reference scores lie below the cut, {cut:.6g}; {_FEWEST} are needed")
    counts = genuine if isinstance(genuine, tuple) else (int((genuine < cut).sum()), len(genuine))
    places = (_LEVELS * len(below)).astype(np.int64)
    ranks = np.concatenate([len(below) - places, places + 1])  # from the top, then from the bottom
    most = binomial_bounds(*counts)[1] * share
    least = binomial_bounds(len(below), len(ascending))[0] * (1 - share)
    return RateTest(ranks / (len(below) + 1), len(below) + 1.0, most / (most + least), below[places], cut)
