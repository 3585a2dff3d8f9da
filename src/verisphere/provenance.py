"""The sources of images, embeddings and networks, if recorded."""

from dataclasses import dataclass
from pathlib import Path

from verisphere.words import printable


@dataclass(frozen=True)
class ImageSource:
    """The source of a set of images, if recorded.

    Attributes:
        place: name of the folder, archive or list that the images were read from, or of the class that makes them.
        drawn: True for renderings of people who do not exist, False if the record denies it, None if nothing was
            recorded.
        alignment: template and finder of the landmarks, such as `arcface_112x112 by MTCNN`; None if nothing was
            recorded.
    """

    place: str
    drawn: bool | None = None
    alignment: str | None = None

    def described(self, people: int | None = None) -> str:
        """The source in words, with the number of people if given.

        >>> ImageSource("lfw.zip", False, "arcface_112x112 by MTCNN").described(1711)
        'images of 1,711 people from lfw.zip, aligned to arcface_112x112 by MTCNN'
        >>> ImageSource("verisphere.images.SyntheticFaces", True).described()
        'drawn faces of people who do not exist'
        """
        count = "" if people is None else f"{people:,} "
        if self.drawn:
            return f"drawn faces of {count}people who do not exist"
        images = f"images of {count}people from {self.place}" if count else f"images from {self.place}"
        aligned = "alignment not recorded" if self.alignment is None else f"aligned to {self.alignment}"
        return printable(f"{images}, {aligned}")


@dataclass(frozen=True)
class TrainingRecord:
    """The record of the training in a checkpoint; None where it records nothing.

    Attributes:
        step: steps made.
        images: number of images that the network was trained on.
        people: number of people on these images.
        seed: seed of the recipe.
        sources: sources of the images: those of the runs it was started from, the oldest first, its own last.
    """

    step: int | None = None
    images: int | None = None
    people: int | None = None
    seed: int | None = None
    sources: tuple[ImageSource, ...] = ()

    @property
    def drawn(self) -> bool:
        """Whether the network was last trained on drawn faces."""
        return bool(self.sources) and bool(self.sources[-1].drawn)

    def described(self) -> str:
        """The training images of the network, in words."""
        if not self.sources:
            return "on images of which nothing is recorded"
        earlier = "".join(f", after a training on {source.described()}" for source in self.sources[-2::-1])
        return f"on {self.sources[-1].described(self.people)}{earlier}"


@dataclass(frozen=True)
class Origin:
    """The model and settings that made a set of embeddings; it ties a threshold found on them to its model.

    Attributes:
        model: SHA-256 of the file with the backbone's weights, in hexadecimal.
        flip: whether the embedding of the mirror image was added.
        precision: precision of the network: float32, bfloat16, or that of a smaller model (fp16, int8).
        images: path of the images, as given.
        drawn: see `ImageSource`.
        alignment: see `ImageSource`.
    """

    model: str
    flip: bool
    precision: str
    images: str
    drawn: bool | None = None
    alignment: str | None = None

    @property
    def source(self) -> ImageSource:
        """The source of the images; only the last part of a path, since the record travels further than the images."""
        return ImageSource(Path(self.images).name, self.drawn, self.alignment)

    def made_alike(self, other: "Origin") -> bool:
        """Whether the same weights made both sets in the same way, on any images."""
        return (self.model, self.flip, self.precision) == (other.model, other.flip, other.precision)
