"""Restoring a training: from its own checkpoint when resumed, or with the weights that `start` names."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors.torch import load_file
from torch import Tensor, nn

from verisphere.backbones.backbone import Backbone
from verisphere.backbones.graph_network import GraphNetwork
from verisphere.base.distributed import world
from verisphere.base.identity import as_known, merge_hint
from verisphere.base.provenance import check_same_origin
from verisphere.base.vocabulary import ImageSource, Origin
from verisphere.files.class_paths import present_names
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import as_kind, shortened, shown
from verisphere.files.sharded import holds_embeddings
from verisphere.head.head import CENTER_STD, Head
from verisphere.images.faces import Faces
from verisphere.models.build import all_ours, build_backbone
from verisphere.models.checkpoint import Checkpoint, load_into, load_optimizer, read_checkpoint, shared_rows
from verisphere.models.folder import check_listed, is_model_folder, training_record
from verisphere.models.image_sources import recorded_sources
from verisphere.models.model_json import NAME, NETWORK, WEIGHTS, preprocessing, read_model_json
from verisphere.train.distill.teachers import Teachers
from verisphere.train.objective import Objective
from verisphere.train.recipe import Recipe
from verisphere.train.schedule import Plateau

#: Entry of a checkpoint's state for the digests of the teachers of a distillation.
TEACHERS = "teachers"
#: Entry for how they embed, None for an embeddings file; runs of earlier versions lack it.
TEACHER_ORIGINS = "teacher_origins"


def data_digest(faces: Faces, domains: Sequence[str] | None = None) -> dict[str, int | str]:
    """Digest of the data that a resumed run must find again: the same images of the same people in the same order."""
    digest = hashlib.sha256()
    for name, person in zip(faces.names, faces.identities, strict=True):
        digest.update(f"{name}\t{person}\n".encode())
    found: dict[str, int | str] = {"images": len(faces), "people": len(faces.people), "sha256": digest.hexdigest()}
    if domains is not None:
        found["domains"] = hashlib.sha256("\n".join(domains).encode()).hexdigest()
    return found


def models_before(recipe: Recipe) -> list[Path]:
    """The model that the recipe starts from, and those that it learns from."""
    return [Path(name) for name in (*([] if recipe.start is None else [recipe.start]), *recipe.distill.teachers)]


def image_sources(recipe: Recipe) -> tuple[ImageSource, ...]:
    """The images of the models that the recipe starts from and learns from, and those of the recipe."""
    before = [source for model in models_before(recipe) for source in _sources_of(model)]
    return (*dict.fromkeys(before), recipe.data.source)


def _sources_of(model: Path) -> tuple[ImageSource, ...]:
    """The images on which a run, a model, or the network behind an embeddings file was trained."""
    if holds_embeddings(model):
        return (ImageSource(f"an unknown set (by the embeddings in {model.name})"),)
    if model.suffix == ".onnx":
        return (ImageSource(f"an unknown set (by {model.name})"),)
    return _sources_of_model(model) if is_model_folder(model) else recorded_sources(read_checkpoint(model))


def _sources_of_model(folder: Path) -> tuple[ImageSource, ...]:
    """The images on which the model in a folder was trained; for an adopted model, a note that they are not known."""
    description = read_model_json(folder / NAME)
    if description.adopted is not None:
        return (ImageSource(f"an unknown set (adopted from {description.adopted.file})"),)
    return training_record(folder, description).sources


def loaded(
    path: Path, data: dict[str, int | str], objective: Objective, optimizer: torch.optim.Optimizer
) -> Checkpoint:
    """Load the checkpoint at a path into backbone, head, pair terms and optimizer, and return it."""
    checkpoint = read_checkpoint(path)
    before = checkpoint.state.get("data")
    if before != data:
        held = f"{before['images']} images of {before['people']} people" if isinstance(before, dict) else "unknown data"
        raise ValueError(
            f"{checkpoint.path} was trained on {held} but the recipe's data are now {data['images']} of "
            f"{data['people']}, or others; restore them, or start another run"
        )
    rows = shared_rows(objective.head, optimizer, objective.terms) if world().size > 1 else None
    load_into(objective.backbone, checkpoint.tensors("backbone"), f"{checkpoint.path}: backbone")
    load_into(objective.head, checkpoint.tensors("head", rows), f"{checkpoint.path}: head")
    if len(objective.terms):
        load_into(objective.terms, checkpoint.tensors("pairs", rows), f"{checkpoint.path}: pairs")
    load_optimizer(optimizer, checkpoint.tensors("optimizer", rows), f"{checkpoint.path}: optimizer")
    return checkpoint


def unlogged_figures(checkpoint: Checkpoint) -> dict[str, list[float]]:
    """Losses and figures of pair terms that were not logged before the checkpoint."""
    figures = checkpoint.state.get("figures", {})
    if isinstance(figures, dict) and all(
        isinstance(values, list) and values and all(isinstance(value, int | float) for value in values)
        for values in figures.values()
    ):
        return figures
    raise ValueError(f"{checkpoint.path / 'state.json'}: figures is {shown(figures)}; each has a list of numbers")


def plateau_of(recipe: Recipe, checkpoint: Checkpoint | None) -> Plateau | None:
    """The progress of the figure that the recipe's schedule follows; None for a schedule that follows none."""
    if recipe.schedule.shape != "plateau":
        return None
    if checkpoint is None:
        return Plateau()
    return Plateau.of_state(checkpoint.state.get("plateau"), str(checkpoint.path / "state.json"))


def check_teachers(teachers: Teachers | None, checkpoint: Checkpoint | None) -> None:
    """Refuse to continue a distillation with other teachers."""
    if teachers is None or checkpoint is None:
        return
    before = checkpoint.state.get(TEACHERS)
    if before == list(teachers.sha256):
        _check_taught_alike(teachers, checkpoint)
        return
    pairs = zip(before, teachers.sha256, strict=False) if isinstance(before, list) else ()
    changed = next((place for place, (old, new) in enumerate(pairs) if old != new), 0)
    raise ValueError(
        f"distill.teachers: {teachers.paths[changed]} is not the teacher that {checkpoint.path} was trained with; "
        "restore it, or start another run"
    )


def _check_taught_alike(teachers: Teachers, checkpoint: Checkpoint) -> None:
    """Refuse teachers of the same weights that embed otherwise, as far as a checkpoint records how they did."""
    with errors_naming(checkpoint.path / "state.json"):
        before = as_kind(tuple[Origin | None, ...], checkpoint.state.get(TEACHER_ORIGINS, []), TEACHER_ORIGINS)
    for path, ours, theirs in zip(teachers.paths, teachers.origins, before, strict=False):
        hint = "restore the teacher, or start another run"
        check_same_origin(f"distill.teachers: {path} is", ours, f"the teacher of {checkpoint.path}", theirs, hint)


def set_centers(head: Head, centers: Float[Tensor, "classes dim"] | None, start: bool) -> None:
    """Give a head the centers of its teacher, and start its own there if asked to.

    The head takes the centers of the classes that it holds, each of length 1; None changes nothing. With `start` the
    head's centers become the teacher's, at the length of new ones.
    """
    if centers is None:
        return
    held = centers[head.held.start : head.held.stop]
    head.set_teacher(held)
    if start:
        with torch.no_grad():
            head.centers[:, :, : head.size] = CENTER_STD * head.size**0.5 * held[:, None].to(head.centers)


def begin_with(recipe: Recipe, objective: Objective, optimizer: torch.optim.Optimizer) -> None:
    """Load backbone and centers of the run that the recipe starts from, or the backbone of a model folder."""
    assert recipe.start is not None
    if is_model_folder(recipe.start):
        _begin_with_model(Path(recipe.start), objective.backbone)
        return
    checkpoint = read_checkpoint(Path(recipe.start))
    where = f"start: {checkpoint.path}"
    load_into(objective.backbone, checkpoint.tensors("backbone"), f"{where}: backbone")
    _check_alike({}, checkpoint.state.get("backbone"), objective.backbone, where, "backbone of its recipe")
    if not recipe.start_head:
        return
    before = checkpoint.people
    if before is None:
        raise ValueError(
            f"{where}: its run has no people.txt to say whose centers these are; name a run, or take the backbone "
            "alone by --start_head false"
        )
    people = recipe.data.people
    spelled = as_known(people, before, recipe.data.names_rule)
    place = {name: row for row, name in enumerate(before)}
    order = [place.get(spelled[name], -1) for name in people]
    if sorted(order) != list(range(len(before))):
        hint = merge_hint(people, before)
        raise ValueError(
            f"{where} was trained on {len(before)} people but the recipe's data are of {len(people)}, or "
            f"others; {hint and f'{hint}; '}--start_head false takes the backbone alone"
        )
    alike = order == list(range(len(before)))  # merged names may sort otherwise; then each rank reads all centers
    rows = shared_rows(objective.head, optimizer) if world().size > 1 and alike else None
    stored, own = checkpoint.tensors("head", rows), objective.head.state_dict()
    if not alike:
        held = objective.head.held
        stored["centers"] = stored["centers"][order[held.start : held.stop]]
    # another loss may have other buffers; those that both have are copied
    fitting = {name: tensor for name, tensor in stored.items() if name in own and own[name].shape == tensor.shape}
    if "centers" not in fitting:
        raise ValueError(
            f"{where}: its centers are {tuple(stored['centers'].shape)}, this head's {tuple(own['centers'].shape)}; "
            "--start_head false takes the backbone alone"
        )
    objective.head.load_state_dict(own | fitting)


def _begin_with_model(folder: Path, backbone: Backbone) -> None:
    """Load the backbone of a model folder, which has no centers."""
    where, description = f"start: {folder}", read_model_json(folder / NAME)
    if description.weights != WEIGHTS:
        what = "a graph" if description.weights == NETWORK else "a function"
        raise ValueError(
            f"{where}: holds {description.weights}, {what} that cannot be trained; a model with {WEIGHTS} can"
        )
    if not (folder / WEIGHTS).is_file():
        raise FileNotFoundError(f"{where}: {WEIGHTS} is not there; copy the model folder anew")
    check_listed(folder / WEIGHTS)
    load_into(backbone, load_file(folder / WEIGHTS), f"{where}: backbone")
    _check_alike(description.preprocessing, description.backbone, backbone, where, f"backbone of its {NAME}")


def _check_alike(recorded: Mapping[str, Any], of_weights: Any, backbone: Backbone, where: str, what: str) -> None:
    """Refuse a backbone that has the names and shapes of the weights, but would compute other embeddings."""
    before, now = dict(recorded), preprocessing(backbone)
    described = present_names(of_weights)
    if described is not None and all_ours(described):
        with torch.device("meta"):  # uses no memory: only the arguments are compared
            built = build_backbone(described)
            before = {**preprocessing(built), **before, **_computed(built)}
        now |= _computed(backbone)
    for name, value in now.items():
        if name in before and before[name] != value:
            raise ValueError(
                f"{where}: {name} of its backbone is {shortened(str(before[name]), 200)} and that of the recipe's "
                f"{shortened(str(value), 200)}; take the {what}: {shown(described, 400)}"
            )


def _computed(backbone: Backbone) -> dict[str, Any]:
    """The settings that no weight shows, by name: what batch norms add to a variance, and the operators of a graph."""
    steps = backbone.steps if isinstance(backbone, GraphNetwork) else ()
    return {
        **{f"operator {place}": step for place, step in enumerate(steps, start=1)},
        **({"number of operators": len(steps)} if steps else {}),
        **{
            f"{name}.eps": part.eps
            for name, part in backbone.named_modules()
            if isinstance(part, nn.modules.batchnorm._BatchNorm)
        },
    }
