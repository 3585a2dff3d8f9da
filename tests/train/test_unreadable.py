"""Training on a set with images that cannot be read, and with images of nobody who is known."""

import logging
from pathlib import Path

import pytest
import torch
from PIL import Image

from interrupting import Interrupting
from tiny_runs import files, metrics, read
from verisphere.images.photos import Photos
from verisphere.models.checkpoint import read_checkpoint
from verisphere.train.loop import TrainingStopped
from verisphere.train.session import train_run

pytestmark = pytest.mark.usefixtures("process_as_it_was")

SPOILT = ("p2/0.png", "p3/1.png")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Twenty photographs of five people, two of which cannot be decoded."""
    from own_parts import Noise

    for index, pixels in enumerate(Noise().images(range(20))):
        path = tmp_path / "photos" / f"p{index // 4}" / f"{index % 4}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(path)
    for name in SPOILT:
        (tmp_path / "photos" / name).write_bytes(b"no image")
    return tmp_path / "photos"


def on(photos: Path, *more: str) -> list[str]:
    return ["--data", f"{{class_path: verisphere.images.Photos, init_args: {{path: {photos}, size: [16, 16]}}}}", *more]


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_training_ends_and_names_the_image(recipe: Path, photos: Path, tmp_path: Path, workers: str):
    with pytest.raises(
        ValueError, match=rf"{photos}/p[23]/[01]\.png: not an image: the file's first bytes match no known format"
    ):
        train_run(read(recipe, *on(photos, "--workers", workers)), tmp_path / "run")
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.parametrize("more", [[], ["--workers", "2"], ["--in_memory", "true"]], ids=["", "workers", "in memory"])
def test_unreadable_images_are_skipped_and_counted(
    recipe: Path, photos: Path, tmp_path: Path, more: list[str], caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING)
    train_run(read(recipe, *on(photos, "--max_unreadable", "2", *more)), tmp_path / "run")
    assert metrics(tmp_path / "run")[-1]["unreadable_images"] == 2
    assert read_checkpoint(tmp_path / "run").state["unreadable"] == [8, 13]
    skipped = [record.getMessage() for record in caplog.records if "skipped" in record.getMessage()]
    assert len(skipped) == 2
    assert all(any(name in line for line in skipped) for name in SPOILT)
    with pytest.raises(ValueError, match="2 images cannot be read, more than max_unreadable 1 allows"):
        train_run(read(recipe, *on(photos, "--max_unreadable", "1", *more)), tmp_path / "other")


def test_no_label_shifts(recipe: Path, photos: Path, tmp_path: Path):
    """The run is that on a set in which the following image stands in the place of each unreadable one."""
    train_run(read(recipe, *on(photos, "--max_unreadable", "2")), tmp_path / "skipped")
    lines = []
    for index, name in enumerate(names := Photos(photos, size=(16, 16)).names):
        shown = names[index + 1] if name in SPOILT else name
        copied = tmp_path / "copies" / f"{index:02}.png"
        copied.parent.mkdir(exist_ok=True)
        copied.write_bytes((photos / shown).read_bytes())
        lines.append(f"copies/{copied.name}\t{shown.split('/')[0]}\n")
    (tmp_path / "list.txt").write_text("".join(lines))
    train_run(read(recipe, *on(tmp_path / "list.txt")), tmp_path / "copied")
    skipped, copied = (
        {name: data for name, data in files(tmp_path / run).items() if name != "name"} for run in ("skipped", "copied")
    )
    assert skipped == copied


def test_a_person_without_a_readable_image_stays_a_class(recipe: Path, photos: Path, tmp_path: Path):
    for image in (photos / "p1").iterdir():
        image.write_bytes(b"")
    held = train_run(
        read(recipe, *on(photos, "--max_unreadable", "6", "--in_memory", "true")), tmp_path / "held"
    ).head.centers
    streamed = train_run(read(recipe, *on(photos, "--max_unreadable", "6")), tmp_path / "read").head.centers
    assert torch.equal(held, streamed)
    assert held.shape[0] == 5


def test_a_resumed_run_counts_on(recipe: Path, photos: Path, tmp_path: Path):
    words = on(photos, "--max_unreadable", "2", "--shuffle_buffer", "5")
    train_run(read(recipe, *words), tmp_path / "whole")
    with pytest.raises(TrainingStopped):
        train_run(read(recipe, *words), tmp_path / "parts", progress=Interrupting(4))
    train_run(read(recipe, *words), tmp_path / "parts", resume=True)
    assert files(tmp_path / "parts") == files(tmp_path / "whole")
    assert metrics(tmp_path / "parts") == metrics(tmp_path / "whole")


def test_a_shuffle_buffer_excludes_groups_of_a_person(recipe: Path):
    with pytest.raises(ValueError, match=r"images_per_identity is 2, .* shuffle_buffer is 5, .* set one of them"):
        read(recipe, "--images_per_identity", "2", "--shuffle_buffer", "5")
    with pytest.raises(ValueError, match="shuffle_buffer is 0; it holds at least 1 image, or is null"):
        read(recipe, "--shuffle_buffer", "0")


def test_images_of_nobody_are_negatives_for_losses_that_sum(recipe: Path, photos: Path, tmp_path: Path):
    (photos / "p4").rename(photos / "-1")
    words = on(photos, "--max_unreadable", "2")
    trained = train_run(read(recipe, *words, "--loss", "verisphere.losses.SphereFace2"), tmp_path / "run")
    assert trained.head.centers.shape[0] == 4
    with pytest.raises(ValueError, match=r"data: 4 labels are -1 \('no known class'\), but ArcFace needs a class"):
        train_run(read(recipe, *words, "--loss", "verisphere.losses.ArcFace"), tmp_path / "other")
    assert not (tmp_path / "other").exists()
