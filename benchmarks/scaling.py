"""How a head scales over processes: the step at a shard's size, measured here, and the exchanges, by their bytes.

time(P) = compute(N / P) + the bytes that a process sends / bandwidth + exchanges x latency. compute is measured on one
process with the classes of one of P shards and the whole batch, which is what a sharded process computes; the bytes are
the dry run's, which a test counts. Nothing overlaps in this model, and the backbone is left out, as in SphereFace2's
figure 10 (Wen et al. 2022, arXiv:2108.01513).

`python benchmarks/scaling.py [--classes N] [--batch B] [--rounds R]`; on CUDA, where there is one, a million classes.
"""

import argparse
import gc
import statistics
import time

import torch
from harness import write

from verisphere import losses
from verisphere.base.device import keep_memory
from verisphere.head import Head, HeadSGD, Streamed
from verisphere.report.tables import table
from verisphere.train.dry_run.training_cost import Collective, head_collectives
from verisphere.train.recipe import read_recipe

SIZE = 512
SHARDS = (1, 2, 4, 8)
LOSSES = ("SphereFace2", "ArcFace", "CurricularFace")
#: Bytes a second that a process sends, and seconds that an exchange takes however small it is: assumed, not measured.
LINKS = {"10 Gbit/s": (1.25e9, 50e-6), "100 Gbit/s": (12.5e9, 20e-6), "NVLink, 450 GB/s": (4.5e11, 10e-6)}
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def seconds(loss: str, classes: int, batch: int, rounds: int) -> tuple[float, float]:
    """Of a whole step of a head with so many classes, momentum update included, by wall and by CPU clock."""
    torch.manual_seed(0)
    head = Head(getattr(losses, loss)(), classes, SIZE, engine=Streamed("bfloat16")).to(DEVICE)
    optimizer = HeadSGD(head.parameters(), head, lr=0.1, momentum=0.9, weight_decay=5e-4)
    embeddings = (5 * torch.randn(batch, SIZE, device=DEVICE)).requires_grad_()
    labels = torch.randint(0, classes, (batch,), device=DEVICE)
    wall, cpu = [], []
    for _ in range(rounds + 2):  # the first two compile and find room
        before = time.perf_counter(), time.process_time()
        embeddings.grad = None
        optimizer.zero_grad()
        head(embeddings, labels).loss.backward()
        optimizer.step()
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()
        wall.append(time.perf_counter() - before[0])
        cpu.append(time.process_time() - before[1])
    return statistics.median(wall[2:]), statistics.median(cpu[2:])


def exchanges(loss: str, batch: int, processes: int) -> tuple[Collective, ...]:
    """Those of a head with this loss."""
    asked = ["--data", "verisphere.images.SyntheticFaces", "--data.people", "2", "--batch_size", str(batch)]
    asked += ["--backbone", "verisphere.backbones.MobileFaceNet", "--backbone.width", "0.1"]
    recipe = read_recipe(None, [*asked, "--loss", f"verisphere.losses.{loss}"]).recipe
    return tuple(head_collectives(recipe, processes))


def main() -> None:
    cuda = DEVICE.type == "cuda"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", type=int, default=1_000_000 if cuda else 300_000)
    parser.add_argument("--batch", type=int, default=1024 if cuda else 128)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_memory()
    rows = []
    for processes in SHARDS:
        for loss in LOSSES:
            held = -(-options.classes // processes)
            wall, cpu = seconds(loss, held, options.batch, options.rounds)
            gc.collect()
            told = exchanges(loss, options.batch, processes) if processes > 1 else ()
            sent = sum(one.sent(processes) for one in told)
            times = sum(one.times for one in told)
            notes = f"{times} exchanges, {sent} bytes sent in a ring"
            case = f"B={options.batch}, N={options.classes:,} / {processes}, d={SIZE}"
            write("scaling", case, loss, wall, cpu, held, "classes", options.rounds, notes)
            busy = wall if cuda else cpu
            steps = [busy + sent / bandwidth + times * latency for bandwidth, latency in LINKS.values()]
            rows.append((loss, processes, busy, times, sent, steps))
    alone = {loss: busy for loss, processes, busy, *_ in rows if processes == 1}
    print("\ntime in ms, and in brackets the speed relative to one process\n")
    header = ["loss", "P", "compute", "exchanges", "bytes sent", *LINKS]
    lines = [
        [loss, str(processes), f"{1e3 * busy:.0f}", str(times), f"{sent:,}"]
        + [f"{1e3 * step:.1f} ({alone[loss] / step:.2f})" for step in steps]
        for loss, processes, busy, times, sent, steps in sorted(rows, key=lambda row: (LOSSES.index(row[0]), row[1]))
    ]
    print(table(header, lines))


if __name__ == "__main__":
    main()
