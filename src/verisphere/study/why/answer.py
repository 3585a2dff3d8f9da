"""Checks that are asked one after another, the cheapest first, until one finds a cause; and the answer of all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, TypeVar

from verisphere.base.vocabulary import Progress, printable, quietly
from verisphere.base.words import Names
from verisphere.files.results import Result

#: Chance of a false alarm of one statistical check of a healthy set, over all that it compares.
FALSE_ALARM = 1e-3
T = TypeVar("T")


@dataclass(frozen=True)
class Cause:
    """A cause of wrong figures: its name, what was measured, and what mends it, if not the command of the check."""

    name: str
    evidence: str
    mend: str = ""


@dataclass(frozen=True)
class Seen:
    """What a check saw without finding a cause: that nothing is wrong, too little to tell, or nothing asked."""

    figures: str
    told: Literal["well", "too few to tell", "not asked"] = "well"
    check: str = ""


@dataclass(frozen=True)
class Answer(Result):
    """The first cause of what was asked, or empty, and the checks before it, in their order."""

    asked: str
    cause: Cause | None
    check: str
    tried: tuple[Seen, ...]
    names_rule: Names | None = None

    ascii_only = False

    def text(self) -> str:
        """The cause with its evidence and the command that mends it; then what was tried."""
        lines = [f"{self.asked}: no cause found; what was tried:"]
        if (cause := self.cause) is not None:
            lines = [f"{self.asked}: {cause.name}", f"evidence: {cause.evidence}", f"mend: {cause.mend}"]
            lines += ["tried before, without a cause:"] if self.tried else []
        lines += [f"  {tried.check} ({tried.told}): {tried.figures}" for tried in self.tried]
        if cause is None and any(tried.told == "too few to tell" for tried in self.tried):
            lines.append("a check that had too few to tell excludes nothing")
        return "\n".join(map(printable, lines))

    def fields(self) -> dict[str, Any]:
        """The values of the JSON."""
        return {"format": 1, **vars(self)}


#: A table of checks: what is looked at, how, and the command that mends what is found, which may name parts of a case.
Checks: TypeAlias = Sequence[tuple[str, Callable[[T], Cause | Seen], str]]


def answered(asked: str, case: T, checks: Checks[T], progress: Progress = quietly) -> Answer:
    """Ask the checks in their order, up to the first cause."""
    tried: list[Seen] = []
    for name, look, mend in progress(checks, "checks", len(checks)):
        found = look(case)
        if isinstance(found, Cause):
            return Answer(asked, replace(found, mend=found.mend or mend.format(case=case)), name, tuple(tried))
        tried.append(replace(found, check=name))
    return Answer(asked, None, "", tuple(tried))
