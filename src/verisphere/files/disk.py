"""Writing of files and folders completely or not at all, and reading of regular files up to a size."""

import ctypes
import errno
import filecmp
import hashlib
import logging
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from verisphere.files.lock import abandoned, lock_file

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_DOCUMENT = 64 * 2**20
"""Most bytes of a document that is read whole (a recipe, a description, a calibration); larger ones are refused."""

MAX_TABLE = 8 * 2**30
"""Most bytes of a file with a line for each row (a list, scores, landmarks, a log); larger ones are refused."""

#: A folder for what is only to be in memory, where the system has one; else None, the usual one of temporary files.
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None

_LOCK = ".lock"
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # errors of a write that do not name the file
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # constants of renameat2(2)
_NOT_OFFERED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}
_FOLDER = "{}: a folder, and a file was to be written under its name; choose another name"


def write_whole(path: str | Path, write: Callable[[Path], T]) -> T:
    """Writes a file or a folder under a temporary name beside `path`, and renames it once it is safely on the disk.

    After any interruption, `path` is either unchanged or complete. The temporary name begins with a dot and ends in the
    final name, so that writers which depend on a suffix (`numpy.savez`, matplotlib) work; the next write removes what a
    killed process left. A file that is replaced keeps its permissions. Missing parent folders are created, and the
    target of a symbolic link is written. A file is replaced by a file, an empty folder by a folder; nothing else is.
    """
    path = Path(path)
    target, _ = _place(path)
    with _partial(path, target) as partial:
        result = write(partial)
        if not partial.exists():
            raise FileNotFoundError(f"{path}: nothing was written at the temporary path that `write` was given")
        if partial.is_dir() and target.is_file():
            raise FileExistsError(f"{path}: a file, and a folder was to be written under its name")
        if target.is_dir() and not partial.is_dir():
            raise FileExistsError(_FOLDER.format(path))
        _keep_permissions(target, partial)
        _sync_tree(partial)
        os.replace(partial, target)
        _sync(target.parent)
        return result


def write_text(path: str | Path, text: str, errors: str = "strict") -> None:
    """Writes a text in UTF-8 as `write_whole` does; `errors` is that of `str.encode`."""
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8", errors=errors))


@contextmanager
def _partial(path: Path, target: Path) -> Iterator[Path]:
    """A temporary name beside `target`, which is removed at the end; errors name `path` instead of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep(target.parent, path.name)
    partial = target.with_name(f".part-{secrets.token_hex(4)}-{path.name}")
    try:
        with lock_file(partial.with_name(partial.name + _LOCK)):
            try:
                yield partial
            finally:
                _remove(partial)
    except OSError as error:
        # if a copy ran out of space, the first name in the error is that of the file that was read
        name = error.filename if error.filename2 is None or error.errno not in _NO_ROOM else error.filename2
        if error.errno is None and "requested and" in str(error):  # NumPy's, which wrote less than there was
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from None
        if name is None and error.errno in _NO_ROOM:
            raise OSError(error.errno, error.strerror, str(path)) from None
        if str(partial) not in str(name):
            raise
        # the temporary name would mean nothing to the caller
        named = (
            str(name).removesuffix(_LOCK).replace(f"{partial}/{path.name}", str(path)).replace(str(partial), str(path))
        )
        raise OSError(error.errno, error.strerror, named) from None


def _sweep(folder: Path, name: str) -> None:
    """Removes the temporary copies of this name whose processes were killed, and says so."""
    locks = re.compile(rf"(\.part-[0-9a-f]{{8}}-){re.escape(name)}{re.escape(_LOCK)}")
    removed = 0
    with os.scandir(folder) as entries:
        found = [entry.path for entry in entries if locks.fullmatch(entry.name)]
    for path in found:
        partial = Path(path.removesuffix(_LOCK))
        with suppress(OSError), abandoned(Path(path)) as is_abandoned:
            former = partial.with_name(partial.name.replace(".part-", ".old-", 1))
            if not is_abandoned or (former.exists() and partial.exists()):  # killed between two renames, each complete
                continue
            removed += os.path.lexists(partial) or former.exists()
            _remove(former)
            _remove(partial)
            os.unlink(path)
    if removed:
        copies = "an unfinished copy" if removed == 1 else f"{removed} unfinished copies"
        log.info("%s: removed %s that a killed process had left there", folder / name, copies)


def _keep_permissions(former: Path, new: Path) -> None:
    """Gives a new file, or a folder with its contents, the permissions of what it replaces."""
    if not former.exists():
        return
    for path in (new, *(new.rglob("*") if new.is_dir() else ())):
        before = former / path.relative_to(new)
        if before.exists() and before.is_dir() == path.is_dir() and not path.is_symlink():
            path.chmod(stat.S_IMODE(before.stat().st_mode) & 0o777)


def replace_whole(path: str | Path, write: Callable[[Path], object]) -> None:
    """Writes a folder as `write_whole` does, and replaces an existing folder by it with all its contents.

    The two folders exchange their names in one step, so that after any interruption either the old or the new one is
    complete under `path`, with the permissions of the old one. A file system without that operation needs two steps; a
    process that is killed between them leaves both folders complete under names that begin with a dot, and none under
    `path`.
    """
    path, place = Path(path), real_path(path)
    if not place.is_dir():
        write_whole(path, write)
        return
    with _partial(path, place) as written:
        write(written)
        if not written.is_dir():
            raise FileNotFoundError(f"{path}: no folder was written at the temporary path that `write` was given")
        _keep_permissions(place, written)
        _sync_tree(written)
        if not _exchanged(written, place):
            former = written.with_name(written.name.replace(".part-", ".old-", 1))
            os.replace(place, former)
            try:
                os.replace(written, place)
            except BaseException:
                os.replace(former, place)
                raise
            os.replace(former, written)
        _sync(place.parent)


def write_with_companions(path: str | Path, write: Callable[[Path], object]) -> None:
    """Writes a file or a folder, and companion files beside it, none of which exists yet; `path` appears last.

    After any interruption nothing is under the name `path`, or everything is in place. An existing companion with
    exactly the bytes to write is replaced: a process that was killed while it wrote the same files can have left it.
    """
    path = Path(path)
    if os.path.lexists(path):
        raise FileExistsError(f"{path}: exists already, and is never overwritten; choose another name")
    written: list[Path] = []

    def take_back() -> None:
        for file in written:
            if not os.path.lexists(file):  # otherwise its final name, if it exists, belongs to another process
                _remove(path.with_name(file.name))

    with _partial(path, path) as staging:
        try:
            staging.mkdir()
            write(staging / path.name)
            _sync_tree(staging)
            written = sorted(staging.iterdir(), key=lambda file: (file.name == path.name, file.name))
            if not written or written[-1].name != path.name:
                raise FileNotFoundError(f"{path}: nothing was written at the temporary path that `write` was given")
            for file in written:
                place = path.with_name(file.name)
                if os.path.lexists(place) and (place == path or not _same_file(file, place)):
                    raise FileExistsError(
                        f"{place}: exists already, and is never overwritten; a process that was killed "
                        "while it wrote something else can have left it"
                    )
            for file in written:
                os.rename(file, path.with_name(file.name))
            _sync(path.parent)
        except BaseException:
            take_back()
            raise


def _same_file(written: Path, there: Path) -> bool:
    """Whether both are plain files, not links, with the same bytes."""
    plain = all(stat.S_ISREG(path.lstat().st_mode) for path in (written, there))
    return plain and filecmp.cmp(written, there, shallow=False)


def _exchanged(left: Path, right: Path) -> bool:
    """Exchanges two names in one step, by renameat2(2); False where the system or the file system does not offer it."""
    exchange = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if exchange is None:
        return False
    if exchange(_AT_FDCWD, os.fsencode(left), _AT_FDCWD, os.fsencode(right), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_OFFERED:
        return False
    raise OSError(number, os.strerror(number), str(right))


def real_path(path: str | Path) -> Path:
    """The path with all links followed; unlike `Path.resolve`, also for a circle of links."""
    return Path(os.path.realpath(path))


def check_writable(path: str | Path) -> None:
    """Refuses, before any work, a name that `write_whole` could not give to a file; changes nothing on the disk."""
    path = Path(path)
    target, inside = _place(path)
    if target.is_dir():
        raise FileExistsError(_FOLDER.format(path))
    if not os.access(inside, os.W_OK | os.X_OK):
        raise PermissionError(f"{path}: cannot be written, for nothing may be made in {inside}")


def refuse_overwriting(out: Path, inputs: Iterable[Path | None]) -> None:
    """Refuses, before any work, to overwrite an input; None is an optional one that was not given."""
    place = real_path(out)
    for path in inputs:
        if path is not None and real_path(path).is_relative_to(place):
            raise FileExistsError(f"{out}: it is, or holds, {path}, which is read here; write to another name")


def remove_whole(path: str | Path) -> None:
    """Removes a file or a folder; a folder is renamed first, so that a partly removed one never looks complete."""
    path = Path(path)
    doomed = path.with_name(f".gone-{secrets.token_hex(4)}-{path.name}")
    os.replace(path, doomed)
    _remove(doomed)


def regular(path: str | Path, flags: int) -> int:
    """An opener of regular files only: `open(path, "rb", opener=regular)`; a pipe may block, a device be endless."""
    return _opened(path, flags)[0]


def _opened(path: str | Path, flags: int) -> tuple[int, os.stat_result]:
    """The descriptor of a regular file or a folder, and its status from the system."""
    _refuse_special(path, os.stat(path).st_mode)  # before opening, since opening a device can have effects
    descriptor = os.open(path, flags | os.O_NONBLOCK)  # does not wait if the path has become a pipe
    status = os.fstat(descriptor)
    try:
        _refuse_special(path, status.st_mode)
    except ValueError:
        os.close(descriptor)
        raise
    return descriptor, status


def check_file(path: str | Path, what: str = "file") -> None:
    """Refuses a path that is not a regular file, before any work or before a library opens it."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such {what}")
    if path.is_dir():
        raise FileNotFoundError(f"{path}: there is no such {what}, it is a folder")
    _refuse_special(path, path.stat().st_mode)


def read_file(path: str | Path, at_most: int = MAX_DOCUMENT) -> bytes:
    """The bytes of a regular file, up to its size when it is opened; a larger file is refused before it is read."""
    file, status = _opened(path, os.O_RDONLY | os.O_CLOEXEC)  # not `open`: an epoch reads millions of small files
    try:
        size = status.st_size
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if size > at_most:
            raise ValueError(
                f"{path}: {size:,} bytes, more than the {at_most:,} allowed for such a file; is it another?"
            )
        content = os.read(file, size)  # no more than the size, since some files below /proc are endless
        if len(content) < size:  # one call returns at most 2 GiB
            with open(file, "rb", closefd=False) as rest:
                content += rest.read(size - len(content))
        return content
    finally:
        os.close(file)


def digest(path: str | Path) -> str:
    """SHA-256 of a regular file's bytes, in hexadecimal."""
    with open(path, "rb", opener=regular) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_SPECIAL = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)


def _refuse_special(path: str | Path, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    for is_kind, kind in _SPECIAL:
        if is_kind(mode):
            raise ValueError(
                f"{path}: {kind}, not a regular file; save what it gives to a file first, and name that file"
            )


def _place(path: Path) -> tuple[Path, Path]:
    """The path with links followed, and the nearest parent that exists; refuses a path that cannot be replaced."""
    if path.is_dir() and any(path.iterdir()):
        raise FileExistsError(f"{path}: a folder that is not empty; it is never overwritten, choose another name")
    target = real_path(path)
    # A link to nothing is followed. The target is checked too, because a link in a circle counts as not existing.
    if (path.exists() or os.path.lexists(target)) and not (path.is_file() or path.is_dir()):
        raise FileExistsError(
            f"{path}: neither a file nor a folder but a device, a pipe or a circle of links; name a file"
        )
    inside = next(folder for folder in target.parents if folder.exists())
    if not inside.is_dir():
        raise NotADirectoryError(f"{path}: cannot be written, for {inside} is a file, no folder")
    return target, inside


def _sync_tree(path: Path) -> None:
    """Flushes a file, or a folder with its contents, to the disk; contents before the names that refer to them."""
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
    elif os.path.lexists(path):  # on a read-only disk, removing a missing file is an error too
        path.unlink(missing_ok=True)
