"""Times variants of one task interleaved in one process and appends their medians to results.csv.

Wall seconds and CPU seconds are medians over the rounds. The allocator keeps freed memory for every variant alike:
otherwise whoever allocates more pays in page faults, and the ratio flatters the other.
"""

import csv
import datetime
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy
import torch

from verisphere.base.device import keep_memory

RESULTS = Path(__file__).with_name("results.csv")
FIELDS = ("date", "benchmark", "case", "variant", "wall_s", "cpu_s", "items", "items_per_s", "unit",
          "threads", "rounds", "machine", "versions")  # fmt: skip


def compare(
    benchmark: str, case: str, variants: dict[str, Callable[[], object]], items: int, unit: str, rounds: int = 5
) -> None:
    """Run each variant `rounds` times in turn after one warm-up each, print and write a row for each."""
    keep_memory()
    for run in variants.values():
        run()
    wall: dict[str, list[float]] = {name: [] for name in variants}
    cpu: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, run in variants.items():
            before = time.perf_counter(), cpu_seconds()
            run()
            wall[name].append(time.perf_counter() - before[0])
            cpu[name].append(cpu_seconds() - before[1])
    for name in variants:
        write(benchmark, case, name, statistics.median(wall[name]), statistics.median(cpu[name]), items, unit, rounds)


def write(
    benchmark: str,
    case: str,
    variant: str,
    wall: float,
    cpu: float,
    items: int,
    unit: str,
    rounds: int,
    extra: str = "",
) -> None:
    """Print a row and append it to results.csv."""
    versions = f"torch {torch.__version__}, numpy {numpy.__version__}" + (f", {extra}" if extra else "")
    row = (
        datetime.date.today().isoformat(), benchmark, case, variant, f"{wall:.4g}", f"{cpu:.4g}", items,
        f"{items / wall:.4g}", unit, torch.get_num_threads(), rounds, _machine(), versions,
    )  # fmt: skip
    print(f"{benchmark:12s} {case:34s} {variant:34s} {items / wall:12,.0f} {unit}/s  ({wall:.3f} s, cpu {cpu:.3f} s)")
    new = not RESULTS.exists()
    with RESULTS.open("a", newline="") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow(FIELDS)
        writer.writerow(row)


def cpu_seconds() -> float:
    """CPU seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])


def _machine() -> str:
    if torch.cuda.is_initialized():
        return torch.cuda.get_device_name()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()
