"""A whole training step, backbone, head and update: images a second, and its share of the roof that products set.

Ours is channels_last, bfloat16 by autocast, the streamed head in bfloat16 and its fused update. Plain PyTorch is the
same network as one writes it down: contiguous, float32, eager, every logit at once, cross entropy, torch.optim.SGD;
and, once more, as one tunes it: channels_last, bfloat16 by autocast. glibc is told to keep freed memory for all alike,
except where a variant is called "default allocator". Variants between say what each setting is worth; "backbone alone"
is forward and backward without a head, "embed" a forward alone. Each measurement is a process of its own (an allocator
belongs to a process, compiled code must not be shared); variants take turns, in which each times square products of
bfloat16 and of float32 before its steps: the roof.

FLOP are counted on the forward by PyTorch's counter, times three (a backward makes two products for each); the head's
three products are added. Its counter takes depthwise filters for full ones in the backward, so that is not asked. On
2026 CPUs a share above one is possible in float32: oneDNN has convolutions with fewer products than they stand for.

`python benchmarks/train_step.py [--case NAME ...] [--only VARIANT ...] [--batch B] [--rounds R] [--steps S]
[--compiled] [--profile]`. `--only` takes names and patterns: "backbone alone*" is the table of docs/lab/speed.md, "*"
is everything. Without --compiled, patterns leave out what is compiled, which takes minutes on a CPU. On CUDA, where
there is one, the batches are larger, R100 is measured too, and patterns take all.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import torch
import torch.nn.functional as F
from harness import write
from torch import Tensor, nn

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CUDA = DEVICE.type == "cuda"
CLASSES, SIZE = 10_000, 512
SETTINGS = {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4}
ROOF_SIDE = 8192 if CUDA else 2048


@dataclass(frozen=True)
class Case:
    """A network, and images a step on a CPU and on a GPU."""

    network: str
    arguments: dict[str, object]
    cpu: int
    cuda: int

    @property
    def batch(self) -> int:
        return self.cuda if CUDA else self.cpu


@dataclass(frozen=True)
class Variant:
    """How a step is made. `head`: streamed (ours, in bfloat16), plain, or none; `only_forward`: embedding."""

    channels_last: bool = True
    bfloat16: bool = True
    keep: bool = True
    head: str = "streamed"
    compile: bool = False
    fused_optimizer: bool = False
    only_forward: bool = False


CASES = {
    "MobileFaceNet 0.5 relu": Case("MobileFaceNet", {"width": 0.5, "activation": "relu"}, 32, 512),
    "MobileFaceNet": Case("MobileFaceNet", {}, 32, 512),
    "R18": Case("IResNet", {"depth": 18}, 16, 512),
    "R50": Case("IResNet", {"depth": 50}, 16, 256),
    **({"R100": Case("IResNet", {"depth": 100}, 16, 128)} if CUDA else {}),
}
#: Those that need half a minute or more to compile, on a CPU.
COMPILED = {
    "ours, compiled": Variant(compile=True),
    "ours in float32, compiled": Variant(bfloat16=False, compile=True),
    "backbone alone, compiled": Variant(head="none", compile=True),
    "backbone alone in float32, compiled": Variant(bfloat16=False, head="none", compile=True),
}
#: What is measured where nothing else is asked for.
MAIN = {
    "verisphere": Variant(),
    "plain PyTorch": Variant(channels_last=False, bfloat16=False, head="plain"),
    "plain PyTorch, bfloat16, channels_last": Variant(head="plain"),
    "backbone alone": Variant(head="none"),
    "embed": Variant(only_forward=True),
}
VARIANTS = {
    **MAIN,
    "plain PyTorch, default allocator": Variant(channels_last=False, bfloat16=False, keep=False, head="plain"),
    "backbone alone in float32": Variant(bfloat16=False, head="none"),
    "backbone alone, contiguous": Variant(channels_last=False, head="none"),
    "backbone alone in float32, contiguous": Variant(channels_last=False, bfloat16=False, head="none"),
    "ours in float32": Variant(bfloat16=False),
    "ours, contiguous": Variant(channels_last=False),
    "ours, default allocator": Variant(keep=False),
    "ours, fused optimizer of torch": Variant(fused_optimizer=True),
    "embed in float32": Variant(bfloat16=False, only_forward=True),
    **COMPILED,
}


class PlainHead(nn.Module):
    """ArcFace as one writes it down."""

    def __init__(self) -> None:
        super().__init__()
        self.centers = nn.Parameter(torch.randn(CLASSES, SIZE) * 0.01)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        cosine = F.linear(F.normalize(embeddings), F.normalize(self.centers)).float()
        every = torch.arange(len(labels), device=labels.device)
        own = cosine[every, labels].clamp(-1 + 1e-6, 1 - 1e-6)
        return F.cross_entropy(cosine.index_put((every, labels), (own.acos() + 0.5).cos()) * 64, labels)


def built(case: Case, variant: Variant) -> Callable[[], object]:
    """A step of this variant, ready to run."""
    from verisphere import backbones
    from verisphere.head import Head, HeadSGD, Streamed
    from verisphere.losses import ArcFace

    torch.manual_seed(0)
    layout = torch.channels_last if variant.channels_last else torch.contiguous_format
    backbone = getattr(backbones, case.network)(**case.arguments).to(DEVICE).to(memory_format=layout)
    images = torch.randn(case.batch, 3, *backbone.input_size, device=DEVICE).to(memory_format=layout)
    labels = torch.randint(0, CLASSES, (case.batch,), device=DEVICE)
    run = torch.compile(backbone.forward, dynamic=False) if variant.compile else backbone

    def embeddings() -> Tensor:
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=variant.bfloat16):
            return run(images)

    if variant.only_forward:
        backbone.eval()

        def forward() -> Tensor:
            with torch.inference_mode():
                return embeddings()

        return forward
    if variant.head == "none":
        gradient = torch.randn(case.batch, backbone.embedding_size, device=DEVICE)

        def there_and_back() -> None:
            backbone.zero_grad()
            found = embeddings()
            found.backward(gradient.to(found.dtype))

        return there_and_back
    if variant.head == "plain":
        plain = PlainHead().to(DEVICE)
        every = [*backbone.parameters(), *plain.parameters()]
        optimizer = torch.optim.SGD(every, **SETTINGS)

        def loss(x: Tensor, y: Tensor) -> Tensor:
            with torch.autocast(DEVICE.type, torch.bfloat16, enabled=variant.bfloat16):
                return plain(x, y)
    else:
        head = Head(ArcFace(), CLASSES, SIZE, engine=Streamed("bfloat16")).to(DEVICE)
        every = [one for one in (*backbone.parameters(), *head.parameters()) if one.requires_grad]
        optimizer = HeadSGD(every, head, **SETTINGS)
        if variant.fused_optimizer:
            for group in optimizer.param_groups:
                group["fused"] = True

        def loss(x: Tensor, y: Tensor) -> Tensor:
            return head(x, y).loss

    def step() -> None:
        optimizer.zero_grad()
        loss(embeddings(), labels).backward()
        optimizer.step()

    return step


def flops(case: Case, variant: Variant) -> float:
    """Floating-point operations of a step, as the module's text has them."""
    from verisphere import backbones
    from verisphere.train.dry_run.measured import measure_backbone

    forward = case.batch * measure_backbone(getattr(backbones, case.network)(**case.arguments)).flops
    if variant.only_forward:
        return forward
    return 3 * forward + (0 if variant.head == "none" else 3 * 2 * case.batch * CLASSES * SIZE)


def roof(dtype: torch.dtype) -> dict[str, float]:
    """FLOP a second of square products of this type, by wall and by CPU clock; the best of some."""
    a, b = (torch.randn(ROOF_SIDE, ROOF_SIDE, device=DEVICE).to(dtype) for _ in range(2))
    times = [clocked(lambda: a @ b) for _ in range(6)][1:]
    return {clock: 2 * ROOF_SIDE**3 / min(one[clock] for one in times) for clock in ("wall", "cpu")}


def clocked(run: Callable[[], object]) -> dict[str, float]:
    """Seconds by wall and by this process's CPU clock."""
    before = time.perf_counter(), time.process_time()
    run()
    if CUDA:
        torch.cuda.synchronize()
    return {"wall": time.perf_counter() - before[0], "cpu": time.process_time() - before[1]}


def measure(case: Case, variant: Variant, steps: int, profiled: bool) -> dict[str, object]:
    """In a fresh process: seconds of a step, and of the roof beside it."""
    if variant.keep:
        from verisphere.base.device import keep_memory

        keep_memory()
    step = built(case, variant)
    warm = clocked(step)  # compiles
    clocked(step)
    before = roof(torch.bfloat16), roof(torch.float32)
    times = [clocked(step) for _ in range(steps)]
    result: dict[str, object] = {
        "wall": [one["wall"] for one in times],
        "cpu": [one["cpu"] for one in times],
        "bfloat16": before[0],
        "float32": before[1],
        "warm": warm["wall"],
        "flops": flops(case, variant),
    }
    if profiled:
        result["profile"] = profile(step)
    return result


def profile(step: Callable[[], object], rows: int = 14) -> str:
    """Where a step's time goes, by operator."""
    with torch.profiler.profile() as found:
        step()
        if CUDA:
            torch.cuda.synchronize()
    order = "self_cuda_time_total" if CUDA else "self_cpu_time_total"
    key = "self_device_time_total" if CUDA else "self_cpu_time_total"
    events = sorted(found.key_averages(), key=lambda one: -getattr(one, key))
    whole = sum(getattr(one, key) for one in events)
    lines = [f"{getattr(one, key) / whole:6.1%} {one.count:5d} x {one.key[:60]}" for one in events[:rows]]
    return "\n".join([order, *lines])


def child(case: str, batch: int, name: str, steps: int, profiled: bool) -> dict[str, object]:
    """What a process of its own has measured."""
    command = [sys.executable, __file__, "--child", case, name, "--batch", str(batch), "--steps", str(steps)]
    done = subprocess.run(command + ["--profile"] * profiled, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode:
        sys.exit(f"{case}, {name}: {(done.stderr.splitlines() or ['nothing said'])[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def compare(case: str, batch: int, names: list[str], rounds: int, steps: int, profiled: bool) -> None:
    """Measure the variants in turn, print and write a row for each."""
    found: dict[str, list[dict]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in names:
            found[name].append(child(case, batch, name, steps, profiled and not turn))
    clock = "wall" if CUDA else "cpu"  # other work on the machine takes of the wall clock, not of CPU seconds
    for name in names:
        wall, cpu = (statistics.median(one for each in found[name] for one in each[key]) for key in ("wall", "cpu"))
        work, seconds = found[name][0]["flops"], wall if CUDA else cpu
        kind = "bfloat16" if VARIANTS[name].bfloat16 else "float32"
        top = {key: statistics.median(one[key][clock] for each in found.values() for one in each)
               for key in ("bfloat16", "float32")}  # fmt: skip
        notes = f"{work / 1e9:.1f} GFLOP a step; {work / seconds / top[kind]:.0%} of the {kind} product roof"
        notes += f" ({top[kind] / 1e9:.0f} GFLOP/s)"
        if VARIANTS[name].compile:
            notes += f"; first step {statistics.median(one['warm'] for one in found[name]):.0f} s"
        if not CUDA:
            notes += f"; {batch / cpu:.3g} images a CPU second"
        kind = "embed" if VARIANTS[name].only_forward else "train"
        write("train_step", f"{kind}: {case}, batch {batch}", name, wall, cpu, batch, "images", rounds * steps, notes)
        print(f"{'':12s} {notes}", flush=True)
        if profiled:
            print(found[name][0]["profile"], flush=True)


def chosen(patterns: list[str] | None, compiled: bool) -> list[str]:
    """The variants that are asked for, by name or pattern; without any, the main ones."""
    if patterns is None:
        return [*MAIN, *(name for name in COMPILED if compiled)]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in VARIANTS):
            sys.exit(f"--only {pattern!r} is no variant; there are: {', '.join(VARIANTS)}")
    may = [name for name in VARIANTS if compiled or CUDA or name not in COMPILED]
    matched = [name for name in may if any(fnmatchcase(name, pattern) for pattern in patterns)]
    return matched + [name for name in patterns if name in VARIANTS and name not in matched]


def main() -> None:
    torch.set_num_threads(1)  # as in benchmarks/head.py: threads that wait for one another count as work
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--only", nargs="*", default=None, help="variants, by name or pattern")
    parser.add_argument("--batch", type=int, default=None, help="images a step, in place of each case's own")
    parser.add_argument("--rounds", type=int, default=2 if CUDA else 1)
    parser.add_argument("--steps", type=int, default=3, help="timed steps of each process")
    parser.add_argument("--compiled", action="store_true", help="compiled backbones, too: minutes each on a CPU")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    parser.add_argument("--child", nargs=2, metavar=("CASE", "VARIANT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        case, name = options.child
        sized = replace(CASES[case], cpu=options.batch, cuda=options.batch)
        print(json.dumps(measure(sized, VARIANTS[name], options.steps, options.profile)))
        return
    if CUDA:
        torch.cuda.init()  # so that the rows name the card
    else:
        print("no CUDA device: R100 is left out")
    names = chosen(options.only, options.compiled)
    for case in options.case:
        batch = CASES[case].batch if options.batch is None else options.batch
        compare(case, batch, names, options.rounds, options.steps, options.profile)


if __name__ == "__main__":
    main()
