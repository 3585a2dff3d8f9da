"""A run of two classes whose network reads an angle off two pixels, so that all angles can be worked out by hand.

Sub-centers lie at 0 and 90 degrees (Ann), 180 and 270 degrees (Ben). Of Ann, three images are nearest to the first
sub-center, two to the second; of Ben, all are nearest to the first.
"""

from collections.abc import Sequence
from math import cos, radians, sin
from pathlib import Path

import torch
from torch import Tensor

from verisphere.backbones.backbone import Backbone
from verisphere.base.vocabulary import NOBODY
from verisphere.images.faces import Faces
from verisphere.models.checkpoint import save_checkpoint

DEGREES = {
    "Ann/1": 10, "Ann/2": 340, "Ann/3": 350, "Ann/4": 100, "Ann/5": 95,
    "Ben/1": 210, "Ben/2": 190, "Ben/3": 100, "street": 45,
}  # fmt: skip
#: Angles to the dominant sub-center, at 0 degrees for Ann and at 180 for Ben.
TO_DOMINANT = [10, 20, 10, 100, 95, 30, 10, 80]
CENTERS = [[[1.0, 0.0], [0.0, 3.0]], [[-2.0, 0.0], [0.0, -1.0]]]
DATA = "class_path: tiny_cleaning.Angles\n"


class TwoPixels(Backbone):
    """The embedding is the red of the two pixels."""

    input_size = (1, 2)

    def __init__(self) -> None:
        super().__init__(2)
        self.register_buffer("one", torch.ones(()))

    def embed(self, images: Tensor) -> Tensor:
        """The two pixels."""
        return images[:, 0, 0, :] * self.one


class Angles(Faces):
    """Images of two pixels, which stand for angles; counts the images that are read."""

    def __init__(self) -> None:
        self.names = tuple(DEGREES)
        self.identities = tuple(name.split("/")[0] if "/" in name else NOBODY for name in DEGREES)
        self.read: list[str] = []

    def images(self, indices: Sequence[int]) -> Tensor:
        """The images at these positions."""
        self.read += [self.names[index] for index in indices]
        angles = [radians(DEGREES[self.names[index]]) for index in indices]
        pixels = torch.tensor([[cos(angle), sin(angle)] for angle in angles]) * 127.5 + 127.5
        return pixels.round().to(torch.uint8)[:, None, None, :].expand(-1, 3, -1, -1)


def angles_run(folder: Path, people: Sequence[str] = ("Ann", "Ben")) -> Path:
    """The run."""
    save_checkpoint(
        folder,
        7,
        {"backbone": dict(TwoPixels().state_dict()), "head": {"centers": torch.tensor(CENTERS)}},
        {"backbone": {"class_path": "tiny_cleaning.TwoPixels", "init_args": {}}},
    )
    (folder / "people.txt").write_text("".join(f"{person}\n" for person in people))
    return folder
