"""The number by which a probe is decided in a gallery: the best score, or another statistic of its best people.

A guarantee about strangers (`gallery`) holds for any statistic that was chosen without a look at them. Each statistic
here gives a number to each of a probe's `CANDIDATES` best people, ordered by the score of their best photograph; the
highest number is the statistic of the probe, and names one person.

- `best`: the score of the best person.
- `gap`: this score less that of the second person.
- `next`: this score less half the mean of the `NEXT` people who follow.
- `median`: each candidate has the lower median of all its photographs, which passes iff more than half of them do.
- `z`, `s`, `adaptive-s`: each candidate's score, normalised by a cohort of people who are neither enrolled nor probes:
  less the mean over the cohort, divided by its standard deviation. For `z` these are those of the candidate's
  photograph (Auckenthaler et al. 2000, section 3.1), for `s` the mean of this number and of the one by the probe's
  own (Kenny 2010), and for `adaptive-s` both over the `NEAREST` highest scores of the cohort (Cumani et al. 2011).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

CANDIDATES = 10
NEXT = 5
NEAREST = 100
#: A spread of scores below this counts as none.
_LEAST_SPREAD = 1e-9


@dataclass(frozen=True, eq=False)
class Best:
    """The best people of each probe; a person who is missing, in a gallery of fewer people, has minus infinity.

    Attributes:
        scores: score of each candidate's best photograph, descending.
        medians: lower median of the scores of all photographs of each candidate; None unless it is asked for.
        photographs: mean and standard deviation of each candidate's photograph over the cohort; None without one.
        probes: mean and standard deviation of each probe over the cohort; None without one.
    """

    scores: Float64[np.ndarray, "probes candidates"]
    medians: Float64[np.ndarray, "probes candidates"] | None = None
    photographs: tuple[Float64[np.ndarray, "probes candidates"], Float64[np.ndarray, "probes candidates"]] | None = None
    probes: tuple[Float64[np.ndarray, " probes"], Float64[np.ndarray, " probes"]] | None = None


Values = Float64[np.ndarray, "probes candidates"]


@dataclass(frozen=True)
class Statistic:
    """A statistic of a probe.

    Attributes:
        values: for each candidate the number by which it would be decided; the highest decides.
        cohort: whether a cohort is needed, and how many of its highest scores count; None for none, 0 for all.
        monotone: whether the statistic of a probe cannot rise when people or photographs leave the gallery.
        number: what the statistic is called: a score where it is one.
    """

    words: str
    values: Callable[[Best], Values]
    people: int = 1
    cohort: int | None = None
    both: bool = False
    monotone: bool = False
    number: str = "value"


def _only_first(values: Float64[np.ndarray, " probes"], like: Values) -> Values:
    """The values as those of the first candidate alone."""
    alone = np.full_like(like, -np.inf)
    alone[:, 0] = values
    return alone


def _gap(best: Best) -> Values:
    return _only_first(best.scores[:, 0] - best.scores[:, 1], best.scores)


def _next(best: Best) -> Values:
    following = best.scores[:, 1 : 1 + NEXT]
    there = np.isfinite(following)
    mean = np.where(there, following, 0).sum(axis=1) / there.sum(axis=1)
    return _only_first(best.scores[:, 0] - 0.5 * mean, best.scores)


def _median(best: Best) -> Values:
    assert best.medians is not None
    return best.medians


def _normalised(scores: Values, mean: np.ndarray, spread: np.ndarray) -> Values:
    return (scores - mean) / np.maximum(spread, _LEAST_SPREAD)


def _by_photograph(best: Best) -> Values:
    assert best.photographs is not None
    return _normalised(best.scores, *best.photographs)


def _by_both(best: Best) -> Values:
    assert best.probes is not None
    mean, spread = (part[:, None] for part in best.probes)
    return (_by_photograph(best) + _normalised(best.scores, mean, spread)) / 2


def lower_median(scores: Float64[np.ndarray, " scores"]) -> float:
    """The median, of two middle scores the lower one: it is above a threshold iff more than half of the scores are.

    >>> lower_median(np.array([0.1, 0.9, 0.4, 0.6]))
    0.4
    """
    return float(np.sort(scores)[(len(scores) - 1) // 2])


#: The statistics by their names.
STATISTICS: dict[str, Statistic] = {
    "best": Statistic("the best score", lambda best: best.scores, monotone=True, number="score"),
    "gap": Statistic("the best score less that of the second person", _gap, people=2),
    "next": Statistic(f"the best score less half the mean of the next {NEXT} people's", _next, people=2),
    "median": Statistic("the best lower median of a person's photographs", _median, number="score"),
    "z": Statistic("the best score, normalised for the photograph over the cohort,", _by_photograph, cohort=0),
    "s": Statistic(
        "the best score, normalised for photograph and probe over the cohort,", _by_both, cohort=0, both=True
    ),
    "adaptive-s": Statistic(
        f"the best score, normalised for photograph and probe over the nearest {NEAREST} of the cohort,",
        _by_both,
        cohort=NEAREST,
        both=True,
    ),
}
