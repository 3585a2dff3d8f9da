"""Signals that ask a training to stop; it stops after the step under way."""

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger(__name__)


#: What was received in the outermost context; empty outside one.
_outer: list[list[int]] = []


def _first(received: list[int]) -> int | None:
    return received[0] if received else None


@contextmanager
def stop_requests() -> Iterator[Callable[[], int | None]]:
    """Turn Ctrl-C, SIGTERM and SIGHUP into a request to stop: a function that returns the signal's number, or None.

    A second Ctrl-C or SIGTERM has the effect that it had before. A second SIGHUP is ignored, since a closing terminal
    and its shell send one each. Outside the main thread no signal is handled.

    A context inside another one has the same requests: a search takes one around its trainings, so that a signal which
    a training receives too late stops the next one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    if _outer:
        yield lambda: _first(_outer[0])
        return
    received: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    # A signal that is ignored (by a background job, or under nohup) stays ignored. None stands for a handler that was
    # not installed by Python and cannot be restored by it.
    before = {number: handler for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}
    process = os.getpid()

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.signal(number, signal.SIG_IGN if number == signal.SIGHUP else before[signal.Signals(number)])
        if os.getpid() == process:  # reading workers inherit this handler, and continue until the step is done
            log.warning("stopping after this step, with a checkpoint")

    for number in before:
        signal.signal(number, note)
    _outer.append(received)
    try:
        yield lambda: _first(received)
    finally:
        _outer.clear()
        for number, handler in before.items():
            signal.signal(number, handler)
