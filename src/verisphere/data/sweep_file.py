"""Where a sweep over all pairs is kept while it runs, so that an interrupted one can be gone on with."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from verisphere.data.files import write_whole
from verisphere.data.npz_file import names_in_npz, read_npz


class SweepFile:
    """Keeps the state of a sweep in one `.npz` file, which is replaced as a whole each time."""

    def __init__(self, path: Path) -> None:
        """Keep a sweep in this file; nothing is written yet."""
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def load(self) -> Mapping[str, np.ndarray] | None:
        """What the file holds, or None where there is no file.

        Raises:
            ValueError: it is no `.npz` file, or holds objects.
        """
        return read_npz(self.path, names_in_npz(self.path)) if self.path.exists() else None

    def save(self, state: Mapping[str, np.ndarray]) -> None:
        """Replace what the file holds."""

        def write(partial: Path) -> None:
            with partial.open("wb") as file:  # savez would add .npz to a name that lacks it
                np.savez(file, **state)  # type: ignore[arg-type]  # its stub takes names for options

        write_whole(self.path, write)
