"""A run of seconds on drawn faces, as a file of its network, its head and its people."""

from pathlib import Path

from torch import Tensor, nn

from verisphere.backbones.backbone import Backbone
from verisphere.train.recipe import read_recipe
from verisphere.train.session import train_run

RECIPE = """\
data: {class_path: verisphere.images.SyntheticFaces, init_args: {people: 6, images: 4, size: 48, seed: 3}}
backbone: {class_path: tiny_inversion.SmallNet, init_args: {side: 48}}
loss: {class_path: verisphere.losses.ArcFace, init_args: {margin: 0.3, scale: 16}}
optimizer: {rate: 0.05}
epochs: 10
batch_size: 8
workers: 0
"""
DATA = "class_path: verisphere.images.SyntheticFaces\ninit_args: {people: 6, images: 4, size: 48, seed: 3}\n"
OTHERS = "class_path: verisphere.images.SyntheticFaces\ninit_args: {people: 9, images: 3, size: 48, seed: 9}\n"
#: A network without training, of another seed: the judge.
JUDGE = """\
seed: 5
class_path: tiny_inversion.SmallNet
init_args: {side: 64}
"""


class SmallNet(Backbone):
    """Two convolutions and a matrix, each with batch norm; a class from outside verisphere, which has to be trusted."""

    def __init__(self, side: int) -> None:
        super().__init__(embedding_size=16)
        self.input_size = side, side
        self.layers = nn.Sequential(
            *(nn.Conv2d(3, 8, 4, stride=4, bias=False), nn.BatchNorm2d(8), nn.PReLU(8)),
            *(nn.Conv2d(8, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.PReLU(8), nn.Flatten()),
            *(nn.Linear(8 * (side // 8) ** 2, 16), nn.BatchNorm1d(16)),
        )

    def embed(self, images: Tensor) -> Tensor:
        """The network."""
        return self.layers(images)


def make(folder: Path) -> None:
    """Write `run/`, `data.yaml`, `others.yaml` and `judge.yaml` into a folder."""
    (folder / "recipe.yaml").write_text(RECIPE)
    train_run(read_recipe(folder / "recipe.yaml", []), folder / "run", device="cpu", threads=1)
    for name, content in (("data", DATA), ("others", OTHERS), ("judge", JUDGE)):
        (folder / f"{name}.yaml").write_text(content)
