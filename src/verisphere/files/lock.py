"""Locks that the system releases when a process ends: of a folder, of a name, and of a temporary copy."""

import errno
import fcntl
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger(__name__)

_held: set[str] = set()  # lock files of this process: some network file systems would grant it each of them again


@contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Lock a folder, so that no second process writes to it; the system releases the lock when the process ends."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("a") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise ValueError(f"{out}: another process is writing there; wait for its end, or stop it") from None
            log.info("%s: this file system has no locks, so nothing keeps a second process out", out)
        yield


@contextmanager
def alone_at(out: Path) -> Iterator[None]:
    """Keep a second process from writing a folder that is replaced whole, by a lock file beside it."""
    place = Path(os.path.realpath(out))
    place.parent.mkdir(parents=True, exist_ok=True)
    with lock_file(place.with_name(f".{place.name}.lock")) as is_free:
        if not is_free:
            raise ValueError(f"{out}: another process is writing it; wait for its end, or choose another name")
        yield


@contextmanager
def lock_file(path: Path) -> Iterator[bool]:
    """Creates and locks a file that holds the name of this machine, and removes it at the end.

    Yields whether no other process holds the lock or has just released it, or the file system has no locks. A killed
    process leaves the file, but not the lock.
    """
    file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        if (is_free := _locked(file) is not False and _is_at(file, path)) and str(path) not in _held:
            try:
                os.ftruncate(file, 0)
                os.write(file, socket.gethostname().encode())
                _held.add(str(path))
                yield True
            finally:
                _held.discard(str(path))
                path.unlink(missing_ok=True)
        else:
            yield is_free and str(path) not in _held
    finally:
        os.close(file)


def _is_at(file: int, path: Path) -> bool:
    """Whether an opened file is still the one under a name: the process that held the lock may have removed it."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def abandoned(path: Path) -> Iterator[bool]:
    """Whether a lock file is known to be that of a process of this user on this machine that has ended.

    In case of doubt it is not: on a file system without locks, and where another machine wrote it. The file is locked
    meanwhile.
    """
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        own = os.fstat(file).st_uid == os.geteuid() and os.read(file, 300) == socket.gethostname().encode()
        yield own and str(path) not in _held and _locked(file) is True
    finally:
        os.close(file)


def _locked(file: int) -> bool | None:
    """Locks an open file; False if another process has locked it, None if the file system has no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
