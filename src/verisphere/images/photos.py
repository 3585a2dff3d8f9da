"""Face images on disk, in any format that `verisphere.images.packs` reads."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from verisphere.base.identity import crowds, decided, names_taken, refuse_missing
from verisphere.base.vocabulary import ImageSource
from verisphere.base.words import Names
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
from verisphere.images.decode import decode, decode_quietly, quiet_decoders
from verisphere.images.faces import Faces
from verisphere.images.packs.columns import coded, spelled_once
from verisphere.images.packs.formats import open_pack
from verisphere.images.packs.image_files import contents_of
from verisphere.images.relabelled import relabelled
from verisphere.images.select import positions_of_listed, positions_with_images

log = logging.getLogger(__name__)


class Photos(Faces):
    """Face images on disk: a folder, an archive, a list or a pack.

    `path` is one of
    - a folder or a zip archive with `Name/image.jpg` or `domain/Name/image.jpg`, or the same inside folders that all
      images share; images are sorted by path. Hidden files and files without an image suffix are skipped; photographs
      in formats that are not read are skipped with a warning.
    - a list (.csv, .lst, .txt) with an image path and an identity a line, in whose order the images stay; see
      `verisphere.files.image_lists.read_images`.
    - a pack of one of the other formats of `verisphere.images.packs.formats`, in the order of its records.

    Images with the identity -1 show nobody who is known, and belong to no class. Names are paths below the shared
    folders (`Name/image.jpg`), or those of the list or the pack. Images are read and decoded on request; no file stays
    open between requests, so the set can be copied into worker processes.

    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (Path(folder) / "Ann").mkdir()
    ...     Image.new("RGB", (112, 112)).save(Path(folder) / "Ann" / "1.png")
    ...     photos = Photos(folder)
    ...     list(photos.names), photos.people, photos.images([0]).shape
    (['Ann/1.png'], ('Ann',), torch.Size([1, 3, 112, 112]))

    Args:
        path: the folder, archive, list or pack.
        labels: a list with the identity of each image, such as `kept.txt` of `verisphere clean`; only these images are
            used, in its order, with its identities and, where it has any, domains. See `Relabelled`.
        people: a list of people for `verisphere.files.people_lists.read_people`; other people are excluded.
        min_images: people with fewer images are excluded.
        max_images: largest number of images of a person; the first ones in order are used. None sets no limit.
        size: (height, width) of the images; images of another size are resampled to it by a bilinear filter, with
            antialiasing when they shrink.
        max_stretch: largest change of the aspect ratio by resampling to `size`; 1 allows only images of the same aspect
            ratio.
        names: `merge` takes identities that are equal but for case, blanks, Unicode form or invisible letters as one
            person, `exact` as different people; None refuses such a set (`verisphere.base.identity`).

    Raises:
        FileNotFoundError: nothing is at `path`.
        ValueError: no image is found, the pack is malformed, or the restrictions leave nothing; from `images`, naming
            the image that cannot be read, or whose aspect ratio shows that it is no aligned crop.
    """

    def __init__(
        self,
        path: str | Path,
        people: str | Path | None = None,
        min_images: int = 1,
        max_images: int | None = None,
        size: tuple[int, int] = (112, 112),
        max_stretch: float = 1.5,
        labels: str | Path | None = None,
        names: Names | None = None,
    ) -> None:
        if min(size) < 1:
            raise ValueError(f"size is {size}; allowed are a height and a width of at least 1 pixel")
        if not max_stretch >= 1:
            raise ValueError(f"max_stretch is {max_stretch}; allowed is 1 (no stretching) or more")
        self.path = Path(path).expanduser()
        self.size, self.max_stretch = size, max_stretch
        pack = open_pack(self.path)
        with names_taken(names):
            self.names_rule = decided()
            if labels is not None:
                positions, listed = relabelled(pack.names, labels)
                pack = pack.keep(positions)
                pack = replace(pack, identities=listed.identities, domains=listed.domains or pack.domains)
            with errors_naming(self.path):
                pack = replace(pack, identities=spelled_once(pack.identities, pack.names, self.names_rule))
                domains = coded(pack.domains or ())
                refuse_missing("domain", domains.present(), domains, lambda row: shown(pack.names[row], 200))
            if people is not None:
                pack = pack.keep(positions_of_listed(pack.identities, people))
        if (min_images, max_images) != (1, None):
            pack = pack.keep(positions_with_images(pack.identities, min_images, max_images))
        column = coded(pack.identities)
        for note in crowds(zip(column.values, column.counts().tolist(), strict=True)):
            log.warning("%s: %s", self.path, note)
        self.pack = pack
        # the names of the images; the argument `names` is about those of the people
        self.names, self.identities, self.domains = pack.names, pack.identities, pack.domains
        if labels is not None and listed.true_identities is not None:
            truth = dict(zip(listed.names, listed.true_identities, strict=True))
            self.true_identities = tuple(truth[name] for name in pack.names)

    @property
    def source(self) -> ImageSource:
        """Source of the images, from `images.json` beside them."""
        return self.pack.source

    def images(self, indices: Sequence[int]) -> UInt8[Tensor, "batch 3 height width"]:
        """The images at these positions, in this order: RGB, [0, 255], in channels-last memory."""
        pixels = np.empty((len(indices), *self.size, 3), np.uint8)
        with quiet_decoders():
            for row, (name, data) in enumerate(self.pack.files.read(indices)):
                pixels[row] = fitted(decode_quietly(data, name), name, self.size, self.max_stretch)
        return torch.from_numpy(pixels).permute(0, 3, 1, 2)

    def contents(self, indices: Sequence[int]) -> bytes:
        """A digest of the files of these images, and of the form in which they are taken."""
        return contents_of(self.pack.files, indices, [self.size, self.max_stretch])

    def photographs(self, indices: Sequence[int]) -> list[UInt8[np.ndarray, "_ _ 3"]]:
        """The images at these positions, each of its own size: RGB, [0, 255].

        Raises:
            ValueError: an image cannot be read; names it.
        """
        return [decode(data, name) for name, data in self.pack.files.read(indices)]


def fitted(
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
