"""The lock of a folder that one process at a time writes to."""

import errno
import fcntl
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger(__name__)


@contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Lock a folder, so that no second process writes to it; the system releases the lock when the process ends.

    Raises:
        ValueError: another process has locked it.
    """
    out.mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("a") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise ValueError(f"{out}: another process is writing there; wait for its end, or stop it") from None
            log.info("%s: this file system has no locks, so nothing keeps a second process out", out)
        yield
