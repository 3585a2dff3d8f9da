"""One threshold with a promise within every domain at once: the highest of the domains' own thresholds.

Let each domain d have a threshold t_d of comparisons that share no person, as `confident` takes it, and let u_d be the
score whose FAR in d is exactly f. The threshold is the highest t_d. It accepts too many in some domain only if it lies
below the highest u_d, so only if that one domain's t_d lies below its u_d, which has a chance of at most 5 %. So all
domains are promised together with 95 % confidence, however many there are, and nothing is divided among them. The same
holds where a FAR is also promised for everybody, and within each domain one that is a stated factor higher.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from verisphere.decide.sample_size import CONFIDENCE, at_most, independent_rank, percent

EVERYBODY = ""  # name of the group of all people, whatever their domains


@dataclass(frozen=True)
class DomainThreshold:
    """The threshold that one domain needs, or everybody.

    Attributes:
        name: name of the domain; empty for everybody.
        far: target FAR within it, exactly.
        comparisons: number of its comparisons that share no person.
        tar: the share of its genuine comparisons above that; None where it has none, and in files of earlier versions.
    """

    name: str
    far: str
    people: int
    comparisons: int
    rank: int
    threshold: float
    tar: float | None = None

    def __post_init__(self) -> None:
        if self.tar is not None and not 0 <= self.tar <= 1:
            raise ValueError(f"domain {self.name!r}: a TAR lies between 0 and 1, got {self.tar}")
        rank = independent_rank(self.comparisons, self.far, "confident")
        if rank < 1 or self.rank != rank or 2 * self.comparisons > self.people:
            raise ValueError(
                f"domain {self.name!r}: rank {self.rank} of {self.comparisons} comparisons of {self.people} people is "
                f"not what guarantee 'worst-group' takes at FAR {self.far}: {rank}"
            )


def check_domains(domains: Sequence[DomainThreshold], far: str, comparisons: int, people: int | None) -> None:
    """Refuse domains that contradict one another or their threshold."""
    named = [one for one in domains if one.name != EVERYBODY]
    targets = {one.far for one in named}
    totals = sum(one.comparisons for one in domains), sum(one.people for one in named)
    if domains and (
        len({one.name for one in domains}) < len(domains)
        or len(targets) != 1
        or ({one.far for one in domains if one.name == EVERYBODY} or targets) != {far}
        or totals != (comparisons, people)
    ):
        raise ValueError(f"the domains of a threshold at FAR {far} contradict one another, or it")


def far_within(domains: Sequence[DomainThreshold], name: str, far: str) -> str:
    """The FAR that is promised within a domain or, with an empty name or one that has no promise, the target."""
    return next((one.far for one in domains if one.name == name), far)


def promise_within(domains: Sequence[DomainThreshold]) -> str:
    """What is promised about strangers of each domain, for people, without an end."""
    fars = {one.name: one.far for one in domains}
    everybody = fars.pop(EVERYBODY, None)
    also = f"{at_most(everybody)} pass, and " if everybody else ""
    return (
        f"We are {percent(CONFIDENCE)} confident that {also}{at_most(next(iter(fars.values())))} of one "
        f"domain pass, in each of {', '.join(fars)} at once"
    )


def meaning_within(domains: Sequence[DomainThreshold], rule: str, what: str) -> str:
    """The promise, and what each domain needs by itself, in one sentence."""
    each = "; ".join(
        f"{one.name or 'everybody'}: at most {one.far}, by itself above {one.threshold:.6g}"
        f"{'' if one.tar is None else f', with a TAR of {one.tar:.4f}'} ({one.comparisons:,} "
        f"comparisons that share no person, from {one.people:,} people; rank {one.rank:,})"
        for one in domains
    )
    return (
        f"{rule}: with {percent(CONFIDENCE)} confidence for all of these together, of {what} both of one of these "
        f"domains, at most so many are accepted: {each}; of other domains, and across domains, nothing is promised"
    )
