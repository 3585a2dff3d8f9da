"""The file that keeps a scan over all pairs while it runs, so that an interrupted scan can continue."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from verisphere.files.disk import write_whole
from verisphere.files.npz import names_in_npz, read_npz

_SEAL = "seal"  # array with the SHA-256 of all others; shows an edit or damage, not a forgery


class ScanState:
    """Keeps the state of a scan in one `.npz` file, which each save replaces as a whole and seals."""

    def __init__(self, path: Path) -> None:
        """Name the file; nothing is written yet."""
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def load(self) -> Mapping[str, np.ndarray] | None:
        """Read the saved arrays; None if there is no file."""
        if not self.path.exists():
            return None
        state = read_npz(self.path, names_in_npz(self.path))
        seal = state.pop(_SEAL, None)
        if seal is None:
            raise ValueError(
                f"{self.path}: not the state of an interrupted scan, or written by an earlier version; name another "
                "file"
            )
        if seal.dtype != np.uint8 or seal.tobytes() != _digest(state):
            raise ValueError(
                f"{self.path}: its arrays do not match their seal, so the file was edited or damaged; name another "
                "file, and the scan starts from the beginning"
            )
        return state

    def save(self, state: Mapping[str, np.ndarray]) -> None:
        """Replace the file's content."""
        sealed = {**state, _SEAL: np.frombuffer(_digest(state), np.uint8)}

        def write(partial: Path) -> None:
            with partial.open("wb") as file:  # an open file, since savez would add .npz to a name without it
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
