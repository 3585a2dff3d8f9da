"""Domains for a set without domains: its images by their brightness.

OneFace (Liu et al. 2022, section 4.2) defines a domain as images that share a property, visible or not. Every image has
a brightness, which can be measured without judging a person.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from verisphere.base.work import ranges
from verisphere.images.faces import Faces, Selection
from verisphere.images.luma import LUMA

_IMAGES_AT_ONCE = 256


class ByLight(Selection):
    """The images of another set, with domains by mean brightness: equally many images in each, the darkest first.

    All images are read once when the set is created.

    >>> from verisphere.images import InMemory
    >>> pixels = torch.tensor([200, 20], dtype=torch.uint8).view(2, 1, 1, 1).expand(2, 3, 112, 112)
    >>> ByLight(InMemory(pixels, ("a/1", "b/1"), ("a", "b")), names=("dark", "bright")).domains
    ('bright', 'dark')

    Args:
        faces: the other set; its own domains are replaced.
        names: two or more names of domains, from dark to bright.

    Raises:
        ValueError: fewer than two names, a name twice, or fewer images than names.
    """

    def __init__(self, faces: Faces, names: Sequence[str] = ("dark", "medium", "bright")) -> None:
        if isinstance(names, str):
            raise ValueError(f"names is the text {names!r}; it is a list of names")
        if len(names) < 2 or len(set(names)) < len(names):
            raise ValueError(f"names are {list(names)}; there must be at least two domains, each named once")
        if len(faces) < len(names):
            raise ValueError(f"{len(faces)} images cannot be {len(names)} domains")
        super().__init__(faces, range(len(faces)))
        self.domains = _by_rank(_brightness(faces), names)


def _brightness(faces: Faces) -> Tensor:
    """Mean luma of each image, (images,), in [0, 255]."""
    weights = torch.tensor(LUMA, dtype=torch.float64)
    parts = map(faces.images, ranges(len(faces), _IMAGES_AT_ONCE))
    return torch.cat([images.double().mean((2, 3)) @ weights for images in parts])


def _by_rank(brightness: Tensor, names: Sequence[str]) -> tuple[str, ...]:
    """The name of the domain of each image; images of equal brightness keep their order."""
    rank = brightness.argsort(stable=True).argsort()
    return tuple(names[place * len(names) // len(rank)] for place in rank.tolist())
