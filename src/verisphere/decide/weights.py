"""Sums over pairs weighted by how often their people were drawn, in many replicates of a bootstrap at once.

The pairs are sorted, highest score first. `first_over` finds where their running sum first exceeds a number,
`weight_of_first` returns it after a number of pairs. Both read the pairs block by block: a block is summed for all
replicates together, and summed pair by pair only for the replicates whose answer lies inside it. Memory is that of one
block, whatever the number of pairs; the sums are exact integers.
"""

import numpy as np
import torch
from jaxtyping import Int64

BLOCK = 2048  # pairs
NUMBERS = 1 << 18  # pairs of a block times replicates, where these are few


class Weights:
    """The number of times that each person counts in some replicates.

    A pair is given by the numbers of its people, one for a genuine pair and two for an impostor pair; it counts as
    often as the product of their draws.
    """

    def __init__(self, draws: Int64[np.ndarray, "replicates people"]) -> None:
        """Lay the draws out for sums over many pairs."""
        self.draws = draws
        largest = int(draws.max(initial=0)) ** 2
        # The smallest integers that hold every product: the draws of many people then fit into the cache.
        dtype, self.sums = next(
            (narrow, wide)
            for narrow, wide in ((torch.uint8, torch.int32), (torch.int16, torch.int32), (torch.int64, torch.int64))
            if largest <= torch.iinfo(narrow).max
        )
        self.by_person = torch.from_numpy(np.ascontiguousarray(draws.T)).to(dtype)  # (people, replicates)
        # A block of products of int16 cannot overflow int32: 2^16 pairs of at most 2^15 - 1.
        self.block = min(max(NUMBERS // len(draws), BLOCK), 1 << 16)

    def __len__(self) -> int:
        return len(self.draws)

    def total(self, people: Int64[np.ndarray, "pairs sides"]) -> Int64[np.ndarray, " replicates"]:
        """The sum of the pairs' weights in each replicate."""
        total = np.zeros(len(self), np.int64)
        for start in range(0, len(people), self.block):
            total += self._sum(people[start : start + self.block])
        return total

    def _sum(self, people: Int64[np.ndarray, "pairs sides"]) -> Int64[np.ndarray, " replicates"]:
        first, *others = (torch.from_numpy(np.ascontiguousarray(side)) for side in people.T)
        product = self.by_person.index_select(0, first)  # (pairs, replicates)
        for side in others:
            product.mul_(self.by_person.index_select(0, side))
        return product.sum(0, dtype=self.sums).numpy().astype(np.int64)

    def each(
        self, people: Int64[np.ndarray, "pairs sides"], chosen: Int64[np.ndarray, " chosen"]
    ) -> Int64[np.ndarray, "chosen pairs"]:
        """The weight of each pair in the chosen replicates."""
        first, *others = people.T
        weight = self.draws[chosen[:, None], first]
        for side in others:
            weight *= self.draws[chosen[:, None], side]
        return weight


def first_over(
    weights: Weights, people: Int64[np.ndarray, "pairs sides"], allowed: Int64[np.ndarray, "cuts replicates"]
) -> Int64[np.ndarray, "cuts replicates"]:
    """Place of the first pair whose weight brings the running sum over `allowed`; the number of pairs if none does."""
    places = np.full(allowed.shape, len(people))
    passed = np.zeros(len(weights), np.int64)
    for start in range(0, len(people), weights.block):
        block = people[start : start + weights.block]
        following = passed + weights.total(block)
        for cut, crossed in enumerate((passed <= allowed) & (allowed < following)):
            chosen = np.flatnonzero(crossed)
            if len(chosen):
                sums = passed[chosen, None] + weights.each(block, chosen).cumsum(1)
                places[cut, chosen] = start + (sums <= allowed[cut, chosen, None]).sum(1)
        passed = following
        if (allowed < passed).all():
            break
    return places


def weight_of_first(
    weights: Weights, people: Int64[np.ndarray, "pairs sides"], ends: Int64[np.ndarray, "cuts replicates"]
) -> Int64[np.ndarray, "cuts replicates"]:
    """The summed weight of the first `ends` pairs."""
    weight = np.zeros(ends.shape, np.int64)
    passed = np.zeros(len(weights), np.int64)
    for start in range(0, len(people), weights.block):
        block = people[start : start + weights.block]
        stop = start + len(block)
        following = passed + weights.total(block)
        weight[ends >= stop] = np.broadcast_to(following, ends.shape)[ends >= stop]
        for cut, inside in enumerate((start < ends) & (ends < stop)):
            chosen = np.flatnonzero(inside)
            if len(chosen):
                counted = np.arange(len(block)) < (ends[cut, chosen, None] - start)
                weight[cut, chosen] = passed[chosen] + (weights.each(block, chosen) * counted).sum(1)
        passed = following
        if (ends <= stop).all():
            break
    return weight
