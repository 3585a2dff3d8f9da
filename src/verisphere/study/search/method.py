"""Methods: they choose the values that a search tries next, given the rewards of those that it has tried.

A method is a function of its seed and of the calls of `ask` and `tell`. A search that is continued repeats these calls
on a new method, which brings it to the same state, so no state of a method is stored.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float64

from verisphere.base.seeds import Stream, mixed_seed, numpy_generator

Draws = Float64[np.ndarray, "candidates fields"]
Rewards = Float64[np.ndarray, " candidates"]


class Method(ABC):
    """Chooses the draws of candidates."""

    start: Float64[np.ndarray, " fields"]
    seed: int

    def begin(self, start: Float64[np.ndarray, " fields"], seed: int) -> None:
        """Begin a search; called once, before everything else.

        Args:
            start: the draw of each field at which to begin, for a method that has a start.
            seed: seed of all draws.
        """
        self.start, self.seed = start, seed

    @abstractmethod
    def ask(self, count: int) -> Draws:
        """The draws of the next candidates, a row each."""

    def tell(self, draws: Draws, rewards: Rewards) -> None:  # noqa: B027  # a method without a memory learns nothing
        """Learn the rewards of candidates that were asked for; higher is better, and all are finite."""

    def figures(self) -> Mapping[str, float]:
        """Numbers that show what the method has learned, for the log and the plots."""
        return {}


class RandomDraws(Method):
    """Draws each field evenly from [0, 1]; rewards have no effect.

    With one candidate an epoch over `SearchSoftmax` it is Random-Softmax (Wang et al. 2020, arXiv:2007.06542, section
    3.2), whose distribution the paper does not state; with whole trainings it is random search.
    """

    def begin(self, start: Float64[np.ndarray, " fields"], seed: int) -> None:
        """Begin a search; the start is not used."""
        super().begin(start, seed)
        self._generator = numpy_generator(mixed_seed(Stream.SEARCH, seed))

    def ask(self, count: int) -> Draws:
        """The next rows of one stream of random numbers."""
        return self._generator.random((count, len(self.start)))
