"""Pairs a second: exact thresholds over all pairs of a set, and the k best of a gallery, against what is used instead.

One thread. Every variant is timed on as many pairs as suit it and the rates are compared: the scan of all pairs of
100,000 rows, the roofs on some hundred tiles of the same products, FAISS on a thousand probes against all rows, and
what holds every score on some thousand rows. Peers that are not installed are said to be missing.

`python benchmarks/all_pairs.py [--rows N] [--dim D] [--rounds R] [--only PART ...] [--device D]`
"""

import argparse
import importlib.util
import os
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from harness import cpu_seconds, write
from sklearn.metrics import roc_curve

from verisphere.base.device import keep_memory
from verisphere.base.vocabulary import Precision
from verisphere.score import AllPairs, Group, pair_scores, top_k, unit_rows

DEEP = ("1e-3", "1e-4", "1e-5", "1e-6", "1e-7", "1e-8")
FARS = ("1e-1", "1e-2", *DEEP)
IMAGES = 5  # of a person
Run = Callable[[], object]


def made_up(rows: int, dim: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Unit rows of people with five images each whose impostor scores spread around 0.1, and the people."""
    random = np.random.default_rng(seed)
    people = np.arange(rows) // IMAGES
    centers = random.normal(size=(rows // IMAGES + 1, dim)).astype(np.float32)
    some = centers[people] + 0.8 * random.normal(size=(rows, dim)).astype(np.float32)
    some += 0.35 * random.normal(size=dim).astype(np.float32)
    return unit_rows(some), torch.from_numpy(people)


def scan(
    units: torch.Tensor, people: torch.Tensor, fars: tuple[str, ...], precision: Precision | None = None
) -> list[float]:
    """Exact thresholds at these FARs, with nothing known beforehand."""
    pairs = AllPairs(units, people, precision=precision)
    impostor = pairs.scores([Group(0, False)])
    ranks = [int(float(far) * impostor.total) + 1 for far in fars]
    pairs.settle([(impostor, rank) for rank in ranks])
    return [impostor.ranked(rank) for rank in ranks]


def products(units: torch.Tensor, dtype: torch.dtype, tiles: int, side: int = 1024) -> Run:
    """Nothing but products, in tiles as the scan makes them."""
    rows = units.to(dtype)
    starts = np.random.default_rng(0).integers(0, max(len(rows) - side, 1), (tiles, 2)).tolist()
    out = torch.empty(side, side, dtype=dtype, device=units.device)

    def run() -> None:
        for a, b in starts:
            torch.mm(rows[a : a + side], rows[b : b + side].T, out=out)
        if units.device.type == "cuda":
            torch.cuda.synchronize()

    return run


def gathered(units: np.ndarray, people: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every pair's two rows gathered and multiplied: scores, and whether they are genuine."""
    left, right = np.triu_indices(len(units), 1)
    parts = range(0, len(left), 65536)
    score = np.concatenate([(units[left[i : i + 65536]] * units[right[i : i + 65536]]).sum(1) for i in parts])
    return score, people[left] == people[right]


def by_roc_curve(units: np.ndarray, people: np.ndarray) -> list[float]:
    score, same = gathered(units, people)
    far, _, thresholds = roc_curve(same, score, drop_intermediate=False)
    return [float(thresholds[np.searchsorted(far, float(target), side="right") - 1]) for target in FARS]


def by_torchmetrics(units: np.ndarray, people: np.ndarray) -> object:
    from torchmetrics.functional.classification import binary_roc

    score, same = gathered(units, people)
    return binary_roc(torch.from_numpy(score).clamp(0, 1), torch.from_numpy(same.astype(np.int64)))


def compare(case: str, variants: dict[str, tuple[Run, int]], rounds: int, roof: str) -> None:
    """Run variants in turn, each on as many pairs as it says; write a row for each, with its share of the roof."""
    wall: dict[str, list[float]] = {name: [] for name in variants}
    cpu: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(rounds + 1):
        for name, (run, pairs) in variants.items():
            if not turn and pairs > 1e9:
                continue  # a warm-up of the long ones is their own first seconds
            clocks = time.perf_counter(), cpu_seconds()
            run()
            if turn:
                wall[name].append(time.perf_counter() - clocks[0])
                cpu[name].append(cpu_seconds() - clocks[1])
    rates = {name: pairs / statistics.median(cpu[name]) for name, (_, pairs) in variants.items()}
    for name, (_, pairs) in variants.items():
        against = ", ".join(
            f"{rates[name] / rates[other]:.2f} x {other}" for other in (roof, "FAISS flat, k=1") if other in rates
        )
        seconds = statistics.median(wall[name]), statistics.median(cpu[name])
        write("all_pairs", case, name, *seconds, pairs, "pairs", rounds, f"by CPU time {against}")
        print(f"{'':12s} {rates[name] / 1e6:.1f} M pairs a CPU second; {against}", flush=True)


def scans(rows: int, dim: int, rounds: int) -> None:
    """Exact thresholds over all pairs."""
    units, people = made_up(rows, dim)
    pairs, part = rows * (rows - 1) // 2, min(rows, 2500)
    few, whose = units[:part].numpy(), people[:part].numpy()
    tiles = 256 * 2**20
    variants: dict[str, tuple[Run, int]] = {
        "roof: bf16 products": (products(units, torch.bfloat16, 256), tiles),
        "roof: fp32 products": (products(units, torch.float32, 128), tiles // 2),
        "verisphere, FAR 1e-4": (lambda: scan(units, people, ("1e-4",)), pairs),
        "verisphere, FAR 1e-3 ... 1e-8": (lambda: scan(units, people, DEEP), pairs),
        "verisphere, FAR 1e-1 ... 1e-8": (lambda: scan(units, people, FARS), pairs),
        "numpy gather, scikit-learn roc_curve": (lambda: by_roc_curve(few, whose), part * (part - 1) // 2),
        "numpy gather, torchmetrics roc": (lambda: by_torchmetrics(few, whose), part * (part - 1) // 2),
        **faiss_flat(units, 1),
    }
    compare(f"thresholds, {rows:,} rows, d={dim}", variants, rounds, "roof: bf16 products")
    left, right = torch.triu_indices(part, part, 1)
    exact = pair_scores(units[:part], left, right)[people[left] != people[right]].sort(descending=True).values
    expected = [float(exact[int(float(far) * len(exact))]) for far in FARS]
    assert scan(units[:part], people[:part], FARS, precision="bfloat16") == expected
    assert scan(units[:part], people[:part], FARS, precision="float32") == expected


def scans_on_a_gpu(rows: int, dim: int, rounds: int) -> None:
    """Exact thresholds over all pairs by a GPU, by wall clock; on few rows they equal those of a CPU."""
    units, people = made_up(rows, dim)
    few, whose = units[:5000], people[:5000]
    assert np.allclose(scan(few.cuda(), whose, FARS), scan(few, whose, FARS), rtol=0, atol=1e-15)
    there, side, tiles = units.cuda(), 8192, 64
    variants: dict[str, tuple[Run, int]] = {
        "roof: bf16 products": (products(there, torch.bfloat16, tiles, side), tiles * side * side),
        "verisphere, FAR 1e-4": (lambda: scan(there, people, ("1e-4",)), rows * (rows - 1) // 2),
        "verisphere, FAR 1e-1 ... 1e-8": (lambda: scan(there, people, FARS), rows * (rows - 1) // 2),
    }
    for name, (run, pairs) in variants.items():
        seconds = [timed(run) for _ in range(rounds + 1)][1:]
        wall, cpu = (statistics.median(one) for one in zip(*seconds, strict=True))
        write("all_pairs", f"thresholds, {rows:,} rows, d={dim}, cuda", name, wall, cpu, pairs, "pairs", rounds)


def timed(run: Run) -> tuple[float, float]:
    clocks = time.perf_counter(), cpu_seconds()
    run()
    return time.perf_counter() - clocks[0], cpu_seconds() - clocks[1]


def best_rows(rows: int, dim: int, rounds: int) -> None:
    """The k best of a gallery."""
    units, _ = made_up(rows, dim)
    probes = made_up(4000, dim, seed=1)[0]
    for k in (1, 10, 100):
        variants: dict[str, tuple[Run, int]] = {
            "roof: bf16 products": (products(units, torch.bfloat16, 128), 128 * 2**20),
            "verisphere top-k": (partial(top_k, probes, units, k), len(probes) * rows),
            **faiss_flat(units, k),
        }
        compare(f"k={k} of {rows:,} rows, d={dim}", variants, rounds, "roof: bf16 products")


def faiss_flat(units: torch.Tensor, k: int) -> dict[str, tuple[Run, int]]:
    """FAISS's exact search, where it is installed."""
    if importlib.util.find_spec("faiss") is None:
        print("faiss-cpu is not installed: its rows are left out")
        return {}
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatIP(units.shape[1])
    index.add(units.numpy())
    probes = units[:1000].numpy()
    return {f"FAISS flat, k={k}": (lambda: index.search(probes, k), len(probes) * len(units))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", nargs="*", choices=["thresholds", "top-k"], default=["thresholds", "top-k"])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="cuda: thresholds alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    keep_memory()
    if options.device == "cuda":
        scans_on_a_gpu(options.rows, options.dim, options.rounds)
        return
    if "thresholds" in options.only:
        scans(options.rows, options.dim, options.rounds)
    if "top-k" in options.only:
        for rows in (options.rows, 10 * options.rows):
            best_rows(rows, options.dim, options.rounds)


if __name__ == "__main__":
    main()
