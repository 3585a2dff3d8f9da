"""Uncompressed images in the pages of a parquet file, each of which is read separately.

pyarrow decodes a whole row group to return one of its rows. In a column that is neither compressed nor
dictionary-encoded each value lies in the file as its length (4 bytes) and its bytes, so one row can be read alone once
its page is known (`verisphere.files.parquet_pages`). Layout: Apache Parquet format 2
(github.com/apache/parquet-format: README.md and Encodings.md).
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Int

from verisphere.files.disk import regular
from verisphere.files.errors import Fault, FaultError
from verisphere.images.packs.columns import Positions, take
from verisphere.images.packs.spans import Spans, Stamp, check_stamp, stamp_of


@dataclass(frozen=True, eq=False)
class PlainImages:
    """Images in plain pages of one file, which is opened anew for each request.

    The values of a page are found when the first of them is requested: 4 bytes are read for each value. A page has its
    first row, offset, size in bytes and number of rows; pages begin with definition levels where they are `nullable`.
    The first byte and the length of the image of each row of the file are 0 where they are not known yet. Stamps are
    those of the file when its index was read, taken now if none are given; `unread` is always empty.
    """

    path: Path
    names: Sequence[str]
    rows: Int[np.ndarray, " images"]
    pages: Int[np.ndarray, "pages 4"]
    nullable: bool
    begins: Int[np.ndarray, " rows"]
    lengths: Int[np.ndarray, " rows"]
    stamps: tuple[Stamp, ...] = ()
    unread: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "stamps", self.stamps or (stamp_of(self.path),))

    def keep(self, positions: Positions) -> "PlainImages":
        """The images at these positions."""
        rows = self.rows[np.asarray(positions, np.int64)]
        names = take(self.names, positions)
        return replace(self, names=names, rows=rows)

    def read(self, positions: Sequence[int]) -> Iterator[tuple[str, bytes]]:
        """For each image its file, name and place as a text for error messages, and its bytes."""
        chosen = np.asarray(positions, np.int64)
        rows = self.rows[chosen]
        self._find_pages_of(rows)
        names = take(self.names, chosen)
        spans = Spans((self.path,), names, self.begins[rows], self.lengths[rows], stamps=self.stamps)
        yield from spans.read(range(len(chosen)))

    def place(self, position: int) -> tuple[str, int | None]:
        """The file, and the byte at which an image begins; None where its page is damaged."""
        row = self.rows[position : position + 1]
        with suppress(ValueError):
            self._find_pages_of(row)
        return str(self.path), int(self.begins[row[0]]) or None

    def _find_pages_of(self, rows: Int[np.ndarray, " images"]) -> None:
        """Finds the images in the pages of these rows of the file, as far as they are not known yet."""
        unknown = rows[self.begins[rows] == 0]
        if not len(unknown):
            return
        check_stamp(self.path, self.stamps[0], stamp_of(self.path))
        places = np.searchsorted(self.pages[:, 0], unknown, side="right") - 1
        try:
            with open(self.path, "rb", buffering=0, opener=regular) as file:
                for page in np.unique(places).tolist():
                    if fault := self.find(file.fileno(), page):
                        raise FaultError(fault)
        except OSError as error:
            raise FaultError(Fault(str(self.path), "", None, f"cannot be read ({error.strerror})")) from None

    def find(self, descriptor: int, page: int) -> Fault | None:
        """Finds the images of a page, up to the first with an impossible length; returns the fault of that row."""
        first, place, size, rows = self.pages[page].tolist()
        end = place + size
        if self.nullable:
            place += 4 + int.from_bytes(os.pread(descriptor, 4, place), "little")
        for row in range(first, first + rows):
            length = int.from_bytes(os.pread(descriptor, 4, place), "little") if place + 4 <= end else size
            if place + 4 + length > end:
                null = ", or does a row of it have no image" if self.nullable else ""
                reason = f"no image of {length} bytes, its page ends at byte {end}; is the file damaged{null}?"
                return Fault(str(self.path), str(row), place, reason)
            self.lengths[row] = length
            self.begins[row] = place + 4
            place += 4 + length
        if place != end:
            null = "; does a row of the page have no image?" if self.nullable else ""
            return Fault(
                str(self.path), str(first + rows - 1), place, f"{end - place} bytes behind the last image{null}"
            )
        return None
