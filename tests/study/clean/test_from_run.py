"""Sub-classes by the sub-centers of a run: angles by hand, interruptions, ranks, embeddings files, bad input."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import verisphere.study.clean.from_run as from_run
import verisphere.study.clean.nearest_class as nearest_class
from processes import run as run_processes
from tiny_cleaning import DEGREES, TO_DOMINANT, Angles, angles_run
from verisphere.base.identity import names_taken
from verisphere.base.vocabulary import Origin
from verisphere.files.embeddings import read_embeddings, write_embeddings
from verisphere.models.checkpoint import read_checkpoint
from verisphere.models.embed import embed_faces
from verisphere.study.clean.cleaning import JSON, KEPT, Cleaning
from verisphere.study.clean.from_run import found_by_centers, found_in_run
from verisphere.study.clean.rules import Rule
from verisphere.study.clean.sub_classes import SamplesInSubClasses


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return angles_run(tmp_path / "run")


def cleaned(run: Path, **options) -> SamplesInSubClasses:
    return found_in_run(run, Angles(), batch_size=2, trust=True, **options)


def same(ours: SamplesInSubClasses, theirs: SamplesInSubClasses) -> None:
    for name in ("labels", "sub_center", "dominant", "counts", "angle", "nearest"):
        np.testing.assert_array_equal(getattr(ours.sub, name), getattr(theirs.sub, name))
    if theirs.nearest_class is not None:
        assert ours.nearest_class is not None
        np.testing.assert_array_equal(ours.nearest_class.all_sub_centers, theirs.nearest_class.all_sub_centers)
        np.testing.assert_array_equal(ours.nearest_class.dominant_only, theirs.nearest_class.dominant_only)


def test_the_angles_to_the_own_sub_centers(made: Path):
    found = cleaned(made)
    assert found.people == ("Ann", "Ben")
    assert found.sub.sub_center.tolist() == [0, 0, 0, 1, 1, 0, 0, 0, -1]
    assert (found.sub.counts.tolist(), found.sub.dominant.tolist()) == ([[3, 2], [3, 0]], [0, 0])
    assert np.abs(found.sub.angle[:-1] - TO_DOMINANT).max() < 0.5  # pixels are whole numbers
    # 100 degrees are 10 from the sub-center at 90
    assert abs(found.sub.nearest[3] - 10) < 0.5
    # the image of nobody has no class, and is kept
    assert np.isnan(found.sub.angle[-1])
    assert Cleaning.by(Rule(), found).kept.tolist() == [True, True, True, False, False, True, True, False, True]
    assert found.method == f"sub-centers of {made}"


def test_rank_1_with_all_sub_centers_and_with_the_dominant_ones(made: Path, tmp_path: Path):
    # With all: Ben/3 at 100 degrees is 10 from Ann's second sub-center and 80 from its own: 7 of 8 are right.
    # With the dominant ones: Ann/4 (100) and Ann/5 (95) are nearer to Ben's (80, 85) than to Ann's: 6 of 8; but Ben/3
    # is now right. Of the five kept images all are right both ways.
    cleaning = Cleaning.by(Rule(), cleaned(made, rank_1=True))
    assert cleaning.rank_1 == {
        "all": {"all_sub_centers": 7 / 8, "dominant_only": 6 / 8},
        "kept": {"all_sub_centers": 1.0, "dominant_only": 1.0},
    }
    (tmp_path / "out").mkdir()
    cleaning.write(tmp_path / "out")
    assert json.loads((tmp_path / "out" / JSON).read_text())["rank_1"] == cleaning.rank_1
    assert "all images 0.8750 / 0.7500; kept images 1.0000 / 1.0000" in cleaning.text()
    assert Cleaning.by(Rule(), cleaned(made)).rank_1 is None


def test_one_center_a_class_is_dominant_for_every_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tiny_cleaning.CENTERS", [[[1.0, 0.0]], [[-2.0, 0.0]]])
    found = cleaned(angles_run(tmp_path / "run"))
    assert found.sub.in_dominant.tolist() == [True] * 8 + [False]
    assert np.abs(found.sub.angle[:-1] - TO_DOMINANT).max() < 0.5
    assert found.method.startswith("centers of ")


class Stop(Exception):
    pass


def test_an_interrupted_cleaning_continues_with_the_same_bits(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(from_run, "BATCHES", 1)  # five blocks of two images
    work, whole = tmp_path / "work", cleaned(made, rank_1=True)

    def stop_at(phase: str, after: int):
        def progress(items, description, total=None, done=0):
            for number, item in enumerate(items):
                if description == phase and number == after:
                    raise Stop
                yield item

        return progress

    with pytest.raises(Stop):
        cleaned(made, work=work, rank_1=True, progress=stop_at("embedding", 2))
    assert len(list(work.glob("*-cosines-*/*.npz"))) == 2
    faces = Angles()
    with pytest.raises(Stop):
        found_in_run(
            made, faces, batch_size=2, trust=True, work=work, rank_1=True,
            progress=stop_at("finding the nearest classes", 3),
        )  # fmt: skip
    assert faces.read == list(DEGREES)[4:]
    assert len(list(work.glob("*-nearest-*/*.npz"))) == 3
    faces = Angles()
    same(found_in_run(made, faces, batch_size=2, trust=True, work=work, rank_1=True), whole)
    assert faces.read == []


class Renamed(Angles):
    """The same images with the second one under another name."""

    def __init__(self) -> None:
        super().__init__()
        self.names = (self.names[0], "Ann/2b", *self.names[2:])

    def images(self, indices: Sequence[int]) -> torch.Tensor:
        self.read += [self.names[index] for index in indices]
        return Angles().images(indices)


def other_centers(run: Path) -> None:
    """The same checkpoint but for the centers."""
    shutil.rmtree(run / "checkpoints")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tiny_cleaning.CENTERS", [[[0.0, 1.0]], [[-2.0, 0.0]]])
        angles_run(run)


@pytest.mark.parametrize(
    "changed", ["nothing", "batch size", "batches of a block", "images", "checkpoint", "embeddings", "version"]
)
def test_work_is_used_again_for_the_same_cleaning_alone(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
):
    # all images are one block, so that its file has the same rows whatever the size of a batch
    cleaned(made, work=tmp_path / "work")
    faces = Renamed() if changed == "images" else Angles()
    options = {"batch_size": 3 if changed == "batch size" else 2, "rank_1": changed == "embeddings"}
    if changed == "batches of a block":
        monkeypatch.setattr(from_run, "BATCHES", 63)
    if changed == "checkpoint":
        other_centers(made)
    if changed == "version":
        monkeypatch.setattr(from_run, "versions", lambda: {"verisphere": "0", "torch": "0"})
    again = found_in_run(made, faces, trust=True, work=tmp_path / "work", **options)
    assert faces.read == ([] if changed == "nothing" else list(faces.names))
    same(again, found_in_run(made, type(faces)(), trust=True, **options))


def of_rank(folder: str) -> list:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(from_run, "BATCHES", 2)
        patch.setattr(nearest_class, "_ROWS", 1)  # so that each rank has tiles of every block but the last
        found = cleaned(Path(folder), rank_1=True)
    assert found.nearest_class is not None
    return [
        found.sub.angle[:-1].tolist(),
        found.sub.nearest[:-1].tolist(),
        found.sub.counts.tolist(),
        found.nearest_class.dominant_only.tolist(),
        found.nearest_class.all_sub_centers.tolist(),
    ]


def test_two_ranks_find_the_same_as_one(made: Path):
    alone = of_rank(str(made))
    assert run_processes(of_rank, 2, str(made)) == [alone, alone]


def test_an_embeddings_file_of_the_network_gives_the_same(made: Path, tmp_path: Path):
    (tmp_path / "data.yaml").write_text("class_path: tiny_cleaning.Angles\n")
    path = tmp_path / "rows.npz"
    embed_faces(made, tmp_path / "data.yaml", path, batch_size=4, device=torch.device("cpu"), trust=True)
    found = found_by_centers(made, path, trust=True, rank_1=True)
    same(found, cleaned(made, rank_1=True))
    assert (found.names, found.identities) == (list(DEGREES), list(Angles().identities))

    rows = read_embeddings(path)
    other = Origin("0" * 64, False, "float32", "data.yaml")
    write_embeddings(tmp_path / "other.npz", replace(rows, origin=other))
    own = read_checkpoint(made).sha256["backbone"][:12]
    with pytest.raises(ValueError, match=f"other.npz: not made as .*weights 0{{12}}[.]+ against {own}"):
        found_by_centers(made, tmp_path / "other.npz", trust=True)
    assert rows.origin is not None
    assert rows.origin.preprocessing is not None
    pixels = replace(rows.origin.preprocessing, mean=12.0)
    write_embeddings(tmp_path / "other.npz", replace(rows, origin=replace(rows.origin, preprocessing=pixels)))
    with pytest.raises(ValueError, match=r"other.npz: not made as .*mean .*12"):
        found_by_centers(made, tmp_path / "other.npz", trust=True)
    write_embeddings(tmp_path / "wide.npz", replace(rows, origin=None, embeddings=np.ones((9, 3), np.float32)))
    with pytest.raises(ValueError, match=r"wide.npz: 3 numbers an embedding, and the centers .* have 2"):
        found_by_centers(made, tmp_path / "wide.npz", trust=True)
    write_embeddings(tmp_path / "few.npz", rows.take(np.arange(5)))
    with pytest.raises(ValueError, match=r"few.npz: 1 people, .* on 2: 'Ben' is only in the run"):
        found_by_centers(made, tmp_path / "few.npz", trust=True)


def test_people_in_another_spelling_are_the_classes_where_names_are_merged(made: Path, tmp_path: Path):
    other = angles_run(tmp_path / "other", ["Ben", "ann"])
    with pytest.raises(
        ValueError, match=r"'Ann' is only in the data and 'ann' is only in the run; --names merge takes"
    ):
        cleaned(other)
    with names_taken("merge"):
        found = cleaned(other)
    assert found.people == ("Ben", "ann")
    assert found.sub.labels.tolist() == [1 - label if label >= 0 else label for label in cleaned(made).sub.labels]
    for names in (["Ann", "E\u0301va"], ["Ann", "Dan"]):
        with pytest.raises(ValueError, match=r"'Ben' is only in the data and '(E.u0301va|Dan)' .*; the data must be"):
            cleaned(angles_run(tmp_path / names[1], names))


def test_bad_input_is_named(made: Path, tmp_path: Path):
    other = angles_run(tmp_path / "other", ["Ann", "Cid"])
    with pytest.raises(
        ValueError, match=r"on 2: 'Ben' is only in the data and 'Cid' is only in the run; the data must"
    ):
        cleaned(other)
    (other / "people.txt").write_text("Ann\n")
    with pytest.raises(ValueError, match=r"people.txt: 1 people, and the head has 2 classes"):
        cleaned(other)
    (other / "people.txt").unlink()
    with pytest.raises(ValueError, match=r"no people.txt to say whose .* clean embeddings FILE` needs none"):
        cleaned(other)
    with pytest.raises(FileNotFoundError, match=r"neither a checkpoint .* clean embeddings FILE` needs none"):
        cleaned(tmp_path / "absent")
    with pytest.raises(ValueError, match=r"net.onnx: has no head; name the folder of a run"):
        cleaned(tmp_path / "net.onnx")
    (state,) = made.glob("checkpoints/*/state.json")
    fields = json.loads(state.read_text())
    fields["sha256"].pop("head")
    state.write_text(json.dumps(fields))
    with pytest.raises(ValueError, match=r"step-00000007: has no head; .* clean embeddings FILE` needs none"):
        cleaned(made)
    assert not (tmp_path / KEPT).exists()
