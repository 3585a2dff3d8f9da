"""A task on a file from elsewhere, in a separate process with limits on memory, time and files.

A library may take any memory and time for such a file, or end its process. A task is a module with a function `answer`,
which is run by its path, so that the process loads only what the task imports.
"""

import json
import resource
import runpy
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

#: What a task returns: fields that JSON can hold, and bytes.
Answer = tuple[dict[str, Any], bytes]


@dataclass(frozen=True)
class Task:
    """A module with a function `answer(told, content)`, and the limits of its process.

    An error says `fails` of the file if the task raises one, or its process ends without an answer, and `slow` if it
    takes longer than so many seconds of the processor, or of wall time.
    """

    module: Path
    fails: str
    slow: str
    cpu_seconds: int
    seconds: int


def in_child(task: Task, file: Path, told: dict[str, Any], memory: int, content: bytes = b"") -> Answer:
    """What a task answers about a file; an error of the task, or a limit that it exceeds, is a ValueError in one line.

    The task receives values that JSON can hold, and bytes; the memory that its process may take is in bytes.
    """
    words = json.dumps([str(task.module), memory, task.cpu_seconds, told])
    command = [sys.executable, "-P", __file__]  # -P: nothing beside this file is imported
    try:
        # all by standard input: names in a graph may exceed the length of an argument, and no disk space is needed
        given = b"".join([words.encode(), b"\n", content])
        done = subprocess.run(command, capture_output=True, timeout=task.seconds, input=given)
    except subprocess.TimeoutExpired:
        raise ValueError(f"{file}: {task.slow} more than {task.seconds} s; it was stopped") from None
    line, _, blob = done.stdout.partition(b"\n")
    fields, size = json.loads(line or "[{}, -1]")
    if size != len(blob):
        cause = "it ended by itself" if done.returncode >= 0 else f"it was ended by signal {-done.returncode}"
        raise ValueError(
            f"{file}: {task.fails} within {memory / 2**30:.0f} GB and {task.cpu_seconds} s of computing: {cause}"
        )
    if "error" in fields:
        raise ValueError(f"{file}: {task.fails}: {fields['error']}")
    return fields, blob


def _limit(memory: int, cpu_seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _answer(answer: Callable[[dict[str, Any], BinaryIO], Answer], told: dict[str, Any]) -> Answer:
    try:
        return answer(told, sys.stdin.buffer)
    except Exception as error:  # libraries raise exceptions without a common base of their own
        return {"error": (str(error).strip() or type(error).__name__).splitlines()[0][:300]}, b""


if __name__ == "__main__":
    module, most_memory, most_seconds, words_told = json.loads(sys.stdin.buffer.readline())
    _limit(most_memory, most_seconds)
    answered, rest = _answer(runpy.run_path(module)["answer"], words_told)
    sys.stdout.buffer.write(json.dumps([answered, len(rest)]).encode() + b"\n" + rest)
