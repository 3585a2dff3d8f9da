"""Embeddings that were made elsewhere, as tables: .npy with a list beside it, CSV, parquet (extra: data).

The list, or the table, has a row for each image: its `name`, its `identity`, and, where there are domains, its
`domain`. In a CSV all other columns are the numbers of the embedding, in their order; in parquet they are these or one
column `embedding` of lists.
"""

import csv
import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from verisphere.files.disk import check_file
from verisphere.files.json_values import shortened, shown
from verisphere.files.npz import read_npy
from verisphere.files.text import text_lines

SUFFIXES = (".npy", ".csv", ".tsv", ".parquet")
LISTS = (".csv", ".tsv", ".txt", ".lst")
_COLUMNS = {"name": "names", "identity": "identities", "domain": "domains"}
_LONGEST_EMBEDDING = 1 << 16


def holds_vectors(path: Path) -> bool:
    """Whether a file is a table of embeddings: by its suffix and, for CSV, by a header with `identity`."""
    if path.suffix not in SUFFIXES or not path.is_file():
        return False
    return path.suffix in (".npy", ".parquet") or "identity" in _header(path)


def read_vectors(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an embeddings file: `embeddings`, `names`, `identities`, and `domains` where there are any.

    Raises:
        FileNotFoundError: there is no such file, or no list beside an .npy.
        ValueError: something lacks or is of another form; names the file and, of text, the line.
    """
    check_file(path)
    if path.suffix == ".npy":
        return _of_npy(path)
    with np.errstate(over="ignore"):  # what is too large for float32 becomes infinity, which is refused by its row
        return _of_parquet(path) if path.suffix == ".parquet" else _of_csv(path)


def _of_npy(path: Path) -> dict[str, np.ndarray]:
    beside = [path.with_suffix(suffix) for suffix in LISTS if path.with_suffix(suffix).is_file()]
    if not beside:
        wanted = ", ".join(path.with_suffix(suffix).name for suffix in LISTS)
        raise FileNotFoundError(
            f"{path}: no list of its rows beside it ({wanted}); it has one line for each, name<TAB>identity"
        )
    return {"embeddings": read_npy(path), **_columns(beside[0])}


def _columns(path: Path) -> dict[str, np.ndarray]:
    """Names, identities and domains of a list, with a header or as `name<TAB>identity` lines."""
    rows = _rows(path)
    number, first = next(rows, (0, ()))
    fields = [cell.strip() for cell in first]
    if "identity" not in fields:
        if len(fields) != 2:
            raise ValueError(f"{path}: line {number or 1}: {len(fields)} entries; a row is name<TAB>identity")
        fields, cells = ["name", "identity"], [fields]
    else:
        cells = []
    places = _places(path, fields)
    for number, row in rows:
        if len(row) != len(fields):
            raise ValueError(f"{path}: line {number}: {len(row)} entries where the first row has {len(fields)}")
        cells.append([cell.strip() for cell in row])
    return {_COLUMNS[name]: np.array([row[place] for row in cells]) for name, place in places.items()}


def _of_csv(path: Path) -> dict[str, np.ndarray]:
    rows = _rows(path)
    _, header = next(rows, (0, ()))
    fields = [cell.strip() for cell in header]
    places = _places(path, fields)
    numbers = [place for place, name in enumerate(fields) if name not in _COLUMNS]
    if not 0 < len(numbers) <= _LONGEST_EMBEDDING:
        raise ValueError(
            f"{path}: {len(numbers)} columns beside {', '.join(places)}; an embedding has 1 to {_LONGEST_EMBEDDING:,} "
            "numbers, each in a column of its own"
        )
    found: dict[str, list[str]] = {name: [] for name in places}
    embeddings: list[np.ndarray] = []
    for number, row in rows:
        if len(row) != len(fields):
            raise ValueError(f"{path}: line {number}: {len(row)} entries where the header has {len(fields)}")
        try:
            embeddings.append(np.array([float(row[place]) for place in numbers], np.float32))
        except ValueError:
            wrong = next(place for place in numbers if not _is_number(row[place]))
            raise ValueError(
                f"{path}: line {number}: {shown(row[wrong])} in column {shown(fields[wrong])} is no number"
            ) from None
        for name, place in places.items():
            found[name].append(row[place].strip())
    rows_of = np.array(embeddings, np.float32).reshape(len(embeddings), len(numbers))
    return {"embeddings": rows_of, **{_COLUMNS[name]: np.array(cells) for name, cells in found.items()}}


def _of_parquet(path: Path) -> dict[str, np.ndarray]:
    if importlib.util.find_spec("pyarrow") is None:
        raise ValueError(f"{path}: parquet needs pyarrow, not installed here: pip install 'verisphere[data]'")
    import pyarrow
    import pyarrow.parquet as parquet

    try:
        table: Any = parquet.read_table(path, memory_map=True)
        table.validate(full=True)  # offsets, and whether text is UTF-8
        fields = list(table.column_names)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a parquet file: {shortened(str(error).splitlines()[0], 200)}") from None
    places = _places(path, fields)
    columns = {_COLUMNS[name]: np.array(table.column(name).to_pylist()) for name in places}
    rest = [name for name in fields if name not in _COLUMNS]
    if rest == ["embedding"]:
        lists = table.column("embedding").to_pylist()
        sizes = {len(row) if isinstance(row, list) else -1 for row in lists}
        if len(sizes) != 1 or -1 in sizes:
            raise ValueError(f"{path}: column 'embedding' holds no lists of numbers of one length")
        return {"embeddings": np.array(lists, np.float32), **columns}
    wrong = [name for name in rest if not pyarrow.types.is_floating(table.schema.field(name).type)]
    if wrong or not rest:
        raise ValueError(
            f"{path}: {f'column {shown(wrong[0])} holds no floating-point numbers' if wrong else 'no embedding'}; give "
            "one column `embedding` of lists, or a column for each number"
        )
    return {"embeddings": np.stack([table.column(name).to_numpy() for name in rest], 1).astype(np.float32), **columns}


def _places(path: Path, fields: Sequence[str]) -> dict[str, int]:
    """The place of each known column; the first two must be there, and none twice."""
    missing = [name for name in ("name", "identity") if name not in fields]
    if missing:
        raise ValueError(
            f"{path}: no column {' and no column '.join(missing)}; it has {shortened(', '.join(fields), 120)}"
        )
    if len(set(fields)) < len(fields):
        raise ValueError(f"{path}: two columns are called {shown(max(fields, key=list(fields).count))}")
    return {name: list(fields).index(name) for name in _COLUMNS if name in fields}


def _header(path: Path) -> list[str]:
    try:
        return [cell.strip() for cell in next(_rows(path), (0, []))[1]]
    except ValueError:
        return []


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not empty, with their lines; separated by tabs where the first line has one, else by commas."""
    with text_lines(path) as lines:
        first = next(lines, "")
        separator = "\t" if "\t" in first else ","
        reader = csv.reader((line for some in ([first], lines) for line in some), delimiter=separator)
        try:
            for row in reader:
                if any(cell.strip() for cell in row):
                    yield reader.line_num, row
        except csv.Error as error:
            raise ValueError(f"{path}: line {reader.line_num}: {error}") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
