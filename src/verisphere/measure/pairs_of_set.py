"""The accuracy of a training on pairs: published lists, alone and as one, or drawn pairs of a set without a list."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from verisphere.base.vocabulary import Embeddings, Redrawing
from verisphere.decide.accuracy import redrawn_accuracy
from verisphere.decide.intervals import Redrawn
from verisphere.files.errors import errors_naming
from verisphere.files.pair_lists.layouts import read_pairs
from verisphere.measure.listed_rows import ListedRows, as_one_list, list_titles, rows_of_list
from verisphere.measure.protocols.drawn_pairs import drawn_pairs
from verisphere.measure.protocols.listed_pairs import listed_pairs


def pair_rows(embeddings: Embeddings, lists: Sequence[str], drawn: int, name: str) -> dict[str | None, ListedRows]:
    """The pairs of each list under its title if there are several, and all pairs together under None."""
    if drawn:
        people, person = np.unique(embeddings.identities, return_inverse=True)
        pairs = drawn_pairs(embeddings.identities, drawn)
        both = np.stack([person[pairs.left], person[pairs.right]], 1).astype(np.int64)
        return {None: ListedRows(embeddings, pairs, both, people)}
    if not lists:
        return {}
    paths = [Path(path) for path in lists]
    parts = [(path, rows_of_list(read_pairs(path), path, embeddings, Path(name))) for path in paths]
    titled: dict[str | None, ListedRows] = {None: as_one_list(parts)}
    if len(parts) > 1:
        titled |= dict(zip(list_titles(paths), (rows for _, rows in parts), strict=True))
    return titled


def accuracies(rows: Mapping[str | None, ListedRows], redrawing: Redrawing) -> dict[str | None, Redrawn]:
    """Accuracy over folds of each list, and over redrawn people at the thresholds of the folds."""
    by_title = {}
    for title, listed in rows.items():
        with errors_naming(title or "pairs"):
            result = listed_pairs(listed.embeddings, listed.comparisons, keep_repeated=True)  # each list has been asked
        replicates = redrawn_accuracy(result.right_decisions, listed.people, result.weights, redrawing)
        by_title[title] = Redrawn(result.accuracy.mean, replicates)
    return by_title


def check_pairs(embeddings: Embeddings, lists: Sequence[str], drawn: int, name: str) -> None:
    """Raise the errors that `pair_rows` and `accuracies` would raise for embeddings of these images."""
    accuracies(pair_rows(embeddings, lists, drawn, name), Redrawing(1))
