"""Images in large files, each stored unchanged as a run of bytes at a known place."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int

from verisphere.files.disk import regular
from verisphere.files.errors import Fault, FaultError
from verisphere.files.image_suffixes import MAX_BYTES
from verisphere.files.json_values import shortened
from verisphere.images.packs.columns import take
from verisphere.images.packs.image_files import ReadInPlace

Stamp = tuple[int, int]
"""Size and time of the last change of a file, in bytes and nanoseconds."""


def stamp_of(path: Path) -> Stamp:
    """The stamp of a file."""
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def check_stamp(path: Path, stamp: Stamp, now: Stamp) -> None:
    """Refuse a file that has changed since its index was read: other images may lie at the places of the index."""
    if stamp != now:
        reason = f"has changed since it was opened ({stamp[0]:,} bytes then, {now[0]:,} now); open it again"
        raise FaultError(Fault(str(path), "", None, reason))


@dataclass(frozen=True, eq=False)
class Spans(ReadInPlace):
    """Runs of bytes in one or more files, which are opened anew for each request.

    The bytes are read by pread, not through a mapping: if a file has become shorter, pread leads to an error, but a
    mapping would end the process. Without `parts` there is one file; stamps are those when the index was read.
    """

    by_image = "names", "offsets", "sizes", "parts"
    paths: tuple[Path, ...]
    names: Sequence[str]
    offsets: Int[np.ndarray, " images"]
    sizes: Int[np.ndarray, " images"]
    parts: Int[np.ndarray, " images"] | None = None
    stamps: tuple[Stamp, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "stamps", self.stamps or tuple(map(stamp_of, self.paths)))

    def read(self, positions: Sequence[int]) -> Iterator[tuple[str, bytes]]:
        """For each image its file, name and place as a text for error messages, and its bytes."""
        rows = np.asarray(positions, np.int64)
        parts = [0] * len(rows) if self.parts is None else self.parts[rows].tolist()
        places = zip(take(self.names, rows), parts, self.offsets[rows].tolist(), self.sizes[rows].tolist(), strict=True)
        opened: dict[int, int] = {}
        with ExitStack() as files:
            for record, part, offset, size in places:
                path = self.paths[part]
                place = str(path), shortened(record, 200), offset
                if size > MAX_BYTES:
                    raise FaultError(
                        Fault(*place, f"{size} bytes, more than the {MAX_BYTES} allowed for an image file")
                    )
                try:
                    if part not in opened:
                        file = files.enter_context(open(path, "rb", buffering=0, opener=regular))
                        opened[part] = file.fileno()
                        status = os.fstat(file.fileno())
                        check_stamp(path, self.stamps[part], (status.st_size, status.st_mtime_ns))
                    data = os.pread(opened[part], size, offset)
                except OSError as error:
                    raise FaultError(Fault(*place, f"cannot be read ({error.strerror})")) from None
                if len(data) != size:
                    raise FaultError(Fault(*place, f"{len(data)} of {size} bytes; is the file cut short?"))
                yield f"{path}: record {place[1]} at byte {offset}", data

    def place(self, position: int) -> tuple[str, int]:
        """The file of an image, and the byte at which it begins."""
        return str(self.paths[0 if self.parts is None else self.parts[position]]), int(self.offsets[position])
