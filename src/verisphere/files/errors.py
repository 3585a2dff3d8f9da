"""Faults of files, and errors that name the file with the fault."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from verisphere.decide import TooFewComparisonsError


@dataclass(frozen=True)
class Fault:
    """A fault of a file: the image, if it concerns one alone, its byte, and the value seen and those allowed."""

    file: str
    record: str
    offset: int | None
    reason: str

    def __str__(self) -> str:
        record = f": record {self.record}" if self.record else ""
        offset = "" if self.offset is None else f" at byte {self.offset}"
        return f"{self.file}{record}{offset}: {self.reason}"


class FaultError(ValueError):
    """A fault that prevents the reading of a file."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def fault_of(error: Exception, where: str | Path) -> Fault:
    """The fault that an error states; an error that carries none names `where` before its message, or nothing."""
    return (
        error.fault
        if isinstance(error, FaultError)
        else Fault(str(where), "", None, str(error).removeprefix(f"{where}: "))
    )


def caught(faults: Iterator[Fault], where: str | Path) -> Iterator[Fault]:
    """Faults, and that of the error by which they end."""
    try:
        yield from faults
    except (ValueError, OSError) as error:
        yield fault_of(error, where)


@contextmanager
def errors_naming(source: str | Path) -> Iterator[None]:
    """Put the name of a file or other source before the message of a ValueError."""
    try:
        yield
    except TooFewComparisonsError as error:
        raise TooFewComparisonsError(f"{source}: {error}") from None
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None
