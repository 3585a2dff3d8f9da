"""Population-based training (Jaderberg et al. 2017, arXiv:1711.09846): members copy better ones during training."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

from verisphere.base.seeds import Stream, mixed_seed, numpy_generator
from verisphere.base.words import check_at_least, check_positive
from verisphere.study.search.method import Method
from verisphere.study.search.rounds import Round, Start, starts_of
from verisphere.study.search.schedule import SearchSchedule, end_of_round, is_over, share_of


class PopulationBased(SearchSchedule):
    """A population whose worst members copy the weights and values of the best, and vary the values.

    It is `EachEpoch` without a method that learns: every member continues with its own weights, except that members in
    the last `share` continue with those of a random one of the first `share` (the paper's truncation selection), and
    each of their values is the other's multiplied by one of `factors`. A member is not replaced by one that has the
    same reward; it is always replaced if its training diverged. Values stay in the ranges of their maps; a value of 0
    stays 0, so a range should not include it. The result is the best member at the end.

    Args:
        members: size of the population.
        every: epochs between two selections.
        share: share of the members that is replaced, and share of the members that is copied; rounded up, at most half
            of the members; 0.2 in the paper.
        factors: factors on a value, one of which is drawn evenly; 0.8 and 1.2 in the paper.
    """

    def __init__(
        self,
        members: int = 8,
        every: float = 1.0,
        share: float = 0.2,
        factors: tuple[float, ...] = (0.8, 1.2),
    ) -> None:
        check_at_least("members", members, 2)
        check_positive("every", every)
        if not 0 < share <= 0.5:
            raise ValueError(f"share must lie in (0, 0.5], got {share}")
        if not factors:
            raise ValueError("factors is empty; name at least one")
        for place, factor in enumerate(factors):
            check_positive(f"factors[{place}]", factor)
        self.members, self.every, self.share, self.factors = members, every, share, tuple(factors)

    @property
    def shortest(self) -> float:
        """Length of a round."""
        return self.every

    def next(self, rounds: Sequence[Round], method: Method) -> tuple[Start, ...]:
        """All members, the worst of them with another member's weights and values."""
        until = end_of_round(len(rounds), self.every, self.epochs)
        if not rounds:
            return starts_of(method.ask(self.members), [None] * self.members, until)
        if is_over(rounds, self.epochs):
            return ()
        before = rounds[-1]
        draws, parents = before.draws.copy(), list(range(self.members))
        generator = numpy_generator(mixed_seed(Stream.SEARCH, self.seed, len(rounds)))
        replaced = share_of(self.share, self.members)
        diverged = len(before.starts) - len(before.ranked)
        for worse in before.ranking[-max(replaced, diverged) :]:
            better = int(generator.choice(before.ranked[:replaced]))
            factors = generator.choice(self.factors, len(self.space.fields))
            if before.measured[worse] is None or before.rewards[better] > before.rewards[worse]:
                parents[worse] = better
                draws[worse] = self._varied(before.draws[better], factors)
        return starts_of(draws, parents, until)

    def _varied(self, draw: Float64[np.ndarray, " fields"], factors: Float64[np.ndarray, " fields"]) -> list[float]:
        """The draw of another member with each value multiplied."""
        maps = self.space.maps
        return [
            of_field.varied(float(number), float(factor))
            for of_field, number, factor in zip(maps, draw, factors, strict=True)
        ]
