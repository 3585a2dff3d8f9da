"""Errors that name the file with the fault."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from verisphere.decide import TooFewComparisonsError


@contextmanager
def errors_naming(source: str | Path) -> Iterator[None]:
    """Put the name of a file or other source before the message of a ValueError.

    A TooFewComparisonsError keeps its class; any other error that derives from ValueError becomes a plain ValueError.
    """
    try:
        yield
    except TooFewComparisonsError as error:
        raise TooFewComparisonsError(f"{source}: {error}") from None
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None
