"""Backbones from a description, and from a checkpoint, without running anything that a file brought along."""

import importlib
from pathlib import Path
from typing import Any

import torch
import yaml

from verisphere.data.files import read_text
from verisphere.data.json_values import shown
from verisphere.embed.backbone import Backbone

#: Where the classes live that a file may name without being trusted.
HOUSE = "verisphere.embed."


def build_backbone(description: dict[str, Any], trust: bool = False) -> Backbone:
    """A backbone from `class_path` and `init_args`; an argument that is such a description is built first.

    Args:
        description: as recipes and checkpoints hold it.
        trust: also import classes from outside verisphere, which runs their module's code.

    Raises:
        ValueError: the description names no backbone, or one from outside verisphere without `trust`.
    """
    path, arguments = str(description.get("class_path", "")), description.get("init_args") or {}
    if not path.startswith(HOUSE) and not trust:
        raise ValueError(
            f"backbone {path!r} is not part of verisphere; building it runs its code: allow it by --trust-code"
        )
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"backbone {path!r} cannot be found: {error}") from None
    # Before the call, not after: a checkpoint must not get to call just anything that a module of ours imports.
    if not (isinstance(found, type) and issubclass(found, Backbone)):
        raise ValueError(f"{path!r} is not a backbone")
    try:
        return found(**{name: _built(value, trust) for name, value in dict(**arguments).items()})
    except (TypeError, ValueError, RuntimeError) as error:  # torch's word for too large a tensor is RuntimeError
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"backbone {path!r} with {shown(arguments)} cannot be built: {reason}") from None


def _built(value: Any, trust: bool) -> Any:
    """An argument as it is, or the backbone that it describes."""
    return build_backbone(value, trust) if isinstance(value, dict) and "class_path" in value else value


def read_description(path: Path) -> tuple[dict[str, Any], int]:
    """A backbone's description and the seed of its start weights, from a recipe or a YAML file of its own.

    Raises:
        ValueError: not YAML, no backbone in it, or a seed that is none.
    """
    try:
        content = yaml.safe_load(read_text(path))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not YAML: {str(error).splitlines()[0]}") from None
    description = content.get("backbone", content) if isinstance(content, dict) else None
    if not isinstance(description, dict) or "class_path" not in description:
        raise ValueError(f"{path}: names no backbone (a class_path, by itself or under backbone)")
    seed = content.get("seed", 0)
    if not isinstance(seed, int) or not 0 <= seed < 2**31:
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
