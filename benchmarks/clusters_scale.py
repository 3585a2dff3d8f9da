"""A million faces grouped on one core: near pairs, linkage and cut, in CPU seconds, with the highest memory.

The faces are drawn: people have heavy-tailed numbers of images, belong to kinds that look alike, and vary more in some
directions than in others, so that strangers' scores have tails as those of LFW.

`OMP_NUM_THREADS=1 python benchmarks/clusters_scale.py [--faces N] [--floor SCORE]` appends to results.csv; `--verb`
groups a file of these faces as `verisphere cluster` does instead, its files included; `--look` prints the rates of the
world.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from harness import cpu_seconds, write

from verisphere.base.vocabulary import Embeddings
from verisphere.decide.purity import figures_of
from verisphere.files.embeddings import write_embeddings
from verisphere.report.progress import shown
from verisphere.ship.clusters import face_tree
from verisphere.ship.clusters.clusters import ClusterOptions, cluster_folder
from verisphere.ship.clusters.face_tree import FaceTree

SIZE = 128
MEDIAN_IMAGES, SPREAD = 8, 1.2  # of the log-normal number of images of a person
PEOPLE_OF_A_KIND, OF_KIND = 20, 0.4  # how many people share a kind, and its share of what they look like
DECAY = 0.016  # of the variance, by direction
NOISE, UNEVEN = 0.48, 0.35  # squared length of an image's noise, and the deviation of its logarithm


def drawn(faces: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of length about 1 and the number of the person of each, in random order."""
    random = np.random.default_rng(seed)
    deviations = np.exp(-DECAY * np.arange(SIZE))

    def directions(count: int) -> np.ndarray:
        rows = random.standard_normal((count, SIZE), np.float32) * deviations.astype(np.float32)
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))

    most = 3 * faces // MEDIAN_IMAGES
    images = np.ceil(random.lognormal(np.log(MEDIAN_IMAGES), SPREAD, most)).astype(int)
    person = np.repeat(np.arange(most), images)[:faces]
    people = int(person[-1]) + 1
    kinds = max(people // PEOPLE_OF_A_KIND, 1)
    kind = random.integers(0, kinds, people)
    centers = OF_KIND**0.5 * directions(kinds)[kind] + (1 - OF_KIND) ** 0.5 * directions(people)
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    order = random.permutation(faces)
    person = person[order]
    rows = np.empty((faces, SIZE), np.float32)
    for start in range(0, faces, 1 << 16):
        some = person[start : start + (1 << 16)]
        lengths = np.sqrt(NOISE) * random.lognormal(0, UNEVEN, (len(some), 1))
        rows[start : start + len(some)] = centers[some] + lengths * directions(len(some))
    return rows, person


def look(rows: np.ndarray, person: np.ndarray) -> None:
    """Print the rates of the first rows at some thresholds."""
    some = rows[:20_000] / np.linalg.norm(rows[:20_000], axis=1, keepdims=True)
    scores = (some @ some.T)[np.triu_indices(len(some), 1)]
    genuine = (person[: len(some), None] == person[: len(some)])[np.triu_indices(len(some), 1)]
    for far in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6):
        threshold = np.quantile(scores[~genuine], 1 - far)
        print(f"FAR {far:g}: threshold {threshold:.3f}, TAR {np.mean(scores[genuine] > threshold):.4f}")
    images = np.bincount(person)
    pairs = (images * (images - 1.0)).sum() / 2
    print(f"{len(images):,} people, the largest of {images.max():,} images, {pairs:,.0f} pairs of one person")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faces", type=int, default=1_000_000)
    parser.add_argument("--floor", type=float, default=0.5)
    parser.add_argument("--look", action="store_true")
    parser.add_argument("--verb", action="store_true")
    options = parser.parse_args()
    rows, person = drawn(options.faces)
    if options.look:
        look(rows, person)
        return
    faces = Embeddings(rows, [f"{row:08}" for row in range(len(rows))], person.astype(str))
    del rows
    case = f"{options.faces:,} x {SIZE} down to {options.floor:g}"

    @contextmanager
    def timed(step: str) -> Iterator[None]:
        before = time.perf_counter(), cpu_seconds()
        yield
        wall, cpu = time.perf_counter() - before[0], cpu_seconds() - before[1]
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        write("clusters", case, step, wall, cpu, options.faces, "faces", 1, f"memory at most {memory:.1f} GB")

    if options.verb:
        with tempfile.TemporaryDirectory() as folder:
            path, out = Path(folder) / "faces.npz", Path(folder) / "people"
            write_embeddings(path, faces)
            del faces
            torch.set_num_threads(1)
            with timed("verisphere cluster, files written"):
                cluster_folder(path, out, ClusterOptions(options.floor), progress=shown)
            for file in sorted(out.iterdir()):
                print(f"{file.name}: {file.stat().st_size / 1e6:,.0f} MB")
        return
    pairs = face_tree.near_pairs

    def timed_pairs(*values: object, **options: object) -> object:
        with timed("near pairs"):
            near = pairs(*values, **options)  # type: ignore[arg-type]
        print(f"{len(near):,} near pairs")
        return near

    face_tree.near_pairs = timed_pairs  # type: ignore[assignment]
    torch.set_num_threads(1)
    with timed("near pairs and linkage"):
        tree = FaceTree(faces, options.floor, progress=shown)
    for threshold in (options.floor, options.floor + 0.04, options.floor + 0.08):
        with timed(f"cut at {threshold:.2f}"):
            cut = tree.cut(float(threshold))
        figures = figures_of(cut.cluster, person)
        print(
            f"at {threshold:.2f}: B-cubed P {figures.precision:.4f} R {figures.recall:.4f} F {figures.f:.4f}, "
            f"{figures.mixed} mixed of {figures.clusters}, impurity {figures.impurity:.4f}, unsure {figures.unsure:.4f}"
        )


if __name__ == "__main__":
    main()
