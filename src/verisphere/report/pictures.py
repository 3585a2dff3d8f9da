"""Pictures of a data set on a page: which are shown, and each as a small JPEG inside the page."""

import base64
import io
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int64, UInt8
from PIL import Image
from torch import Tensor

from verisphere.files.json_values import shown
from verisphere.images.faces import Faces
from verisphere.report.html import Markup, breakable, tag

PICTURE_SIDE = 112  # pixels of the longer side
JPEG_QUALITY = 85
#: The note below or above pictures that may show people who exist.
SHOWS_PEOPLE = tag("p", "These pictures show people: consider who receives this page.", class_="note")


def varied(people: Int64[np.ndarray, "pairs 2"], count: int, per_person: int = 1) -> list[int]:
    """Positions of the first pairs, in the given order, such that no person is in more than `per_person` of them.

    A genuine pair has the same number twice.

    >>> varied(np.array([[0, 1], [0, 2], [2, 3], [4, 4]]), count=3)  # person 0 was seen when the second pair comes
    [0, 2, 3]
    """
    chosen: list[int] = []
    seen: Counter[int] = Counter()
    for position, pair in enumerate(people.tolist()):
        if len(chosen) == count:
            break
        both = set(pair)
        if all(seen[person] < per_person for person in both):
            seen.update(both)
            chosen.append(position)
    return chosen


def pictures(faces: Faces, names: Sequence[str]) -> dict[str, str]:
    """Each named image as a data URI of a small JPEG."""
    wanted = set(names)  # only these names: a set can have millions of images
    position = {name: index for index, name in enumerate(faces.names) if name in wanted}
    absent = [name for name in names if name not in position]
    if absent:
        raise ValueError(
            f"{len(absent)} of {len(names)} images are not in it, the first is {absent[0]!r}; are these the images "
            "that were embedded?"
        )
    unique = list(dict.fromkeys(names))
    images = faces.images([position[name] for name in unique])
    return {name: data_uri(image) for name, image in zip(unique, images, strict=True)}


def check_embedded(path: Path, names: Collection[str], faces: Faces) -> None:
    """Refuse a set that lacks images of an embeddings file."""
    if absent := sorted(set(names) - set(faces.names)):
        raise ValueError(
            f"{len(absent):,} of {len(names):,} images of {path} are not in the set of faces, the first is "
            f"{shown(absent[0], 200)}; are these the images that were embedded?"
        )


def data_uri(pixels: UInt8[Tensor, "3 height width"]) -> str:
    """An image as a JPEG in a data URI, shrunk to `PICTURE_SIDE` pixels where it is larger."""
    image = Image.fromarray(pixels.permute(1, 2, 0).contiguous().cpu().numpy())
    image.thumbnail((PICTURE_SIDE, PICTURE_SIDE))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=JPEG_QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"


def pair_cards(cards: Iterable[Sequence[Markup]]) -> Markup:
    """Pairs of images or of people, each a card of face rows and lines."""
    return tag("ul", *(tag("li", *card) for card in cards), class_="pairs")


def face_row(names: Iterable[str], uris: Mapping[str, str]) -> Markup:
    """The named images that there are, beside each other."""
    faces = (tag("img", src=uris[name], alt=f"Face: {name}") for name in names if name in uris)
    return tag("div", *faces, class_="faces")


def image_line(name: str, identity: str, domain: str | None = None) -> Markup:
    """The name of an image with its identity, if the name does not contain it, and its domain."""
    before = "" if identity in name else f"{identity}: "
    return tag("p", before, breakable(name), "" if domain is None else f" ({domain})")
