"""What a living gallery takes and tells: photographs to enrol, alarms, its people, its figures with its promise."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float32

from verisphere.base.provenance import UNRECORDED, UNTIED
from verisphere.base.vocabulary import Embeddings, Origin, printable
from verisphere.base.words import Names, counted
from verisphere.decide import GalleryThreshold
from verisphere.files.results import Result
from verisphere.report.tables import table
from verisphere.score import unit_rows
from verisphere.ship.notes import on_trust, sentence


@dataclass(frozen=True, eq=False)
class NewPhotographs:
    """Photographs to enrol: a row of length 1 for each, with its person, its name, and a digest of its content.

    Images are the aligned crops as PNG, where they are to be kept. Origins say how the rows were made, as far as known.
    """

    people: Sequence[str]
    names: Sequence[str]
    digests: Sequence[str]
    rows: Float32[np.ndarray, "photographs dim"]
    images: Sequence[bytes | None] | None = None
    origins: Sequence[Origin] = ()

    @classmethod
    def of(cls, embeddings: Embeddings) -> "NewPhotographs":
        """Rows of an embeddings file, each of which is a photograph."""
        rows = unit_rows(embeddings.embeddings).numpy()
        digests = [hashlib.sha256(row.tobytes()).hexdigest() for row in rows]
        origins = [] if embeddings.origin is None else [replace(embeddings.origin, images="")]
        return cls(embeddings.identities.tolist(), embeddings.names.tolist(), digests, rows, origins=origins)

    def take(self, chosen: Sequence[int]) -> "NewPhotographs":
        """Some of the photographs."""
        people, names, digests = ([column[row] for row in chosen] for column in (self.people, self.names, self.digests))
        images = None if self.images is None else [self.images[row] for row in chosen]
        return NewPhotographs(people, names, digests, self.rows[list(chosen)], images, self.origins)


@dataclass(frozen=True)
class Alarm:
    """A new photograph, the other person whom it looks like, and its scores with that one and with its own, if any."""

    photograph: str
    person: str
    other: str
    score: float
    own: float | None

    def __str__(self) -> str:
        return f"{printable(self.photograph)}: {self.reason()}"

    def reason(self) -> str:
        """Why it is stopped, in words."""
        other, person = printable(self.other), printable(self.person)
        if self.own is None:
            return f"the first of {person}, and it is found as {other} ({self.score:.4f})"
        return f"nearer to {other} ({self.score:.4f}) than to {person} ({self.own:.4f})"


@dataclass(frozen=True)
class Enrolled:
    """What enrolment has changed; `renewed` counts people who were enrolled and whose consent or expiry is another."""

    photographs: int
    people: int
    known: int
    strangers_left: tuple[str, ...]
    stopped: tuple[Alarm, ...]
    renewed: int = 0


@dataclass(frozen=True)
class PersonListed:
    """A person of a gallery, and when the consent ends; empty for never."""

    name: str
    photographs: int
    enrolled: str
    operator: str
    consent: str
    expires: str


@dataclass(frozen=True)
class GalleryListing(Result):
    """Everybody who is enrolled, by name."""

    people: tuple[PersonListed, ...]

    def text(self) -> str:
        """A table with a line for each person."""
        titles = ["person", "photographs", "enrolled", "by", "consent", "expires"]
        rows = [[printable(str(value)) for value in vars(person).values()] for person in self.people]
        return table(titles, rows) if rows else "Nobody is enrolled."


@dataclass(frozen=True)
class GalleryInfo(Result):
    """The figures of a gallery, whose people and photographs include those whose consent has expired.

    Removed photographs wait for `compact`, the size is in bytes, and an empty gallery has no threshold. It is `trusted`
    where nothing says which model made some of its rows, and `unrecorded` where an earlier version embedded some. The
    rule of names is that of its strangers: those who are enrolled are one person however they are spelled.
    """

    gallery: str
    people: int
    photographs: int
    expired: int
    removed: int
    strangers: int
    size: int
    origin: Origin | None
    trusted: bool
    threshold: GalleryThreshold | None
    unrecorded: bool = False
    names_rule: Names | None = None
    weak_strangers: tuple[str, ...] = ()

    def promised(self) -> list[str]:
        """The threshold with its promise, and what weakens it, a sentence each."""
        weak = [*([] if self.threshold else self.weak_strangers), *([UNTIED] if self.origin is None else [])]
        weak += [on_trust("the gallery", "some of its rows")] if self.trusted else []
        weak += [f"some of its rows or strangers were {UNRECORDED}"] if self.unrecorded else []
        return [str(self.threshold) if self.threshold else "Nobody is enrolled yet.", *map(sentence, weak)]

    def text(self) -> str:
        """The promise first, with what weakens it, and then the figures."""
        lines = self.promised()
        held = f"{counted(self.people, 'person')}, {counted(self.photographs, 'photograph')}"
        lines.append(f"{printable(self.gallery)}: {held}, {counted(self.strangers, 'stranger')}, {self.size:,} bytes")
        if self.expired:
            lines.append(f"The consent of {counted(self.expired, 'person')} has expired; they are not found.")
        if self.removed:
            left = counted(self.removed, "removed photograph")
            lines.append(f"The files still hold traces of {left}; `verisphere gallery compact` removes them.")
        return "\n".join(lines)
