"""The centers of the identities of a file of embeddings."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int64
from torch import Tensor

from verisphere.base.vocabulary import NOBODY, Progress, quietly
from verisphere.files.json_values import shown
from verisphere.files.streamed_rows import StreamedRows
from verisphere.images.packs.columns import coded
from verisphere.score.pairs import unit_rows


@dataclass(frozen=True, eq=False)
class Centers:
    """The center of each identity, sorted: the mean of its unit embeddings, scaled to length 1; and its images."""

    people: tuple[str, ...]
    counts: Int64[np.ndarray, " people"]
    units: Float32[Tensor, "people dim"]


def class_centers(
    rows: StreamedRows,
    progress: Progress = quietly,
    take: Callable[[Float32[Tensor, "rows dim"]], object] | None = None,
    people: Collection[str] | None = None,
) -> Centers:
    """The centers of the people of a file, without `NOBODY`; `take` receives the rows of each portion, of length 1."""
    if rows.identities is None:
        raise ValueError(f"{rows.path}: it does not say who is on an image (no array identities)")
    column = coded(rows.identities.tolist())
    present = {*column.present()} - {NOBODY}
    wanted = sorted(present if people is None else present & set(people))
    if not wanted:
        seen = f"; identities there look like {shown(min(present), 200)}" if present else ""
        raise ValueError(
            f"{rows.path}: none of its {len(rows):,} images shows a person who is "
            f"{'known' if people is None else 'meant'}{seen}"
        )
    number = {person: place for place, person in enumerate(wanted)}
    label = np.array([number.get(value, -1) for value in column.values])[column.codes]
    sums, start = np.zeros((len(wanted), rows.dim)), 0
    for names, embeddings in progress(rows.portions(), "reading embeddings", rows.steps):
        units = unit_rows(embeddings)
        if take is not None:
            take(units)
        labels = label[start : start + len(names)]
        known = labels >= 0
        np.add.at(sums, labels[known], units.numpy()[known].astype(np.float64))
        start += len(names)
    none = np.flatnonzero(~(np.linalg.norm(sums, axis=1) > 0))
    if len(none):
        raise ValueError(f"{rows.path}: the embeddings of {shown(wanted[int(none[0])], 200)} add up to zero")
    counts = np.bincount(label[label >= 0], minlength=len(wanted))
    return Centers(tuple(wanted), counts, unit_rows((sums / counts[:, None]).astype(np.float32)))
