"""What a review of suspicious comparisons changes in a guarantee by order statistics.

Comparisons that are said to be of strangers may show one person under two names. Such a one only raises the order
statistics, and adds to n. A person may look at any of them, in any order, and those found to show the *same* person are
removed: the comparisons of true strangers stay a sample. Let n remain; let at most e of these still be wrong
(`unfound`), and at most w of the removed have been strangers after all (`wrong`). With j the largest rank that n - e
comparisons allow, the (j - w)-th largest of the n is at least the j-th largest of all true ones. So rank j - w keeps
the guarantee, and if j - w < 1 more people are needed.
"""

from dataclasses import dataclass
from decimal import Decimal

from verisphere.base.words import check_at_least
from verisphere.decide.point import Far
from verisphere.decide.sample_size import CHANCE, Guarantee, first_where, independent_rank


@dataclass(frozen=True)
class Review:
    """The verdicts of a review, and the errors that a guarantee allows for.

    >>> Review(reviewed=20, removed=3).rests_on()
    'provided that the review of 20 pairs is right'

    Attributes:
        reviewed: number of verdicts.
        removed: comparisons that were removed, as they show the same person.
        unfound: comparisons that may show the same person without having been found.
        wrong: removed comparisons that may show different people, as was asked for; see `errors`.
    """

    reviewed: int = 0
    removed: int = 0
    unfound: int = 0
    wrong: int = 0

    def __post_init__(self) -> None:
        for name in ("unfound", "wrong"):
            check_at_least(name, getattr(self, name), 0)
        if not 0 <= self.removed <= self.reviewed:
            raise ValueError(f"{self.removed} removed of {self.reviewed} reviewed comparisons cannot be")

    @property
    def errors(self) -> int:
        """Wrong verdicts that there can be: no more than comparisons were removed."""
        return min(self.wrong, self.removed)

    def __bool__(self) -> bool:
        return bool(self.reviewed or self.unfound)

    def rank(self, comparisons: int, far: Far, guarantee: Guarantee, chance: Decimal = CHANCE) -> int:
        """The rank of the score that becomes the threshold; 0 or less where those that remain are too few.

        >>> Review(1, 1, wrong=1).rank(473, "1e-2", "confident"), Review(unfound=1).rank(299, "1e-2", "confident")
        (1, 0)
        """
        return independent_rank(max(comparisons - self.unfound, 0), far, guarantee, chance) - self.errors

    def needed(self, least: int, far: Far, guarantee: Guarantee, chance: Decimal = CHANCE) -> int:
        """The fewest that must remain, where `least` would do, of rank 1, without any wrong label.

        >>> Review(1, 1, unfound=2, wrong=1).needed(299, "1e-2", "confident")
        475
        """

        def enough(number: int) -> bool:  # the rank grows with the number
            return independent_rank(number, far, guarantee, chance) > self.errors

        return first_where(enough, least) + self.unfound

    def allowing(self) -> str:
        """The errors that are allowed for, in words; empty for none."""
        errors = [f"{self.unfound:,} unfound" if self.unfound else "", f"{self.errors:,} wrong" if self.errors else ""]
        return f", allowing for {' and '.join(filter(None, errors))}" if self.unfound or self.errors else ""

    def rests_on(self) -> str:
        """What the guarantee rests on beside its sample, in words; empty for nothing."""
        parts = []
        if self.reviewed:
            but = f", but for at most {self.errors:,} of those found to be the same" if self.errors else ""
            but += "," if but and self.unfound else ""
            parts.append(f"the review of {self.reviewed:,} pair{'s' if self.reviewed > 1 else ''} is right{but}")
        if self.unfound:
            parts.append(f"at most {self.unfound:,} more show the same person under two names")
        return f"provided that {' and '.join(parts)}" if parts else ""


NO_REVIEW = Review()


def refuse_wrong(reviewed: int, wrong: int) -> None:
    """Refuse to allow for wrong verdicts where there is none."""
    if wrong and not reviewed:
        raise ValueError(f"{wrong} wrong verdicts are allowed for, but there is no review (--reviewed)")
