"""`python -m verisphere`, and the command `verisphere`: the command line, silent when Ctrl-C comes while it loads.

An interrupt during an import may leave the C code of PyTorch or NumPy as any other error, with a hundred lines. So
nothing large is imported here before Ctrl-C is handled.
"""

import os
import signal
import sys
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
        from verisphere.cli import main as run

        return run()
    except KeyboardInterrupt:  # before the command line handled it, or a second one while it reported the first
        return _stopped()
    finally:
        # All work is done and reported: an interrupt now would only show a traceback from the shutdown of Python.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _stopped() -> int:
    """The exit code, after the message; of several processes that a launcher has started, the first prints it."""
    if os.environ.get("RANK", "0") == "0":
        os.write(2, b"verisphere: stopped\n")
    return 128 + signal.SIGINT


# At the import, for the command `verisphere` imports this module before it calls `main`. A job in the background is
# started deaf to Ctrl-C, and stays so.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _interrupted)

if __name__ == "__main__":
    sys.exit(main())
