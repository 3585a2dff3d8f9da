"""Processes that read one input after another and may be killed over one: a hang or a memory blow-up ends only that."""

import contextlib
import json
import os
import random
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fuzz.containers import Files
from fuzz.readers import READERS, mutated
from fuzz.worker import SECONDS, Outcome, judge, limit_memory, write_files

PATIENCE = 3 * SECONDS  # of processor time, after which a reader is ended
WAITING = 120.0  # seconds that a reader may take without working, as one that waits for a pipe does
GROWTH = 1536 << 20  # bytes of growth at which a reader is ended
INPUTS = 500  # read by one process before another one takes its place


@dataclass(frozen=True)
class Input:
    """An input, by how it is made.

    Attributes:
        reader: which reads it.
        seed: name of the seed it starts from.
        make: makes its files from those of the seed.
        title: what to call it.
        origin: where it comes from.
    """

    reader: str
    seed: str
    make: Callable[[Files], Files]
    title: str
    origin: Literal["corpus", "seed", "mutation"] = "mutation"


def numbered(reader: str, number: int, run: int | str) -> Input:
    """The mutation of this number in a run of this seed; the same each time."""
    seeds = READERS[reader].seeds
    chance = f"{run}/{reader}/{number}"
    return Input(
        reader,
        seeds[number % len(seeds)],
        lambda files: mutated(READERS[reader], files, random.Random(chance)),
        f"{reader} {number}",
    )


class _Process:
    """A forked process that is handed inputs by their place in a list."""

    def __init__(self, inputs: list[Input], seeds: dict[str, Files], folder: Path) -> None:
        asked, self._ask = os.pipe()
        self.answers, answer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.number = os.fork()
        if self.number == 0:
            os.close(self._ask)
            os.close(self.answers)
            _serve(inputs, seeds, folder, asked, answer)
        os.close(asked)
        os.close(answer)
        self._text, self.place, self.done = b"", -1, 0

    def ask(self, place: int) -> None:
        """Hand over an input."""
        os.write(self._ask, f"{place}\n".encode())
        self.place, self._began, self._worked, self._had = place, time.monotonic(), self._processor(), 0

    def answer(self) -> Outcome | None:
        """What came of the input: said, or the end of the process; None while it is read."""
        readable, _, _ = select.select([self.answers], [], [], 0)
        if readable:
            got = os.read(self.answers, 1 << 16)
            if not got:
                _, status = os.waitpid(self.number, 0)
                self.number = 0
                return Outcome("the process ended", f"by {_ending(status)}")
            self._text += got
            if self._text.endswith(b"\n"):
                line, self._text = self._text, b""
                self.done += 1
                return Outcome(**json.loads(line))
            return None
        return self._too_much()

    def _too_much(self) -> Outcome | None:
        if time.monotonic() - self._began < 0.5:
            return None
        memory = self._memory()
        self._had = self._had or memory
        worked = self._processor() - self._worked
        if worked > PATIENCE or time.monotonic() - self._began > WAITING:
            self.end()
            return Outcome("a hang", f"ended after {worked:.0f} s of work", worked)
        if memory > self._had + GROWTH:
            self.end()
            return Outcome("it took much memory", f"ended at {memory >> 20} MB", worked, memory)
        return None

    def end(self) -> None:
        """End the process."""
        if self.number:
            os.kill(self.number, signal.SIGKILL)
            os.waitpid(self.number, 0)
            self.number = 0

    def close(self) -> None:
        """End the process and let go of its pipes."""
        self.end()
        os.close(self._ask)
        os.close(self.answers)

    def _processor(self) -> float:
        fields = Path(f"/proc/{self.number}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _memory(self) -> int:
        return int(Path(f"/proc/{self.number}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _ending(status: int) -> str:
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit code {os.WEXITSTATUS(status)}"


def _serve(inputs: list[Input], seeds: dict[str, Files], folder: Path, asked: int, answer: int) -> None:
    """What a process does until it is ended; never returns."""
    try:
        place = folder / f"process-{os.getpid()}"
        place.mkdir()
        os.chdir(place)
        output = os.open(place / "output", os.O_RDWR | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        for name in dict.fromkeys(one.reader for one in inputs):  # what is loaded at first use counts for no input
            for seed in READERS[name].seeds:
                write_files(place / "input", seeds[seed])
                with contextlib.suppress(Exception):  # the seed is an input too, and its outcome is told there
                    READERS[name].read(place / "input")
        limit_memory()
        with os.fdopen(asked) as lines:
            for line in lines:
                one = inputs[int(line)]
                try:
                    files = one.make(dict(seeds[one.seed]))
                except Exception as error:  # a fault of the harness, told as any other
                    outcome = Outcome("the input could not be made", f"{type(error).__name__}: {error}")
                else:
                    outcome = judge(READERS[one.reader], files, place / "input", output)
                os.write(answer, outcome.line().encode() + b"\n")
    finally:
        os._exit(70)


def judged(
    inputs: list[Input], seeds: dict[str, Files], folder: Path, processes: int
) -> Iterator[tuple[Input, Outcome]]:
    """Every input with what came of it, as they become known."""
    waiting = iter(range(len(inputs)))
    running = [process for _ in range(processes) if (process := _next(waiting, inputs, seeds, folder)) is not None]
    try:
        while running:
            select.select([one.answers for one in running], [], [], 0.2)
            for process in list(running):
                outcome = process.answer()
                if outcome is None:
                    continue
                yield inputs[process.place], outcome
                following: _Process | None = process
                if process.number == 0 or process.done >= INPUTS:
                    process.close()
                    following = _next(waiting, inputs, seeds, folder)
                else:
                    place = next(waiting, None)
                    if place is None:
                        process.close()
                        following = None
                    else:
                        process.ask(place)
                if following is not process:
                    running.remove(process)
                    running += [following] if following is not None else []
    finally:
        for process in running:
            process.close()


def _next(waiting: Iterable[int], inputs: list[Input], seeds: dict[str, Files], folder: Path) -> _Process | None:
    place = next(iter(waiting), None)
    if place is None:
        return None
    process = _Process(inputs, seeds, folder)
    process.ask(place)
    return process
