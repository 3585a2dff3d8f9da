"""The photographs of an inversion: the targets of the images, and those that images are compared with."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor, nn

from verisphere.base.seeds import Stream, mixed_seed
from verisphere.base.trained_on import image_digests
from verisphere.base.vocabulary import NOBODY, Progress, quietly
from verisphere.images.decoded_faces import InMemory
from verisphere.images.faces import Faces
from verisphere.models.embed import EmbeddingModel, embed
from verisphere.score.cosine import unit

_CHOICE = 2  # purposes of random numbers; the descent uses 0 and 1
_MOST_PHOTOS = 10  # photographs of a person that an image is compared with, besides its own
_AT_ONCE = 64  # photographs that are in memory for their digests
_FEWEST_OTHERS = 200  # people who are not generated, a photograph each, if there are as many


@dataclass(frozen=True, eq=False)
class Photographs:
    """Positions in a set of faces."""

    faces: Faces
    given: tuple[int, ...]  # the target of each image; for a class center, a photograph of the person
    own: tuple[tuple[int, ...], ...]  # of each image, the others of its person, without those of equal pixels
    others: tuple[int, ...]  # one of each of some people who are not generated
    open_set: bool  # whether the photographs in `given` are the targets

    @property
    def people(self) -> tuple[str, ...]:
        """The person of each image."""
        return tuple(self.faces.identities[place] for place in self.given)


def chosen_people(faces: Faces, count: int, seed: int) -> list[str]:
    """People drawn at random; people with two photographs or more come before the others."""
    people = faces.people
    counts = np.bincount(faces.labels[faces.labels >= 0].numpy(), minlength=len(people))
    if len(people) < count:
        raise ValueError(f"{len(people):,} people, and {count:,} images of different people were asked for")
    order = np.random.default_rng(mixed_seed(Stream.INVERSION, seed, _CHOICE)).permutation(len(people)).tolist()
    order.sort(key=lambda place: bool(counts[place] < 2))  # stable: the draw decides among equals
    return [people[place] for place in order[:count]]


def with_two_photographs(faces: Faces) -> int:
    """The number of people with two photographs or more."""
    return int((np.bincount(faces.labels[faces.labels >= 0].numpy()) > 1).sum())


def photographs_of(
    faces: Faces, people: Sequence[str], count: int, seed: int, given: Sequence[int] | None = None
) -> Photographs:
    """The photographs of an inversion; without `given` targets the first of each person, for a closed set."""
    of_person: dict[str, list[int]] = {person: [] for person in people}
    strangers: dict[str, int] = {}
    for place, person in enumerate(faces.identities):
        if person in of_person:
            of_person[person].append(place)
        elif person != NOBODY:
            strangers.setdefault(person, place)
    missing = next((person for person, places in of_person.items() if not places), None)
    if missing is not None:
        raise ValueError(f"no photograph of {missing!r}, whom an image is to show")
    open_set = given is not None
    chosen = [of_person[person][0] for person in people] if given is None else list(given)
    of_image = [of_person[person][: 2 * _MOST_PHOTOS] for person in people]
    several = sorted({*chosen, *(place for places in of_image if len(places) > 1 for place in places)})
    content = dict(zip(several, photograph_digests(faces, several).tolist(), strict=True))
    own = tuple(
        tuple([
            place for place in places if (not open_set if place == photo else content[place] != content[photo])
        ][:_MOST_PHOTOS])
        for places, photo in zip(of_image, chosen, strict=True)
    )  # fmt: skip
    names = sorted(strangers)
    order = np.random.default_rng(mixed_seed(Stream.INVERSION, seed, _CHOICE + 1)).permutation(len(names)).tolist()
    others = tuple(strangers[names[place]] for place in order[: max(count, _FEWEST_OTHERS)])
    return Photographs(faces, tuple(chosen), own, others, open_set)


def unit_embeddings(
    model: EmbeddingModel, pixels: UInt8[Tensor, "count 3 height width"], progress: Progress = quietly
) -> Float[Tensor, "count dim"]:
    """Unit embeddings of images in memory, resampled if need be, without their mirror images, in float64."""
    size = model.backbone.input_size
    if tuple(pixels.shape[2:]) != tuple(size):
        resampled = nn.functional.interpolate(pixels.float(), size, mode="bilinear", antialias=True)
        pixels = resampled.round().clamp(0, 255).to(torch.uint8)
    names = [str(place) for place in range(len(pixels))]
    faces = InMemory(pixels, names, names)
    flip = model.flip if model.fixed else False
    embeddings = embed(model, faces, "", flip=flip, progress=progress)
    return unit(torch.from_numpy(embeddings.embeddings).double())


def photograph_digests(
    faces: Faces, places: Sequence[int], progress: Progress = quietly
) -> Int64[np.ndarray, " places"]:
    """A digest of the pixels at each position; equal pixels have equal digests."""
    parts = [places[start : start + _AT_ONCE] for start in range(0, len(places), _AT_ONCE)]
    return np.concatenate([
        np.empty(0, np.int64),
        *(image_digests(faces.images(part).numpy()) for part in progress(parts, "reading photographs", len(parts))),
    ])  # fmt: skip


def labels_of(people: Sequence[str], classes: Sequence[str]) -> Int64[Tensor, " people"]:
    """The label of each person among classes."""
    number = {person: label for label, person in enumerate(classes)}
    absent = next((person for person in people if person not in number), None)
    if absent is not None:
        raise ValueError(f"{absent!r} is none of the {len(classes):,} people that the model was trained on")
    return torch.tensor([number[person] for person in people])
