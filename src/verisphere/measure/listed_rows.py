"""Lists of pairs as pairs of rows: images found by name, videos pooled from their frames, several lists as one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from verisphere.base.identity import rule_of_all, settled, spellings
from verisphere.base.vocabulary import NOBODY, Comparisons, Embeddings
from verisphere.base.words import FeatureNorm, Names
from verisphere.files.embeddings import pool_embeddings
from verisphere.files.errors import errors_naming
from verisphere.files.pair_lists.pair_list import PairList
from verisphere.measure.protocols.listed_pairs import listed_folds, refuse_repeated, repeated_text
from verisphere.measure.sides import note_kinds
from verisphere.score.templates import templates_of


@dataclass(frozen=True, eq=False)
class ListedRows:
    """A list of pairs with the rows that it compares.

    The pairs are positions among the rows, and `people` numbers from 0.
    """

    embeddings: Embeddings
    comparisons: Comparisons
    people: Int64[np.ndarray, "pairs 2"]
    names: np.ndarray
    notes: tuple[str, ...] = ()


def rows_of_list(
    listed: PairList,
    list_path: Path,
    embeddings: Embeddings,
    path: Path,
    feature_norm: FeatureNorm = "keep",
    keep_repeated: bool = False,
) -> ListedRows:
    """The rows that a list compares.

    The images of a list are found by `PairList.positions_and_note`. The videos of a list of videos are the mean of
    their frames, which are the images in the folder of that name; if the embeddings have media or templates, these are
    the videos. If the list names its people, its names are used.
    """
    notes: list[str] = []
    if listed.people is not None:
        listed = replace(listed, people=_one_spelling(listed, list_path, embeddings.names_rule))
    with errors_naming(path):
        if listed.videos and embeddings.media is None and embeddings.templates is None:
            embeddings, note = _videos(listed, embeddings, feature_norm)
            notes.append(note)
        else:
            embeddings = templates_of(embeddings, feature_norm)
        left, right, note = listed.positions_and_note([str(name) for name in embeddings.names])
    notes.append(note)
    if listed.people is not None:
        embeddings = replace(embeddings, domains=None)
    comparisons = Comparisons(
        left,
        right,
        np.array(listed.genuine),
        None if listed.folds is None else np.array(listed.folds, np.int64),
        listed.lines,
        None if listed.domains is None else np.array(listed.domains),
    )
    with errors_naming(list_path):
        if not keep_repeated:
            try:
                refuse_repeated(embeddings, comparisons)
            except ValueError as error:
                raise ValueError(f"{error}{listed.remark}") from None
        elif repeated := repeated_text(embeddings, comparisons):
            notes.append(f"repeated pairs were kept: {repeated}")
    if listed.people is None:
        names, person = np.unique(embeddings.identities, return_inverse=True)
        people = np.stack([person[left], person[right]], 1).astype(np.int64)
        _check_identities(listed, list_path, people, names == NOBODY, comparisons, path)
    else:
        names, number = np.unique(np.array(listed.people), return_inverse=True)
        people = number.reshape(-1, 2).astype(np.int64)
        if otherwise := int(((people[:, 0] == people[:, 1]) != comparisons.genuine).sum()):
            notes.append(
                f"{otherwise:,} of {len(listed):,} labels contradict the names of the people; the labels decide"
            )
    return ListedRows(
        embeddings, comparisons, people, names, tuple(f"{list_path.resolve().name}: {note}" for note in notes if note)
    )


def _one_spelling(listed: PairList, list_path: Path, how: Names | None) -> tuple[tuple[str, str], ...]:
    """The two people of each pair of a list that names them, each person with one spelling; see `spellings`."""
    flat = list(chain.from_iterable(listed.people or ()))
    with errors_naming(list_path):
        new = spellings(dict.fromkeys(flat), flat, lambda row: listed.place(row // 2), how)
    names = [new.get(name, name) for name in flat]
    return tuple(zip(names[::2], names[1::2], strict=True))


def _videos(listed: PairList, embeddings: Embeddings, feature_norm: FeatureNorm) -> tuple[Embeddings, str]:
    """A row for each listed video, the mean of its frames, and a sentence about frames of other videos."""
    folders = np.array([str(name).rpartition("/")[0] for name in embeddings.names])
    distinct, video = np.unique(folders, return_inverse=True)
    left, right, _ = listed.positions_and_note(distinct.tolist())
    used = np.zeros(len(distinct), bool)
    used[left] = used[right] = True
    rows = np.flatnonzero(used[video])
    person = np.empty(len(distinct), object)
    for pair, both in enumerate(listed.people or ()):
        person[left[pair]], person[right[pair]] = both
    frames = Embeddings(
        embeddings.embeddings[rows],
        embeddings.names[rows],
        person[video[rows]].astype(str),
        origin=embeddings.origin,
        names_rule=embeddings.names_rule,
        media=folders[rows],
    )
    others = len(embeddings) - len(rows)
    note = (
        f"{others:,} of {len(embeddings):,} frames are not used: the list does not name their videos "
        f"({int((~used).sum()):,})"
        if others
        else ""
    )
    return templates_of(frames, feature_norm), note


def _check_identities(
    listed: PairList,
    list_path: Path,
    people: Int64[np.ndarray, "pairs 2"],
    nobody: np.ndarray,
    comparisons: Comparisons,
    path: Path,
) -> None:
    """Refuse a list whose labels the identities of the embeddings contradict."""
    known = ~nobody[people].any(1)
    wrong = np.flatnonzero(known & ((people[:, 0] == people[:, 1]) != comparisons.genuine))
    if len(wrong):
        says = "genuine" if comparisons.genuine[wrong[0]] else "impostor"
        line = f"{listed.place(int(wrong[0]))}: " if listed.lines else ""
        hint = (
            f"; all of them have one identity: where nobody is known on an image, its identity is {NOBODY}"
            if len(np.unique(people)) == 1
            else ""
        )
        raise ValueError(
            f"{list_path}: {line}listed as {says}, which the identities in {path} contradict ({len(wrong)} such "
            f"{'pair' if len(wrong) == 1 else 'pairs'}){hint}"
        )


# --- several lists ---


def list_titles(lists: Sequence[Path]) -> list[str]:
    """The name of each list: its file name without the suffix, preceded by its folder if two would be equal.

    >>> list_titles([Path("lfw/pairs.txt"), Path("xqlfw/pairs.txt"), Path("pairs_CALFW.txt")])
    ['lfw/pairs', 'xqlfw/pairs', 'pairs_CALFW']
    """
    stems = [path.resolve().name if path.is_dir() else path.stem for path in lists]
    titles = [
        f"{path.resolve().parent.name}/{stem}" if stems.count(stem) > 1 else stem
        for path, stem in zip(lists, stems, strict=True)
    ]
    if len(set(titles)) < len(titles):
        raise ValueError(f"two lists of pairs are both called {max(titles, key=titles.count)!r}; rename one")
    return titles


def as_one_list(lists: Sequence[tuple[Path, ListedRows]]) -> ListedRows:
    """Several lists as one, in which each is a domain; fold i unites the i-th folds of all lists."""
    if len(lists) == 1:
        return lists[0][1]
    titles, parts = list_titles([path for path, _ in lists]), [part for _, part in lists]
    folds = []
    for path, part in lists:
        with errors_naming(path):
            folds.append(np.unique(listed_folds(part.comparisons), return_inverse=True)[1])
    for (path, _), numbers in zip(lists, folds, strict=True):
        if numbers.max() != folds[0].max():
            raise ValueError(
                f"{path}: {numbers.max() + 1} folds, but {lists[0][0]} has {folds[0].max() + 1}; lists that are taken "
                "together have equally many"
            )
    sets: dict[int, tuple[str, Embeddings]] = {}
    for title, part in zip(titles, parts, strict=True):
        sets.setdefault(id(part.embeddings.embeddings), (title, part.embeddings))
    first = dict(zip(sets, np.cumsum([0, *(len(rows) for _, rows in sets.values())]).tolist(), strict=False))
    start = [first[id(part.embeddings.embeddings)] for part in parts]
    embeddings = (
        parts[0].embeddings
        if len(sets) == 1
        else pool_embeddings([(title, replace(rows, domains=None)) for title, rows in sets.values()])
    )
    domains = [
        np.full(len(part.comparisons), title)
        if part.comparisons.domains is None
        else np.char.add(f"{title}/", part.comparisons.domains)
        for title, part in zip(titles, parts, strict=True)
    ]
    pairs = [part.comparisons for part in parts]
    how = rule_of_all([part.embeddings.names_rule for part in parts])
    columns = settled(
        [(f" of {title}", part.names, part.names) for title, part in zip(titles, parts, strict=True)], how
    )
    names = np.unique(np.concatenate(columns))
    return ListedRows(
        embeddings,
        Comparisons(
            np.concatenate([place + part.left for place, part in zip(start, pairs, strict=True)]),
            np.concatenate([place + part.right for place, part in zip(start, pairs, strict=True)]),
            np.concatenate([part.genuine for part in pairs]),
            np.concatenate(folds).astype(np.int64),
            domains=np.concatenate(domains),
        ),
        np.concatenate(
            [np.searchsorted(names, column)[part.people] for column, part in zip(columns, parts, strict=True)]
        ),
        names,
        (*dict.fromkeys(note for part in parts for note in part.notes), *note_kinds(sets.values())),
    )
