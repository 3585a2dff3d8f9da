"""The common interface of all formats: a pack of encoded images with names, identities and domains; and a format."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from verisphere.base.vocabulary import ImageSource
from verisphere.files.errors import Fault, FaultError, caught
from verisphere.files.images_json import read_source
from verisphere.images.packs.columns import Positions, take
from verisphere.images.packs.image_files import ImageFiles


@dataclass(frozen=True, eq=False)
class Pack:
    """Encoded images on disk, in a fixed order; their bytes are read on request."""

    path: Path
    format: str
    names: Sequence[str]
    identities: Sequence[str]
    files: ImageFiles
    source: ImageSource
    domains: Sequence[str] | None = None
    source_by_path: bool = False  # whether the source is that of `images.json` above each image

    def __len__(self) -> int:
        return len(self.names)

    def keep(self, positions: Positions) -> "Pack":
        """The images at these positions."""
        files = self.files.keep(positions)
        return replace(
            self,
            names=take(self.names, positions),
            identities=take(self.identities, positions),
            files=files,
            source=read_source(self.path, files.names) if self.source_by_path else self.source,
            domains=None if self.domains is None else take(self.domains, positions),
        )

    def fault(self, position: int, reason: str) -> Fault:
        """A fault of an image."""
        file, offset = self.files.place(position)
        return Fault(file, self.names[position], offset, reason)


@dataclass(frozen=True)
class Row:
    """One image that will be written into a pack."""

    name: str
    identity: str
    data: bytes
    domain: str | None = None


@dataclass(frozen=True)
class Format:
    """A format of packs.

    Attributes:
        name: name of the format on the command line.
        looks: description of such a pack on disk, for messages and help.
        fits: whether an existing path is meant as this format, judged by its name and kind alone.
        contents: opens a pack, without reading its images: yields its faults, and returns it if there is none. If the
            second argument is true, every fault in the structure is looked for, and nothing need be returned; else the
            first ends the opening, and only what opening needs is looked at. Faults that show only when an image is
            decoded are not included.
        write: writes rows to a path that does not exist yet, and companion files beside it under the same stem; None
            for a format that cannot be written. A format that holds identities as numbers gives each the number of
            identities that appeared before it, and -1 to `verisphere.base.vocabulary.NOBODY`.
        suffix: suffix of a written pack; empty for a folder.
        holds: columns that the format itself holds, among "names", "identities" and "domains"; a manifest holds the
            others.
        can_name: whether a format that holds names can hold this name of an image; if it cannot hold one of them, the
            manifest holds all names of the pack.
        by_path: whether the path of a file states the identity, so that `write` takes rows that are named by such paths
            (`verisphere.images.packs.file_names`).
    """

    name: str
    looks: str
    fits: Callable[[Path], bool]
    contents: Callable[[Path, bool], Generator[Fault, None, Pack | None]]
    write: Callable[[Path, Iterable[Row]], None] | None
    suffix: str = ""
    holds: frozenset[str] = frozenset({"names", "identities", "domains"})
    can_name: Callable[[str], bool] = bool
    by_path: bool = False

    def read(self, path: Path) -> Pack:
        """Opens a pack; raises ValueError, or OSError, with one line that names the file and the record."""
        contents = self.contents(path, False)
        try:
            raise FaultError(next(contents))
        except StopIteration as opened:
            pack: Pack = opened.value
            return pack

    def faults(self, path: Path) -> Iterator[Fault]:
        """Every fault in the structure of a pack, whether or not `read` would open it."""
        yield from caught(self.contents(path, True), path)
