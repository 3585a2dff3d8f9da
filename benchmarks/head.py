"""One whole step of a class-center head, momentum update included: ours, its peers, and its matrix products alone.

Every measurement is a process of its own, since memory is counted and compiled code must not be shared; the processes
take turns, so that a busy machine is busy for all of them. Memory is the peak of the resident set over the timed steps,
less what it was before the head was built. The roofs are measured in the same run: three or four bfloat16 products of
every row and center, which no exact step can do without.

The sparse engine and the streamed one under the same loss take other rows in each step, as a training does: centers
that few rows have reached and that momentum still moves are a part of the sparse engine's work. "Trained" rows have a
cosine of 0.7 to their own center, the others point anywhere.

`python benchmarks/head.py [--classes N ...] [--batch B] [--rounds R] [--steps S] [--only NAME ...]
[--allocator default] [--device cuda]`. On CUDA, which is the default where there is one: a million and ten million
classes at a batch of 1024. `--only "sparse *" "roof: one*"` takes all settings of the sparse engine. glibc keeps freed
memory for everyone, which takes page faults out of the comparison; `--allocator default` leaves glibc as whoever does
not know of it has it.
"""

import argparse
import ctypes
import fnmatch
import gc
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from harness import write
from torch import Tensor, nn

SIZE = 512
LIMIT = 60.0  # seconds that a step may take
WARM = 4  # steps that are not counted: glibc has found room for everything by then
SETTINGS = {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4}
Step = Callable[[], object]
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def rows(batch: int, classes: int) -> tuple[Tensor, Tensor]:
    """Embeddings as a backbone would give them, and labels."""
    torch.manual_seed(0)
    embeddings = (5 * torch.randn(batch, SIZE)).to(DEVICE).requires_grad_()
    return embeddings, torch.randint(0, classes, (batch,)).to(DEVICE)


def stepping(
    loss: Callable[[Tensor, Tensor], Tensor], optimizer: torch.optim.Optimizer, batch: int, classes: int
) -> Step:
    """Forward, backward and update, as a training makes them."""
    embeddings, labels = rows(batch, classes)

    def step() -> None:
        embeddings.grad = None
        optimizer.zero_grad()
        loss(embeddings, labels).backward()
        optimizer.step()

    return step


def q_margin(engine: str, alpha: float = 1.5, scale: float = 64.0, trained: bool = False, screen: str = "auto"):
    """A head of ours with the loss of an alpha-divergence, and other rows in each step."""

    def build(batch: int, classes: int) -> Step:
        from verisphere.head import Dense, Head, HeadSGD, Sparse, Streamed
        from verisphere.losses import QMargin

        how = {"sparse": Sparse(screen=screen), "streamed": Streamed(), "dense": Dense()}[engine]
        torch.manual_seed(0)
        head = Head(QMargin(alpha, scale=scale), classes, SIZE, engine=how).to(DEVICE)
        optimizer = HeadSGD(head.parameters(), head, **SETTINGS)

        def step() -> None:
            labels = torch.randint(0, classes, (batch,), device=DEVICE)
            embeddings = F.normalize(torch.randn(batch, SIZE, device=DEVICE))
            if trained:
                own = F.normalize(head.stored.detach()[labels, 0])
                across = F.normalize(embeddings - (embeddings * own).sum(1, keepdim=True) * own)
                embeddings = 0.7 * own + math.sqrt(1 - 0.7**2) * across
            optimizer.zero_grad()
            head(embeddings.requires_grad_(), labels).loss.backward()
            optimizer.step()

        step.engine = head.engine  # type: ignore[attr-defined]
        return step

    return build


def ours(
    name: str,
    engine: str,
    precision: str = "float32",
    keep: bool = True,
    fused: bool = False,
    k: int = 1,
    rate: float = 1.0,
):
    """A head of ours, by loss, engine, share of the classes, and way out."""

    def build(batch: int, classes: int) -> Step:
        from verisphere import losses
        from verisphere.head import Dense, Head, HeadSGD, Sampled, Streamed, SubCenters

        how = Dense() if engine == "dense" else Streamed(precision, keep_bytes=2**62 if keep else 0)
        how = how if rate == 1.0 else Sampled(rate, how)
        head = Head(getattr(losses, name)(), classes, SIZE, centers=SubCenters(k), engine=how).to(DEVICE)
        make = (lambda every: HeadSGD(every, head, **SETTINGS)) if fused else (
            lambda every: torch.optim.SGD(every, **SETTINGS))  # fmt: skip
        return stepping(lambda x, y: head(x, y).loss, make(head.parameters()), batch, classes)

    return build


def metric_learning(name: str):
    """A loss of pytorch-metric-learning, with its own defaults for everything but scale and margin."""

    def build(batch: int, classes: int) -> Step:
        from pytorch_metric_learning import losses

        margin = 0.35 if name == "CosFaceLoss" else math.degrees(0.5)
        loss = getattr(losses, name)(num_classes=classes, embedding_size=SIZE, margin=margin, scale=64).to(DEVICE)
        return stepping(loss, torch.optim.SGD(loss.parameters(), **SETTINGS), batch, classes)

    return build


def plain(bfloat16: bool):
    """ArcFace as one writes it down: every logit at once and cross entropy, the products under autocast or not."""

    def build(batch: int, classes: int) -> Step:
        centers = nn.Parameter(torch.randn(classes, SIZE, device=DEVICE) * 0.01)

        def loss(embeddings: Tensor, labels: Tensor) -> Tensor:
            with torch.autocast(DEVICE.type, torch.bfloat16, enabled=bfloat16):
                cosine = F.linear(F.normalize(embeddings), F.normalize(centers))
            every = torch.arange(len(labels), device=DEVICE)
            own = cosine[every, labels].float().clamp(-1 + 1e-6, 1 - 1e-6)
            logits = cosine.index_put((every, labels), (own.acos() + 0.5).cos().to(cosine.dtype)) * 64
            return F.cross_entropy(logits.float(), labels)

        return stepping(loss, torch.optim.SGD([centers], **SETTINGS), batch, classes)

    return build


def linear_cross_entropy(chunked: bool):
    """torch's fused head, without a margin, which it does not know: a softmax over scaled cosines, in bfloat16."""

    def build(batch: int, classes: int) -> Step:
        centers = nn.Parameter(torch.randn(classes, SIZE, device=DEVICE) * 0.01)
        options = {"options": nn.LinearCrossEntropyOptions()} if chunked else {}

        def loss(embeddings: Tensor, labels: Tensor) -> Tensor:
            query, unit = 64 * F.normalize(embeddings), F.normalize(centers)
            return F.linear_cross_entropy(query.bfloat16(), unit.bfloat16(), labels, **options)

        return stepping(loss, torch.optim.SGD([centers], **SETTINGS), batch, classes)

    return build


def products(count: int):
    """Nothing but the products of a step, in chunks as our engine makes them."""

    def build(batch: int, classes: int) -> Step:
        centers = (torch.randn(classes, SIZE, device=DEVICE) * 0.01).bfloat16()
        query = torch.randn(batch, SIZE, device=DEVICE).bfloat16()
        chunk = 2**20 // batch if DEVICE.type == "cpu" else 2**27 // batch  # larger than what a launch takes
        weights = torch.randn(batch, chunk, device=DEVICE).bfloat16()

        def step() -> None:
            for again in range(count - 2):  # the first and the last are made `count - 2` times together
                for first in range(0, classes, chunk):
                    some = centers[first : first + chunk]
                    part = weights[:, : len(some)]
                    query @ some.T
                    if not again:
                        part @ some
                        part.T @ query

        return step

    return build


def one_product(dtype: torch.dtype):
    """One product of all rows and centers, as a screen makes it."""

    def build(batch: int, classes: int) -> Step:
        def drawn(count: int) -> Tensor:
            numbers = torch.randn(count, SIZE, device=DEVICE)
            return (numbers * 30).clamp(-127, 127).to(dtype) if dtype == torch.int8 else numbers.to(dtype)

        query, centers = drawn(batch), torch.cat([drawn(2**16) for _ in range(-(-classes // 2**16))])[:classes]
        chunk = 2**20 // batch if DEVICE.type == "cpu" else 2**27 // batch
        multiply = torch._int_mm if dtype == torch.int8 else torch.mm
        room = torch.empty(batch, chunk, dtype=torch.int32 if dtype == torch.int8 else dtype, device=DEVICE)

        def step() -> None:
            for first in range(0, classes, chunk):
                some = centers[first : first + chunk]
                out = room if len(some) == chunk else room.new_empty(batch, len(some))
                multiply(query, some.T, out=out)

        return step

    return build


def copies(batch: int, classes: int) -> Step:
    """Reading and writing centers and momentum once: the roof of memory."""
    centers, momentum = (torch.zeros(classes, SIZE, device=DEVICE) for _ in range(2))

    def step() -> None:
        centers.mul_(0.5)
        momentum.mul_(0.5)

    return step


VARIANTS: dict[str, Callable[[int, int], Step]] = {
    "roof: 3 bf16 products": products(3),
    "roof: 4 bf16 products": products(4),
    "roof: centers and momentum": copies,
    "roof: one int8 product": one_product(torch.int8),
    "roof: one bf16 product": one_product(torch.bfloat16),
    "roof: one fp32 product": one_product(torch.float32),
    "sparse a=1.5 s=64, fused update": q_margin("sparse"),
    "sparse a=1.5 s=64, trained, fused update": q_margin("sparse", trained=True),
    "streamed a=1.5 s=64, fused update": q_margin("streamed"),
    "streamed bf16, exp kept, fused update": ours("ArcFace", "streamed", "bfloat16", fused=True),
    "streamed bf16, recomputed, fused update": ours("ArcFace", "streamed", "bfloat16", keep=False, fused=True),
    "streamed bf16, exp kept, gradient": ours("ArcFace", "streamed", "bfloat16"),
    "SphereFace2 bf16, one pass, gradient": ours("SphereFace2", "streamed", "bfloat16"),
    "SphereFace2 bf16, kept, fused update": ours("SphereFace2", "streamed", "bfloat16", fused=True),
    "CurricularFace bf16, kept, fused update": ours("CurricularFace", "streamed", "bfloat16", fused=True),
    "sampled 0.1 bf16, kept, fused update": ours("ArcFace", "streamed", "bfloat16", fused=True, rate=0.1),
    "sampled 0.1 SphereFace2 bf16, kept, fused update": ours(
        "SphereFace2", "streamed", "bfloat16", fused=True, rate=0.1
    ),
    "streamed fp32, fused update": ours("ArcFace", "streamed", fused=True),
    "dense fp32": ours("ArcFace", "dense"),
    "plain cross entropy fp32": plain(False),
    "plain cross entropy bf16 autocast": plain(True),
    "torch linear_cross_entropy bf16": linear_cross_entropy(False),
    "torch linear_cross_entropy bf16, chunked": linear_cross_entropy(True),
    "pytorch-metric-learning ArcFace": metric_learning("ArcFaceLoss"),
    "pytorch-metric-learning CosFace": metric_learning("CosFaceLoss"),
    "sub-centers K=3, bf16, kept, fused update": ours("ArcFace", "streamed", "bfloat16", fused=True, k=3),
    "pytorch-metric-learning SubCenter K=3": metric_learning("SubCenterArcFaceLoss"),
}


#: Settings of the sparse engine, and the streamed and the dense one beside it, measured where `--only` names them.
GRID = {
    f"{engine} a={alpha} s={scale}{', trained' * trained}": q_margin(engine, alpha, scale, trained)
    for engine in ("sparse", "streamed", "dense")
    for alpha in (1.25, 1.5, 1.75, 2.0)
    for scale in (16, 32, 64)
    for trained in (False, True)
} | {f"sparse a=1.5 s=64, {screen}": q_margin("sparse", screen=screen) for screen in ("int8", "bfloat16", "float32")}


def measure(name: str, batch: int, classes: int, steps: int, keep: bool) -> dict[str, object]:
    """In a fresh process: seconds of a step, and bytes at the peak."""
    if keep:
        keep_everything()
    try:
        step = (VARIANTS | GRID)[name](batch, classes)
        started = time.perf_counter()
        step()  # compiles, and allocates what stays
        wait()
        if time.perf_counter() - started > 2 * LIMIT:
            return {"failed": f"did not finish in {LIMIT:.0f} s"}
        step()
        del step
        before = reset_peak()
        step = (VARIANTS | GRID)[name](batch, classes)
        wall, cpu = [], []
        for _ in range(steps + WARM):
            clocks = time.perf_counter(), time.process_time()
            step()
            wait()
            wall.append(time.perf_counter() - clocks[0])
            cpu.append(time.process_time() - clocks[1])
            if wall[-1] > LIMIT:
                return {"failed": f"did not finish in {LIMIT:.0f} s"}
    except ModuleNotFoundError as error:
        return {"failed": f"{error.name} is not installed"}
    except (MemoryError, RuntimeError) as error:
        return {"failed": str(error).splitlines()[0]}
    engine = getattr(step, "engine", None)
    streamed = getattr(engine, "streamed_steps", 0)
    return {"wall": wall[WARM:], "cpu": cpu[WARM:], "memory": peak() - before, "streamed": streamed}


def keep_everything() -> None:
    """Have glibc keep all freed memory, of any size: page faults, which cost some peers as much as their work."""
    libc = ctypes.CDLL(None)
    trim_threshold, mmap_max = -1, -4
    libc.mallopt(trim_threshold, -1)
    libc.mallopt(mmap_max, 0)


def wait() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def reset_peak() -> int:
    """Give freed memory back and start counting anew; bytes held now."""
    gc.collect()
    if DEVICE.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


def peak() -> int:
    """Bytes at the peak since it was reset."""
    if DEVICE.type == "cuda":
        return torch.cuda.max_memory_allocated()
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def compare(names: list[str], batch: int, classes: int, rounds: int, allocator: str, steps: int) -> None:
    """Measure the variants in turn, print and write a row for each."""
    found: dict[str, list[dict]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            if any("failed" in one for one in found[name]):
                continue
            command = [sys.executable, __file__, "--child", name, "--classes", str(classes), "--batch", str(batch)]
            command += ["--allocator", allocator, "--device", DEVICE.type, "--steps", str(steps)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=6 * LIMIT)
                lines = done.stdout.splitlines()
                said = (done.stderr.splitlines() or ["nothing said; out of memory, perhaps"])[-1]
                killed = f"ended with {done.returncode}: {said}"
                found[name].append(json.loads(lines[-1]) if lines and not done.returncode else {"failed": killed})
            except subprocess.TimeoutExpired:
                found[name].append({"failed": f"did not finish in {LIMIT:.0f} s a step"})
    case = f"B={batch}, N={classes:,}, d={SIZE}" + (", glibc's own allocator" if allocator == "default" else "")
    roofs: dict[int, float] = {}
    fastest: list[float] = []
    for name in names:
        failed = next((one["failed"] for one in found[name] if "failed" in one), None)
        if failed is not None:
            print(f"{'':12s} {failed}:", flush=True)
            write("head", case, name, math.inf, math.inf, classes, "classes", rounds, failed)
            continue
        wall, cpu = (statistics.median(one for each in found[name] for one in each[key]) for key in ("wall", "cpu"))
        notes = f"peak {statistics.median(one['memory'] for one in found[name]) / 1e6:.0f} MB"
        streamed = sum(one["streamed"] for one in found[name])
        notes += f"; {streamed} steps were streamed" if streamed else ""
        if name.startswith("roof: one"):
            fastest.append(cpu if DEVICE.type == "cpu" else wall)
        elif name.startswith("sparse") and fastest:
            notes += f"; {(cpu if DEVICE.type == 'cpu' else wall) / min(fastest):.2f} x the fastest single product"
        if name.startswith("roof") and "products" in name:
            roofs[int(name.split()[1])] = cpu if DEVICE.type == "cpu" else wall
        elif 3 in roofs and not any(word in name for word in ("K=3", "roof", "sampled", "a=")):
            count = 4 if "recomputed" in name or "streamed fp32" in name else 3
            share = roofs[count] / (cpu if DEVICE.type == "cpu" else wall)
            notes += f"; {count} bf16 products alone take {share:.0%} of its time"
        write("head", case, name, wall, cpu, classes, "classes", rounds, notes)
        print(f"{'':12s} {notes}", flush=True)


def main() -> None:
    global DEVICE
    torch.set_num_threads(1)  # a share of the products' time means little where threads share them unevenly
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default=DEVICE.type)
    parser.add_argument("--classes", type=int, nargs="*", help="numbers of classes")
    parser.add_argument("--batch", type=int, help="rows: 128, on CUDA 1024")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3, help=f"steps that are timed, after {WARM} others")
    parser.add_argument("--only", nargs="*", default=list(VARIANTS), help="variants, by name; * stands for any text")
    parser.add_argument("--allocator", choices=["keep", "default"], default="keep", help="what glibc does (see above)")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    DEVICE = torch.device(options.device)
    cuda = options.device == "cuda"
    options.batch = options.batch or (1024 if cuda else 128)
    options.classes = options.classes or ([10**6, 10**7] if cuda else [10_000, 100_000, 300_000])
    every = [*VARIANTS, *GRID]
    options.only = [name for name in every if any(fnmatch.fnmatch(name, wanted) for wanted in options.only)]
    if options.child is not None:
        print(
            json.dumps(
                measure(options.child, options.batch, options.classes[0], options.steps, options.allocator == "keep")
            )
        )
        return
    if cuda:
        torch.cuda.init()  # so that the rows name the card
    else:
        print("no CUDA device: a million classes and more are left out")
    for classes in options.classes:
        compare(options.only, options.batch, classes, options.rounds, options.allocator, options.steps)


if __name__ == "__main__":
    main()
