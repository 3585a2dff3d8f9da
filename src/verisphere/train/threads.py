"""CPU threads of a training: sums depend on their number, so a resumed run takes the number of its checkpoint."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from verisphere.base.collectives import gather_text
from verisphere.base.distributed import world
from verisphere.files.json_values import shown
from verisphere.models.checkpoint import Checkpoint

log = logging.getLogger(__name__)

_KEY = "threads"  # in the checkpoint's state
_MOST = 1024  # threads; more are a mistake in a file


@contextmanager
def training_threads(asked: int | None, checkpoint: Checkpoint | None) -> Iterator[list[int]]:
    """Set the threads of this rank for a training, and restore their number after it; yields those of each rank."""
    if asked is not None and asked < 1:
        raise ValueError(f"threads is {asked}; it must be at least 1")
    here, before = world(), torch.get_num_threads()
    recorded = [] if checkpoint is None else recorded_threads(checkpoint)
    trained_with = recorded[here.rank] if len(recorded) == here.size else None
    number = asked or trained_with or before
    if asked is not None and trained_with not in (None, asked):
        log.info(
            "%s, and the checkpoint was trained with %d: the last bits may differ from those of an uninterrupted run",
            threads_text(asked), trained_with,
        )  # fmt: skip
    elif number != before:
        log.info(
            "continuing with %s, as the checkpoint was trained, in place of %d; --threads chooses another number, with "
            "which the last bits may differ",
            threads_text(number), before,
        )  # fmt: skip
    try:
        if number != before:
            torch.set_num_threads(number)
        yield [int(text) for text in gather_text(str(number))]
    finally:
        if number != before:
            torch.set_num_threads(before)


def record_threads(numbers: list[int]) -> dict[str, list[int]]:
    """The entry of a checkpoint's state that `recorded_threads` reads: the number of threads of each rank."""
    return {_KEY: numbers}


def recorded_threads(checkpoint: Checkpoint) -> list[int]:
    """The number of threads of each rank that wrote a checkpoint; empty if an earlier version wrote it."""
    numbers = checkpoint.state.get(_KEY, [])
    if isinstance(numbers, list) and all(type(number) is int and 1 <= number <= _MOST for number in numbers):
        return numbers
    raise ValueError(
        f"{checkpoint.path / 'state.json'}: {_KEY} is {shown(numbers)}; expected a list of numbers from 1 to {_MOST}"
    )


def threads_text(number: int) -> str:
    """A number of threads in words.

    >>> threads_text(1), threads_text(2)
    ('1 thread', '2 threads')
    """
    return f"{number} thread{'' if number == 1 else 's'}"
