"""Passes over all pairs, in this process or in several, which can be interrupted and gone on with.

A pass is cut into batches of tiles. What a batch says does not depend on any other, so batches may be worked through
anywhere and in any order; one process collects them.
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

from verisphere.collectives import counts, gathered
from verisphere.distributed import ALONE, World
from verisphere.score.exact.screen import Precision
from verisphere.score.exact.tiles import Side, Tiles, sift
from verisphere.score.exact.windows import Found, Stretch, Window
from verisphere.vocabulary import Progress

BATCH = 1 << 26  # pairs: below a second of work
SAVED = 20.0  # seconds between two times that a pass is kept

State = Mapping[str, np.ndarray]


@runtime_checkable
class Keeper(Protocol):
    """Keeps the state of a sweep somewhere that outlives the process."""

    def load(self) -> State | None:
        """What was kept last, or None."""
        ...

    def save(self, state: State) -> None:
        """Keep this in the place of what was kept before."""
        ...


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that determines the tiles of a sweep."""

    left: Side
    right: Side | None
    across: int
    precision: Precision
    span: tuple[float, float]
    block: int

    def tiles(self) -> Tiles:
        """The tiles."""
        return Tiles(self.left, self.right, self.across, self.precision, self.span, self.block)


def fingerprint(plan: Plan) -> np.ndarray:
    """32 bytes that differ where the rows, their people or domains, or the tiles do; not where the screen does."""
    digest = hashlib.sha256(f"1 {BATCH} {plan.block} {plan.across}".encode())  # 1: of this way to cut tiles
    for side in (plan.left, plan.right):
        if side is not None:
            for part in (side.units.cpu().numpy(), side.people, side.domains):
                digest.update(np.ascontiguousarray(part).view(np.uint8).data)
    return np.frombuffer(digest.digest(), np.uint8)


class Sweep:
    """Tiles of pairs, and the windows that passes over them have filled."""

    def __init__(
        self,
        plan: Plan,
        progress: Progress,
        processes: int = 1,
        keeper: Keeper | None = None,
        before: "Sweep | None" = None,
        world: World = ALONE,
    ) -> None:
        """Prepare the tiles, and take up what is known already.

        Args:
            plan: which tiles.
            progress: shown for each pass.
            processes: how many work; what they find does not depend on it.
            keeper: keeps passes, and what they have found; of one process alone.
            before: a sweep of the same rows by other products, which this one takes the place of.
            world: launched processes that share each pass, every one of which asks the same.

        Raises:
            ValueError: what was kept is of another sweep; or something is to be kept of several processes.
        """
        if keeper is not None and world.size > 1:
            raise ValueError(
                f"a sweep of {world.size} launched processes is not kept; start it without --sweep, or start one "
                "process that shares its work by --processes"
            )
        self.plan, self.progress, self.processes, self.keeper = plan, progress, processes, keeper
        self.world = world
        self.tiles = plan.tiles()
        self.batches = _batches(np.array([self.tiles.pairs(number) for number in range(len(self.tiles))], np.int64))
        self.windows: list[Window] = [] if before is None else before.windows
        self.kept: Kept | None = self._load() if before is None else before.kept

    def fill(self, windows: Sequence[Window]) -> None:
        """Fill new windows by one pass over all pairs, of which processes that a launcher has started take a share."""
        stretches = [window.stretch for window in windows]  # as asked: those that are taken up have been narrowed
        windows, done = self._taken_up(windows)
        left = [number for number in range(self.world.rank, len(self.batches), self.world.size) if not done[number]]
        saved = time.monotonic()
        with ExitStack() as stack:
            found = self._found(left, lambda: [window.stretch for window in windows], stack)
            for number, asked, results in self.progress(found, "comparing all pairs", len(left)):
                for window, stretch, part in zip(windows, asked, results, strict=True):
                    window.add(part, stretch)
                done[number] = True
                for window in windows:
                    window.narrow()
                if self.keeper is not None and time.monotonic() - saved > SAVED:
                    self._save(windows, stretches, done)
                    saved = time.monotonic()
        if self.world.size > 1:
            windows = [one for one in (window.joined(of_all) for window in windows) if one is not None]
        for window in windows:
            window.finish()
        self.windows += windows
        if self.keeper is not None:
            self._save([], [], np.zeros(len(self.batches), bool))

    def look(self, numbers: Sequence[int], stretches: Sequence[Stretch]) -> list[Found]:
        """What some tiles say about some stretches, here and now."""
        return sift(self.tiles, numbers, stretches)

    def _found(
        self, left: Sequence[int], stretches: Callable[[], list[Stretch]], stack: ExitStack
    ) -> Iterator[tuple[int, list[Stretch], list[Found]]]:
        """Number, stretches asked for, and findings of each batch, as they come."""
        if self.processes == 1:
            for number in left:
                asked = stretches()
                yield number, asked, self.look(self.batches[number], asked)
            return
        pool = stack.enter_context(self._pool(stack))
        running: dict[Future, tuple[int, list[Stretch]]] = {}
        waiting = iter(left)
        try:
            while True:
                # Two a process: one in work and one at hand; more would be looked through for too wide windows.
                for number in waiting:
                    asked = stretches()
                    with _interrupts_waiting():
                        running[pool.submit(_work, self.batches[number], asked)] = number, asked
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
        for name, side in (("left", self.plan.left), ("right", self.plan.right)):
            if side is not None:
                np.save(folder / f"{name}.npy", side.units.cpu().numpy())
                np.savez(folder / f"{name}.npz", people=side.people, domains=side.domains, origin=side.origin)
        plan = self.plan
        settings = (plan.across, plan.precision, plan.span, plan.block)
        threads = max(torch.get_num_threads() // self.processes, 1)
        return ProcessPoolExecutor(
            self.processes,
            multiprocessing.get_context("spawn"),
            _start,
            (folder, plan.right is not None, settings, threads),
        )

    # -- keeping ---------------------------------------------------------------------------------------------------

    def _save(self, windows: Sequence[Window], stretches: Sequence[Stretch], done: np.ndarray) -> None:
        assert self.keeper is not None
        state: dict[str, np.ndarray] = {"sweep": fingerprint(self.plan), "done": done}
        for kind, some in (("filled", self.windows), ("filling", windows)):
            state[kind] = np.array(len(some))
            for number, window in enumerate(some):
                for name, value in window.state().items():
                    state[f"{kind}.{number}.{name}"] = value
        for number, (low, high, groups) in enumerate(stretches):
            state[f"asked.{number}"] = np.array([low, high, *groups], np.float64)
        self.keeper.save(state)

    def _load(self) -> "Kept | None":
        state = None if self.keeper is None else self.keeper.load()
        if state is None:
            return None
        try:
            ours = np.array_equal(state["sweep"], fingerprint(self.plan))
            kept = _kept(state, len(self.batches)) if ours else None
        except (KeyError, ValueError, TypeError, OverflowError):
            raise ValueError(f"{self.keeper}: it holds no sweep that was interrupted; name another file") from None
        if kept is None:
            raise ValueError(f"{self.keeper}: it keeps the sweep of other embeddings, or of another version of them")
        self.windows = kept.filled
        return kept

    def _taken_up(self, windows: Sequence[Window]) -> tuple[list[Window], np.ndarray]:
        """The windows as an interrupted pass left them, where it was filling these; which batches it had done."""
        kept, self.kept = self.kept, None
        if kept is None or kept.asked != [window.stretch for window in windows]:
            return list(windows), np.zeros(len(self.batches), bool)
        return kept.filling, kept.done


@dataclass(frozen=True, eq=False)
class Kept:
    """What is kept of a sweep.

    Attributes:
        filled: windows that whole passes have filled.
        filling: those that an interrupted pass was filling.
        asked: what that pass was asked to look for.
        done: which of its batches were done.
    """

    filled: list[Window]
    filling: list[Window]
    asked: list[Stretch]
    done: Bool[np.ndarray, " batches"]


def _kept(state: State, batches: int) -> Kept:
    """What was kept, from its arrays.

    Raises:
        KeyError: one of them is missing.
        ValueError: they are none of a sweep in so many batches.
    """
    done = state["done"]
    if done.dtype != np.bool_ or done.shape != (batches,):
        raise ValueError(f"done must be {batches} truths, got {done.dtype} {done.shape}")
    filled, filling = (
        [_window(state, f"{kind}.{number}.") for number in range(int(state[kind]))] for kind in ("filled", "filling")
    )
    asked: list[Stretch] = []
    for number in range(len(filling)):
        low, high, *groups = state[f"asked.{number}"].tolist()
        asked.append((low, high, tuple(int(group) for group in groups)))
        window = filling[number]
        if window.groups != asked[-1][2] or not low <= window.low <= window.high <= high:
            raise ValueError(f"window {number} is not within what was asked for")
    return Kept(filled, filling, asked, done.copy())


def _window(state: State, prefix: str) -> Window:
    return Window.from_state(
        {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
    )


def _batches(pairs: Int64[np.ndarray, " tiles"]) -> list[range]:
    """Runs of tiles, the first of them short: windows are wide until something is known, and would hold too much."""
    found, start, size = [], 0, 1
    while start < len(pairs):
        stop = min(start + size, len(pairs))
        found.append(range(start, stop))
        start = stop
        if int(pairs[found[-1]].sum()) < BATCH:
            size = max(size, stop)
    return found


def of_all(array: np.ndarray) -> list[np.ndarray]:
    """This array of every process; they may differ in length."""
    sizes = counts(len(array))
    everyone = gathered(torch.from_numpy(np.ascontiguousarray(array)), sizes)
    return [part.numpy() for part in everyone.split(sizes)]


_here: list[Tiles] = []  # of a worker process


def _start(folder: Path, two: bool, settings: tuple, threads: int) -> None:
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    torch.set_num_threads(threads)
    sides = [_side(folder / name) if name == "left" or two else None for name in ("left", "right")]
    assert sides[0] is not None
    _here.append(Plan(sides[0], sides[1], *settings).tiles())


@contextmanager
def _interrupts_waiting() -> Iterator[None]:
    """Ctrl-C reaches every process of a group. Those started meanwhile never see it, the first one sees it later."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent(folder: Path) -> None:
    """End this process when the first one is gone, even if that was killed; and leave none of its files behind."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _side(path: Path) -> Side:
    units = torch.from_numpy(np.load(path.with_suffix(".npy"), mmap_mode="c"))
    with np.load(path.with_suffix(".npz")) as rest:
        return Side(units, rest["people"], rest["domains"], rest["origin"])


def _work(numbers: Sequence[int], stretches: Sequence[Stretch]) -> list[Found]:
    return sift(_here[0], numbers, stretches)
