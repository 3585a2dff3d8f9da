"""Passes over all pairs, in this process or in several, which can be interrupted and continued.

A pass is cut into batches of tiles. The result of a batch does not depend on any other batch, so batches may run
anywhere and in any order; one process collects their results.
"""

import hashlib
import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Int64

from verisphere.base.collectives import counts, gathered
from verisphere.base.distributed import ALONE, World
from verisphere.base.mapped import is_mapped
from verisphere.base.vocabulary import Precision, Progress
from verisphere.score.exact.limits import PAIRS_A_BATCH, SECONDS_BETWEEN_SAVES
from verisphere.score.exact.tiles import Side, Tiles, scan_tiles
from verisphere.score.exact.windows import Stretch, Window, WindowPart

_FINGERPRINT = "sweep"  # the name in the state of the array with the fingerprint; part of the format

State = Mapping[str, np.ndarray]


@runtime_checkable
class StateStore(Protocol):
    """Keeps the state of a scan where it survives the end of the process.

    >>> class InMemoryStore:
    ...     state = None
    ...     def load(self):
    ...         return self.state
    ...     def save(self, state):
    ...         self.state = state
    >>> InMemoryStore().load() is None  # pass one to `AllPairs(..., store=...)`
    True
    """

    def load(self) -> State | None:
        """The state that was saved last, or None."""
        ...

    def save(self, state: State) -> None:
        """Replace the saved state by this one."""
        ...


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


def fingerprint(tiling: Tiling) -> np.ndarray:
    """32 bytes that depend on the rows, their people and domains, and the tiles, and not on the screen."""
    digest = hashlib.sha256(f"1 {PAIRS_A_BATCH} {tiling.block} {tiling.across}".encode())  # 1: version of the tiling
    for side in (tiling.left, tiling.right):
        if side is not None:
            for part in (side.units.cpu().numpy(), side.people, side.domains):
                digest.update(np.ascontiguousarray(part).view(np.uint8).data)
    return np.frombuffer(digest.digest(), np.uint8)


class Scan:
    """Tiles of pairs, and the windows that passes over them have filled."""

    def __init__(
        self,
        tiling: Tiling,
        progress: Progress,
        processes: int = 1,
        store: StateStore | None = None,
        before: "Scan | None" = None,
        world: World = ALONE,
    ) -> None:
        """Prepare the tiles, and load the saved state where there is one.

        Args:
            tiling: the arguments that determine the tiles.
            progress: reports the progress of each pass.
            processes: number of worker processes; the results do not depend on it.
            store: saves passes and filled windows; for a single launched process only.
            before: a scan of the same rows with products of another type, which this one replaces.
            world: launched processes that share each pass; all ask the same questions.
        """
        if store is not None and world.size > 1:
            raise ValueError(
                f"the state of a scan by {world.size} launched processes cannot be saved; start it without --state, or "
                "start one process that shares its work by --processes"
            )
        self.tiling, self.progress, self.processes, self.store = tiling, progress, processes, store
        self.world = world
        self.tiles = tiling.tiles()
        self.batches = _batches(np.array([self.tiles.pairs(number) for number in range(len(self.tiles))], np.int64))
        self.windows: list[Window] = [] if before is None else before.windows
        self.saved: SavedScan | None = self._load() if before is None else before.saved

    def fill(self, windows: Sequence[Window]) -> None:
        """Fill new windows by one pass over all pairs, which launched processes share."""
        stretches = [window.stretch for window in windows]  # as asked: resumed windows have been narrowed since
        windows, done = self._resumed(windows)
        open_batches = [
            number for number in range(self.world.rank, len(self.batches), self.world.size) if not done[number]
        ]
        saved_at = time.monotonic()
        with ExitStack() as stack:
            batches = self._results(open_batches, lambda: [window.stretch for window in windows], stack)
            for number, asked, results in self.progress(batches, "comparing all pairs", len(open_batches)):
                for window, stretch, part in zip(windows, asked, results, strict=True):
                    window.add(part, stretch)
                done[number] = True
                for window in windows:
                    window.narrow()
                if self.store is not None and time.monotonic() - saved_at > SECONDS_BETWEEN_SAVES:
                    self._save(windows, stretches, done)
                    saved_at = time.monotonic()
        if self.world.size > 1:
            joined = (window.joined(gathered_arrays) for window in windows)
            windows = [window for window in joined if window is not None]
        for window in windows:
            window.finish()
        self.windows += windows
        if self.store is not None:
            self._save([], [], np.zeros(len(self.batches), bool))

    def _results(
        self, numbers: Sequence[int], stretches: Callable[[], list[Stretch]], stack: ExitStack
    ) -> Iterator[tuple[int, list[Stretch], list[WindowPart]]]:
        """Number, requested stretches and results of each batch, in the order in which batches end."""
        if self.processes == 1:
            for number in numbers:
                asked = stretches()
                yield number, asked, scan_tiles(self.tiles, self.batches[number], asked)
            return
        pool = stack.enter_context(self._pool(stack))
        running: dict[Future, tuple[int, list[Stretch]]] = {}
        pending = iter(numbers)
        try:
            while True:
                # Two batches a process, one running and one queued: more would be scanned for windows that are too
                # wide.
                for number in pending:
                    asked = stretches()
                    with _interrupts_deferred():
                        running[pool.submit(_scan_batch, self.batches[number], asked)] = number, asked
                    if len(running) >= 2 * self.processes:
                        break
                if not running:
                    return
                ready, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in ready:
                    number, asked = running.pop(future)
                    yield number, asked, future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _pool(self, stack: ExitStack) -> ProcessPoolExecutor:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="verisphere-")))
        for name, side in (("left", self.tiling.left), ("right", self.tiling.right)):
            if side is not None:
                if is_mapped(side.units):
                    side.units.numpy().tofile(folder / f"{name}.rows")
                else:
                    np.save(folder / f"{name}.npy", side.units.cpu().numpy())
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

    # -- saving ----------------------------------------------------------------------------------------------------

    def _save(self, windows: Sequence[Window], stretches: Sequence[Stretch], done: np.ndarray) -> None:
        assert self.store is not None
        state: dict[str, np.ndarray] = {_FINGERPRINT: fingerprint(self.tiling), "done": done}
        for kind, members in (("filled", self.windows), ("filling", windows)):
            state[kind] = np.array(len(members))
            for number, window in enumerate(members):
                for name, value in window.state().items():
                    state[f"{kind}.{number}.{name}"] = value
        for number, (low, high, groups) in enumerate(stretches):
            state[f"asked.{number}"] = np.array([low, high, *groups], np.float64)
        self.store.save(state)

    def _load(self) -> "SavedScan | None":
        state = None if self.store is None else self.store.load()
        if state is None:
            return None
        try:
            same_pairs = np.array_equal(state[_FINGERPRINT], fingerprint(self.tiling))
            saved = _saved_scan(state, len(self.batches)) if same_pairs else None
        except (KeyError, ValueError, TypeError, OverflowError):
            raise ValueError(f"{self.store}: not the state of an interrupted scan; name another file") from None
        if saved is None:
            raise ValueError(
                f"{self.store}: the state of a scan of other embeddings, or of another version of them; name another "
                "file"
            )
        self.windows = saved.filled
        return saved

    def _resumed(self, windows: Sequence[Window]) -> tuple[list[Window], np.ndarray]:
        """The windows as an interrupted pass for the same stretches left them, and which batches it had completed."""
        saved, self.saved = self.saved, None
        if saved is None or saved.asked != [window.stretch for window in windows]:
            return list(windows), np.zeros(len(self.batches), bool)
        return saved.filling, saved.done


@dataclass(frozen=True, eq=False)
class SavedScan:
    """The saved state of a scan.

    Attributes:
        filled: windows that complete passes have filled.
        filling: windows that an interrupted pass was filling.
        asked: the stretches that this pass was asked for.
        done: whether each of its batches was complete.
    """

    filled: list[Window]
    filling: list[Window]
    asked: list[Stretch]
    done: Bool[np.ndarray, " batches"]


def _saved_scan(state: State, batches: int) -> SavedScan:
    """Read a saved state from its arrays."""
    done = state["done"]
    if done.dtype != np.bool_ or done.shape != (batches,):
        raise ValueError(f"done must be {batches} booleans, got {done.dtype} {done.shape}")
    filled, filling = (
        [_window(state, f"{kind}.{number}.") for number in range(int(state[kind]))] for kind in ("filled", "filling")
    )
    asked: list[Stretch] = []
    for number in range(len(filling)):
        low, high, *groups = state[f"asked.{number}"].tolist()
        asked.append((low, high, tuple(int(group) for group in groups)))
        window = filling[number]
        if window.groups != asked[-1][2] or not low <= window.low <= window.high <= high:
            raise ValueError(f"window {number} is not within the stretch that was asked for")
    return SavedScan(filled, filling, asked, done.copy())


def _window(state: State, prefix: str) -> Window:
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


def gathered_arrays(array: np.ndarray) -> list[np.ndarray]:
    """This array as each rank has it; the lengths may differ."""
    sizes = counts(len(array))
    arrays = gathered(torch.from_numpy(np.ascontiguousarray(array)), sizes)
    return [part.numpy() for part in arrays.split(sizes)]


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
        if rows.exists():
            numbers = rows.stat().st_size // torch.float32.itemsize
            units = torch.from_file(str(rows), shared=True, size=numbers, dtype=torch.float32)
            units = units.view(len(columns["people"]), -1)
        else:
            units = torch.from_numpy(np.load(path.with_suffix(".npy"), mmap_mode="c"))
        return Side(units, columns["people"], columns["domains"], columns["origin"])


def _scan_batch(numbers: Sequence[int], stretches: Sequence[Stretch]) -> list[WindowPart]:
    return scan_tiles(_worker_tiles[0], numbers, stretches)
