"""One vector under many people: a network with one output for every face, or an image that stands for missing ones."""

import numpy as np
from jaxtyping import Bool, Float32, Int64

from verisphere.base.mapped import few_rows_at
from verisphere.base.seeds import numpy_generator
from verisphere.base.words import counted
from verisphere.decide.plausible import FEWEST

SHARE_OF_ROWS = 0.005  # of a set, in which one vector may stand, as photographs that were posted again do
SHARE_UNDER_OTHERS = 0.01  # of the rows of a set, whose vector may stand under another person too
PEOPLE_OF_A_VECTOR = 2  # under which one vector may stand: look-alikes and twins do not have equal ones
_EQUAL = 2e-7  # difference of two numbers of unit rows that a rounding to float32 may make
_NUMBERS_AT_ONCE = 1 << 22


def repeated_vectors(
    embeddings: Float32[np.ndarray, "rows dim"],
    person: Int64[np.ndarray, " rows"] | None,
    template: Int64[np.ndarray, " rows"] | None = None,
) -> tuple[str, ...]:
    """The reason why rows of equal direction cannot be right; rows are compared after one projection has sorted them.

    Equal rows of one template, such as frames of a still picture, count once. Where it is not known who is shown
    (`person` is None), as of distractors, a vector is only wrong that stands in many rows.

    >>> rows = np.array([[1, 2], [2, 4], [3, 6], [3, 1]], np.float32)
    >>> repeated_vectors(rows, np.array([0, 1, 2, 2]))
    ('one vector stands in 3 of 4 rows, under 3 people',)
    """
    count = len(embeddings)
    direction = numpy_generator(0).standard_normal(embeddings.shape[1])
    key = np.empty(count)
    step = max(_NUMBERS_AT_ONCE // embeddings.shape[1], 1)
    for start in range(0, count, step):
        rows = embeddings[start : start + step].astype(np.float64)
        key[start : start + step] = rows @ direction / np.linalg.norm(rows, axis=1)
    order = np.argsort(key, kind="stable")
    same = np.diff(key[order]) <= _EQUAL * np.abs(direction).sum()
    candidates = np.flatnonzero(same)
    for start in range(0, len(candidates), step):
        part = candidates[start : start + step]
        same[part] = _equal(few_rows_at(embeddings, order[part]), few_rows_at(embeddings, order[part + 1]))
    vector = np.concatenate([[0], np.cumsum(~same)])
    once = vector if template is None else np.unique(np.stack([vector, template[order]]), axis=1)[0]
    rows_of = np.bincount(once)
    whose = np.zeros(count, np.int64) if person is None else person
    people_of = np.bincount(np.unique(np.stack([vector, whose[order]]), axis=1)[0])
    wrong = (people_of > PEOPLE_OF_A_VECTOR) | ((rows_of >= FEWEST) & (rows_of > SHARE_OF_ROWS * count))
    if not wrong.any():
        shared = int(rows_of[people_of > 1].sum())
        if shared < max(FEWEST, SHARE_UNDER_OTHERS * count):
            return ()
        return (f"{shared:,} of {count:,} rows have a vector that stands under another person too",)
    worst = int(np.argmax(np.where(wrong, rows_of, 0)))
    people = "" if person is None else f", under {counted(int(people_of[worst]), 'person')}"
    more = f" ({wrong.sum():,} vectors are so)" if wrong.sum() > 1 else ""
    return (f"one vector stands in {rows_of[worst]:,} of {count:,} rows{people}{more}",)


def _equal(left: np.ndarray, right: np.ndarray) -> Bool[np.ndarray, " pairs"]:
    units = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (np.float64(left), np.float64(right))]
    return np.abs(units[0] - units[1]).max(1) <= _EQUAL
