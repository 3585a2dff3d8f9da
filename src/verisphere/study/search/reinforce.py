"""Search-Softmax: the mean of a normal distribution, moved by REINFORCE (Wang et al. 2020, arXiv:2007.06542)."""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float64

from verisphere.base.seeds import Stream, mixed_seed, numpy_generator
from verisphere.base.words import check_positive
from verisphere.study.search.method import Draws, Method, Rewards


def standardised(rewards: Rewards) -> Rewards:
    """The rewards with mean 0 and variance 1 over the candidates; zeros where all are equal.

    >>> standardised(np.array([0.5, 0.7]))
    array([-1.,  1.])
    """
    if (rewards == rewards[0]).all():  # a rounded mean would leave a deviation that is only rounding
        return np.zeros_like(rewards)
    return (rewards - rewards.mean()) / rewards.std()


def reinforce_gradient(
    draws: Draws, rewards: Rewards, mean: Float64[np.ndarray, " fields"], deviation: float
) -> Float64[np.ndarray, " fields"]:
    """The mean over the draws of reward * (x - mean) / deviation^2, the gradient of the expected reward in the mean.

    For x ~ N(mean, deviation^2) it is d log p(x) / d mean; eq. 11 writes it in the modulating factor, whose sign is the
    opposite of that of x. Ascending it raises the expected reward.
    """
    return (rewards[:, None] * (draws - mean)).mean(0) / deviation**2


class Reinforce(Method):
    """Draws from N(mean, deviation^2) in every field, and moves the mean toward draws with higher rewards.

    After each round the rewards are standardised over its candidates, and Adam ascends `reinforce_gradient`. Equal
    rewards carry no information and are skipped: otherwise Adam would continue by its momentum. Where the fields' map
    is `ModulatingFactor`, deviation 0.2 and rate 0.05 are the paper's.

    Args:
        deviation: standard deviation of the draws; the paper's sigma.
        rate: learning rate of Adam.
    """

    def __init__(self, deviation: float = 0.2, rate: float = 0.05) -> None:
        check_positive("deviation", deviation)
        check_positive("rate", rate)
        self.deviation, self.rate = deviation, rate

    def begin(self, start: Float64[np.ndarray, " fields"], seed: int) -> None:
        """Begin a search, with the mean at the start."""
        super().begin(start, seed)
        self._mean = torch.tensor(start, dtype=torch.float64, requires_grad=True)
        self._adam = torch.optim.Adam([self._mean], lr=self.rate)
        self._generator = numpy_generator(mixed_seed(Stream.SEARCH, seed))

    @property
    def mean(self) -> Float64[np.ndarray, " fields"]:
        """The mean of the distribution; the paper's mu."""
        return self._mean.detach().numpy().copy()

    def ask(self, count: int) -> Draws:
        """Draws from the current distribution."""
        return self.mean + self.deviation * self._generator.standard_normal((count, len(self.start)))

    def tell(self, draws: Draws, rewards: Rewards) -> None:
        """Take a step of Adam, unless all rewards are equal."""
        scores = standardised(rewards)
        if not scores.any():
            return
        ascent = reinforce_gradient(draws, scores, self.mean, self.deviation)
        self._mean.grad = torch.from_numpy(-ascent)  # Adam descends
        self._adam.step()

    def figures(self) -> Mapping[str, float]:
        """The mean of each field."""
        return {f"mean_{place}": float(value) for place, value in enumerate(self.mean)}
