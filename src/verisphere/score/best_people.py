"""The people whose best row is nearest to a probe, exactly, among millions of rows.

A product in float32 differs from the score by at most `rough_error`, so that a row whose product lies more than twice
that below the k-th best person's cannot be among the answers; the others are scored as `pair_scores` does.
"""

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int64
from torch import Tensor

from verisphere.base.device import full_float32
from verisphere.base.vocabulary import Progress, quietly
from verisphere.score.pairs import pair_scores, rough_error
from verisphere.score.top_k import as_tensor

_BLOCK = 1 << 14  # rows of a product, of which only the maxima of runs are kept
_RUN = 16  # rows whose maximum is compared before they are
_NUMBERS = 1 << 26  # float32 maxima, or products, at a time, for so many probes as this allows, and one at least


def best_people(
    probes: Float32[Tensor, "probes dim"],
    rows: Float32[Tensor, "rows dim"] | Float32[np.ndarray, "rows dim"],
    person: Int64[np.ndarray, " rows"],
    count: int,
    progress: Progress = quietly,
) -> tuple[Float64[np.ndarray, "probes count"], Int64[np.ndarray, "probes count"]]:
    """The highest score of each of a probe's `count` best people, descending, and the row that has it.

    Of equal scores the lower row comes first. Where there are fewer people, the rest has score minus infinity and row
    -1. All rows have length 1, and those of a memory-mapped file are not copied. Rows of a negative person are not
    compared.

    >>> rows = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    >>> best_people(torch.eye(2), rows, np.array([7, 7, 9]), 2)[1].tolist()
    [[0, 2], [2, 1]]
    """
    gallery = as_tensor(rows)
    scores, nearest = np.full((len(probes), count), -np.inf), np.full((len(probes), count), -1, np.int64)
    gone = torch.from_numpy(person < 0)
    runs = -(-len(gallery) // _RUN)
    step = max(_NUMBERS // max(runs, min(len(gallery), _BLOCK), 1), 1)
    starts = range(0, 0 if gone.all() else len(probes), step)
    for start in progress(starts, "searching the gallery", len(starts)):
        part = probes[start : start + step]
        highest = torch.empty(runs, len(part))
        for first in range(0, len(gallery), _BLOCK):
            products = _products(gallery[first : first + _BLOCK], part, gone[first : first + _BLOCK])
            there = highest[first // _RUN : (first + _BLOCK) // _RUN]
            whole = len(products) // _RUN
            torch.amax(products[: whole * _RUN].unflatten(0, (whole, _RUN)), 1, out=there[:whole])
            if whole < len(there):
                torch.amax(products[whole * _RUN :], 0, out=there[whole])
        for place, maxima in enumerate(highest.T.contiguous()):
            near = _candidates(part[place : place + 1], gallery, gone, maxima, person, count)
            exact = pair_scores(part, torch.full_like(near, place), near, gallery).numpy()
            order = np.lexsort((near.numpy(), -exact))
            first_of = np.sort(np.unique(person[near.numpy()[order]], return_index=True)[1])[:count]
            scores[start + place, : len(first_of)] = exact[order[first_of]]
            nearest[start + place, : len(first_of)] = near.numpy()[order[first_of]]
    return scores, nearest


def _products(
    rows: Float32[Tensor, "rows dim"], probes: Float32[Tensor, "probes dim"], gone: Bool[Tensor, " rows"]
) -> Float32[Tensor, "rows probes"]:
    """Products in float32; minus infinity for rows that are gone."""
    with full_float32():
        products = rows @ probes.T if len(probes) > 1 else (rows @ probes[0])[:, None]
    return products.masked_fill_(gone[:, None], -torch.inf) if gone.any() else products


def _candidates(
    probe: Float32[Tensor, "1 dim"],
    gallery: Float32[Tensor, "rows dim"],
    gone: Bool[Tensor, " rows"],
    maxima: Float32[Tensor, " runs"],
    person: Int64[np.ndarray, " rows"],
    count: int,
) -> Int64[Tensor, " near"]:
    """The rows that may be the best of one of the `count` best people."""

    def reaching(floor: float) -> tuple[Int64[Tensor, " near"], np.ndarray]:
        """Rows whose product is at least so high, and these products."""
        near = ((maxima >= floor).nonzero() * _RUN + torch.arange(_RUN)).flatten()
        near = near[near < len(gallery)]
        rows = gallery if len(near) == len(gallery) else gallery.index_select(0, near)
        products = _products(rows, probe, gone[near])[:, 0]
        high = (products >= floor) & (products > -torch.inf)
        return near[high], products[high].numpy()

    looked_at, error = 2 * count, 2 * rough_error(gallery.shape[1])
    while True:
        floor = float(maxima.topk(min(looked_at, len(maxima))).values[-1])
        near, products = reaching(floor)
        order = np.argsort(-products, kind="stable")
        first = np.sort(np.unique(person[near.numpy()][order], return_index=True)[1])
        if len(first) >= count:
            least = float(products[order[first[count - 1]]]) - error
            return near[products >= least] if least >= floor else reaching(least)[0]
        if looked_at >= len(maxima):
            return reaching(-float(torch.finfo(torch.float32).max))[0]
        looked_at *= 4
