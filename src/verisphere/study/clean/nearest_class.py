"""Rank 1 among the classes: whether the class whose sub-center is nearest to a sample is its own.

Only this figure shows the effect of "K = 3 to 1" (Deng et al. 2021, table 3: of a head with K sub-centers only the
dominant ones are kept). Dropping sub-centers changes no embedding, hence no score of two images and no TAR, but it
changes the class center that a sample is nearest to.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int64
from torch import Tensor

from verisphere.base.work import Arrays, ranges, results, shared_by_ranks
from verisphere.head.nearest import nearest_others
from verisphere.head.subcenters import SubCenters
from verisphere.score.cosine import unit

#: Rows of a product; always the same, since the bits of a product depend on its shape.
_ROWS = 1024


@dataclass(frozen=True, eq=False)
class NearestClass:
    """Whether the nearest class of each sample is its own; False for a sample of no class."""

    all_sub_centers: Bool[np.ndarray, " samples"]
    dominant_only: Bool[np.ndarray, " samples"]

    def shares(self, samples: Bool[np.ndarray, " samples"]) -> dict[str, float]:
        """Share of some samples whose nearest class is their own; NaN for no samples.

        >>> nearest = NearestClass(np.array([True, True, False]), np.array([True, False, False]))
        >>> nearest.shares(np.array([True, True, False]))
        {'all_sub_centers': 1.0, 'dominant_only': 0.5}
        """
        return {
            name: float(rows[samples].mean()) if samples.any() else float("nan")
            for name, rows in (("all_sub_centers", self.all_sub_centers), ("dominant_only", self.dominant_only))
        }


def nearest_is_own(
    centers: Float[Tensor, "classes subcenters dim"], dominant: Int64[np.ndarray, " classes"], device: torch.device
) -> Callable[..., Bool[np.ndarray, "rows 2"]]:
    """A function that tests whether the nearest class of embeddings is their own: by all sub-centers, by the dominant.

    The function takes embeddings (rows, dim), labels (rows,) and the cosines (rows, subcenters) to the sub-centers of
    the own class. The ranks of a group share the rows; all call it together, and each receives all results.
    """
    kept = torch.from_numpy(dominant.clip(min=0))
    dominant_centers = centers[torch.arange(len(centers)), kept][:, None, :].to(device)
    centers = centers.to(device)

    def of_tile(rows: np.ndarray, labels: np.ndarray, cosines: np.ndarray) -> np.ndarray:
        query, own_class = unit(torch.from_numpy(rows).to(device)), torch.from_numpy(labels).to(device)
        own = np.stack([cosines.max(axis=1), cosines[np.arange(len(labels)), dominant[labels]]], axis=1)
        heads = ((centers, SubCenters(centers.shape[1])), (dominant_centers, SubCenters(1)))
        others = [
            nearest_others(query, directions, own_class, 1, subcenters, "cosine")[:, 0].cpu().numpy()
            for directions, subcenters in heads
        ]
        with np.errstate(invalid="ignore"):  # the cosines of a row without a class are NaN
            return (own >= np.stack(others, axis=1)) & (labels >= 0)[:, None]

    def of_rows(
        rows: Float32[np.ndarray, "rows dim"],
        labels: Int64[np.ndarray, " rows"],
        cosines: Float32[np.ndarray, "rows subcenters"],
    ) -> Bool[np.ndarray, "rows 2"]:
        def of_part(part: range) -> Arrays:
            place = slice(part.start, part.stop)
            return {"own": of_tile(rows[place], labels[place], cosines[place])}

        with shared_by_ranks():
            pieces = ranges(len(rows), _ROWS)
            parts = results("tiles", lambda: [rows, labels, cosines], pieces, partial(map, of_part))
            return np.concatenate([np.zeros((0, 2), bool), *(part["own"] for part in parts)])

    return of_rows
