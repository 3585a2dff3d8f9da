"""Progress on standard error: a bar with rate and remaining time on a terminal, plain lines elsewhere."""

import contextlib
import logging
import sys
import time
from collections.abc import Iterable, Iterator
from typing import IO, Any, TypeVar, cast

from rich.console import Console
from rich.logging import RichHandler
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from verisphere.vocabulary import printable

T = TypeVar("T")
QUIET_SECONDS = 10.0  # between two plain lines of one task


class _StandardError:
    """The current standard error at each write; output to a closed terminal is discarded, and the work continues."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)


console = Console(file=cast(IO[str], _StandardError()))


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        """The rate, once it is known."""
        speed = task.finished_speed or task.speed
        return Text(pace(speed) if speed else "", style="progress.data.speed")


def pace(rate: float) -> str:
    """Steps per second; for slow steps, the time of each.

    >>> pace(731.25), pace(0.0172)
    ('731.2/s', '58 s each')
    """
    return f"{rate:.1f}/s" if rate >= 0.5 else f"{1 / rate:.0f} s each"


def shown(items: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """The items, with a bar on a terminal, and with a line every ten seconds elsewhere."""
    way = _bar if console.is_terminal else _lines
    return way(items, printable(description), total)


def _bar(items: Iterable[T], description: str, total: int | None) -> Iterator[T]:
    columns = (
        TextColumn("{task.description}", markup=False),  # a name is not markup
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=False) as bars:
        yield from bars.track(items, total=total, description=description)


def _lines(items: Iterable[T], description: str, total: int | None) -> Iterator[T]:
    started = last_line = time.monotonic()
    done = 0
    for item in items:
        yield item
        done += 1
        now = time.monotonic()
        if now - last_line >= QUIET_SECONDS:
            last_line = now
            rate = done / (now - started)
            left = f" of {total}, {(total - done) / rate:.0f} s left" if total else ""
            _say(f"{description}: {done}{left} ({pace(rate)})")
    if last_line > started:
        _say(f"{description}: done, {done} in {time.monotonic() - started:.0f} s")


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # the work continues when the terminal is closed
        print(line, file=sys.stderr, flush=True)  # noqa: T201


class _Printable(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's own name
        """The message, with escaped control characters."""
        return printable(super().formatMessage(record))


def log_to_terminal() -> None:
    """Shows the log of the library above a running bar."""
    handler: logging.Handler
    if console.is_terminal:
        handler = RichHandler(console=console, show_path=False, show_level=False, show_time=False, markup=False)
    else:
        handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Printable("%(message)s"))
    root = logging.getLogger("verisphere")
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
