"""Backbones from a description, and from a checkpoint, without running anything that a file brought along."""

import importlib
from pathlib import Path
from typing import Any

import torch
import yaml

from verisphere.embed.backbone import Backbone

HOUSE = "verisphere."


def build_backbone(description: dict[str, Any], trust: bool = False) -> Backbone:
    """A backbone from `class_path` and `init_args`.

    Args:
        description: as recipes and checkpoints hold it.
        trust: also import classes from outside verisphere, which runs their module's code.

    Raises:
        ValueError: the description names no backbone, or one from outside verisphere without `trust`.
    """
    path, arguments = str(description.get("class_path", "")), description.get("init_args") or {}
    module, _, name = path.rpartition(".")
    if not path.startswith(HOUSE) and not trust:
        raise ValueError(
            f"backbone {path!r} is not part of verisphere; building it runs its code: allow it by --trust-code"
        )
    try:
        backbone = getattr(importlib.import_module(module), name)(**arguments)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"backbone {path!r} with {arguments} cannot be built: {error}") from None
    if not isinstance(backbone, Backbone):
        raise ValueError(f"{path!r} is not a backbone")
    return backbone


def read_description(path: Path) -> tuple[dict[str, Any], int]:
    """A backbone's description and the seed of its start weights, from a recipe or a YAML file of its own.

    Raises:
        ValueError: not YAML, or no backbone in it.
    """
    try:
        content = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not YAML: {str(error).splitlines()[0]}") from None
    description = content.get("backbone", content) if isinstance(content, dict) else None
    if not isinstance(description, dict) or "class_path" not in description:
        raise ValueError(f"{path}: names no backbone (a class_path, by itself or under backbone)")
    return description, int(content.get("seed") or 0)


def untrained(path: Path, trust: bool = False) -> Backbone:
    """The backbone of a YAML file with the start weights of its seed."""
    description, seed = read_description(path)
    torch.manual_seed(seed)
    return build_backbone(description, trust)
