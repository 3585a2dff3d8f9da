"""The result of a method of cleaning before a rule decides: the sub-class of every sample, its name and identity."""

from collections.abc import Sequence
from dataclasses import dataclass

from verisphere.base.words import Names
from verisphere.study.clean.nearest_class import NearestClass
from verisphere.study.clean.sub_classes import SubClasses


@dataclass(frozen=True, eq=False)
class Found:
    """The samples of a data set, each in its sub-class.

    Attributes:
        people: the identities; a label of `sub` is a position in them.
        sub: sub-classes of the samples.
        method: how the sub-centers were found, in words, such as "sub-centers of runs/k3".
        domains: domain of each image; None if the set has none.
        true_identities: true identity of each image, if known.
        nearest_class: whether the nearest class of each image is its own; None if this was not requested.
    """

    names: Sequence[str]
    identities: Sequence[str]
    people: Sequence[str]
    sub: SubClasses
    method: str
    domains: Sequence[str] | None = None
    true_identities: Sequence[str] | None = None
    nearest_class: NearestClass | None = None
    names_rule: Names | None = None

    def __len__(self) -> int:
        return len(self.names)
