"""Embedding into a folder of shards: the rows of one file, by any number of starts and ranks."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from processes import forked, run
from verisphere.base.distributed import world
from verisphere.base.identity import names_taken
from verisphere.base.work import PartEnded, working
from verisphere.files.embeddings import read_embeddings
from verisphere.files.sharded import MANIFEST
from verisphere.files.work import WorkFolder
from verisphere.images.faces import Faces
from verisphere.images.packs.columns import Texts, coded
from verisphere.images.photos import Photos
from verisphere.images.synthetic.synthetic_faces import SyntheticFaces
from verisphere.measure.render import render_zip
from verisphere.models import embed as embedding
from verisphere.models.embed import embed_faces, open_model

CPU = torch.device("cpu")
NET = """class_path: verisphere.backbones.MobileFaceNet
init_args: {embedding_size: 8, width: 0.1, activation: relu}
"""


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    render_zip(SyntheticFaces(people=5, images=4, seed=3), folder / "faces.zip", None)
    (folder / "net.yaml").write_text(NET)
    embed_faces(folder / "net.yaml", folder / "faces.zip", folder / "whole.npz", device=CPU, batch_size=3)
    return folder


def in_shards(there: Path, out: Path, shards: int | None = 6, **how: object) -> str:
    return embed_faces(there / "net.yaml", there / "faces.zip", out, device=CPU, batch_size=3, shards=shards, **how)  # type: ignore[arg-type]


def alike(there: Path, out: Path) -> bool:
    one, other = read_embeddings(there / "whole.npz"), read_embeddings(out)
    same_names = one.names.tolist() == other.names.tolist() and one.identities.tolist() == other.identities.tolist()
    return same_names and one.embeddings.tobytes() == other.embeddings.tobytes()


@pytest.mark.parametrize("shards", [1, 6, 7, None])
def test_shards_of_any_size_hold_the_rows_of_one_file(there: Path, tmp_path: Path, shards: int | None) -> None:
    assert "20 images of 5 people, 8 numbers each" in in_shards(there, tmp_path / "out", shards)
    assert alike(there, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir() if path.suffix not in (".npy", ".npz")) == [
        MANIFEST
    ]


def test_merged_people_are_counted_once(there: Path, tmp_path: Path) -> None:
    """Also where the description of the images decides otherwise."""
    with zipfile.ZipFile(there / "faces.zip") as given, zipfile.ZipFile(tmp_path / "two.zip", "w") as spelled:
        for name in given.namelist():
            person, _, image = name.partition("/")
            spelled.writestr(f"{person}/{image}", given.read(name))
            spelled.writestr(f"{person.upper()}/other_{image}", given.read(name))
    images = {
        "class_path": "verisphere.images.Photos",
        "init_args": {"path": str(tmp_path / "two.zip"), "names": "exact"},
    }
    (tmp_path / "two.yaml").write_text(json.dumps(images))
    with names_taken("merge"):
        said = embed_faces(there / "net.yaml", tmp_path / "two.yaml", tmp_path / "two.npz", device=CPU)
    assert "40 images of 5 people" in said
    assert len(set(read_embeddings(tmp_path / "two.npz").identities.tolist())) == 5


def test_what_a_stopped_run_has_written_stands(there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    first = embedding.embed

    def stopping(*words: object, **how: object) -> object:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return first(*words, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(embedding, "embed", stopping)
    with pytest.raises(KeyboardInterrupt):
        in_shards(there, tmp_path / "out")
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("rows-*")}
    assert sorted(kept) == ["rows-00000000.npy", "rows-00000000.npz", "rows-00000001.npy", "rows-00000001.npz"]
    assert not (tmp_path / "out" / MANIFEST).exists()
    in_shards(there, tmp_path / "out")
    assert len(calls) == 5  # the third was stopped, and is made anew
    assert all((tmp_path / "out" / name).stat().st_mtime_ns == at for name, at in kept.items())
    assert alike(there, tmp_path / "out")


def unfinished(there: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of all shards, without the manifest."""
    with monkeypatch.context() as patch:
        patch.setattr(embedding, "write_manifest", lambda *_: (_ for _ in ()).throw(OSError("no space")))
        with pytest.raises(OSError, match="no space"):
            in_shards(there, out)


def test_batches_of_the_shard_under_way_stand(there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two shards, of 5 and 2 batches; a run that is stopped in the first one has lost less than a batch of it."""
    extracting = sys.modules["verisphere.backbones.extract"]
    read, begun = extracting.batches, list[object]()

    def stopping(*words: Any, **how: Any) -> Iterator[object]:
        for batch in read(*words, **how):
            begun.append(batch)
            if len(begun) == 5:
                raise KeyboardInterrupt
            yield batch

    monkeypatch.setattr(extracting, "batches", stopping)
    with pytest.raises(KeyboardInterrupt):
        in_shards(there, tmp_path / "out", 15)
    assert not list((tmp_path / "out").glob("rows-*"))
    in_shards(there, tmp_path / "out", 15)
    assert len(begun) - 5 == 7 - 4  # four of the seven batches were kept, and the fifth was lost
    assert alike(there, tmp_path / "out")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [MANIFEST, *(f"rows-0000000{shard}.{kind}" for shard in (0, 1) for kind in ("npy", "npz"))]


class Many(Faces):
    """Grey images whose names take little memory; equal ones are known without a look."""

    def __init__(self, count: int) -> None:
        self.names = Texts.of(f"{image // 5}/{image}" for image in range(count))
        self.identities = coded(str(image // 5) for image in range(count))

    def images(self, indices: Sequence[int]) -> torch.Tensor:
        return torch.zeros(1, 3, 112, 112, dtype=torch.uint8).expand(len(indices), 3, 112, 112)

    def contents(self, indices: Sequence[int]) -> bytes:
        return b"the same"


def test_embedding_into_shards_holds_the_names_of_the_set_alone(there: Path, tmp_path: Path, monkeypatch) -> None:
    """Arrays of all names, identities and settled people took 68 bytes an image more."""
    model, held = open_model(there / "net.yaml", CPU), list[int]()

    def stopping(*_: object, **__: object) -> None:
        held.append(tracemalloc.get_traced_memory()[0])
        raise KeyboardInterrupt

    monkeypatch.setattr(embedding, "open_model", lambda *_: model)
    monkeypatch.setattr(embedding, "write_shard", stopping)
    counts = 1_000, 5_000, 21_000  # the first loads what is loaded once
    for count in counts:
        monkeypatch.setattr(embedding, "open_faces", lambda *_, count=count: Many(count))
        tracemalloc.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                in_shards(there, tmp_path / str(count), 60)
        finally:
            tracemalloc.stop()
    assert (held[2] - held[1]) / (counts[2] - counts[1]) < 50


def test_another_image_between_those_at_the_ends_is_refused(
    there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels = SyntheticFaces(people=5, images=4, seed=3).images(range(20))
    for folder in (tmp_path, tmp_path / "new"):
        for number, image in enumerate(pixels):
            path = folder / "faces.zip" / f"p{number // 4}" / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image.permute(1, 2, 0).numpy()).save(path)
        (folder / "net.yaml").write_text(NET)
        pixels[7, 0, 50, 50] ^= 1
    unfinished(tmp_path, tmp_path / "out", monkeypatch)
    with pytest.raises(
        ValueError, match=r"work of other inputs or options \(.*faces.zip, 6 rows a shard in float32\), which differ"
    ):
        in_shards(tmp_path / "new", tmp_path / "out")
    in_shards(tmp_path, tmp_path / "out")


@pytest.mark.parametrize(
    ("old", "new"), [("relu}", "prelu}"), ("relu}", "relu, mean: 100}"), ("class", "seed: 1\nclass")]
)
def test_an_untrained_network_is_known_by_its_description(
    there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    shutil.copy(there / "faces.zip", tmp_path)
    (tmp_path / "net.yaml").write_text(NET)
    unfinished(tmp_path, tmp_path / "out", monkeypatch)
    with working(WorkFolder(tmp_path / "work")):
        in_shards(tmp_path, tmp_path / "rows.npz", None)
    (tmp_path / "net.yaml").write_text(NET.replace(old, new))
    with pytest.raises(ValueError, match="differ at step 01-shards"):
        in_shards(tmp_path, tmp_path / "out")
    with working(WorkFolder(tmp_path / "work")), pytest.raises(ValueError, match="differ at step 01-rows"):
        in_shards(tmp_path, tmp_path / "other.npz", None)


def test_other_domains_are_refused(there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faces = Photos(there / "faces.zip")
    monkeypatch.setattr("verisphere.models.embed.open_faces", lambda *_: faces)
    faces.domains = ["north", "south"] * 10
    unfinished(there, tmp_path / "out", monkeypatch)
    faces.domains = ["north", "east"] * 10
    with pytest.raises(ValueError, match="differ at step 01-shards"):
        in_shards(there, tmp_path / "out")


def test_parts_write_their_shards_and_the_last_one_the_manifest(there: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(ValueError, match="4 of 4 pieces are missing; run any part, or"):
        in_shards(there, out, merge=True)
    for part in (1, 0):
        with pytest.raises(PartEnded, match=rf"part {part + 1}/3 is computed: \d of 4 pieces are in "):
            in_shards(there, out, part=(part, 3))
    assert not (out / MANIFEST).exists()
    in_shards(there, out, part=(2, 3))
    assert alike(there, out)
    assert not (out / ".work").exists()


def rank_of_a_part(net: str, faces: str, out: str) -> str:
    """A rank of a part, whose rank 1 does not see yet what another part has just written."""
    listed, late = Path.iterdir, world().rank == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "iterdir", lambda path: () if late and path.parent.name == ".work" else listed(path))
        return embed_faces(
            Path(net), Path(faces), Path(out), device=CPU, batch_size=3, shards=6, workers=0, part=(0, 2)
        )


def test_ranks_of_a_part_agree_whether_it_is_the_last(there: Path, tmp_path: Path) -> None:
    with pytest.raises(PartEnded):
        in_shards(there, tmp_path / "out", part=(1, 2))
    words = [str(path) for path in (there / "net.yaml", there / "faces.zip", tmp_path / "out")]
    for line in run(rank_of_a_part, 2, *words):
        assert "20 images of 5 people" in line
    assert alike(there, tmp_path / "out")


def test_shards_that_parts_have_written_are_merged(there: Path, tmp_path: Path) -> None:
    for part in (0, 1):
        with pytest.raises(PartEnded):
            in_shards(there, tmp_path / "out", part=(part, 3))
    written = tmp_path / "out" / ".part-00ff00ff-rows-00000002.npy"  # by a part that still runs
    written.touch()
    with pytest.raises(ValueError, match="1 of 4 pieces are missing; run part 3/3"):
        in_shards(there, tmp_path / "out", merge=True)
    assert written.exists()
    in_shards(there, tmp_path / "out")
    assert alike(there, tmp_path / "out")
    assert not written.exists()


def test_a_shard_without_its_piece_is_written_again_and_one_whose_file_is_gone_is_named(
    there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished(there, tmp_path / "out", monkeypatch)
    rows, (piece,) = tmp_path / "out" / "rows-00000000.npy", (tmp_path / "out").glob(".work/01-*/00000000.npz")
    rows.unlink()
    with pytest.raises(FileNotFoundError, match=r"rows-00000000\.npy: .* is missing; remove .*00000000\.npz"):
        in_shards(there, tmp_path / "out")
    piece.unlink()  # as after a kill between the files of a shard
    in_shards(there, tmp_path / "out")
    assert alike(there, tmp_path / "out")


def test_a_folder_that_was_begun_otherwise_is_refused(
    there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished(there, tmp_path / "out", monkeypatch)
    with pytest.raises(ValueError, match=r"6 rows a shard in float32\), which differ at step 01-shards"):
        in_shards(there, tmp_path / "out", store="int8")
    in_shards(there, tmp_path / "out")
    with pytest.raises(FileExistsError, match="a folder that is not empty"):
        in_shards(there, tmp_path / "out")


def test_what_all_shards_record_is_that_of_the_first_start(
    there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = replace(open_model(there / "net.yaml", CPU), sha256="ab" * 32)  # as of a trained network
    monkeypatch.setattr("verisphere.models.embed.open_model", lambda *_: model)
    with names_taken("merge"):
        unfinished(there, tmp_path / "out", monkeypatch)
        monkeypatch.chdir(there)
        how = {"device": CPU, "batch_size": 3, "shards": 6}
        with pytest.raises(ValueError, match=r"/faces\.zip, 6 rows a shard in float32\), which differ at step"):
            embed_faces(there / "net.yaml", Path("faces.zip"), tmp_path / "out", **how)
    with pytest.raises(ValueError, match="differ at step 01-shards"):
        in_shards(there, tmp_path / "out")
    with names_taken("merge"):
        in_shards(there, tmp_path / "out")
    assert alike(there, tmp_path / "out")


@pytest.mark.parametrize(
    ("out", "how", "message"),
    [
        ("out.csv", {}, "a folder of shards in no suffix"),
        ("out.npz", {"shards": 5}, "--shards and --store are of a folder"),
        ("out.npz", {"shards": None, "store": "int8"}, "--shards and --store are of a folder"),
        ("out", {"shards": 0}, "--shards is 0"),
        ("out", {"flip": True, "workers": -1}, "--workers -1"),
    ],
)
def test_wrong_options_leave_nothing(there: Path, tmp_path: Path, out: str, how: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        in_shards(there, tmp_path / out, **how)
    assert not list(tmp_path.iterdir())


def test_stored_rows_are_near_and_the_line_says_how_near(there: Path, tmp_path: Path) -> None:
    line = in_shards(there, tmp_path / "out", store="int8")
    assert "4 shards of int8; no score moved by more than 0.0" in line
    assert json.loads((tmp_path / "out" / MANIFEST).read_text())["store"] == "int8"
    one, other = (read_embeddings(path).embeddings for path in (there / "whole.npz", tmp_path / "out"))
    assert 0 < np.abs(one - other).max() <= np.abs(one).max() / 254 * 1.001


@pytest.mark.slow
def test_killed_while_it_embeds_and_continued_by_another_number_of_ranks(there: Path, tmp_path: Path) -> None:
    command = ["embed", there / "net.yaml", there / "faces.zip", "--out", tmp_path / "out"]
    command += ["--shards", "1", "--batch-size", "1", "--workers", "0"]
    alone = [*forked(), *map(str, command)]
    process = subprocess.Popen(alone, stderr=subprocess.DEVNULL)
    while process.poll() is None and len(list((tmp_path / "out").glob("rows-*.npz"))) < 3:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    ranks = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "verisphere"]
    subprocess.run([*ranks, *map(str, command)], check=True, env=os.environ, capture_output=True)
    embed_faces(there / "net.yaml", there / "faces.zip", tmp_path / "one.npz", device=CPU, batch_size=1)
    one, other = read_embeddings(tmp_path / "one.npz"), read_embeddings(tmp_path / "out")
    assert one.embeddings.tobytes() == other.embeddings.tobytes()


KILLED_ONCE = """
import os, signal, sys
from verisphere.cli import main
from verisphere.models import embed

write, start = embed.write_shard, os.environ["TORCHELASTIC_RESTART_COUNT"]


def writing(out, number, *rest):
    made = write(out, number, *rest)
    with (out.parent / "written").open("a") as lines:
        lines.write(f"{start} {number}\\n")
    if (start, os.environ["RANK"]) == ("0", "1") and number >= 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return made


embed.write_shard = writing
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_torchrun_starts_its_ranks_again_after_one_was_killed(there: Path, tmp_path: Path) -> None:
    """By `--max-restarts`, as docs/distributed.md has it: only the shards that were under way are written twice."""
    (tmp_path / "killed_once.py").write_text(KILLED_ONCE)
    ranks = ["--standalone", "--nproc-per-node", "2", "--max-restarts", "3", tmp_path / "killed_once.py"]
    command = ["embed", there / "net.yaml", there / "faces.zip", "--out", tmp_path / "out", "--shards", "1"]
    words = [sys.executable, "-m", "torch.distributed.run", *ranks, *command, "--batch-size", "3", "--workers", "0"]
    subprocess.run([*map(str, words)], check=True, env=os.environ, capture_output=True)
    written = [line.split() for line in (tmp_path / "written").read_text().splitlines()]
    assert {start for start, _ in written} == {"0", "1"}
    assert {int(shard) for _, shard in written} == set(range(7))
    assert len(written) <= 7 + 2  # one of each rank
    assert alike(there, tmp_path / "out")
