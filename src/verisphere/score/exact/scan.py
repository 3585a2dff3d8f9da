"""Passes over all pairs, in pieces that run in this process or in several, and can be kept.

A pass is cut into pieces, and a piece into batches of tiles. Each piece fills windows of its own, so pieces may run
anywhere and in any order; the windows of all pieces are merged.
"""

import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64

from verisphere.base.vocabulary import Precision, Progress, quietly
from verisphere.base.work import Arrays, divided, results
from verisphere.score.exact.limits import LEAST_PIECES, PAIRS_A_BATCH, PAIRS_A_PIECE
from verisphere.score.exact.tiles import Side, Tiles, scan_tiles
from verisphere.score.exact.windows import Window

_VERSION = 3  # of the tiles and pieces
_COMPARING = "comparing all pairs"


@dataclass(frozen=True, eq=False)
class Tiling:
    """The arguments of `Tiles`: everything that determines the tiles of a scan."""

    left: Side
    right: Side | None
    across: int
    precision: Precision
    span: tuple[float, float]
    block: int

    def tiles(self) -> Tiles:
        """The tiles."""
        return Tiles(self.left, self.right, self.across, self.precision, self.span, self.block)

    def about(self) -> list[object]:
        """What determines the pairs of each tile and their scores, and not the screen."""
        numbers = _VERSION, PAIRS_A_BATCH, self.block, self.across, self.left.units.device.type
        return [*numbers, self.left, self.right]


class Scan:
    """Tiles of pairs, and the windows that passes over them have filled."""

    def __init__(self, tiling: Tiling, progress: Progress, processes: int = 1, before: "Scan | None" = None) -> None:
        """Prepare the tiles.

        `before` is a scan of the same rows with products of another type, which this one replaces.
        """
        self.tiling, self.progress, self.processes = tiling, progress, processes
        self.tiles = tiling.tiles()
        self.windows: list[Window] = [] if before is None else before.windows

    def pieces(self) -> list[range]:
        """The tiles in runs that are pieces of work."""
        return runs(len(self.tiles), sum(self.tiles.pairs(number) for number in range(len(self.tiles))))

    def fill(self, windows: Sequence[Window]) -> None:
        """Fill new windows by one pass over all pairs, whose pieces may be divided."""
        several = divided() or self.processes > 1
        pieces = self.pieces() if several else [range(len(self.tiles))]
        outside, inside = (self.progress, quietly) if several else (quietly, self.progress)

        def compute(chosen: Iterable[range]) -> Iterator[Arrays]:
            if self.processes > 1:
                return self._in_processes(iter(chosen), windows)
            return (_filled(self.tiles, piece, windows, inside) for piece in chosen)

        asked = [[window.low.hex(), window.high.hex(), window.groups, window.ranks, window.slack] for window in windows]
        merged: list[Window | None] = []
        for state in results("pairs", lambda: [*self.tiling.about(), asked], pieces, compute, outside, _COMPARING):
            more = [_window(state, f"{number}.") for number in range(len(windows))]
            merged = [a and a.merged(b) for a, b in zip(merged, more, strict=True)] if merged else [*more]
        for window in merged:
            if window is not None:
                window.finish()
                self.windows.append(window)

    def _in_processes(self, pieces: Iterator[range], windows: Sequence[Window]) -> Iterator[Arrays]:
        """The windows of each piece, in the order of the pieces, filled by worker processes."""
        with ExitStack() as stack:
            pool = stack.enter_context(self._pool(stack))
            running: deque[Future[Arrays]] = deque()
            try:
                while True:
                    for tiles in islice(pieces, 2 * self.processes - len(running)):
                        with _interrupts_deferred():
                            running.append(pool.submit(_fill_piece, tiles, windows))
                    if not running:
                        return
                    yield running.popleft().result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _pool(self, stack: ExitStack) -> ProcessPoolExecutor:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="verisphere-")))
        for name, side in (("left", self.tiling.left), ("right", self.tiling.right)):
            if side is not None:
                side.units.numpy().tofile(folder / f"{name}.rows")
                np.savez(folder / f"{name}.npz", people=side.people, domains=side.domains, origin=side.origin)
        tiling = self.tiling
        settings = (tiling.across, tiling.precision, tiling.span, tiling.block)
        threads = max(torch.get_num_threads() // self.processes, 1)
        return ProcessPoolExecutor(
            self.processes,
            multiprocessing.get_context("spawn"),
            _start_worker,
            (folder, tiling.right is not None, settings, threads),
        )


def runs(items: int, pairs: int) -> list[range]:
    """Runs of items of about `PAIRS_A_PIECE` pairs each, or of fewer pairs where there would be few runs."""
    count = min(items, max(LEAST_PIECES, -(-pairs // PAIRS_A_PIECE)))
    return [range(piece * items // count, (piece + 1) * items // count) for piece in range(count)]


def _filled(tiles: Tiles, piece: range, windows: Sequence[Window], progress: Progress) -> Arrays:
    """The states of such windows, filled by the tiles of a piece."""
    mine = [window.emptied() for window in windows]
    batches = _batches(np.array([tiles.pairs(number) for number in piece], np.int64))
    for batch in progress(batches, _COMPARING, len(batches)):
        stretches = [window.stretch for window in mine]
        parts = scan_tiles(tiles, piece[batch.start : batch.stop], stretches)
        for window, stretch, part in zip(mine, stretches, parts, strict=True):
            window.add(part, stretch)
            window.narrow()
    return {f"{number}.{name}": value for number, window in enumerate(mine) for name, value in window.state().items()}


def _window(state: Arrays, prefix: str) -> Window:
    return Window.from_state(
        {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
    )


def _batches(pairs: Int64[np.ndarray, " tiles"]) -> list[range]:
    """Runs of tiles, the first ones short: windows start wide and would collect too many scores before narrowing."""
    batches, start, size = [], 0, 1
    while start < len(pairs):
        stop = min(start + size, len(pairs))
        batches.append(range(start, stop))
        start = stop
        if int(pairs[batches[-1]].sum()) < PAIRS_A_BATCH:
            size = max(size, stop)
    return batches


# --- worker processes ---

_worker_tiles: list[Tiles] = []  # the tiles of this worker process


def _start_worker(folder: Path, two_sides: bool, settings: tuple, threads: int) -> None:
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    torch.set_num_threads(threads)
    sides = [_side(folder / name) if name == "left" or two_sides else None for name in ("left", "right")]
    assert sides[0] is not None
    _worker_tiles.append(Tiling(sides[0], sides[1], *settings).tiles())


@contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Block SIGINT: Ctrl-C reaches every process of a group, and workers started in this block must not see it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent(folder: Path) -> None:
    """End this process when its parent is gone, even if the parent was killed, and remove the parent's files."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _side(path: Path) -> Side:
    rows = path.with_suffix(".rows")
    with np.load(path.with_suffix(".npz")) as columns:
        numbers = rows.stat().st_size // torch.float32.itemsize
        units = torch.from_file(str(rows), shared=True, size=numbers, dtype=torch.float32)
        return Side(units.view(len(columns["people"]), -1), columns["people"], columns["domains"], columns["origin"])


def _fill_piece(piece: range, windows: Sequence[Window]) -> Arrays:
    return _filled(_worker_tiles[0], piece, windows, quietly)
