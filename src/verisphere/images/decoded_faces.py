"""A small set of faces whose decoded images are in memory."""

from collections.abc import Sequence

import torch
from jaxtyping import UInt8
from torch import Tensor

from verisphere.base.identity import decided
from verisphere.base.vocabulary import NOBODY, ImageSource, Progress, quietly
from verisphere.base.words import Names
from verisphere.images.faces import Faces
from verisphere.images.loader import UnreadableImages, batches
from verisphere.images.packs.columns import coded, spelled_alike

_IMAGES_AT_ONCE = 256


class InMemory(Faces):
    """Faces whose images are all in one tensor. Forked worker processes share the tensor; others get a copy.

    >>> pixels = torch.zeros(4, 3, 112, 112, dtype=torch.uint8)
    >>> faces = InMemory(pixels, ("a/1", "a/2", "b/1", "c/1"), ("a", "a", "b", "c"))
    >>> len(faces), faces.people, faces.labels.tolist()
    (4, ('a', 'b', 'c'), [0, 0, 1, 2])

    Args:
        pixels: the images, RGB, [0, 255].
        names, identities, domains: an entry for each image; see `Faces`.
        source: source of the images, where it is known.
        people: identities in the order of their labels; by default those of the images, sorted.
        true_identities: an entry for each image; see `Faces`.
        names_rule: how identities that are equal once folded are taken; None refuses them.

    Raises:
        ValueError: names, identities, domains or true_identities do not have one entry for each image; an identity is
            missing, or is another once folded and nothing decides.
    """

    def __init__(
        self,
        pixels: UInt8[Tensor, "images 3 height width"],
        names: Sequence[str],
        identities: Sequence[str],
        domains: Sequence[str] | None = None,
        source: ImageSource | None = None,
        people: tuple[str, ...] | None = None,
        true_identities: Sequence[str] | None = None,
        names_rule: Names | None = None,
    ) -> None:
        columns = {"names": names, "identities": identities, "domains": domains, "true_identities": true_identities}
        for field, values in columns.items():
            if values is not None and len(values) != len(pixels):
                raise ValueError(f"{field} has {len(values)} entries for {len(pixels)} images")
        self.pixels = pixels.contiguous(memory_format=torch.channels_last)
        self.names_rule = decided(names_rule)
        given = {"identities": identities, "true_identities": true_identities, "people": people}
        known = {field: column for field, column in given.items() if column is not None}
        settled = dict(zip(known, spelled_alike([*known.values()], names, self.names_rule), strict=True))
        self.names, self.identities, self.domains = names, settled["identities"], domains
        self.true_identities = settled.get("true_identities")
        self.settled()
        self._source = source
        if people is not None:
            self.people = tuple(dict.fromkeys(settled["people"]))
            if strange := {*coded(self.identities).present()} - {NOBODY, *self.people}:
                raise ValueError(f"people lacks {min(strange)!r}, who is on an image")

    @property
    def source(self) -> ImageSource:
        """Source of the images."""
        return super().source if self._source is None else self._source

    def images(self, indices: Sequence[int]) -> UInt8[Tensor, "batch 3 height width"]:
        """A copy of the images at these positions, in channels-last memory."""
        rows = self.pixels.permute(0, 2, 3, 1)[torch.as_tensor(indices, dtype=torch.int64)]
        return rows.permute(0, 3, 1, 2)


def in_memory(
    faces: Faces, workers: int = 0, progress: Progress = quietly, unreadable: UnreadableImages | None = None
) -> InMemory:
    """Reads all images of a set once; they take 3 bytes per pixel (112 x 112: 38 MB per thousand images).

    >>> from verisphere.images import SyntheticFaces
    >>> in_memory(SyntheticFaces(people=2, images=1, size=48)).pixels.shape
    torch.Size([2, 3, 48, 48])

    Args:
        faces: the set.
        workers: processes that read.
        progress: reports the progress.
        unreadable: counts images that cannot be read, and limits their number. Each is replaced by another image,
            with the name, the identities and the domain of that image. None allows no such image.

    Raises:
        ValueError: the set is empty, or an image of it cannot be read.
    """
    if not len(faces):
        raise ValueError("no images to read into memory: the set is empty")
    unreadable = unreadable or UnreadableImages(0)
    read = batches(faces, torch.arange(len(faces)), _IMAGES_AT_ONCE, workers, max_unreadable=unreadable.allowed)
    pixels: Tensor | None = None
    positions = []
    for start, batch in zip(
        range(0, len(faces), _IMAGES_AT_ONCE),
        progress(read, "reading images", -(-len(faces) // _IMAGES_AT_ONCE)),
        strict=True,
    ):
        unreadable.count(batch)
        if pixels is None:
            # Reserved whole, so the peak is the set and one batch, not the set twice.
            _, channels, height, width = batch.images.shape
            pixels = torch.empty(len(faces), height, width, channels, dtype=torch.uint8).permute(0, 3, 1, 2)
        pixels[start : start + len(batch.images)] = batch.images
        positions.append(batch.indices)
    assert pixels is not None
    if not unreadable.positions:
        held, people = faces, None
    else:
        # A person whose images are all unreadable stays a class, so that the labels of the others do not change.
        held, people = faces.select(torch.cat(positions).tolist()), faces.people
    columns = held.names, held.identities, held.domains
    return InMemory(pixels, *columns, faces.source, people, held.true_identities, faces.names_rule)
