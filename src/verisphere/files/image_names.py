"""Finding listed images in a set that spells their names differently: with other leading folders, or another suffix."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from verisphere.files.image_suffixes import SUFFIXES
from verisphere.files.json_values import shown


def without_suffix(name: str) -> str:
    """A name without the suffix of an image file; other endings are part of the name.

    >>> without_suffix("Ann/Ann_0001.jpg"), without_suffix("m.0abc12")
    ('Ann/Ann_0001', 'm.0abc12')
    """
    stem, dot, suffix = name.rpartition(".")
    return stem if dot and f".{suffix.lower()}" in SUFFIXES else name


def rows_named(
    wanted: Sequence[str], names: Sequence[str], lister: str | Path, holder: str | Path
) -> Int64[np.ndarray, " wanted"]:
    """The row of each wanted image, by its exact name, else by its name below a leading folder that all rows share.

    This is stricter than `find_rows`: a suffix is part of a name, and no other folder is tried, since image names that
    are numbers would match other images by chance.
    """
    place = {name: row for row, name in enumerate(names)}
    if not all(name in place for name in wanted):
        shared = names[0].split("/")[: _shared_folders(names)]
        folders = ["/".join(shared[: count + 1]) + "/" for count in range(len(shared))]  # from the outermost
        complete = [folder for folder in folders if all(folder + name in place for name in wanted)]
        if len(complete) > 1:
            raise ValueError(
                f"{holder}: the images of {lister} lie below {shown(complete[0])} and below {shown(complete[1])}; "
                "rename the rows as the images are named"
            )
        if not complete:
            folder = max(["", *folders], key=lambda folder: sum(folder + name in place for name in wanted))
            lacking = [name for name in wanted if folder + name not in place]
            raise ValueError(
                f"{holder}: no embedding of {len(lacking):,} of {len(wanted):,} images of {lister}, first "
                f"{shown(lacking[0], 200)}; names there look like {shown(str(names[0]), 200)}"
            )
        wanted = [complete[0] + name for name in wanted]
    return np.fromiter((place[name] for name in wanted), np.int64, len(wanted))


@dataclass(frozen=True)
class RowsOfNames:
    """The rows of a list's images in a set; the names that it lacks, and those of several images, with their names."""

    rows: dict[str, int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    ambiguous: dict[str, list[str]] = field(default_factory=dict)


def find_rows(listed: Sequence[str], names: Sequence[str]) -> RowsOfNames:
    """The row of each listed name, by the first of these spellings under which the set has all of them.

    1. The name as listed: exactly; else without the suffix of an image file, on both sides.
    2. Without the leading folders that all listed names share: one of them, two, and so on.
    3. Below one folder of the set, the same for all: `test/data/Ann/1.jpg` for `Ann/1.jpg`.
    4. With the person's folder, if the listed names have no folder (`Ann/Ann_0001.jpg` for `Ann_0001.jpg`); without
       the folder, if they have one and each file is named like its folder; each of these also by 2 and 3.

    If no spelling finds all names, that which finds the most counts. A name that fits several images is ambiguous.
    """
    exact = {name: row for row, name in enumerate(names)}
    stems: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        stems.setdefault(without_suffix(name), []).append(row)

    def look_up(spelled: Sequence[str]) -> RowsOfNames:
        found = RowsOfNames()
        for name, spelling in zip(listed, spelled, strict=True):
            row = exact.get(spelling)
            rows = stems.get(without_suffix(spelling), []) if row is None else [row]
            if len(rows) == 1:
                found.rows[name] = rows[0]
            elif rows:
                found.ambiguous[name] = [names[row] for row in rows]
            else:
                found.missing.append(name)
        return found

    best: RowsOfNames | None = None
    for alternatives in _spellings(listed, list(stems)):
        results = [look_up(spelled) for spelled in alternatives]
        whole = [result for result in results if not result.missing]
        if len(whole) > 1:  # below two folders
            first = listed[0]
            rows = [result.rows.get(first) for result in whole]
            return RowsOfNames(ambiguous={first: [names[row] for row in rows if row is not None]})
        if whole:
            return whole[0]
        for result in results:
            if best is None or len(result.missing) < len(best.missing):
                best = result
    assert best is not None, "the names as they are listed are always tried"
    return best


def _spellings(listed: Sequence[str], stems: Sequence[str]) -> Iterator[list[list[str]]]:
    """The spellings of all listed names that are tried, one after another; several at once are alternatives."""
    yield [list(listed)]
    for names in (list(listed), *_with_or_without_person(listed)):
        if names != list(listed):
            yield [names]
        for shared in range(1, _shared_folders(names) + 1):
            yield [[name.split("/", shared)[shared] for name in names]]
        yield [[f"{folder}/{name}" for name in names] for folder in _folders_above(names, stems)]


def _folders_above(names: Sequence[str], stems: Sequence[str]) -> list[str]:
    """Every folder of the set with all of the names below it; if there is none, one folder with the most of them.

    Many folders may have some of the names, such as 0001.jpg; names below each of them would take memory without limit.
    """
    wanted = {without_suffix(name) for name in names}
    depths = {name.count("/") + 1 for name in wanted}
    above = Counter[str]()
    for stem in stems:
        parts = stem.split("/")
        for depth in depths:
            if depth < len(parts) and "/".join(parts[-depth:]) in wanted:
                above["/".join(parts[:-depth])] += 1
    whole = [folder for folder, count in above.items() if count == len(wanted)]
    return whole or [folder for folder, _ in above.most_common(1)]


def _with_or_without_person(listed: Sequence[str]) -> Iterator[list[str]]:
    if not any("/" in name for name in listed):
        people = [without_suffix(name).rpartition("_")[0] for name in listed]
        if all(people):
            yield [f"{person}/{name}" for person, name in zip(people, listed, strict=True)]
        return
    split = [name.split("/") for name in listed]
    if all(len(parts) > 1 and parts[-1].startswith(f"{parts[-2]}_") for parts in split):
        yield ["/".join([*parts[:-2], parts[-1]]) for parts in split]


def _shared_folders(names: Sequence[str]) -> int:
    """The number of leading folders that all names share."""
    low, high = (
        min(names).split("/")[:-1],
        max(names).split("/")[:-1],
    )  # all share the prefix of first and last
    same = [left == right for left, right in zip(low, high, strict=False)]
    return (*same, False).index(False)
