"""What pair terms cost: exact thresholds of a batch against a queue, and each term beside a plain training step.

`threshold`: the threshold at FAR 1e-4 over all impostor pairs of 512 rows with a queue of 512,000, d = 512, one step
after the other with new rows each time, so the last step's answer tells where to look; once as a first step finds it.
The roof is the product of all pairs in bfloat16. Peers hold all scores and ask topk, kthvalue or sort. Before anything
is timed each of ours is compared with such a sort, on a part of the queue.

`terms`: forward and backward of each term for 512 embeddings, its memory full, and the plain step beside it. A step of
512 images of R50 is no matter for a CPU: there 16 are measured and taken 32 times. With `--whole`, the default on CUDA,
complete steps are measured instead, without a term and with each: forward, backward, update.

Each measurement is a process of its own, since memory is counted; they take turns. What takes eight seconds at its
first step is not repeated. Of all else the first three are not timed, and memory is the peak of the resident set after
the first, less what there was with the queue, or the term's memory, filled. glibc keeps freed memory for everyone;
`--allocator default` leaves it as it is. The clock of a CPU is its CPU seconds.

`python benchmarks/pair_terms.py [--only PART ...] [--device D] [--rounds R] [--steps S] [--whole] [--queue N]`; some
seven minutes on a CPU.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import torch
from harness import write
from torch import Tensor

from head import keep_everything, peak, reset_peak
from verisphere.decide import accepted_impostors, threshold_at
from verisphere.pairs import AnchorFace, AngularTriplet, GlobalBatch, PairTerm, Step, ThresholdConsistency, Training
from verisphere.score.batch_pairs import BatchPairs, Hints
from verisphere.score.stored import Stored

BATCH, SIZE, QUEUE, CLASSES, KEPT = 512, 512, 512_000, 85_000, 5
FAR = "1e-4"
PART = 16  # images of the plain step on a CPU
WARM = 3  # steps that are not counted
LONG = 8.0  # seconds of a first step that is not repeated, as of what holds all scores
Work = Callable[[], object]


def unit_rows_of(count: int, dtype: torch.dtype, device: torch.device, seed: int) -> Tensor:
    """Random rows of length 1."""
    random = torch.Generator(device).manual_seed(seed)
    rows = torch.empty(count, SIZE, dtype=dtype, device=device)
    for part in rows.split(8192):
        part.copy_(torch.nn.functional.normalize(torch.randn(part.shape, generator=random, device=device), dim=1))
    return rows


class Batches:
    """New rows at every call, four images of each person: the cost of making them is a thousandth of what is timed."""

    def __init__(self, device: torch.device, count: int = BATCH) -> None:
        self.device, self.count, self.number = device, count, 0

    def __call__(self) -> tuple[Tensor, Tensor]:
        self.number += 1
        people = torch.randperm(CLASSES, generator=torch.Generator().manual_seed(self.number))[: self.count // 4]
        labels = people.repeat_interleave(4).to(self.device)
        return unit_rows_of(self.count, torch.float32, self.device, 1000 + self.number), labels


# Thresholds ---------------------------------------------------------------------------------------------------------


def queue(count: int, dtype: torch.dtype, device: torch.device) -> Stored:
    """Rows and whose they are."""
    labels = torch.randint(0, CLASSES, (count,), generator=torch.Generator().manual_seed(0))
    return Stored(unit_rows_of(count, dtype, device, 0), labels.to(device))


def roof(stored: Stored, batches: Batches) -> object:
    """Nothing but the product, in tiles of the size that ours has."""
    rows = batches()[0].bfloat16()
    for some in stored.rows.split(9216):
        torch.mm(rows, some.T)


def exact(stored: Stored, batches: Batches, hints: Hints, groups: int) -> list[float]:
    """The threshold of all pairs, and that of each group's where there are several."""
    rows, labels = batches()
    of = torch.arange(len(rows), device=rows.device) % groups
    pairs = BatchPairs(rows, labels, stored, of, hints=hints)
    asked = [pairs.scores(), *(pairs.scores([group]) for group in range(groups) if groups > 1)]
    pairs.settle([(scores, accepted_impostors(FAR, scores.total) + 1, FAR) for scores in asked])
    return [threshold_at(scores, FAR) for scores in asked]


def cold(stored: Stored, batches: Batches) -> object:
    """The same with nothing known."""
    return exact(stored, batches, Hints(), 1)


def materialised(stored: Stored, batches: Batches, order: str) -> float:
    """All scores at once, own-class ones set aside, and a rank among them."""
    rows, labels = batches()
    scores = (rows.to(stored.rows.dtype) @ stored.rows.T).float()
    own = labels[:, None] == stored.labels
    rank = accepted_impostors(FAR, own.numel() - int(own.sum())) + 1
    scores = scores.masked_fill_(own, -2.0).flatten()
    if order == "topk":
        return float(scores.topk(rank).values[-1])
    if order == "kthvalue":
        return float(scores.kthvalue(len(scores) - rank + 1).values)
    return float(scores.sort(descending=True).values[rank - 1])


def searching(name: str, count: int, device: torch.device) -> Work:
    """One of the ways to a threshold, its queue filled."""
    dtype = torch.float32 if "float32" in name else torch.bfloat16
    stored, batches = queue(count, dtype, device), Batches(device)
    if name.startswith("roof"):
        return partial(roof, stored, batches)
    if "nothing known" in name:
        return partial(cold, stored, batches)
    if name.startswith("verisphere"):
        return partial(exact, stored, batches, Hints(), 8 if "8 groups" in name else 1)
    return partial(materialised, stored, batches, name.rpartition(" ")[2])


SEARCHES = (
    "roof: bf16 products",
    "verisphere, bfloat16 queue",
    "verisphere, float32 queue",
    "verisphere, bfloat16 queue, 8 groups",
    "verisphere, bfloat16 queue, nothing known",
    "all scores, topk",
    "all scores, kthvalue",
    "all scores, sort",
)


def check(device: torch.device) -> None:
    """Ours is the sort's answer."""
    for dtype in (torch.bfloat16, torch.float32):
        stored = queue(20_000, dtype, device)
        rows, labels = Batches(device)()
        scores = (rows.double() @ stored.rows.double().T)[labels[:, None] != stored.labels]
        rank = accepted_impostors(FAR, len(scores)) + 1
        expected = float(scores.sort(descending=True).values[rank - 1])
        (found,) = exact(stored, Batches(device), Hints(), 1)
        assert abs(found - expected) < 1e-14, (dtype, found, expected)  # float64 sums in another order


# Terms --------------------------------------------------------------------------------------------------------------


def anchor_face(storage: str, precision: str, device: torch.device) -> PairTerm:
    """AnchorFace with a full set, in its second phase."""
    term = AnchorFace(FAR, features_per_identity=KEPT, after=0.0, storage=storage, precision=precision)
    term.prepare(Training(CLASSES, SIZE, BATCH))
    assert term.memory is not None
    term.memory.features = unit_rows_of(CLASSES * KEPT, term.memory.features.dtype, device, 0)
    term.memory.until += 1000
    return term.to(device)


def consistency(device: torch.device, count: int) -> PairTerm:
    """The threshold consistency penalty with a full queue and eight domains of its own making."""
    term = ThresholdConsistency(FAR, batches=count // BATCH, domain_count=8, storage="bfloat16")
    term.prepare(Training(CLASSES, SIZE, BATCH))
    stored = queue(term.queue.capacity, torch.bfloat16, device)
    term.queue.features, term.queue.labels = stored.rows, stored.labels
    term.queue.entered += term.queue.capacity
    return term.to(device)


def triplet(device: torch.device, mining: str, kept: int) -> PairTerm:
    """Triplets of the batch, and of a full memory."""
    term = AngularTriplet(mining=mining, memory=kept)
    term.prepare(Training(CLASSES, SIZE, BATCH))
    if term.memory is not None:
        term.memory.features = unit_rows_of(CLASSES * kept, torch.float32, device, 0)
        term.memory.until += 1000
    return term.to(device)


TERMS: dict[str, Callable[[torch.device, int], PairTerm]] = {
    "AnchorFace, set of 85,000 x 5 and products float32": lambda device, _: anchor_face("float32", "float32", device),
    "AnchorFace, set of 85,000 x 5 float32, products bfloat16": lambda device, _: anchor_face(
        "float32", "bfloat16", device
    ),
    "AnchorFace, set of 85,000 x 5 and products bfloat16": lambda device, _: anchor_face(
        "bfloat16", "bfloat16", device
    ),
    "threshold consistency, bfloat16 queue": consistency,
    "triplets, all of the batch": lambda device, _: triplet(device, "all", 0),
    "triplets, hard, memory of 85,000 x 5": lambda device, _: triplet(device, "hard", KEPT),
}
PLAIN = "plain step: R50"


def alone(name: str, count: int, device: torch.device) -> Work:
    """A term's forward and backward, for embeddings as a backbone would give them."""
    term, batches = TERMS[name](device, count), Batches(device)

    def run() -> None:
        rows, labels = batches()
        embeddings = rows.requires_grad_()
        number = batches.number
        given = term(Step(GlobalBatch.of(embeddings, labels), embeddings, labels, number, float(number)))
        if given.loss is not None:
            given.loss.backward()

    return run


def whole(name: str, count: int, device: torch.device, images: int) -> Work:
    """Complete steps of R50's training in bfloat16, with a term or without."""
    from verisphere.backbones import IResNet
    from verisphere.head import Head, HeadSGD, Streamed
    from verisphere.losses import ArcFace
    from verisphere.train.objective import Objective, Position

    torch.manual_seed(0)
    backbone = IResNet(50, dropout=0.4)
    terms = [] if name == PLAIN else [TERMS[name](device, count)]
    head = Head(ArcFace(), CLASSES, SIZE, engine=Streamed("bfloat16"))
    objective = Objective(backbone, head, torch.bfloat16, terms=terms)
    objective.to(device).to(memory_format=torch.channels_last)
    every = [one for one in objective.parameters() if one.requires_grad]
    optimizer, batches = HeadSGD(every, head, lr=0.1, momentum=0.9, weight_decay=5e-4), Batches(device, images)
    faces = torch.randn(images, 3, *backbone.input_size, device=device).to(memory_format=torch.channels_last)

    def run() -> None:
        optimizer.zero_grad()
        objective(faces, batches()[1], position=Position(batches.number, float(batches.number))).loss.backward()
        optimizer.step()

    return run


def plain_part(device: torch.device) -> Work:
    """The plain step of as many images as a CPU works through in seconds."""
    from train_step import CASES, Variant, built

    assert (CASES["R50"].batch, device.type) == (PART, "cpu")
    return built(CASES["R50"], Variant())


# Measuring ----------------------------------------------------------------------------------------------------------


def measure(options: argparse.Namespace) -> dict[str, object]:
    """In a fresh process: seconds of each step, and bytes at the peak."""
    if options.allocator == "keep":
        keep_everything()
    device, (part, name) = torch.device(options.device), options.child
    warm_up(device)
    if part == "threshold":
        work = searching(name, options.queue, device)
    elif options.whole:
        work = whole(name, options.queue, device, options.images)
    else:
        work = plain_part(device) if name == PLAIN else alone(name, options.queue, device)
    before = reset_peak()
    first = clocked(work, device)
    if first["cpu"] > LONG and not options.whole:
        times = [first]
    else:
        before = reset_peak()
        for _ in range(WARM - 1):
            work()
        times = [clocked(work, device) for _ in range(options.steps)]
    return {"wall": [one["wall"] for one in times], "cpu": [one["cpu"] for one in times], "memory": peak() - before}


def warm_up(device: torch.device) -> None:
    """Have libraries allocate what they do once: it is no part of a peak."""
    for name in ("verisphere, bfloat16 queue", "verisphere, float32 queue"):
        searching(name, 4096, device)()
    rows = unit_rows_of(BATCH, torch.float32, device, 0).requires_grad_()
    (rows @ rows.T).sum().backward()


def clocked(work: Work, device: torch.device) -> dict[str, float]:
    """Seconds by wall and by this process's CPU clock."""
    before = time.perf_counter(), time.process_time()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return {"wall": time.perf_counter() - before[0], "cpu": time.process_time() - before[1]}


def compare(part: str, names: tuple[str, ...], options: argparse.Namespace) -> None:
    """Measure in turn, print and write a row for each."""
    found: dict[str, list[dict]] = {name: [] for name in names}
    for turn in range(options.rounds):
        for name in names:
            if turn and found[name][0]["cpu"][0] > LONG:
                continue
            found[name].append(child(part, name, options))
    key = "cpu" if options.device == "cpu" else "wall"
    clocks = {name: {clock: statistics.median(one for each in found[name] for one in each[clock])
                     for clock in ("wall", "cpu")} for name in names}  # fmt: skip
    base = clocks[names[0]][key]
    scaled = part == "terms" and not options.whole
    if scaled:
        base *= BATCH / PART
    case = f"{part}: B={options.images}, d={SIZE}, queue {options.queue:,}, FAR {FAR}, {options.device}"
    if options.allocator != "keep":
        case += ", glibc's own allocator"
    for name in names:
        memory = statistics.median(one["memory"] for one in found[name]) / 1e6
        seconds = clocks[name]
        if part == "threshold":
            notes = f"{seconds[key] / base:.2f} x {names[0].removeprefix('roof: ')}; {memory:.0f} MB beside the queue"
        elif name == PLAIN:
            notes = f"{PART} images; of {BATCH}: {base:.0f} s" if scaled else f"peak {memory:.0f} MB"
        else:
            extra = seconds[key] if scaled else seconds[key] - base
            notes = f"{1 + extra / base:.3f} x the plain step; {memory:.0f} MB"
            notes += " beside its memory" if scaled else " at the peak"
        images = PART if scaled and name == PLAIN else options.images
        write("pair_terms", case, name, seconds["wall"], seconds["cpu"], images, "images",
              sum(len(one[key]) for one in found[name]), notes)  # fmt: skip
        print(f"{'':12s} {notes}", flush=True)


def child(part: str, name: str, options: argparse.Namespace) -> dict:
    """What a process of its own has measured."""
    command = [sys.executable, __file__, "--child", part, name, "--device", options.device]
    command += ["--queue", str(options.queue), "--images", str(options.images), "--steps", str(options.steps)]
    command += ["--allocator", options.allocator] + ["--whole"] * options.whole
    seen = {"CUDA_VISIBLE_DEVICES": ""} if options.device == "cpu" else {}  # else memory would be a GPU's
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900, env={**os.environ, **seen})
    if done.returncode:
        sys.exit(f"{part}, {name}: {(done.stderr.splitlines() or ['nothing said; out of memory, perhaps'])[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    torch.set_num_threads(1)  # as in benchmarks/head.py: a share of the products' time means little with more
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=["threshold", "terms"], default=["threshold", "terms"])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--queue", type=int, default=QUEUE, help="rows of the queue")
    parser.add_argument("--images", type=int, default=BATCH, help="images of a whole step")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=2, help="timed steps of each process")
    parser.add_argument("--whole", action="store_true", help="complete steps, as always on CUDA")
    parser.add_argument("--allocator", choices=["keep", "default"], default="keep", help="what glibc does (see above)")
    parser.add_argument("--child", nargs=2, metavar=("PART", "NAME"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.whole = options.whole or options.device == "cuda"
    if options.child is not None:
        print(json.dumps(measure(options)))
        return
    check(torch.device(options.device))
    if "threshold" in options.only:
        compare("threshold", SEARCHES, options)
    if "terms" in options.only:
        compare("terms", (PLAIN, *TERMS), options)


if __name__ == "__main__":
    main()
