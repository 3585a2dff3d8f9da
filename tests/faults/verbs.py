"""The command line as the fault tests run it, and what they look at afterwards."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np

from verisphere.base.vocabulary import Embeddings

TESTS = Path(__file__).parents[1]

Act = Callable[..., subprocess.CompletedProcess[str]]


def random_set(people: int, images: int, size: int) -> Embeddings:
    """Embeddings of some people, each near a direction of their own."""
    generator = np.random.default_rng(0)
    centers = generator.normal(size=(people, size)).astype(np.float32)
    rows = np.repeat(centers, images, axis=0)
    rows += generator.normal(size=rows.shape).astype(np.float32)
    owners = np.repeat(np.arange(people), images)
    names = np.array([f"{owner}/{row}.png" for row, owner in enumerate(owners)])
    return Embeddings(rows, names, owners.astype(str))


def environment() -> dict[str, str]:
    """Of a process that finds the tests' own parts."""
    path = os.pathsep.join([str(TESTS), str(TESTS / "train"), os.environ.get("PYTHONPATH", "")])
    # No bytecode: under a limit on sizes of files Python writes a part of it, which every later process would read.
    return os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines that say why it ended; a traceback fails the test."""
    assert "Traceback" not in done.stderr, done.stderr
    return [line for line in done.stderr.splitlines() if line.startswith("verisphere: ")]


def listing(folder: Path) -> dict[str, bytes]:
    """Every file of a folder but a run's lock."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }
