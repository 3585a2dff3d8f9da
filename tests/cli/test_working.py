"""Work in pieces through the command line: ranks, parts, and kills come to the bytes of one process."""

import contextlib
import importlib
import inspect
import io
import itertools
import json
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from processes import WorkerFailed, run
from verisphere.base.vocabulary import Embeddings, quietly
from verisphere.base.work import PartEnded
from verisphere.cli import main
from verisphere.decide import bootstrap
from verisphere.files import streamed_rows, work
from verisphere.files.embeddings import write_embeddings
from verisphere.files.lock import alone_at
from verisphere.measure.protocols import listed_pairs
from verisphere.models import gallery
from verisphere.models.embed import embed_faces
from verisphere.score import all_pairs, listed
from verisphere.ship import align
from verisphere.study.clean.same_person import duplicates

top_k = importlib.import_module("verisphere.score.top_k")  # its name in verisphere.score is the function
pytestmark = pytest.mark.usefixtures("process_as_it_was")

#: Each verb by the words of its command, with its inputs in FOLDER and its result, a file or a folder, at OUT.
VERBS = {
    "embed": "embed FOLDER/network.yaml FOLDER/faces --out OUT.npz --batch-size 1 --workers 0 --device cpu",
    "all pairs": "evaluate all-pairs FOLDER/set.npz --far 1e-2 --far 1e-4 --intervals --replicates 20 --json OUT.json",
    "top k": "evaluate identification FOLDER/set.npz --top 7 --candidates OUT.csv",
    "identification": "evaluate identification FOLDER/set.npz --fpir 1e-1 --galleries 2 --by-image --json OUT.json",
    "duplicates": "clean duplicates FOLDER/set.npz --threshold 0.5 --image-threshold 0.6 --out OUT",
    "overlap": "clean overlap FOLDER/set.npz FOLDER/other.npz --threshold 0.75 --out OUT",
    "cluster": "cluster FOLDER/set.npz --threshold 0.4 --known --out OUT",
    "purity": "purity FOLDER/set.npz --faces 8 --impurity 1e-1 --out OUT.json",
    "pairs": "evaluate pairs FOLDER/set.npz --pairs FOLDER/pairs.csv --far 1e-2 --intervals --replicates 20 "
    "--json OUT.json",
    "points": "evaluate pairs FOLDER/set.npz --pairs FOLDER/pairs.csv --far 1e-2 --points-only --json OUT.json",
    "ijb": "evaluate ijb FOLDER/set.npz --meta FOLDER/meta.txt --pairs FOLDER/templates.txt --far 1e-2 "
    "--gallery FOLDER/gallery.csv --probes FOLDER/probes.csv --closed-set --rank 1 --json OUT.json",
    "distractors": "evaluate distractors FOLDER/set.npz --distractors FOLDER/other.npz --far 1e-2 --fpir 1e-1 "
    "--json OUT.json",
    "suite": "evaluate suite FOLDER/suite --model FOLDER/network.yaml --far 0.5 --batch-size 1 --device cpu "
    "--json OUT.json",
    "calibrate": "calibrate FOLDER/set.npz --far 1e-1 --guarantee approximate --replicates 20 --check FOLDER/other.npz "
    "--out OUT.json",
    "gallery": "calibrate FOLDER/other.npz --gallery FOLDER/set.npz --fpir 2e-1 --guarantee expected --out OUT.json",
    "report": "report FOLDER/set.npz --far 1e-2 --one-far 1e-1 --out OUT",
    "align": "align FOLDER/photographs OUT --landmarks FOLDER/landmarks.json --every-face --device cpu",
    "pixels": "clean duplicates FOLDER/embedded.npz --faces FOLDER/faces --no-images --threshold 0.99 --out OUT",
}

#: A report has a thousand replicates, which are many small pieces.
QUICK = [verb for verb in VERBS if verb != "report"]
EACH = [pytest.param(verb, marks=() if verb in QUICK else pytest.mark.slow) for verb in VERBS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return inputs(tmp_path_factory.mktemp("inputs"))


def inputs(place: Path, images: int = 31) -> Path:
    """The inputs of all verbs, in this folder."""
    (place / "network.yaml").write_text("class_path: verisphere.backbones.Pixels\ninit_args: {side: 4}\n")
    random_numbers = np.random.default_rng(0)
    from PIL import Image

    for number in range(images):
        path = place / "faces" / f"person {number // 2}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random_numbers.integers(0, 256, (112, 112, 3), np.uint8)).save(path)
    main(["embed", str(place / "network.yaml"), str(place / "faces"), "--out", str(place / "embedded.npz")])
    protocols(place)
    person = np.arange(240) % 60
    centers = random_numbers.normal(size=(110, 12))
    for name, first in (("set", 0), ("other", 45)):
        rows = centers[person + first] + 0.6 * random_numbers.normal(size=(240, 12))
        identities = np.array([f"{name} {number + first}" for number in person])
        names = np.array([f"{number}.png" for number in range(240)])
        write_embeddings(place / f"{name}.npz", Embeddings(rows.astype(np.float32), names, identities))
    return place


def protocols(place: Path) -> None:
    """Lists of pairs, templates, a suite of one set, and photographs with their landmarks."""
    two = list(itertools.combinations(range(120), 2))
    lines = [
        f"{left}.png,{right}.png,{int(left % 60 == right % 60)},{number % 2}"
        for number, (left, right) in enumerate(two)
    ]
    (place / "pairs.csv").write_text("\n".join(["left,right,label,fold", *lines]))
    (place / "meta.txt").write_text("".join(f"{image}.png {image % 120} {image}\n" for image in range(240)))
    (place / "templates.txt").write_text(
        "".join(f"{left} {right} {int(left % 60 == right % 60)}\n" for left, right in two)
    )
    for name, templates in (("gallery", range(40)), ("probes", range(60, 120))):
        rows = [f"{template},{template % 60}" for template in templates]
        (place / f"{name}.csv").write_text("\n".join(["TEMPLATE_ID,SUBJECT_ID", *rows]))
    for person in range(8):
        for number in (1, 2):
            image = place / "suite" / "lfw" / f"P{person}" / f"P{person}_000{number}.png"
            image.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(place / "faces" / f"person {person}" / f"{2 * person + number - 1}.png", image)
    folds = [f"P{first}\t1\t2\nP{first}\t1\tP{first + 1}\t1\n" for first in range(0, 8, 2)]
    (place / "suite" / "lfw" / "pairs.txt").write_text("4\t1\n" + "".join(folds))
    points = [[38.3, 51.7], [73.5, 51.5], [56.0, 71.7], [41.5, 92.4], [70.7, 92.2]]
    faces = [{"landmarks": points}, {"landmarks": [[x + 9, y + 5] for x, y in points]}]
    shutil.copytree(place / "faces", place / "photographs")
    (place / "photographs" / "person 3" / "broken.png").write_text("no image")
    names = [str(path.relative_to(place / "photographs")) for path in (place / "photographs").rglob("*.png")]
    listed = {name: faces[: int(Path(name).stem) % 3] for name in names if "broken" not in name}
    (place / "landmarks.json").write_text(json.dumps(listed))


@pytest.fixture(scope="module")
def alone(folder: Path) -> "Alone":
    """The result of each verb by one process that keeps nothing and compares in blocks of the usual size."""
    return Alone(folder)


def call(verb: str, folder: Path, out: Path, *more: object) -> int:
    """The exit code of a verb."""
    words = [word.replace("FOLDER", str(folder)).replace("OUT", str(out)) for word in VERBS[verb].split()]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return main(["--default-allocator", *words, "--threads", "1", *map(str, more)])
    except SystemExit as leaving:
        return int(leaving.code or 0)


def ended(verb: str, folder: Path, out: Path, *more: object) -> Path:
    """Where the result of a verb is, or will be once rank 0 has written it."""
    place = out / verb.replace(" ", "-")
    place.mkdir(parents=True, exist_ok=True)
    assert call(verb, folder, place / "result", *more) == 0
    return place


def result_of(verb: str, folder: Path, out: Path, *more: object) -> dict[str, bytes]:
    """The bytes of each file of the result of a verb."""
    return files_of(ended(verb, folder, out, *more))


def files_of(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}


class Alone(dict[str, dict[str, bytes]]):
    """The result of each verb that is asked for, from inputs in this folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def __missing__(self, verb: str) -> dict[str, bytes]:
        self[verb] = result_of(verb, self.folder, self.folder / "alone")
        return self[verb]


# --- small pieces -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def small_pieces(log: Path | None = None, begun: Callable[[], object] = int) -> Iterator[None]:
    """Some twenty pieces for a small set; each that is kept is logged, and `begun` is called before it is kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(all_pairs, "TILE_ROWS", {"cpu": 24})
        patch.setattr(bootstrap, "REPLICATES_TOGETHER", 4)
        patch.setattr(top_k, "PROBES_TOGETHER", 16)
        patch.setattr(top_k, "CANDIDATES_HELD", 1)
        patch.setattr(top_k, "LEAST_PROBES", 16)
        patch.setattr(top_k, "LEAST_GALLERY_ROWS", 20)
        patch.setattr(listed_pairs, "SCORED_TOGETHER", 500)
        patch.setattr(listed, "PAIRS_WITHOUT_KEYS", 0)
        made = inspect.unwrap(listed.ListedPairs.__init__)  # of the types that a whole run of the tests checks
        patch.setattr(made, "__defaults__", (quietly, "bfloat16", 600))
        patch.setattr(streamed_rows, "ROWS_AT_ONCE", 16)
        patch.setattr(gallery, "_PROBES_AT_ONCE", 8)
        patch.setattr(align, "_PIECE", 4)
        patch.setattr(duplicates, "_IMAGES_AT_ONCE", 2)
        patch.setattr(duplicates, "_BATCHES_A_PIECE", 2)
        save = work.SealedFile.save

        def logged(file: work.SealedFile, state: dict[str, np.ndarray]) -> None:
            begun()
            save(file, state)
            if log is not None:
                with log.open("a") as lines:
                    lines.write(f"{file.path}\n")

        patch.setattr(work.SealedFile, "save", logged)
        yield


def rank_of_launch(verbs: str, folder: str, out: str) -> None:
    """What each rank does: some verbs, one after the other, that divide their pieces."""
    with small_pieces():
        for verb in verbs.split(", "):
            ended(verb, Path(folder), Path(out), "--work", Path(out) / f"work {verb}")


def rank_that_keeps_nothing(verb: str, folder: str, out: str) -> None:
    with small_pieces():
        ended(verb, Path(folder), Path(out))


def test_four_ranks_come_to_the_bytes_of_one_process(folder: Path, tmp_path: Path, alone: Alone):
    run(rank_of_launch, 4, ", ".join(QUICK), str(folder), str(tmp_path))
    for verb in QUICK:
        assert files_of(tmp_path / verb.replace(" ", "-")) == alone[verb], verb
        assert len([*(tmp_path / f"work {verb}").glob("*0?-*/*.npz")]) > 4, verb


def test_ranks_that_keep_nothing_come_to_the_bytes_of_one_process(folder: Path, tmp_path: Path, alone: Alone):
    run(rank_that_keeps_nothing, 3, "top k", str(folder), str(tmp_path))
    assert files_of(tmp_path / "top-k") == alone["top k"]


def rows_of_rank(folder: str, out: str) -> str:
    network, faces = Path(folder, "network.yaml"), Path(folder, "faces")
    try:
        return embed_faces(network, faces, Path(out), workers=0, device=torch.device("cpu"))
    except PartEnded as ended:
        return str(ended)


def test_rank_0_alone_holds_the_rows_of_a_file(folder: Path, tmp_path: Path):
    first, second = run(rows_of_rank, 2, str(folder), str(tmp_path / "rows.npz"))
    assert "31 images of 16 people" in first
    assert second == "rank 0 makes the result"


@pytest.mark.parametrize("verb", EACH)
def test_three_parts_come_to_the_bytes_of_one_process(verb: str, folder: Path, tmp_path: Path, alone: Alone):
    kept, place = tmp_path / "work", tmp_path / verb.replace(" ", "-")
    with small_pieces():
        for part in ("2/3", "1/3"):
            assert call(verb, folder, place / "result", "--work", kept, "--part", part) == 0
            assert files_of(place) == {}  # no result before the last piece
        assert result_of(verb, folder, tmp_path, "--work", kept, "--part", "3/3") == alone[verb]
        again = tmp_path / "again"
        merge = () if verb in ("duplicates", "pixels") else ("--merge",)
        assert result_of(verb, folder, again, "--work", kept, *merge) == alone[verb]


def test_parts_of_a_report_run_at_once(folder: Path, tmp_path: Path):
    words = ("--work", tmp_path / "work", "--part", "1/2")
    with alone_at(tmp_path / "report" / "result"):  # as another part would hold it
        assert call("report", folder, tmp_path / "report" / "result", *words) == 0


# --- kills ------------------------------------------------------------------------------------------------------------


def rank_that_is_killed(verb: str, folder: str, out: str, seed: int) -> None:
    """A rank of a launch that is killed some time after it has begun to keep its first or second piece."""
    chance, numbers = random.Random(f"{seed} {os.environ['RANK']}"), itertools.count(1)
    pieces, seconds = chance.randrange(1, 3), chance.uniform(0, 0.1)

    def kill() -> None:
        with (Path(out) / "kills").open("a") as lines:
            lines.write("killed\n")
        os.kill(os.getpid(), signal.SIGKILL)

    def begun() -> None:
        time.sleep(0.03)
        if next(numbers) == pieces:
            threading.Timer(seconds, kill).start()

    with small_pieces(Path(out) / "computed", begun):
        ended(verb, Path(folder), Path(out), "--work", Path(out) / "work")
    time.sleep(1)  # a kill at the end comes before the result is reported


def kept(out: Path) -> set[str]:
    return {str(path.relative_to(out)) for path in out.glob("work/*/0*.npz")}


def killed_and_continued(verb: str, folder: Path, out: Path, kills: int, seed: int = 0) -> dict[str, bytes]:
    """The result of a verb whose launches of other numbers of ranks are killed at random moments, rank by rank."""
    before, killed, launch = set[str](), 0, 0
    finished = False
    while killed < kills and not finished:
        try:
            run(rank_that_is_killed, (3, 2, 4)[launch % 3], verb, str(folder), str(out), 1000 * seed + launch)
            finished = True  # before as many were killed
        except WorkerFailed:
            launch, finished = launch + 1, bool(files_of(out / verb.replace(" ", "-")))  # killed with the result made
        assert before <= (before := kept(out))  # what was kept stays
        killed = len((out / "kills").read_text().split())
    assert before
    with small_pieces(out / "computed"):
        result = result_of(verb, folder, out / "final", "--work", out / "work")
    computed = (out / "computed").read_text().splitlines()
    assert len(computed) == len(set(computed))  # no piece that was kept is computed again
    assert 0 <= len(kept(out)) - len(computed) <= killed  # a kill may come between a piece and its line in the log
    return result


def test_killed_ranks_leave_their_pieces_for_any_number_of_ranks(folder: Path, tmp_path: Path, alone: Alone):
    assert killed_and_continued("all pairs", folder, tmp_path, kills=2) == alone["all pairs"]


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_thirty_kills_and_changes_of_the_number_of_ranks(verb: str, folder: Path, tmp_path: Path, alone: Alone):
    """Every rank of each launch is killed while it has pieces to compute, until thirty are, or all pieces are kept."""
    assert killed_and_continued(verb, folder, tmp_path, kills=30, seed=[*VERBS].index(verb)) == alone[verb]


# --- what cannot be ---------------------------------------------------------------------------------------------------


def test_the_folder_of_another_task_is_refused_in_a_line(folder: Path, tmp_path: Path, refused: Callable[..., str]):
    with small_pieces():
        result_of("duplicates", folder, tmp_path, "--work", tmp_path / "work")
        before = files_of(tmp_path)
        words = ("clean", "duplicates", folder / "other.npz", "--out", tmp_path / "other", "--work", tmp_path / "work")
        assert "the work of other inputs or options (verisphere clean duplicates " in refused(*words)
    assert files_of(tmp_path) == before


def test_a_part_of_nothing_is_refused(folder: Path, tmp_path: Path, refused: Callable[..., str]):
    embed = ("embed", folder / "network.yaml", folder / "faces", "--out", tmp_path / "rows.npz")
    assert "--part: allowed are 1/N to N/N, such as 3/16, got '0/4'" in refused(*embed, "--part", "0/4")
    assert "--merge takes pieces of a folder: name it by --work" in refused(*embed, "--merge")
    assert "pieces are missing; run any part" in refused(*embed, "--merge", "--work", tmp_path / "work")
    assert "is read here; write to another name" in refused(*embed, "--work", folder)
    assert not (tmp_path / "rows.npz").exists()
    shards = ("embed", folder / "network.yaml", folder / "faces", "--out", tmp_path / "shards")
    assert "a folder of shards " in refused(*shards, "--work", tmp_path / "new", "--part", "1/2")
    assert not (tmp_path / "shards").exists()
