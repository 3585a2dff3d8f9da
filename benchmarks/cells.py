"""Tables that are filled cell by cell, so that a stopped run continues and several processes may fill one file.

The rows of a cell are added together: a process that is killed leaves the file as it was before the cell or after it,
and the next one computes what is missing. A quick look goes to NAME_quick.csv, what the docs state to NAME.csv.
"""

import argparse
import csv
import fcntl
import io
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Table:
    """A csv file with a row for each promise or figure.

    Attributes:
        path: the file.
        kind: dataclass of a row.
        key: names of the fields that name a cell.
        digits: significant digits of its numbers.
    """

    path: Path
    kind: type
    key: tuple[str, ...]
    digits: int = 6

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return [field.name for field in fields(self.kind)]

    def rows(self) -> list[dict[str, str]]:
        """The rows that are there."""
        if not self.path.exists():
            return []
        with self.path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def has(self, *cell: object) -> bool:
        """Whether the rows of a cell are there."""
        return tuple(map(str, cell)) in {tuple(row[name] for name in self.key) for row in self.rows()}

    def add(self, cell: Iterable[Any]) -> None:
        """Add the rows of a cell, all at once; those of a cell that another process has added meanwhile are dropped."""
        added = [{name: self._written(value) for name, value in asdict(row).items()} for row in cell]
        with _alone(self.path.parent):
            there = self.rows()
            known = {tuple(row[name] for name in self.key) for row in there}
            there += [row for row in added if tuple(row[name] for name in self.key) not in known]
            text = io.StringIO()
            writer = csv.DictWriter(text, self.columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(there)
            partial = self.path.with_suffix(".part")
            partial.write_text(text.getvalue(), encoding="utf-8")
            os.replace(partial, self.path)

    def fill(self, cells: Iterator[Sequence[Any]]) -> None:
        """Add each cell when it is finished, and tell it with the CPU seconds that it took."""
        before = time.process_time()
        for cell in cells:
            self.add(cell)
            seconds = time.process_time() - before
            for row in cell:
                told = " ".join(self._written(value) for value in asdict(row).values())
                print(f"{seconds:7.1f} s  {told}", file=sys.stderr, flush=True)
                seconds = 0.0
            before = time.process_time()

    def _written(self, value: object) -> str:
        if value is None:
            return ""
        return f"{value:.{self.digits}g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Size:
    """How much is simulated.

    Attributes:
        full: whether all cells are, for the docs.
        part_of: a cell has this part of its sets.
    """

    full: bool
    part_of: int

    @classmethod
    def of(cls, options: argparse.Namespace) -> "Size":
        """As the command line says."""
        return cls(options.full, options.part_of)

    def sets(self, full: int, quick: int) -> int:
        """The number of sets in a cell."""
        return max(full // self.part_of, 1) if self.full else quick

    @property
    def of_docs(self) -> bool:
        """Whether the tables are those of the docs, with all cells and all sets."""
        return self.full and self.part_of == 1

    def path(self, name: str) -> Path:
        """The file of a table."""
        return FOLDER / (f"{name}.csv" if self.of_docs else f"{name}_quick.csv")


def parser(description: str | None, full: str) -> argparse.ArgumentParser:
    """A parser with the options of every table."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--full", action="store_true", help=full)
    made.add_argument(
        "--part-of", type=int, default=1, metavar="K", help="with --full: a K-th of the sets, into NAME_quick.csv"
    )
    return made


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other processes from adding cells meanwhile."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
