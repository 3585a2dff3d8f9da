"""Reading and decoding images: each format of packs beside the usual DataLoaders, and opening a very large pack.

    python benchmarks/data.py FACES [--images 2000] [--rounds 7]

FACES, a folder or an archive of aligned faces, is converted into every format. All variants read the same images in the
same shuffled order, in batches of 128, in one thread; the DataLoaders also with two workers. The two decoders alone
decode the same images from memory. OpenCV takes part where it is installed. Each figure is the median over processes of
their own, interleaved: where the buffers of a process happen to lie changes the speed of Pillow by up to a half, for as
long as the process lives. The pack of ten million records is a sparse file whose images are holes; the memory of the
process that opens it stands in the row.
"""

import argparse
import io
import multiprocessing
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from harness import cpu_seconds, write
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from verisphere.base.device import keep_memory
from verisphere.images import Photos, batches, epoch_order
from verisphere.images.decode import decode
from verisphere.images.packs.formats import FORMATS
from verisphere.measure.data.convert import convert

try:
    import cv2
except ImportError:
    cv2 = None
else:
    cv2.setNumThreads(1)

BATCH = 128
RECORDS, PEOPLE, STRIDE = 10_000_000, 10_000, 10_240
AT_ONCE = 1 << 18  # lines of an index
OPENING = """
import sys, time, pathlib
from verisphere.images import Photos
before = int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1])
began = time.perf_counter()
faces = Photos(sys.argv[1])
assert len(faces) == int(sys.argv[2]) and len(faces.people) == int(sys.argv[3])
seconds = time.perf_counter() - began
status = open("/proc/self/status").read().splitlines()
sizes = {line.split(":")[0]: int(line.split()[1]) for line in status if line.startswith(("VmHWM", "Rss"))}
print(seconds, (sizes["VmHWM"] - before) >> 10, sizes["RssAnon"] >> 10)
"""


class WithPillow(Dataset[tuple[torch.Tensor, int]]):
    """The usual data set: a file an image, opened, made RGB, a tensor."""

    def __init__(self, files: list[Path]) -> None:
        self.files = files

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        pixels = np.array(Image.open(self.files[index]).convert("RGB"))
        return torch.from_numpy(pixels).permute(2, 0, 1), index


class WithOpenCV(WithPillow):
    """The same by OpenCV."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        pixels = cv2.cvtColor(cv2.imread(str(self.files[index])), cv2.COLOR_BGR2RGB)
        return torch.from_numpy(pixels).permute(2, 0, 1), index


def usual(data: Dataset[tuple[torch.Tensor, int]], order: list[int], workers: int) -> Callable[[], object]:
    def run() -> None:
        for _ in DataLoader(data, BATCH, sampler=order, num_workers=workers):
            pass

    return run


def ours(faces: Photos, order: torch.Tensor, workers: int) -> Callable[[], object]:
    def run() -> None:
        for _ in batches(faces, order, BATCH, workers):
            pass

    return run


def sparse_pack(path: Path) -> None:
    """A RecordIO pack with an identity header whose images are holes but for the header of each person's first."""
    each = RECORDS // PEOPLE

    def record(number: int, labels: tuple[float, ...]) -> bytes:
        payload = struct.pack("<IfQQ", 2, 0.0, number, 0) + struct.pack("<2f", *labels)
        return struct.pack("<II", 0xCED7230A, len(payload)) + payload

    keys = np.arange(RECORDS + PEOPLE + 1)
    offsets = np.empty(len(keys), np.int64)
    offsets[1 : RECORDS + 1] = np.arange(RECORDS) * STRIDE + 64
    end = int(offsets[RECORDS]) + STRIDE
    offsets[0], offsets[RECORDS + 1 :] = 0, end + np.arange(PEOPLE) * 40
    with path.open("wb") as file:
        file.write(record(0, (RECORDS + 1, RECORDS + 1 + PEOPLE)))
        for person in range(PEOPLE):
            first = 1 + person * each
            file.seek(int(offsets[first]))
            payload = struct.pack("<IfQQ", 0, float(person), first, 0)
            file.write(struct.pack("<II", 0xCED7230A, STRIDE - 8) + payload)
        file.seek(end)
        for person in range(PEOPLE):
            first = 1 + person * each
            file.write(record(RECORDS + 1 + person, (first, first + each)))
    with path.with_suffix(".idx").open("w") as file:
        for start in range(0, len(keys), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            rows = zip(keys[part].tolist(), offsets[part].tolist(), strict=True)
            file.write("".join(f"{key}\t{offset}\n" for key, offset in rows))


def open_large(folder: Path, rounds: int) -> None:
    path = folder / "large.rec"
    sparse_pack(path)
    taken = []
    for _ in range(rounds):
        command = [sys.executable, "-c", OPENING, str(path), str(RECORDS), str(PEOPLE)]
        words = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        taken.append(tuple(map(float, words)))
    seconds, most, held = (statistics.median(column) for column in zip(*taken, strict=True))
    memory = f"peak {most:.0f} MiB more than before, {held:.0f} MiB held by the process"
    write("data", "open 10 million records", "recordio", seconds, seconds, RECORDS, "records", rounds, memory)


def variants(folder: Path, count: int) -> dict[str, Callable[[], object]]:
    """What is timed, by name."""
    packs = {known.name: Photos(folder / f"faces{known.suffix}") for known in FORMATS if known.write is not None}
    whole = packs["folder"]
    order = epoch_order(len(whole), seed=0, epoch=0)[:count]
    positions = order.tolist()
    held = [data for _, data in whole.pack.files.read(positions)]
    files = [folder / "faces" / name for name in whole.names]
    timed: dict[str, Callable[[], object]] = {
        "Pillow alone": lambda: [np.asarray(Image.open(io.BytesIO(data)).convert("RGB")) for data in held],
        "our decoder alone": lambda: [decode(data, "") for data in held],
        "DataLoader, Pillow": usual(WithPillow(files), positions, 0),
        "DataLoader, Pillow, two workers": usual(WithPillow(files), positions, 2),
    }
    if cv2 is not None:
        timed["OpenCV alone"] = lambda: [
            cv2.cvtColor(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
            for data in held
        ]
        timed["DataLoader, OpenCV"] = usual(WithOpenCV(files), positions, 0)
        timed["DataLoader, OpenCV, two workers"] = usual(WithOpenCV(files), positions, 2)
    timed |= {name: ours(faces, order, 0) for name, faces in packs.items()}
    return timed | {f"{name}, two workers": ours(packs[name], order, 2) for name in ("folder", "zip", "recordio")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faces", type=Path)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--variant", help="time this one alone, on packs in the folder FACES, and print the seconds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.variant is not None:
        keep_memory()
        run = variants(options.faces, options.images)[options.variant]
        run()
        before = time.perf_counter(), cpu_seconds()
        run()
        print(time.perf_counter() - before[0], cpu_seconds() - before[1])
        return
    with tempfile.TemporaryDirectory() as room:
        folder = Path(room)
        for known in FORMATS:
            if known.write is not None:
                convert(options.faces, folder / f"faces{known.suffix}", known.name)
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in variants(folder, 1)}
        for _ in range(options.rounds):
            for name in taken:
                command = [sys.executable, __file__, folder, "--images", options.images, "--variant", name]
                done = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
                wall, cpu = map(float, done.stdout.split())
                taken[name].append((wall, cpu))
        for name, times in taken.items():
            wall, cpu = (statistics.median(column) for column in zip(*times, strict=True))
            write("data", "112-pixel JPEGs, shuffled", name, wall, cpu, options.images, "images", options.rounds)
        open_large(folder, 3)


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    main()
