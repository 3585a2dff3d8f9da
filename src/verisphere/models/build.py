"""Backbones from a description, and from a checkpoint, without running anything that a file brought along."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from verisphere.backbones.backbone import Backbone
from verisphere.files.class_paths import present_names
from verisphere.files.documents import read_yaml_file
from verisphere.files.json_values import shown
from verisphere.models.named_class import build_named, names_class

#: Where the classes live that a file may name without being trusted.
HOUSE = "verisphere.backbones."
_DEEPEST = 8  # backbones inside each other


def build_backbone(description: dict[str, Any], trust: bool = False, weights: Path | None = None) -> Backbone:
    """A backbone from `class_path` and `init_args`; an argument that is such a description is built first.

    Args:
        description: as recipes and checkpoints hold it.
        trust: also import classes from outside verisphere, which runs their module's code.
        weights: the file that the backbone is to be filled from. A backbone of verisphere that does not fit it is
            refused before memory is taken for it, however large the description claims it to be.

    Raises:
        ValueError: the description names no backbone, one from outside verisphere without `trust`, or one that
            `weights` does not fit.
    """
    description = present_names(description)
    ours = _all_ours(description)
    if weights is not None and ours:
        with torch.device("meta"):  # shapes without memory
            planned = build_named(description, Backbone, HOUSE, "backbone", trust)
        check_fits(planned, _shapes(weights), str(weights))
    return build_named(description, Backbone, HOUSE, "backbone", trust)


def check_fits(module: torch.nn.Module, shapes: Mapping[str, tuple[int, ...]], where: str) -> None:
    """Refuse tensors that are not exactly those of a module, of its shapes.

    Args:
        module: what they are to fill.
        shapes: of the tensors, by name.
        where: what to call them.

    Raises:
        ValueError: names or shapes differ; the first few are named.
    """
    own = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    wrong = sorted(own.keys() ^ shapes.keys()) or [
        f"{name} {shapes[name]} for {own[name]}" for name in own if own[name] != shapes[name]
    ]
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise ValueError(f"{where} does not fit {type(module).__name__}: {', '.join(wrong[:3])}{more}")


def _shapes(weights: Path) -> dict[str, tuple[int, ...]]:
    """Shapes by the header of a safetensors file, which is checked against the file's length when it is opened."""
    try:
        with safe_open(weights, "pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118  # no dict
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{weights}: not the weights of a network: {error}") from None


def _all_ours(description: dict[str, Any], depth: int = 0) -> bool:
    """Whether verisphere has the class, and those of all backbones among its arguments."""
    if depth > _DEEPEST:
        raise ValueError(f"backbones inside each other, more than {_DEEPEST} deep")
    arguments = description.get("init_args") or {}
    inside = arguments.values() if isinstance(arguments, dict) else ()
    # a list, so that every depth is looked at, whatever stands before
    ours = [_all_ours(one, depth + 1) for one in inside if names_class(one)]
    return str(description.get("class_path", "")).startswith(HOUSE) and all(ours)


def read_description(path: Path) -> tuple[dict[str, Any], int]:
    """A backbone's description and the seed of its start weights, from a recipe or a YAML file of its own.

    Raises:
        ValueError: not YAML, no backbone in it, or a seed that is none.
    """
    content = read_yaml_file(path)
    description = content.get("backbone", content) if isinstance(content, dict) else None
    if not isinstance(description, dict) or "class_path" not in description:
        raise ValueError(f"{path}: names no backbone (a class_path, by itself or under backbone)")
    seed = content.get("seed", 0)
    if type(seed) is not int or not 0 <= seed < 2**31:
        raise ValueError(f"{path}: seed must be a whole number from 0 and below 2^31, got {shown(seed)}")
    return description, seed


def untrained(path: Path, trust: bool = False) -> Backbone:
    """The backbone of a YAML file with the start weights of its seed.

    Raises:
        ValueError: as `read_description` and `build_backbone`.
    """
    description, seed = read_description(path)
    torch.manual_seed(seed)
    try:
        return build_backbone(description, trust)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
