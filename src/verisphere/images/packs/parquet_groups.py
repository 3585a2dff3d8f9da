"""Images of a parquet file that are compressed or dictionary-encoded: pyarrow unpacks them a row group at a time."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, Int64

from verisphere.files.image_suffixes import MAX_BYTES
from verisphere.files.json_values import shortened
from verisphere.files.parquet_table import opened_by_pyarrow, pyarrow_errors
from verisphere.images.packs.columns import Positions, take
from verisphere.images.packs.spans import Stamp, check_stamp, stamp_of

LARGEST_GROUP = 2 * 2**30
"""Most bytes of images in a row group; to read one image, its whole row group is unpacked."""

_KEPT = 256 * 2**20  # bytes of row groups that are kept
_IMAGES = 16  # images that pyarrow decodes at a time


def wrong_size(image: bytes | None) -> str | None:
    """The reason why a row holds no image, by the number of its bytes; None if an image can have so many."""
    if image is not None and 0 < len(image) <= MAX_BYTES:
        return None
    size = "no image" if image is None else f"an image of {len(image)} bytes"
    return f"{size}; allowed are 1 to {MAX_BYTES} bytes"


class GroupedImages:
    """Images that pyarrow unpacks, a row group at a time; the last row groups are kept, up to 256 MiB.

    A copy in another process begins without any.
    """

    def __init__(
        self,
        path: Path,
        names: Sequence[str],
        rows: Int[np.ndarray, " images"],
        group_ends: Int64[np.ndarray, " groups"],
        leaf: str,
        stamp: Stamp | None = None,
    ) -> None:
        self.path, self.names, self.rows, self._group_ends, self._leaf = path, names, rows, group_ends, leaf
        self.unread: Sequence[str] = ()
        self._stamp = stamp_of(path) if stamp is None else stamp
        self._kept: OrderedDict[int, list[bytes | None]] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_kept": OrderedDict()}

    def keep(self, positions: Positions) -> "GroupedImages":
        """The images at these positions."""
        rows = self.rows[np.asarray(positions, np.int64)]
        return GroupedImages(self.path, take(self.names, positions), rows, self._group_ends, self._leaf, self._stamp)

    def read(self, positions: Sequence[int]) -> Iterator[tuple[str, bytes]]:
        """For each image its file, name and row group as a text for error messages, and its bytes."""
        for position in positions:
            row = int(self.rows[position])
            group = int(np.searchsorted(self._group_ends, row, side="right"))
            first = int(self._group_ends[group - 1]) if group else 0
            name = f"{self.path}: record {shortened(self.names[position], 200)} in row group {group}"
            images = self.group(group)
            image = images[row - first] if row - first < len(images) else None
            if image is None or not 0 < len(image) <= MAX_BYTES:
                raise ValueError(f"{name}: {wrong_size(image)}")
            yield name, image

    def place(self, position: int) -> tuple[str, None]:
        """The file."""
        return str(self.path), None

    def group(self, group: int) -> list[bytes | None]:
        """The images of a row group; None where a row has none."""
        if group in self._kept:
            self._kept.move_to_end(group)
            return self._kept[group]
        check_stamp(self.path, self._stamp, stamp_of(self.path))
        images: list[bytes | None] = []
        size = 0
        with pyarrow_errors(self.path):
            batches = opened_by_pyarrow(self.path, ()).iter_batches(
                _IMAGES, row_groups=[group], columns=[self._leaf], use_threads=False
            )
            for batch in batches:
                batch.validate(full=True)
                column = batch.column(0)
                size += column.nbytes
                if size > LARGEST_GROUP:
                    raise ValueError(f"{self.path}: row group {group} unpacks to more than {LARGEST_GROUP:,} bytes")
                images += (column if self._leaf == "image" else column.flatten()[0]).to_pylist()
        self._kept[group] = images
        while len(self._kept) > 1 and self._bytes_kept() > _KEPT:
            self._kept.popitem(last=False)
        return images

    def _bytes_kept(self) -> int:
        return sum(len(image or b"") for images in self._kept.values() for image in images)
