"""Memories of pair terms in a dry run: created on the meta device, so that they take no memory, and measured."""

import copy

import torch

from verisphere.pairs.pair_term import PairTerm
from verisphere.train.preparation import training_without_data
from verisphere.train.recipe import Recipe

_PLACEHOLDER_DOMAINS = "one", "other"  # a dry run does not read the data


def prepared_terms(recipe: Recipe, classes: int, teacher_size: int | None = None) -> list[PairTerm]:
    """Copies of the recipe's pair terms, prepared for a number of classes on the meta device."""
    training = training_without_data(recipe, classes, _PLACEHOLDER_DOMAINS, teacher_size=teacher_size)
    terms = copy.deepcopy(recipe.pair_terms)
    with torch.device("meta"):
        for term in terms:
            term.prepare(training)
    return terms


def center_copies(terms: list[PairTerm], centers: int) -> int:
    """Bytes of the copies that terms make of the centers in a step: one, and another while it is normalised."""
    return 2 * centers if any(term.copies_centers for term in terms) else 0


def memories(terms: list[PairTerm], processes: int) -> int:
    """Bytes of the terms' memories on the process with the largest share."""
    total = 0
    for term in terms:
        shared = term.held()
        for name, buffer in term.named_buffers():
            total += -(-buffer.nbytes // processes) if name in shared else buffer.nbytes
    return total
