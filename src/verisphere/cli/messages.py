"""What is said where: results on standard output, talk on standard error, and of several processes once."""

import contextlib
import os
import re
import sys
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from verisphere.vocabulary import Progress

_LONGEST = 1000  # letters of a message
_LEFT_OUT = " [...] "


def show(text: str) -> None:
    """Print a result; a reader that leaves early, such as `head`, is no error.

    Its line feeds stay: whoever puts a name into a text of several lines makes it `printable` first.
    """
    from verisphere.vocabulary import printable

    encoding = sys.stdout.encoding or "utf-8"
    try:
        shown = printable(text, keep="\n")  # a path need not be Unicode, nor a name a person's
        print(shown.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def progress() -> "Progress":
    """Progress for a person, from the first of several processes alone."""
    from verisphere.cli.processes import first_of_launch
    from verisphere.report.progress import shown
    from verisphere.vocabulary import quietly

    return shown if first_of_launch() else quietly


def fail(code: int, message: str) -> int:
    """The exit code, once the message is on standard error; of several processes that have it, from one of them."""
    from verisphere.cli.processes import first_to_say
    from verisphere.vocabulary import printable

    message = bounded(printable(message))
    if first_to_say(message):
        with contextlib.suppress(OSError):
            print(f"verisphere: {message}", file=sys.stderr, flush=True)
    return code


def show_traceback() -> None:
    """The lines of the error under way, on standard error."""
    from verisphere.vocabulary import printable

    with contextlib.suppress(OSError):
        print(printable(traceback.format_exc(), keep="\n"), file=sys.stderr, end="", flush=True)


def message_of(error: Exception) -> str:
    """An error as one line: indented lines, as libraries write them, are joined; a line feed in a name is escaped."""
    from verisphere.vocabulary import printable

    if isinstance(error, OSError) and error.filename is not None:
        return printable(f"{error.filename}: {error.strerror}")
    return printable(re.sub(r"\s*\n\s+", " ", str(error).strip()))


def bounded(line: str) -> str:
    """A line of at most 1,000 letters: of a longer one the middle is left out, for advice stands at the end.

    >>> len(bounded("x" * 5000)), bounded("short")
    (1000, 'short')
    """
    if len(line) <= _LONGEST:
        return line
    half = (_LONGEST - len(_LEFT_OUT)) // 2
    return line[:half] + _LEFT_OUT + line[len(line) - (_LONGEST - len(_LEFT_OUT) - half) :]


def several() -> bool:
    """Whether a launcher has started several processes; asked before torch is loaded."""
    return os.environ.get("WORLD_SIZE", "1") != "1"
