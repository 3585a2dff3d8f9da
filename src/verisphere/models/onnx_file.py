"""model.onnx: from pixels to embeddings, in one file that describes its input. Requires the extra `export`.

The file computes all of `Model.embed`, so the thresholds of the model hold for it: the input is normalised inside by a
subtraction and a multiplication, and the embedding of the mirror image is added if the model adds it.

Before a runtime loads a file, it is checked: one graph, complete in the file, with sizes known beforehand. The digest
in a file shows damage, but an editor of the file can compute it again. The metadata are therefore compared with the
graph, and the sizes in the graph are inferred before anything is allocated.
"""

import hashlib
import json
import logging
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from io import StringIO
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Float32, Float64, Shaped, UInt8
from torch import Tensor, nn

from verisphere.backbones.backbone import Backbone
from verisphere.backbones.onnx_network import Session
from verisphere.base.vocabulary import Preprocessing
from verisphere.files.disk import check_file, read_file
from verisphere.files.documents import read_json
from verisphere.files.json_values import from_json, shown
from verisphere.files.onnx_graph import (
    LARGEST_ONNX,
    OWN_OPERATORS,
    check_one_graph,
    check_weights,
    first_line,
    require_onnx,
    tensors_of,
)
from verisphere.models.folder import Model, check_listed, is_model_folder, pixel_batches

#: Most numbers in one tensor of a graph for one image; 2^26 are 256 MB as float32, and SEResNet has 1.3 million.
MOST_NUMBERS = 2**26


def check_graph(model: Any, length: int, images: tuple[str, tuple[int, int]], embeddings: tuple[str, int]) -> None:
    """Check that a graph has the input and output of its metadata, and needs no unreasonable amount of memory."""
    for node in model.graph.node:
        if node.domain not in OWN_OPERATORS:
            raise ValueError(f"it needs operators of {shown(node.domain)}, which are not part of ONNX")
    check_one_graph(model)
    for tensor in tensors_of(model.graph):
        if tensor.external_data or tensor.data_location:
            raise ValueError(
                f"its weights {shown(tensor.name)} lie in another file, which nothing seals; `verisphere export` "
                "writes one file"
            )
    check_weights(model, length)
    name, size = images
    _check_end("input", model.graph.input, name, (3, *size))
    _check_end("output", model.graph.output, embeddings[0], (embeddings[1],))
    _check_sizes(model)


def _check_end(kind: str, ends: Any, name: str, shape: tuple[int, ...]) -> None:
    """Check that the graph has one input or output: a float32 batch of this shape."""
    names = [end.name for end in ends]
    if names != [name]:
        raise ValueError(f"its {kind}s are {shown(names)}, not {name} alone")
    tensor = ends[0].type.tensor_type
    sizes = tuple(axis.dim_value if axis.HasField("dim_value") else None for axis in tensor.shape.dim[1:])
    if tensor.elem_type != 1 or len(tensor.shape.dim) != len(shape) + 1 or sizes != shape:
        raise ValueError(
            f"its {kind} is a batch of {shown(sizes)} numbers of kind {tensor.elem_type}, but its metadata says "
            f"{shape} of kind 1 (float32); was one of them edited?"
        )


def _check_sizes(model: Any) -> None:
    """Refuse a graph in which a tensor has more than `MOST_NUMBERS` numbers for a batch of one image."""
    import onnx

    one_image = onnx.ModelProto()
    one_image.CopyFrom(model)
    del one_image.graph.value_info[:]  # sizes that the file claims
    one_image.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    one_image.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 1
    try:
        inferred = onnx.shape_inference.infer_shapes(one_image, check_type=True, strict_mode=True, data_prop=True)
    except Exception as error:  # onnx's exceptions have no common base of their own
        raise ValueError(f"its sizes do not fit together: {first_line(error)}") from None
    values = (*inferred.graph.value_info, *inferred.graph.output)
    known = {value.name: value.type.tensor_type.shape.dim for value in values}
    for node in inferred.graph.node:
        for name in filter(None, node.output):
            if name not in known or not all(axis.HasField("dim_value") for axis in known[name]):
                raise ValueError(f"the size of what {shown(node.op_type)} gives cannot be known beforehand")
            sizes = [axis.dim_value for axis in known[name]]
            if prod(sizes) > MOST_NUMBERS:
                raise ValueError(
                    f"{shown(node.op_type)} gives {sizes} numbers for one image; at most {MOST_NUMBERS:,} are computed"
                )


FORMAT = "1"
#: The lowest version that the exporter writes, which most runtimes can read.
OPSET = 18
INPUT, OUTPUT = "images", "embeddings"
#: Largest differences allowed between file and network: 1 - cosine, and a difference as a share of the embedding's
#: largest number. Measured: 1e-12 and 4e-6; for an SEResNet with start weights, whose numbers reach half a million and
#: which PyTorch itself computes to 6e-4 in float32, 4e-7 and 1e-3.
FARTHEST_COSINE, FARTHEST_NUMBER = 1e-4, 1e-2

_LARGEST_WEIGHTS = 2**31 - 2**24  # bytes; the rest is left for the graph
# InsightFace's loader looks for these names among the first eight nodes: they show that the file normalises inside.
_SUBTRACT, _MULTIPLY = "Sub_mean", "Mul_scale"
_SEAL = "verisphere_sha256"
_INSIDE = "network_input"


def require_export() -> None:
    """Check that the extra `export` is installed."""
    require_onnx("onnxscript")


@dataclass(frozen=True)
class InputFormat:
    """Input and output of `model.onnx`, as its metadata describe them.

    Attributes:
        size: (height, width) of the aligned faces, RGB in [0, 255] as float32, layout NCHW.
        flip: whether the embedding of the mirror image is added inside.
        backbone: SHA-256 of the safetensors file with the same weights.
        inside: pixels that the network inside takes, as an origin records them; None in a file of an earlier version.
    """

    size: tuple[int, int]
    template: str
    flip: bool
    embedding_size: int
    backbone: str
    verisphere: str
    inside: Preprocessing | None = None

    def metadata(self) -> dict[str, str]:
        """The entries of the file's metadata."""
        return {
            "verisphere_format": FORMAT,
            "verisphere_version": self.verisphere,
            "input_colour": "RGB",
            "input_range": "0..255",
            "input_layout": "NCHW",
            "input_size": f"{self.size[0]}x{self.size[1]}",
            "template": self.template,
            "flip": "added inside" if self.flip else "none",
            "embedding_size": str(self.embedding_size),
            "backbone_sha256": self.backbone,
            **({} if self.inside is None else {_INSIDE: json.dumps(asdict(self.inside))}),
        }


def write_onnx(path: Path, backbone: Backbone, about: InputFormat) -> None:
    """Write a backbone, on the CPU, as one ONNX file, as its metadata say; the same weights give the same bytes."""
    require_export()
    import onnx

    weights = sum(tensor.numel() * tensor.element_size() for tensor in backbone.state_dict().values())
    if weights > _LARGEST_WEIGHTS:
        raise ValueError(f"the weights take {weights / 2**30:.1f} GB, but one ONNX file holds less than 2 GB")
    model = _exported(backbone, about.flip)
    _forget_origins(model)
    _normalise_inside(model, backbone.mean, backbone.scale)
    for name, value in about.metadata().items():
        model.metadata_props.add(key=name, value=value)
    onnx.checker.check_model(model)
    content = model.SerializeToString(deterministic=True)
    path.write_bytes(content + _seal(content))


def read_onnx(path: Path) -> "OnnxFile":
    """Open an ONNX file that `verisphere export` wrote, to run on the CPU."""
    require_export()
    import onnx

    check_file(path)
    content = read_file(path, LARGEST_ONNX)
    try:
        model = onnx.ModelProto.FromString(content)
    except Exception as error:  # neither onnx's nor onnxruntime's exceptions have a common base of their own
        raise ValueError(f"{path}: not an ONNX file that can be run: {first_line(error)}") from None
    about = _input_format(path, {entry.key: entry.value for entry in model.metadata_props})
    _check_seal(path, content)
    check_listed(path)
    try:
        check_graph(model, len(content), (INPUT, about.size), (OUTPUT, about.embedding_size))
    except ValueError as error:
        raise ValueError(f"{path}: not an ONNX file that can be run: {error}") from None
    return OnnxFile(path, about, Session(content, path))


@dataclass(frozen=True, eq=False)
class OnnxFile:
    """An opened ONNX file: its metadata, and the session of onnxruntime that runs it."""

    path: Path
    about: InputFormat
    session: Session

    def embed(self, images: np.ndarray | Tensor, batch_size: int = 128) -> Float32[np.ndarray, "images dim"]:
        """Embeddings of aligned faces; result, arguments and errors are those of `Model.embed`."""
        rows = (self.run(pixels) for pixels in pixel_batches(images, self.about.size, batch_size))
        return np.concatenate([np.empty((0, self.about.embedding_size), np.float32), *rows])

    def run(self, images: Shaped[Tensor, "batch 3 height width"]) -> Float32[np.ndarray, "batch dim"]:
        """Embeddings of pixels in [0, 255], of any number type."""
        rows = self.session.run(INPUT, OUTPUT, images.cpu().float().contiguous().numpy())
        expected = (len(images), self.about.embedding_size)
        if rows.shape != expected or rows.dtype != np.float32:
            raise ValueError(f"{self.path}: gives {rows.dtype} numbers {rows.shape}, where float32 {expected} are due")
        return rows


class OnnxBackbone(Backbone):
    """A file from `read_onnx` as a backbone, so that the exported file itself can be measured; it runs on the CPU.

    Its input is pixels, not normalised; the embedding of the mirror image is added inside if the metadata say so.
    """

    mean, scale = 0.0, 1.0

    def __init__(self, file: OnnxFile) -> None:
        super().__init__(file.about.embedding_size)
        self.file, self.input_size = file, file.about.size

    def embed(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch dim"]:
        """The file's embeddings of pixels in [0, 255]."""
        return torch.from_numpy(self.file.run(images))


@dataclass(frozen=True)
class Agreement:
    """The largest differences between an ONNX file and the network over some images, in batches of these sizes.

    Attributes:
        cosine: 1 - cosine between the two embeddings of an image.
        number: difference between two numbers of an embedding, as a share of the embedding's largest number.
    """

    cosine: float
    number: float
    batches: tuple[int, ...]


def compare_onnx(file: OnnxFile, model: Model, batches: tuple[int, ...] = (1, 7)) -> Agreement:
    """Run the file and the network on the same images."""
    cosine = number = 0.0
    for batch in batches:
        images = smooth_images(batch, model.backbone.input_size)
        theirs = file.embed(images).astype(np.float64)
        ours = model.embed(images).astype(np.float64)
        cosine = float(np.maximum(cosine, _cosine_gap(ours, theirs)))  # np.maximum keeps NaN, max() may lose it
        number = float(np.maximum(number, (np.abs(ours - theirs).max(1) / np.abs(ours).max(1)).max()))
        if not (cosine <= FARTHEST_COSINE and number <= FARTHEST_NUMBER):  # NaN is a difference too
            raise ValueError(
                f"{file.path.name} differs from {type(model.backbone).__name__} on a batch of {batch}: cosine by "
                f"{cosine:.2g} (allowed {FARTHEST_COSINE:g}), numbers by {number:.2g} of the largest (allowed "
                f"{FARTHEST_NUMBER:g}); it does something that ONNX computes otherwise"
            )
    return Agreement(cosine, number, batches)


def _cosine_gap(left: Float64[np.ndarray, "rows dim"], right: Float64[np.ndarray, "rows dim"]) -> float:
    """The largest 1 - cosine over rows."""
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    return float((1 - (left * right).sum(1) / lengths).max())


def smooth_images(count: int, size: tuple[int, int]) -> UInt8[Tensor, "count 3 height width"]:
    """Smooth images with some noise, which resemble photographs more than noise alone; the same in every call."""
    generator = torch.Generator().manual_seed(count)
    shapes = F.interpolate(255 * torch.rand(count, 3, 8, 8, generator=generator), size, mode="bilinear")
    return (shapes + 16 * torch.randn(count, 3, *size, generator=generator)).round().clamp(0, 255).to(torch.uint8)


class _Pipeline(nn.Module):
    """From normalised images to the embedding for which the thresholds of a model hold."""

    def __init__(self, backbone: Backbone, flip: bool) -> None:
        super().__init__()
        self.backbone, self.flip = backbone, flip

    def forward(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch dim"]:
        if not self.flip:
            return self.backbone(images)
        # One forward over both images: two forwards would write the network into the file twice.
        return self.backbone(torch.cat([images, images.flip(-1)])).unflatten(0, (2, -1)).sum(0)


def _exported(backbone: Backbone, flip: bool) -> Any:
    """The network as an ONNX model, its input normalised already; the batch size is free."""
    example = torch.zeros(2, 3, *backbone.input_size)  # the exporter would treat a batch size of one as fixed
    try:
        with quiet():
            program = torch.onnx.export(
                _Pipeline(backbone, flip).eval(),
                (example,),
                dynamo=True,
                verbose=False,
                opset_version=OPSET,
                input_names=[INPUT],
                output_names=[OUTPUT],
                dynamic_shapes={"images": {0: torch.export.Dim("batch")}},
                external_data=False,
            )
    except Exception as error:  # a user's network can fail to be traced in any way
        raise ValueError(
            f"{type(backbone).__name__} cannot be written as ONNX: {first_line(error.__cause__ or error)}"
        ) from error
    assert program is not None
    return program.model_proto


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the exporter's log, warnings and prints; failures are raised as exceptions."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _forget_origins(model: Any) -> None:
    """Remove the exporter's notes in each node: lines of source code, and paths of the machine."""
    graph = model.graph
    parts: Iterable[Any] = (
        model, graph, *graph.node, *graph.input, *graph.output, *graph.initializer, *graph.value_info
    )  # fmt: skip
    for part in parts:
        part.ClearField("metadata_props")
        part.ClearField("doc_string")


def _normalise_inside(model: Any, mean: float, scale: float) -> None:
    """Insert (pixel - mean) * (1 / scale) before all other nodes, under the names that loaders look for."""
    from onnx import helper, numpy_helper

    graph = model.graph
    (images,) = graph.input
    normalised, centred, mean_name, scale_name = (  # the exporter's own names have no slash
        f"input/{name}" for name in ("normalised", "centred", "mean", "one_over_scale")
    )
    for node in graph.node:
        for place, name in enumerate(node.input):
            if name == images.name:
                node.input[place] = normalised
    for name, value in ((mean_name, mean), (scale_name, 1 / scale)):
        graph.initializer.append(numpy_helper.from_array(np.array(value, np.float32), name))
    first = [
        helper.make_node("Sub", [images.name, mean_name], [centred], name=_SUBTRACT),
        helper.make_node("Mul", [centred, scale_name], [normalised], name=_MULTIPLY),
    ]
    nodes = [*first, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


def _seal(content: bytes) -> bytes:
    """Add an entry to the metadata: the digest of all preceding bytes, which shows damage.

    Entries of a list may stand anywhere in a protocol buffer. At the end of the file the entry does not depend on how
    another version of the library would serialise the model.
    """
    import onnx

    entry = onnx.ModelProto()
    entry.metadata_props.add(key=_SEAL, value=hashlib.sha256(content).hexdigest())
    return entry.SerializeToString()


def _check_seal(path: Path, content: bytes) -> None:
    before = content[: -len(_seal(b""))]
    if content != before + _seal(before):
        raise ValueError(
            f"{path}: not the file that was exported: the SHA-256 at its end does not fit what stands before; was it "
            "edited or damaged?"
        )


def _input_format(path: Path, metadata: dict[str, str]) -> InputFormat:
    version = metadata.get("verisphere_format")
    if version is None:
        inside = f"; it is part of the model folder {path.parent}: name that folder"
        elsewhere = "; `verisphere adopt` makes a model folder of a file made elsewhere: name that folder"
        raise ValueError(
            f"{path}: an ONNX file of another kind: nothing in its metadata says what pixels it takes, so no threshold "
            f"can hold for it{inside if is_model_folder(path.parent) else elsewhere}"
        )
    if version != FORMAT:
        raise ValueError(f"{path}: its input format is {shown(version)}, this version of verisphere reads {FORMAT}")
    try:
        height, width = map(int, metadata["input_size"].split("x"))
        about = InputFormat(
            size=(height, width),
            template=metadata["template"],
            flip=metadata["flip"] != "none",
            embedding_size=int(metadata["embedding_size"]),
            backbone=metadata["backbone_sha256"],
            verisphere=metadata["verisphere_version"],
            inside=from_json(Preprocessing, read_json(metadata[_INSIDE])) if _INSIDE in metadata else None,
        )
        changed = [name for name, value in about.metadata().items() if metadata.get(name) != value]
    except (KeyError, ValueError) as error:
        changed = [str(error)]
    if changed:
        raise ValueError(f"{path}: its metadata is not what `verisphere export` writes: {', '.join(changed)}")
    return about
