"""Templates: the embeddings of several images of one person pooled into one row.

The rows of a medium (a still image, or the frames of a video) are averaged first, the media of a template then, so that
a long video counts as much as one photograph (Whitelam et al. 2017, IARPA Janus Benchmark-B, section 4; InsightFace's
evaluation of IJB pools so). Both means are linear, so a template is one sum over its rows with coefficients that are
known beforehand: rows can come in any order, in portions, and are never held together.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float32, Float64, Int64
from scipy.sparse import csr_array

from verisphere.base.vocabulary import Embeddings, check_word
from verisphere.base.words import FeatureNorm

_RUNS, _RUN = 64, 512  # rows before pooling that are kept, in runs of neighbours
ROWS_AT_ONCE = 1 << 10  # rows converted to float64 at once, so that they stay in a core's cache


@dataclass(frozen=True, eq=False)
class Membership:
    """The rows of each template; a row may be part of several templates.

    Templates are numbers from 0; equal numbers of media within a template are one medium. `weight` is the factor of an
    embedding before any mean is taken, such as the score of a detector; None for 1.
    """

    row: Int64[np.ndarray, " entries"]
    template: Int64[np.ndarray, " entries"]
    medium: Int64[np.ndarray, " entries"]
    weight: Float64[np.ndarray, " entries"] | None = None

    def coefficients(self) -> Float64[np.ndarray, " entries"]:
        """The factor of each entry: its weight / (entries of its medium x media of its template)."""
        order = np.lexsort((self.medium, self.template))
        template, medium = self.template[order], self.medium[order]
        first = np.ones(len(order), bool)
        first[1:] = (template[1:] != template[:-1]) | (medium[1:] != medium[:-1])
        within = np.cumsum(first) - 1
        media = np.bincount(template[first])
        factor = np.empty(len(order))
        factor[order] = 1.0 / (np.bincount(within)[within] * media[template])
        return factor if self.weight is None else factor * self.weight


def pool_rows(
    portions: Iterable[Float32[np.ndarray, "_ dim"]],  # the portions differ in length
    membership: Membership,
    templates: int,
    feature_norm: FeatureNorm = "keep",
) -> Float32[np.ndarray, "templates dim"]:
    """The embedding of each template, which has at least one row, summed in float64 and rounded once.

    `keep` pools embeddings as they are, so that longer ones weigh more; `drop` pools unit rows.

    >>> rows = np.array([[2.0, 0.0], [4.0, 0.0], [0.0, 1.0]], np.float32)
    >>> frames_and_still = Membership(np.arange(3), np.zeros(3, np.int64), np.array([7, 7, 8]))
    >>> pool_rows([rows], frames_and_still, templates=1)
    array([[1.5, 0.5]], dtype=float32)
    """
    check_word("feature_norm", feature_norm, FeatureNorm)
    row, template, factor = membership.row, membership.template, membership.coefficients()
    if (row[1:] < row[:-1]).any():
        order = np.argsort(row, kind="stable")
        row, template, factor = row[order], template[order], factor[order]
    # Where the rows of a template lie together, one sum is open at a time, and the others need no float64 any more.
    begins = np.flatnonzero(np.diff(template, prepend=-1))
    together = len(begins) == np.count_nonzero(np.bincount(template, minlength=1))
    total: np.ndarray | None = None
    start, open_template, open_sum = 0, -1, np.zeros(0)
    for portion in portions:
        if total is None:
            total = np.zeros((templates, portion.shape[1]), np.float32 if together else np.float64)
            room = np.empty((ROWS_AT_ONCE, portion.shape[1]))
        for first in range(0, len(portion), ROWS_AT_ONCE):
            rows = room[: min(ROWS_AT_ONCE, len(portion) - first)]
            np.copyto(rows, portion[first : first + len(rows)])
            low, high = np.searchsorted(row, [start + first, start + first + len(rows)])
            if low == high:
                continue
            place, met, coefficients = row[low:high] - start - first, template[low:high], factor[low:high]
            if not together:
                by = np.argsort(met, kind="stable")
                place, met, coefficients = place[by], met[by], coefficients[by]
            if feature_norm == "drop":
                coefficients = coefficients / np.linalg.norm(rows, axis=1)[place]
            begins = np.flatnonzero(np.diff(met, prepend=-1))
            sums = csr_array((coefficients, place, np.append(begins, len(met))), shape=(len(begins), len(rows))) @ rows
            met = met[begins]
            with np.errstate(over="ignore"):  # a number beyond float32 becomes infinite, which `Embeddings` refuses
                if not together:
                    total[met] += sums
                    continue
                if met[0] == open_template:
                    sums[0] += open_sum
                total[met] = sums
                open_template, open_sum = met[-1], sums[-1]
        start += len(portion)
    if total is None or row.max(initial=-1) >= start:
        raise ValueError(f"row {row.max(initial=-1)} belongs to a template, but there are {start} rows")
    with np.errstate(over="ignore"):
        return total.astype(np.float32, copy=False)


def kept_rows(count: int) -> Int64[np.ndarray, " rows"]:
    """The rows of a set of this size that are kept beside their templates: all, or 64 runs of 512 neighbours."""
    if count <= _RUNS * _RUN:
        return np.arange(count)
    return (np.linspace(0, count - _RUN, _RUNS).astype(np.int64)[:, None] + np.arange(_RUN)).ravel()


def templates_of(embeddings: Embeddings, feature_norm: FeatureNorm = "keep") -> Embeddings:
    """The templates of a set: one row each, named by the template, in the order of their first rows.

    A set with media and no templates has a template for each medium; a set with neither is returned as it is.

    >>> frames = Embeddings([[3.0, 4.0], [0.0, 5.0]], identities=["Ann", "Ann"], media=["video 1", "video 1"])
    >>> templates_of(frames).embeddings, templates_of(frames).names
    (array([[1.5, 4.5]], dtype=float32), array(['video 1'], dtype='<U7'))
    """
    groups = embeddings.media if embeddings.templates is None else embeddings.templates
    if groups is None:
        check_word("feature_norm", feature_norm, FeatureNorm)
        return embeddings
    _, first, number = np.unique(groups, return_index=True, return_inverse=True)
    place = np.empty(len(first), np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    template, first = place[number], np.sort(first)
    for kind, column in (("identities", embeddings.identities), ("domains", embeddings.domains)):
        wrong = np.empty(0, np.int64) if column is None else np.flatnonzero(column != column[first][template])
        if column is not None and len(wrong):
            name, both = str(groups[wrong[0]])[:200], (str(column[first][template][wrong[0]]), str(column[wrong[0]]))
            raise ValueError(
                f"template {name!r} has rows of two {kind}, {both[0][:200]!r} and {both[1][:200]!r} (row {wrong[0]}); "
                "a template shows one person in one domain"
            )
    media = groups if embeddings.media is None else embeddings.media
    membership = Membership(np.arange(len(embeddings)), template, np.unique(media, return_inverse=True)[1])
    if embeddings.media is None:
        membership = replace(membership, medium=np.arange(len(embeddings)))
    rows = pool_rows([embeddings.embeddings], membership, len(first), feature_norm)
    known = embeddings.in_training
    sample = None if len(first) == len(embeddings) else embeddings.take(kept_rows(len(embeddings)))
    return replace(
        embeddings.take(first),
        embeddings=rows,
        names=groups[first],
        media=None,
        templates=None,
        in_training=None if known is None else known.pooled(template, len(first)),
        pooled_from=sample and replace(sample, templates=groups[kept_rows(len(embeddings))], in_training=None),
    )
