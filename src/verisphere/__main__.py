"""`python -m verisphere`, and the command `verisphere`: the command line, silent when Ctrl-C comes while it loads.

An interrupt during an import may leave the C code of PyTorch or NumPy as any other error, with a hundred lines. So
nothing large is imported here before Ctrl-C is handled.
"""

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

_IMPORTING = "<frozen importlib._bootstrap>"


def _interrupted(number: int, frame: FrameType | None) -> None:
    """End at once where modules are being imported, for then nothing is under way; else raise as Python does."""
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING:
            os._exit(_stopped())
        frame = frame.f_back
    raise KeyboardInterrupt


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        return _flushed(_code())
    finally:
        # All work is done and reported: an interrupt now would only show a traceback from the shutdown of Python.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _code() -> int:
    """The exit code of the command line."""
    try:
        os.getcwd()
    except OSError:  # in such a folder PyTorch and its libraries end in messages about themselves
        return _said(2, "the working directory has been deleted; change to one that exists, and repeat the command")
    try:
        from verisphere.cli import main as run

        return run()
    except KeyboardInterrupt:  # before the command line handled it, or a second one while it reported the first
        return _stopped()
    except SystemExit as ended:  # from the parser, or by a signal
        return ended.code if isinstance(ended.code, int) else ended.code is not None


def _open_streams() -> None:
    """Give the null device to closed standard streams, or the next file that is opened becomes standard output."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115  # for good


def _flushed(code: int) -> int:
    """The exit code after all output is written; a reader that has closed its end, such as `head`, is no error.

    Python's own last attempt would end in a traceback and the exit code 120.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            if stream is sys.stdout and not isinstance(error, BrokenPipeError):
                code = code or _said(2, f"standard output: {error.strerror}")
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return code


def _stopped() -> int:
    """The exit code of Ctrl-C, after the message."""
    return _said(128 + signal.SIGINT, "stopped")


def _said(code: int, line: str) -> int:
    """An exit code, after the message; of several processes that a launcher has started, the first prints it."""
    if os.environ.get("RANK", "0") == "0":
        with suppress(OSError):
            os.write(2, f"verisphere: {line}\n".encode())
    return code


_open_streams()
# At the import, for the command `verisphere` imports this module before it calls `main`. A job in the background is
# started deaf to Ctrl-C, and stays so.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _interrupted)

if __name__ == "__main__":
    sys.exit(main())
