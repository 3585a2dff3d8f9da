"""Conversion of a pack into another format: completely or not at all, with the same images, names and identities."""

import hashlib
import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from verisphere.base.identity import decided
from verisphere.base.vocabulary import Progress, quietly
from verisphere.base.words import unknown_name
from verisphere.base.work import ranges
from verisphere.files.disk import digest, real_path, write_with_companions
from verisphere.files.json_values import shown
from verisphere.files.results import Result
from verisphere.images.packs.columns import spelled_once
from verisphere.images.packs.file_names import FileNames, file_names, people_of
from verisphere.images.packs.formats import FORMATS, format_of
from verisphere.images.packs.known_sets import known_set
from verisphere.images.packs.manifest import FORMAT, Manifest, manifest_path
from verisphere.images.packs.pack import Format, Pack, Row
from verisphere.images.select import positions_of_listed, positions_with_images

log = logging.getLogger(__name__)
_AT_ONCE = 256  # images that are read from the source at a time
_DIGEST = 16  # bytes of the digest by which images are compared


@dataclass(frozen=True)
class Conversion(Result):
    """The result of a conversion.

    The manifest holds the `carried` columns because the format cannot.
    """

    source: str
    target: str
    out: Path
    images: int
    identities: int
    manifest: Path
    carried: tuple[str, ...]
    terms: str

    def text(self) -> str:
        """The result as lines of text."""
        carried = f"; it holds the {', '.join(self.carried)}, which {self.target} cannot" if self.carried else ""
        lines = [
            f"{self.out}: {self.images:,} images of {self.identities:,} identities, {self.source} to {self.target}; "
            "read back: the same bytes, names and identities",
            f"{self.manifest}: SHA-256 of every file{carried}",
        ]
        if self.terms:
            lines.append(f"the name of the source means a published set: {self.terms}")
        return "\n".join(lines)


def convert(
    source: Path,
    out: Path,
    to: str | None = None,
    people: Path | None = None,
    min_images: int = 1,
    max_images: int | None = None,
    progress: Progress = quietly,
) -> Conversion:
    """Writes the images of a pack in another format, in their order, with their bytes unchanged.

    Before anything has its final name, the new pack is read back and compared with the source: names, identities,
    domains, and a digest of the bytes of every image. Names of people are copied as they are written, unless
    `names_taken` says `merge`; nobody becomes `-1`.
    """
    origin = format_of(source)
    target = target_format(out, to)
    _check_place(source, out)
    pack = origin.read(source)
    with suppress(ValueError):  # of missing names, of which the next lines warn
        pack = replace(pack, identities=spelled_once(pack.identities, pack.names, "exact"))  # nobody, in any spelling
    try:
        spelled = spelled_once(pack.identities, pack.names, decided())
        pack = replace(pack, identities=spelled) if decided() == "merge" else pack
    except ValueError as error:  # a copy is faithful, and no other verb reads it so
        if decided() == "merge":
            raise
        log.warning("%s: copied as it is, and refused by what reads people: %s", source, error)
    if people is not None:
        pack = pack.keep(positions_of_listed(pack.identities, people))
    if (min_images, max_images) != (1, None):
        pack = pack.keep(positions_with_images(pack.identities, min_images, max_images))
    number_of_people = len(people_of(pack.identities))
    if "identities" not in origin.holds and origin.write is None:
        raise ValueError(
            f"{source}: a {origin.name} states no identities, and {target.name} is for images with identities"
        )
    carried: list[str] = []

    def write(partial: Path) -> None:
        try:
            carried.extend(_written(pack, target, partial, progress))
        except ValueError as error:  # the temporary name would mean nothing to the caller
            raise ValueError(str(error).replace(str(partial), str(out))) from None

    write_with_companions(out, write)
    known = known_set(source)
    return Conversion(
        origin.name,
        target.name,
        out,
        len(pack),
        number_of_people,
        manifest_path(out),
        tuple({"people": "identities", "files": "order"}.get(key, key) for key in carried),
        "" if known is None else known.line(),
    )


def _written(pack: Pack, target: Format, partial: Path, progress: Progress) -> list[str]:
    """Writes a pack and its manifest, and compares what was written; returns the columns that the manifest holds."""
    names = file_names(pack.identities, pack.domains) if target.by_path else None
    holds_names = names is not None or all(map(target.can_name, pack.names))
    digests = np.zeros((len(pack), _DIGEST), np.uint8)
    rows = _rows(pack, holds_names, digests, progress)
    assert target.write is not None  # target_format refuses such a format
    target.write(partial, rows if names is None else names.named(rows))
    if next(rows, None) is not None:
        raise ValueError(f"{partial}: {target.name} has not taken all of the images")
    manifest = _manifest(pack, target, partial, names, holds_names)
    manifest_path(partial).write_text(manifest.json(), encoding="utf-8")
    _compare(pack, target.read(partial), digests, partial, progress)
    return [key for key in ("names", "people", "domains", "files") if getattr(manifest, key) is not None]


def target_format(out: Path, to: str | None) -> Format:
    """The format to write: the named one, or that of the path's suffix; a folder if no format has the suffix."""
    writable = [known.name for known in FORMATS if known.write is not None]
    if to is None:
        fitting = [known for known in FORMATS if known.fits(out)]
        chosen = (fitting or [known for known in FORMATS if known.name == "folder"])[0]
    else:
        by_name = {known.name: known for known in FORMATS}
        if to not in by_name:
            raise ValueError(f"--to: {unknown_name('format', to, writable)}")
        chosen = by_name[to]
    if chosen.write is None:
        raise ValueError(f"{out}: a {chosen.name} cannot be written; the formats that can are {', '.join(writable)}")
    if chosen.suffix and out.suffix.lower() != chosen.suffix:
        raise ValueError(f"{out}: the name of a pack in format {chosen.name} ends in {chosen.suffix}")
    return chosen


def _check_place(source: Path, out: Path) -> None:
    """Refuses, before any work, a path for the new pack that exists, or that lies in the source."""
    if out.exists() or out.is_symlink():
        raise FileExistsError(f"{out}: exists already, and is never overwritten; choose another name")
    if source.is_dir() and real_path(out).is_relative_to(real_path(source)):
        raise ValueError(f"{out}: lies in {source}, which is read here; write to another place")
    if real_path(source).is_relative_to(real_path(out)):
        raise ValueError(f"{out}: it is, or holds, {source}, which is read here; write to another place")


def _rows(
    pack: Pack, with_names: bool, digests: UInt8[np.ndarray, "images bytes"], progress: Progress
) -> Iterator[Row]:
    """The images of a pack, one after the other, named or numbered; keeps a digest of the bytes of each."""
    positions = _read(pack)
    for position, data in progress(positions, "converting", len(pack)):
        digests[position] = _digest(data)
        yield Row(
            pack.names[position] if with_names else f"image {position}",
            pack.identities[position],
            data,
            None if pack.domains is None else pack.domains[position],
        )


def _read(pack: Pack) -> Iterator[tuple[int, bytes]]:
    """Position and bytes of each image."""
    for positions in ranges(len(pack), _AT_ONCE):
        for position, (_, data) in zip(positions, pack.files.read(positions), strict=True):
            yield position, data


def _digest(data: bytes) -> UInt8[np.ndarray, " bytes"]:
    return np.frombuffer(hashlib.blake2b(data, digest_size=_DIGEST).digest(), np.uint8)


def _manifest(pack: Pack, target: Format, written: Path, names: FileNames | None, holds_names: bool) -> Manifest:
    """The manifest of the pack as it was written."""
    inside = written.is_dir()
    root = written if inside else written.parent
    files = sorted(path for path in root.rglob("*") if path.is_file())
    sorted_by_path = names is None or names.paths == sorted(names.paths, key=lambda path: path.split("/"))
    holds_names = holds_names and ("names" in target.holds if names is None else not names.names)
    numbered = "identities" not in target.holds if names is None else names.people is not None
    holds_domains = "domains" in target.holds if names is None else names.domains
    return Manifest(
        format=FORMAT,
        pack=target.name,
        images=len(pack),
        sha256={path.relative_to(root).as_posix(): digest(path) for path in files},
        source=pack.source,
        names=None if holds_names else tuple(pack.names),
        people=people_of(pack.identities) if numbered else None,
        domains=None if pack.domains is None or holds_domains else tuple(pack.domains),
        files=None if names is None or sorted_by_path else tuple(names.paths),
    )


def _compare(
    pack: Pack, written: Pack, digests: UInt8[np.ndarray, "images bytes"], out: Path, progress: Progress
) -> None:
    """Refuses a written pack that differs from its source."""
    if len(pack) != len(written):
        raise ValueError(f"{out}: {len(written):,} images were read back, of {len(pack):,} that were written")
    for what, before, after in (
        ("name", pack.names, written.names),
        ("identity", pack.identities, written.identities),
        ("domain", pack.domains, written.domains),
    ):
        if before is None and after is None:
            continue
        if before is None or after is None:
            raise ValueError(f"{out}: the domains were not read back as they were written")
        for position, (old, new) in enumerate(zip(before, after, strict=True)):
            if old != new:
                raise ValueError(
                    f"{out}: image {position}: the {what} {shown(old, 200)} was read back as {shown(new, 200)}"
                )
    for position, data in progress(_read(written), "reading back", len(pack)):
        if not np.array_equal(_digest(data), digests[position]):
            raise ValueError(f"{out}: image {position}, {shown(pack.names[position], 200)}, was read back differently")
