"""A tiny suite: four people of three images each in LFW's layout, and sets that share these images."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

PEOPLE = ("Ann_Able", "Bo_Case", "Cy_Dunn", "Dee_East")
LFW = """2\t2
Ann_Able\t1\t2
Bo_Case\t1\t2
Ann_Able\t1\tBo_Case\t1
Ann_Able\t2\tBo_Case\t2
Cy_Dunn\t1\t2
Dee_East\t1\t2
Cy_Dunn\t1\tDee_East\t1
Cy_Dunn\t2\tDee_East\t2
"""


def image(path: Path, seed: int) -> None:
    """Write noise, the same for the same seed, as an image file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(256, size=(16, 16, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A network without weights: the pixels themselves."""
    path = tmp_path / "pixels.yaml"
    path.write_text("backbone:\n  class_path: verisphere.backbones.Pixels\n  init_args:\n    side: 4\n")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """LFW with images as PNG, a list of one's own over the same images, groups of other images, and something else."""
    suite = tmp_path / "suite"
    for person, name in enumerate(PEOPLE):
        for number in range(3):
            image(suite / "lfw" / "images" / name / f"{name}_{number + 1:04d}.png", 10 * person + number)
    (suite / "lfw" / "pairs.txt").write_text(LFW)
    (suite / "own").mkdir()
    names = [f"{name}/{name}_000{number}.jpg" for name in PEOPLE for number in (1, 3)]
    rows = [f"{names[2 * n]},{names[2 * n + 1]},1,{n % 2}" for n in range(4)]
    rows += [f"{names[2 * n]},{names[(2 * n + 3) % 8]},0,{n % 2}" for n in range(4)]
    (suite / "own" / "pairs.csv").write_text("left,right,label,fold\n" + "\n".join(rows) + "\n")
    for person in range(6):
        for number in range(2):
            image(
                suite / "races" / ("East", "West")[person % 2] / f"p{person}" / f"{number}.png",
                100 + 2 * person + number,
            )
    image(suite / "holiday" / "1.png", 7)
    return suite
