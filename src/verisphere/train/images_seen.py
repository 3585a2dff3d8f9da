"""The images that a training has seen, as digests for the record in its checkpoints."""

import logging

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from verisphere.base.collectives import counts, gathered
from verisphere.base.trained_on import UNNAMED, TrainedOn, image_digests, is_name, name_digests
from verisphere.base.vocabulary import NOBODY
from verisphere.images.faces import Faces
from verisphere.images.loader import Batch
from verisphere.models.checkpoint import Checkpoint
from verisphere.models.embed import trained_on
from verisphere.models.trained_on import of_checkpoint
from verisphere.train.recipe import Recipe
from verisphere.train.restore import models_before

log = logging.getLogger(__name__)

_COMPARED = 32  # images of a resumed training whose pixels are compared


class ImagesSeen:
    """Collects the digest of each image at its first use; a training that ends early records those that it used.

    `before` records what the models that the training started from were trained on, or what came before its checkpoint.
    """

    def __init__(self, faces: Faces, before: TrainedOn) -> None:
        people = {*faces.people, *(faces.true_identities or ())}
        self.before, self.people = before, name_digests(people)
        self.written = name_digests(people, written=True) if faces.names_rule == "exact" else None
        self.gap = UNNAMED if len(self.people) and not all(is_name(name) for name in people - {NOBODY}) else ""
        self.digests: Int64[np.ndarray, " images"] = np.zeros(len(faces), np.int64)
        self.seen = np.zeros(len(faces), bool)

    def add(self, batch: Batch) -> None:
        """Take the images of a batch that were not used earlier."""
        places = batch.indices.numpy()
        new = np.flatnonzero(~self.seen[places])
        self.digests[places[new]] = image_digests(batch.images.numpy()[new])
        self.seen[places[new]] = True

    def record(self) -> TrainedOn:
        """The people and images of all ranks so far; every rank must call this."""
        own = torch.from_numpy(self.digests[self.seen])
        images = gathered(own, counts(len(own))).numpy()
        return TrainedOn(self.people, images, self.gap, self.written).after([self.before])


def trained_before(recipe: Recipe, checkpoint: Checkpoint | None) -> TrainedOn:
    """The record of a training that begins: that of its checkpoint, or of the models that it starts or learns from."""
    if checkpoint is not None:
        return of_checkpoint(checkpoint)
    return TrainedOn.unknown("").after([trained_on(model) for model in models_before(recipe)])


def warn_of_other_images(faces: Faces, checkpoint: Checkpoint, used: Int64[Tensor, " batch"]) -> None:
    """Warn where images that were used just before a checkpoint are others now, under their names."""
    known, places = of_checkpoint(checkpoint).images, used[:_COMPARED].tolist()
    try:
        now = image_digests(faces.images(places).numpy())
    except (ValueError, OSError):  # an unreadable image, which the training counts
        return
    if len(known) and (other := int((~np.isin(now, known)).sum())):
        log.warning(
            "data: %d of %d images that %s was trained on last have other pixels now, under the same names; if they "
            "are not the same photographs, start another run",
            other, len(places), checkpoint.path,
        )  # fmt: skip


def warn_of_people_before(recipe: Recipe) -> None:
    """Warn where people of the validation are in the record of the models that a training starts or learns from."""
    assert recipe.validation is not None
    people, how = np.array(recipe.validation.people, str), recipe.validation.names_rule
    known = trained_before(recipe, None).rows(people, np.zeros(len(people), np.int64), how).people.sum()
    if known:
        log.warning(
            "validation: what the training starts or learns from was trained on %d of its %d people (by name); a "
            "network knows those, so the validation says little of others",
            known, len(recipe.validation.people),
        )  # fmt: skip
