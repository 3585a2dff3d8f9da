"""How many pairs of one person a shipped threshold rejects: measured, not guaranteed."""

from dataclasses import dataclass

from verisphere.base.vocabulary import OperatingPoint, check_bounds, check_rate
from verisphere.base.words import LARGEST_ONE_IN_N, of_things, share


def misses_in_words(accepted: int, total: int, bounds: tuple[float, float], things: str, verbs: tuple[str, str]) -> str:
    """The rate of misses as it is said to people.

    `accepted` things are no misses, and `bounds` are those of their share; `verbs` say what a miss did, and does.

    >>> misses_in_words(975, 1000, (0.9633, 0.9837), "pairs of one person", ("failed", "fail"))
    '1 in 40 pairs of one person fail (between 1 in 62 and 1 in 27)'
    """
    lower, upper = 1 - bounds[1], 1 - bounds[0]
    if total == 1:
        things, verbs = things.replace("s ", " ", 1), (verbs[0].replace("were", "was"), verbs[1])
    whole = "the only" if total == 1 else f"all {total:,}"
    if accepted == total:
        return f"none of {total:,} {things} {verbs[0]} (at most {share(upper, 'upper')})"
    if not accepted:
        return f"{whole} {things} {verbs[0]} (at least {share(lower, 'lower')})"
    per_cent = upper > LARGEST_ONE_IN_N
    fewest, most = share(lower, "lower", per_cent), share(upper, "upper", per_cent)
    missed = of_things(share(1 - accepted / total, None, per_cent), things)
    return f"{missed} {verbs[1]} (between {fewest} and {most})"


@dataclass(frozen=True)
class GenuineRate:
    """The number and share of genuine comparisons that pass a shipped threshold: measured, not guaranteed.

    >>> from verisphere.decide import operating_point
    >>> rate = GenuineRate.at(operating_point([0.9, 0.8, 0.3], [0.5, 0.4], far="0.5"), "faces.npz")
    >>> rate.accepted, rate.total, rate.file
    (2, 3, 'faces.npz')

    Attributes:
        file: the embeddings or scores file of the comparisons.
        accepted: genuine comparisons with a score above the threshold.
        total: number of genuine comparisons.
        tar: accepted / total.
        tar_lower_95: bound over people; where they are not known, the exact binomial one, which takes comparisons as
            independent.
        tar_upper_95: the upper bound, likewise.
    """

    file: str
    accepted: int
    total: int
    tar: float
    tar_lower_95: float
    tar_upper_95: float

    def __post_init__(self) -> None:
        check_rate(self.tar, self.accepted, self.total)
        check_bounds(self.tar, self.tar_lower_95, self.tar_upper_95)

    @classmethod
    def at(cls, point: OperatingPoint, file: str) -> "GenuineRate":
        """The genuine side of an operating point."""
        counts = point.genuine_accepted, point.genuine_total
        return cls(file, *counts, point.tar, point.tar_lower_95, point.tar_upper_95)

    def __str__(self) -> str:
        """The rate of misses as it is said to people; `meaning` has the exact wording.

        >>> print(GenuineRate("faces.npz", 975, 1000, 0.975, 0.9633, 0.9837))
        1 in 40 pairs of one person fail (between 1 in 62 and 1 in 27)
        """
        bounds = self.tar_lower_95, self.tar_upper_95
        return misses_in_words(self.accepted, self.total, bounds, "pairs of one person", ("failed", "fail"))

    def meaning(self) -> str:
        """The rate of misses, its bounds and where they were measured, in one sentence."""
        missed, fewest, most = (100 * (1 - rate) for rate in (self.tar, self.tar_upper_95, self.tar_lower_95))
        return (
            f"of comparisons of two images of one person, {missed:.2f} % are rejected (95 % bounds {fewest:.2f} to "
            f"{most:.2f} %; TAR {self.tar:.4f}, {self.accepted:,} of {self.total:,} genuine comparisons of {self.file})"
        )
