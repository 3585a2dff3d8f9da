"""The batches of a training: shuffled by the seed, read, augmented, and divided over processes and parts."""

from collections.abc import Iterator, Sequence

import torch

from verisphere.images.augment import augment
from verisphere.images.faces import Faces
from verisphere.images.loader import batches, grouped_order
from verisphere.seeds import Stream, mixed_seed
from verisphere.train.loop import Length
from verisphere.train.processes import Division
from verisphere.train.recipe import Recipe
from verisphere.train.sample import Part, Sample


def samples(
    recipe: Recipe, faces: Faces, device: torch.device, length: Length, division: Division, first_step: int
) -> Iterator[Sample]:
    """This process's rows of the batches from `first_step` to the end, whether or not the run was interrupted there."""
    labels, domains, places = faces.labels, _domain_numbers(faces), division.places
    parts = tuple(Part(len(own), weight) for own, weight in zip(division.own, division.weights, strict=True))
    workers = 0 if recipe.in_memory else recipe.workers  # taking rows of a tensor is no work for another process
    step = first_step
    while step < length.steps:
        epoch, inside = divmod(step, length.steps_per_epoch)
        order = grouped_order(labels, recipe.images_per_identity, recipe.seed, epoch)
        order = order[: length.steps_per_epoch * recipe.batch_size]
        own = order.view(length.steps_per_epoch, recipe.batch_size)[inside:, places].flatten()
        for batch in batches(faces, own, len(places), workers, pin=device.type == "cuda"):
            images = augment(
                batch.images.to(device, non_blocking=True),
                recipe.augment,
                mixed_seed(Stream.AUGMENTATION, recipe.seed, step),
                recipe.backbone.mean,
                recipe.backbone.scale,
                places,
            )

            def records(positions: Sequence[int], indices: torch.Tensor = batch.indices) -> list[str]:
                return [faces.names[int(indices[position])] for position in positions]

            own_labels = labels[batch.indices].to(device, non_blocking=True)
            own_domains = None if domains is None else domains[batch.indices].to(device, non_blocking=True)
            yield Sample(images, own_labels, records, parts, recipe.batch_size, own_domains)
            step += 1
            if step == length.steps:
                return


def _domain_numbers(faces: Faces) -> torch.Tensor | None:
    """Number of each image's domain, among the names sorted."""
    if faces.domains is None:
        return None
    number = {name: place for place, name in enumerate(sorted(set(faces.domains)))}
    return torch.tensor([number[name] for name in faces.domains], dtype=torch.int64)
