"""Face images from a folder, from a zip archive read in place, or from a list of files."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from verisphere.files.images_json import read_source
from verisphere.files.lists import read_images
from verisphere.images.decode import decode
from verisphere.images.faces import Faces
from verisphere.images.image_files import FilesOnDisk, ImageFiles, counted, image_files
from verisphere.images.select import positions_of_listed, positions_with_images
from verisphere.vocabulary import ImageSource

log = logging.getLogger(__name__)

LIST_SUFFIXES = (".csv", ".lst", ".txt")


class Photos(Faces):
    """Face images on disk, one folder a person.

    `path` is one of
    - a folder or a zip archive with `Name/image.jpg`, or the same inside folders that all images share; images are
      sorted by person, then name. Hidden files and files without an image suffix are skipped; photographs in
      formats that are not read are skipped with a warning.
    - a list (.txt, .csv, .lst) of `image path<TAB>identity` lines, in whose order the images stay; see
      `verisphere.files.lists.read_images`.

    Names are paths below the shared folders (`Name/image.jpg`), or as the list spells them. Images are read and decoded
    on request; no file stays open between requests, so the set can be copied into worker processes.

    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (Path(folder) / "Ann").mkdir()
    ...     Image.new("RGB", (112, 112)).save(Path(folder) / "Ann" / "1.png")
    ...     photos = Photos(folder)
    ...     photos.names, photos.people, photos.images([0]).shape
    (('Ann/1.png',), ('Ann',), torch.Size([1, 3, 112, 112]))

    Args:
        path: the folder, archive or list.
        people: a list of people, as `verisphere.files.lists.read_people` reads it; other people are excluded.
        min_images: people with fewer images are excluded.
        max_images: largest number of images of a person; the first ones in order are used. None sets no limit.
        size: (height, width) of the images; images of another size are resampled to it by a bilinear filter, with
            antialiasing when they shrink.
        max_stretch: largest change of the aspect ratio by resampling to `size`; 1 allows only images of the same aspect
            ratio.

    Raises:
        FileNotFoundError: nothing is at `path`.
        ValueError: no image is found, an image lies outside a person's folder, a list or an archive is malformed, or
            the restrictions leave nothing; from `images`, naming the image that cannot be read, or whose aspect ratio
            says that it is no aligned crop.
    """

    def __init__(
        self,
        path: str | Path,
        people: str | Path | None = None,
        min_images: int = 1,
        max_images: int | None = None,
        size: tuple[int, int] = (112, 112),
        max_stretch: float = 1.5,
    ) -> None:
        if min(size) < 1:
            raise ValueError(f"size is {size}; allowed are a height and a width of at least 1 pixel")
        if not max_stretch >= 1:
            raise ValueError(f"max_stretch is {max_stretch}; allowed is 1 (no stretching) or more")
        self.path = Path(path).expanduser()
        self.size, self.max_stretch = size, max_stretch
        listing = _open(self.path)
        kept = list(range(len(listing.names)))
        if people is not None:
            kept = positions_of_listed(listing.identities, people)
        enough = positions_with_images([listing.identities[index] for index in kept], min_images, max_images)
        kept = [kept[index] for index in enough]
        self.names = tuple(listing.names[index] for index in kept)
        self.identities = tuple(listing.identities[index] for index in kept)
        self._files = listing.files.keep(kept)
        self._source = listing.source

    @property
    def source(self) -> ImageSource:
        """Source of the images, as `images.json` beside them states it."""
        return self._source

    def images(self, indices: Sequence[int]) -> UInt8[Tensor, "batch 3 height width"]:
        """The images at these positions, in this order: RGB, [0, 255], in channels-last memory."""
        pixels = np.empty((len(indices), *self.size, 3), np.uint8)
        for row, (name, data) in enumerate(self._files.read(indices)):
            pixels[row] = _fitted(decode(data, name), name, self.size, self.max_stretch)
        return torch.from_numpy(pixels).permute(0, 3, 1, 2)

    def photographs(self, indices: Sequence[int]) -> list[UInt8[np.ndarray, "_ _ 3"]]:
        """The images at these positions, each of its own size: RGB, [0, 255].

        Raises:
            ValueError: an image cannot be read; names it.
        """
        return [decode(data, name) for name, data in self._files.read(indices)]


def _fitted(
    pixels: UInt8[np.ndarray, "old_height old_width 3"], name: str, size: tuple[int, int], max_stretch: float
) -> UInt8[np.ndarray, "height width 3"]:
    """The image resampled to `size`, (height, width), unless that would distort it beyond use."""
    (height, width), (to_height, to_width) = pixels.shape[:2], size
    if (height, width) == size:
        return pixels
    tall, wide = height * to_width, width * to_height  # products, not ratios: exact at the limit
    if max(tall, wide) > max_stretch * min(tall, wide):
        raise ValueError(
            f"{name}: {width} x {height} pixels, which {to_width} x {to_height} would stretch by a factor of "
            f"{max(tall, wide) / min(tall, wide):.3g}, more than {max_stretch:g}; images must be aligned crops of "
            "faces, is this a photo as the camera took it?"
        )
    return np.asarray(Image.fromarray(pixels).resize((to_width, to_height), Image.Resampling.BILINEAR))


@dataclass(frozen=True)
class _Listing:
    """The images of a set: for each its name, its identity and its file; and the source of the set."""

    names: Sequence[str]
    identities: Sequence[str]
    files: ImageFiles
    source: ImageSource


def _open(path: Path) -> _Listing:
    if path.suffix.lower() in LIST_SUFFIXES and path.exists() and not path.is_dir():
        listed = read_images(path)
        source = read_source(path, listed.paths)
        return _Listing(listed.paths, listed.identities, FilesOnDisk(path.parent, listed.paths), source)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such folder, archive or list")
    if not path.is_dir() and path.suffix.lower() != ".zip":
        raise ValueError(f"{path}: neither a folder, a .zip archive nor a list ({' '.join(LIST_SUFFIXES)})")
    files = image_files(path, "Name/image.jpg")
    if files.unread:
        _warn_of_unread(path, counted(files.unread))
    names = [name.split("/") for name in files.names]
    levels = _shared_levels(names)
    for parts in names:
        if len(parts) != levels + 2:
            raise ValueError(
                f"{path}: {'/'.join(parts)!r} is not Name/image: images lie in one folder a person, all at one depth"
            )
    source = read_source(path, files.names)
    return _Listing(["/".join(parts[levels:]) for parts in names], [parts[levels] for parts in names], files, source)


@cache  # the images of training and of validation often come from one place
def _warn_of_unread(path: Path, what: str) -> None:
    log.warning("%s: %s", path, what)


def _shared_levels(names: Sequence[Sequence[str]]) -> int:
    """The number of folders above the folder of a person that all images share."""
    levels, first = 0, names[0]
    while all(len(parts) > levels + 2 and parts[levels] == first[levels] for parts in names):
        levels += 1
    return levels
