"""Embeddings of a file or of a folder of features, read in portions so that they are never held as a whole."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float32

from verisphere.files.disk import digest
from verisphere.files.embeddings import REQUIRED, origin_of, read_embeddings, read_templates
from verisphere.files.embeddings import text_column as column_of_text
from verisphere.files.errors import errors_naming
from verisphere.files.feature_lists import PictureList, read_pictures
from verisphere.files.json_values import shown
from verisphere.files.matrices import (
    SUFFIX,
    digest_of_features,
    features_of,
    matrix_portions,
    matrix_shape,
    pictures_in,
)
from verisphere.files.npz import header_in_npz, names_in_npz, read_npz, rows_in_npz
from verisphere.files.results import EvaluatedFile
from verisphere.files.vectors import is_table
from verisphere.vocabulary import Embeddings
from verisphere.words import FeatureNorm

ROWS_AT_ONCE = 8192
ENDING = ".bin"


@dataclass(frozen=True, eq=False)
class StreamedRows:
    """The rows of a file or folder, by name.

    Attributes:
        path: the file or folder.
        names: name of each row.
        identities: the person on each row, where the file says so.
        dim: numbers a row.
        source: record of the file or folder.
        read: begins to read all rows, some at a time.
    """

    path: Path
    names: np.ndarray
    identities: np.ndarray | None
    dim: int
    source: EvaluatedFile
    read: Callable[[], Iterator[Float32[np.ndarray, "rows dim"]]]

    @property
    def steps(self) -> int:
        """Number of portions."""
        return -(-len(self.names) // ROWS_AT_ONCE)

    def portions(
        self, kept: Bool[np.ndarray, " names"] | None = None
    ) -> Iterator[tuple[np.ndarray, Float32[np.ndarray, "rows dim"]]]:
        """Names and rows of the portions, as far as they are kept.

        Raises:
            ValueError: a row is not finite, or of length zero; whatever reading the file raises.
        """
        start = 0
        for rows in self.read():
            stop = start + len(rows)
            chosen = np.arange(start, stop) if kept is None else start + np.flatnonzero(kept[start:stop])
            rows = rows[chosen - start]
            wrong = ~np.isfinite(rows).all(axis=1) | ~rows.any(axis=1)
            if wrong.any():
                row = chosen[wrong.argmax()]
                raise ValueError(
                    f"{self.path}: {shown(str(self.names[row]), 200)} (row {row}) holds NaN or infinity, or is of "
                    "length zero"
                )
            yield self.names[chosen], rows
            start = stop


def is_features(path: Path) -> bool:
    """Whether a path holds features: a folder of them, or a matrix (.bin)."""
    return path.is_dir() or path.suffix.lower() == SUFFIX


def open_rows(
    path: Path, feature_norm: FeatureNorm = "keep", pictures: Path | None = None, ending: str = ENDING
) -> StreamedRows:
    """The rows of an embeddings file, of a matrix of features (.bin) or of a folder of feature files.

    Args:
        path: the file or folder.
        feature_norm: how the rows of a template are pooled; see `templates_of`.
        pictures: list of the pictures; of a folder those to read, of a matrix those of its rows.
        ending: what follows the path of a picture in the name of its feature file.

    Raises:
        FileNotFoundError: the file, or the feature of a listed picture, is missing.
        ValueError: the file is of no such form; an embeddings file has a list of pictures.
    """
    if path.is_dir():
        listed = None if pictures is None else read_pictures(pictures)
        names = pictures_in(path, ending) if listed is None else listed.pictures
        return _folder(path, names, None if listed is None else listed.people, ending)
    if path.suffix.lower() == SUFFIX:
        return _matrix(path, None if pictures is None else (pictures, read_pictures(pictures)))
    if pictures is not None:
        raise ValueError(f"{path}: an embeddings file names its pictures; the list {pictures} is for features (.bin)")
    if is_table(path) or {"media", "templates"} & set(names_in_npz(path)):
        held = read_templates(path, feature_norm)  # must be held to be pooled
        return StreamedRows(
            path,
            held.names,
            held.identities,
            held.embeddings.shape[1],
            EvaluatedFile(path.name, digest(path), held.origin),
            lambda: (held.embeddings[start : start + ROWS_AT_ONCE] for start in range(0, len(held), ROWS_AT_ONCE)),
        )
    return _npz(path)


def read_rows(
    path: Path, feature_norm: FeatureNorm = "keep", pictures: Path | None = None, ending: str = ENDING
) -> tuple[Embeddings, EvaluatedFile]:
    """All rows of a file or folder as `open_rows` opens it, with the people; and the record of the file.

    Raises:
        FileNotFoundError, ValueError: those of `open_rows`; nothing says who is on the pictures.
    """
    if not is_features(path):
        embeddings = read_templates(path, feature_norm)
        return embeddings, EvaluatedFile(path.name, digest(path), embeddings.origin)
    if pictures is None:
        raise ValueError(f"{path}: features do not say who is on a picture; name a list of the pictures")
    opened = open_rows(path, feature_norm, pictures, ending)
    rows = np.concatenate([rows for _, rows in opened.portions()])
    with errors_naming(path):
        return Embeddings(rows, names=opened.names, identities=opened.identities), opened.source


def _npz(path: Path) -> StreamedRows:
    there = names_in_npz(path)
    if any(name not in there for name in REQUIRED):
        read_embeddings(path)  # says what lacks
    arrays = read_npz(path, (*REQUIRED[1:], "origin"))
    (*shape,), kind = header_in_npz(path, REQUIRED[0])
    if len(shape) != 2 or kind.kind != "f" or 0 in shape:
        raise ValueError(f"{path}: embeddings must be floating-point (rows, dim), got {kind} {tuple(shape)}")
    columns: dict[str, np.ndarray] = {}
    for field in REQUIRED[1:]:
        if arrays[field].shape != (shape[0],):
            raise ValueError(f"{path}: {field} has shape {arrays[field].shape} but there are {shape[0]} embeddings")
        columns[field] = column_of_text(path, field, arrays[field], columns.get("names"))
    names, counts = np.unique(columns["names"], return_counts=True)
    if len(names) < shape[0]:
        again = shown(str(names[counts.argmax()]), 200)
        raise ValueError(f"{path}: names must be unique, but {again} appears {counts.max()} times")

    def read() -> Iterator[Float32[np.ndarray, "rows dim"]]:
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite and is refused
            for rows in rows_in_npz(path, REQUIRED[0], ROWS_AT_ONCE):
                yield rows.astype(np.float32, copy=False)

    origin = origin_of(path, arrays["origin"]) if "origin" in arrays else None
    return StreamedRows(path, **columns, dim=shape[1], source=EvaluatedFile(path.name, digest(path), origin), read=read)


def _matrix(path: Path, listed: tuple[Path, PictureList] | None) -> StreamedRows:
    rows, dim = matrix_shape(path)
    if dim == 1:
        raise ValueError(f"{path}: the feature of one picture; name the folder of the features instead")
    if listed is not None and len(listed[1].pictures) != rows:
        raise ValueError(f"{path}: {rows:,} rows, but {listed[0]} lists {len(listed[1].pictures):,} pictures")
    return StreamedRows(
        path,
        np.arange(rows).astype(str) if listed is None else np.array(listed[1].pictures),
        None if listed is None else np.array(listed[1].people),
        dim,
        EvaluatedFile(path.name, digest(path)),
        lambda: matrix_portions(path, ROWS_AT_ONCE),
    )


def _folder(path: Path, pictures: tuple[str, ...], people: tuple[str, ...] | None, ending: str) -> StreamedRows:
    first = next(features_of(path, pictures[:1], ending, 1))
    lacking = [picture for picture in pictures if not (path / f"{picture}{ending}").is_file()]
    if lacking:
        raise FileNotFoundError(
            f"{path}: {len(lacking):,} of {len(pictures):,} listed pictures have no feature file, the first is "
            f"{shown(lacking[0] + ending, 200)}"
        )
    return StreamedRows(
        path,
        np.array(pictures),
        None if people is None else np.array(people),
        first.shape[1],
        EvaluatedFile(path.name, digest_of_features(path, pictures, ending)),
        lambda: features_of(path, pictures, ending, ROWS_AT_ONCE),
    )
