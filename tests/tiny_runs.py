"""Runs of a training that takes a second: its recipe, and what is read from the folder that it leaves."""

import json
from pathlib import Path

from verisphere.cli import main
from verisphere.models.checkpoint import list_checkpoints
from verisphere.train.recipe import ReadRecipe, read_recipe

OWN = Path(__file__).parent / "train"  # own_parts.py
RECIPE = """\
data: {class_path: own_parts.Noise, init_args: {people: 5, images: 4}}
backbone: {class_path: own_parts.TinyNet}
loss: {class_path: own_parts.OwnLoss}
augment: {crop: 0.1, brightness: 0.2, erase: 0.5}
optimizer: {rate: 0.02}
schedule: {warmup: 0.5, margin_warmup: 1.5}
epochs: 3
batch_size: 6
log_every: 1
save_every: 0.67
workers: 0
"""
STEPS = 9  # 20 images in batches of 6, three epochs


def read(recipe: Path, *overrides: str) -> ReadRecipe:
    """The recipe, with fields changed by `--field value` words."""
    return read_recipe(recipe, list(overrides))


def files(run: Path) -> dict[str, bytes]:
    """The newest checkpoint's tensors, as the bytes in their files."""
    path = list_checkpoints(run)[-1]
    return {file.name: file.read_bytes() for file in sorted(path.glob("*.safetensors"))} | {"name": path.name.encode()}


def metrics(run: Path) -> list[dict[str, float]]:
    """The entries of the run's log, without the speed."""
    entries = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in entry.items() if name != "images_per_second"} for entry in entries]


def command(*arguments: object) -> int:
    """Exit code of a command of verisphere."""
    return main(["--default-allocator", *map(str, arguments)])
