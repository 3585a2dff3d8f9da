"""The interface of a set of face images from any source: names, identities, and images on request."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from itertools import chain

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from verisphere.base.identity import decided, refuse_missing
from verisphere.base.vocabulary import NO_CLASS, NOBODY, ImageSource
from verisphere.base.words import Names
from verisphere.files.json_values import shown
from verisphere.images.packs.columns import Coded, coded, spelled_alike, take

_IMAGES_AT_ONCE = 256


class Faces(ABC):
    """A set of aligned face images in a fixed order.

    A data set outside this package derives from this class, and a recipe names it by its import path. It must be
    picklable: each worker process gets a copy.

    >>> class Grey(Faces):
    ...     names, identities = ("a/1", "a/2", "b/1"), ("a", "a", "b")
    ...     def images(self, indices):
    ...         return torch.full((len(indices), 3, 112, 112), 128, dtype=torch.uint8)
    >>> faces = Grey()
    >>> len(faces), faces.labels.tolist(), faces.select([2]).people
    (3, [0, 0, 1], ('b',))

    Attributes:
        names: unique name of each image, such as `AJ_Cook/AJ_Cook_0001.jpg`.
        identities: name, in the data set, of the person on each image; `NOBODY` if the person is not known.
        domains: name of the group to which each image belongs, or None if the set has no domains.
        true_identities: true identity of each image, if `identities` has known errors, such as added label noise; None
            if only `identities` is known.
        names_rule: how identities that are equal once folded were taken (`verisphere.base.identity`); None if nothing
            had to decide. Where it is `merge`, each person has one spelling in `identities`.
    """

    names: Sequence[str]
    identities: Sequence[str]
    domains: Sequence[str] | None = None
    true_identities: Sequence[str] | None = None
    names_rule: Names | None = None

    @abstractmethod
    def images(self, indices: Sequence[int]) -> UInt8[Tensor, "batch 3 height width"]:
        """The images at these positions, in this order: RGB, [0, 255], all of one size."""

    @property
    def source(self) -> ImageSource:
        """Source of the images; a set that records whether its images are drawn, or were aligned, overrides this."""
        return ImageSource(f"{type(self).__module__}.{type(self).__qualname__}")

    def contents(self, indices: Sequence[int]) -> bytes:
        """A digest of what determines the images at these positions, by which a stopped work knows them again.

        A set that can say so without decoding the images overrides this.
        """
        digest = hashlib.sha256()
        for start in range(0, len(indices), _IMAGES_AT_ONCE):
            pixels = self.images(indices[start : start + _IMAGES_AT_ONCE])
            digest.update(f"{tuple(pixels.shape)}\n".encode() + pixels.contiguous().numpy().tobytes())
        return digest.digest()

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def people(self) -> tuple[str, ...]:
        """The identities except `NOBODY`, each once, sorted; a label is a position in this tuple."""
        return tuple(sorted({*self.settled().present()} - {NOBODY}))

    @cached_property
    def labels(self) -> Int64[Tensor, " images"]:
        """Number of each image's identity in `people`; `NO_CLASS` for `NOBODY`."""
        column, number = coded(self.identities), {person: label for label, person in enumerate(self.people)}
        label_of_value = np.array([number.get(value, NO_CLASS) for value in column.values], np.int64)
        return torch.from_numpy(label_of_value[column.codes])

    def settled(self) -> Coded:
        """The identities, of which none is missing or another's but for its spelling, unless `exact` decides.

        Raises:
            ValueError: an identity or a domain is missing; or two are equal once folded, and `names_rule` does not
                decide, or says `merge` although they are not merged.
        """
        domains = coded(() if self.domains is None else self.domains)
        refuse_missing("domain", domains.present(), domains, lambda row: shown(self.names[row], 200))
        columns = [coded(column) for column in (self.identities, self.true_identities) if column is not None]
        rule = decided(self.names_rule)
        merged = map(coded, spelled_alike(columns, self.names, rule))
        before, after = ({*chain.from_iterable(one.present() for one in sides)} for sides in (columns, merged))
        if rule == "merge" and len(after) < len(before):
            raise ValueError("names are merged, but identities give a person in two spellings; give each in one, as "
                             "InMemory(names_rule='merge') does")  # fmt: skip
        return columns[0]

    def take_rule(self, rule: Names | None) -> None:
        """Record how names were taken; also in a set whose class is frozen."""
        if rule != self.names_rule:
            object.__setattr__(self, "names_rule", rule)

    def select(self, indices: Sequence[int]) -> "Faces":
        """The set restricted to these positions; labels are numbered again from 0."""
        return Selection(self, indices)


class Selection(Faces):
    """A part of another set, which reads the images."""

    def __init__(self, faces: Faces, indices: Sequence[int] | Int64[np.ndarray, " images"]) -> None:
        self.faces = faces
        self.indices = np.asarray(indices, np.int64)
        self.names, self.identities = take(faces.names, self.indices), take(faces.identities, self.indices)
        self.domains = None if faces.domains is None else take(faces.domains, self.indices)
        truth, self.names_rule = faces.true_identities, faces.names_rule
        self.true_identities = None if truth is None else take(truth, self.indices)

    @property
    def source(self) -> ImageSource:
        """Source of the images of the whole set."""
        return self.faces.source

    def contents(self, indices: Sequence[int]) -> bytes:
        """The digest that the whole set has for the images at these positions."""
        return self.faces.contents(self.indices[list(indices)].tolist())

    def images(self, indices: Sequence[int]) -> UInt8[Tensor, "batch 3 height width"]:
        """The images at these positions of the selection."""
        return self.faces.images(self.indices[list(indices)].tolist())
