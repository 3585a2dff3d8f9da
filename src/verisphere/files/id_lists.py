"""Lists of the names that belong to the ids of a published set: CASIA-WebFace, MS-Celeb-1M, VGGFace2.

- CASIA-WebFace (github.com/happynear/FaceDatasets): `0000045 Bruce_Lee`, an IMDb number, a space and a name.
- MS-Celeb-1M (`Top1M_MidList.Name.tsv`): `m.0107_f<TAB>"Name"@en`; an id has a line for each language.
- VGGFace2 (`identity_meta.csv`): `n000001, "14th_Dalai_Lama",424, 0, m,`, with a header or without one.
"""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from verisphere.base.identity import is_missing
from verisphere.files.disk import check_file
from verisphere.files.json_values import shown
from verisphere.files.text import text_lines

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
