"""The drawn faces and the made-up people that all small sets share, and pairs of them."""

import io
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from verisphere.images.synthetic.synthetic_faces import SyntheticFaces

PEOPLE = 60
IMAGES = 6  # a person
FOLDS = 10
SEED = 21
_FIRST = ("Ann", "Bo", "Cy", "Dee", "Eli", "Fay", "Gus", "Hal-Ray")
_LAST = ("Able", "Case", "Dunn", "East", "Frost", "Gale", "Hart", "Ives")

#: A pair: the person and the image on each side, both counted from 0.
Pair = tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True, eq=False)
class Pool:
    """The drawn images, `IMAGES` a person, 112 x 112 pixels.

    Attributes:
        pixels: the images, RGB, [0, 255].
        files: bytes of each image file that was asked for, by person, image and suffix; filled on request.
    """

    pixels: UInt8[Tensor, "images 3 height width"]
    files: dict[tuple[int, int, str], bytes] = field(default_factory=dict)

    def write(self, path: Path, person: int, image: int) -> None:
        """Write an image of a person, both counted from 0; the suffix of the path states the format."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.encoded(person, image, path.suffix))

    def encoded(self, person: int, image: int, suffix: str = ".jpg") -> bytes:
        """The bytes of an image file; equal arguments give equal bytes."""
        key = person, image, suffix
        if key not in self.files:
            picture = Image.fromarray(self.pixels[person * IMAGES + image].permute(1, 2, 0).contiguous().numpy())
            file = io.BytesIO()
            if suffix == ".png":
                picture.save(file, "PNG")
            else:
                picture.save(file, "JPEG", quality=95)
            self.files[key] = file.getvalue()
        return self.files[key]


def drawn_pool() -> Pool:
    """Draw the faces, in about a second."""
    faces = SyntheticFaces(PEOPLE, IMAGES, SEED, ("studio", "street"), "easy")
    return Pool(faces.images(range(len(faces))))


def name_of(person: int) -> str:
    """The made-up name of a person, in the spelling of LFW.

    >>> name_of(0), name_of(63)
    ('Ann_Able', 'Hal-Ray_Ives')
    """
    return f"{_FIRST[person % len(_FIRST)]}_{_LAST[person // len(_FIRST)]}"


def pairs_by_fold(
    people: Sequence[int],
    images: Sequence[int],
    each: int,
    seed: int,
    right_images: Sequence[int] | None = None,
) -> list[tuple[list[Pair], list[Pair]]]:
    """For each of ten folds, `each` genuine and `each` impostor pairs; no pair twice, no person in two folds.

    Args:
        people: numbers of the people; fold f has every tenth of them from position f on, at least two.
        images: numbers of the images of each person that the list may use.
        each: pairs of a kind in a fold.
        seed: seed of the draw.
        right_images: numbers of the images on the right side, where it has others than the left side.
    """
    draw, folds = random.Random(seed), []
    for fold in range(FOLDS):
        shown = people[fold::FOLDS]
        left = [(person, image) for person in shown for image in images]
        right = [(person, image) for person in shown for image in right_images or images]
        every = [(first, second) for first in left for second in right if first < second or right_images is not None]
        draw.shuffle(every)
        genuine = [pair for pair in every if pair[0][0] == pair[1][0]][:each]
        impostors = [pair for pair in every if pair[0][0] != pair[1][0]][:each]
        assert len(genuine) == len(impostors) == each, "the people of a fold have enough images"
        folds.append((genuine, impostors))
    return folds
