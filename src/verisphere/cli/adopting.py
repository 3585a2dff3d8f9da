"""Models that were made elsewhere: `adopt`."""

import argparse
from pathlib import Path

from verisphere.cli.messages import progress
from verisphere.cli.parsing import SET, Outcome, Verbs, add_detector, add_names, add_trust_code, new_verb, options_as

#: The names of `verisphere.models.foreign_names.SOURCES` and of `verisphere.ship.pixels.PRESETS`, which load PyTorch.
SOURCES = ("arcface_torch", "adaface", "magface", "mobilefacenet_pytorch", "insightface_pytorch")
PRESETS = ("insightface", *SOURCES, "facenet", "sface")


def adopt(options: argparse.Namespace) -> Outcome:
    """Make a model folder of a model made elsewhere: an ONNX file (extra: export), a checkpoint, or a function."""
    from verisphere.ship.calls import adopt as run

    return options_as(run, options, progress=progress())


def add_adopt(verbs: Verbs) -> None:
    """Add `adopt`."""
    verb = new_verb(
        verbs,
        "adopt",
        adopt,
        examples=(
            "verisphere adopt w600k_r50.onnx --preset insightface --out model",
            "verisphere adopt backbone.pth --preset arcface_torch --out model",
        ),
    )
    add_names(verb)
    verb.add_argument(
        "model",
        metavar="MODEL",
        help="ONNX file with one image input and one embedding output; PyTorch checkpoint; or module:function, uint8 "
        "RGB images to vectors",
    )
    verb.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="model folder to make")
    verb.add_argument("--preset", choices=PRESETS, help="whose models take such pixels; single options go before it")
    verb.add_argument("--size", type=_size, metavar="HxW", help="of a face, in pixels, where the graph leaves it open")
    verb.add_argument("--colour", choices=("RGB", "BGR"), help="order of the colours")
    verb.add_argument(
        "--mean", type=float, help="subtracted from a pixel in [0, 255]; 0 if the model normalises by itself"
    )
    verb.add_argument(
        "--scale", type=float, help="the difference is divided by it; 1 if the model normalises by itself"
    )
    verb.add_argument("--layout", choices=("NCHW", "NHWC"), help="order of the axes, where the graph leaves it open")
    verb.add_argument("--template", help="name of the template of the model's aligned faces (that of their size)")
    verb.add_argument("--output", metavar="NAME", help="output with the embeddings (the only one of two axes)")
    verb.add_argument("--flip", action="store_true", help="the model adds the embedding of the mirror image")
    verb.add_argument(
        "--probe",
        type=Path,
        metavar="SET",
        help="people with two images or more: measures other colours, normalisations, crops, templates (on "
        f"photographs) and flips, and takes the best way where none is given: {SET}",
    )
    add_detector(verb)
    verb.add_argument("--trainable", action="store_true", help="read the graph into a network that can be trained on")
    verb.add_argument("--name", help="of the model (that of the file)")
    verb.add_argument("--source", help="where it was published, for its card")
    verb.add_argument("--licence", help="of the model, for its card")
    add_trust_code(verb)


def _size(text: str) -> tuple[int, int]:
    height, _, width = text.partition("x")
    if not (height.isdecimal() and width.isdecimal() and len(text) < 12):
        raise argparse.ArgumentTypeError(f"{text!r} is no height x width, such as 112x112")
    return int(height), int(width)
