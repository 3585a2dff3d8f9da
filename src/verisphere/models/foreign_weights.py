"""Checkpoints of other projects as weights of our backbones: the same embeddings from a network of this package.

Every tensor is assigned by its name, from the tables of `verisphere.models.foreign_names`. Shapes are only checked: the
four vectors of a batch norm have one shape, so an exchange of two would go unnoticed. A network that takes BGR becomes
one that takes RGB: the input channels of its first convolution are reversed.
"""

import re
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from verisphere.backbones.backbone import Backbone
from verisphere.backbones.iresnet import BLOCKS
from verisphere.base.words import unknown_name
from verisphere.files.disk import check_file
from verisphere.files.json_values import shown
from verisphere.models.build import build_backbone
from verisphere.models.foreign_names import COUNTER, SOURCES, WeightSource

#: Suffixes of checkpoints.
SUFFIXES = (".pth", ".pt", ".ckpt", ".tar", ".safetensors")
#: Largest checkpoint in bytes: of a zip archive, which is mapped, and of PyTorch's older format, which is read whole.
LARGEST_ARCHIVE, LARGEST_FILE = 2**34, 2**31
_LARGEST_PICKLE = 2**26  # bytes of an archive's description of its tensors
#: Beginnings that wrappers of any project give to all names: DataParallel, Lightning, torch.compile.
_WRAPPERS = ("module.", "model.", "_orig_mod.", "module.module.", "model.module.", "module._orig_mod.", "backbone.")
_CONTAINERS = ("state_dict", "model")


def read_foreign_weights(path: Path, source: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The backbone of ours, for RGB, that gives the embeddings of another project's checkpoint, and its weights.

    Of a checkpoint of PyTorch only tensors are read and no code is run; the project is a name in `SOURCES`. The
    backbone is given by `class_path` and `init_args`, its weights by name, in float32.
    """
    if source not in SOURCES:
        raise ValueError(unknown_name("source", source, list(SOURCES)))
    about = SOURCES[source]
    tensors = _without_prefix(path, source, _tensors(path, about))
    depth = _depth(path, source, tensors)
    table = {f"{theirs}.{kind}": f"{ours}.{kind}" for theirs, ours, kinds in about.layers(depth) for kind in kinds}
    filled = dict(about.constants)
    if not any(name.endswith(COUNTER) for name in tensors):
        filled |= {table.pop(theirs): 0.0 for theirs in list(table) if theirs.endswith(COUNTER)}
    _check_names(path, source, tensors, table)
    last = tensors[about.last]
    arguments = {"embedding_size": last.shape[0] if last.ndim else 0, **about.init_args}
    description = {
        "class_path": about.class_path,
        "init_args": {"depth": depth, **arguments} if about.block else arguments,
    }
    try:
        with torch.device("meta"):  # shapes without memory
            network = build_backbone(description)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    due = network.state_dict()
    left_over = sorted(due.keys() ^ (set(table.values()) | filled.keys()))
    if left_over:
        raise ValueError(f"{path}: the table of {source} and {type(network).__name__} differ in {_few(left_over)}")
    weights = {ours: _fitting(path, theirs, tensors[theirs], due[ours]) for theirs, ours in table.items()}
    weights |= {ours: torch.full_like(due[ours], value, device="cpu") for ours, value in filled.items()}
    if about.colour == "BGR":
        first = _first_convolution(network)
        weights[first] = weights[first].flip(1).contiguous()
    return description, {name: weights[name] for name in due}


def _tensors(path: Path, about: WeightSource) -> dict[str, Tensor]:
    check_file(path, "checkpoint")
    content = _safetensors(path) if path.suffix.lower() == ".safetensors" else _unpickled(path)
    for container in (*about.containers, *_CONTAINERS):
        if isinstance(content, Mapping) and isinstance(content.get(container), Mapping):
            content = content[container]
            break
    if not isinstance(content, Mapping) or not content:
        raise ValueError(f"{path}: holds no tensors by name but a {type(content).__name__}")
    others = [name for name, value in content.items() if type(name) is not str or not isinstance(value, Tensor)]
    if others:
        raise ValueError(
            f"{path}: holds {shown(others[0])}, which is no tensor; save the state_dict of the network alone"
        )
    return dict(content)


def _safetensors(path: Path) -> Any:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path}: not a file of safetensors: {error}") from None


def _unpickled(path: Path) -> Any:
    """What `torch.load` reads of a file without running its code; an archive is mapped, not read into memory."""
    try:
        archive = zipfile.is_zipfile(path)
    except zipfile.BadZipFile as error:  # the archive's directory may be malformed
        raise ValueError(f"{path}: not a checkpoint of PyTorch that can be read: {error}") from None
    size, most = path.stat().st_size, LARGEST_ARCHIVE if archive else LARGEST_FILE
    if size > most:
        raise ValueError(
            f"{path}: {size:,} bytes; a checkpoint {'' if archive else 'of this format '}has at most {most:,}"
        )
    try:
        if archive:
            _check_archive(path)
        with warnings.catch_warnings():  # warnings about an unusual pickle, which is then refused or read
            warnings.simplefilter("ignore")
            return torch.load(path, map_location="cpu", weights_only=True, mmap=archive)
    except Exception as error:  # damaged bytes can raise anything
        text = " ".join(str(error).split())
        unsupported = re.search(r"(?:GLOBAL|nsupported class) ([\w.]+)", text)
        if unsupported is None:
            reason = text.partition("WeightsUnpickler error: ")[2] or text
            reason = reason.partition(" Check the documentation")[0]
            reason = "its bytes are no pickle" if not reason or reason.isdecimal() else reason
            raise ValueError(f"{path}: not a checkpoint of PyTorch that can be read: {reason[:200]}") from None
        raise ValueError(
            f"{path}: holds more than tensors ({unsupported[1]}), and to read that would run code of this file; ask "
            "its owner for the tensors alone as .safetensors, or for ONNX; or convert it where that code can do no "
            "harm, in a container without network and without your data (docs/adopt.md)"
        ) from None


def _check_archive(path: Path) -> None:
    """Refuse an archive that needs more memory than its size suggests."""
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if entry.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{shown(entry.filename)} is compressed, which torch.save never does")
            if entry.filename.endswith("data.pkl") and entry.file_size > _LARGEST_PICKLE:
                raise ValueError(f"{shown(entry.filename)} has {entry.file_size:,} bytes, at most {_LARGEST_PICKLE:,}")


def _without_prefix(path: Path, source: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of the network, by names without the prefix that all of them have."""
    about = SOURCES[source]
    (first, _, _) = next(about.layers(min(BLOCKS)))
    known = (*about.prefixes, *_WRAPPERS)
    prefix = next((prefix for prefix in known if f"{prefix}{first}.weight" in tensors), None)
    if prefix is None:
        others = [
            name
            for name, other in SOURCES.items()
            if name != source and any(_has_ends(tensors, other, prefix) for prefix in other.prefixes)
        ]
        hint = f"; its first and last names are those of {' or '.join(others)}" if others else ""
        raise ValueError(
            f"{path}: not a checkpoint of {source}: it lacks {about.prefixes[0]}{first}.weight, and begins with "
            f"{_few(list(tensors))}{hint}"
        )
    network: dict[str, Tensor] = {}
    beside = []
    for name, tensor in tensors.items():
        if prefix and name.startswith(prefix):
            network[name.removeprefix(prefix)] = tensor
        elif name.startswith(about.excluded):
            continue
        elif prefix:
            beside.append(name)
        else:
            network[name] = tensor
    if beside:
        raise ValueError(f"{path}: has {_few(beside)} beside the network of {source}, whose names begin with {prefix}")
    return network


def _has_ends(tensors: Mapping[str, Tensor], about: WeightSource, prefix: str) -> bool:
    """Whether the first and the last layer of a source's network are there."""
    first = next(about.layers(min(BLOCKS)))[0]
    return f"{prefix}{first}.weight" in tensors and f"{prefix}{about.last}" in tensors


def _depth(path: Path, source: str, tensors: Mapping[str, Tensor]) -> int:
    """The depth with the number of residual blocks in the names; the smallest if all networks have one depth."""
    pattern = SOURCES[source].block
    if pattern is None:
        return min(BLOCKS)
    blocks = {match[0] for name in tensors if (match := re.match(pattern + r"(?=\.)", name))}
    depths = {sum(counts): depth for depth, counts in BLOCKS.items()}
    if len(blocks) not in depths:
        known = ", ".join(f"{count} (depth {depth})" for count, depth in depths.items())
        raise ValueError(f"{path}: has {len(blocks)} residual blocks; a network of {source} has {known}")
    return depths[len(blocks)]


def _check_names(path: Path, source: str, tensors: Mapping[str, Tensor], table: Mapping[str, str]) -> None:
    """Refuse names that the table lacks, and missing names of the table."""
    missing = [name for name in table if name not in tensors]
    unknown = [name for name in tensors if name not in table]
    if missing or unknown:
        parts = [f"it lacks {_few(missing)}"] if missing else []
        parts += [f"it has {_few(unknown)}, which that network has not"] if unknown else []
        raise ValueError(f"{path}: not a network of {source}: {', and '.join(parts)}")


def _fitting(path: Path, name: str, tensor: Tensor, due: Tensor) -> Tensor:
    """A tensor of theirs as one of ours, as a copy; a linear layer fills a convolution of one pixel."""
    shape = (*tensor.shape, *[1] * (due.ndim - tensor.ndim)) if tensor.ndim == 2 else tuple(tensor.shape)
    if shape != tuple(due.shape):
        raise ValueError(f"{path}: {name} is {tuple(tensor.shape)}, where {tuple(due.shape)} is due")
    dense = tensor.layout == torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized
    if not dense or tensor.is_floating_point() != due.is_floating_point() or tensor.is_complex():
        raise ValueError(
            f"{path}: {name} is a tensor of {tensor.dtype} ({tensor.layout}, {tensor.device}), not of numbers"
        )
    copied = tensor.detach().to(due.dtype, copy=True).reshape(due.shape).contiguous()
    if not copied.isfinite().all():
        raise ValueError(f"{path}: {name} holds NaN or infinity")
    if name.endswith("running_var") and (copied < 0).any():
        raise ValueError(f"{path}: {name} holds a variance below 0")
    return copied


def _first_convolution(network: Backbone) -> str:
    """Name of the weights of the convolution that takes the image."""
    name = next(name for name, module in network.named_modules() if isinstance(module, nn.Conv2d))
    return f"{name}.weight"


def _few(names: list[str]) -> str:
    """The first names of a list, and how many more there are."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(map(shown, names[:3])) + more
