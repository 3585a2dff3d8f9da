"""The embeddings file: an .npz archive with an embedding, a name and an identity for each image."""

import json
import logging
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from verisphere.base.identity import crowds, refuse_missing, rule_of_all, settled
from verisphere.base.mapped import joined
from verisphere.base.trained_on import RowsInTraining, pooled_rows
from verisphere.base.vocabulary import NOBODY, Embeddings, Origin
from verisphere.base.words import NAMES, FeatureNorm, Names, check_titles
from verisphere.files.disk import write_whole
from verisphere.files.documents import read_json
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import from_json, shortened, shown
from verisphere.files.npz import names_in_npz, read_npz
from verisphere.files.vectors import is_table, read_vectors
from verisphere.score.templates import templates_of

log = logging.getLogger(__name__)

REQUIRED = ("embeddings", "names", "identities")
OPTIONAL = ("domains", "media", "templates")
_OLD = "an earlier version made the embeddings, which recorded no images"
#: Arrays of `Embeddings.in_training`.
IN_TRAINING = ("digests", "trained_people", "trained_images", "trained_other_rule", "trained_record")
_FURTHER = ("origin", "names_rule", *IN_TRAINING)
_SURROGATES = range(0xD800, 0xE000)  # halves of characters, which no UTF-8 text can hold
_LONGEST_ORIGIN = 1 << 16  # characters


def text_column(path: str | Path, field: str, column: np.ndarray, names: np.ndarray | None = None) -> np.ndarray:
    """A column as strings; numbers are converted to text, of identities those of whole numbers: 1.0 is `1`."""
    if column.dtype.kind not in "USiuf":
        raise ValueError(f"{path}: {field} must be text or numbers, got {column.dtype}")
    if column.dtype.kind == "f":
        if where := _rows_in_words(~np.isfinite(column), names):
            raise ValueError(
                f"{path}: {field} holds NaN or infinity in {where}; a missing value would count as a value of its own: "
                "leave such rows out"
            )
        if field == "identities":
            exact = 0 if column.dtype == np.float16 else 2 ** min(np.finfo(column.dtype).nmant + 1, 53)
            if where := _rows_in_words((column != np.floor(column)) | (np.abs(column) >= exact), names):
                raise ValueError(
                    f"{path}: identities are {column.dtype} numbers, not whole or too large to be distinct in {where}; "
                    "save integers, or text that is no number, such as p1.5"
                )
            column = column.astype(np.int64)
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


def _rows_in_words(wrong: np.ndarray, names: np.ndarray | None) -> str:
    """How many rows are wrong and which is the first; empty if none is."""
    if not wrong.any():
        return ""
    row = int(wrong.ravel().argmax())
    first = f"row {row}" + ("" if names is None else f", {shown(str(names[row]), 200)}")
    return f"{int(wrong.sum())} of {wrong.size} rows, first in {first}"


def read_templates(path: str | Path, feature_norm: FeatureNorm = "keep") -> Embeddings:
    """The rows to compare from an embeddings file: its templates, if it has templates or media, else its rows."""
    embeddings = read_embeddings(path)
    with errors_naming(path):
        return templates_of(embeddings, feature_norm)


def read_known_people(path: str | Path, feature_norm: FeatureNorm = "keep") -> Embeddings:
    """The rows with a known person to compare from an embeddings file; see `read_templates` and `known_people`."""
    embeddings = read_templates(path, feature_norm)
    note_crowds(path, embeddings.identities)
    return known_people(embeddings, path)


def note_crowds(source: str | Path, identities: Iterable[str]) -> None:
    """The log states each name such as `unknown` that holds far more images than a person; see `crowds`."""
    column = identities.tolist() if isinstance(identities, np.ndarray) else identities
    for note in crowds(Counter(column).items()):
        log.warning("%s: %s", source, note)


def known_people(embeddings: Embeddings, source: str | Path) -> Embeddings:
    """The rows whose person is known; the log states the number of excluded rows, whose identity is `NOBODY`."""
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
    """Reads and checks an embeddings file, a folder of shards, or a table of embeddings.

    See `verisphere.files.sharded` and `verisphere.files.vectors`; the rows of shards are mapped, not held. Refused are
    NaN among identities and domains, since all rows with NaN would become one person, the text of a missing value, and
    identities that are equal once folded, unless something decides about them (`verisphere.base.identity`).
    """
    table = Path(path)
    if table.is_dir() and not is_table(table):
        raise FileNotFoundError(
            f"{path}: there is no such file, it is a folder; verisphere embed MODEL FACES --out FILE.npz makes an "
            "embeddings file"
        )
    arrays = read_vectors(table) if is_table(table) else read_npz(path, (*REQUIRED, *OPTIONAL, *_FURTHER))
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
    columns: dict[str, Any] = {}
    for field in (*REQUIRED[1:], *OPTIONAL):
        if field in arrays:
            column = arrays[field]
            if column.shape != rows.shape[:1]:  # before the conversion to text, which can take more memory
                raise ValueError(f"{path}: {field} has shape {column.shape} but there are {len(rows)} embeddings")
            columns[field] = text_column(path, field, column, columns.get("names"))
    origin = origin_of(path, arrays["origin"]) if "origin" in arrays else None
    with errors_naming(path), np.errstate(over="ignore", invalid="ignore"):  # infinity and NaN are refused
        known, rule = rows_in_training(arrays, len(rows)), names_rule_of(arrays.get("names_rule"))
        numbers = rows.astype(np.float32, copy=False)
        return Embeddings(numbers, **columns, origin=origin, in_training=known, names_rule=rule)


def names_rule_of(array: np.ndarray | None) -> Names | None:
    """How names were taken when a file was made, from its array `names_rule`; None if it has none."""
    if array is None:
        return None
    for rule in NAMES:
        if array.ndim == 0 and str(array) == rule:
            return rule
    raise ValueError(f"its array names_rule is none of {', '.join(NAMES)}, which `verisphere embed` writes")


def origin_of(path: str | Path, array: np.ndarray) -> Origin:
    """The origin of embeddings, from the array `origin` of their file."""
    column = text_column(path, "origin", array)
    with errors_naming(path):
        return _read_origin(column)


def _read_origin(column: np.ndarray) -> Origin:
    try:
        if column.ndim == 0 and column.itemsize <= 4 * _LONGEST_ORIGIN:
            return from_json(Origin, read_json(str(column)))
    except ValueError:
        pass
    raise ValueError(
        f"its array origin is not what `verisphere embed` writes (JSON with {', '.join(Origin.__annotations__)}); "
        "leave the array out where the model is not known"
    )


def rows_in_training(arrays: Mapping[str, np.ndarray], rows: int) -> RowsInTraining | None:
    """Which rows the model was trained on, from the arrays of an embeddings file; None if no model is known."""
    if not arrays.keys() & set(IN_TRAINING):
        return RowsInTraining.unrecorded(rows, _OLD) if "origin" in arrays else None
    kinds = {"digests": "i8", "trained_people": "?", "trained_images": "?", "trained_other_rule": "?"}
    present = {name: arrays[name] for name in kinds if name in arrays}
    if not {"trained_people", "trained_images"} <= present.keys() or any(
        column.shape != (rows,) or column.dtype != np.dtype(kinds[name]) for name, column in present.items()
    ):
        raise ValueError(f"its arrays {', '.join(IN_TRAINING)} are not what `verisphere embed` writes")
    record = _read_record(arrays.get("trained_record"))
    optional = present.get("digests"), present.get("trained_other_rule")
    people, images = present["trained_people"], present["trained_images"]
    return RowsInTraining(people, images, digests=optional[0], other_rule=optional[1], **record)


def _read_record(column: np.ndarray | None) -> dict[str, Any]:
    """Whether the training has names, why it could not be compared, and whether names were compared as written."""
    if column is not None and column.ndim == 0 and column.dtype.kind == "U" and column.itemsize <= 4 * _LONGEST_ORIGIN:
        fields = read_json(str(column))
        kinds = {"named": bool, "gap": str, "written": bool}
        fields = {"written": False, **fields} if isinstance(fields, dict) else {}  # earlier versions did not say
        if all(type(fields.get(name)) is kind for name, kind in kinds.items()):
            return {name: fields[name] for name in kinds}
    raise ValueError("its array trained_record is not what `verisphere embed` writes (JSON with named and gap)")


def write_embeddings(path: str | Path, embeddings: Embeddings) -> None:
    """Writes an embeddings file completely, or not at all."""
    if Path(path).suffix != ".npz":
        raise ValueError(f"{path}: an embeddings file ends in .npz")
    columns = columns_of(embeddings)
    write_whole(path, lambda partial: np.savez(partial, embeddings=embeddings.embeddings, **columns))


def columns_of(embeddings: Embeddings) -> dict[str, Any]:
    """The arrays of an embeddings file except the rows."""
    columns: dict[str, Any] = {"names": embeddings.names, "identities": embeddings.identities}
    for field in OPTIONAL:
        if (column := getattr(embeddings, field)) is not None:
            columns[field] = column
    if embeddings.origin is not None:
        columns["origin"] = np.array(json.dumps(asdict(embeddings.origin)))
    if (known := embeddings.in_training) is not None:
        columns |= {"trained_people": known.people, "trained_images": known.images}
        record = {name: getattr(known, name) for name in ("named", "gap", *(["written"] if known.written else []))}
        columns["trained_record"] = np.array(json.dumps(record))
        columns |= {} if known.digests is None else {"digests": known.digests}
        columns |= {} if known.other_rule is None else {"trained_other_rule": known.other_rule}
    if embeddings.names_rule is not None:
        columns["names_rule"] = np.array(embeddings.names_rule)
    return columns


def same_people(*sets: tuple[str | Path, Embeddings]) -> list[Embeddings]:
    """Sets that are compared with each other, with one spelling of each person in all of them; see `rule_of_all`."""
    how = rule_of_all([embeddings.names_rule for _, embeddings in sets])
    columns = settled([(f" of {title}", part.names, part.identities) for title, part in sets], how)
    return [
        embeddings
        if column is embeddings.identities
        else replace(embeddings, identities=column, spelled=frozenset(column.tolist()))
        for (_, embeddings), column in zip(sets, columns, strict=True)
    ]


def check_same_images(ours: Embeddings, first: str | Path, theirs: Embeddings, second: str | Path) -> None:
    """Refuse rows in one order, under the same names, whose photographs were exchanged, by the digests of their pixels.

    Crops of another size or alignment have other digests; a row is exchanged only if the first file has its pixels
    under another name.
    """
    one, other = (None if part.in_training is None else part.in_training.digests for part in (ours, theirs))
    if one is None or other is None:
        return
    exchanged = (one != other) & np.isin(other, one)
    if exchanged.any():
        row = int(exchanged.argmax())
        raise ValueError(
            f"{second}: {exchanged.sum():,} of {len(exchanged):,} rows were made of a photograph that has another name "
            f"in {first}, by their pixels; the first, {shown(str(theirs.names[row]))}, is "
            f"{shown(str(ours.names[int((one == other[row]).argmax())]))} there: embed the same photographs by both"
        )


def pool_embeddings(sets: Sequence[tuple[str, Embeddings]]) -> Embeddings:
    """Several sets as one set with domains: the domains of each set, or the name of a set without domains.

    An identity is one person in all sets; equal image names of two sets are distinguished by the names of the sets.
    """
    titles = [title for title, _ in sets]
    check_titles("embeddings files", titles)
    if len(sets) == 1:
        title, only = sets[0]
        domains = np.full(len(only), title) if only.domains is None else only.domains
        return replace(only, domains=domains)
    named = {str(domain) for _, part in sets if part.domains is not None for domain in part.domains}
    of_files = [title for title, part in sets if part.domains is None]
    refuse_missing("domain", of_files, of_files, lambda row: "the name of a file", "rename the file")
    both = named & {*of_files}
    if both:
        raise ValueError(f"{min(both)!r} is the name of one embeddings file and a domain in another; rename the file")
    sets = list(zip(titles, same_people(*sets), strict=True))
    sizes = {title: embeddings.embeddings.shape[1] for title, embeddings in sets}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"embeddings of different sizes cannot be compared: {sizes}")
    return Embeddings(
        joined([embeddings.embeddings for _, embeddings in sets]),
        names=np.concatenate([np.char.add(f"{title}/", embeddings.names) for title, embeddings in sets]),
        identities=np.concatenate([embeddings.identities for _, embeddings in sets]),
        domains=np.concatenate(
            [
                np.full(len(embeddings), title) if embeddings.domains is None else embeddings.domains
                for title, embeddings in sets
            ]
        ),
        origin=_pooled_origin([part.origin for _, part in sets]),
        in_training=pooled_rows([part.in_training for _, part in sets]),
        names_rule=max((part.names_rule for _, part in sets), key=("merge", None, "exact").index),
        spelled=frozenset().union(*(part.spelled for _, part in sets)),
    )


def _pooled_origin(origins: Sequence[Origin | None]) -> Origin | None:
    """The origin of several sets, if all were made by the same weights in the same way; drawn if any set is drawn."""
    known = [origin for origin in origins if origin is not None]
    first = known[0] if len(known) == len(origins) else None
    if first is None or any(first.differences(other) for other in known):
        return None
    drawn = {origin.drawn for origin in known}
    alignments = {origin.alignment for origin in known}
    recorded = all(origin.preprocessing is not None for origin in known)
    return replace(
        first,
        images="",
        drawn=True if True in drawn else None if None in drawn else False,
        alignment=first.alignment if len(alignments) == 1 else None,
        preprocessing=first.preprocessing if recorded else None,
        template=first.template if len({origin.template for origin in known}) == 1 else None,
    )
