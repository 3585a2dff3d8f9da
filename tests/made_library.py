"""Embeddings of a library of photographs: people in random directions, with faces around each."""

import csv
from pathlib import Path

import numpy as np

from verisphere.base.vocabulary import Embeddings
from verisphere.files.embeddings import write_embeddings


def library(people: int = 8, each: int = 5, spread: float = 0.6, seed: int = 0, dim: int = 64) -> Embeddings:
    """Faces `p0/0`, `p0/1`, ... of people p0, p1, ...; scores of one person are about 1 / (1 + spread^2)."""
    draw = np.random.default_rng(seed)
    person = np.repeat(np.arange(people), each)
    unit = np.linalg.qr(draw.standard_normal((dim, dim)))[0][:people]
    rows = unit[person] + spread * draw.standard_normal((len(person), dim)) / np.sqrt(dim)
    names = [f"p{who}/{face % each}" for face, who in enumerate(person)]
    return Embeddings(rows, names=names, identities=[f"p{who}" for who in person])


def saved(folder: Path, faces: Embeddings, name: str = "library.npz") -> Path:
    write_embeddings(folder / name, faces)
    return folder / name


def table(path: Path) -> dict[str, dict[str, str]]:
    """The rows of people.csv by the name of the face."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        return {row["name"]: row for row in csv.DictReader(file)}


def edited(folder: Path, said: dict[str, tuple[str, str]]) -> None:
    """Write person and confirmed of some faces into people.csv, as a spreadsheet does."""
    rows = table(folder / "people.csv")
    for name, (person, confirmed) in said.items():
        rows[name] |= {"person": person, "confirmed": confirmed}
    with (folder / "people.csv").open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, list(next(iter(rows.values()))))
        writer.writeheader()
        writer.writerows(rows.values())
