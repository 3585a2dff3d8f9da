"""The device of a computation, the precision of its float32, and the memory allocator of the process."""

import ctypes
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import torch
from torch import nn

from verisphere.base.distributed import world

log = logging.getLogger(__name__)


def choose_device(name: str | None = None) -> torch.device:
    """The named device; by default a GPU if there is one, else the CPU. Each rank gets its own GPU."""
    here = world()
    if name is None and here.size == 1:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if here.size > 1 and name == "cuda":
        name = f"cuda:{here.local_rank}"
    elif here.size > 1 and name.startswith("cuda:"):
        raise ValueError(f"device {name!r} is one GPU for {here.size} processes; name cuda, and each takes its own")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device must be cpu, cuda, or cuda: and a number, got {name!r}")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(
            f"device {name!r} was asked for, but PyTorch sees {torch.cuda.device_count()} CUDA devices here"
        )
    return device


def device_of(network: nn.Module) -> torch.device:
    """The device of a network's weights; the CPU for a network without any."""
    weights = chain(network.parameters(), network.buffers())
    return next((tensor.device for tensor in weights), torch.device("cpu"))


def memory_of(device: torch.device) -> int:
    """Bytes that one process could use: all memory of a GPU, or the free memory of the machine."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    meminfo = Path("/proc/meminfo")
    for line in meminfo.read_text().splitlines() if meminfo.exists() else ():
        if line.startswith("MemAvailable"):
            return 1024 * int(line.split()[1])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@contextmanager
def full_float32() -> Iterator[None]:
    """Products and convolutions of float32 in float32: by default cuDNN's convolutions keep 10 bits of each factor."""
    of_torch = torch.backends
    backends = of_torch.cuda.matmul, of_torch.cudnn.conv, of_torch.mkldnn.matmul  # type: ignore[attr-defined]  # not in its stubs
    before = [backend.fp32_precision for backend in backends]
    try:
        for backend in backends:
            backend.fp32_precision = "ieee"
        yield
    finally:
        for backend, precision in zip(backends, before, strict=True):
            backend.fp32_precision = precision


def keep_memory() -> bool:
    """Make glibc keep freed memory; returns whether that was possible.

    By default glibc returns large temporaries to the system, and their pages fault again at the next use: training on
    a CPU was measured to take 1.4 to 1.8 times as long. The setting applies to the whole process, so the command line
    calls this, and importing verisphere never does.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        libc = ctypes.CDLL("libc.so.6")
        never = 2**31 - 1
        mmap_threshold, trim_threshold = -3, -1
        return bool(libc.mallopt(mmap_threshold, 1 << 30) and libc.mallopt(trim_threshold, never))
    except (OSError, AttributeError):
        return False  # not glibc
