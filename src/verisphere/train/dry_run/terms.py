"""What pair terms remember, for a dry run: their memories made without room, and measured."""

import copy

import torch

from verisphere.pairs.pair_term import PairTerm
from verisphere.train.preparation import training_without_data
from verisphere.train.recipe import Recipe

_SOME_DOMAINS = "one", "other"  # a dry run does not read the data


def prepared_terms(recipe: Recipe, classes: int) -> list[PairTerm]:
    """The recipe's pair terms, prepared for so many classes with tensors that have shapes and no numbers."""
    training = training_without_data(recipe, classes, _SOME_DOMAINS)
    terms = copy.deepcopy(recipe.pair_terms)
    with torch.device("meta"):
        for term in terms:
            term.prepare(training)
    return terms


def center_copies(terms: list[PairTerm], centers: int) -> int:
    """Bytes that the terms take of these centers' in a step: a copy, and another while it is brought to length 1."""
    return 2 * centers if any(term.copies_centers for term in terms) else 0


def memories(terms: list[PairTerm], processes: int) -> int:
    """Bytes of what the terms remember, of the process with the largest share."""
    found = 0
    for term in terms:
        shared = term.held()
        for name, buffer in term.named_buffers():
            found += -(-buffer.nbytes // processes) if name in shared else buffer.nbytes
    return found
