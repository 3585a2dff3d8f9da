"""model.json: the description in a model folder, with a digest of itself so that any change is noticed."""

import dataclasses
import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verisphere.backbones.backbone import LARGEST_EMBEDDING, Backbone
from verisphere.base.vocabulary import Preprocessing, TrainingRecord
from verisphere.base.words import SmallerPrecision
from verisphere.decide import exact_rate
from verisphere.decide.guarantee import GuaranteedThreshold
from verisphere.files.documents import LARGEST_JSON, read_json, read_text
from verisphere.files.json_values import from_json, shown

FORMAT = 1
NAME = "model.json"
GALLERY = "gallery.json"  # the calibration of a gallery
#: The file with the network: weights of a network of verisphere, the graph of one from elsewhere, or the name and the
#: digest of a function.
WEIGHTS, NETWORK, FUNCTION = "backbone.safetensors", "network.onnx", "function.json"
RECIPE, CALIBRATION, HEAD, ONNX = "recipe.yaml", "calibration.json", "head.safetensors", "model.onnx"
LEAK, PRECISION = "leak.json", "precision.json"


@dataclass(frozen=True)
class FileDigest:
    """SHA-256, in hexadecimal, and length in bytes of a file when it was exported."""

    sha256: str
    bytes: int


@dataclass(frozen=True)
class Adopted:
    """The source of a model that was made elsewhere.

    Attributes:
        preset: name of the preset that described the input; None if it was described field by field.
        flip: whether the embedding of the mirror image was added as it was adopted; None in files that do not state it.
    """

    file: str
    sha256: str | None = None
    source: str | None = None
    licence: str | None = None
    preset: str | None = None
    flip: bool | None = None


@dataclass(frozen=True)
class ReducedPrecision:
    """The reduction of the trained network to a smaller precision.

    Attributes:
        weights: SHA-256 of the file with the original weights in float32, in hexadecimal.
    """

    precision: SmallerPrecision
    weights: str
    measured_on: str


@dataclass(frozen=True)
class Description:
    """Everything in `model.json` except its format number and its own digest.

    Attributes:
        verisphere, torch: versions that exported the model.
        backbone: `class_path` and `init_args`, as in the recipe.
        preprocessing: `size` (height, width), `colour`, `layout`, and (pixel - `mean`) / `scale`.
        thresholds: at most one for a FAR.
        reduced: reduction to a smaller precision; None for a model in float32, whose `model.json` has no such entry.
    """

    name: str
    verisphere: str
    torch: str
    backbone: dict[str, Any]
    embedding_size: int
    template: str
    preprocessing: dict[str, Any]
    flip: bool
    thresholds: tuple[GuaranteedThreshold, ...]
    training: TrainingRecord
    files: dict[str, FileDigest]
    adopted: Adopted | None = None
    reduced: ReducedPrecision | None = None

    @property
    def precision(self) -> str:
        """The precision in which the network runs, as in `Origin.precision`."""
        return "float32" if self.reduced is None else self.reduced.precision

    @property
    def weights(self) -> str:
        """Name of the file with the weights."""
        return next(name for name in (WEIGHTS, NETWORK, FUNCTION) if name in self.files)

    def __post_init__(self) -> None:
        rates = Counter(exact_rate(threshold.far_target) for threshold in self.thresholds)
        if any(count > 1 for count in rates.values()):
            raise ValueError(f"several thresholds at FAR {float(max(rates, key=lambda rate: rates[rate])):g}; ship one")
        for name in self.files:
            if Path(name).name != name or name in ("", "..", NAME):
                raise ValueError(f"its files name {shown(name)}; only files beside {NAME} belong to a model")
        if len({WEIGHTS, NETWORK, FUNCTION} & self.files.keys()) != 1:
            raise ValueError(f"its files must name one of {WEIGHTS}, {NETWORK} and {FUNCTION}")
        if self.reduced is not None and NETWORK not in self.files:
            raise ValueError(f"its precision is {self.reduced.precision}, which only {NETWORK} has")
        if not 1 <= self.embedding_size <= LARGEST_EMBEDDING:
            raise ValueError(
                f"its embedding_size is {shown(self.embedding_size)}; allowed are 1 to {LARGEST_EMBEDDING}"
            )
        if not self.name.strip() or not self.name.isprintable():
            raise ValueError(f"its name is {shown(self.name)}; a name is one line of text")


def preprocessing(backbone: Backbone) -> dict[str, Any]:
    """The preprocessing of an aligned face for a backbone, as an entry of `model.json`."""
    return {
        "size": list(backbone.input_size),
        "colour": backbone.colour,
        "mean": float(backbone.mean),
        "scale": float(backbone.scale),
        "layout": backbone.layout,
    }


def taken_pixels(backbone: Backbone) -> Preprocessing:
    """The pixels that a network takes of an aligned face and its output, as an origin records them."""
    about = preprocessing(backbone)
    return Preprocessing(**about | {"size": tuple(about["size"])}, output=getattr(backbone, "embedding_output", None))


def model_json(description: Description) -> str:
    """The text of `model.json`."""
    fields = {"format": FORMAT, **dataclasses.asdict(description)}
    if description.reduced is None:
        del fields["reduced"]
    fields["thresholds"] = [
        {**dataclasses.asdict(threshold), "meaning": threshold.meaning(description.training)}
        for threshold in description.thresholds
    ]
    return _sealed(fields)


def read_model_json(path: Path) -> Description:
    """Read and check `model.json`."""
    try:
        text = read_text(path, LARGEST_JSON)
        fields = read_json(text)
        if type(fields) is not dict:
            raise ValueError("it holds no JSON object")
        if fields.get("format") != FORMAT:
            raise ValueError(f"its format is {shown(fields.get('format'))}, this version reads {FORMAT}")
        fields.pop("sha256", None)
        if _sealed(fields) != text:
            raise ValueError("it was changed since it was exported (its own SHA-256 does not fit); export again")
        return from_json(Description, fields)
    except ValueError as error:
        raise ValueError(f"{path}: not a model's description: {str(error).splitlines()[0]}") from None


def _sealed(fields: dict[str, Any]) -> str:
    """JSON text that ends with the digest of the preceding entries."""
    text = json.dumps(fields, indent=2)
    return json.dumps(fields | {"sha256": hashlib.sha256(text.encode()).hexdigest()}, indent=2) + "\n"
