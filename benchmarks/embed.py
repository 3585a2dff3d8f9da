"""Embedding by an ONNX file: `verisphere embed` from JPEG to file, beside plain onnxruntime on pixels in memory.

    python benchmarks/embed.py NET.onnx FACES.zip [--images 1000] [--rounds 3]

Plain onnxruntime runs image by image and in batches of 64, by one thread and by all, on pixels that are decoded
already. Ours reads, decodes, embeds and writes, in a process of its own whose start is counted apart: the seconds of a
run over a few images are subtracted. The largest memory of the process and its workers, pages that they share counted
once, stands in the row. Where NET is a file that `verisphere export` made, it is embedded as it is.
"""

import argparse
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

FEW, OURS = 64, "verisphere embed"


def plain(path: Path, pixels: np.ndarray, threads: int, batch: int) -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    for start in range(0, len(pixels), batch):
        session.run(None, {name: pixels[start : start + batch]})


def ours(model: Path, faces: Path, people: Path, out: Path) -> tuple[float, float, int]:
    """Wall seconds, CPU seconds and the largest memory in MiB of `verisphere embed`."""
    command = [sys.executable, "-m", "verisphere", "embed", model, faces, "--people", people, "--out", out]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    memory = 0
    while process.poll() is None:
        memory = max(memory, sum(map(proportional_memory, family(process.pid))))
        time.sleep(0.5)  # a look takes some milliseconds of the process too
    wall = time.perf_counter() - began
    if process.returncode:
        raise SystemExit(process.communicate()[1].decode())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, memory >> 10


def family(process: int) -> list[int]:
    """A process and its children."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return [process]
    return [process, *map(int, children)]


def proportional_memory(process: int) -> int:
    """Kilobytes of a process, of a page that several processes share its part; 0 where it has ended."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


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
    memory: list[int] = []
    with tempfile.TemporaryDirectory() as room:
        folder = Path(room)
        model = options.model
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        if "verisphere_format" not in session.get_modelmeta().custom_metadata_map:
            model = folder / "model"
            adopt_onnx(options.model, model, Told(colour="RGB", mean=0.0, scale=1.0))
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
            start = ours(model, options.faces, lists["few"][0], folder / "few.npz")
            whole = ours(model, options.faces, lists["many"][0], folder / "many.npz")
            more = count - lists["few"][1]
            rates.setdefault(OURS, []).append((whole[0] - start[0], whole[1] - start[1], more))
            memory.append(whole[2])
    for label, taken in rates.items():
        wall, cpu = (statistics.median(times[place] for times in taken) for place in (0, 1))
        label = f"{label} ({max(memory)} MiB)" if label == OURS else label
        write("embed", options.model.name, label, wall, cpu, taken[0][2], "images", options.rounds)


if __name__ == "__main__":
    main()
