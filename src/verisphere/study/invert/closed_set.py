"""The head of a trained model: its class centers, the loss of their training, and the people of the classes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load_file
from torch import Tensor

from verisphere.base.trained_on import TrainedOn, is_name, name_digest
from verisphere.base.words import Names
from verisphere.files.class_paths import present_names
from verisphere.files.definitions import names_class
from verisphere.files.documents import read_yaml_file
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
from verisphere.head import Dense, Head, SubCenters
from verisphere.losses import ClassLoss
from verisphere.models.checkpoint import load_into
from verisphere.models.folder import is_model_folder, load, trained_on_of_folder
from verisphere.models.model_json import HEAD, RECIPE
from verisphere.models.named_class import build_named
from verisphere.models.run_head import open_head
from verisphere.train.recipe import Recipe


@dataclass(frozen=True, eq=False)
class ClosedSet:
    """The class centers of a model, in evaluation mode; the person of each, or what a training recorded of names."""

    head: Head
    people: tuple[str, ...] | None
    trained_on: TrainedOn | None = None

    def named(self, people: tuple[str, ...], data: str, how: Names | None = None) -> tuple[str, ...]:
        """The person of each class, from the model or from the data that it was trained on, which took names so."""
        if self.people is not None:
            return self.people
        if len(people) != self.head.classes:
            raise ValueError(
                f"{data}: {len(people):,} people, and the head has {self.head.classes:,} classes; the data must be "
                "those that the model was trained on"
            )
        record, strange = self.trained_on, list[str]()
        if record is not None and record.classes is not None:  # equal names have one order
            classes = {*record.classes.tolist()}
            strange = [name for name in people if name_digest(name, written=True) not in classes]
        elif record is not None and len(record.people):
            known = record.rows(np.array(people), np.zeros(len(people), np.int64), how).people.tolist()
            strange = [name for name, trained in zip(people, known, strict=True) if is_name(name) and not trained]
        if strange:
            raise ValueError(
                f"{data}: the model was not trained on {shown(strange[0], 100)}, by its digests of names; the data "
                "must be those that the model was trained on, with names as they were written"
            )
        return people


def open_closed_set(model: Path, trust: bool = False) -> ClosedSet:
    """The class centers of a run, of one of its checkpoints, or of a model folder that was exported with its head."""
    if is_model_folder(model):
        load(model, "cpu", trust)  # raises if a file was changed
        if not (model / HEAD).is_file():
            raise ValueError(f"{model}: exported without its head, so there are no centers; name its run")
        return ClosedSet(
            _head(load_file(model / HEAD), model / RECIPE, str(model / HEAD), trust),
            None,
            trained_on_of_folder(model),
        )
    run = open_head(model)
    recipe = run.checkpoint.path.parent.parent / RECIPE
    head = _head(run.checkpoint.tensors("head"), recipe, f"{run.checkpoint.path}: head", trust)
    return ClosedSet(head, run.people)


def _head(tensors: Mapping[str, Tensor], recipe: Path, where: str, trust: bool) -> Head:
    if not recipe.is_file():
        raise ValueError(f"{recipe}: not there; it says by which loss the centers were trained")
    fields = present_names(read_yaml_file(recipe))
    if not isinstance(fields, dict) or not names_class(fields.get("loss")):
        raise ValueError(f"{recipe}: names no loss (a class_path); was it changed?")
    centers = tensors.get("centers")
    if centers is None or centers.dim() != 3:
        raise ValueError(f"{where}: no centers (classes, subcenters, dim)")
    with errors_naming(recipe):
        loss = build_named(fields["loss"], ClassLoss, "verisphere.losses.", "loss", trust)
        if loss.class_domains:
            raise ValueError("its loss has a margin for each domain, and the head does not say whose class lies where")
        sub_centers = _sub_centers(fields)
        size = centers.shape[2] - loss.class_bias
        head = Head(loss, len(centers), size, centers=sub_centers, engine=Dense())
    load_into(head, dict(tensors), where)
    return head.eval().requires_grad_(False)


def _sub_centers(fields: Mapping[str, Any]) -> SubCenters:
    names = ("subcenters", "pooling", "temperature")  # the pull between sub-centers has no effect on an image
    given = {name: fields.get(name, getattr(Recipe, name)) for name in names}
    return SubCenters(given["subcenters"], given["pooling"], given["temperature"])
