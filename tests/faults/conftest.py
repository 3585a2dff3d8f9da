"""What the fault tests share: a small world of files, and the command line in a process that something happens to."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from faults.verbs import Act, environment, random_set
from foreign_graphs import graph, written
from verisphere.files.embeddings import write_embeddings

RECIPE = """\
data: {class_path: own_parts.Noise, init_args: {people: 6, images: 6}}
backbone: {class_path: own_parts.TinyNet}
loss: {class_path: own_parts.OwnLoss}
optimizer: {rate: 0.02}
epochs: 4
batch_size: 6
log_every: 1
save_every: 0.5
workers: 0
"""


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe, a finished run, aligned images and embeddings; copied by whoever changes them."""
    place = tmp_path_factory.mktemp("made")
    (place / "recipe.yaml").write_text(RECIPE)
    (place / "network.yaml").write_text("class_path: verisphere.backbones.Pixels\ninit_args: {side: 4}\n")
    generator = np.random.default_rng(0)
    for number in range(24):
        path = place / "faces" / f"person {number // 2}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(generator.integers(0, 256, (112, 112, 3), np.uint8)).save(path)
    write_embeddings(place / "set.npz", random_set(120, 2, 16))
    written(place / "net.onnx", graph())
    return place


@pytest.fixture
def world(made: Path, tmp_path: Path) -> Path:
    """The same in a folder of one's own."""
    return Path(shutil.copytree(made, tmp_path / "world"))


@pytest.fixture
def act(world: Path) -> Act:
    """Runs a verb in that folder, with something that happens to it."""

    def run(*words: object, **happens: int) -> subprocess.CompletedProcess[str]:
        options = [word for name, value in happens.items() for word in (f"--{name}", str(value))]
        call = [sys.executable, "-m", "faults.acting", *options, "--", *map(str, words)]
        return subprocess.run(call, cwd=world, env=environment(), capture_output=True, text=True, timeout=300)

    return run
