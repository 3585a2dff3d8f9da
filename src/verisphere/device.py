"""The device of a computation, and the memory allocator and the waiting threads of the process."""

import ctypes
import logging
import sys

import torch

from verisphere.distributed import world

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
