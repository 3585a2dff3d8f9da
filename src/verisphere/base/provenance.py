"""The sources of images, embeddings and networks, if recorded."""

import logging
from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from verisphere.base.words import printable

log = logging.getLogger(__name__)

#: The finder of landmarks in an alignment that holds for every finder.
ANY_DETECTOR = "any detector"
#: How the finder begins where landmarks were given with the images, and no detector found them.
GIVEN_LANDMARKS = "the landmarks in "
#: The alignment of drawn faces, which has no template.
DRAWN_IN_PLACE = "the place they are drawn at"
#: What is wrong with a file of a version that did not record pixels.
UNRECORDED = (
    "made by an earlier version, which did not record the pixels that its model took (size, colours, mean, scale), so "
    "other pixels would not be noticed"
)
#: What weakens a threshold of unknown origin.
UNTIED = "nothing ties the threshold to this model: its calibration does not say which one it is of"


@dataclass(frozen=True)
class ImageSource:
    """The source of a set of images, if recorded.

    Attributes:
        place: name of the folder, archive or list that the images were read from, or of the class that makes them.
        drawn: True for renderings of people who do not exist, False if the record denies it, None if unrecorded.
        alignment: template and finder of the landmarks, such as `arcface_112x112 by MTCNN`; None if unrecorded.
    """

    place: str
    drawn: bool | None = None
    alignment: str | None = None

    @property
    def template(self) -> str | None:
        """The template of the alignment; None if it names none.

        >>> ImageSource("lfw.zip", None, "arcface_112x112 by MTCNN").template
        'arcface_112x112'
        >>> ImageSource("lfw.zip", None, "sphereface_112x96").template
        'sphereface_112x96'
        >>> ImageSource("lfw.zip", None, "mine (tight) by MTCNN").template
        'mine (tight)'
        >>> ImageSource("lfw.zip", None, "mine wide").template
        'mine wide'
        >>> ImageSource("faces", True, "the place they are drawn at").template
        >>> ImageSource("mixed", True, "the place they are drawn at and arcface_112x112 by MTCNN").template
        """
        return self._aligned()[0]

    @property
    def detector(self) -> str | None:
        """The detector of the alignment; None if it names none, or if the landmarks were given.

        >>> ImageSource("lfw.zip", None, "arcface_112x112 by MTCNN").detector
        'MTCNN'
        """
        finder = self._aligned()[1]
        return None if finder is None or finder == ANY_DETECTOR or finder.startswith(GIVEN_LANDMARKS) else finder

    def check_template(
        self, template: str | None, images: object, who: str = "the model", mend: str = "align them to that"
    ) -> None:
        """Refuse images that are aligned to another template than that of a model, as far as both are known."""
        if None not in (self.template, template) and self.template != template:
            raise ValueError(f"{images}: its faces are aligned to {self.template}, but {who} takes {template}; {mend}")

    def _aligned(self) -> tuple[str | None, str | None]:
        template, named, finder = (self.alignment or "").partition(" by ")
        if template.startswith(DRAWN_IN_PLACE):
            return None, None
        return template or None, finder if named else None

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

    The sources are those of the runs it was started from, the oldest first, and its own last.
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
        """What the model was trained on, in words: a clause."""
        if not self.sources:
            return "there is no record of what the model was trained on"
        earlier = "".join(f", after a training on {source.described()}" for source in self.sources[-2::-1])
        return f"the model was trained on {self.sources[-1].described(self.people)}{earlier}"


@dataclass(frozen=True)
class Preprocessing:
    """The pixels that a network takes of an aligned face, and the output that is its embedding.

    Attributes:
        size: height and width of a face.
        colour: order of the colours inside the network.
        layout: order of the axes inside the network.
        mean, scale: value that is subtracted from a pixel in [0, 255], and value by which the difference is divided.
        output: name of the output of a graph from elsewhere; None for a network with one output.
    """

    size: tuple[int, ...]
    colour: str
    layout: str
    mean: float
    scale: float
    output: str | None = None


@dataclass(frozen=True)
class Origin:
    """Everything between a photograph and a number; it ties a threshold found on embeddings to its model.

    Attributes:
        model: SHA-256 of the file with the backbone's weights, in hexadecimal.
        flip: whether the embedding of the mirror image was added.
        precision: precision of the network: float32, bfloat16, or that of a smaller model (fp16, int8).
        images: path of the images, as given; `drawn` and `alignment` are those of an `ImageSource`.
        preprocessing: the pixels that the network takes; None in a file of a version that did not record them.
        template: the template that the model takes, of images that record none themselves; None where it does not say.
    """

    model: str
    flip: bool
    precision: str
    images: str
    drawn: bool | None = None
    alignment: str | None = None
    preprocessing: Preprocessing | None = None
    template: str | None = None

    @property
    def source(self) -> ImageSource:
        """The source of the images; only the last part of a path, since the record travels further than the images."""
        return ImageSource(Path(self.images).name, self.drawn, self.alignment)

    def differences(self, other: "Origin", but: Collection[str] = ()) -> tuple[str, ...]:
        """The settings in which two origins differ, each with both values in words, this one's first.

        The place of the images is not compared, nor settings of `but`, nor those that one of the two does not record.

        >>> Origin("ab" * 32, True, "float32", "a.zip").differences(Origin("ab" * 32, False, "float32", "b.zip"))
        ('flip true against false',)
        """
        ours, theirs = self._settings(), other._settings()
        return tuple(
            f"{name} {_in_words(name, ours[name])} against {_in_words(name, theirs[name])}"
            for name in ours
            if name not in but and None not in (ours[name], theirs[name]) and not _alike(name, ours[name], theirs[name])
        )

    def _settings(self) -> dict[str, Any]:
        """Everything that is compared, by name; None where it is not recorded."""
        pixels = {field.name: getattr(self.preprocessing, field.name, None) for field in fields(Preprocessing)}
        made = {"flip": self.flip, "precision": self.precision}
        return {
            "weights": self.model,
            **pixels,
            "template": self.source.template or self.template,
            "detector": self.source.detector,
            **made,
        }


def _alike(name: str, ours: Any, theirs: Any) -> bool:
    """Whether two values are equal, or one is a detector of an earlier version, named without a digest of its code."""
    of_code = any(str(one).startswith(f"{other} (") for one, other in ((ours, theirs), (theirs, ours)))
    return ours == theirs or (name == "detector" and of_code)


def _in_words(name: str, value: Any) -> str:
    """A setting in words; a number as short as it can be, and so different ones differ."""
    if name == "weights":
        return f"{value[:12]}..."
    if name == "size":
        return " x ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return printable(str(value).lower() if isinstance(value, bool) else str(value))


def check_same_origin(
    first: str,
    ours: Origin | None,
    second: object,
    theirs: Origin | None,
    hint: str,
    but: Collection[str] = (),
    said: bool = False,
) -> None:
    """Refuse to put two things together that were not made in the same way; warn where one of them does not say how.

    A file that says how it was made, but not the pixels, could not be compared in these: that is warned of as well.
    Each thing is named once, and its pixels not where the caller has said so. `first` is what is known, with its verb,
    such as `a.npz was` and `model embeds`; the hint says what follows, or what helps.
    """
    if ours is None or theirs is None:
        known, unknown = ours or theirs, str(second) if theirs is None else first.rpartition(" ")[0]
        if known is not None and not _said_before(unknown, known):
            what = (
                f"nothing says how {first} made" if ours is None else f"nothing in it says how it was made, as {first}"
            )
            trust = "that both were made in one way is taken on trust"
            log.warning("%s: %s: %s", printable(str(second)), printable(what), trust)
        return
    if differing := theirs.differences(ours, but):
        raise ValueError(f"{second}: not made as {first} ({', '.join(differing)}); {hint}")
    for named, origin in ((first, ours), (f"{second} was", theirs)):
        if unrecorded(origin) and not said and not _said_before(named.rpartition(" ")[0], origin):
            log.warning("%s %s", printable(named), UNRECORDED)


@lru_cache(maxsize=1024)
def _sayings(unknown: str, known: frozenset[Origin]) -> list[bool]:
    return [False]


def _said_before(unknown: str, *known: Origin) -> bool:
    """Whether it has been said of this name, beside these origins: from Python several things have one name."""
    said = _sayings(unknown, frozenset(replace(origin, images="", drawn=None) for origin in known))
    said.append(True)
    return said.pop(0)


def unrecorded(*origins: Origin | None) -> bool:
    """Whether an origin that is known does not record the pixels that its model took."""
    return any(origin is not None and origin.preprocessing is None for origin in origins)


def check_recorded(second: object, theirs: Origin | None, accept: bool) -> None:
    """Refuse a file of an earlier version that does not record the pixels that its model took, unless accepted.

    An unknown origin records nothing, and is taken on trust as before.
    """
    if unrecorded(theirs) and not accept:
        raise ValueError(
            f"{second}: {UNRECORDED}; embed again with this version, or say --accept-unrecorded-pixels "
            "(accept_unrecorded_pixels=True)"
        )
