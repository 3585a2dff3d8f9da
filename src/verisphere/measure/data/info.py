"""A data set in figures, from its index alone: no image is read."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64

from verisphere.base.vocabulary import NOBODY, ImageSource
from verisphere.base.words import Names
from verisphere.files.results import Result
from verisphere.images.faces import Faces
from verisphere.images.packs.columns import coded
from verisphere.images.packs.image_files import FilesInArchive, FilesOnDisk, ImageFiles
from verisphere.images.packs.known_sets import KnownSet, known_set
from verisphere.images.packs.manifest import manifest_path, read_manifest
from verisphere.images.photos import Photos
from verisphere.models.described_faces import open_faces
from verisphere.report.tables import table

_MOST_DOMAINS = 20  # rows of the table of domains
_MOST_FILES = 200_000  # files whose sizes are read one by one


@dataclass(frozen=True)
class ImagesPerIdentity:
    """The numbers of images of the people of a set; `with_one` is the number of people with one image."""

    minimum: int
    median: float
    mean: float
    maximum: int
    with_one: int


@dataclass(frozen=True)
class Info(Result):
    """A data set in figures.

    Attributes:
        nobody: number of images without a known person (identity -1).
        bytes: size of all images together, as they are encoded; None where the index does not state them.
        known_set: the published set that the name refers to; None for any other name.
    """

    format: str
    path: str
    images: int
    identities: int
    nobody: int
    domains: dict[str, int] | None
    images_per_identity: ImagesPerIdentity | None
    bytes: int | None
    source: ImageSource
    manifest: str | None
    known_set: KnownSet | None
    names_rule: Names | None

    ascii_only = False

    def fields(self) -> dict[str, Any]:
        """The figures of the JSON; a published set by its name, terms and note."""
        known = self.known_set
        return vars(self) | {
            "known_set": None if known is None else {"name": known.name, "terms": known.terms, "note": known.note}
        }

    def text(self) -> str:
        """The figures as tables."""
        rows = [
            ["format", self.format],
            ["path", self.path],
            ["images", f"{self.images:,}"],
            ["identities", f"{self.identities:,}"],
            ["images of nobody (-1)", f"{self.nobody:,}"],
        ]
        if self.images_per_identity is not None:
            per = self.images_per_identity
            rows += [
                ["images per identity, minimum", f"{per.minimum:,}"],
                ["images per identity, median", f"{per.median:,g}"],
                ["images per identity, mean", f"{per.mean:,.2f}"],
                ["images per identity, maximum", f"{per.maximum:,}"],
                ["identities of one image", f"{per.with_one:,}"],
            ]
        rows += [
            ["bytes of the images", "-" if self.bytes is None else f"{self.bytes:,}"],
            ["domains", "-" if self.domains is None else f"{len(self.domains):,}"],
            ["drawn", {None: "not recorded", True: "yes", False: "no"}[self.source.drawn]],
            ["alignment", self.source.alignment or "not recorded"],
            ["manifest", self.manifest or "-"],
        ]
        texts = [table(["data set", ""], rows)]
        if self.domains:
            texts.append(domains_table(self.domains))
        if self.known_set is not None:
            texts.append(f"the name means a published set: {self.known_set.line()}")
        return "\n\n".join(texts)


def domains_table(domains: dict[str, int]) -> str:
    """The largest domains with their images."""
    rows = [[name, f"{count:,}"] for name, count in list(domains.items())[:_MOST_DOMAINS]]
    rest = list(domains.values())[_MOST_DOMAINS:]
    if rest:
        rows.append([f"({len(rest):,} further domains)", f"{sum(rest):,}"])
    return table(["domain", "images"], rows)


def data_info(path: Path, trust: bool = False) -> Info:
    """The figures of a data set, from its index; `trust` allows a class from outside verisphere, whose code runs."""
    faces = open_faces(path, trust=trust)
    counts = images_of_people(faces.identities)
    is_pack = isinstance(faces, Photos)
    beside = read_manifest(path, len(faces), must_agree=False) if is_pack else None
    return Info(
        format=faces.pack.format
        if isinstance(faces, Photos)
        else f"{type(faces).__module__}.{type(faces).__qualname__}",
        path=str(path),
        images=len(faces),
        identities=len(counts),
        nobody=len(faces) - int(counts.sum()),
        domains=domains_of(faces),
        images_per_identity=_per_identity(counts),
        bytes=_encoded_bytes(faces.pack.files) if isinstance(faces, Photos) else None,
        source=faces.source,
        manifest=None if beside is None else str(manifest_path(path)),
        known_set=known_set(path) if is_pack else None,
        names_rule=faces.names_rule,
    )


def images_of_people(identities: Sequence[str]) -> Int64[np.ndarray, " people"]:
    """Number of images of each person, without `NOBODY`."""
    column = coded(identities)
    counts = column.counts()
    people = np.array([value != NOBODY for value in column.values], bool)
    return counts[people & (counts > 0)].astype(np.int64)


def domains_of(faces: Faces) -> dict[str, int] | None:
    """Number of images of each domain, by falling number; None for a set without domains."""
    if faces.domains is None:
        return None
    column = coded(faces.domains)
    counts = column.counts().tolist()
    by_number = sorted(zip(column.values, counts, strict=True), key=lambda pair: (-pair[1], pair[0]))
    return {name: count for name, count in by_number if count}


def _per_identity(counts: Int64[np.ndarray, " people"]) -> ImagesPerIdentity | None:
    if not len(counts):
        return None
    return ImagesPerIdentity(
        minimum=int(counts.min()),
        median=float(np.median(counts)),
        mean=float(counts.mean()),
        maximum=int(counts.max()),
        with_one=int((counts == 1).sum()),
    )


def _encoded_bytes(files: ImageFiles) -> int | None:
    """Bytes of all images, if an index states them or the files are few enough to be asked; else None."""
    sizes = getattr(files, "sizes", None)  # of the formats whose images lie in large files
    if sizes is not None:
        return int(sizes.sum())
    if isinstance(files, FilesInArchive):
        return int(files.entries[:, 2].sum())
    if isinstance(files, FilesOnDisk) and len(files.names) <= _MOST_FILES:
        return sum(os.stat(files.root / name).st_size for name in files.names)
    return None
