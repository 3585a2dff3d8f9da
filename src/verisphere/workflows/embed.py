"""From a model and images to an embeddings file."""

from pathlib import Path

import torch

from verisphere.embed.backbone import Backbone
from verisphere.embed.load import build_backbone, untrained
from verisphere.train.checkpoint import load_into, read_checkpoint


def open_backbone(model: Path, device: torch.device, trust: bool = False) -> Backbone:
    """The backbone of a run or checkpoint folder; or, untrained, that of a recipe or backbone YAML.

    Args:
        model: folder of a run (its newest checkpoint), of one checkpoint, or a YAML file.
        device: where to put it.
        trust: also build classes from outside verisphere, which runs their code.

    Raises:
        FileNotFoundError: there is nothing at `model`.
        ValueError: it holds no backbone, or a damaged one.
    """
    if model.suffix in (".yaml", ".yml"):
        if not model.is_file():
            raise FileNotFoundError(f"{model}: there is no such file")
        backbone = untrained(model, trust)
    else:
        checkpoint = read_checkpoint(model)
        description = checkpoint.state.get("backbone")
        if not isinstance(description, dict):
            raise ValueError(f"{checkpoint.path / 'state.json'}: names no backbone")
        try:
            backbone = build_backbone(description, trust)
        except ValueError as error:
            raise ValueError(f"{checkpoint.path}: {error}") from None
        load_into(backbone, checkpoint.tensors("backbone"), str(checkpoint.path))
    return backbone.to(device=device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
