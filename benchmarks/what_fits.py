"""The table of docs/machines.md: the most classes that fit, by network, engine, processes and memory.

`python benchmarks/what_fits.py [--local-batch B]`: bfloat16 backbone and head products, momentum, B images a process.
All figures are the dry run's. No GPU is needed; what a GPU's allocator loses is an assumption
(`verisphere.train.dry_run.training_cost.ALLOCATOR`).
"""

import argparse
from dataclasses import replace

from verisphere.report.tables import table
from verisphere.train.dry_run.training_cost import Measurements, training_cost
from verisphere.train.recipe import Recipe, read_recipe

#: GB as they are sold; a tenth is left to others.
MEMORIES = {24: "cuda", 40: "cuda", 80: "cuda", 141: "cuda", 32: "cpu", 256: "cpu"}
USABLE = 0.9
ENGINES = ("dense", "streamed", "sampled")
PROCESSES = (1, 8)
MOST = 10**9


def recipe(depth: int, engine: str, batch: int) -> Recipe:
    asked = ["--data", "verisphere.images.SyntheticFaces", "--data.people", "2", "--loss", "verisphere.losses.ArcFace"]
    asked += ["--backbone", "verisphere.backbones.IResNet", "--backbone.depth", str(depth), "--precision", "bfloat16"]
    asked += ["--engine", engine, "--batch_size", str(batch)]
    return read_recipe(None, asked + ["--head_precision", "bfloat16"] * (engine != "dense")).recipe


def most_classes(asked: Recipe, processes: int, memory: int, device: str, measured: Measurements) -> int:
    """By bisection; 0 where not even few fit."""

    def fits(classes: int) -> bool:
        # the changes that would help are not asked for: a dry run without a limit, compared here
        return training_cost(asked, classes, processes, device=device, measurements=measured).total <= memory

    low, high = processes, MOST
    if not fits(low):
        return 0
    while high - low > low // 200 + 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def short(classes: int) -> str:
    """Two digits: 1.2 M, 350 k."""
    if classes >= 10**6:
        return f"{classes / 1e6:.2g} M" if classes < 10**8 else f"{round(classes / 1e6, -1):.0f} M"
    return f"{classes / 1e3:.2g} k" if classes < 10**5 else f"{round(classes / 1e3, -1):.0f} k"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--local-batch", type=int, default=64)
    options = parser.parse_args()
    lines = []
    for depth in (50, 100):
        measured, base = Measurements(), recipe(depth, "dense", options.local_batch)
        for engine in ENGINES:
            precision = "float32" if engine == "dense" else "bfloat16"
            for processes in PROCESSES:
                asked = replace(
                    base, engine=engine, head_precision=precision, batch_size=options.local_batch * processes
                )
                most = [
                    most_classes(asked, processes, int(gigabytes * 1e9 * USABLE), device, measured)
                    for gigabytes, device in MEMORIES.items()
                ]
                lines.append([f"R{depth}, {engine}", str(processes), *(short(one) if one else "-" for one in most)])
    names = [f"{'GPU' if device == 'cuda' else 'CPU'} {gigabytes} GB" for gigabytes, device in MEMORIES.items()]
    print(table(["network, engine", "processes", *names], lines))


if __name__ == "__main__":
    main()
