"""Balanced pairs drawn from a set that comes without a list, for an accuracy like that of the lists."""

import numpy as np
from jaxtyping import Int64

from verisphere.base.seeds import numpy_generator
from verisphere.base.vocabulary import Comparisons
from verisphere.measure.protocols.listed_pairs import BLOCKS

_AT_ONCE = 1 << 20  # genuine pairs that are held beside those drawn so far


def drawn_pairs(identities: np.ndarray, count: int, seed: int = 0) -> Comparisons:
    """Different pairs of images, half of them genuine, in random order and without folds.

    A genuine pair is drawn like those of LFW, a person first and then two of the person's images, so that people with
    many images do not take most pairs; no pair is drawn twice. An impostor pair is two images of different people, all
    such pairs alike. `count` is even, and at least ten of each kind, so that they make ten folds.

    >>> pairs = drawn_pairs(np.repeat(["a", "b", "c", "d"], 5), 20)
    >>> len(pairs), int(pairs.genuine.sum())
    (20, 10)
    """
    if count < 2 * BLOCKS or count % 2:
        raise ValueError(f"drawn_pairs is {count}; it is an even number, at least {2 * BLOCKS}")
    random = numpy_generator(seed)
    people, person, images = np.unique(identities, return_inverse=True, return_counts=True)
    squares = int((images.astype(np.int64) ** 2).sum())
    for kind, there in (
        ("genuine", (squares - len(person)) // 2),
        ("impostor", (len(person) ** 2 - squares) // 2),
    ):
        if there < count // 2:
            raise ValueError(f"drawn_pairs is {count}, but {len(people)} people have {there} {kind} pairs")
    first, second = _genuine(person, images, count // 2, random)
    left, right = _impostors(person, count // 2, random)
    return Comparisons(
        np.concatenate([first, left]),
        np.concatenate([second, right]),
        np.arange(count) < count // 2,
    )


def _genuine(
    person: Int64[np.ndarray, " images"],
    images: Int64[np.ndarray, " people"],
    count: int,
    random: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Both images of different genuine pairs; the caller has checked that there are as many.

    Each pair has an exponential variable over its weight, one over the number of pairs of its person; the smallest ones
    are drawn by weight, without replacement. Pairs that cannot be among the smallest any more are not held.
    """
    held: list[tuple[np.ndarray, ...]] = []
    pairs = 0
    for of_person in np.split(np.argsort(person, kind="stable"), np.cumsum(images)[:-1]):
        left, right = np.triu_indices(len(of_person), 1)
        weight = 1 / max(len(left), 1)
        held.append((random.exponential(size=len(left)) / weight, of_person[left], of_person[right]))
        pairs += len(left)
        if pairs > count + _AT_ONCE:
            held, pairs = [_smallest(held, count)], count
    _, left, right = _smallest(held, count)
    return left, right


def _smallest(held: list[tuple[np.ndarray, ...]], count: int) -> tuple[np.ndarray, ...]:
    """The pairs with the smallest variables, in their order."""
    variable, left, right = map(np.concatenate, zip(*held, strict=True))
    order = np.argsort(variable, kind="stable")[:count]
    return variable[order], left[order], right[order]


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
