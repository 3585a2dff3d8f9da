"""The command line in a process to which something happens: a signal at a step of its progress, or less memory or disk.

`python -m faults.acting [--signal N --at K] [--memory MB] [--disk BYTES] -- VERB ...` runs `verisphere VERB ...`. The
signal comes when the K-th item of any progress is asked for; memory is address space beyond what the process has once
everything is loaded; disk is the largest file that it may write.
"""

import argparse
import os
import resource
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


class SignalAtItem:
    """A `Progress` that sends this process a signal before one of its items, whatever work they belong to."""

    def __init__(self, number: int, at: int) -> None:
        self.number, self.at, self.seen = number, at, 0

    def __call__(
        self, items: Iterable[Any], description: str, total: int | None = None, done: int = 0
    ) -> Iterator[Any]:
        for item in items:
            self.seen += 1
            if self.seen == self.at:
                os.kill(os.getpid(), self.number)
            yield item


def main() -> int:
    """Run the command and return its exit code."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--signal", type=int, default=0)
    asked.add_argument("--at", type=int, default=1)
    asked.add_argument("--memory", type=int)
    asked.add_argument("--disk", type=int)
    asked.add_argument("words", nargs="+")
    options = asked.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job is started deaf to both
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

    from verisphere.cli import main as command
    from verisphere.report import progress

    if options.signal:
        progress.shown = SignalAtItem(options.signal, options.at)  # type: ignore[assignment]
    if options.memory is not None:
        _load()
        here = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (here + (options.memory << 20),) * 2)
    if options.disk is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (options.disk, options.disk))
    return command(["--default-allocator", *options.words])


def _load() -> None:
    """Load what the verbs load, so that the memory which is left is for their work."""
    import verisphere.measure.evaluate
    import verisphere.models.embed
    import verisphere.ship.align
    import verisphere.ship.calibrate
    import verisphere.train.session  # noqa: F401


if __name__ == "__main__":
    sys.exit(main())
