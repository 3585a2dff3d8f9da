"""Writing a file or a folder so that it is seen whole or not at all; and the digest by which a file is known again."""

import errno
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # no room, on a write that has forgotten its file's name
_FOLDER = "{}: a folder, and a file was to be written under its name; choose another name"


def write_whole(path: str | Path, write: Callable[[Path], object]) -> None:
    """Write a file or a folder under a temporary name beside `path`, and rename it once it is safely on the disk.

    Whatever interrupts it, `path` is either what it was before or complete. The temporary name begins with a dot and
    ends in the final name, so writers that look at a suffix (`numpy.savez`, matplotlib) behave; a killed process can
    leave it behind, and nothing else can. Missing parent folders are made. A symbolic link stays one: what it points at
    is written, in its own folder.

    Args:
        path: the final name. A file there is replaced by a file, an empty folder by a folder; nothing else gives way.
        write: writes to the path it is given, either a file or a folder; that path does not exist when it is called.

    Raises:
        FileExistsError: `path` is a folder that holds something, or a device or pipe, which a rename would replace by a
            file; both are noticed before `write` is called. Or `write` made a folder and `path` is a file, or a file
            and `path` is a folder.
        FileNotFoundError: `write` returned and left nothing at the path it was given.
        NotADirectoryError: a file stands where a folder above `path` should be.
        OSError: `path` cannot be written; names it.
    """
    path = Path(path)
    target, _ = _place(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".part-{secrets.token_hex(4)}-{path.name}")
    try:
        write(partial)
        if not partial.exists():
            raise FileNotFoundError(f"{path}: nothing was written at the temporary path that `write` was given")
        if partial.is_dir() and target.is_file():
            raise FileExistsError(f"{path}: a file, and a folder was to be written under its name")
        if target.is_dir() and not partial.is_dir():
            raise FileExistsError(_FOLDER.format(path))
        _sync_tree(partial)
        os.replace(partial, target)
        _sync(target.parent)
    except OSError as error:
        # of a copy that ran out of room the first name is that of the file that was read
        name = error.filename if error.filename2 is None or error.errno not in _FULL else error.filename2
        if name is None and error.errno in _FULL:
            raise OSError(error.errno, error.strerror, str(path)) from None
        if str(partial) not in str(name):
            raise
        named = str(name).replace(str(partial), str(path))  # the temporary name says nothing to anybody
        raise OSError(error.errno, error.strerror, named) from None
    finally:
        _remove(partial)


def check_writable(path: str | Path) -> None:
    """Refuse, before any work, a name that `write_whole` could not give to a file; nothing is made or changed.

    Raises:
        FileExistsError: `path` is a folder, a device or a pipe.
        NotADirectoryError: a file stands where a folder above `path` should be.
        PermissionError: nothing may be made in the folder that `path`, or the first missing folder above it, lies in.
    """
    path = Path(path)
    target, inside = _place(path)
    if target.is_dir():
        raise FileExistsError(_FOLDER.format(path))
    if not os.access(inside, os.W_OK | os.X_OK):
        raise PermissionError(f"{path}: cannot be written, for nothing may be made in {inside}")


def refuse_overwriting(out: Path, inputs: Iterable[Path | None]) -> None:
    """Refuse, before any work, to write over what is read.

    Args:
        out: file or folder that will be written.
        inputs: files and folders that are read; None stands for one that was not given.

    Raises:
        FileExistsError: `out` is one of them, by whatever name, or a folder that holds one.
    """
    place = Path(os.path.realpath(out))
    for given in inputs:
        if given is not None and Path(os.path.realpath(given)).is_relative_to(place):
            raise FileExistsError(f"{out}: it is, or holds, {given}, which is read here; write to another name")


def remove_whole(path: str | Path) -> None:
    """Remove a file or a folder; a folder first loses its name, so that a half-removed one never looks whole."""
    path = Path(path)
    doomed = path.with_name(f".gone-{secrets.token_hex(4)}-{path.name}")
    os.replace(path, doomed)
    _remove(doomed)


def digest(path: str | Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _place(path: Path) -> tuple[Path, Path]:
    """Where a path leads when links are followed, and the nearest folder above that is there; refuses what is taken."""
    if path.is_dir() and any(path.iterdir()):
        raise FileExistsError(f"{path}: a folder that is not empty; it is never overwritten, choose another name")
    target = Path(os.path.realpath(path))
    # A link to nothing is followed. The target is asked for too because a link in a circle counts as not existing.
    if (path.exists() or os.path.lexists(target)) and not (path.is_file() or path.is_dir()):
        raise FileExistsError(
            f"{path}: neither a file nor a folder but a device, a pipe or a circle of links; name a file"
        )
    inside = next(folder for folder in target.parents if folder.exists())
    if not inside.is_dir():
        raise NotADirectoryError(f"{path}: cannot be written, for {inside} is a file, no folder")
    return target, inside


def _sync_tree(path: Path) -> None:
    """Bring a file, or a folder and all that is in it, to the disk; names last, so that they point at content."""
    if path.is_dir():
        for entry in sorted(path.iterdir()):
            if not entry.is_symlink():
                _sync_tree(entry)
    _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
