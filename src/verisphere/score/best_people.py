"""The people whose best row is nearest to a probe, exactly, among millions of rows.

A product in float32 differs from the score by at most `rough_error`, so that a row whose product lies more than twice
that below the k-th best person's cannot be among the answers; the others are scored as `pair_scores` does.
"""

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

from verisphere.base.device import full_float32
from verisphere.base.vocabulary import Progress, quietly
from verisphere.score.pairs import pair_scores, rough_error
from verisphere.score.top_k import as_tensor

_PRODUCTS = 1 << 26  # float32 numbers at a time, for so many probes as this allows, and one at least
_RUN = 64  # columns whose maximum is compared before they are


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
    gone = torch.from_numpy(np.flatnonzero(person < 0))
    step = max(_PRODUCTS // max(len(gallery), 1), 1)
    starts = range(0, len(probes) if len(gone) < len(gallery) else 0, step)
    for start in progress(starts, "searching the gallery", len(starts)):
        part = probes[start : start + step]
        with full_float32():
            products = part @ gallery.T if len(part) > 1 else (gallery @ part[0])[None]
        products.index_fill_(1, gone, -torch.inf)
        whole = products.shape[1] // _RUN * _RUN
        runs = products[:, :whole].unflatten(1, (-1, _RUN)).amax(2)
        if whole < products.shape[1]:
            runs = torch.cat([runs, products[:, whole:].amax(1, keepdim=True)], 1)
        for place in range(len(part)):
            near = _candidates(products[place], runs[place], person, count, 2 * rough_error(gallery.shape[1]))
            exact = pair_scores(part, torch.full_like(near, place), near, gallery).numpy()
            order = np.lexsort((near.numpy(), -exact))
            first = np.sort(np.unique(person[near.numpy()[order]], return_index=True)[1])[:count]
            scores[start + place, : len(first)] = exact[order[first]]
            nearest[start + place, : len(first)] = near.numpy()[order[first]]
    return scores, nearest


def _candidates(
    products: Float32[Tensor, " rows"], runs: Float32[Tensor, " runs"], person: np.ndarray, count: int, error: float
) -> Int64[Tensor, " near"]:
    """The rows that may be the best of one of the `count` best people."""

    def reaching(floor: float) -> Int64[Tensor, " near"]:
        columns = ((runs >= floor).nonzero() * _RUN + torch.arange(_RUN)).flatten()
        columns = columns[columns < len(products)]
        return columns[(products[columns] >= floor) & (products[columns] > -torch.inf)]

    looked_at = 2 * count
    while True:
        near = reaching(float(runs.topk(min(looked_at, len(runs))).values[-1]))
        order = np.argsort(-products[near].numpy(), kind="stable")
        first = np.sort(np.unique(person[near.numpy()][order], return_index=True)[1])
        if len(first) >= count:
            return reaching(float(products[near[order[first[count - 1]]]]) - error)
        if looked_at >= len(runs):
            return reaching(-float(torch.finfo(torch.float32).max))
        looked_at *= 4
