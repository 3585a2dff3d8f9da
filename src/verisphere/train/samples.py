"""The batches of a training: shuffled by the seed, read, augmented, and divided over ranks and parts."""

import json
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from verisphere.base.collectives import gather_text
from verisphere.base.seeds import Stream, mixed_seed
from verisphere.files.json_values import shown
from verisphere.images.augment import augment, mirrored_images
from verisphere.images.faces import Faces
from verisphere.images.loader import UnreadableImages, batches, buffered_order, grouped_order
from verisphere.images.packs.columns import coded
from verisphere.models.checkpoint import Checkpoint
from verisphere.train.distill.taught import Taught
from verisphere.train.images_seen import ImagesSeen
from verisphere.train.loop import Length
from verisphere.train.processes import Division
from verisphere.train.recipe import Recipe
from verisphere.train.sample import Part, Sample

KEY = "unreadable"  # in the checkpoint's state


def unreadable_of_ranks(unreadable: UnreadableImages) -> set[int]:
    """Positions of the unreadable images that any rank has found; every rank must call this."""
    positions: set[int] = set()
    for text in gather_text(json.dumps(sorted(unreadable.positions))):
        positions.update(json.loads(text))
    if len(positions) > unreadable.allowed:
        raise ValueError(
            f"{len(positions)} images cannot be read, counted over all ranks, more than max_unreadable "
            f"{unreadable.allowed} allows; the log of each rank names its own"
        )
    return positions


def unreadable_before(checkpoint: Checkpoint) -> list[int]:
    """Positions of the training images that could not be read before the checkpoint."""
    positions = checkpoint.state.get(KEY, [])
    if isinstance(positions, list) and all(type(position) is int and position >= 0 for position in positions):
        return positions
    raise ValueError(f"{checkpoint.path / 'state.json'}: {KEY} is {shown(positions)}, not a list of positions")


def samples(
    recipe: Recipe,
    faces: Faces,
    device: torch.device,
    length: Length,
    division: Division,
    first_step: int,
    unreadable: UnreadableImages,
    taught: Taught | None = None,
    seen: ImagesSeen | None = None,
) -> Iterator[Sample]:
    """This rank's rows of the batches from `first_step` to the end; the same whether or not the run was interrupted."""
    labels, domains, places = faces.labels, _domain_numbers(faces), division.places
    normalisation = recipe.backbone.mean, recipe.backbone.scale
    parts = tuple(Part(len(own), weight) for own, weight in zip(division.own, division.weights, strict=True))
    workers = 0 if recipe.in_memory else recipe.workers  # rows of a tensor in memory need no process to read them
    step = first_step
    while step < length.end:
        indices_of_rank = batches_from(recipe, labels, length, step)[:, places].flatten()
        cuda, allowed = device.type == "cuda", unreadable.allowed
        for batch in batches(faces, indices_of_rank, len(places), workers, pin=cuda, max_unreadable=allowed):
            unreadable.count(batch)
            if seen is not None:
                seen.add(batch)
            seed, mean, scale = mixed_seed(Stream.AUGMENTATION, recipe.seed, step), *normalisation
            images = augment(batch.images.to(device, non_blocking=True), recipe.augment, seed, mean, scale, places)
            teacher = None
            if taught is not None:
                pixels = images * scale + mean if taught.live else images
                teacher = taught.rows(batch.indices, mirrored_images(recipe.augment, seed, places), pixels)

            def records(positions: Sequence[int], indices: torch.Tensor = batch.indices) -> list[str]:
                return [faces.names[int(indices[position])] for position in positions]

            own_labels = labels[batch.indices].to(device, non_blocking=True)
            own_domains = None if domains is None else domains[batch.indices].to(device, non_blocking=True)
            yield Sample(images, own_labels, records, parts, recipe.batch_size, own_domains, teacher)
            step += 1
            if step == length.end:
                return


def batches_from(
    recipe: Recipe, labels: Int64[Tensor, " images"], length: Length, step: int
) -> Int64[Tensor, "steps batch"]:
    """The positions of the images of each batch from a step to the end of its epoch."""
    epoch, inside = divmod(step, length.steps_per_epoch)
    if recipe.shuffle_buffer is None:
        order = grouped_order(labels, recipe.images_per_identity, recipe.seed, epoch)
    else:
        order = buffered_order(len(labels), recipe.shuffle_buffer, recipe.seed, epoch)
    return order[: length.steps_per_epoch * recipe.batch_size].view(length.steps_per_epoch, recipe.batch_size)[inside:]


def _domain_numbers(faces: Faces) -> torch.Tensor | None:
    """For each image, the position of its domain among the sorted names."""
    if faces.domains is None:
        return None
    column = coded(faces.domains)
    number = {name: place for place, name in enumerate(sorted(column.present()))}
    return torch.from_numpy(np.array([number.get(name, -1) for name in column.values], np.int64)[column.codes])
