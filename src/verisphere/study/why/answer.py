"""Checks that are asked one after another, the cheapest first, until one finds a cause; and the answer of all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from verisphere.base.vocabulary import Progress, printable, quietly
from verisphere.files.results import Result

#: Chance of a false alarm of one statistical check of a healthy set, over all that it compares.
FALSE_ALARM = 1e-3
Told: TypeAlias = Literal["well", "too few to tell", "not asked"]
T = TypeVar("T")


@dataclass(frozen=True)
class Cause:
    """A cause of wrong figures.

    Attributes:
        name: the cause in a few words, such as `colour order`.
        evidence: what was measured, in figures.
        mend: the command that mends it, or what to do first.
    """

    name: str
    evidence: str
    mend: str


@dataclass(frozen=True)
class Seen:
    """What a check saw without finding a cause; or why it can tell nothing.

    Attributes:
        figures: what was measured, or what is missing.
        told: whether that shows that nothing is wrong, that there is too little to tell, or nothing was asked.
    """

    figures: str
    told: Told = "well"


#: Functions that look at a case, by the name of what they look at.
Checks: TypeAlias = Mapping[str, Callable[[T], Cause | Seen]]


@dataclass(frozen=True)
class Tried:
    """A check that found no cause, and what it saw."""

    check: str
    figures: str
    told: Told


@dataclass(frozen=True)
class Answer(Result):
    """The first cause, or none; and the checks before it, in their order.

    Attributes:
        asked: model and set, or run.
        cause: the first cause that was found; None where no check found one.
        check: the check that found it; empty for none.
        tried: the checks that found none.
    """

    asked: str
    cause: Cause | None
    check: str
    tried: tuple[Tried, ...]

    ascii_only = False

    def text(self) -> str:
        """The cause with its evidence and the command that mends it; then what was tried."""
        lines = [f"{self.asked}: no cause found; what was tried:"]
        if self.cause is not None:
            lines = [
                f"{self.asked}: {self.cause.name}",
                f"evidence: {self.cause.evidence}",
                f"mend: {self.cause.mend}",
                *(["tried before, without a cause:"] if self.tried else []),
            ]
        lines += [f"  {tried.check} ({tried.told}): {tried.figures}" for tried in self.tried]
        if self.cause is None and any(tried.told == "too few to tell" for tried in self.tried):
            lines.append("a check that had too few to tell excludes nothing")
        return "\n".join(map(printable, lines))

    def fields(self) -> dict[str, Any]:
        """The values of the JSON."""
        return {"format": 1, **vars(self)}


def answered(asked: str, case: T, checks: Checks[T], progress: Progress = quietly) -> Answer:
    """Ask the checks in their order, up to the first cause."""
    tried: list[Tried] = []
    for name, ask in progress(list(checks.items()), "checks", len(checks)):
        found = ask(case)
        if isinstance(found, Cause):
            return Answer(asked, found, name, tuple(tried))
        tried.append(Tried(name, found.figures, found.told))
    return Answer(asked, None, "", tuple(tried))
