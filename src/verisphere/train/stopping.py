"""Signals that ask a training to stop, which it then does after a whole step."""

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger(__name__)


@contextmanager
def stop_requests() -> Iterator[Callable[[], int | None]]:
    """Turn Ctrl-C, SIGTERM and SIGHUP into a request to stop: a function that gives the signal's number, or None.

    A second Ctrl-C or SIGTERM has the effect that it had before. A second SIGHUP has none, since a terminal that closes
    and its shell send one each. Outside the main thread no signal is handled.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    # A signal that is ignored (a job in the background, or under nohup) stays ignored; None is a handler that Python
    # cannot put back.
    before = {number: one for number, one in handlers.items() if one not in (signal.SIG_IGN, None)}
    process = os.getpid()

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.signal(number, signal.SIG_IGN if number == signal.SIGHUP else before[signal.Signals(number)])
        if os.getpid() == process:  # reading workers inherit this; they go on until the step is done
            log.warning("stopping after this step, with a checkpoint")

    for number in before:
        signal.signal(number, note)
    try:
        yield lambda: received[0] if received else None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
