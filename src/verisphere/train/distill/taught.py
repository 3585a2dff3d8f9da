"""What the teachers of a training say of its images: embeddings, kept or made batch by batch, and class centers."""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int64
from torch import Tensor

from verisphere.backbones.extract import extract
from verisphere.base.collectives import on_every_rank, on_first_rank
from verisphere.base.distributed import world
from verisphere.base.identity import as_known, folded, merge_hint
from verisphere.base.vocabulary import Progress, quietly
from verisphere.base.words import Names
from verisphere.base.work import shared_by_ranks
from verisphere.files.disk import write_whole
from verisphere.files.json_values import shown
from verisphere.images.augment import Augment
from verisphere.images.faces import Faces
from verisphere.models.run_head import RunHead, open_head
from verisphere.score.cosine import unit
from verisphere.train.distill.teachers import Centers, Teachers

log = logging.getLogger(__name__)


def own_centers(
    paths: Sequence[Path], people: Sequence[str], asked: Centers, how: Names | None = None
) -> Float[Tensor, "classes dim"] | None:
    """The centers that the teachers were trained with, matched by the names of the people; the mean over the teachers.

    Centers have length 1. None says that the means of embeddings are to be taken.
    """
    if asked == "means":
        return None
    total: Tensor | None = None
    for path in paths:
        try:
            of_teacher = _matched(path, people, how)
        except (ValueError, FileNotFoundError) as error:
            if asked == "own":
                raise ValueError(f"distill.centers is own, but {error}") from None
            if world().first:
                log.info("distill: the teacher's centers are the means of its embeddings, since %s", error)
            return None
        total = of_teacher if total is None else total + of_teacher
    if total is not None and asked == "auto" and world().first:
        log.info("distill: the teacher's centers are those that it was trained with")
    return None if total is None else unit(total)


def _matched(path: Path, people: Sequence[str], how: Names | None) -> Float[Tensor, "classes dim"]:
    """One center for each person, from the run of a teacher."""
    head: RunHead = open_head(path)
    if head.centers.shape[1] > 1:
        raise ValueError(f"{path}: it has {head.centers.shape[1]} centers for each class")
    of_form = Counter(map(folded, head.people)) if how == "merge" else {}
    if several := [name for name in people if of_form.get(folded(name), 0) > 1]:
        raise ValueError(
            f"{path}: {shown(several[0], 200)}{f' and {len(several) - 1:,} more' if several[1:] else ''} "
            "of the people have several classes in it, by other spellings"
        )
    spelled, place = as_known(people, head.people, how), {name: row for row, name in enumerate(head.people)}
    missing = [name for name in people if spelled[name] not in place]
    if missing:
        hint = merge_hint(people, head.people, all_known=False)
        raise ValueError(
            f"{path}: it has no class for {len(missing):,} of the {len(people):,} people, the first is "
            f"{shown(missing[0], 200)}{hint and f'; {hint}'}"
        )
    return head.centers[[place[spelled[name]] for name in people], 0]


def mean_centers(
    rows: Float32[np.ndarray, "images dim"], labels: Int64[np.ndarray, " images"], people: Sequence[str]
) -> Float[Tensor, "classes dim"]:
    """The direction of the mean unit embedding of each person's images; images of label -1 belong to nobody.

    >>> rows = np.array([[2.0, 0.0], [0.0, 1.0], [0.0, 3.0]], np.float32)
    >>> mean_centers(rows, np.array([0, 0, 1]), ["Ann", "Bob"])
    tensor([[0.7071, 0.7071],
            [0.0000, 1.0000]])
    """
    total = torch.zeros(len(people), rows.shape[1], dtype=torch.float64)
    for start in range(0, len(rows), 2**16):  # rows may lie in a file larger than the memory
        known = np.flatnonzero(labels[start : start + 2**16] >= 0) + start
        total.index_add_(0, torch.from_numpy(labels[known]), unit(torch.from_numpy(rows[known]).double()))
    centers = unit(total).float()
    without = (~((centers * centers).sum(1) > 0.5)).nonzero()[:, 0]
    if len(without):
        raise ValueError(
            f"distill: the teacher's embeddings of {shown(people[int(without[0])], 200)} have no mean direction"
        )
    return centers


#: The folder in a run for the teacher's embeddings.
FOLDER = "teacher"


class Taught:
    """The teachers of one training.

    `data` is the digest of the images, their names and people; embeddings that can be kept are kept in the folder.
    `live` teachers embed the augmented images of each batch. Centers have length 1; None where nothing needs them.
    """

    def __init__(
        self,
        teachers: Teachers,
        faces: Faces,
        augment: Augment,
        folder: Path,
        data: str,
        workers: int = 0,
        progress: Progress = quietly,
    ) -> None:
        self.teachers = teachers
        settings = teachers.settings
        self.live = embeds_batches(teachers, augment)
        if self.live and teachers.rows is not None:
            raise ValueError(
                "distill.teachers: an embeddings file knows plain images, but the recipe augments them; set "
                "distill.images: plain"
            )
        self._plain: np.ndarray | None = None
        self._mirrored: np.ndarray | None = None
        centers = None
        if settings.needs_centers:
            centers = on_every_rank(
                lambda: own_centers(teachers.paths, faces.people, settings.centers, faces.names_rule)
            )
        keeps = not self.live or (settings.needs_centers and centers is None)
        if settings.cache is not None and (not keeps or teachers.rows is not None):
            live = (
                "the teacher embeds every batch, as the recipe augments it; distill.images: plain keeps its embeddings"
            )
            why = live if teachers.rows is None else "the teacher is a file of embeddings"
            raise ValueError(f"distill.cache is {settings.cache}, but nothing is kept there: {why}")
        if keeps:
            kept = _Kept(teachers, faces, folder, data, workers, progress)
            self._plain = kept.rows(mirrored=False)
            if not self.live and settings.images == "same" and augment.flip:
                self._mirrored = kept.rows(mirrored=True)
        if settings.needs_centers and centers is None:
            assert self._plain is not None
            centers = mean_centers(self._plain, faces.labels.numpy(), faces.people)
        self.centers = centers

    @torch.no_grad()
    def rows(
        self,
        indices: Int64[Tensor, " batch"],
        mirrored: Bool[Tensor, " batch"],
        pixels: Float[Tensor, "batch 3 height width"],
    ) -> Float[Tensor, "batch dim"]:
        """The teachers' embeddings of a batch, each of length 1, on the device of its images.

        The pixels are those that the student sees, in [0, 255].
        """
        if self.live:
            assert self.teachers.network is not None
            return unit(self.teachers.network(pixels))
        assert self._plain is not None
        rows = self._plain[indices.numpy()]
        if self._mirrored is not None:
            flipped = mirrored.cpu().numpy()
            rows[flipped] = self._mirrored[indices.numpy()[flipped]]
        return unit(torch.from_numpy(rows)).to(pixels.device, non_blocking=True)


def embeds_batches(teachers: Teachers, augment: Augment) -> bool:
    """Whether the teachers must see every batch, since its images are more than flipped; see `Distillation.images`."""
    flipped_only = augment == Augment(flip=augment.flip)
    only_files = teachers.network is None
    return teachers.settings.images == "same" and not (flipped_only and not (only_files and augment.flip))


class _Kept:
    """The teachers' embeddings of all training images, in files that are made where they are missing."""

    def __init__(
        self, teachers: Teachers, faces: Faces, folder: Path, data: str, workers: int, progress: Progress
    ) -> None:
        self.teachers, self.faces, self.folder, self.data = teachers, faces, folder, data
        self.workers, self.progress = workers, progress

    def rows(self, mirrored: bool) -> Float32[np.ndarray, "images dim"]:
        """The embeddings, from the file or computed by all ranks."""
        network, of_files = self.teachers.network, self.teachers.rows
        if network is None:
            assert of_files is not None
            return of_files
        path = self.folder / f"teacher-{self._key(mirrored)}.npy"
        if on_first_rank(lambda: "there" if path.is_file() else ""):
            return on_every_rank(lambda: self._read(path))
        network.mirrored = mirrored
        try:
            with shared_by_ranks():
                made = extract(network, self.faces, workers=self.workers, progress=self.progress).embeddings
        finally:
            network.mirrored = False
        if of_files is not None:
            made = made + of_files

        on_first_rank(lambda: self._write(path, made))
        return on_every_rank(lambda: self._read(path))

    def _write(self, path: Path, rows: Float32[np.ndarray, "images dim"]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, lambda partial: _save(partial, rows))

    def _key(self, mirrored: bool) -> str:
        """What the rows depend on: teachers with the pixels that they take, images with their names, the flip."""
        made = [None if origin is None else asdict(origin) for origin in self.teachers.origins]
        said = [list(self.teachers.sha256), made, self.data, self._contents, mirrored]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:24]

    @cached_property
    def _contents(self) -> str:
        """The digest of what the images are, beyond their names; each file is read once, by rank 0."""
        return on_first_rank(lambda: self.faces.contents(range(len(self.faces))).hex())

    def _read(self, path: Path) -> Float32[np.ndarray, "images dim"]:
        """The rows, which stay on the disk until they are used."""
        try:
            rows = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, OSError, EOFError) as error:
            raise ValueError(f"{path}: damaged ({error}); remove it, and it is made again") from None
        wanted = len(self.faces), self.teachers.size
        if rows.shape != wanted or rows.dtype != np.float32:
            raise ValueError(
                f"{path}: {rows.dtype} {rows.shape}, not float32 {wanted}; remove it, and it is made again"
            )
        for start in range(0, len(rows), 2**16):
            if not np.isfinite(rows[start : start + 2**16]).all():
                raise ValueError(f"{path}: some embeddings hold NaN or infinity; remove it, and it is made again")
        return rows


def _save(path: Path, rows: Float32[np.ndarray, "images dim"]) -> None:
    with path.open("wb") as file:
        np.lib.format.write_array(file, np.ascontiguousarray(rows, np.float32), allow_pickle=False)
