"""Embeddings in shards: a folder of rows as .npy files, their names and people as .npz files, and a manifest.

    manifest.json        what a row is, and each shard with its digests
    rows-00000000.npy    the first rows
    rows-00000000.npz    their names, identities and what else an embeddings file has, and `units` of int8 rows

A stored row is float32; or float16; or int8 numbers times a number of 16 bits, its unit. Float32 holds each of these
exactly, and every reader takes them so: all figures are those of the stored rows. How far a row was turned when it was
stored is measured: no score differs by more than the sum of both rows' `moved` from that of the rows as embedded.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Float32, Shaped

from verisphere.base.mapped import room
from verisphere.base.vocabulary import Origin
from verisphere.files.disk import check_file, digest, write_text, write_whole
from verisphere.files.documents import read_json, read_json_file
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import from_json, shown
from verisphere.files.npz import read_npy, read_npz

Store: TypeAlias = Literal["float32", "float16", "int8"]

MANIFEST = "manifest.json"
KIND, FORMAT = "embeddings in shards", 1
#: Arrays of a shard with an entry for each row, and those that are the same for all.
OF_ROWS = (
    "names",
    "identities",
    "domains",
    "digests",
    "trained_people",
    "trained_images",
    "trained_other_rule",
    "units",
)
OF_ALL = ("origin", "trained_record", "names_rule")
_NAME = re.compile(r"rows-\d{8}")
_KIND_WITHIN = 1 << 10  # bytes of a manifest, whose first field it is
_MOST_NUMBERS = 1 << 16  # of a row
_ROWS_AT_ONCE = 1 << 13
_ROUNDED = 2.0**-22  # more than a row of length 1 moves when it is rounded to float32, twice


@dataclass(frozen=True)
class Shard:
    """Some rows of a set: the name of its files without suffixes, and the digests of the .npy and the .npz file."""

    name: str
    rows: int
    sha256: str
    columns_sha256: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"a shard is called {shown(self.name)}; its name is rows- and eight digits")
        if self.rows < 1:
            raise ValueError(f"shard {self.name} has {self.rows} rows; allowed is 1 or more")


@dataclass(frozen=True)
class Manifest:
    """What a folder of shards holds."""

    rows: int
    dim: int
    store: Store  # type of the stored numbers
    moved: float  # largest distance by which a row, at length 1, was moved when it was stored
    columns: tuple[str, ...]
    origin: Origin | None
    shards: tuple[Shard, ...]

    def __post_init__(self) -> None:
        names, rows = {shard.name for shard in self.shards}, sum(shard.rows for shard in self.shards)
        if not 1 <= self.dim <= _MOST_NUMBERS:
            raise ValueError(f"dim is {self.dim}; allowed are 1 to {_MOST_NUMBERS:,} numbers a row")
        if len(names) < len(self.shards) or rows != self.rows or not rows:
            raise ValueError(f"{len(names):,} different shards have {rows:,} rows, it states {self.rows:,}")
        if not 0 <= self.moved < 2:
            raise ValueError(f"moved is {self.moved}; rows of length 1 move by 0 to 2")
        if odd := [name for name in self.columns if name not in (*OF_ROWS, *OF_ALL)]:
            raise ValueError(f"its columns name {shown(odd[0])}; allowed are {', '.join((*OF_ROWS, *OF_ALL))}")
        if not {"names", "identities"} <= set(self.columns):
            raise ValueError(f"its columns are {', '.join(self.columns) or 'none'}; names and identities are missing")


def manifest_of(path: Path) -> Path | None:
    """The manifest of a folder of shards, which may be named by itself; None where a path is none."""
    manifest = path if path.name == MANIFEST else path / MANIFEST
    if not manifest.is_file():
        return None
    if any((manifest.parent / f"{shard_name(0)}{suffix}").is_file() for suffix in (".npy", ".npz")):
        return manifest
    with manifest.open("rb") as file:
        return manifest if KIND.encode() in file.read(_KIND_WITHIN) else None


def holds_embeddings(path: Path) -> bool:
    """Whether a path is that of an embeddings file, by its suffix, or a folder of shards."""
    return path.suffix == ".npz" or manifest_of(path) is not None


def title_of(path: Path) -> str:
    """What a set of embeddings is called: its file without the suffix; a manifest that is named itself, its folder."""
    return path.absolute().parent.name if path.name == MANIFEST else path.stem


def digest_of_embeddings(path: Path) -> str:
    """SHA-256 of an embeddings file; of a folder of shards that of its manifest, which has those of all files."""
    manifest = manifest_of(path)
    if manifest is None:
        check_file(path)
    return digest(manifest or path)


def read_manifest(path: Path) -> Manifest:
    """The manifest of a folder of shards."""
    with errors_naming(path):
        fields = read_json_file(path)
        kind = (fields.get("kind"), fields.get("format")) if isinstance(fields, dict) else None
        if kind != (KIND, FORMAT):
            raise ValueError(f"not the manifest of {KIND}, format {FORMAT}, but {shown(kind or fields)}")
        return from_json(Manifest, fields)


def read_shards(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a folder of shards: `embeddings`, as mapped rows, and the columns; all digests are compared."""
    manifest_path = manifest_of(path)
    assert manifest_path is not None
    manifest, folder = read_manifest(manifest_path), manifest_path.parent
    columns = [_columns(folder, shard, manifest) for shard in manifest.shards]
    for shard, arrays in zip(manifest.shards, columns, strict=True):
        if differing := [name for name in OF_ALL if name in arrays and arrays[name] != columns[0][name]]:
            raise ValueError(f"{folder / shard.name}.npz: {differing[0]} differs from that of the first shard")
    width = manifest.dim * np.dtype(manifest.store).itemsize
    for shard in manifest.shards:  # before space is taken for all rows
        if not (path := folder / f"{shard.name}.npy").is_file():
            raise FileNotFoundError(f"{path}: a shard that {MANIFEST} names is missing")
        if (size := path.stat().st_size) < shard.rows * width:
            raise ValueError(f"{path}: {size:,} bytes, and its {shard.rows:,} rows take {shard.rows * width:,}")
    rows = room((manifest.rows, manifest.dim), torch.float32, mapped=True).numpy()
    start = 0
    for shard, arrays in zip(manifest.shards, columns, strict=True):
        rows[start : start + shard.rows] = widened(_rows(folder, shard, manifest), arrays.get("units"))
        start += shard.rows
    of_rows = {name: np.concatenate([arrays[name] for arrays in columns]) for name in columns[0] if name in OF_ROWS}
    of_rows.pop("units", None)
    return {"embeddings": rows, **of_rows, **{name: columns[0][name] for name in columns[0] if name in OF_ALL}}


def _columns(folder: Path, shard: Shard, manifest: Manifest) -> dict[str, np.ndarray]:
    """The columns of a shard, of the lengths and of the origin that the manifest states."""
    path = folder / f"{shard.name}.npz"
    if not path.is_file():
        raise FileNotFoundError(f"{path}: a shard that {MANIFEST} names is missing")
    if digest(path) != shard.columns_sha256:
        raise ValueError(f"{path}: not the file that {MANIFEST} names, by its SHA-256; it was changed or damaged")
    arrays = read_npz(path, manifest.columns)
    if missing := [name for name in manifest.columns if name not in arrays]:
        raise ValueError(f"{path}: no array {missing[0]}, which {MANIFEST} states")
    for name, column in arrays.items():
        wanted = () if name in OF_ALL else (shard.rows,)
        if column.shape != wanted:
            raise ValueError(f"{path}: {name} has shape {column.shape}; a shard of {shard.rows:,} rows has {wanted}")
    units = arrays.get("units")
    if (units is not None) != (manifest.store == "int8") or (units is not None and units.dtype != np.float32):
        raise ValueError(f"{path}: rows in int8 have float32 units, and others none; its rows are {manifest.store}")
    with errors_naming(path):
        origin = _origin(arrays)
    if origin != manifest.origin:
        raise ValueError(f"{path}: made by another model or from other images than {MANIFEST} states; a set has one")
    return arrays


def _origin(arrays: Mapping[str, np.ndarray]) -> Origin | None:
    return from_json(Origin, read_json(str(arrays["origin"]))) if "origin" in arrays else None


def _rows(folder: Path, shard: Shard, manifest: Manifest) -> np.ndarray:
    """The stored rows of a shard, in the shape and the type that the manifest states."""
    path, stated = folder / f"{shard.name}.npy", ((shard.rows, manifest.dim), np.dtype(manifest.store))
    rows = read_npy(path)
    if (rows.shape, rows.dtype) != stated:
        raise ValueError(f"{path}: it holds {rows.dtype} {rows.shape}, where {stated[1]} {stated[0]} is stated")
    if digest(path) != shard.sha256:
        raise ValueError(f"{path}: not the file that {MANIFEST} names, by its SHA-256; it was changed or damaged")
    return rows


# --- what a stored row is ---


def shortened_rows(
    rows: Float32[np.ndarray, "rows dim"], store: Store
) -> tuple[Shaped[np.ndarray, "rows dim"], Float32[np.ndarray, " rows"] | None]:
    """Rows in the type to store, and the units of int8 rows; a number beyond float16 becomes infinite.

    A unit has 16 bits, so that its product with a whole number of 7 has no more than the 24 that float32 holds.

    >>> numbers, units = shortened_rows(np.array([[1.0, -0.5, 0.251]], np.float32), "int8")
    >>> numbers.tolist(), widened(numbers, units).tolist()
    ([[127, -63, 32]], [[1.0000298023223877, -0.4960777759552002, 0.25197601318359375]])
    """
    if store != "int8":
        with np.errstate(over="ignore"):
            return rows.astype(store, copy=False), None
    bits = (np.abs(rows).max(axis=1) / np.float32(127)).view(np.uint32)
    units = ((bits + np.uint32(0xFF)) & np.uint32(0xFFFFFF00)).view(np.float32)
    steps = np.rint(rows / np.where(units, units, 1)[:, None])
    return steps.clip(-127, 127).astype(np.int8), units


def widened(
    numbers: Shaped[np.ndarray, "rows dim"], units: Float32[np.ndarray, " rows"] | None
) -> Float32[np.ndarray, "rows dim"]:
    """Stored rows as float32."""
    rows = numbers.astype(np.float32, copy=False)
    return rows if units is None else rows * units[:, None]


def moved(rows: Float32[np.ndarray, "rows dim"], stored: Float32[np.ndarray, "rows dim"]) -> float:
    """The largest distance between a row and the stored one, both at length 1, with the rounding of `unit_rows`.

    u v - u' v' = (u - u') v + u' (v - v'), so no score changes by more than the distances of both rows together.
    """
    furthest = 0.0
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        one, other = (part[start : start + _ROWS_AT_ONCE].astype(np.float64) for part in (rows, stored))
        for part in (one, other):
            part /= np.linalg.norm(part, axis=1, keepdims=True)
        furthest = max(furthest, float(np.linalg.norm(one - other, axis=1).max()))
    return furthest * (1 + 1e-9) + _ROUNDED if furthest else 0.0


# --- writing ---


def shard_name(number: int) -> str:
    """Name of the files of a shard, by its number from 0.

    >>> shard_name(12)
    'rows-00000012'
    """
    return f"rows-{number:08d}"


def write_shard(
    folder: Path,
    number: int,
    numbers: Shaped[np.ndarray, "rows dim"],
    columns: Mapping[str, np.ndarray],
    furthest: float,
) -> dict[str, np.ndarray]:
    """Write the files of a shard, each whole; returns what the manifest says of them."""
    rows, beside = (folder / f"{shard_name(number)}{suffix}" for suffix in (".npy", ".npz"))
    write_whole(rows, lambda partial: np.save(partial, numbers))
    arrays: dict[str, Any] = dict(columns)
    write_whole(beside, lambda partial: np.savez(partial, **arrays))
    known = {"name": shard_name(number), "rows": len(numbers), "sha256": digest(rows), "columns_sha256": digest(beside)}
    return {name: np.array(value) for name, value in {**known, "moved": furthest}.items()}


def write_manifest(folder: Path, dim: int, store: Store, written: Sequence[Mapping[str, np.ndarray]]) -> None:
    """Write the manifest of shards that are all there, which makes them a set; each is what `write_shard` returned."""
    known = [{name: value.item() for name, value in shard.items()} for shard in written]
    furthest = max((shard.pop("moved") for shard in known), default=0.0)
    shards = tuple(Shard(**shard) for shard in known)
    files = [folder / f"{shard.name}{suffix}" for shard in shards for suffix in (".npy", ".npz")]
    if missing := [file for file in files if not file.is_file()]:
        raise FileNotFoundError(
            f"{missing[0]}: this file of a shard is missing; remove .work/*/{missing[0].stem[5:]}.npz, by which the "
            "shard is known, and it is embedded again"
        )
    arrays = read_npz(files[-1], (*OF_ROWS, *OF_ALL))
    columns = tuple(name for name in (*OF_ROWS, *OF_ALL) if name in arrays)
    manifest = Manifest(sum(shard.rows for shard in shards), dim, store, furthest, columns, _origin(arrays), shards)
    write_text(folder / MANIFEST, json.dumps({"kind": KIND, "format": FORMAT, **asdict(manifest)}, indent=1) + "\n")
