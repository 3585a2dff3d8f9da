"""From two embeddings files of the same photographs to a bridge from one model to the other.

The map is fitted on some people at random, its threshold is chosen on the others: given the map, each comparison of two
of these is one draw of strangers, as `verisphere.decide.guarantee` needs. Folds compare by maps that nobody ships.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64

from verisphere.base.provenance import unrecorded
from verisphere.base.seeds import numpy_generator
from verisphere.base.trained_on import name_digest
from verisphere.base.vocabulary import Embeddings, check_word
from verisphere.decide import Far, GenuineRate, GuaranteedThreshold, TooFewComparisonsError
from verisphere.decide.bounds import binomial_bounds
from verisphere.decide.guarantee import disjoint_pairs, independent_threshold
from verisphere.decide.sample_size import Guarantee, lowest_far, people_needed
from verisphere.files.bridge import Bridge
from verisphere.files.embeddings import check_same_images, same_people
from verisphere.files.errors import errors_naming
from verisphere.score import pair_scores, unit_rows
from verisphere.score.bridge import FEWEST_FITTED, MOST_FITTED, LinearMap, fit_map
from verisphere.ship.calibrated_files import EmbeddingsSet
from verisphere.ship.calibration_check import NOTHING, Accepted, known_of


def make_bridge(
    old: Path, new: Path, far: Far, guarantee: Guarantee = "confident", seed: int = 0, accepted: Accepted = NOTHING
) -> Bridge:
    """The bridge from the model of one embeddings file to that of another, with a promise at a FAR.

    Both files have the same photographs under the same names. Half of the people, or as many as it needs or the map
    leaves, serve the promise, and at most 5,000 others the map. The seed splits people and pairs; trying several
    breaks the guarantee.
    """
    check_word("guarantee", guarantee, ("confident", "expected"))
    sides = [EmbeddingsSet.read(path) for path in (old, new)]
    alike = same_people(*((side.name, side.embeddings) for side in sides))
    sides = [side.with_rows(rows) for side, rows in zip(sides, alike, strict=True)]
    of_old, of_new = (known_of(side, accepted) for side in sides)
    before, after = _joined(*sides)
    with errors_naming(f"{old} and {new}"):
        found, promise = promised_map(before, after, far, guarantee, seed)
        fitted = np.unique(before.identities[~_for_promise(before, far, guarantee, seed)]).tolist()
    (old_origin, old_source), (new_origin, new_source) = ((side.origin, side.source) for side in sides)
    known = filter(None, (of_old["in_training"], of_new["in_training"]))
    most = max(known, key=lambda shared: (shared.people, shared.images), default=None)
    implausible = of_old["implausible"] or of_new["implausible"]
    promise = replace(promise, calibrated_on=of_new["calibrated_on"], in_training=most, implausible=implausible)
    return Bridge(old_origin, new_origin, found, promise, old_source, new_source, tuple(map(name_digest, fitted)))


def promised_map(
    old: Embeddings, new: Embeddings, far: Far, guarantee: Guarantee = "confident", seed: int = 0
) -> tuple[LinearMap, GuaranteedThreshold]:
    """The map and its threshold, from rows of the same photographs in the same order; see `make_bridge`."""
    others = _for_promise(old, far, guarantee, seed)
    person = np.unique(old.identities[~others], return_inverse=True)[1]
    found = fit_map(old.embeddings[~others], new.embeddings[~others], person)
    return found, _promised(found, old.take(others), new.take(others), far, guarantee, seed)


def _for_promise(old: Embeddings, far: Far, guarantee: Guarantee, seed: int) -> Bool[np.ndarray, " rows"]:
    """The rows of the people by whom the map is not fitted; TooFewComparisonsError where there are too few."""
    person = np.unique(old.identities, return_inverse=True)[1]
    people, needed = int(person.max()) + 1, people_needed(far, guarantee)
    if people < needed + FEWEST_FITTED:
        lowest = lowest_far((people - FEWEST_FITTED) // 2, guarantee)
        raise TooFewComparisonsError(
            f"guarantee {guarantee!r} at FAR {far} needs {needed + FEWEST_FITTED:,} people, {needed:,} "
            f"for the promise and {FEWEST_FITTED} others for the map; there are {people:,}; possible: "
            + (f"FAR {lowest} or higher" if lowest else "nothing")
        )
    order = numpy_generator(seed).permutation(people)
    return np.isin(person, order[: max(needed, min(people // 2, people - FEWEST_FITTED), people - MOST_FITTED)])


def _joined(old: EmbeddingsSet, new: EmbeddingsSet) -> tuple[Embeddings, Embeddings]:
    """The rows of both files in the order of the first; refused where they do not match, or are of one model."""
    before, after = old.embeddings, new.embeddings
    for name, side, other in ((old.name, before, after), (new.name, after, before)):
        if (alone := ~np.isin(side.names, other.names)).any():
            raise ValueError(
                f"{name}: {alone.sum():,} of {len(alone):,} rows have no row of their name in the other file, first "
                f"{str(side.names[alone.argmax()])[:200]!r}; embed the same photographs by both models"
            )
    order = np.argsort(after.names)
    after = after.take(order[np.searchsorted(after.names, before.names, sorter=order)])
    if (differing := before.identities != after.identities).any():
        name, was, now = (
            str(of[differing.argmax()])[:99] for of in (before.names, before.identities, after.identities)
        )
        raise ValueError(f"{new.name}: {name!r} is of {now!r}, but in {old.name} of {was!r}")
    known = old.origin is not None and new.origin is not None and not old.origin.differences(new.origin)
    known = known and not unrecorded(old.origin, new.origin)
    if known or np.array_equal(before.embeddings, after.embeddings):
        raise ValueError(f"{new.name}: made by the model of {old.name}, in one way; its rows need no bridge")
    check_same_images(before, old.name, after, new.name)
    return before, after


def _promised(
    found: LinearMap, old: Embeddings, new: Embeddings, far: Far, guarantee: Guarantee, seed: int
) -> GuaranteedThreshold:
    """The threshold from people on whom the map was not fitted, and how many pairs of one of them it rejects."""
    names, person = np.unique(new.identities, return_inverse=True)
    probes, carried = unit_rows(new.embeddings), torch.from_numpy(found.apply(old.embeddings))

    def scores(pairs: Int64[np.ndarray, "pairs 2"]) -> Float64[np.ndarray, " pairs"]:
        left, right = torch.from_numpy(pairs).T
        return pair_scores(probes, left, right, carried).numpy()

    promise = independent_threshold(scores(disjoint_pairs(person, seed)), far, guarantee, len(names), seed)
    order = numpy_generator(seed).permutation(len(person))
    order = order[np.argsort(person[order], kind="stable")]  # each person's photographs side by side, in random order
    pairs = np.stack([order[:-1], order[1:]], axis=1)
    pairs = pairs[person[pairs[:, 0]] == person[pairs[:, 1]]]
    pairs = pairs[np.unique(person[pairs[:, 0]], return_index=True)[1]]  # one of each person who has two photographs
    if not len(pairs):
        return promise
    accepted, total = int((scores(pairs) > promise.threshold).sum()), len(pairs)
    rate = GenuineRate("these people", accepted, total, accepted / total, *binomial_bounds(accepted, total))
    return replace(promise, genuine=rate)
