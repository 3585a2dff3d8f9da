"""Progress on standard error: a bar with recent rate and remaining time on a terminal, plain lines elsewhere."""

import contextlib
import logging
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import IO, Any, TypeVar, cast

from rich.console import Console
from rich.logging import RichHandler
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from verisphere.base.vocabulary import printable

_WINDOW = 60.0  # seconds that count
_FEWEST = 3  # items that count, however long they take
_STEP = 0.5  # seconds between two records: a million quick items do not need a million records


class RecentRate:
    """Items per second over the last minute, or over the last three items if these took longer.

    Times are in seconds; `now` is the time at which the work begins.

    >>> recent = RecentRate(now=0.0)
    >>> for second in (1.0, 2.0, 3.0): recent.add(second)
    >>> recent.per_second(3.0), recent.seconds_left(6, 3.0)
    (1.0, 6.0)
    """

    def __init__(self, now: float) -> None:
        self.count = 0
        self._last = self._began = now
        self._marks = deque([(now, 0)])

    def add(self, now: float, items: int = 1) -> None:
        """Count items that are complete at this time."""
        self.count, self._last = self.count + items, now
        if now - self._marks[-1][0] >= _STEP:
            self._marks.append((now, self.count))
        while len(self._marks) > 1 and self._marks[1][0] <= now - _WINDOW and self.count - self._marks[1][1] >= _FEWEST:
            self._marks.popleft()

    def per_second(self, now: float) -> float | None:
        """The rate, which falls while an item takes longer than those before; None before the first item."""
        since, before = self._marks[0]
        items = self.count - before
        # The current item counts from the moment at which it takes longer than the mean of the items before.
        seconds = max(self._last - since, (now - since) * items / (items + 1))
        return items / seconds if seconds > 0 else None

    def seconds_left(self, items: int, now: float) -> float | None:
        """Seconds that this number of items takes at this rate, with the current item; None before the first item."""
        rate = self.per_second(now)
        if not rate or not items:
            return None if items else 0.0
        return (items - 1) / rate + max(1 / rate - (now - self._last), 0.0)

    def overall(self, now: float) -> float | None:
        """Items per second since the work began; None before the first item."""
        return self.count / (now - self._began) if self.count and now > self._began else None


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
