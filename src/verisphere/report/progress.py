"""Progress on standard error: a bar with recent rate and remaining time on a terminal, plain lines elsewhere."""

import contextlib
import logging
import sys
import time
from collections.abc import Iterable, Iterator
from typing import IO, Any, TypeVar, cast

from rich.console import Console
from rich.logging import RichHandler
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from verisphere.base.vocabulary import printable
from verisphere.report.recent_rate import RecentRate

T = TypeVar("T")
QUIET_SECONDS = 10.0  # seconds between two plain lines of one task
_BAR_SECONDS = 0.1  # seconds between two drawings of a bar
_MOMENT = 1.0  # seconds; the bar of shorter work is removed when it ends
_WHEN_LONG: list[str] = []  # lines that are kept until a task has lasted ten seconds


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


class _Count(ProgressColumn):
    def render(self, task: Task) -> Text:
        of = "" if task.total is None else f"/{int(task.total)}"
        return Text(f"{int(task.completed)}{of}", style="progress.download")


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        """The rate, once it is known; at the end, the rate of the whole work."""
        recent: RecentRate = task.fields["recent"]
        now = time.monotonic()
        rate = recent.overall(now) if task.finished else recent.per_second(now)
        return Text(pace(rate) if rate else "", style="progress.data.speed")


class _Remaining(ProgressColumn):
    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        """The remaining time at the recent rate, once it is known."""
        if task.finished:
            return Text("")
        recent: RecentRate = task.fields["recent"]
        left = None if task.remaining is None else recent.seconds_left(int(task.remaining), time.monotonic())
        return Text("" if left is None else f"{time_text(left)} left", style="progress.remaining")


def pace(rate: float) -> str:
    """Steps per second; for slow steps, the time of each step.

    >>> pace(731.25), pace(0.0172)
    ('731.2/s', '58 s each')
    """
    return f"{rate:.1f}/s" if rate >= 0.5 else f"{1 / rate:.0f} s each"


def time_text(seconds: float) -> str:
    """A duration.

    >>> time_text(41.2), time_text(541.0), time_text(90_000.0)
    ('41 s', '9:01 min', '25:00 h')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02d} h"


def say_when_long(line: str) -> None:
    """Log a line once a task has lasted ten seconds; for quick work, the line is never logged."""
    _WHEN_LONG.append(line)


def shown(items: Iterable[T], description: str, total: int | None = None, done: int = 0) -> Iterator[T]:
    """The items, with a bar on a terminal, and with a line every ten seconds elsewhere."""
    way = _bar if console.is_terminal else _lines
    return way(items, printable(description), total, done)


def _bar(items: Iterable[T], description: str, total: int | None, done: int) -> Iterator[T]:
    columns = (
        TextColumn("{task.description}", markup=False),  # a name is not markup
        BarColumn(),
        _Count(),
        _Rate(),
        TimeElapsedColumn(),
        _Remaining(),
    )
    with Progress(*columns, console=console, transient=False) as bars:
        started = drawn = time.monotonic()
        recent = RecentRate(started)
        task = bars.add_task(description, total=total, completed=done, recent=recent)
        for item in items:
            yield item
            now = time.monotonic()
            recent.add(now)
            if now - drawn >= _BAR_SECONDS:
                bars.update(task, completed=done + recent.count)
                drawn = now
            if _WHEN_LONG and now - started >= QUIET_SECONDS:
                console.print(_WHEN_LONG.pop(0), markup=False, highlight=False)
        # A bar without a total would stay unfinished on the screen; a bar of short work is removed, too.
        bars.update(task, completed=done + recent.count, total=done + recent.count if total is None else total)
        bars.live.transient = time.monotonic() - started < _MOMENT


def _lines(items: Iterable[T], description: str, total: int | None, done: int) -> Iterator[T]:
    started = last_line = time.monotonic()
    recent = RecentRate(started)
    for item in items:
        yield item
        now = time.monotonic()
        recent.add(now)
        if now - last_line >= QUIET_SECONDS:
            last_line = now
            while _WHEN_LONG:
                _say(_WHEN_LONG.pop(0))
            rate, reached = recent.per_second(now), done + recent.count
            left = f" of {total}, {time_text((total - reached) / rate)} left" if total and rate else ""
            _say(f"{description}: {reached}{left}" + (f" ({pace(rate)})" if rate else ""))
    if last_line > started:
        _say(f"{description}: done, {recent.count} in {time_text(time.monotonic() - started)}")


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
