"""Columns of a parquet table, decoded a row group at a time; first their pages are checked for what they unpack to.

A few hundred kilobytes of parquet can state gigabytes: pages are compressed, values that repeat are stored once, and
pyarrow allocates what a header states. So the limit of archives holds here too (`verisphere.files.npz.most_unpacked`),
and it is compared with the footer and the page headers before pyarrow decodes anything.
"""

import importlib.util
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from verisphere.base.words import install_extra
from verisphere.files.disk import check_file, regular
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shortened, shown
from verisphere.files.npz import most_unpacked
from verisphere.files.parquet_footer import Footer, read_footer
from verisphere.files.parquet_pages import PREFIXED, pages_of

_ROWS = 1 << 12  # rows that are decoded at a time
_WIDTH = 8  # bytes of a decoded number, or of the code of a text, at most


def check_pyarrow(path: Path) -> None:
    """Refuses a parquet file where pyarrow is not installed."""
    if importlib.util.find_spec("pyarrow") is None:
        raise ValueError(f"{path}: parquet needs pyarrow, not installed here; {install_extra('data')}")


def opened_by_pyarrow(path: Path, columns: Sequence[str]) -> Any:
    """The file as pyarrow opens it; the columns named are read as dictionaries."""
    import pyarrow.parquet as parquet

    check_file(path)
    # Neither a mapping, in which a truncated file would end the process, nor whole columns at a time.
    return parquet.ParquetFile(
        str(path), memory_map=False, buffer_size=1 << 20, pre_buffer=False, read_dictionary=list(columns)
    )


@contextmanager
def pyarrow_errors(path: Path) -> Iterator[None]:
    """Turns the errors of pyarrow into one line that names the file."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, UnicodeDecodeError, OverflowError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        reason = shortened((str(error).splitlines() or [type(error).__name__])[0], 200)
        raise ValueError(f"{path}: not a parquet file that can be read: {reason}") from None


@dataclass(frozen=True, eq=False)
class ParquetTable:
    """A parquet file whose footer has been checked against its size; nothing is decoded yet.

    The schema has the columns and their types, as pyarrow has them.
    """

    path: Path
    size: int
    footer: Footer
    schema: Any

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(self.footer.rows)

    def per_row(self, column: str) -> int:
        """Number of values in each row of a column of lists; 0 if the rows cannot all have the same number."""
        leaves = self._leaves([column])
        values = sum(chunks[leaf].values for chunks in self.footer.groups for leaf in leaves)
        return 0 if len(leaves) != 1 or not self.rows or values % self.rows else values // self.rows

    def batches(self, columns: Sequence[str], texts: Sequence[str]) -> Iterator[Any]:
        """The rows of these columns as record batches of pyarrow, those of `texts` as dictionaries."""
        with errors_naming(self.path):
            leaves = self._leaves(columns)
            lists = {leaf.partition(".")[0] for leaf in leaves} - set(texts)
            if absent := set(columns) - {*leaves, *lists}:
                raise ValueError(f"column {shown(min(absent))} has not one value in each row")
            self._check_size(leaves)
        with pyarrow_errors(self.path):
            opened = opened_by_pyarrow(self.path, texts)
            for group in range(len(self.footer.rows)):  # one by one, since dictionaries grow from batch to batch
                for batch in opened.iter_batches(_ROWS, row_groups=[group], columns=[*columns], use_threads=False):
                    batch.validate(full=True)  # offsets, and whether text is UTF-8
                    yield batch

    def _leaves(self, columns: Sequence[str]) -> list[str]:
        """The paths of the values of these columns; that of a list `embedding` is `embedding.list.element`."""
        wanted = set(columns)
        return [leaf for leaf in self.footer.levels if leaf in wanted or leaf.partition(".")[0] in wanted]

    def _check_size(self, leaves: Sequence[str]) -> None:
        """Refuse columns that unpack to far more bytes than the file has."""
        unpacked, most = 0, most_unpacked(self.size)
        with open(self.path, "rb", buffering=0, opener=regular) as file:
            for chunk, leaf in ((chunks[leaf], leaf) for chunks in self.footer.groups for leaf in leaves):
                pages = list(pages_of(file.fileno(), chunk.begin, chunk.end, chunk.values)) if chunk.values else []
                if any(page.encoding == PREFIXED for page in pages):
                    raise ValueError(f"column {shown(leaf)} is in the encoding DELTA_BYTE_ARRAY, which is not read")
                unpacked += max(chunk.values * _WIDTH, sum(page.unpacked for page in pages))
        if unpacked > most:
            raise ValueError(
                f"its columns would unpack to {unpacked:,} bytes; from a file of {self.size:,} bytes at most {most:,} "
                "are unpacked; write it with compression='none' and use_dictionary=False"
            )


def open_parquet(path: Path) -> ParquetTable:
    """Opens a parquet file by its footer."""
    check_pyarrow(path)
    check_file(path)
    with errors_naming(path), open(path, "rb", buffering=0, opener=regular) as file:
        size = os.fstat(file.fileno()).st_size
        footer = read_footer(file.fileno(), size)
    with pyarrow_errors(path):
        return ParquetTable(path, size, footer, opened_by_pyarrow(path, ()).schema_arrow)


def longest_text(column: Any) -> int:
    """Bytes of the longest text in the rows of a dictionary of pyarrow; 0 for other columns."""
    import pyarrow
    import pyarrow.compute as compute

    if not isinstance(column, pyarrow.DictionaryArray) or column.null_count == len(column):
        return 0
    return int(compute.max(compute.binary_length(column.dictionary).take(column.indices)).as_py())


def rows_of_lists(column: Any, numbers: int) -> Shaped[np.ndarray, "rows numbers"] | None:
    """The lists of a column as rows, null as NaN; None if a list is null or has another number of entries."""
    import pyarrow.compute as compute

    if column.null_count or not compute.all(compute.equal(compute.list_value_length(column), numbers)).as_py():
        return None
    rows: np.ndarray = column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), numbers)
    return rows
