"""Small inputs of a search for overlap: lists of names, and embeddings at angles in the plane."""

from pathlib import Path

import numpy as np

from verisphere.base.vocabulary import Embeddings
from verisphere.files.embeddings import write_embeddings


def text(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def in_plane(path: Path, rows: dict[str, tuple[str, float]]) -> Path:
    """Embeddings at angles in the plane: the person and the degrees of each image."""
    angles = np.radians([degrees for _, degrees in rows.values()])
    units = np.stack([np.cos(angles), np.sin(angles)], 1)
    write_embeddings(path, Embeddings(units, names=list(rows), identities=[person for person, _ in rows.values()]))
    return path
