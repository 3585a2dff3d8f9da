"""The images that a published list names, found below a folder or in an archive, and read for a model."""

import hashlib
import logging
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64, Int64, UInt8
from torch import Tensor

from verisphere.base.provenance import GIVEN_LANDMARKS
from verisphere.base.vocabulary import ImageSource, printable
from verisphere.files.image_suffixes import SUFFIXES
from verisphere.files.json_values import shown
from verisphere.images.decode import decode_quietly, quiet_decoders
from verisphere.images.detect.alignment import TEMPLATES, align, resized
from verisphere.images.faces import Faces
from verisphere.images.packs.image_files import ImageFiles, image_files
from verisphere.images.photos import fitted

log = logging.getLogger(__name__)

_MAX_STRETCH = 1.5  # the limit of `Photos`


@dataclass(frozen=True, eq=False)
class SetImages:
    """The images of one embeddings file, in the order of its rows.

    Attributes:
        identities: person on each image; `NOBODY` if only the list states who is compared.
        points: (x, y) of the five landmarks of each image, if the images are loose crops that must still be aligned.
    """

    files: ImageFiles
    names: tuple[str, ...]
    identities: tuple[str, ...]
    source: ImageSource
    domains: tuple[str, ...] | None = None
    templates: tuple[str, ...] | None = None
    points: Float64[np.ndarray, "images 5 2"] | None = None

    def __len__(self) -> int:
        return len(self.names)

    def keys(self, positions: Sequence[int]) -> Iterator[bytes]:
        """A digest of each image's bytes and landmarks: images with equal digests have equal embeddings."""
        for position, (_, data) in zip(positions, self.files.read(positions), strict=True):
            digest = hashlib.blake2b(data, digest_size=16)
            if self.points is not None:
                digest.update(self.points[position].tobytes())
            yield digest.digest()


class SetFaces(Faces):
    """The images of a set in the form that a model takes, whose input has this size (height, width)."""

    def __init__(self, images: SetImages, size: tuple[int, int]) -> None:
        self.set, self.size = images, size
        self.names, self.identities, self.domains = images.names, images.identities, images.domains
        known = [template for template in TEMPLATES.values() if template.size == size]
        self.template = (*known, resized(TEMPLATES["arcface_112x112"], size))[0]

    @property
    def source(self) -> ImageSource:
        """Source of the images; those that have landmarks are aligned here."""
        source = self.set.source
        if self.set.points is None:
            return source
        return replace(source, alignment=f"{self.template.name} by {GIVEN_LANDMARKS}{source.place}")

    def contents(self, indices: Sequence[int]) -> bytes:
        """A digest of the bytes and landmarks of these images, and of the size in which they are taken."""
        return hashlib.sha256(repr(self.size).encode() + b"".join(self.set.keys(indices))).digest()

    def images(self, indices: Sequence[int]) -> UInt8[Tensor, "batch 3 height width"]:
        """The images at these positions, in this order: RGB, [0, 255], in channels-last memory."""
        pixels = np.empty((len(indices), *self.size, 3), np.uint8)
        with quiet_decoders():
            for row, (index, (name, data)) in enumerate(zip(indices, self.set.files.read(indices), strict=True)):
                decoded = decode_quietly(data, name)
                if self.set.points is None:
                    pixels[row] = fitted(decoded, name, self.size, _MAX_STRETCH)
                    continue
                try:
                    pixels[row] = align(decoded, self.set.points[index], self.template)
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from None
        return torch.from_numpy(pixels).permute(0, 3, 1, 2)


def places_of_images(place: Path, root: Path) -> Iterator[Path]:
    """The places in which the images of a set are looked for, in this order.

    SLLFW's list, for example, names images of LFW, so the other folders and archives of the suite follow.
    """
    yield place
    yield from sorted(place.glob("*.zip"))
    others = (path for path in sorted(root.iterdir()) if path != place and not path.name.startswith("."))
    for path in others:
        if path.is_dir():
            yield path
            yield from sorted(path.glob("*.zip"))
        elif path.suffix.lower() == ".zip":
            yield path


def find_images(
    names: Sequence[str], place: Path, root: Path, folders: bool = False
) -> tuple[Path, ImageFiles, list[Int64[np.ndarray, " images"]]]:
    """The image file of each name, or the files in the folder of each name; suffixes may differ from those of the list.

    If the names fit below several folders, the folder with most of them is used; among equal ones the folder with
    `align` in its name, then the higher one. Of several files there that differ in their suffixes, the one with the
    suffix of the list is used. With `folders` each name is that of a folder of frames.
    """
    wanted = [_key(name, folders) for name in names]
    searched = set(wanted)
    depths = {key.count("/") + 1 for key in searched}
    best: tuple[int, str] | None = None
    for where in places_of_images(place, root):
        try:
            files = image_files(where)
        except ValueError:  # the place has no image, or is no archive
            continue
        by_key: dict[str, list[int]] = {}
        for position, path in enumerate(files.names):
            by_key.setdefault(os.path.dirname(path) if folders else _stem(path), []).append(position)
        above = Counter[str]()
        for key in by_key:
            parts = key.split("/")
            for depth in depths:
                if len(parts) >= depth and "/".join(parts[-depth:]) in searched:
                    above["/".join(parts[:-depth])] += 1
        if not above:
            continue
        shared = min(above, key=lambda folder: (-above[folder], "align" not in folder, folder.count("/"), folder))
        prefix = f"{shared}/" if shared else ""
        missing = [name for name, key in zip(names, wanted, strict=True) if prefix + key not in by_key]
        if not missing:
            log.info("%s: images of %s", printable(str(place)), printable(str(where / shared)))
            positions = [by_key[prefix + key] for key in wanted]
            if not folders:
                positions = _one_file_a_name(where, files.names, names, positions, prefix)
            return where, files, [np.array(rows, np.int64) for rows in positions]
        if best is None or len(missing) < best[0]:
            best = len(missing), f"{where / shared}: {len(missing):,} of {len(names):,} listed images are not there, "
            best = best[0], f"{best[1]}the first {shown(missing[0], 200)}"
    if best is not None:
        raise ValueError(best[1])
    kind = "folders of frames" if folders else "images"
    raise ValueError(f"{place}: none of the {len(names):,} listed {kind} is there, the first {shown(names[0], 200)}")


def _one_file_a_name(
    where: Path, files: Sequence[str], names: Sequence[str], positions: Sequence[list[int]], prefix: str
) -> list[list[int]]:
    """The file of each name among those that differ from it only in their suffix."""
    chosen: list[list[int]] = []
    name_of: dict[int, str] = {}
    for name, rows in zip(names, positions, strict=True):
        exact = [row for row in rows if files[row] == prefix + _path(name)]
        if len(rows) > 1 and not exact:
            first, second = (shown(files[row], 200) for row in rows[:2])
            raise ValueError(f"{where}: {shown(name, 200)} could be {first} or {second}; remove one of them")
        row = (exact or rows)[0]
        if row in name_of:
            raise ValueError(
                f"{where}: {shown(name_of[row], 200)} and {shown(name, 200)} are two images of the list, but both "
                f"names fit {shown(files[row], 200)} alone"
            )
        name_of[row] = name
        chosen.append([row])
    return chosen


def _key(name: str, folder: bool) -> str:
    return _path(name) if folder else _stem(_path(name))


def _path(name: str) -> str:
    return "/".join(part for part in name.split("/") if part not in ("..", "."))


def _stem(path: str) -> str:
    """A path without the suffix of an image file; `m.0abc12` has none."""
    stem, suffix = os.path.splitext(path)
    return stem if suffix.lower() in SUFFIXES else path
