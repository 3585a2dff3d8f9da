"""leak.json: the rates at which faces recovered from a model match their people."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from verisphere.base.provenance import Preprocessing
from verisphere.base.trained_on import SharedWithTraining
from verisphere.base.vocabulary import OperatingPoint
from verisphere.base.words import Names
from verisphere.files.documents import read_json_file
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import from_json
from verisphere.files.results import Result

FORMAT = 3
_READ = (1, 2, FORMAT)  # format 1 does not say whether an attack worked, and format 2 knows no source `bridge`
SOURCES = ("photographs", "embeddings", "head", "folder", "bridge")


#: What is said of an attack that worked and whose faces the judge does not recognise, with the FARs of it.
UNRECOGNISED = (
    "an attack that worked, and whose faces the second model does not surely recognise more often than chance would "
    "(at FAR {}), is no proof of safety: noise that satisfies the attacked model alone looks the same, and other "
    "settings may recover more"
)
#: What is said where no face of the network alone could be compared.
UNJUDGED = (
    "each face of the network alone was given to a person without a second photograph, of other pixels, to compare "
    "with, so nothing is known of what can be recovered from the network alone"
)
#: What is said of a second model that was not trained.
UNTRAINED = (
    "is an untrained network, which tells few people apart: what it does not recognise may be recovered all the same"
)


Points: TypeAlias = tuple[OperatingPoint, ...]


def surely_above_chance(points: Points, strangers: Points = (), other_people: Points = ()) -> list[bool]:
    """Whether the lower 95 % bound of each TAR lies above its FAR, and above the upper bounds of what chance gives.

    These are of the same faces with other people, without which, as in earlier versions, nothing is sure, and of
    strangers' photographs, if there are any: they stand for a FAR that the judge's pairs do not resolve.
    """
    unresolved = 0.0 if strangers else 1.0
    fars = [unresolved if point.below_resolution else float(point.far_target) for point in points]
    chosen = [point.tar_upper_95 for point in strangers] or [0.0] * len(points)
    alike = [point.tar_upper_95 for point in other_people] or [1.0] * len(points)
    return [point.tar_lower_95 > max(least) for point, *least in zip(points, fars, chosen, alike, strict=True)]


def attack_worked(
    reached: float, needed: float, points: Points, strangers: Points = (), other_people: Points = ()
) -> bool:
    """Whether the attacked model finds the faces as similar to their targets as two photographs of one person.

    Half of that is enough where the judge surely takes the faces for their people, at any FAR, and has to be shown
    where the photographs are not alike at all under the attacked model (`needed` is not above 0).
    """
    if needed > 0 and reached >= needed:
        return True
    return 2 * reached >= needed and any(surely_above_chance(points, strangers, other_people))


@dataclass(frozen=True)
class LeakRow:
    """Faces recovered from one source, compared with photographs by the judge.

    The source is `folder` (the network alone), `head` (its class centers), `embeddings` (of photographs), `photographs`
    (real ones, for comparison), or `bridge` (no face: stolen embeddings, carried over to the judge).
    """

    source: str
    mean: float
    others: float
    points: Points  # share accepted as the right person at each FAR, by one comparison of each face
    reached: float | None = None  # mean cosine of the faces with their targets under the attacked model
    needed: float | None = None  # mean cosine of two photographs of one person under the attacked model
    strangers: Points = ()  # for `folder`, the share of strangers accepted in the same way
    known: int = 0  # for `bridge`, the number of people whom the attacker knows
    other_people: Points = ()  # share of the faces' comparisons with other people that is accepted

    @property
    def worked(self) -> bool | None:
        """See `attack_worked`; otherwise it failed, and says nothing on what can be recovered. None if not known."""
        if self.reached is None or self.needed is None:
            return None
        return attack_worked(self.reached, self.needed, self.points, self.strangers, self.other_people)

    @property
    def unrecognised(self) -> tuple[str, ...]:
        """The FARs at which `surely_above_chance` does not say that the judge recognises the people of the faces."""
        judged = zip(self.points, surely_above_chance(self.points, self.strangers, self.other_people), strict=True)
        return tuple(point.far_target for point, sure in judged if not sure)


@dataclass(frozen=True)
class LeakFigures(Result):
    """Figures of what a model reveals of people."""

    format: int
    model: str
    sha256: str
    judge: str
    judge_sha256: str | None
    rows: tuple[LeakRow, ...]
    settings: dict[str, Any]
    version: str
    preprocessing: Preprocessing | None = None
    names_rule: Names | None = None
    in_training: SharedWithTraining | None = None

    def __post_init__(self) -> None:
        if self.format not in _READ:
            raise ValueError(f"format is {self.format}; this version reads {', '.join(map(str, _READ))}")
        if not self.rows:
            raise ValueError("rows is empty; a test of leaks has at least one")
        fars = [point.far_target for point in self.rows[-1].points]
        for row in self.rows:
            if row.source not in SOURCES:
                raise ValueError(f"rows: source is {row.source!r}; allowed are {', '.join(SOURCES)}")
            if row.source != "photographs" and not row.points:
                raise ValueError(f"rows: {row.source} has no points")
            for points in (row.points, row.strangers, row.other_people):
                if points and [point.far_target for point in points] != fars:
                    raise ValueError(f"rows: the FARs of {row.source} are not {', '.join(fars)}, those of the last")

    def no_proof(self) -> str:
        """What is said of attacks that worked, with the FARs at which the judge does not surely recognise the faces."""
        weak = {far for row in self.rows if row.worked for far in row.unrecognised}
        fars = [point.far_target for point in self.rows[-1].points if point.far_target in weak]
        return UNRECOGNISED.format(" and ".join(fars)) if fars else ""

    def unjudged(self) -> str:
        """What is said where no face of the network alone could be compared; else empty."""
        return "" if any(row.source == "folder" for row in self.rows) else UNJUDGED

    def of_training(self) -> str:
        """That the model knows people or images of the photographs, in words; empty if none is known to be shared."""
        if not self.in_training:
            return ""
        return f"{self.in_training.described()}; the figures of embeddings say nothing about people it never saw"


def read_leak(path: Path) -> LeakFigures:
    """Read a file that `verisphere leak` has written."""
    with errors_naming(path):
        return from_json(LeakFigures, read_json_file(path))
