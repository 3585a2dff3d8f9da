"""Balanced pairs drawn from a set that comes without a list, for an accuracy like that of the lists."""

import numpy as np
from jaxtyping import Int64

from verisphere.protocols.listed_pairs import BLOCKS
from verisphere.seeds import numpy_generator
from verisphere.vocabulary import Comparisons


def drawn_pairs(identities: np.ndarray, count: int, seed: int = 0) -> Comparisons:
    """Different pairs of images, half of them genuine, in random order and without folds.

    A genuine pair is drawn like those of LFW, a person first and then two of the person's images, so that people with
    many images do not take most pairs; no pair is drawn twice. An impostor pair is two images of different people, all
    such pairs alike.

    >>> pairs = drawn_pairs(np.repeat(["a", "b", "c", "d"], 5), 20)
    >>> len(pairs), int(pairs.genuine.sum())
    (20, 10)

    Args:
        identities: person of each image.
        count: number of pairs, even, and at least ten of each kind, so that they make ten folds.
        seed: another seed draws other pairs.

    Raises:
        ValueError: `count` is odd or below 20, or the set has too few pairs.
    """
    if count < 2 * BLOCKS or count % 2:
        raise ValueError(f"drawn_pairs is {count}; it is an even number, at least {2 * BLOCKS}")
    random = numpy_generator(seed)
    people, person, images = np.unique(identities, return_inverse=True, return_counts=True)
    first, second, share = _genuine(person, images)
    impostors = (len(person) ** 2 - int((images.astype(np.int64) ** 2).sum())) // 2
    for kind, there in (("genuine", len(first)), ("impostor", impostors)):
        if there < count // 2:
            raise ValueError(f"drawn_pairs is {count}, but {len(people)} people have {there} {kind} pairs")
    # the smallest of exponential variables over their weights: drawn by weight, without replacement
    chosen = np.argsort(random.exponential(size=len(first)) / share, kind="stable")[: count // 2]
    left, right = _impostors(person, count // 2, random)
    return Comparisons(
        np.concatenate([first[chosen], left]),
        np.concatenate([second[chosen], right]),
        np.arange(count) < count // 2,
    )


def _genuine(
    person: Int64[np.ndarray, " images"], images: Int64[np.ndarray, " people"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both images of every genuine pair, and one over the number of pairs of its person."""
    rows = np.split(np.argsort(person, kind="stable"), np.cumsum(images)[:-1])
    both = [np.triu_indices(len(of_person), 1) for of_person in rows]
    first, second = (
        np.concatenate([of_person[sides[side]] for of_person, sides in zip(rows, both, strict=True)]) for side in (0, 1)
    )
    pairs = np.array([len(sides[0]) for sides in both])
    return first, second, np.repeat(1 / np.maximum(pairs, 1), pairs)


def _impostors(
    person: Int64[np.ndarray, " images"], count: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Both images of different impostor pairs; the caller has checked that there are as many."""
    drawn: dict[tuple[int, int], None] = {}
    while len(drawn) < count:
        for left, right in np.sort(random.integers(len(person), size=(2 * count, 2)), axis=1).tolist():
            if person[left] != person[right] and len(drawn) < count:
                drawn[left, right] = None
    left, right = np.array([*drawn], np.int64).T
    return left, right
