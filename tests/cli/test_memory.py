"""Memory that runs out is one line with what would take less, and exit code 2, whoever runs out of it."""

import errno
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from processes import forked
from verisphere.cli.memory import LESS_MEMORY, memory_line, memory_ran_out
from verisphere.cli.start import parser

OWN = Path(__file__).parents[1] / "train"  # own_parts.py


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (MemoryError(), "memory ran out: take less"),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 51380224 "
                         "bytes. Error code 12 (Cannot allocate memory)"),
            "memory ran out where 49.0 MiB more were asked for: take less",
        ),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 600 bytes."),
            "memory ran out where 600.0 bytes more were asked for: take less"),
        (RuntimeError("std::bad_alloc"), "memory ran out: take less"),
        (RuntimeError("Caught _ArrayMemoryError in DataLoader worker process 0.\nOriginal Traceback ...\n"
                      "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 512. GiB for an array"),
            "memory ran out where 512 GiB more were asked for: take less"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has ..."),
            "memory ran out where 20 MiB more were asked for: take less"),
        (RuntimeError("could not create a primitive"), "memory ran out: take less"),  # these four of oneDNN
        (RuntimeError("could not execute a primitive"), "memory ran out: take less"),
        (RuntimeError("could not append a sum post-op"), "memory ran out: take less"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "memory ran out: take less"),  # a process that is started
        (SystemError("error return without exception set"), "memory ran out: take less"),  # a module that is loaded
        (ImportError("libtorch.so: failed to map segment: Cannot allocate memory"), "memory ran out: take less"),
    ],
)  # fmt: skip
def test_what_ran_out_of_memory(error: Exception, line: str):
    assert memory_ran_out(error)
    assert memory_line(error, "take less") == line


@pytest.mark.parametrize(
    "error",
    [
        ValueError("labels: out of memory"),
        OSError(errno.ENOSPC, "No space left on device"),
        RuntimeError("DataLoader worker (pid 12) is killed by signal: Killed."),
        KeyError("bad_alloc"),
        RuntimeError("could not create a primitive descriptor for a convolution forward propagation primitive"),
    ],
)
def test_what_did_not(error: Exception):
    assert not memory_ran_out(error)


def test_numpys_own_error_is_one():
    with pytest.raises(MemoryError) as caught:
        np.zeros(1 << 58, np.uint8)
    assert "where 256 PiB more were asked for" in memory_line(caught.value, LESS_MEMORY)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["train", "recipe.yaml"], "lower batch_size"),
        (["embed", "run", "faces", "--out", "out.npz"], "lower --batch-size"),
        (["evaluate", "all-pairs", "faces.npz"], "--replicates"),
        (["data", "render", "out"], LESS_MEMORY),
    ],
)
def test_each_verb_says_what_takes_less(words: list[str], says: str):
    assert says in parser().parse_args(words).less_memory


#: A data set that leaves the process so many MiB of address space beyond what it takes once everything is imported.
SMALL = """
import resource
from own_parts import Noise

pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + 300 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
"""


@pytest.mark.parametrize("workers", ["0", pytest.param("1", marks=pytest.mark.slow)])
def test_a_training_that_runs_out_of_memory(tmp_path: Path, workers: str):
    """Here, or in a process that reads images for it."""
    (tmp_path / "recipe.yaml").write_text(
        "data: {class_path: small.Noise, init_args: {people: 20, images: 10, side: 1024}}\n"
        "backbone: {class_path: own_parts.LargeNet}\nloss: {class_path: own_parts.OwnLoss}\n"
        f"batch_size: 200\nepochs: 1\nworkers: {workers}\n"
    )
    (tmp_path / "small.py").write_text(SMALL)
    words = [*forked(), "train", "recipe.yaml", "--out", "run", "--device", "cpu"]
    places = os.environ | {"PYTHONPATH": str(OWN)}
    done = subprocess.run(words, cwd=tmp_path, env=places, capture_output=True, text=True)
    said = [line for line in done.stderr.splitlines() if not line.startswith("200 images of 20 people")]
    assert (done.returncode, done.stdout, len(said)) == (2, "", 1), done.stderr
    assert said[0].startswith("verisphere: memory ran out")
    assert "lower batch_size, raise accumulate" in said[0]
