"""No reader waits at a pipe or reads a device for ever: each refuses it by name."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from verisphere.cli import main
from verisphere.files.calibration import read_calibration
from verisphere.files.growing import Place, growing_rows
from verisphere.files.image_lists import read_images
from verisphere.files.landmarks import read_landmarks
from verisphere.files.npz import read_npz
from verisphere.files.pair_lists.layouts import read_pairs
from verisphere.files.people_lists import read_people
from verisphere.files.scores import read_scores
from verisphere.files.work import SealedFile
from verisphere.images.packs.image_files import image_files
from verisphere.images.photos import Photos
from verisphere.measure.report_inputs import report_inputs
from verisphere.models.build import read_description
from verisphere.models.embed import open_model
from verisphere.models.foreign_weights import read_foreign_weights
from verisphere.models.model_json import read_model_json
from verisphere.models.onnx_file import read_onnx
from verisphere.ship.calibrate import calibrate
from verisphere.ship.card.data import read_settings
from verisphere.ship.card.figures import read_figures
from verisphere.study.experiments.arms import read_experiment
from verisphere.train.recipe import read_recipe

pytestmark = pytest.mark.timeout(20)

READERS: dict[str, Callable[[Path], object]] = {
    "a.npz": lambda path: read_npz(path, ("embeddings",)),
    "sweep.npz": lambda path: SealedFile(path).load(),
    "scores.csv": read_scores,
    "scores.npz": read_scores,
    "log.csv": lambda path: list(growing_rows(path, Place())),
    "people.txt": read_people,
    "pairs.txt": read_pairs,
    "pairs.csv": read_pairs,
    "images.lst": read_images,
    "list.txt": Photos,
    "x.zip": image_files,
    "faces.zip": Photos,
    "landmarks.json": read_landmarks,
    "landmarks.csv": read_landmarks,
    "calibrated.npz": lambda path: calibrate(path, ["1e-2"], "expected"),
    "reported.npz": lambda path: report_inputs([path]),
    "calibration.json": read_calibration,
    "figures.json": read_figures,
    "settings.yaml": read_settings,
    "recipe.yaml": lambda path: read_recipe(path, []),
    "plan.yaml": lambda path: read_experiment(path, []),
    "backbone.yaml": read_description,
    "model.yaml": lambda path: open_model(path, torch.device("cpu")),
    "model.json": read_model_json,
    "model.onnx": read_onnx,
    "backbone.pth": lambda path: read_foreign_weights(path, "arcface_torch"),
    "backbone.safetensors": lambda path: read_foreign_weights(path, "arcface_torch"),
}


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [pipe, endless])
@pytest.mark.parametrize("name", READERS)
def test_a_pipe_or_an_endless_device_is_refused_by_name(tmp_path: Path, name: str, make: Callable[[Path], None]):
    make(tmp_path / name)
    with pytest.raises(
        ValueError, match=f"{name}: (a pipe|a character device), not a regular file; save what it gives"
    ):
        READERS[name](tmp_path / name)


@pytest.mark.parametrize("make", [pipe, endless])
def test_among_images_the_one_that_is_no_file_is_named(tmp_path: Path, make: Callable[[Path], None]):
    (tmp_path / "Ann").mkdir()
    make(tmp_path / "Ann" / "1.png")
    with pytest.raises(ValueError, match=r"Ann/1\.png: (a pipe|a character device), not a regular file"):
        Photos(tmp_path).images([0])


@pytest.mark.parametrize(
    "words",
    [
        ["report", "loop", "--out", "page"],
        ["embed", "loop", "loop", "--out", "made.npz"],
        ["align", "loop", "crops"],
        ["train", "recipe.yaml", "--out", "loop", "--workers", "0"],
    ],
)
def test_a_circle_of_links_is_refused_by_name(words: list[str], tmp_path: Path, monkeypatch, capsys):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "recipe.yaml").write_text(
        "data: {class_path: verisphere.images.SyntheticFaces, init_args: {people: 4, images: 2}}\n"
        "backbone: {class_path: verisphere.backbones.Pixels, init_args: {side: 4}}\n"
        "loss: {class_path: verisphere.losses.ArcFace}\nbatch_size: 4\nepochs: 1\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    said = capsys.readouterr()
    (line,) = [line for line in said.err.splitlines() if line.startswith("verisphere: ")]
    assert "loop" in line
    assert "Traceback" not in said.err
