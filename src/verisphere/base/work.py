"""Work in pieces: the same pieces for any number of processes, each computed once, their results in order.

A step of a computation is a fixed list of pieces whose results do not depend on each other and are merged in their
order: counts are added, lists appended, the best of several lists kept. So its result is that of one process to the
bit. Who computes which piece, and where finished ones are kept, is decided by the `Work` that `working` has entered:
nobody, the ranks of a launch, or a folder on the disk (`verisphere.files.work.WorkFolder`).
"""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

import numpy as np
import torch

from verisphere.base.collectives import counts, gathered, on_every_rank
from verisphere.base.distributed import world
from verisphere.base.vocabulary import Progress, quietly

Piece = TypeVar("Piece")
Arrays: TypeAlias = Mapping[str, np.ndarray]
#: Everything that determines the results of a step: arrays, tensors, numbers, words; asked for where pieces are kept.
About: TypeAlias = Callable[[], Sequence[object]]
#: Computes the pieces with these numbers, which ascend, one after the other.
Compute: TypeAlias = Callable[[Iterable[int]], Iterator[Arrays]]
#: Divides the pieces of a step, or keeps them: takes its name, what determines it, the number of its pieces, what
#: computes them, and the progress with its title; gives the results of all pieces.
Work: TypeAlias = Callable[[str, About, int, Compute, Progress, str], Iterable[Arrays]]


class PartEnded(Exception):
    """A part or a rank has computed its pieces, and another process makes the result; the message says which."""


#: The work that `working` has entered, innermost last; None inside a piece, which one process computes alone.
_entered: list[Work | None] = []
#: The names that `steps_of` has entered, innermost last.
_named: list[str] = []


@contextmanager
def working(work: Work | None) -> Iterator[None]:
    """Inside this context the steps of a computation are divided and kept as this work says."""
    _entered.append(work)
    try:
        yield
    finally:
        _entered.pop()


@contextmanager
def shared_by_ranks() -> Iterator[None]:
    """Inside this context the ranks of a joined group share each step, if nothing else has been entered."""
    with working(_entered[-1] if _entered else _shared if world().size > 1 else None):
        yield


@contextmanager
def steps_of(name: str) -> Iterator[None]:
    """Inside this context steps are known by this name too, so that it may be skipped where its result is there."""
    _named.append(name)
    try:
        yield
    finally:
        _named.pop()


def for_first_rank(pieces: Iterable[Arrays]) -> Iterable[Arrays]:
    """The results of a last step, which rank 0 alone needs and holds; `PartEnded` says that a rank's work is done."""
    if not world().first:
        raise PartEnded("rank 0 makes the result")
    return pieces


def divided() -> bool:
    """Whether the pieces of a step are divided or kept, so that there should be several."""
    return bool(_entered) and _entered[-1] is not None


def results(
    step: str,
    about: About,
    pieces: Sequence[Piece],
    compute: Callable[[Iterable[Piece]], Iterator[Arrays]],
    progress: Progress = quietly,
    title: str = "",
) -> Iterable[Arrays]:
    """The results of all pieces of a step, in their order; where nothing divides them, each when it is asked for.

    >>> squares = results("squares", lambda: [2], range(4), lambda bases: ({"square": np.array(n**2)} for n in bases))
    >>> [int(piece["square"]) for piece in squares]
    [0, 1, 4, 9]

    Args:
        about: everything that determines the results. Threads, ranks, and the size of blocks that are computed at once
            are not among it.
        pieces: the pieces, which must not depend on ranks or threads.
    """
    work = _entered[-1] if _entered else None
    if work is None:
        return progress(compute(pieces), title, len(pieces))

    def alone(numbers: Iterable[int]) -> Iterator[Arrays]:
        of_pieces = compute(pieces[number] for number in numbers)
        while True:
            with working(None):  # inside of a piece nothing is divided
                piece = next(of_pieces, None)
            if piece is None:
                return
            yield piece

    return work("-".join([*_named[-1:], step]), about, len(pieces), alone, progress, title)


def ranges(items: int, together: int) -> list[range]:
    """So many items at a time.

    >>> ranges(7, 3)
    [range(0, 3), range(3, 6), range(6, 7)]
    """
    return [range(start, min(start + together, items)) for start in range(0, items, together)]


def _shared(step: str, about: About, pieces: int, compute: Compute, progress: Progress, title: str) -> Iterable[Arrays]:
    """The ranks of a joined group compute a share each of the pieces, and gather all results in memory."""
    here, file = world(), io.BytesIO()
    share = range(here.rank, pieces, here.size)

    def write() -> None:
        mine = zip(share, progress(compute(share), title, len(share)), strict=True)
        named = {f"{number} {name}": array for number, piece in mine for name, array in piece.items()}
        np.savez(file, **named)  # type: ignore[arg-type]  # its stub takes names for options

    on_every_rank(write)
    found: dict[int, dict[str, np.ndarray]] = {number: {} for number in range(pieces)}
    for content in gathered_arrays(np.frombuffer(file.getvalue(), np.uint8)):
        with np.load(io.BytesIO(content.tobytes()), allow_pickle=False) as arrays:
            for key in arrays:
                number, name = key.split(" ", 1)
                found[int(number)][name] = arrays[key]
    return found.values()


def gathered_arrays(array: np.ndarray) -> list[np.ndarray]:
    """This array as each rank has it; the lengths may differ."""
    sizes = counts(len(array))
    arrays = gathered(torch.from_numpy(np.array(array)), sizes)
    return [part.numpy() for part in arrays.split(sizes)]
