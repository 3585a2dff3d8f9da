"""Scores that no working model gives with right labels: distances for similarities, shifted, inverted or mixed labels.

Each test compares a sample of scores with what they would be otherwise, and needs a difference beyond chance: an honest
set with few pairs, or of a weak model, raises no alarm. The tests are made at FAR 0.1, which few impostor scores
resolve.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import hypot, sqrt

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.special import ndtri, stdtrit

from verisphere.base.seeds import numpy_generator
from verisphere.decide.bounds import binomial_bounds
from verisphere.decide.order import ordered
from verisphere.decide.point import threshold_at

FAR = "0.1"
CHANCE = 0.5  # AUC of labels that have nothing to do with the scores
MOST = 0.58  # AUC that a network reaches without training
BY_CONDITIONS = 0.2  # TAR of turned signs that a model gives which takes one person under two conditions for two
MOST_OF_FEW, FEW = 0.53, 40  # the same for fewer people, whose scores by a weak model look like those of chance
FEWEST_AT_CHANCE = 20  # people; of fewer, they are those of chance too often
FEWEST = 10  # people, or comparisons of a list, and impostors; fewer show nothing
SAMPLED = 10_000  # comparisons of each kind that are scored
ROUNDING = 2.0**-23  # share of the largest score by which scores that are equal differ, as float32 rounds them
SURE = 0.998  # two-sided confidence of each test
NORMAL = float(ndtri((1 + SURE) / 2))  # standard errors of it
WORKING = 0.9  # AUC from which on a model should distinguish people across two domains, or inside a crowd
RISES = 0.1  # TAR by which labels in another order have to be better
MOST_NEIGHBOURS = 8_192  # rows, or comparisons of a list, by which it is estimated how far labels were moved
MOVED = {1: "the row before", -1: "the row after"}  # how far labels are moved, and where right ones would have been

#: Gives the scores of the comparisons at these positions.
Score = Callable[[Int64[np.ndarray, " some"]], Float64[np.ndarray, " some"]]


@dataclass(frozen=True, eq=False)
class SampledScores:
    """Scores of sampled comparisons.

    A row of `genuine` has the pairs of one person; where people are not known, each comparison stands for a person.

    >>> SampledScores(np.array([[0.9], [0.8], [0.2]]), np.array([0.5, 0.4, 0.3])).auc
    0.6666666666666666
    """

    genuine: Float64[np.ndarray, "people draws"]
    impostor: Float64[np.ndarray, " impostor"]

    @property
    def judged(self) -> bool:
        """Whether there are enough scores for any test."""
        return min(len(self.genuine), len(self.impostor)) >= FEWEST

    @cached_property
    def accepted(self) -> Float64[np.ndarray, " people"]:
        """The share of each person's genuine pairs that is accepted at FAR 0.1."""
        return (self.genuine > threshold_at(ordered(self.impostor, "impostor"), FAR)).mean(1)

    @property
    def tar(self) -> float:
        """TAR at FAR 0.1, the mean over people."""
        return float(self.accepted.mean())

    def negated(self) -> "SampledScores":
        """The same comparisons, lower scores for more alike faces."""
        return SampledScores(-self.genuine, -self.impostor)

    @property
    def auc(self) -> float:
        """The share of (genuine, impostor) couples in which the genuine score is higher; a tie counts one half."""
        return float(self.auc_of_people.mean())

    @cached_property
    def auc_of_people(self) -> Float64[np.ndarray, " people"]:
        """The AUC of each person's genuine pairs."""
        return _below(self.genuine, self.impostor).mean(1)

    @cached_property
    def auc_error(self) -> float:
        """The standard error of the AUC over people, by the variances of DeLong et al. (1988)."""
        of_people = self.auc_of_people
        of_impostors = _below(self.impostor, self.genuine.ravel())
        return sqrt(of_people.var(ddof=1) / len(of_people) + of_impostors.var(ddof=1) / len(of_impostors))

    def at_chance(self, whole: float | None = None) -> bool:
        """Whether the AUC is below 0.58 by its bound over people at 97.5 %, and 0.5 is possible by the one at 99 %.

        Of fewer than 40 people it has to be below 0.53, as for mixed labels of many images; of fewer than 20 nothing is
        said. The second condition spares networks that are weaker still: in a set of some size they are surely better
        than labels of other rows would be. The scores of a domain must also lie below the AUC of the whole set,
        by the bound at 99.95 %: a weak model is weak in each of many domains. A domain that is harder than others is
        held to no more than a set by itself.
        """
        upper, far_upper, lower = (
            self.auc_error * float(stdtrit(len(self.genuine) - 1, level)) for level in (0.975, 0.9995, 0.99)
        )
        return (
            len(self.genuine) >= FEWEST_AT_CHANCE
            and self.auc - CHANCE <= lower
            and self.auc + upper <= (MOST if len(self.genuine) >= FEW else MOST_OF_FEW)
            and (whole is None or self.auc + far_upper <= whole)
        )


def _below(scores: np.ndarray, others: Float64[np.ndarray, " others"]) -> np.ndarray:
    """The share of the other scores that lies below each score, ties by half."""
    others = np.sort(others)
    return (np.searchsorted(others, scores) + np.searchsorted(others, scores, side="right")) / (2 * len(others))


def implausible(
    sampled: SampledScores, moved: Mapping[str, SampledScores], same_people: bool, whole: float | None = None
) -> tuple[str, ...]:
    """The reasons why scores cannot be those of a working model with these labels; none for scores that can.

    The same is asked of scores under labels that were moved by one row, named by where the labels would then have been;
    `same_people` says whether a row of genuine scores belongs to the same person there. `whole` is the AUC of the whole
    set, if these are the scores of a domain.
    """
    if not sampled.judged:
        return ()
    reasons = []
    turned = sampled.auc + NORMAL * sampled.auc_error < CHANCE
    if turned and (negated := sampled.negated()).tar > BY_CONDITIONS and _more(negated, sampled, paired=True):
        reasons.append(
            f"with the signs of all scores turned, TAR at FAR {FAR} rises from {sampled.tar:.3f} to {negated.tar:.3f}, "
            "as if these were distances instead of similarities, or the labels inverted"
        )
    for where, other in moved.items():
        if other.judged and _more(other, sampled, paired=same_people):
            reasons.append(
                f"with all labels moved by one row, TAR at FAR {FAR} rises from {sampled.tar:.3f} to {other.tar:.3f}, "
                f"as if the labels belonged to {where}"
            )
    if not reasons and sampled.at_chance(whole):
        reasons.append(
            f"genuine pairs score no higher than impostor pairs (AUC {sampled.auc:.3f}, and chance gives 0.5), as if "
            "the labels belonged to other rows, or the model distinguished nobody under these conditions"
        )
    return tuple(reasons)


def moved_by(same: Bool[np.ndarray, " places"], scores: Float64[np.ndarray, " places"]) -> int:
    """By how many places labels have to be moved to agree best with the scores; 0 if all labels are equal.

    Of moves that are about as good, as where labels repeat themselves, it is a short one. `same` says whether each
    place is of one person.

    >>> moved_by(np.array([True, True, False, False, False]), np.array([0.1, 0.2, 0.1, 0.9, 0.8]))
    -2
    """
    ranks = np.argsort(np.argsort(scores, kind="stable"))  # scores may be infinite
    one, other = (np.fft.rfft(values - values.mean()) for values in (same.astype(np.float64), ranks))
    moves = np.fft.fftfreq(len(same), 1 / len(same)).round()
    agreement = np.fft.irfft(one.conj() * other, len(same)) * (1 - abs(moves) / len(same))
    return int(moves[agreement.argmax()])


def reordered(
    sampled: SampledScores, others: Iterable[tuple[str, SampledScores]], paired: bool = True
) -> tuple[str, ...]:
    """The reason why labels are in another order than their rows, the best of these; none if none makes a model work.

    A model works there if its AUC is at least 0.9, and its TAR higher by 0.1 and beyond chance. Right labels in another
    order are worse. `others` has how the same labels are ordered otherwise, and the scores under them; `paired` says
    whether a row of genuine scores belongs to the same person there.
    """
    if not sampled.judged:
        return ()
    fitting = [
        (other.tar, other.auc, how)
        for how, other in others
        if other.auc >= WORKING and other.tar >= sampled.tar + RISES and _more(other, sampled, paired)
    ]
    if not fitting:
        return ()
    tar, _, how = max(fitting, key=lambda order: order[:2])
    return (
        f"with the labels {how}, TAR at FAR {FAR} rises from {sampled.tar:.3f} to {tar:.3f}, as if they were in "
        "another order than the rows",
    )


def _more(one: SampledScores, other: SampledScores, paired: bool) -> bool:
    """Whether one sample is better than another beyond chance: a sign test over people, or by bounds of TAR and AUC.

    The AUC has to be higher too: where few impostors are more alike than all others, the TAR of right labels is below
    that of chance.
    """
    if one.tar <= other.tar or one.auc <= other.auc:
        return False
    if paired:
        gained, lost = (int((first > second).sum()) for first, second in
                        ((one.accepted, other.accepted), (other.accepted, one.accepted)))  # fmt: skip
        return binomial_bounds(gained, gained + lost, SURE)[0] > 0.5
    ours, theirs = (binomial_bounds(round(each.accepted.sum()), len(each.accepted), SURE) for each in (one, other))
    # few impostors leave the threshold open, which these bounds do not show and the error of an AUC does
    return ours[0] > theirs[1] and one.auc - other.auc > NORMAL * hypot(one.auc_error, other.auc_error)


def implausible_list(
    genuine: Bool[np.ndarray, " comparisons"],
    score: Score,
    domains: np.ndarray | None = None,
    whole: float | None = None,
    elsewhere: Mapping[str, tuple[Bool[np.ndarray, " comparisons"], Score]] | None = None,
) -> tuple[str, ...]:
    """The reasons why listed comparisons cannot be those of a working model with these labels.

    If there are none for the whole list, its domains are tested too, since a healthy domain hides one that is not. A
    domain is empty for comparisons across domains; those with fewer than ten of a kind are not tested. `score` gives
    the scores at some positions, and `whole` is that of `implausible`. `elsewhere` has, for other rows that the labels
    may belong to, the comparisons that are of other people there, and what gives scores there. These comparisons have
    to show it too, since all of them together could be of better images of the same people.

    >>> labels = np.arange(40) % 3 == 0
    >>> implausible_list(labels, lambda rows: np.where(labels[rows], 0.9, 0.1) - rows / 1000)
    ()
    >>> implausible_list(labels, lambda rows: np.full(len(rows), 0.5))
    ('all 40 scores are equal',)
    """
    random = numpy_generator(0)

    def sample(rows: int, score: Score = score, among: np.ndarray | bool = True) -> SampledScores:
        labels = np.roll(genuine, rows)
        kinds = [np.flatnonzero((labels == kind) & among) for kind in (True, False)]
        drawn = [at if len(at) <= SAMPLED else np.sort(random.choice(at, SAMPLED, replace=False)) for at in kinds]
        return SampledScores(score(drawn[0])[:, None], score(drawn[1]))

    sampled = sample(0)
    ends = [part for part in (sampled.genuine, sampled.impostor) if part.size]
    low, high = min(part.min() for part in ends), max(part.max() for part in ends)
    if len(genuine) > 1 and (low == high or high - low <= ROUNDING * max(abs(low), abs(high)) < np.inf):
        return (f"all {len(genuine):,} scores are equal{'' if low == high else ' but for rounding'}",)
    moved = {where: sample(-rows) for rows, where in MOVED.items()}
    for where, (others, there) in (elsewhere or {}).items():
        one, other = sample(0, among=others), sample(0, there, others)
        if one.judged and _more(other, one, paired=False):
            moved[where] = sample(0, there)
    reasons = implausible(sampled, moved, False, whole)
    if not reasons and whole is None and sampled.judged:
        # the first rows may all have one label, so that only places far apart show how far long blocks were moved
        orders, apart = [], -(-len(genuine) // MOST_NEIGHBOURS)
        for step in sorted({1, apart}):
            at = np.arange(0, len(genuine), step)[:MOST_NEIGHBOURS]
            by = step * moved_by(genuine[at], score(at))
            if abs(by) > 1:
                orders.append((f"moved by {'about ' * (step > 1)}{abs(by)} rows", sample(by)))
        reasons = reordered(sampled, orders, paired=False)
    if reasons or domains is None:
        return reasons

    def inside(name: str) -> tuple[str, ...]:
        at = np.flatnonzero(domains == name)
        enough = min(np.bincount(genuine[at], minlength=2)) >= FEWEST
        return implausible_list(genuine[at], lambda rows: score(at[rows]), whole=sampled.auc) if enough else ()

    names = [name for name in np.unique(domains).tolist() if name]
    return tuple(f"domain {name}: {reason}" for name in names for reason in inside(name))
