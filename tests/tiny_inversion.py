"""A run of seconds on drawn faces, as a file of its network, its head and its people."""

from pathlib import Path

from verisphere.train.recipe import read_recipe
from verisphere.train.session import train_run

RECIPE = """\
data: {class_path: verisphere.images.SyntheticFaces, init_args: {people: 6, images: 4, size: 48, seed: 3}}
backbone:
  class_path: verisphere.backbones.MobileFaceNet
  init_args: {embedding_size: 16, width: 0.25, face_height: 48, face_width: 48}
loss: {class_path: verisphere.losses.ArcFace, init_args: {margin: 0.3, scale: 16}}
optimizer: {rate: 0.05}
epochs: 2
batch_size: 8
workers: 0
"""
DATA = "class_path: verisphere.images.SyntheticFaces\ninit_args: {people: 6, images: 4, size: 48, seed: 3}\n"
OTHERS = "class_path: verisphere.images.SyntheticFaces\ninit_args: {people: 9, images: 3, size: 48, seed: 8}\n"
#: A network without training, of another seed: the judge.
JUDGE = """\
seed: 5
class_path: verisphere.backbones.MobileFaceNet
init_args: {embedding_size: 16, width: 0.25, face_height: 64, face_width: 64}
"""


def make(folder: Path) -> None:
    """Write `run/`, `data.yaml`, `others.yaml` and `judge.yaml` into a folder."""
    (folder / "recipe.yaml").write_text(RECIPE)
    train_run(read_recipe(folder / "recipe.yaml", []), folder / "run", device="cpu", threads=1)
    for name, content in (("data", DATA), ("others", OTHERS), ("judge", JUDGE)):
        (folder / f"{name}.yaml").write_text(content)
