"""The embeddings file: an .npz with a row, a name and an identity for each image."""

import json
import lzma
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from verisphere.data.documents import read_json
from verisphere.data.files import write_whole
from verisphere.vocabulary import Embeddings, Origin

REQUIRED = ("embeddings", "names", "identities")
OPTIONAL = ("domains",)
# What numpy and zipfile raise for a file that is damaged, encrypted, or claims more than memory holds.
_DAMAGE = (ValueError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, KeyError, RuntimeError, MemoryError)


def read_npz(path: str | Path) -> dict[str, np.ndarray]:
    """Every array of an .npz file; nothing in it is executed.

    Raises:
        ValueError: not an .npz file, or it holds an array of Python objects, which only unpickling could read.
        FileNotFoundError: there is no such file.
        OSError: the file cannot be opened.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    try:
        with open(path, "rb") as file:  # opened here, because numpy leaves the file of a broken archive open
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("a single array, not an .npz archive")
            with archive:
                arrays = {name: archive[name] for name in archive.files}
    except (*_DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise  # no right to read it, say: nothing is wrong with its content
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if "allow_pickle" in reason or "Object arrays" in reason:
            reason = "it holds Python objects (or is a pickle), which are never loaded; save plain arrays"
        raise ValueError(f"{path}: not an .npz file of plain arrays: {reason}") from None
    return {
        name: array for name, array in arrays.items() if isinstance(array, np.ndarray)
    }  # a text file comes as bytes


def text_column(path: str | Path, name: str, column: np.ndarray) -> np.ndarray:
    """A column as strings; numbers are spelled out.

    Raises:
        ValueError: bytes that are not ASCII.
    """
    try:
        return column.astype(str)
    except UnicodeDecodeError:
        raise ValueError(f"{path}: {name} holds bytes that are not ASCII; save it as an array of str") from None


def read_embeddings(path: str | Path) -> Embeddings:
    """An embeddings file, checked.

    Identities and domains that are numbers become strings. `origin`, where it is there, says which model made the
    embeddings; arrays other than it and those of the format are ignored.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: not an embeddings file; NaN or zero-length embeddings; names that are not unique; a row without a
            domain among others that have one.
    """
    arrays = read_npz(path)
    missing = [name for name in REQUIRED if name not in arrays]
    if missing:
        raise ValueError(
            f"{path}: no array {' and no array '.join(missing)}; an embeddings file has {', '.join(REQUIRED)}, "
            f"this one has {', '.join(arrays) or 'nothing'}"
        )
    rows = arrays["embeddings"]
    if rows.ndim != 2 or rows.dtype.kind != "f":
        raise ValueError(f"{path}: embeddings must be floating-point (rows, dim), got {rows.dtype} {rows.shape}")
    if not rows.size:
        raise ValueError(f"{path}: it holds no embedding (shape {rows.shape})")
    columns = {name: text_column(path, name, arrays[name]) for name in (*REQUIRED[1:], *OPTIONAL) if name in arrays}
    try:
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite and is refused by name
            origin = _read_origin(arrays["origin"]) if "origin" in arrays else None
            embeddings = Embeddings(rows.astype(np.float32), **columns, origin=origin)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if embeddings.domains is not None and (embeddings.domains == "").any():
        row = int((embeddings.domains == "").argmax())
        raise ValueError(
            f"{path}: {str(embeddings.names[row])!r} (row {row}) has an empty domain; name one for every row, or leave "
            "the array out (in a scores file an empty domain marks a pair across domains)"
        )
    return embeddings


def _read_origin(column: np.ndarray) -> Origin:
    try:
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
    """Write an embeddings file, whole or not at all.

    Raises:
        ValueError: the name does not end in .npz.
    """
    if Path(path).suffix != ".npz":
        raise ValueError(f"{path}: an embeddings file ends in .npz")
    columns: dict[str, Any] = {"names": embeddings.names, "identities": embeddings.identities}
    if embeddings.domains is not None:
        columns["domains"] = embeddings.domains
    if embeddings.origin is not None:
        columns["origin"] = np.array(json.dumps(asdict(embeddings.origin)))
    write_whole(path, lambda partial: np.savez(partial, embeddings=embeddings.embeddings, **columns))


def pool_embeddings(sets: Sequence[tuple[str, Embeddings]]) -> Embeddings:
    """Several sets as one with domains: each set's own domains where it has them, else the set's name.

    A name stands for one image and an identity for one person in all sets; equal image names of two sets are told
    apart by the set's name. The origin is kept where it is the same for all.

    Raises:
        ValueError: two sets have one name, or one has the name of a domain in another; the embeddings differ in size.
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
    origins = {None if part.origin is None else replace(part.origin, images="") for _, part in sets}
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
        origin=origins.pop() if len(origins) == 1 else None,
    )
