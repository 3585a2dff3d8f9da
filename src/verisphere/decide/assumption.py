"""What a threshold from few people assumes about people, what they show of it, and how that is said.

`capped` (`verisphere.decide.capped`) holds with 95 % confidence if people differ no more than a stated cap allows.
`tail` (`verisphere.decide.tail`) is an estimate by a tail fitted to the highest scores. `convention` takes all pairs as
independent draws, as the rule of three does in certification; pairs that share a person are not, so it promises
nothing, and is labelled as what it is.
"""

from dataclasses import dataclass

from verisphere.decide.capped import ObservedCap, capped_rank, largest_cap
from verisphere.decide.point import Far
from verisphere.decide.sample_size import CONFIDENCE, Guarantee, at_most, comparisons_needed, independent_rank, percent
from verisphere.decide.tail import FittedTail, tail_pairs, tail_reaches

ASSUMED: tuple[Guarantee, ...] = ("capped", "tail", "convention")


@dataclass(frozen=True)
class Assumption:
    """The assumption of a threshold that needs one, from all pairs of one image each.

    Attributes:
        cap: the cap c, as it was stated, for `capped`; else None.
        observed: what the people show of c; None where they are too few to show it, and without a cap.
    """

    guarantee: Guarantee
    cap: float | None = None
    observed: ObservedCap | None = None
    tail: FittedTail | None = None

    def __post_init__(self) -> None:
        if self.guarantee not in ASSUMED:
            raise ValueError(f"guarantee {self.guarantee!r} rests on no assumption")
        given = self.cap is not None, self.tail is not None
        if given != (self.guarantee == "capped", self.guarantee == "tail"):
            raise ValueError("a cap belongs to guarantee 'capped', and a fitted tail to 'tail'")
        if self.observed and (self.cap is None or self.observed.lower > self.cap):
            raise ValueError(f"a cap of {self.cap} is contradicted by the observed one")

    def rank(self, people: int, far: str) -> int | None:
        """The rank of the threshold among all pairs of these people; None for a fitted tail."""
        pairs = people * (people - 1) // 2
        if self.tail is not None:
            if self.tail.excesses != tail_pairs(pairs):
                raise ValueError(f"a tail of {self.tail.excesses:,} scores is not that of {pairs:,} pairs")
            return None
        if self.cap is not None:
            return capped_rank(people, far, self.cap)
        return independent_rank(pairs, far, "confident")

    def promise(self, far: str) -> str:
        """What is promised about strangers, for people, without an end."""
        strangers = f"{at_most(far)} pass"
        if self.cap is not None:
            return (
                f"We are {percent(CONFIDENCE)} confident that {strangers}, provided that people differ no more than a "
                f"cap of {self.cap:g} allows"
            )
        if self.tail is not None:
            return f"By an estimate from a fitted tail, {strangers}"
        return f"By the convention that takes all pairs as independent, which they are not, {strangers}"

    def meaning(self, rule: str, what: str, far: str, people: int, replicates: int | None) -> str:
        """The promise, what it assumes and what the people show of that, in one sentence."""
        basis, sure = f"{people * (people - 1) // 2:,} pairs of {people:,} people, one image each", "without guarantee"
        if self.tail is None:
            basis = f"{basis}; rank {self.rank(people, far):,}"
        if self.cap is not None:
            sure = f"with {percent(CONFIDENCE)} confidence"
            shown = self.observed.described(far) if self.observed else "these people are too few to show it"
            why = (
                f"provided that there the mean square of the FARs of people's images is at most {self.cap:g} times the "
                f"square of the FAR; {shown}"
            )
        elif self.tail is not None:
            why = f"an estimate by {self.tail.described()}"
            basis = f"upper 95 % quantile over {replicates:,} redrawings of the people; {basis}"
        else:
            why = (
                "by a convention that takes all pairs as independent, as the rule of three does; pairs that share a "
                "person are not, so no confidence follows"
            )
        return f"{rule}: {sure}, of {what} at most {far} are accepted, {why} ({basis})"


def under_assumptions(far: Far, people: int) -> str:
    """What people can have of a FAR that no method can promise from so few without an assumption; empty for nothing.

    >>> under_assumptions("1e-3", 600)  # doctest: +ELLIPSIS
    "no method can promise it from so few people without an assumption; with one (docs/promises.md): 'capped' with ...
    """
    largest, pairs, can = largest_cap(people, far), people * (people - 1) // 2, []
    if largest is not None:
        can.append(f"'capped' with a cap of at most {largest:g}")
    if comparisons_needed(far, "confident") <= pairs:
        can.append("'convention'")
    if tail_reaches(far, pairs):
        can.append("'tail'")
    none = "no method can promise it from so few people without an assumption; with one (docs/promises.md): "
    return f"{none}{', '.join(can)}" if can else ""
