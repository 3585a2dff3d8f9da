"""One probe and 256 in a living gallery of a million people in a folder, beside the products alone; and how it opens.

Rows are random, written through the store. The product has the same rows, mapped into memory and warm, by the same
threads: what is measured is the cost of exactness, of people instead of rows, and of the database.

`python benchmarks/living_gallery.py FOLDER [--people N] [--rounds R]`; a million take 2.5 GB below FOLDER. Memory is
that of the process but for the mapped rows (RssAnon), the highest of samples.
"""

import argparse
import threading
import time
from pathlib import Path

import numpy as np
import torch
from harness import compare, cpu_seconds, write

from verisphere.base.vocabulary import Embeddings
from verisphere.score import unit_rows
from verisphere.ship.calibrated_files import EmbeddingsSet
from verisphere.ship.living.gallery import LivingGallery, create_gallery

SIZE, STRANGERS, AT_ONCE, BATCH, BLOCK = 512, 320, 1 << 14, 256, 1 << 16


def random_rows(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, SIZE), np.float32)


def make(folder: Path, people: int) -> None:
    names = [f"stranger{row}" for row in range(STRANGERS)]
    strangers = EmbeddingsSet(Embeddings(random_rows(STRANGERS, 1), names, names), "strangers.npz", "0" * 64)
    gallery = create_gallery(folder, strangers, "1e-2")
    store = gallery.store
    columns = "person, name, folded, code, consent, enrolled, operator"
    for first in range(0, people, AT_ONCE):
        some = range(first, min(first + AT_ONCE, people))
        with store.writing():
            values = [(one, f"person{one}", f"person{one}", f"{one:x}", "", "", "") for one in some]
            store.change(f"INSERT INTO people ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", values)
            photographs = [(one, one, f"{one}.jpg", f"{one:064x}", "", "") for one in some]
            columns_of = "slot, person, name, digest, enrolled, operator"
            store.change(f"INSERT INTO photographs ({columns_of}) VALUES (?, ?, ?, ?, ?, ?)", photographs)
            rows = unit_rows(random_rows(len(some), 2 + first)).numpy()
            store.add_rows(first, rows)
            gallery.promise.rescore(rows, first)
            gallery.promise.renew()
    store.close()


class Memory(threading.Thread):
    """The highest RssAnon while it runs."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.highest, self.ended = 0, False

    def run(self) -> None:
        while not self.ended:
            lines = Path("/proc/self/status").read_text().splitlines()
            anonymous = next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
            self.highest = max(self.highest, anonymous)
            time.sleep(0.01)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--people", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    case = f"{options.people:,} people x {SIZE}"
    place = options.folder / "gallery"
    if not place.exists():
        make(place, options.people)
    opened = []
    for _ in range(options.rounds):
        before = time.perf_counter(), cpu_seconds()
        gallery = LivingGallery(place)
        with gallery.store.reading():  # reads whose each row is
            pass
        opened.append((time.perf_counter() - before[0], cpu_seconds() - before[1]))
        gallery.store.close()
    wall, cpu = (sorted(times)[options.rounds // 2] for times in zip(*opened, strict=True))
    write("living gallery", case, "opened", wall, cpu, 1, "galleries", options.rounds)

    memory = Memory()
    gallery = LivingGallery(place)
    mapped = np.memmap(place / "rows-1.f32", "<f4", "r", shape=(options.people, SIZE))
    rows = torch.from_numpy(np.asarray(mapped))
    for start in range(0, options.people, BLOCK):
        rows[start : start + BLOCK].sum()  # warm
    probes = random_rows(BATCH, 10**6)
    units = unit_rows(probes)
    memory.start()

    def product_of_all() -> None:
        for start in range(0, options.people, BLOCK):
            torch.mm(rows[start : start + BLOCK], units.T)

    one = {"product alone": lambda: rows @ units[0], "identified exactly": lambda: gallery.search(probes[:1])}
    compare("living gallery", f"{case}, one probe", one, options.people, "rows", options.rounds)
    many = {"product alone": product_of_all, "identified exactly": lambda: gallery.search(probes)}
    compare("living gallery", f"{case}, {BATCH} probes", many, BATCH * options.people, "pairs", 3)
    memory.ended = True
    print(f"RssAnon at most {memory.highest * 1024:,} bytes; the rows are {rows.numel() * 4:,}")


if __name__ == "__main__":
    main()
