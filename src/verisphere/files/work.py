"""Work that continues: what a stopped computation has finished, and whether a folder was made for the same work."""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
import torch

from verisphere import __version__
from verisphere.base.collectives import on_every_rank, on_first_rank
from verisphere.base.distributed import world
from verisphere.base.vocabulary import Progress
from verisphere.base.work import About, Arrays, Compute, PartEnded, working
from verisphere.files.disk import remove_whole, write_text, write_whole
from verisphere.files.documents import read_json_file
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shortened, shown
from verisphere.files.lock import alone_in, lock_file
from verisphere.files.npz import names_in_npz, read_npz

log = logging.getLogger(__name__)

#: Folder of the work files, inside that of the result.
WORK = ".work"
_ABOUT = "about.json"
_FORMAT = 1
_STEPS = "[0-9][0-9]-*"
_AGAIN = "remove it, and its piece is computed again"
_ANOTHER = "name another folder"
_ROWS_AT_ONCE = 1 << 16
_SEAL = "seal"  # array with the SHA-256 of all others; shows an edit or damage, not a forgery
_PIECE = "piece"  # array that says which piece of which step it is
_MOST_SHOWN = 3  # values in which two definitions differ


@contextmanager
def result_folder(out: Path, alone: bool = True) -> Iterator[Path]:
    """Creates the folder of a result; yields the folder of its work files, which is removed at the end.

    If an error ends the context before there was any work, nothing remains. All ranks enter this together.
    """
    work = out / WORK
    lock = ExitStack()

    def begin() -> None:
        if not work.is_dir():
            if out.is_dir() and any(out.iterdir()):
                raise FileExistsError(f"{out}: a folder that is not empty; a result needs a new folder")
            if out.exists() and not out.is_dir():
                raise FileExistsError(f"{out}: a file, and a folder was to be written under its name")
        if not alone:
            work.mkdir(parents=True, exist_ok=True)
        else:
            lock.enter_context(alone_in(work))

    def end() -> None:
        for leftover in out.glob(".part-*") if alone else ():  # left by a process that was killed while it wrote
            remove_whole(leftover)
        with suppress(FileNotFoundError):  # another process that was not alone has removed it
            remove_whole(work)

    missing = _missing(out)
    on_first_rank(begin)
    with lock:
        try:
            yield work
        except BaseException:
            if alone and world().first and _is_empty(out):
                remove_whole(work)
                with suppress(OSError):  # a folder that is not empty stays
                    for folder in missing:
                        folder.rmdir()
            raise
        on_first_rank(end)


def _is_empty(out: Path) -> bool:
    """Whether the folder of a result holds no work: at most a lock, and what the work would be."""
    return {path for path in out.rglob("*") if path.is_file()} <= {out / WORK / ".lock", out / WORK / _ABOUT}


def _missing(path: Path) -> list[Path]:
    """The missing parent folders of a path, innermost first."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    return missing


class WorkFolder(AbstractContextManager["WorkFolder"]):
    """A folder that keeps the finished pieces of each step, a sealed file each; see `verisphere.base.work`.

    The folder of a step has a digest of its inputs and options in its name, so the pieces of another task are never
    read. The ranks of a joined group divide what is missing; all of them call this together.
    """

    def __init__(
        self,
        folder: Path,
        task: str = "",
        part: tuple[int, int] | None = None,
        merge: bool = False,
        anew: bool = False,
    ) -> None:
        """Open a folder, which can be absent.

        Args:
            folder: the folder, which all ranks and parts see.
            task: the command in words, for the message that refuses another one.
            part: number of this part, from 0, and number of parts: only pieces of this part are computed in the first
                step. The part that completes the step continues alone.
            merge: refuse to compute pieces of the step that parts share, or of one before it.
            anew: remove the work of other inputs instead of refusing the folder.
        """
        self.folder, self.task, self.merge, self.anew = folder, task, merge, anew
        self.part, self.parts = part or (0, 0)
        self.divides = merge or part is not None
        self.steps = Counter[str]()
        self._latest: dict[str, Path] = {}
        self._lock = ExitStack()

    def __exit__(self, *_: object) -> None:
        """Release the lock of the part that makes the result."""
        self._lock.close()

    def __call__(
        self, step: str, about: About, pieces: int, compute: Compute, progress: Progress, title: str
    ) -> Iterable[Arrays]:
        """The results of all pieces, read when they are asked for; the missing ones are computed first."""
        if not self.steps:
            self.parts = int(on_first_rank(self._open))
        name, _, step = step.rpartition("-")
        self.steps[name] += 1
        turn = f"{name}-{self.steps[name]:02d}-".lstrip("-")
        self._latest[step] = folder = self.folder / on_first_rank(lambda: self._step(turn, step, about, pieces))
        missing = self._missing(folder, pieces)
        shared = self.divides and 0 < self.parts <= pieces
        if self.merge and self.divides and missing:
            parts = sorted({piece % self.parts for piece in missing}) if shared else ()
            named = shortened(", ".join(f"part {part + 1}/{self.parts}" for part in parts), 200)
            lacking = named or "any part, or the command without --merge"
            raise ValueError(f"{folder}: {len(missing)} of {pieces} pieces are missing; run {lacking}")
        if shared:
            missing = [piece for piece in missing if piece % self.parts == self.part]
        here, done = world(), pieces - len(missing)
        on_every_rank(lambda: self._compute(folder, missing[here.rank :: here.size], compute, progress, title, done))
        if shared and (missing := self._missing(folder, pieces)):
            raise PartEnded(
                f"part {self.part + 1}/{self.parts} is computed: {pieces - len(missing)} of {pieces} pieces are in "
                f"{self.folder}; the part that computes the last one, or the command without --part, makes the result"
            )
        if shared:
            lock = lock_file(self.folder / ".result.lock")
            if not on_first_rank(lambda: "locked" if self._lock.enter_context(lock) else ""):
                raise PartEnded(f"{self.folder}: all pieces of this step are there, and another part makes the result")
            self.divides = False
        return (_loaded(folder, piece) for piece in range(pieces))

    def load(self, step: str, piece: int) -> Arrays:
        """The result of a piece of the latest step of this name."""
        return _loaded(self._latest[step], piece)

    def state(self, step: str, piece: int) -> "SealedFile":
        """A file for the state of a piece that takes long, beside the pieces."""
        return SealedFile(self._latest[step] / f"{piece:08d}.state.npz", "the state of a piece of work", _AGAIN)

    @contextmanager
    def inside(self, step: str, piece: int) -> Iterator[None]:
        """Inside this context a piece that takes long is itself a step, whose pieces are kept until the context ends.

        One process computes it alone; parts that compute the same piece keep a folder each.
        """
        folder = self._latest[step] / f"{piece:08d}-{self.part}"
        folder.mkdir(exist_ok=True)

        def work(_: str, __: About, pieces: int, compute: Compute, progress: Progress, title: str) -> Iterable[Arrays]:
            missing = [number for number in range(pieces) if not _piece(folder, number).exists()]
            self._compute(folder, missing, compute, progress, title, pieces - len(missing))
            return (_loaded(folder, number) for number in range(pieces))

        with working(work):
            yield
        remove_whole(folder)

    def _open(self) -> str:
        about = {"format": _FORMAT, "verisphere": __version__, "torch": torch.__version__, "numpy": np.__version__}
        path = self.folder / _ABOUT
        if path.is_file():
            with errors_naming(path):
                before = read_json_file(path)
            task, parts = (before.pop(name, 0) if isinstance(before, dict) else 0 for name in ("task", "parts"))
            differing = changed_values("the work", before, about)
            if not differing:
                self.task = str(task)
                return str(self.parts or (parts if isinstance(parts, int) else 0))
            if not self.anew:
                raise ValueError(f"{self.folder}: work of another version: {'; '.join(differing)}; {_ANOTHER}")
            self._begin_anew(list(self.folder.glob(_STEPS)))
        elif self.folder.is_dir() and any(not entry.name.startswith(".") for entry in self.folder.iterdir()):
            if path.is_file():  # another part has begun it meanwhile
                return self._open()
            raise ValueError(f"{self.folder}: it holds something, and no work; {_ANOTHER}")
        write_text(path, json.dumps({**about, "task": self.task, "parts": self.parts}) + "\n")
        return str(self.parts)

    def _step(self, turn: str, step: str, about: About, pieces: int) -> str:
        """The name of the folder of a step, which is made; that of other inputs is refused or removed."""
        name = f"{turn}{step}-{digest_of([*about(), pieces])[:16]}"
        other = [entry for entry in self.folder.iterdir() if entry.name.startswith(turn) and entry.name != name]
        if other and not self.anew:
            task = f" ({self.task})" if self.task else ""
            raise ValueError(
                f"{self.folder}: the work of other inputs or options{task}, which differ at step {turn}{step}; "
                f"{_ANOTHER}"
            )
        self._begin_anew(other)
        (self.folder / name).mkdir(exist_ok=True)
        return name

    def _begin_anew(self, steps: Sequence[Path]) -> None:
        if steps:
            log.info("%s: work of other inputs or options: it begins anew", self.folder.parent)
        for entry in steps:
            remove_whole(entry)

    def _missing(self, folder: Path, pieces: int) -> list[int]:
        """The pieces without a file; rank 0 looks, so that all ranks agree."""

        def listed() -> str:
            there = {entry.name for entry in folder.iterdir()}
            return json.dumps([piece for piece in range(pieces) if _piece(folder, piece).name not in there])

        return [int(piece) for piece in json.loads(on_first_rank(listed))]

    def _compute(
        self, folder: Path, pieces: Sequence[int], compute: Compute, progress: Progress, title: str, done: int
    ) -> None:
        """Compute and keep these pieces, but for those that another process has kept meanwhile."""
        taken: list[int] = []

        def numbers() -> Iterator[int]:
            for piece in pieces:
                if not _piece(folder, piece).exists():
                    taken.append(piece)
                    yield piece

        for turn, arrays in enumerate(progress(compute(numbers()), title, done + len(pieces), done)):
            SealedFile(_piece(folder, taken[turn])).save({**arrays, _PIECE: _of_piece(folder, taken[turn])})


def _piece(folder: Path, piece: int) -> Path:
    return folder / f"{piece:08d}.npz"


def _loaded(folder: Path, piece: int) -> Arrays:
    path = _piece(folder, piece)
    sealed = SealedFile(path, "a piece of work", _AGAIN).load()
    if sealed is None:
        raise FileNotFoundError(f"{path}: this piece was there, and was removed while it was needed")
    arrays = dict(sealed)
    if arrays.pop(_PIECE, None) != _of_piece(folder, piece):
        raise ValueError(f"{path}: another piece under this name; {_AGAIN}")
    return arrays


def _of_piece(folder: Path, piece: int) -> np.ndarray:
    return np.array(f"{folder.name}/{piece}")


def digest_of(parts: Sequence[object]) -> str:
    """SHA-256 of arrays, tensors, numbers and words, and of lists and dataclasses of these."""
    digest = hashlib.sha256()
    for part in parts:
        array = part.cpu().numpy() if isinstance(part, torch.Tensor) else part
        if is_dataclass(array):
            array = [getattr(array, field.name) for field in fields(array)]
        if isinstance(array, list | tuple):
            array = digest_of(array)
        if not isinstance(array, np.ndarray):
            digest.update(f"{json.dumps(array, default=str)}\n".encode())
            continue
        digest.update(f"{array.dtype.str} {array.shape}\n".encode())
        rows = np.atleast_1d(array)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            digest.update(rows[start : start + _ROWS_AT_ONCE].tobytes())
    return digest.hexdigest()


class SealedFile:
    """Arrays in one `.npz` file, which each save replaces as a whole and seals."""

    def __init__(
        self, path: Path, what: str = "interrupted work", advice: str = "name another file, and it begins anew"
    ) -> None:
        """Name the file, the work in words, and what to do about a damaged file; nothing is written yet."""
        self.path, self.what, self.advice = path, what, advice

    def __str__(self) -> str:
        return str(self.path)

    def load(self) -> Arrays | None:
        """Read the saved arrays; None if there is no file."""
        if not self.path.exists():
            return None
        try:
            state = read_npz(self.path, names_in_npz(self.path))
        except ValueError as error:
            raise ValueError(f"{error}; {self.advice}") from None
        seal = state.pop(_SEAL, None)
        if seal is None:
            raise ValueError(f"{self.path}: not {self.what}, or written by an earlier version; {self.advice}")
        if seal.dtype != np.uint8 or seal.tobytes() != _digest(state):
            raise ValueError(
                f"{self.path}: its arrays do not match their seal, so the file was edited or damaged; {self.advice}"
            )
        return state

    def save(self, state: Arrays) -> None:
        """Replace the file's content."""
        sealed = {**state, _SEAL: np.frombuffer(_digest(state), np.uint8)}

        def write(partial: Path) -> None:
            with partial.open("wb") as file:  # an open file, since savez would add .npz to a name without it
                np.savez(file, **sealed)  # type: ignore[arg-type]  # its stub takes names for options

        write_whole(self.path, write)


def _digest(state: Arrays) -> bytes:
    """SHA-256 of names, types, shapes and contents, in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(state):
        array = state[name]
        digest.update(f"{name!r} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()


def begun_before(path: Path, noun: str, differing: Callable[[], Sequence[str]], beside: Sequence[str] = ()) -> bool:
    """Whether a folder was made for this work, by the file that says what for; False for a new folder.

    One that holds something else than files that may be there is refused, and one in which something is `differing`.
    """
    if not path.is_file():
        if path.parent.is_dir() and any(entry.name not in (".lock", *beside) for entry in path.parent.iterdir()):
            raise ValueError(f"{path.parent}: it holds something, and no {noun}; choose another --out")
        return False
    if found := differing():
        more = f"; and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
        shown_ones = "; ".join(found[:_MOST_SHOWN])
        raise ValueError(f"{path}: this folder holds another {noun}: {shown_ones}{more}; choose another --out")
    return True


def changed_fields(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """The values in which what was asked for differs, each field by its name."""
    return [text for name in now for text in changed_values(name, before.get(name), now[name])]


def changed_values(who: str, before: object, now: object) -> list[str]:
    """The values in which two definitions as plain data differ, in words.

    >>> changed_values("recipe", {"epochs": 4, "seed": 0}, {"epochs": 5, "seed": 0})
    ['recipe: epochs was 4 and is 5']
    """
    old, new = _leaves(before), _leaves(now)
    return [
        f"{who}: {name or 'it'} was {shown(old.get(name))} and is {shown(new.get(name))}"
        for name in dict.fromkeys([*old, *new])
        if name not in old or name not in new or old[name] != new[name]
    ]


def _leaves(value: object, name: str = "") -> dict[str, object]:
    """All values inside, by dotted name."""
    inside: Iterable[tuple[object, object]]
    if isinstance(value, Mapping) and value:
        inside = value.items()
    elif isinstance(value, list) and value:
        inside = enumerate(value)
    else:
        return {name: value}
    return {
        leaf: value_inside
        for key, entry in inside
        for leaf, value_inside in _leaves(entry, f"{name}.{key}" if name else str(key)).items()
    }
