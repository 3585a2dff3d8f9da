"""Lists of MegaFace: the pictures that are used, and the noisy ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from verisphere.files.disk import check_file, regular
from verisphere.files.documents import read_json_file
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
from verisphere.files.text import Line, numbered_lines, refuse_repeats

_HEAD = 1024  # bytes that distinguish JSON from lines
_LARGEST_LIST = 1 << 28  # bytes; MegaFace's list of a million distractors has about 50 million


@dataclass(frozen=True)
class PictureList:
    """Pictures in the order of a list; the person on one is its `id`, else the folder that its path begins with."""

    pictures: tuple[str, ...]
    people: tuple[str, ...]


def read_pictures(path: Path) -> PictureList:
    """A list of pictures: JSON with `path` and, optionally, `id`, as MegaFace's `templatelists`; or one path a line."""
    check_file(path)
    with open(path, "rb", opener=regular) as file:
        head = file.read(_HEAD)
    if head.lstrip()[:1] != b"{":
        lines = numbered_lines(path)
        refuse_repeats(path, lines)
        pictures = [text for _, text in lines]
        people = None
    else:
        with errors_naming(path):
            content = read_json_file(path, _LARGEST_LIST)
        pictures, people = _texts(path, content, "path"), _texts(path, content, "id") if "id" in content else None
        _refuse_repeated_entries(path, pictures)
    if not pictures:
        raise ValueError(f"{path}: it lists no picture")
    if people is not None and len(people) != len(pictures):
        raise ValueError(f"{path}: {len(pictures)} entries of path but {len(people)} of id")
    return PictureList(tuple(pictures), tuple(people or (name.split("/")[0] for name in pictures)))


def read_noise(path: Path) -> tuple[Line, ...]:
    """A list of noisy pictures, with the lines on which they stand.

    A line is the path of a picture or the end of one, such as a file name; in a line with tabs, the second field is the
    path. Lines that begin with # are comments. (MegaFace's lists of deepinsight/insightface.)
    """
    lines: list[Line] = []
    for number, text in numbered_lines(path):
        if not text.startswith("#"):
            fields = text.split("\t")
            name = fields[1].strip() if len(fields) > 1 else text
            if not name.strip("/"):
                raise ValueError(f"{path}: line {number}: {shown(text, 100)} names no picture")
            lines.append((number, name.strip("/")))
    if not lines:
        raise ValueError(f"{path}: it lists no picture")
    refuse_repeats(path, lines)
    return tuple(lines)


def listed_as(names: np.ndarray, listed: Sequence[str]) -> tuple[Bool[np.ndarray, " names"], set[str]]:
    """Which names a list contains, in full or by the end of their path, and which entries name any of them.

    >>> marked, used = listed_as(np.array(["a/b/1.jpg", "a/2.jpg"]), ["b/1.jpg", "3.jpg"])
    >>> marked.tolist(), used
    ([True, False], {'b/1.jpg'})
    """
    wanted = set(listed)
    depths = sorted({entry.count("/") + 1 for entry in wanted})
    marked, used = np.zeros(len(names), bool), set[str]()
    for row, name in enumerate(names.tolist()):
        parts = name.split("/")
        for depth in depths:
            if (end := "/".join(parts[-depth:])) in wanted and depth <= len(parts):
                marked[row] = True
                used.add(end)
    return marked, used


def _refuse_repeated_entries(path: Path, pictures: Sequence[str]) -> None:
    first: dict[str, int] = {}
    for entry, name in enumerate(pictures):
        if first.setdefault(name, entry) != entry:
            raise ValueError(f"{path}: path[{entry}]: {shown(name, 200)} is already path[{first[name]}]")


def _texts(path: Path, content: dict[str, object], key: str) -> list[str]:
    entries = content.get(key)
    if not isinstance(entries, list) or not all(isinstance(entry, str) and entry for entry in entries):
        raise ValueError(f"{path}: {key} is {shown(entries)}, not a list of text as MegaFace's lists have it")
    return entries
