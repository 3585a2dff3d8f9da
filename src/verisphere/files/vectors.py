"""Embeddings from elsewhere, as tables: .npy with a list beside it, CSV, parquet (extra: data); and folders of shards.

The list, or the table, has a row for each image: its `name`, its `identity`, and optionally its `domain`, `medium` and
`template`. In a CSV, all other columns are the numbers of the embedding, in order; their names differ only in a counter
(`e0`, `e1`, ...). A parquet table has such columns, or one column `embedding` of lists.
"""

import re
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from verisphere.files.disk import check_file
from verisphere.files.json_values import shortened, shown
from verisphere.files.npz import most_unpacked, read_npy
from verisphere.files.parquet_table import ParquetTable, longest_text, open_parquet, rows_of_lists
from verisphere.files.sharded import manifest_of, read_shards
from verisphere.files.text import csv_rows

SUFFIXES = (".npy", ".csv", ".tsv", ".parquet")
LISTS = (".csv", ".tsv", ".txt", ".lst")
_COLUMNS = {
    "name": "names",
    "identity": "identities",
    "domain": "domains",
    "medium": "media",
    "template": "templates",
}
#: Types of Parquet whose numbers are read in their own precision, in which large ones may be alike.
_POINTS = {"halffloat": np.float16, "float": np.float32, "double": np.float64}
_LONGEST_EMBEDDING = 1 << 16
_HEADS = ("name", "file", "filename", "path", "image")  # names of the column of names in other projects' lists
_NO_LISTS = f"column 'embedding' holds no lists of numbers of one length, 1 to {_LONGEST_EMBEDDING:,}"
_INDEX = ("Unnamed: ", "__index_level_")  # pandas' name for a column of row numbers


def is_table(path: Path) -> bool:
    """Whether a path is a folder of shards, or by its suffix an array or a table, and no archive of arrays."""
    return manifest_of(path) is not None or (
        path.suffix.lower() in SUFFIXES and path.is_file() and not zipfile.is_zipfile(path)
    )


def holds_vectors(path: Path) -> bool:
    """Whether a table holds embeddings: a CSV does if its header has `identity`, or a likely misspelling of it."""
    if not is_table(path) or path.suffix.lower() in (".npy", ".parquet") or manifest_of(path) is not None:
        return is_table(path)
    header = _header(path)
    slips = any(word in cell.lower() for cell in header for word in ("name", "identity"))
    return "identity" in header or (slips and not {"score", "label"} & set(header))


def read_vectors(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an embeddings file: `embeddings`, `names`, `identities`, and `domains` where there are any."""
    if manifest_of(path) is not None:
        return read_shards(path)
    check_file(path)
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return _of_npy(path)
    with np.errstate(over="ignore", invalid="ignore"):  # such a number becomes infinity or NaN, and its row is refused
        return _of_parquet(path) if suffix == ".parquet" else _of_csv(path)


def _of_npy(path: Path) -> dict[str, np.ndarray]:
    beside = [path.with_suffix(suffix) for suffix in LISTS if path.with_suffix(suffix).is_file()]
    if not beside:
        wanted = ", ".join(path.with_suffix(suffix).name for suffix in LISTS)
        raise FileNotFoundError(
            f"{path}: no list of its rows beside it ({wanted}); it has one line for each, name<TAB>identity"
        )
    if len(beside) > 1:
        both = f"{', '.join(other.name for other in beside[:-1])} and {beside[-1].name}"
        raise ValueError(
            f"{path}: {len(beside)} lists of its rows beside it, {both}; one is allowed, move the other away"
        )
    embeddings = read_npy(path)
    columns, has_header = _columns(beside[0])
    rows = len(columns["names"])
    if embeddings.ndim and rows != len(embeddings):
        header = "" if has_header else "; its first line counts as a row, since it names no column identity"
        raise ValueError(f"{beside[0]}: {rows:,} rows, but {path.name} has {len(embeddings):,} embeddings{header}")
    return {"embeddings": embeddings, **columns}


def _columns(path: Path) -> tuple[dict[str, np.ndarray], bool]:
    """Names, identities and domains of a list, and whether it has a header; else lines are `name<TAB>identity`."""
    rows = csv_rows(path, tabs=True)
    number, first = next(rows, (0, ()))
    fields = [cell.strip() for cell in first]
    has_header, cells = "identity" in fields, []
    if not has_header:
        if len(fields) != 2:
            entries = "1 entry" if len(fields) == 1 else f"{len(fields)} entries"
            where = f"line {number}: {entries}" if fields else "it is empty"
            raise ValueError(f"{path}: {where}; a row is name<TAB>identity")
        if fields[0].lower() in _HEADS:
            raise ValueError(
                f"{path}: line {number}: {shown(fields[0])} and {shown(fields[1])} look like a header; its columns are "
                "called name and identity, or it has no header"
            )
        fields, cells = ["name", "identity"], [fields]
    places = _places(path, fields)
    for number, row in rows:
        if len(row) != len(fields):
            raise ValueError(f"{path}: line {number}: {len(row)} entries where the first row has {len(fields)}")
        cells.append([cell.strip() for cell in row])
    columns = {name: _texts(path, name, [row[place] for row in cells]) for name, place in places.items()}
    return {_COLUMNS[name]: column for name, column in columns.items()}, has_header


def _of_csv(path: Path) -> dict[str, np.ndarray]:
    rows = csv_rows(path, tabs=True)
    _, header = next(rows, (0, ()))
    fields = [cell.strip() for cell in header]
    places = _places(path, fields)
    numbers = [place for place, name in enumerate(fields) if name not in _COLUMNS]
    unnamed = [place for place in numbers if not fields[place] or fields[place].startswith(_INDEX[0])]
    if unnamed:  # row numbers, which would dominate the embedding
        raise ValueError(
            f"{path}: column {unnamed[0] + 1} has no name; is it the index of a data frame? write it by "
            "to_csv(path, index=False)"
        )
    if not 0 < len(numbers) <= _LONGEST_EMBEDDING:
        raise ValueError(
            f"{path}: {len(numbers)} columns beside {', '.join(places)}; an embedding has 1 to {_LONGEST_EMBEDDING:,} "
            "numbers, each in a column of its own"
        )
    _check_family(path, [fields[place] for place in numbers])
    found: dict[str, list[str]] = {name: [] for name in places}
    embeddings: list[np.ndarray] = []
    for number, row in rows:
        if len(row) != len(fields):
            raise ValueError(f"{path}: line {number}: {len(row)} entries where the header has {len(fields)}")
        try:
            embeddings.append(np.array([_number(row[place]) for place in numbers], np.float32))
        except ValueError:
            wrong = next(place for place in numbers if not _is_number(row[place]))
            raise ValueError(
                f"{path}: line {number}: {shown(row[wrong])} in column {shown(fields[wrong])} is no number"
            ) from None
        for name, place in places.items():
            found[name].append(row[place].strip())
    rows_of = np.array(embeddings, np.float32).reshape(len(embeddings), len(numbers))
    return {"embeddings": rows_of, **{_COLUMNS[name]: _texts(path, name, cells) for name, cells in found.items()}}


def _of_parquet(path: Path) -> dict[str, np.ndarray]:
    table = open_parquet(path)
    fields = list(table.schema.names)
    texts = {name: list[Any]() for name in _places(path, fields)}
    rest = [name for name in fields if name not in _COLUMNS]
    in_lists = "embedding" in rest
    numbers = _numbers_in_lists(path, table, rest) if in_lists else _numbers_in_columns(path, table, rest)
    embeddings, row, longest = np.empty((table.rows, numbers), np.float32), 0, dict.fromkeys(texts, 0)
    for batch in table.batches(fields, list(texts)):
        for name, cells in texts.items():
            longest[name] = max(longest[name], longest_text(batch.column(name)))
            _check_width(path, name, longest[name], table.rows)
            cells += batch.column(name).to_pylist()
        columns = [batch.column(name) for name in rest]
        rows = rows_of_lists(columns[0], numbers) if in_lists else np.stack([one.to_numpy(False) for one in columns], 1)
        if rows is None:
            raise ValueError(f"{path}: {_NO_LISTS}")
        embeddings[row : row + len(rows)] = rows
        row += len(rows)
    if row != table.rows:
        raise ValueError(f"{path}: {row:,} rows, but its footer states {table.rows:,}")
    known = {name: _array(name, str(table.schema.field(name).type), cells) for name, cells in texts.items()}
    return {"embeddings": embeddings, **{_COLUMNS[name]: column for name, column in known.items()}}


def _numbers_in_lists(path: Path, table: ParquetTable, names: Sequence[str]) -> int:
    """Numbers in each row of the column `embedding`, which holds lists of them."""
    import pyarrow.types as kinds

    if len(names) > 1:
        extra = next(name for name in names if name != "embedding")
        raise ValueError(
            f"{path}: column {shown(extra)} beside the lists of column 'embedding'; only {', '.join(_COLUMNS)} are "
            f"allowed there, leave {shown(extra)} out"
        )
    kind = table.schema.field("embedding").type
    cell = kind.value_type if kinds.is_nested(kind) and hasattr(kind, "value_type") else kind
    numeric = any(check(cell) for check in (kinds.is_floating, kinds.is_integer, kinds.is_decimal))
    numbers = table.per_row("embedding") if numeric and kinds.is_nested(kind) else 0
    if not 0 < numbers <= _LONGEST_EMBEDDING:
        raise ValueError(f"{path}: {_NO_LISTS}")
    return numbers


def _numbers_in_columns(path: Path, table: ParquetTable, names: Sequence[str]) -> int:
    """Number of the columns beside the known ones, each of which holds one number of the embedding."""
    import pyarrow.types as kinds

    index = [name for name in names if name.startswith(_INDEX)]
    if index:
        raise ValueError(
            f"{path}: column {shown(index[0])} is the index of a data frame; write it by to_parquet(path, index=False)"
        )
    _check_family(path, names)
    wrong = [name for name in names if not kinds.is_floating(table.schema.field(name).type)]
    if wrong or not 0 < len(names) <= _LONGEST_EMBEDDING:
        none = f"{len(names):,} numbers in a row" if names else "no embedding"
        raise ValueError(
            f"{path}: {f'column {shown(wrong[0])} holds no floating-point numbers' if wrong else none}; give one "
            f"column `embedding` of lists, or a column for each of 1 to {_LONGEST_EMBEDDING:,} numbers"
        )
    return len(names)


def _check_width(path: Path, column: str, longest: int, rows: int) -> None:
    """Refuses a column of text in which one long cell makes each row of an array of text take its space."""
    taken, most = 4 * longest * rows, most_unpacked(path.stat().st_size)
    if taken > most:
        raise ValueError(
            f"{path}: the longest text of column {shown(column)} has {longest:,} characters, and each of {rows:,} rows "
            f"would take its space, {taken:,} bytes; at most {most:,} are taken for this file"
        )


def _texts(path: Path, column: str, cells: Sequence[str]) -> np.ndarray:
    _check_width(path, column, max(map(len, cells), default=0), len(cells))
    return np.array(cells)


def _array(name: str, kind: str, cells: list[Any]) -> np.ndarray:
    """The cells of a column; if some are null, their text with null as an empty text, as in a CSV."""
    if name == "identity" and kind in _POINTS:
        return np.array([np.nan if cell is None else cell for cell in cells], _POINTS[kind])
    return np.array(["" if cell is None else str(cell) for cell in cells] if None in cells else cells)


def _check_family(path: Path, names: Sequence[str]) -> None:
    """Refuses columns that are not one embedding: their names may differ only in a number that rises by one."""
    if len(names) < 2:
        return
    parts = [re.fullmatch(r"(.*?)([0-9]{1,9})", name, re.DOTALL) for name in names]
    stems = Counter(part[1] for part in parts if part)
    stem, alike = stems.most_common(1)[0] if stems else ("", 0)
    before: tuple[str, int] | None = None
    for name, part in zip(names, parts, strict=True):
        strange = part is None or part[1] != stem
        count = -1 if part is None else int(part[2])
        if strange or (before is not None and count != before[1] + 1):
            odd = f"follows {shown(before[0])}" if before and not strange else "is not one of the embedding"
            hint = f"; leave {shown(name)} out" if strange and alike > (part is not None) else ""
            raise ValueError(
                f"{path}: column {shown(name)} {odd}; an embedding's columns are called alike but for a number that "
                f"counts, such as e0, e1, ...{hint}"
            )
        before = name, count


def _places(path: Path, fields: Sequence[str]) -> dict[str, int]:
    """The place of each known column; the first two are required, and no column may occur twice."""
    missing = [name for name in ("name", "identity") if name not in fields]
    if missing:
        hint = "; columns are separated by commas or tabs" if len(fields) == 1 else ""
        hint = "; scores are read by verisphere evaluate scores" if {"score", "label"} <= set(fields) else hint
        raise ValueError(
            f"{path}: no column {' and no column '.join(missing)}; a table of embeddings names its columns first, this "
            f"one has {shortened(', '.join(fields), 120) or 'nothing'}{hint}"
        )
    if len(set(fields)) < len(fields):
        raise ValueError(f"{path}: two columns are called {shown(max(fields, key=list(fields).count))}")
    return {name: list(fields).index(name) for name in _COLUMNS if name in fields}


def _header(path: Path) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv_rows(path, tabs=True), (0, []))[1]]
    except ValueError:
        return []


def _number(text: str) -> float:
    """A number; 1_0, which Python reads as 10, is not accepted."""
    if "_" in text:
        raise ValueError("an underscore")
    return float(text)


def _is_number(text: str) -> bool:
    try:
        _number(text)
    except ValueError:
        return False
    return True
