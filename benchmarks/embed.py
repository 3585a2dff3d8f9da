"""Embedding by an ONNX file: `verisphere embed` from JPEG to file, beside plain onnxruntime on pixels in memory.

    python benchmarks/embed.py NET.onnx FACES.zip [--images 1000] [--rounds 3]

Plain onnxruntime runs image by image and in batches of 64, by one thread and by all, on pixels that are decoded
already. Ours reads, decodes, embeds and writes, in a process of its own whose start is counted apart: the seconds of a
run over a few images are subtracted. Its largest resident memory, that of its workers included, stands in the row.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from harness import write

from verisphere.images import Photos
from verisphere.ship.adopt import Told, adopt_onnx

FEW = 64
CHILD = """
import json, resource, sys, time
from verisphere.cli import main
began = time.perf_counter()
code = main(sys.argv[1:])
usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps([time.perf_counter() - began, sum(one.ru_utime + one.ru_stime for one in usage),
                  sum(one.ru_maxrss for one in usage)]))
raise SystemExit(code)
"""


def plain(path: Path, pixels: np.ndarray, threads: int, batch: int) -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    for start in range(0, len(pixels), batch):
        session.run(None, {name: pixels[start : start + batch]})


def ours(model: Path, faces: Path, people: Path, out: Path) -> tuple[float, float, int]:
    """Wall seconds, CPU seconds and kilobytes of `verisphere embed`."""
    command = ["--default-allocator", "embed", model, faces, "--people", people, "--out", out]
    done = subprocess.run([sys.executable, "-c", CHILD, *map(str, command)], capture_output=True, text=True, check=True)
    wall, cpu, memory = json.loads(done.stdout.splitlines()[-1])
    return wall, cpu, memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("faces", type=Path)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    threads = os.cpu_count() or 1
    torch.set_num_threads(threads)
    faces = Photos(str(options.faces))
    rates: dict[str, list[tuple[float, float, int]]] = {}
    with tempfile.TemporaryDirectory() as room:
        folder = Path(room)
        adopt_onnx(options.model, folder / "model", Told(colour="RGB", mean=0.0, scale=1.0))
        lists = {}
        for kind, least in (("few", FEW), ("many", options.images)):
            chosen: list[str] = []
            count = 0
            for person in faces.people:
                if count >= least:
                    break
                chosen.append(person)
                count += faces.identities.count(person)
            lists[kind] = (folder / f"{kind}.txt", count)
            lists[kind][0].write_text("\n".join(chosen))
        count = lists["many"][1]
        pixels = faces.images(range(count)).float().numpy()
        ways = [(number, batch) for number in sorted({1, threads}) for batch in (1, 64)]
        for _ in range(options.rounds):
            for number, batch in ways:
                before = time.perf_counter(), sum(os.times()[:2])
                plain(options.model, pixels, number, batch)
                label = f"onnxruntime, {number} threads, batch {batch}"
                wall, cpu = time.perf_counter() - before[0], sum(os.times()[:2]) - before[1]
                rates.setdefault(label, []).append((wall, cpu, count))
            start = ours(folder / "model", options.faces, lists["few"][0], folder / "few.npz")
            whole = ours(folder / "model", options.faces, lists["many"][0], folder / "many.npz")
            more = count - lists["few"][1]
            label = f"verisphere embed ({whole[2] >> 10} MiB)"
            label = next((one for one in rates if one.startswith("verisphere")), label)
            rates.setdefault(label, []).append((whole[0] - start[0], whole[1] - start[1], more))
    for label, taken in rates.items():
        wall, cpu = (statistics.median(one[place] for one in taken) for place in (0, 1))
        write("embed", options.model.stem, label, wall, cpu, taken[0][2], "images", options.rounds)
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB in this process")


if __name__ == "__main__":
    main()
