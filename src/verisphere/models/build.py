"""Backbones built from a description, without running code from a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from verisphere.backbones.backbone import Backbone
from verisphere.base.seeds import seed_start_weights
from verisphere.files.class_paths import present_names
from verisphere.files.definitions import names_class, read_based
from verisphere.files.json_values import shown
from verisphere.models.named_class import build_named

#: Module of the classes that a file may name without being trusted.
TRUSTED = "verisphere.backbones."
_MOST_NESTED = 8  # depth of backbones as arguments of each other


def build_backbone(description: dict[str, Any], trust: bool = False, weights: Path | None = None) -> Backbone:
    """Build a backbone from `class_path` and `init_args`; an argument that is such a description is built first.

    A backbone of verisphere that does not fit the file of its weights is refused before memory is allocated, whatever
    size the description claims. Classes from outside verisphere are imported only with `trust`, which runs their
    module's code.
    """
    description = present_names(description)
    ours = all_ours(description)
    if weights is not None and ours:
        with torch.device("meta"):  # shapes without memory
            shape_only = build_named(description, Backbone, TRUSTED, "backbone", trust)
        check_fits(shape_only, _shapes(weights), str(weights))
    return build_named(description, Backbone, TRUSTED, "backbone", trust)


def check_fits(module: torch.nn.Module, shapes: Mapping[str, tuple[int, ...]], where: str) -> None:
    """Refuse tensors whose names and shapes are not exactly those of a module that is to be filled."""
    own = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    wrong = sorted(own.keys() ^ shapes.keys()) or [
        f"{name} {shapes[name]} for {own[name]}" for name in own if own[name] != shapes[name]
    ]
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise ValueError(f"{where} does not fit {type(module).__name__}: {', '.join(wrong[:3])}{more}")


def _shapes(weights: Path) -> dict[str, tuple[int, ...]]:
    """Shapes from the header of a safetensors file; opening the file checks the header against its length."""
    try:
        with safe_open(weights, "pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118  # not a dict
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{weights}: not the weights of a network: {error}") from None


def all_ours(description: dict[str, Any], depth: int = 0) -> bool:
    """Whether the class and those of all backbones among its arguments belong to verisphere."""
    if depth > _MOST_NESTED:
        raise ValueError(f"backbones inside each other, more than {_MOST_NESTED} deep")
    arguments = description.get("init_args") or {}
    inside = arguments.values() if isinstance(arguments, dict) else ()
    # a list, so that the depth of every argument is checked
    ours = [all_ours(argument, depth + 1) for argument in inside if names_class(argument)]
    return str(description.get("class_path", "")).startswith(TRUSTED) and all(ours)


def read_description(path: Path) -> tuple[dict[str, Any], int]:
    """A backbone's description and the seed of its start weights, from a recipe or a YAML file, with its bases."""
    content = read_based(path).content
    description = content.get("backbone", content) if isinstance(content, dict) else None
    if not isinstance(description, dict) or "class_path" not in description:
        raise ValueError(f"{path}: names no backbone (a class_path, by itself or under backbone)")
    seed = content.get("seed", 0)
    if type(seed) is not int or not 0 <= seed < 2**31:
        raise ValueError(f"{path}: seed must be a whole number from 0 and below 2^31, got {shown(seed)}")
    return description, seed


def untrained(path: Path, trust: bool = False) -> Backbone:
    """Build the backbone of a YAML file, with the start weights of its seed."""
    description, seed = read_description(path)
    seed_start_weights(seed)
    try:
        return build_backbone(description, trust)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
