"""RFW's lists of pairs: one list per group, in LFW's layout without a header, or the folder of all groups.

Layout: `test/txts/African/African_pairs.txt` and so on (Wang et al. 2019, Racial Faces in the Wild), tabs between the
fields. Twelve people occur under two groups, so an image and a person are named with the group.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from verisphere.files.disk import check_file
from verisphere.files.pair_lists.lfw import rows_without_header
from verisphere.files.pair_lists.pair_list import Layout, PairList
from verisphere.files.text import numbered_lines

_GROUPS = ("african", "asian", "caucasian", "indian")
_END = "_pairs"


def _group(path: Path) -> str:
    return path.stem.removesuffix(_END)


def _files(path: Path) -> list[Path]:
    """The lists in a folder, such as `African_pairs.txt`, and those in folders of their groups below it."""
    below = [file for file in path.glob("*/*_pairs.txt") if _group(file) == file.parent.name]
    return sorted([*path.glob("*_pairs.txt"), *below], key=lambda file: (_group(file), str(file)))


def _looks(path: Path, head: Sequence[str]) -> bool:
    if path.is_dir():
        return bool(_files(path))
    return path.stem.endswith(_END) and _group(path).lower() in _GROUPS and bool(head) and "\t" in head[0]


def _read(path: Path) -> PairList:
    """Reads a list or a folder. Image i of a person is `Group/person/person_000i.jpg`; a group is a domain."""
    if not path.is_dir():
        return _one_group(path)
    files = _files(path)
    names = [_group(file) for file in files]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{path}: {name}_pairs.txt is there twice; which of the two is the list?")
    lists = [_one_group(file) for file in files]
    for file, listed in zip(files, lists, strict=True):
        if len(listed) != len(lists[0]):
            raise ValueError(
                f"{file}: {len(listed)} pairs, but {files[0].name} has {len(lists[0])}; all groups have equally many"
            )
        if listed.folds is None or listed.folds != lists[0].folds:
            raise ValueError(
                f"{file}: every list in a folder of groups has the same number of folds, two or more, each its genuine "
                "pairs first"
            )

    def joined(field: str) -> tuple[Any, ...]:
        return tuple(value for listed in lists for value in getattr(listed, field))

    return PairList(
        left=joined("left"),
        right=joined("right"),
        genuine=joined("genuine"),
        folds=joined("folds"),
        lines=tuple(
            f"line {line} of {file.name}"
            for file, listed in zip(files, lists, strict=True)
            for line in listed.lines or ()
        ),
        domains=tuple(name for name, listed in zip(names, lists, strict=True) for _ in range(len(listed))),
        people=joined("people"),
        files=tuple(files),
        source=str(path),
    )


def _one_group(path: Path) -> PairList:
    check_file(path)
    group = _group(path)
    listed = rows_without_header(path, numbered_lines(path), separator="\t")
    people = [(left.split("/")[0], right.split("/")[0]) for left, right in zip(listed.left, listed.right, strict=True)]
    return replace(
        listed,
        left=tuple(f"{group}/{name}" for name in listed.left),
        right=tuple(f"{group}/{name}" for name in listed.right),
        people=tuple((f"{group}/{left}", f"{group}/{right}") for left, right in people),
    )


RFW = Layout("RFW", "folder of groups", _looks, _read)
