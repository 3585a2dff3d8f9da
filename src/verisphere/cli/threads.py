"""CPU threads of a verb, and how they wait for each other; set before PyTorch loads, when OpenMP reads its settings.

PyTorch divides an operation among threads, which wait for each other at its end. By default, GNU OpenMP lets a waiting
thread spin for milliseconds. If other programs compute on the same cores, the spinning takes time that the late thread
needs: beside two busy processes, a training on two cores was eight times slower than on an idle machine.
"""

import argparse
import math
import os
import sys
import time
from collections.abc import MutableMapping
from pathlib import Path
from typing import Literal, TypeAlias

Threads: TypeAlias = "int | Literal['auto'] | None"

#: Rounds of spinning before a thread sleeps. On an idle machine, the limit costs nothing: most waits are shorter.
SPIN_COUNT = 10_000
#: Variables by which a user chooses how threads wait; any of them leaves the choice to the user.
_CHOSEN_WAIT = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "KMP_BLOCKTIME", "KMP_LIBRARY")
_WINDOW = 0.5  # seconds over which the load is measured
_MOST_THREADS = 1024  # more are a mistake
_STAT, _CGROUP, _CGROUPS = Path("/proc/stat"), Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def settle_threads(options: argparse.Namespace) -> tuple[str, str]:
    """Settle `--threads`, a number or None if not given, and how threads wait, before PyTorch loads."""
    about_load = about_waiting = ""
    if options.threads == "auto":
        cores, sharing = idle_cores(), processes_here() * getattr(options, "jobs", 1)
        options.threads = fitting_number(cores, sharing)
        each = " for each process" if sharing > 1 else ""
        about_load = f"--threads auto: {options.threads}{each}, as {cores:.1f} of {available_cores()} cores are idle"
    number = options.threads if options.threads_here else None
    if prepare(number):
        about_waiting = (
            f"threads that wait give way to other programs (GOMP_SPINCOUNT={SPIN_COUNT}; a value of your own is kept)"
        )
    if number is not None:
        import torch

        torch.set_num_threads(number)
    return about_load, about_waiting


def threads_argument(text: str) -> Threads:
    """The value of `--threads`: a number, or `auto`."""
    if text == "auto":
        return "auto"
    if text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= _MOST_THREADS:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is neither a number from 1 to {_MOST_THREADS} nor auto")


def fitting_number(cores: float, sharing: int = 1) -> int:
    """The number of threads for each of several processes that share idle cores: at least 1, at most all cores."""
    return min(max(math.floor(cores / sharing + 0.5), 1), available_cores())


def prepare(number: int | None, environment: MutableMapping[str, str] = os.environ) -> bool:
    """Put the settings of OpenMP into the environment, for the libraries that load next and for child processes.

    `number` replaces OMP_NUM_THREADS; other settings of the user are kept. Processes that a launcher has started on one
    machine share its cores. Returns whether the spinning of waiting threads was shortened.
    """
    if "torch" in sys.modules:
        return (
            False  # a program that has already loaded PyTorch calls the command line: its environment stays unchanged
        )
    sharing = processes_here(environment)
    if number is None and sharing > 1 and "OMP_NUM_THREADS" not in environment:
        number = max(available_cores() // sharing, 1)
    if number is not None:
        environment["OMP_NUM_THREADS"] = str(number)
    if any(name in environment for name in _CHOSEN_WAIT):
        return False
    environment["GOMP_SPINCOUNT"] = str(SPIN_COUNT)
    return True


def processes_here(environment: MutableMapping[str, str] = os.environ) -> int:
    """How many processes a launcher such as torchrun has started on this machine; 1 without a launcher."""
    text = environment.get("LOCAL_WORLD_SIZE", "")
    return max(int(text), 1) if text.isascii() and text.isdecimal() else 1


def available_cores() -> int:
    """Number of cores that this process may use: those of its affinity, at most the quota of its control group."""
    return max(math.floor(min(len(os.sched_getaffinity(0)), _quota())), 1)


def idle_cores() -> float:
    """The available cores that other programs leave idle in half a second; by the load average without /proc/stat."""
    before = _times()
    time.sleep(_WINDOW)
    idle, whole = 0.0, 0
    after = _times()
    for core in before.keys() & after.keys():
        idle_since, all_since = (after[core][place] - before[core][place] for place in (0, 1))
        if all_since > 0:
            idle, whole = idle + idle_since / all_since, whole + 1
    free = idle if whole else len(os.sched_getaffinity(0)) - os.getloadavg()[0]
    return min(max(free, 0.0), _quota())


def _times() -> dict[int, tuple[int, int]]:
    """Ticks that each core of this process was idle, and ticks in all; empty if the system does not report them."""
    try:
        lines = _STAT.read_text().splitlines()
    except OSError:
        return {}
    times = {}
    for line in lines:
        name, _, counts = line.partition(" ")
        if name.startswith("cpu") and name[3:].isdecimal() and int(name[3:]) in os.sched_getaffinity(0):
            ticks = [int(count) for count in counts.split()[:8]]  # user nice system idle iowait irq softirq steal
            times[int(name[3:])] = sum(ticks[3:5]), sum(ticks)
    return times


def _quota() -> float:
    """Cores' worth of time that the control group grants; infinite without a limit."""
    try:
        groups = [line.split(":", 2) for line in _CGROUP.read_text().splitlines()]
    except OSError:
        return math.inf
    quotas = [math.inf]
    for _, controllers, path in groups:
        if not controllers:  # version 2
            places: list[list[Path]] = [[folder / "cpu.max"] for folder in _folders(_CGROUPS, path)]
        elif "cpu" in controllers.split(","):
            files = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            places = [[folder / file for file in files] for folder in _folders(_CGROUPS / "cpu", path)]
        else:
            continue
        for files_of_limit in places:
            try:
                quota, period = " ".join(file.read_text() for file in files_of_limit).split()
                if quota not in ("max", "-1"):
                    quotas.append(int(quota) / int(period))
            except (OSError, ValueError, ZeroDivisionError):
                continue
    return max(min(quotas), 0.01)


def _folders(base: Path, path: str) -> list[Path]:
    """The folder of a control group and of those above it; inside a container, the base alone may exist."""
    group = Path(path.lstrip("/"))
    return [base / part for part in (group, *group.parents)]
