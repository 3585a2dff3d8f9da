"""Grid search: values at even steps."""

import numpy as np
from jaxtyping import Float64

from verisphere.base.words import check_at_least
from verisphere.study.search.method import Draws, Method


class GridDraws(Method):
    """Draws all combinations of values at even steps from one end of each field to the other; rewards have no effect.

    With `WholeTrainings(trainings=points)` over one field it is the usual way to tune a margin. The last field varies
    fastest; after the last combination it begins anew.

    Args:
        points: number of values of each field; one is the middle.
    """

    def __init__(self, points: int = 4) -> None:
        check_at_least("points", points, 1)
        self.points = points

    def begin(self, start: Float64[np.ndarray, " fields"], seed: int) -> None:
        """Begin a search; neither start nor seed is used."""
        super().begin(start, seed)
        self._asked = 0

    def ask(self, count: int) -> Draws:
        """The next combinations."""
        fields = len(self.start)
        numbers = np.arange(self._asked, self._asked + count) % self.points**fields
        self._asked += count
        places = np.stack(np.unravel_index(numbers, (self.points,) * fields), axis=1)
        return np.linspace(0, 1, self.points)[places] if self.points > 1 else np.full(places.shape, 0.5)
