"""Output of the command line: results on standard output, messages on standard error, each once per launch."""

import contextlib
import os
import re
import shutil
import sys
import traceback
from typing import TYPE_CHECKING

from verisphere.base.words import printable

if TYPE_CHECKING:
    from verisphere.base.vocabulary import Progress

_MOST_LETTERS = 1000  # of a message
_OMISSION = " [...] "


def show(text: str) -> None:
    """Print a result; a reader that closes the pipe early, such as `head`, is not an error.

    On a terminal, tables are fitted to its width. Names inside a text of several lines must be made `printable` before.
    """
    encoding = sys.stdout.encoding or "utf-8"
    try:
        if sys.stdout.isatty():
            from verisphere.report.narrow import fitted

            text = fitted(text, shutil.get_terminal_size().columns)
        shown = printable(
            text, keep="\n"
        )  # paths and names can contain bytes that are not Unicode, or control characters
        print(shown.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def progress() -> "Progress":
    """Progress on the terminal, from rank 0 alone."""
    from verisphere.base.vocabulary import quietly
    from verisphere.cli.processes import first_of_launch
    from verisphere.report.progress import shown

    return shown if first_of_launch() else quietly


def fail(code: int, message: str) -> int:
    """Print a message on standard error, and return the exit code; if several ranks have it, only one prints."""
    from verisphere.cli.processes import first_to_say

    message = bounded(printable(message))
    if first_to_say(message):
        with contextlib.suppress(OSError):
            print(f"verisphere: {message}", file=sys.stderr, flush=True)
    return code


def show_traceback() -> None:
    """Print the traceback of the current exception on standard error."""
    with contextlib.suppress(OSError):
        print(printable(traceback.format_exc(), keep="\n"), file=sys.stderr, end="", flush=True)


def message_of(error: Exception) -> str:
    """An error as one line: indented lines, as libraries write them, are joined; line feeds in names are escaped."""
    if isinstance(error, OSError) and error.filename is not None:
        return printable(f"{error.filename}: {error.strerror}")
    return printable(re.sub(r"\s*\n\s+", " ", str(error).strip()))


def bounded(line: str) -> str:
    """A line of at most 1,000 letters; the middle of a longer one is omitted, since advice stands at the end.

    >>> len(bounded("x" * 5000)), bounded("short")
    (1000, 'short')
    """
    if len(line) <= _MOST_LETTERS:
        return line
    half = (_MOST_LETTERS - len(_OMISSION)) // 2
    return line[:half] + _OMISSION + line[len(line) - (_MOST_LETTERS - len(_OMISSION) - half) :]


def several() -> bool:
    """Whether a launcher has started several processes; does not import torch."""
    return os.environ.get("WORLD_SIZE", "1") != "1"
