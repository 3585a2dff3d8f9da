"""Lists of people, and of the names that belong to the ids of a published set.

- CASIA-WebFace (github.com/happynear/FaceDatasets): `0000045 Bruce_Lee`, an IMDb number, a space and a name.
- MS-Celeb-1M (`Top1M_MidList.Name.tsv`): `m.0107_f<TAB>"Name"@en`; an id has a line for each language.
- VGGFace2 (`identity_meta.csv`): `n000001, "14th_Dalai_Lama",424, 0, m,`, with a header or without one.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from verisphere.base.identity import is_missing, refuse_missing
from verisphere.files.disk import check_file
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
from verisphere.files.text import Line, is_count, numbered_lines, refuse_repeats, text_lines

_CASIA = re.compile(r"(\S+) +(\S.*)")
_MS_CELEB = re.compile(r'([^\t]+)\t"(.*)"@[\w-]+')
_VGG_HEADER = "class_id"


def read_ids(path: str | Path) -> dict[str, tuple[str, ...]]:
    """The names of each id, in one of three layouts; the first line decides which. A missing value is no name."""
    check_file(path)
    names: dict[str, dict[str, None]] = {}
    for identity, name in _entries(path):
        names.setdefault(identity, {}).update({} if is_missing(name) else {name: None})
    if not names:
        raise ValueError(f"{path}: no ids; the list is empty")
    return {identity: tuple(texts) for identity, texts in names.items()}


def _entries(path: str | Path) -> Iterator[tuple[str, str]]:
    layout = None
    with text_lines(path) as lines:
        for number, line in enumerate(lines, start=1):
            text = line.strip()
            if not text:
                continue
            layout = layout or ("tabs" if "\t" in text else "commas" if "," in text else "spaces")
            if text.lower().startswith(_VGG_HEADER):
                continue
            entry = _entry(layout, text)
            if entry is None:
                raise ValueError(
                    f'{path}: line {number}: {shown(text, 100)} is none of `id name`, `id<TAB>"name"@language` and '
                    '`id, "name", ...` as the lines before it are'
                )
            yield entry


def _entry(layout: str, text: str) -> tuple[str, str] | None:
    if layout == "commas":
        try:
            row = next(csv.reader([text], skipinitialspace=True))
        except csv.Error:  # a cell of more than 131,072 characters
            return None
        entry = (row[0].strip(), row[1].strip()) if len(row) > 1 else ("", "")
    else:
        match = (_MS_CELEB if layout == "tabs" else _CASIA).fullmatch(text)
        entry = (match[1].strip(), match[2].strip()) if match else ("", "")
    return entry if all(entry) else None


def read_people(path: str | Path) -> tuple[str, ...]:
    """The people in a list, in its order.

    There are three layouts: LFW's `peopleDevTrain.txt` (a line with the count, then lines `Name<TAB>images`), LFW's
    `people.txt` (a line with the number of sections, then sections of the first layout), and, for a file without tabs,
    one name per line.
    """
    lines = numbered_lines(path)
    if not lines:
        raise ValueError(f"{path}: no people; the file is empty")
    # A tab distinguishes the layouts, not a leading number: the identities of many sets are numbers.
    named = _people_with_counts(path, lines) if any("\t" in text for _, text in lines) else lines
    refuse_repeats(path, named)
    people = tuple(name for _, name in named)
    with errors_naming(path):
        refuse_missing("person", people, people, lambda row: f"line {named[row][0]}", "leave the line out")
    return people


def _people_with_counts(path: str | Path, lines: Sequence[Line]) -> list[Line]:
    heads = [index for index, (_, text) in enumerate(lines) if "\t" not in text]
    for index in heads:
        number, text = lines[index]
        if not is_count(text):
            raise ValueError(f"{path}: line {number}: {shown(text, 100)} is neither a count nor `Name<TAB>images`")
    if heads[:1] != [0]:
        raise ValueError(f"{path}: line {lines[0][0]}: {shown(lines[0][1])} where LFW's layout has the count of people")
    if heads[1:2] == [1]:
        number, sections = lines[0][0], int(lines[0][1])
        heads = heads[1:]
        if len(heads) != sections:
            raise ValueError(f"{path}: line {number}: announces {sections} sections, but {len(heads)} follow")
    people: list[Line] = []
    for head, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        number, count = lines[head][0], int(lines[head][1])
        if end - head - 1 != count:
            raise ValueError(f"{path}: line {number}: announces {count} people, but {end - head - 1} follow")
        people.extend(_person(path, line) for line in lines[head + 1 : end])
    return people


def _person(path: str | Path, line: Line) -> Line:
    number, text = line
    name, _, images = text.rpartition("\t")
    if not is_count(images) or int(images) == 0 or "\t" in name:
        raise ValueError(f"{path}: line {number}: {shown(text, 100)} is not `Name<TAB>images` with one image or more")
    return number, name
