"""A process that is forked from one in which everything is loaded, and a command that waits for it.

`processes.forked` gives the words of this file as a command. It behaves as the process that it asks for: it hands over
its standard streams, working directory, environment, ignored signals and limits of memory and file size, passes SIGHUP,
SIGINT and SIGTERM on, and ends as that one ends; if it is killed, that one is killed too. It takes 15 ms, as it loads
neither PyTorch nor site packages. The group of processes is another.
"""

import json
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

_PASSED_ON = signal.SIGHUP, signal.SIGINT, signal.SIGTERM


class Forked:
    """A process in a group of its own, forked by the server of processes.py, which kills the group if this one ends.

    Attributes:
        pid: its number.
    """

    def __init__(self, address: str, streams: Sequence[int], **job: Any) -> None:
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(address)
        socket.send_fds(self._server, [b" "], streams)
        self._server.sendall(json.dumps(job).encode() + b"\n")
        self._answers = self._server.makefile()
        self.pid = int(self._answers.readline())
        self._ended: int | None = None

    def wait(self) -> int:
        """The exit status, negative after a signal."""
        if self._ended is None:
            with self._server, self._answers:
                self._ended = int(self._answers.readline())
        return self._ended

    def poll(self) -> int | None:
        """The exit status, negative after a signal; None while it runs."""
        return self.wait() if self._ended is not None or select.select([self._server], [], [], 0)[0] else None


def _command(address: str, *words: str) -> int:
    """The exit code of a command of verisphere; after a signal, this process ends by the same."""
    ignored = [number for number in _PASSED_ON if signal.getsignal(number) is signal.SIG_IGN]
    closed = [number for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)) if stream is None]
    for _ in closed:
        os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which the socket would take
    limits = {kind: resource.getrlimit(kind) for kind in (resource.RLIMIT_AS, resource.RLIMIT_FSIZE)}
    job = {"words": words, "folder": os.getcwd(), "ignored": ignored, "closed": closed, "limits": [*limits.items()]}
    process = Forked(address, (0, 1, 2), environment=dict(os.environ), **job)

    def pass_on(number: int, frame: object) -> None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)

    for number in set(_PASSED_ON).difference(ignored):
        signal.signal(number, pass_on)
    if (code := process.wait()) < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(_command(*sys.argv[1:]))
