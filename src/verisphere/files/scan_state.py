"""Where a sweep over all pairs is kept while it runs, so that an interrupted one can be gone on with."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from verisphere.files.disk import write_whole
from verisphere.files.npz import names_in_npz, read_npz

_SEAL = "seal"  # array with the SHA-256 of all others; shows an edit or damage, not a forgery


class SweepFile:
    """Keeps the state of a sweep in one `.npz` file, which is replaced as a whole each time and sealed."""

    def __init__(self, path: Path) -> None:
        """Keep a sweep in this file; nothing is written yet."""
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def load(self) -> Mapping[str, np.ndarray] | None:
        """What the file holds, or None where there is no file.

        Raises:
            ValueError: it is no `.npz` file of plain arrays, or not as it was saved.
        """
        if not self.path.exists():
            return None
        state = read_npz(self.path, names_in_npz(self.path))
        seal = state.pop(_SEAL, None)
        if seal is None:
            raise ValueError(
                f"{self.path}: it holds no sweep that was interrupted, or one of an earlier version; name another file"
            )
        if seal.dtype != np.uint8 or seal.tobytes() != _digest(state):
            raise ValueError(
                f"{self.path}: its arrays are not those that were saved, by their seal, so it was edited or damaged; "
                "name another file, and the sweep begins anew"
            )
        return state

    def save(self, state: Mapping[str, np.ndarray]) -> None:
        """Replace what the file holds."""
        sealed = {**state, _SEAL: np.frombuffer(_digest(state), np.uint8)}

        def write(partial: Path) -> None:
            with partial.open("wb") as file:  # savez would add .npz to a name that lacks it
                np.savez(file, **sealed)  # type: ignore[arg-type]  # its stub takes names for options

        write_whole(self.path, write)


def _digest(state: Mapping[str, np.ndarray]) -> bytes:
    """SHA-256 of names, types, shapes and contents, in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(state):
        array = state[name]
        digest.update(f"{name!r} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()
