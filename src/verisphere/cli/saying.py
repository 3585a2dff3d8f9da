"""What is said where: results on standard output, talk on standard error, and of several processes once."""

import contextlib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from verisphere.vocabulary import Progress


def show(text: str) -> None:
    """Print a result; a reader that leaves early, such as `head`, is no error."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding))  # a path need not be Unicode
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def progress() -> "Progress":
    """Progress for a person, from the first of several processes alone."""
    from verisphere.report.progress import shown
    from verisphere.vocabulary import quietly
    from verisphere.workflows.processes import first_of_launch

    return shown if first_of_launch() else quietly


def fail(code: int, message: str) -> int:
    """The exit code, once the message is on standard error; of several processes that have it, from one of them."""
    from verisphere.workflows.processes import first_to_say

    if first_to_say(message):
        with contextlib.suppress(OSError):
            print(f"verisphere: {message}", file=sys.stderr, flush=True)
    return code


def message_of(error: Exception) -> str:
    """An error as one line."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())


def several() -> bool:
    """Whether a launcher has started several processes; asked before torch is loaded."""
    return os.environ.get("WORLD_SIZE", "1") != "1"
