"""Teachers: models or embeddings files that are opened and checked before a training, and their common network."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor, nn

from verisphere.backbones.backbone import Backbone
from verisphere.base.trained_on import image_digests
from verisphere.base.vocabulary import Embeddings, ImageSource, Origin
from verisphere.files.embeddings import read_embeddings
from verisphere.files.json_values import shown
from verisphere.files.sharded import digest_of_embeddings, holds_embeddings
from verisphere.images.faces import Faces
from verisphere.images.select import even_steps
from verisphere.models.embed import EmbeddingModel, open_model, origin_of
from verisphere.score.cosine import unit

log = logging.getLogger(__name__)

Centers = Literal["auto", "own", "means"]
Images = Literal["same", "plain"]


@dataclass(frozen=True)
class Distillation:
    """The teachers of a training, and how it follows them; without teachers nothing is distilled.

    The paper adds an L2 regression between the embeddings with weight 1 and a KL divergence between the class-wise
    similarities with weight 0.1 to ArcFace. It writes neither whether the embeddings have unit length, nor direction
    and scale of the divergence. Here the L2 is the squared Euclidean distance of unit embeddings, mean over the
    batch, and the divergence KL(teacher || student).

    Attributes:
        teachers: folders of runs, checkpoints, exported or adopted models, or embeddings files (.npz) that name every
            training image; of several, the mean of their unit embeddings is followed.
        l2: weight of the squared distance between the unit embeddings of student and teacher.
        kl: weight of the divergence between their softmaxes over the classes; the loss must compare cosines.
        scale: factor from cosine to logit in that softmax, for teacher and student alike.
        centers: class centers of the teacher: own, those that it was trained with, matched by the names of the people;
            means, the mean of its unit embeddings of each person's training images; auto, its own where it has one
            center for everybody, else means.
        start_centers: whether the student's class centers start as the teacher's.
        projection: whether the student's embeddings pass through a learned matrix before the L2, which embeddings of
            another size need; it is not a part of the model.
        images: what the teacher sees: same, the image as the student does, augmented; or plain, the image as it is. Of
            plain images, and of images that are at most flipped, its embeddings are computed once and kept.
        cache: folder in which these embeddings are kept, so that other trainings with this teacher and these images use
            them; null keeps them in the folder of the run.
        trust_code: whether teachers may have a network from outside verisphere, whose code is then run.
    """

    teachers: list[str] = field(default_factory=list)
    l2: float = 1.0
    kl: float = 0.1
    scale: float = 64.0
    centers: Centers = "auto"
    start_centers: bool = False
    projection: bool = False
    images: Images = "same"
    cache: str | None = None
    trust_code: bool = False

    def __post_init__(self) -> None:
        for name in ("l2", "kl"):
            if not (isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise ValueError(f"distill.{name} is {getattr(self, name)}; a weight is a number and not negative")
        if not (isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"distill.scale is {self.scale}; it must be a positive number (64 is usual)")
        if self.teachers and not (self.l2 or self.kl or self.start_centers):
            raise ValueError(
                "distill has teachers, but l2 and kl are 0 and start_centers is false: nothing is distilled"
            )
        if self.projection and not self.l2:
            raise ValueError("distill.projection is for the L2, whose weight distill.l2 is 0")

    @property
    def needs_centers(self) -> bool:
        """Whether the teacher's class centers are used."""
        return bool(self.teachers) and (self.kl > 0 or self.start_centers)


_COMPARED = 32  # training images whose pixels are compared with those of an embeddings file
#: How a recipe allows what commands allow by an option.
_BY_A_FIELD = "allow it by --trust-code", "allow it by distill.trust_code: true"


class TeacherNetwork(Backbone):
    """Models as one network: the sum of their unit embeddings, from RGB pixels in [0, 255].

    A model that was exported with the flip adds the embedding of the mirror image to its own, as everywhere.
    All models have one embedding size and one input size.
    """

    mean, scale = 0.0, 1.0

    def __init__(self, models: Sequence[EmbeddingModel]) -> None:
        super().__init__(models[0].backbone.embedding_size)
        self.input_size = models[0].backbone.input_size
        self.networks = nn.ModuleList(model.backbone for model in models)
        self._flips = [bool(model.flip) and not model.fixed for model in models]
        self.mirrored = False
        self.requires_grad_(False).eval()

    def embed(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch dim"]:
        """The sum of the unit embeddings, of the mirror images where `mirrored` is set."""
        images = images.flip(-1) if self.mirrored else images
        total = images.new_zeros(len(images), self.embedding_size)
        for network, flip in zip(self.networks, self._flips, strict=True):
            assert isinstance(network, Backbone)
            normalised = (images - network.mean) / network.scale
            embedded = network(normalised).float()
            total += unit(embedded + network(normalised.flip(-1)).float() if flip else embedded)
        return total

    def train(self, mode: bool = True) -> "TeacherNetwork":
        """Stay in evaluation mode."""
        return super().train(False)


@dataclass(frozen=True, eq=False)
class Teachers:
    """The teachers of a training.

    Attributes:
        paths: what was opened, in the order of the recipe.
        sha256: digest of the weights, or the file, of each; a continued training must find them again.
        origins: how each embeds, without images; None of an embeddings file, whose digest includes it.
        network: the models among them; None if all are embeddings files.
        rows: sum of the unit embeddings of the embeddings files, a row for each training image; None without files.
    """

    settings: Distillation
    paths: tuple[Path, ...]
    sha256: tuple[str, ...]
    origins: tuple[Origin | None, ...]
    network: TeacherNetwork | None
    rows: Float32[np.ndarray, "images dim"] | None
    size: int


def open_teachers(settings: Distillation, faces: Faces | None, student: Backbone, device: torch.device) -> Teachers:
    """Open the teachers, and check that they fit student and images; without images (a dry run), the models alone."""
    paths = tuple(Path(name) for name in settings.teachers)
    models: list[EmbeddingModel] = []
    files: list[Float32[np.ndarray, "images dim"]] = []
    digests, sizes, origins = [], [], list[Origin | None]()
    for path in paths:
        if holds_embeddings(path):
            rows = _rows_of(path, faces)
            files.append(rows)
            digests.append(digest_of_embeddings(path))
            origins.append(None)
            sizes.append(rows.shape[1])
            continue
        try:
            model = open_model(path, device, settings.trust_code)
        except ValueError as error:
            raise ValueError(f"distill.teachers: {error}".replace(*_BY_A_FIELD)) from None
        if model.sha256 is None:
            raise ValueError(f"distill.teachers: {path} is a recipe, whose network is untrained; name a run or a model")
        if model.backbone.input_size != student.input_size:
            (height, width), (own_height, own_width) = model.backbone.input_size, student.input_size
            raise ValueError(
                f"distill.teachers: {path} takes images of {height} x {width} pixels and the student {own_height} x "
                f"{own_width}; embed the training images by it, and name the embeddings file"
            )
        if faces is not None:
            mend = "align them to that, or embed its own crops of the photographs by it, and name the embeddings file"
            faces.source.check_template(model.template, f"distill.teachers: {faces.source.place}", str(path), mend)
        models.append(model)
        digests.append(model.sha256)
        origins.append(origin_of(model, bool(model.flip), torch.float32, "", ImageSource("")))
        sizes.append(model.backbone.embedding_size)
    if len(set(sizes)) > 1:
        named = ", ".join(f"{path} {size}" for path, size in zip(paths, sizes, strict=True))
        raise ValueError(f"distill.teachers have embeddings of different sizes ({named}); a mean needs one size")
    own = student.embedding_size
    if settings.l2 and sizes[0] != own and not settings.projection:
        raise ValueError(
            f"distill.l2 compares embeddings, of which the student's have {own} numbers and the teacher's {sizes[0]}: "
            f"set backbone.embedding_size to {sizes[0]}, or distill.projection to true, or distill.l2 to 0"
        )
    if settings.start_centers and sizes[0] != own:
        raise ValueError(
            f"distill.start_centers: the student's embeddings have {own} numbers and the teacher's centers {sizes[0]}"
        )
    network = TeacherNetwork(models).to(device) if models else None
    of_files = sum(files[1:], files[0]) if files else None
    return Teachers(settings, paths, tuple(digests), tuple(origins), network, of_files, sizes[0])


def _rows_of(path: Path, faces: Faces | None) -> Float32[np.ndarray, "images dim"]:
    """The unit embedding of every training image in an embeddings file, in the order of the images."""
    read = read_embeddings(path)
    names = read.names if faces is None else np.array(faces.names)
    place = {name: row for row, name in enumerate(read.names.tolist())}
    missing = [name for name in names.tolist() if name not in place]
    if missing:
        raise ValueError(
            f"distill.teachers: {path} has no embedding of {len(missing):,} of the {len(names):,} training images, the "
            f"first is {shown(missing[0], 200)}"
        )
    rows = unit(torch.from_numpy(read.embeddings[[place[name] for name in names.tolist()]])).numpy()
    without = np.flatnonzero(~(np.einsum("ij,ij->i", rows, rows) > 0.5))
    if len(without):
        raise ValueError(
            f"distill.teachers: {path}: the embedding of {shown(str(names[without[0]]), 200)} has no direction"
        )
    if faces is not None and read.in_training is not None and read.in_training.digests is not None:
        _warn_of_other_pixels(path, faces, read.in_training.digests[[place[name] for name in names.tolist()]], read)
    return rows


def _warn_of_other_pixels(path: Path, faces: Faces, digests: Int64[np.ndarray, " images"], read: Embeddings) -> None:
    """Warn where a file was made of other pixels than training images of the same names, if they are of its size."""
    places = even_steps(len(faces), _COMPARED)
    try:
        images = faces.images(places.tolist()).numpy()
    except (ValueError, OSError):  # an unreadable image, which the training counts
        return
    made = None if read.origin is None else read.origin.preprocessing
    if made is None or tuple(made.size) != images.shape[2:]:
        return
    if other := int((image_digests(images) != digests[places]).sum()):
        log.warning(
            "distill.teachers: %s was made of other pixels than %d of %d training images of the same names that were "
            "compared; if they are not the same photographs, the student learns nothing of use",
            path, other, len(places),
        )  # fmt: skip
