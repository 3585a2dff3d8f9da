"""The pixels that a network from elsewhere takes: their preparation, a user's description, and complete presets."""

import math
from dataclasses import dataclass

from verisphere.backbones.backbone import Colour, Layout
from verisphere.images.detect import template_named
from verisphere.models.foreign_names import SOURCES
from verisphere.models.foreign_onnx import LARGEST_SIDE


@dataclass(frozen=True)
class Pixels:
    """A way to prepare a face for a network.

    Attributes:
        colour: order of the colours.
        mean, scale: number that is subtracted from a pixel in [0, 255], and number by which the difference is divided.
        crop: side of the part that is given, as a share of the face or of the view of the template; above 1 it shows
            more than the template.
        flip: whether the embedding of the mirror image is added.
        template: name of the template by which the face was cut from its photograph, enlarged or reduced to the size
            of the network; empty where images were taken as they are.
    """

    colour: Colour
    mean: float
    scale: float
    crop: float = 1.0
    flip: bool = False
    template: str = ""

    def __str__(self) -> str:
        """As the options of `adopt`."""
        template = f", {self.template}" if self.template else ""
        crop = "" if self.crop == 1 else f", {'the middle ' if self.crop < 1 else ''}{self.crop:.0%}"
        crop += " of its view" if self.crop > 1 else ""
        return f"{self.colour}, ({self.mean:g}, {self.scale:g}){', flip' if self.flip else ''}{template}{crop}"


@dataclass(frozen=True)
class Told:
    """A user's description of a model, in the parts of `Pixels`; None for what is left to the preset or to the graph.

    The size is that of a face, height and width; the output is the name of the one with the embeddings.
    """

    size: tuple[int, int] | None = None
    colour: Colour | None = None
    mean: float | None = None
    scale: float | None = None
    layout: Layout | None = None
    template: str | None = None
    output: str | None = None

    def __post_init__(self) -> None:
        for flag, number in (("--mean", self.mean), ("--scale", self.scale)):
            if number is not None and not math.isfinite(number):
                raise ValueError(f"{flag} is {number}; a finite number is due")
        if self.scale is not None and self.scale <= 0:
            raise ValueError(
                f"--scale is {self.scale:g}; a pixel, less the mean, is divided by it: it is above 0, and 1 leaves the "
                "pixel as it is"
            )
        if self.size is not None and not all(1 <= side <= LARGEST_SIDE for side in self.size):
            raise ValueError(f"--size is {self.size[0]}x{self.size[1]}; a face has 1 to {LARGEST_SIDE} pixels a side")

    def allows(self, way: Pixels) -> bool:
        """Whether a way to prepare pixels agrees with the description."""
        asked = ((self.colour, way.colour), (self.mean, way.mean), (self.scale, way.scale))
        return all(given in (None, seen) for given, seen in asked)


@dataclass(frozen=True)
class Preset:
    """The input of the models of one source; a mean and scale of None where the graph tells, see `normalises`."""

    size: tuple[int, int]
    colour: Colour
    mean: float | None
    scale: float | None
    template: str
    source: str


def _of_checkpoints(name: str) -> Preset:
    """The input of the ONNX files of a project whose checkpoints can also be read."""
    about = SOURCES[name]
    size, numbers = template_named(about.template).size, about.init_args
    return Preset(size, about.colour, numbers["mean"], numbers["scale"], about.template, about.stands)


PRESETS = {
    "insightface": Preset(
        *((112, 112), "RGB", None, None, "arcface_112x112"),
        source="InsightFace's loader of recognition models (model_zoo/arcface_onnx.py): RGB; mean and scale 127.5, or "
        "0 and 1 where the graph begins with a subtraction and a multiplication",
    ),
    **{name: _of_checkpoints(name) for name in SOURCES},
    "facenet": Preset(
        *((160, 160), "RGB", 127.5, 128.0, "facenet_160x160"),
        source="facenet-pytorch (fixed_image_standardization): RGB, (pixel - 127.5) / 128; MTCNN's boxes and a margin",
    ),
    "sface": Preset(
        *((112, 112), "RGB", 0.0, 1.0, "arcface_112x112"),
        source="OpenCV's FaceRecognizerSF (face_recognize.cpp): RGB pixels in [0, 255], which the graph normalises",
    ),
}
