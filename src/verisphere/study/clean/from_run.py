"""Sub-classes by the sub-centers of a run: from images, or from embeddings that its network has made."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Int64

from verisphere.base.collectives import on_every_rank, on_first_rank
from verisphere.base.identity import decided
from verisphere.base.provenance import check_same_origin
from verisphere.base.vocabulary import NO_CLASS, NOBODY, Origin, Progress, printable, quietly
from verisphere.base.work import Arrays, ranges, results, working
from verisphere.files.streamed_rows import StreamedRows, open_rows
from verisphere.files.work import WorkFolder
from verisphere.images.faces import Faces
from verisphere.images.packs.columns import Texts, coded
from verisphere.models.embed import EmbeddingModel, embed, open_model
from verisphere.models.run_head import RunHead, open_head
from verisphere.study.clean.nearest_class import NearestClass, nearest_is_own
from verisphere.study.clean.sub_classes import SamplesInSubClasses, SubClasses, sub_classes
from verisphere.train.restore import data_digest
from verisphere.train.run_folder import versions

#: Batches of a block, which is stored on the disk as a whole.
BATCHES = 64
_CPU = torch.device("cpu")
_COSINES, _NEAREST = "cosines", "nearest"
#: What needs no head, for the messages about a run that lacks one.
WITHOUT_HEAD = "`verisphere clean embeddings FILE` needs none"


def found_in_run(
    run: Path,
    faces: Faces,
    *,
    device: torch.device = _CPU,
    batch_size: int = 128,
    workers: int = 0,
    trust: bool = False,
    work: Path | None = None,
    rank_1: bool = False,
    progress: Progress = quietly,
) -> SamplesInSubClasses:
    """The samples of a data set in the sub-classes of a run that was trained on it.

    Images are embedded block by block, without the mirror image and in float32. A finished block is stored in the
    folder `work`, whose files the caller removes; the next call with the same checkpoint, data and options continues
    from there, and gives the same bits as an uninterrupted one. The ranks of a joined group share the work, and each
    returns the whole result; all ranks must see the same files.
    """
    head = on_every_rank(lambda: open_head(run, WITHOUT_HEAD))
    how = decided(faces.names_rule)
    labels = on_every_rank(lambda: head.classes(faces.people, faces.labels.numpy(), "the data", how))
    model = on_every_rank(lambda: open_model(head.checkpoint.path, device, trust))
    about = {
        "checkpoint": head.checkpoint.sha256,
        "data": data_digest(faces),
        "batch": [batch_size, BATCHES, device.type],
        "embeddings": rank_1,
        **versions(),
    }
    temporary = tempfile.TemporaryDirectory(prefix="verisphere-") if work is None else nullcontext(str(work))
    with temporary as own:
        files = WorkFolder(Path(on_first_rank(lambda: own)), anew=True)
        blocks = ranges(len(faces), BATCHES * batch_size)
        with working(files):
            cosines = _cosines(head, model, faces, blocks, about, labels, batch_size, workers, rank_1, progress)
            sub = sub_classes(cosines, labels, len(head.people))
            nearest = _nearest(head, sub, cosines, labels, blocks, files, device, progress) if rank_1 else None
        on_first_rank(str)  # until all ranks have read the pieces
    return SamplesInSubClasses(
        faces.names,
        faces.identities,
        head.people,
        sub,
        _method(run, head),
        faces.domains,
        faces.true_identities,
        nearest,
        faces.names_rule,
    )


def found_by_centers(
    run: Path,
    embeddings: Path,
    *,
    device: torch.device = _CPU,
    trust: bool = False,
    rank_1: bool = False,
    progress: Progress = quietly,
) -> SamplesInSubClasses:
    """The rows of an embeddings file in the sub-classes of the run whose network has made it."""
    head = open_head(run, WITHOUT_HEAD)
    rows = open_rows(embeddings, ("names", "identities"))
    assert rows.identities is not None
    identities = coded(map(str, rows.identities))
    people, labels = labels_of(identities)
    _check_network(head, open_model(head.checkpoint.path, _CPU, trust), rows)
    labels = head.classes(people, labels, str(embeddings), decided(rows.source.names_rule))
    cosines = np.concatenate(
        [head.cosines(portion, labels[place]) for place, portion in _portions(rows, "reading", progress)]
    )
    sub = sub_classes(cosines, labels, len(people))
    nearest = None
    if rank_1:
        own = nearest_is_own(head.centers, sub.dominant, device)
        parts = [
            own(portion, labels[place], cosines[place])
            for place, portion in _portions(rows, "finding the nearest classes", progress)
        ]
        nearest = NearestClass(*np.concatenate(parts).T)
    names = Texts.of(map(str, rows.names))
    return SamplesInSubClasses(
        names,
        identities,
        head.people,
        sub,
        _method(run, head),
        nearest_class=nearest,
        names_rule=rows.source.names_rule,
    )


def labels_of(identities: Sequence[str]) -> tuple[tuple[str, ...], Int64[np.ndarray, " rows"]]:
    """The people, sorted, and for each row the position of its person among them, as in `Faces`."""
    column = coded(identities)
    people = tuple(sorted({*column.present()} - {NOBODY}))
    number = {person: label for label, person in enumerate(people)}
    return people, np.array([number.get(value, NO_CLASS) for value in column.values], np.int64)[column.codes]


def _method(run: Path, head: RunHead) -> str:
    return f"{'sub-centers' if head.centers.shape[1] > 1 else 'centers'} of {printable(str(run))}"


def _cosines(
    head: RunHead,
    model: EmbeddingModel,
    faces: Faces,
    blocks: Sequence[range],
    about: dict[str, Any],
    labels: Int64[np.ndarray, " samples"],
    batch_size: int,
    workers: int,
    keep_embeddings: bool,
    progress: Progress,
) -> Float32[np.ndarray, "samples subcenters"]:
    """Cosines of all images to the sub-centers of their own class, block by block."""
    alone = len(blocks) == 1  # then the progress over its batches is more informative
    inside, outside = (progress, quietly) if alone else (quietly, progress)

    def of_block(block: range) -> Arrays:
        how: dict[str, Any] = {"flip": False, "batch_size": batch_size, "workers": workers, "progress": inside}
        embeddings = embed(model, faces.select(block), "", **how).embeddings
        kept = {"embeddings": embeddings} if keep_embeddings else {}
        return {_COSINES: head.cosines(embeddings, labels[block.start : block.stop])} | kept

    parts = results(_COSINES, lambda: [about], blocks, partial(map, of_block), outside, "embedding")
    return np.concatenate([np.empty((0, head.centers.shape[1]), np.float32), *(part[_COSINES] for part in parts)])


def _nearest(
    head: RunHead,
    sub: SubClasses,
    cosines: Float32[np.ndarray, "samples subcenters"],
    labels: Int64[np.ndarray, " samples"],
    blocks: Sequence[range],
    files: WorkFolder,
    device: torch.device,
    progress: Progress,
) -> NearestClass:
    """Whether the nearest class of each image is its own, from the embeddings among the work files."""
    own = nearest_is_own(head.centers, sub.dominant, device)

    def of_block(block: range) -> Arrays:
        place = slice(block.start, block.stop)
        embeddings = files.load(_COSINES, blocks.index(block))["embeddings"]
        return {_NEAREST: own(embeddings, labels[place], cosines[place])}

    title = "finding the nearest classes"
    parts = results(_NEAREST, lambda: [cosines], blocks, partial(map, of_block), progress, title)
    return NearestClass(*np.concatenate([part[_NEAREST] for part in parts]).T)


def _portions(
    rows: StreamedRows, what: str, progress: Progress
) -> Iterator[tuple[slice, Float32[np.ndarray, "rows dim"]]]:
    """The rows of a file in portions, each with its place."""
    start = 0
    for _, portion in progress(rows.portions(), what, rows.steps):
        yield slice(start, start + len(portion)), portion
        start += len(portion)


def _check_network(head: RunHead, model: EmbeddingModel, rows: StreamedRows) -> None:
    own = Origin(str(model.sha256), False, "float32", "", preprocessing=model.preprocessing, template=model.template)
    hint = "embed the images by the run, or name the run that made them"
    check_same_origin(
        f"{head.checkpoint.path} embeds", own, rows.path, rows.source.origin, hint, but=("flip", "precision")
    )
    if rows.dim != head.centers.shape[2]:
        raise ValueError(
            f"{rows.path}: {rows.dim} numbers an embedding, and the centers of {head.checkpoint.path} have "
            f"{head.centers.shape[2]}; embed the images by the run"
        )
