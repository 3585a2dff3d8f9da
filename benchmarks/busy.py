"""A busy machine: images a second beside no, two and eight other busy processes, for each way of choosing threads.

The demo's training for every setting, and for the main ones a training that reads files by two worker processes,
embedding, alignment, and a training of two ranks as torchrun starts them. Settings:

- `as before`: PyTorch's own choice, which GNU OpenMP lets spin for milliseconds;
- `default`: what the command line puts in place (GOMP_SPINCOUNT, see `verisphere.cli.threads`);
- `--threads auto`: the number of threads that the load allows, chosen anew before each measurement as at each start;
- `spin count 1000`, `passive` (OMP_WAIT_POLICY) and `--threads 1`, for comparison.

Every setting has a process of its own, which is started and warmed up without load and then waits for its turn. They
take turns inside each load, the loads take turns inside each round, and the medians are written. Where a process did
not complete a step in three times its window, as it happens without these settings, the load is taken away so that it
comes to an end, and the figure is an upper bound.

`python benchmarks/busy.py` takes 7 minutes on two cores, which nothing else may use; `--rounds 1` takes 3.
"""

import argparse
import itertools
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from verisphere.cli.threads import fitting_number, idle_cores, prepare, processes_here

SPINNING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "KMP_BLOCKTIME", "KMP_LIBRARY", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
PHOTOGRAPHS = 32
COUNTED = ("training", "embedding", "aligning")
LOADS = (0, 2, 8)
TRAINING, WORKERS, EMBEDDING, ALIGNMENT, RANKS = (
    "the demo's training",
    "training, 2 workers read files",
    "embedding",
    "alignment",
    "training, 2 ranks",
)
SETTINGS: dict[str, dict[str, str]] = {
    "as before": {},
    "default": {},
    "--threads auto": {},
    "spin count 1000": {"GOMP_SPINCOUNT": "1000"},
    "passive": {"OMP_WAIT_POLICY": "passive"},
    "--threads 1": {},
}
MAIN = tuple(SETTINGS)[:3]
LONG = {"epochs": 100_000, "save_every": 100_000, "log_every": 1_000_000, "schedule.warmup": 0.5}


@dataclass(frozen=True)
class Turn:
    """What a process has done in its window."""

    images: int
    wall: float
    cpu: float
    threads: int


class Paced:
    """A `Progress` that waits for its turn: between two items it reads a window's length, and says what it has done."""

    def __init__(self, setting: str, images: int, here: bool) -> None:
        self.setting, self.images, self.here = setting, images, here
        self.began: tuple[float, float] | None = None
        self.seconds, self.count = 0.0, 0

    def __call__(self, items: Iterable, description: str, total: int | None = None, done: int = 0) -> Iterator:
        for item in items:
            if description in COUNTED and self.here:
                self.between()
            yield item

    def between(self) -> None:
        import torch

        if self.began is not None:
            self.count += self.images
            wall, cpu = time.perf_counter() - self.began[0], time.process_time() - self.began[1]
            if wall < self.seconds:
                return
            print(json.dumps([self.count, wall, cpu, torch.get_num_threads()]), flush=True)
        line = sys.stdin.readline()
        if not line:
            os._exit(0)
        self.seconds, self.count = float(line), 0
        if self.setting == "--threads auto":
            torch.set_num_threads(fitting_number(idle_cores(), processes_here()))
        self.began = time.perf_counter(), time.process_time()


def child(case: str, setting: str, folder: Path) -> None:
    """Work at a case until standard input ends."""
    if setting != "as before":
        prepare(1 if setting == "--threads 1" else None)
    from verisphere.base.device import choose_device, keep_memory
    from verisphere.base.distributed import joined
    from verisphere.models.embed import embed_faces
    from verisphere.ship.align import align_photos
    from verisphere.study.demo import demo
    from verisphere.train.recipe import read_recipe
    from verisphere.train.session import train_run

    keep_memory()
    cpu = choose_device("cpu")
    room = Path(tempfile.mkdtemp(dir=folder))
    faces = folder / "faces.zip"
    if case in (TRAINING, WORKERS, RANKS):
        files = {"data.class_path": "verisphere.images.Photos", "data.init_args": json.dumps({"path": str(faces)})}
        fields = LONG | ({"data.people": 200} if case != WORKERS else files | {"in_memory": "false"})
        words = [word for name, value in fields.items() for word in (f"--{name}", str(value))]
        with joined():
            read = read_recipe(Path(demo.__file__).with_name("demo.yaml"), words)
            paced = Paced(setting, read.recipe.batch_size, os.environ.get("RANK", "0") == "0")
            train_run(read, (folder / setting if case == RANKS else room) / "run", device="cpu", progress=paced)
    passes = Paced(setting, 128, True)  # a window may last longer than a pass over the faces
    while case == EMBEDDING:
        embed_faces(folder / "network.yaml", faces, room / "out.npz", device=cpu, progress=passes)
    passes = Paced(setting, PHOTOGRAPHS, True)  # faces are found in batches, so whole passes count
    for number in passes(itertools.count() if case == ALIGNMENT else (), "aligning"):
        align_photos(folder / "photographs", room / str(number))


class Worker:
    """A process that works at a case when it is asked to; of two ranks, the first."""

    def __init__(self, case: str, setting: str, folder: Path) -> None:
        self.case, self.setting = case, setting
        environment = {name: value for name, value in os.environ.items() if name not in SPINNING} | SETTINGS[setting]
        command = [sys.executable, __file__, "--child", case, setting, str(folder)]
        launches = [environment]
        if case == RANKS:  # torchrun sets one thread
            port = str(20_000 + os.getpid() % 20_000 + tuple(SETTINGS).index(setting))
            launch = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                      "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}  # fmt: skip
            launches = [environment | launch | {"RANK": rank, "LOCAL_RANK": rank} for rank in "01"]
        with (folder / "log.txt").open("a") as log:
            self.processes = [
                subprocess.Popen(
                    command, env=launch, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
                )
                for launch in launches
            ]

    def turn(self, seconds: float, busy: "Busy") -> Turn:
        """Let it work, and return what it did; without the load where it comes to no end."""
        process = self.processes[0]
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{seconds}\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], 3 * seconds)[0]:
            busy.pause()
        line = process.stdout.readline()
        busy.go_on()
        if not line:
            sys.exit(f"{self.case}, {self.setting}: the process has ended; its output is in the log")
        return Turn(*json.loads(line))

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


class Busy:
    """Other busy processes."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.processes: list[subprocess.Popen[bytes]] = []
        self.go_on()

    def go_on(self) -> None:
        missing = self.number - len(self.processes)
        self.processes += [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(missing)]

    def pause(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes.clear()


@contextmanager
def beside(number: int) -> Iterator[Busy]:
    busy = Busy(number)
    time.sleep(0.5)
    try:
        yield busy
    finally:
        busy.pause()


def prepare_files(folder: Path) -> None:
    """Faces in an archive, photographs with a border, and a network."""
    import numpy as np
    from PIL import Image

    from verisphere.images import SyntheticFaces
    from verisphere.measure.render import render_zip

    faces = SyntheticFaces(people=200, images=5, seed=1, difficulty="easy")
    render_zip(faces, folder / "faces.zip")
    (folder / "network.yaml").write_text(
        "class_path: verisphere.backbones.MobileFaceNet\n"
        "init_args: {embedding_size: 128, width: 0.25, activation: relu}\n"
    )
    (folder / "photographs").mkdir()
    for number, face in enumerate(faces.images(range(PHOTOGRAPHS))):
        pixels = np.random.default_rng(number).integers(90, 130, (250, 250, 3), np.uint8)
        pixels[69:181, 69:181] = face.permute(1, 2, 0).numpy()
        Image.fromarray(pixels).save(folder / "photographs" / f"{number}.png")


def measure(
    case: str, settings: tuple[str, ...], loads: tuple[int, ...], rounds: int, seconds: float, folder: Path
) -> None:
    """Measure the settings of a case in turn, print and write a row for each."""
    import torch
    from harness import write

    workers = [Worker(case, setting, folder) for setting in settings]
    try:
        turns: dict[tuple[str, int], list[Turn]] = {(name, load): [] for load in loads for name in settings}
        with beside(0) as nothing:
            for worker in workers:
                worker.turn(seconds / 4, nothing)
        for _ in range(rounds):
            for load in loads:
                for worker in workers:
                    with beside(load) as busy:
                        turns[worker.setting, load].append(worker.turn(seconds, busy))
    finally:
        for worker in workers:
            worker.end()
    rates = {key: statistics.median(turn.images / turn.wall for turn in taken) for key, taken in turns.items()}
    for (setting, load), taken in turns.items():
        wall = statistics.median(turn.wall for turn in taken)
        torch.set_num_threads(taken[-1].threads)  # which `write` states
        label = f"{case}, {load} busy" if load else f"{case}, idle"
        note = f"{rates[setting, load] / rates['as before', load]:.2f} x as before"
        write("busy", label, setting, wall, statistics.median(turn.cpu for turn in taken),
              round(rates[setting, load] * wall), "images", rounds, note)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="*", choices=[TRAINING, WORKERS, EMBEDDING, ALIGNMENT, RANKS])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.5, help="length of a measurement")
    parser.add_argument("--child", nargs=3, metavar=("CASE", "SETTING", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        case, setting, folder = options.child
        child(case, setting, Path(folder))
        return
    with tempfile.TemporaryDirectory(prefix="busy-") as room:
        prepare_files(Path(room))
        try:
            for case in options.case or (TRAINING, WORKERS, EMBEDDING, ALIGNMENT, RANKS):
                settings, loads = (tuple(SETTINGS), LOADS) if case == TRAINING else (MAIN, LOADS[:2])
                rounds = options.rounds if case == TRAINING else max(options.rounds - 1, 1)
                measure(case, settings, loads, rounds, options.seconds, Path(room))
        except SystemExit:
            print((Path(room) / "log.txt").read_text()[-2000:], file=sys.stderr)
            raise


if __name__ == "__main__":
    main()
