"""Embeddings of a file or of a folder of features, read in portions so that they are never held as a whole."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float32

from verisphere.base.identity import decided, settled
from verisphere.base.trained_on import RowsInTraining
from verisphere.base.vocabulary import Embeddings
from verisphere.base.words import FeatureNorm
from verisphere.files.disk import digest
from verisphere.files.embeddings import (
    IN_TRAINING,
    REQUIRED,
    names_rule_of,
    origin_of,
    read_embeddings,
    read_templates,
    rows_in_training,
    text_column,
)
from verisphere.files.errors import errors_naming
from verisphere.files.feature_lists import PictureList, read_pictures
from verisphere.files.json_values import shortened, shown
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
from verisphere.files.sharded import digest_of_embeddings, manifest_of
from verisphere.files.vectors import is_table

ROWS_AT_ONCE = 8192
ENDING = ".bin"


@dataclass(frozen=True, eq=False)
class StreamedRows:
    """The rows of a file or folder, by name; `read` returns an iterator over all rows, in portions, unchecked."""

    path: Path
    names: np.ndarray
    identities: np.ndarray | None
    dim: int
    source: EvaluatedFile
    read: Callable[[], Iterator[Float32[np.ndarray, "rows dim"]]]
    in_training: RowsInTraining | None = None

    def __len__(self) -> int:
        return len(self.names)

    @property
    def steps(self) -> int:
        """Number of portions."""
        return -(-len(self) // ROWS_AT_ONCE)

    def portions(
        self, kept: Bool[np.ndarray, " names"] | None = None
    ) -> Iterator[tuple[np.ndarray, Float32[np.ndarray, "rows dim"]]]:
        """Names and rows of the portions, without excluded rows."""
        start = 0
        for rows in self.read():
            place = slice(start, start + len(rows))
            names = self.names[place]
            if kept is not None:
                names, rows = names[kept[place]], rows[kept[place]]
            self._check(names, rows)
            yield names, rows
            start = place.stop

    def _check(self, names: np.ndarray, rows: Float32[np.ndarray, "rows dim"]) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.einsum("ij,ij->i", rows, rows)  # one pass finds the rows to check again
        for row in np.flatnonzero(~np.isfinite(squares) | (squares == 0)).tolist():
            if not np.isfinite(rows[row]).all():
                wrong = "hold NaN or infinity"
            elif not rows[row].any():
                wrong = "have length zero"
            else:
                continue  # float32 can hold the numbers, but not their squares
            place = int(np.flatnonzero(self.names == names[row])[0])
            raise ValueError(
                f"{self.path}: some embeddings {wrong}, the first is {shown(str(names[row]), 200)} (row {place})"
            )


def is_features(path: Path) -> bool:
    """Whether a path holds features: a folder of them, or a matrix (.bin)."""
    return (path.is_dir() and manifest_of(path) is None) or path.suffix.lower() == SUFFIX


def evaluated(path: Path, embeddings: Embeddings | None = None) -> EvaluatedFile:
    """The record of an evaluated file: its name, its digest, and what its embeddings record."""
    if embeddings is None:
        return EvaluatedFile(path.name, digest_of_embeddings(path))
    known = embeddings.shared_with_training
    return EvaluatedFile(path.name, digest_of_embeddings(path), embeddings.origin, known, embeddings.names_rule)


def open_rows(path: Path, columns: Sequence[str] = ("names",), compared: bool = True) -> StreamedRows:
    """The rows of an embeddings file without pooling; of the other arrays only the columns and the origin are read.

    People of the training are counted even if the column of the people is not asked for. Where each row is a person of
    its own, identities are not `compared`. The rows of a folder of shards are mapped, those of a table are held.
    """
    if is_table(path):
        return _held(path, read_embeddings(path))
    present = names_in_npz(path)
    missing = [name for name in ("embeddings", *columns) if name not in present]
    if missing:
        raise ValueError(
            f"{path}: no array {' and no array '.join(missing)}; this one has "
            f"{shortened(', '.join(present), 200) or 'nothing'}"
        )
    shape, dtype = header_in_npz(path, "embeddings")
    if len(shape) != 2 or dtype.kind != "f":
        raise ValueError(f"{path}: embeddings must be floating-point (rows, dim), got {dtype} {shape}")
    if 0 in shape:
        raise ValueError(f"{path}: it holds no embedding (shape {shape})")
    counted = {"identities"} & set(present) if "trained_people" in present else set()
    arrays = read_npz(path, (*columns, *counted, "origin", "names_rule", *IN_TRAINING))
    text: dict[str, np.ndarray] = {}
    for field in dict.fromkeys((*columns, *counted)):
        if arrays[field].shape != shape[:1]:
            raise ValueError(f"{path}: {field} has shape {arrays[field].shape} but there are {shape[0]} embeddings")
        text[field] = text_column(path, field, arrays[field], text.get("names"))
    with errors_naming(path):
        rule = names_rule_of(arrays.get("names_rule"))
        rule = decided(rule)
        if "identities" in text:  # of people who are counted alone nothing is refused
            with nullcontext() if compared and "identities" in columns else suppress(ValueError):
                text["identities"] = settled([("", text["names"], text["identities"])], rule)[0]
    names, counts = np.unique(text["names"], return_counts=True)
    if len(names) < shape[0]:
        repeated = shown(str(names[counts.argmax()]), 200)
        raise ValueError(f"{path}: names must be unique, but {repeated} appears {counts.max()} times")

    def read() -> Iterator[Float32[np.ndarray, "rows dim"]]:
        for rows in rows_in_npz(path, "embeddings", ROWS_AT_ONCE):
            with np.errstate(over="ignore", invalid="ignore"):  # `portions` refuses infinity and NaN
                rows = rows.astype(np.float32, copy=False)
            yield rows

    origin = origin_of(path, arrays["origin"]) if "origin" in arrays else None
    with errors_naming(path):
        known = rows_in_training(arrays, shape[0])
        known = known if known is None or "identities" not in text else known.of(text["identities"], rule)
    shared = None if known is None else known.shared(text.get("identities"))
    source = EvaluatedFile(path.name, digest(path), origin, shared, rule)
    return StreamedRows(path, text["names"], text.get("identities"), shape[1], source, read, known)


def open_templates(
    path: Path, feature_norm: FeatureNorm = "keep", pictures: Path | None = None, ending: str = ENDING
) -> StreamedRows:
    """The rows to compare from an embeddings file, a matrix of features (.bin) or a folder of feature files.

    The rows of an embeddings file are its templates, if it has templates or media, else its embeddings. A list of
    pictures names those to read from a folder, whose feature files have the path of a picture and an ending, or the
    rows of a matrix.
    """
    if path.is_dir() and manifest_of(path) is None:
        listed = None if pictures is None else read_pictures(pictures)
        names = pictures_in(path, ending) if listed is None else listed.pictures
        return _folder(path, names, None if listed is None else listed.people, ending)
    if path.suffix.lower() == SUFFIX:
        return _matrix(path, None if pictures is None else (pictures, read_pictures(pictures)))
    if pictures is not None:
        raise ValueError(f"{path}: an embeddings file names its pictures; the list {pictures} is for features (.bin)")
    if is_table(path) or {"media", "templates"} & set(names_in_npz(path)):
        return _held(path, read_templates(path, feature_norm))  # rows must be in memory to be pooled
    return open_rows(path, REQUIRED[1:], compared=False)


def read_rows(
    path: Path, feature_norm: FeatureNorm = "keep", pictures: Path | None = None, ending: str = ENDING
) -> tuple[Embeddings, EvaluatedFile]:
    """All rows of a file or folder opened by `open_templates`, with the people; and the record of the file."""
    if not is_features(path):
        embeddings = read_templates(path, feature_norm)
        return embeddings, evaluated(path, embeddings)
    if pictures is None:
        raise ValueError(f"{path}: features do not say who is on a picture; name a list of the pictures")
    opened = open_templates(path, feature_norm, pictures, ending)
    rows = np.concatenate([rows for _, rows in opened.portions()])
    with errors_naming(path):
        return Embeddings(rows, names=opened.names, identities=opened.identities), opened.source


def _held(path: Path, held: Embeddings) -> StreamedRows:
    return StreamedRows(
        path,
        held.names,
        held.identities,
        held.embeddings.shape[1],
        evaluated(path, held),
        lambda: (held.embeddings[start : start + ROWS_AT_ONCE] for start in range(0, len(held), ROWS_AT_ONCE)),
        held.in_training,
    )


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
        replace(evaluated(path), names_rule=None if listed is None else decided()),
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
        EvaluatedFile(
            path.name, digest_of_features(path, pictures, ending), names_rule=None if people is None else decided()
        ),
        lambda: features_of(path, pictures, ending, ROWS_AT_ONCE),
    )
