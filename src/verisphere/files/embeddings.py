"""The embeddings file: an .npz archive with an embedding, a name and an identity for each image."""

import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from verisphere.files.disk import write_whole
from verisphere.files.documents import read_json
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shortened, shown
from verisphere.files.npz import names_in_npz, read_npz
from verisphere.files.vectors import is_table, read_vectors
from verisphere.score.templates import templates_of
from verisphere.vocabulary import NOBODY, Embeddings, Origin
from verisphere.words import FeatureNorm

log = logging.getLogger(__name__)

REQUIRED = ("embeddings", "names", "identities")
OPTIONAL = ("domains", "media", "templates")
#: A missing value of numpy or pandas as text (by `astype(str)`).
MISSING = ("nan", "NaN", "<NA>", "NaT", "None")
_SURROGATES = range(0xD800, 0xE000)  # halves of characters, which no UTF-8 text can hold
_LONGEST_ORIGIN = 1 << 16  # characters


def text_column(path: str | Path, field: str, column: np.ndarray, names: np.ndarray | None = None) -> np.ndarray:
    """A column as strings; numbers are converted to text.

    Args:
        path: file of the column, for errors.
        field: name of the column, for errors.
        column: the array in the file.
        names: name of each row, for errors, if the column has an entry for each row.

    Raises:
        ValueError: the column holds bytes that are not ASCII, text that is not Unicode, NaN or infinity, or values that
            are neither text nor numbers.
    """
    if column.dtype.kind not in "USbiuf":
        raise ValueError(f"{path}: {field} must be text or numbers, got {column.dtype}")
    if column.dtype.kind == "f":
        wrong = np.flatnonzero(~np.isfinite(column.ravel()))
        if len(wrong):
            first = f"row {wrong[0]}" + ("" if names is None else f", {shown(str(names[wrong[0]]), 200)}")
            raise ValueError(
                f"{path}: {field} holds NaN or infinity in {len(wrong)} of {column.size} rows, first in {first}; a "
                "missing value would count as a value of its own: leave such rows out"
            )
    try:
        text = column.astype(str, copy=False)
        text = text.astype(text.dtype.newbyteorder("="), copy=False)
    except UnicodeDecodeError:
        raise ValueError(f"{path}: {field} holds bytes that are not ASCII; save it as an array of str") from None
    letters = np.ascontiguousarray(text).view(np.uint32)
    if letters.max(initial=0) >= _SURROGATES.start:  # rare, so the slower search for the row comes second
        rows = letters.reshape(text.size, -1)
        foreign = (rows > sys.maxunicode) | ((rows >= _SURROGATES.start) & (rows < _SURROGATES.stop))
        if foreign.any():
            row = f" in row {foreign.any(axis=1).argmax()}" if text.ndim else ""
            raise ValueError(f"{path}: {field} holds characters that are not Unicode{row}; is the file damaged?")
    return text


def read_templates(path: str | Path, feature_norm: FeatureNorm = "keep") -> Embeddings:
    """The rows to compare from an embeddings file: its templates, if it has templates or media, else its rows.

    Args:
        path: embeddings file.
        feature_norm: pooling of the rows of a template; see `templates_of`.

    Raises:
        FileNotFoundError, ValueError: see `read_embeddings` and `templates_of`.
    """
    embeddings = read_embeddings(path)
    with errors_naming(path):
        return templates_of(embeddings, feature_norm)


def read_known_people(path: str | Path, feature_norm: FeatureNorm = "keep") -> Embeddings:
    """The rows with a known person to compare from an embeddings file; see `read_templates` and `known_people`.

    Raises:
        FileNotFoundError, ValueError: see `read_templates`; or no image shows a known person.
    """
    return known_people(read_templates(path, feature_norm), path)


def known_people(embeddings: Embeddings, source: str | Path) -> Embeddings:
    """The rows whose person is known; the log states the number of excluded rows, whose identity is `NOBODY`.

    A pair in which one or both people are unknown may or may not show one person, so it is neither a genuine nor an
    impostor pair.

    Raises:
        ValueError: no image shows a known person.
    """
    known = embeddings.identities != NOBODY
    if known.all():
        return embeddings
    unknown = f"{int((~known).sum()):,} of {len(known):,} images"
    excluded = f"{source}: {unknown} show nobody who is known (identity {NOBODY})"
    if not known.any():
        raise ValueError(f"{excluded}, so there is nothing to compare; a list of pairs compares them all the same")
    log.info("%s and are excluded", excluded)
    return embeddings.take(known)


def read_embeddings(path: str | Path) -> Embeddings:
    """Reads and checks an embeddings file, or a table of embeddings (see `verisphere.files.vectors`).

    Identities and domains that are numbers become strings. NaN among them is refused, since all rows with NaN would
    become one person; so is an identity that is the text of a missing value (`MISSING`). The optional array `origin`
    states which model made the embeddings. No other array is read.

    Raises:
        FileNotFoundError: there is no such file, or it is a folder.
        ValueError: the file is not an embeddings file; or it has NaN or zero-length embeddings, names that are not
            unique, an identity that is empty, NaN or in `MISSING`, or a row without a domain among rows with domains.
    """
    table = Path(path)
    if table.is_dir():
        raise FileNotFoundError(
            f"{path}: there is no such file, it is a folder; verisphere embed MODEL FACES --out FILE.npz makes an "
            "embeddings file"
        )
    arrays = read_vectors(table) if is_table(table) else read_npz(path, (*REQUIRED, *OPTIONAL, "origin"))
    missing = [name for name in REQUIRED if name not in arrays]
    if missing:
        raise ValueError(
            f"{path}: no array {' and no array '.join(missing)}; an embeddings file has {', '.join(REQUIRED)}, "
            f"this one has {shortened(', '.join(names_in_npz(path)), 200) or 'nothing'}"
        )
    rows = arrays["embeddings"]
    if rows.ndim != 2 or rows.dtype.kind != "f":
        raise ValueError(f"{path}: embeddings must be floating-point (rows, dim), got {rows.dtype} {rows.shape}")
    if not rows.size:
        raise ValueError(f"{path}: it holds no embedding (shape {rows.shape})")
    columns: dict[str, np.ndarray] = {}
    for field in (*REQUIRED[1:], *OPTIONAL):
        if field in arrays:
            column = arrays[field]
            if column.shape != rows.shape[:1]:  # before the conversion to text, which can take more memory
                raise ValueError(f"{path}: {field} has shape {column.shape} but there are {len(rows)} embeddings")
            columns[field] = text_column(path, field, column, columns.get("names"))
    _refuse_missing(path, columns["identities"], columns["names"])
    origin = origin_of(path, arrays["origin"]) if "origin" in arrays else None
    with errors_naming(path), np.errstate(over="ignore", invalid="ignore"):  # infinity and NaN are refused
        embeddings = Embeddings(rows.astype(np.float32), **columns, origin=origin)
    for field, word in (("domains", "domain"), ("media", "medium"), ("templates", "template")):
        column = getattr(embeddings, field)
        if column is not None and (column == "").any():
            row = int((column == "").argmax())
            scores = " (in a scores file an empty domain marks a pair across domains)" if field == "domains" else ""
            raise ValueError(
                f"{path}: {shown(str(embeddings.names[row]), 200)} (row {row}) has an empty {word}; name one for every "
                f"row, or leave the array out{scores}"
            )
    return embeddings


def _refuse_missing(path: str | Path, identities: np.ndarray, names: np.ndarray) -> None:
    wrong = np.flatnonzero(np.isin(identities, MISSING))
    if len(wrong):
        row = wrong[0]
        raise ValueError(
            f"{path}: the identity of {shown(str(names[row]), 200)} (row {row}) is {str(identities[row])!r}, as in "
            f"{len(wrong)} of {len(identities)} rows; that is what a missing value becomes as text; leave such rows "
            "out, or rename the person"
        )


def origin_of(path: str | Path, array: np.ndarray) -> Origin:
    """The origin of embeddings, from the array `origin` of their file.

    Raises:
        ValueError: the array is not one that `verisphere embed` writes.
    """
    column = text_column(path, "origin", array)
    with errors_naming(path):
        return _read_origin(column)


def _read_origin(column: np.ndarray) -> Origin:
    try:
        if column.ndim == 0 and column.itemsize <= 4 * _LONGEST_ORIGIN:
            fields = read_json(str(column))
            origin = Origin(**fields)
            if all(isinstance(getattr(origin, name), kind) for name, kind in Origin.__annotations__.items()):
                return origin
    except (ValueError, TypeError):
        pass
    raise ValueError(
        f"its array origin is not what `verisphere embed` writes (JSON with {', '.join(Origin.__annotations__)}); "
        "leave the array out where the model is not known"
    )


def write_embeddings(path: str | Path, embeddings: Embeddings) -> None:
    """Writes an embeddings file completely, or not at all.

    Raises:
        ValueError: the name does not end in .npz.
    """
    if Path(path).suffix != ".npz":
        raise ValueError(f"{path}: an embeddings file ends in .npz")
    columns: dict[str, Any] = {"names": embeddings.names, "identities": embeddings.identities}
    for field in OPTIONAL:
        if (column := getattr(embeddings, field)) is not None:
            columns[field] = column
    if embeddings.origin is not None:
        columns["origin"] = np.array(json.dumps(asdict(embeddings.origin)))
    write_whole(path, lambda partial: np.savez(partial, embeddings=embeddings.embeddings, **columns))


def pool_embeddings(sets: Sequence[tuple[str, Embeddings]]) -> Embeddings:
    """Several sets as one set with domains: the domains of each set, or the name of a set without domains.

    An identity is one person in all sets; equal image names of two sets are distinguished by the names of the sets. The
    origin is kept if it is the same for all sets.

    Raises:
        ValueError: two sets have the same name, a set has the name of a domain of another set, or the embeddings differ
            in size.
    """
    titles = [title for title, _ in sets]
    if len(set(titles)) < len(titles):
        raise ValueError(f"two embeddings files are both called {max(titles, key=titles.count)!r}; rename one")
    if len(sets) == 1:
        title, only = sets[0]
        domains = np.full(len(only), title) if only.domains is None else only.domains
        return replace(only, domains=domains)
    named = {str(domain) for _, part in sets if part.domains is not None for domain in part.domains}
    both = named & {title for title, part in sets if part.domains is None}
    if both:
        raise ValueError(f"{min(both)!r} is the name of one embeddings file and a domain in another; rename the file")
    sizes = {title: embeddings.embeddings.shape[1] for title, embeddings in sets}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"embeddings of different sizes cannot be compared: {sizes}")
    return Embeddings(
        np.concatenate([embeddings.embeddings for _, embeddings in sets]),
        names=np.concatenate([np.char.add(f"{title}/", embeddings.names) for title, embeddings in sets]),
        identities=np.concatenate([embeddings.identities for _, embeddings in sets]),
        domains=np.concatenate(
            [
                np.full(len(embeddings), title) if embeddings.domains is None else embeddings.domains
                for title, embeddings in sets
            ]
        ),
        origin=_pooled_origin([part.origin for _, part in sets]),
    )


def _pooled_origin(origins: Sequence[Origin | None]) -> Origin | None:
    """The origin of several sets, if all were made by the same weights in the same way; drawn if any set is drawn."""
    known = [origin for origin in origins if origin is not None]
    first = known[0] if len(known) == len(origins) else None
    if first is None or not all(first.made_alike(other) for other in known):
        return None
    drawn = {origin.drawn for origin in known}
    alignments = {origin.alignment for origin in known}
    return replace(
        first,
        images="",
        drawn=True if True in drawn else None if None in drawn else False,
        alignment=first.alignment if len(alignments) == 1 else None,
    )
