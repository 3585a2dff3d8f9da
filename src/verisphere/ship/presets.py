"""What pixels the models of a source take, so that one word tells it: `adopt --preset`."""

from dataclasses import dataclass

from verisphere.backbones.backbone import Colour
from verisphere.images.detect import template_named
from verisphere.models.foreign_names import SOURCES


@dataclass(frozen=True)
class Preset:
    """What the models of one source take.

    Attributes:
        size: height and width of a face.
        colour: order of the colours.
        mean: value that is subtracted from a pixel in [0, 255]; None where the graph tells, see `normalises`.
        scale: value by which it is then divided; None likewise.
        template: positions of eyes, nose and mouth in an aligned face.
        source: where this stands.
    """

    size: tuple[int, int]
    colour: Colour
    mean: float | None
    scale: float | None
    template: str
    source: str


def _of_checkpoints(name: str) -> Preset:
    """What the ONNX files of a project take whose checkpoints can be read too."""
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
