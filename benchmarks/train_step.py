"""Training and embedding images a second on a CPU, with glibc's allocator as it is and told to keep memory.

The allocator belongs to a process, so each measurement is a process of its own; the variants take turns.
"""

import json
import statistics
import subprocess
import sys

import torch
from harness import write

CASES = {
    "MobileFaceNet 0.5 relu, d 128": {"width": 0.5, "activation": "relu", "embedding_size": 128},
    "MobileFaceNet prelu, d 512": {},
}
BATCH, STEPS, ROUNDS = 64, 6, 3


def measure(case: str, keep: bool) -> dict[str, float]:
    """In a fresh process: seconds of one training step and of embedding one batch."""
    import time

    from verisphere import Head
    from verisphere.embed import MobileFaceNet
    from verisphere.losses import ArcFace
    from verisphere.train.objective import Objective
    from verisphere.workflows.device import keep_memory

    if keep:
        keep_memory()
    backbone = MobileFaceNet(**CASES[case]).to(memory_format=torch.channels_last)
    objective = Objective(backbone, Head(ArcFace(), 1000, backbone.embedding_size))
    optimizer = torch.optim.SGD(objective.parameters(), lr=0.1, momentum=0.9)
    images = torch.randn(BATCH, 3, 112, 112).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (BATCH,))

    def step() -> None:
        optimizer.zero_grad()
        objective(images, labels).loss.backward()
        optimizer.step()

    def embed() -> None:
        with torch.inference_mode():
            backbone(images)

    figures = {}
    for name, run, mode in (("train", step, True), ("embed", embed, False)):
        backbone.train(mode)
        run()
        wall, cpu = [], []
        for _ in range(STEPS):
            before = time.perf_counter(), time.process_time()
            run()
            wall.append(time.perf_counter() - before[0])
            cpu.append(time.process_time() - before[1])
        figures[f"{name}_wall"], figures[f"{name}_cpu"] = statistics.median(wall), statistics.median(cpu)
    return figures


def main() -> None:
    for case in CASES:
        found: dict[bool, list[dict[str, float]]] = {True: [], False: []}
        for _ in range(ROUNDS):
            for keep in (True, False):
                command = [sys.executable, __file__, case, "keep" if keep else "default"]
                found[keep].append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
        for keep, figures in found.items():
            for kind in ("train", "embed"):
                wall, cpu = (statistics.median(one[f"{kind}_{clock}"] for one in figures) for clock in ("wall", "cpu"))
                variant = "verisphere" if keep else "verisphere, default allocator"
                write("train_step", f"{kind}: {case}", variant, wall, cpu, BATCH, "images", ROUNDS * STEPS)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(measure(sys.argv[1], sys.argv[2] == "keep")))
    else:
        main()
