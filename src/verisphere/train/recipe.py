"""A recipe: everything that decides a training, as data. YAML in, a typed object out, and the resolved YAML back."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import jsonargparse
import torch
import yaml

from verisphere.data.augment import Augment
from verisphere.data.faces import Faces
from verisphere.embed.backbone import Backbone
from verisphere.losses.contract import ClassLoss
from verisphere.train.optimizer import Optimizer
from verisphere.train.schedule import Schedule


@dataclass(frozen=True, eq=False)
class Recipe:
    """A training, in full.

    Data, backbone and loss are given by class path and arguments; one's own class is named by its import path.

    Attributes:
        data: images to train on; each identity becomes a class.
        backbone: network that makes the embeddings.
        loss: class-center loss.
        subcenters: centers a class (ArcFace eq. 7).
        engine: how the head runs the loss.
        augment: how images are varied.
        optimizer: sgd or adamw, and its rates.
        schedule: of learning rate and margin, in epochs.
        epochs: length of the training.
        batch_size: images a step; an epoch's incomplete last batch is left out.
        precision: of the backbone: float32, or bfloat16 by autocast; the head is always float32.
        clip: largest gradient norm over the backbone; null does not clip.
        compile: compile the backbone, where a compiler is at hand.
        seed: of weights, order, augmentation.
        validation: images to measure TAR on while training; null measures nothing.
        validation_far: target FARs of that.
        validate_every: epochs between validations; 0 validates at the end alone.
        save_every: epochs between checkpoints.
        log_every: steps between entries of the log.
        workers: processes that read images; 0 reads in the training process.
        in_memory: read all training images once, before training.
    """

    data: Faces
    backbone: Backbone
    loss: ClassLoss
    subcenters: int = 1
    engine: str = "dense"
    augment: Augment = field(default_factory=Augment)
    optimizer: Optimizer = field(default_factory=Optimizer)
    schedule: Schedule = field(default_factory=Schedule)
    epochs: float = 20.0
    batch_size: int = 128
    precision: Literal["float32", "bfloat16"] = "float32"
    clip: float | None = None
    compile: bool = False
    seed: int = 0
    validation: Faces | None = None
    validation_far: tuple[str, ...] = ("1e-2", "1e-3")
    validate_every: float = 0.0
    save_every: float = 1.0
    log_every: int = 50
    workers: int = 1
    in_memory: bool = False

    def __post_init__(self) -> None:
        for name, least in (("batch_size", 2), ("subcenters", 1), ("log_every", 1), ("workers", 0), ("seed", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if self.seed >= 2**31:
            raise ValueError(f"seed must be below 2^31, got {self.seed}")
        for name in ("epochs", "save_every"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip must be positive, or null not to clip, got {self.clip}")
        if self.validate_every < 0:
            raise ValueError(f"validate_every must not be negative, got {self.validate_every}")


@dataclass(frozen=True, eq=False)
class ReadRecipe:
    """A recipe as an object and as the data it was read from.

    Attributes:
        recipe: the objects.
        resolved: every field with its value, as plain data.
    """

    recipe: Recipe
    resolved: dict[str, Any]

    @property
    def yaml(self) -> str:
        """The resolved recipe as YAML, which reads back to the same training."""
        return yaml.safe_dump(self.resolved, sort_keys=False)


def read_recipe(path: Path | None, overrides: list[str]) -> ReadRecipe:
    """Read a YAML recipe, any field of it overridden by `--field value`.

    The seed is set before the backbone is built, so a recipe gives the same start weights each time.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: an unknown field, a value of the wrong kind, or a value its field does not allow.
    """
    if path is not None and not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such recipe")
    parser = jsonargparse.ArgumentParser(exit_on_error=False, prog="recipe")
    parser.add_argument("--recipe", action="config")
    parser.add_class_arguments(Recipe)
    where = f"{path}: " if path is not None else "recipe: "
    try:
        settings = parser.parse_args([*(["--recipe", str(path)] if path is not None else []), *overrides])
    except jsonargparse.ArgumentError as error:
        raise ValueError(where + _one_line(error)) from None
    del settings["recipe"]
    resolved = yaml.safe_load(parser.dump(settings, skip_validation=True))
    torch.manual_seed(settings["seed"])
    built = parser.instantiate_classes(settings)
    return ReadRecipe(Recipe(**{name: built[name] for name in Recipe.__dataclass_fields__}), resolved)


def _one_line(error: Exception) -> str:
    lines = [line.strip(" -") for line in str(error).splitlines()]
    return "; ".join(line for line in lines if line)
