"""The distributions of genuine and impostor scores as counts, so that many millions of scores can be plotted."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of scores between neighbouring edges, ascending; scores beyond the outer ones are in the totals alone."""

    edges: Float64[np.ndarray, " edges"]
    genuine: Int64[np.ndarray, " bins"]
    impostor: Int64[np.ndarray, " bins"]
    genuine_total: int
    impostor_total: int

    def __post_init__(self) -> None:
        if not len(self.edges) == len(self.genuine) + 1 == len(self.impostor) + 1:
            raise ValueError(
                f"{len(self.edges)} edges bound {len(self.edges) - 1} bins, but there are {len(self.genuine)} genuine "
                f"and {len(self.impostor)} impostor counts"
            )
        if not (np.diff(self.edges) > 0).all():
            raise ValueError("edges of a histogram must be ascending")
