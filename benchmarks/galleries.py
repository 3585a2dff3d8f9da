"""How often the threshold of a gallery keeps its promise, where it does not, and what it costs.

`python benchmarks/galleries.py` takes a minute on one core and writes galleries_quick.csv beside this file. With
`--full` it takes about ten minutes and writes galleries.csv, the source of the figures in docs/galleries.md. Seeds
are fixed, so a run can be repeated. Parts whose rows are in that file are not run again, unless named by `--only PART`.

Parts that need LFW (`lfw_embeddings.npz`, and for another camera `lfw_112.zip` and `pretrained_mobilefacenet.onnx`) are
skipped, and named, where `--data` has none. `--second` names the embeddings of the same photographs by another model.
"""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import cells
import gallery_faces
import gallery_labels
import gallery_rules
import gallery_worlds
from gallery_faces import Faces
from gallery_pools import Row, read_rows, text, write_rows

DATA = Path(__file__).parents[2] / "shared" / "data"


@dataclass(frozen=True)
class Size:
    """How much is simulated.

    Attributes:
        sizes: people in galleries of the worlds.
        of_faces: people in galleries of LFW.
        rates: target FPIRs.
        galleries: galleries of each cell of a coverage, among which `runs` calibrations are divided.
        pool: strangers of a world who may search a gallery.
        runs: calibrations of each cell.
        growing: galleries for growth.
        splits: random splits of LFW's people.
        of_rules: the same, to compare rules.
    """

    sizes: tuple[int, ...]
    of_faces: tuple[int, ...]
    rates: tuple[str, ...]
    galleries: int
    pool: int
    runs: int
    growing: int
    splits: int
    of_rules: int


QUICK = Size((10, 100), (100,), ("1e-1", "1e-2"), 5, 100_000, 100, 20, 5, 1)
FULL = Size((10, 100, 1_000, 10_000), (10, 100, 1_000), ("1e-1", "1e-2", "1e-3"), 20, 200_000, 2_000, 200, 100, 20)
PARTS = (
    "coverage", "coverage again", "coverage of faces", "strangers", "rules", "chosen rules", "labels",
    "labels of faces", "labels of pairs", "growth", "growth of faces", "relatives", "camera",
)  # fmt: skip
NUMBERS = (299, 473, 600, 900, 1_000, 1_500, 2_000, 3_000)  # strangers to buy


def parts(size: Size, data: Path, second: Path | None, full: bool) -> dict[str, Callable[[], Iterator[Row]]]:
    """The parts by their names, and the reasons on standard error of those that are skipped."""
    growing = size.growing, min(size.pool, 50_000), max(size.runs // size.growing, 1)
    found: dict[str, Callable[[], Iterator[Row]]] = {
        "coverage": lambda: gallery_worlds.covered(size.sizes, size.rates, size.galleries, size.pool, size.runs),
        "coverage again": lambda: gallery_worlds.covered_again(2 * size.galleries, size.pool, 10 * size.runs),
        "growth": lambda: gallery_worlds.grown((10, 100), "1e-2", *growing),
        "labels": lambda: gallery_labels.in_worlds(
            (100, 1_000)[: 1 + full], ("1e-2", "1e-3")[: 1 + full], size.galleries, size.pool, size.runs
        ),
    }
    embeddings = data / "lfw_embeddings.npz"
    if not embeddings.is_file():
        print(f"skipped: all parts on LFW, as there is no {embeddings}", file=sys.stderr)
        return found
    everybody = Faces.read("LFW as it is", embeddings)
    duplicates = everybody.duplicates()
    faces = Faces.read("LFW", embeddings, duplicates)
    found |= {
        "coverage of faces": lambda: gallery_faces.covered(faces, size.of_faces, size.rates, size.galleries, size.runs),
        "growth of faces": lambda: gallery_faces.grown(faces, size.of_faces, size.splits, max(size.runs // 100, 1)),
        "relatives": lambda: gallery_faces.others_in_use(faces, 1_000, max(size.splits // 5, 1)),
        "chosen rules": lambda: gallery_faces.chosen_on_strangers(
            faces, 1_000, (299, 1_000), size.galleries // 2, size.runs // 10
        ),
        "strangers": lambda: (
            row for some in (faces, everybody) for row in gallery_faces.to_buy(some, 1_000, NUMBERS, size.splits)
        ),
        "labels of faces": lambda: gallery_labels.on_faces(faces, size.of_faces[-2:], size.galleries, size.runs),
        "labels of pairs": lambda: gallery_labels.of_pairs(faces, size.runs),
    }
    camera = data / "pretrained_mobilefacenet.onnx", data / "lfw_112.zip"
    if full and all(file.is_file() for file in camera):
        found["camera"] = lambda: gallery_faces.other_camera(faces, *camera, 1_000, 1_500, size.splits)
    elif full:
        print(f"skipped: another camera, as there is no {' or '.join(map(str, camera))}", file=sys.stderr)
    models = [Faces.read("first model", embeddings, duplicates)]
    if second is not None:
        models.append(Faces.read("second model", second, duplicates))
    else:
        print("skipped: rules of a second model and of both, as there is no --second", file=sys.stderr)
    found["rules"] = lambda: gallery_rules.compared(models, size.of_rules)
    return found


def main() -> None:
    parser = cells.parser(__doc__, "more, larger and rarer (about ten minutes)")
    parser.add_argument("--only", metavar="PART", action="append", help="run this part; repeat for several")
    parser.add_argument("--data", type=Path, default=DATA, help=f"folder with LFW ({DATA})")
    parser.add_argument("--second", type=Path, metavar="FILE.npz", help="LFW embedded by a second model")
    parser.add_argument("--example", type=Path, metavar="FOLDER", help="write the files of the page's example alone")
    options = parser.parse_args()
    if options.example is not None:
        everybody = Faces.read("LFW as it is", options.data / "lfw_embeddings.npz")
        gallery_faces.write_example(everybody, options.example)
        return
    known = parts(FULL if options.full else QUICK, options.data, options.second, options.full)
    if unknown := set(options.only or ()) - set(known):
        parser.error(f"there is no part {sorted(unknown)[0]!r}; there are {', '.join(known)}")
    path = cells.Size.of(options).path("galleries")
    done: list[Row] = []
    there = {row.part for row in read_rows(path)} if path.is_file() else set()
    for name in options.only or [name for name in known if name not in there]:
        started = time.process_time()
        rows = [replace(row, part=name) for row in known[name]()]
        print(f"{time.process_time() - started:5.0f} s  {name}: {len(rows)} rows", file=sys.stderr)
        before = read_rows(path) if path.is_file() else []
        others = [row for row in before if row.part in PARTS and row.part != name]
        write_rows(sorted([*others, *rows], key=lambda row: PARTS.index(row.part)), path)
        done += rows
    print(f"{text(done)}\n\nrows in {path.name}")


if __name__ == "__main__":
    main()
