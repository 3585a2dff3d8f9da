"""A backbone, a loss and a data set as a user would bring them along: named by import path, and tiny."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from verisphere.backbones.backbone import Backbone
from verisphere.base.vocabulary import ImageSource
from verisphere.images.faces import Faces
from verisphere.losses.class_loss import ClassLoss, Rows


class TinyNet(Backbone):
    """A filter, batch norm, PReLU, dropout and a matrix: one of each thing that state and random numbers hide in."""

    input_size = (16, 16)

    def __init__(self, embedding_size: int = 8, dropout: float = 0.2) -> None:
        super().__init__(embedding_size)
        self.layers = nn.Sequential(
            nn.Conv2d(3, 4, 3, stride=4, bias=False), nn.BatchNorm2d(4), nn.PReLU(4), nn.Flatten(), nn.Dropout(dropout)
        )
        self.project = nn.Linear(4 * 4 * 4, embedding_size)

    def embed(self, images: Tensor) -> Tensor:
        """The network."""
        return self.project(self.layers(images))


class LargeNet(TinyNet):
    """Takes images of which a batch fills a small memory."""

    input_size = (1024, 1024)


class PlainNet(TinyNet):
    """No batch norm, no dropout, and a parameter that nothing uses: what an image gives depends on it alone."""

    def __init__(self, embedding_size: int = 8) -> None:
        super().__init__(embedding_size, dropout=0.0)
        self.layers[1] = nn.Identity()
        self.unused = nn.Parameter(torch.ones(3, 2))


class FrozenNet(TinyNet):
    """Its batch norm stays as it is."""

    def __init__(self, embedding_size: int = 8) -> None:
        super().__init__(embedding_size, dropout=0.0)

    def train(self, mode: bool = True) -> "FrozenNet":
        """Into this mode, but for the batch norm."""
        super().train(mode)
        self.layers[1].eval()
        return self


class FixedNet(Backbone):
    """Without a parameter: only the head learns."""

    input_size = (16, 16)

    def __init__(self) -> None:
        super().__init__(12)
        self.register_buffer("offset", torch.tensor(0.1))

    def embed(self, images: Tensor) -> Tensor:
        """Mean colours of the quarters."""
        return nn.functional.avg_pool2d(images, 8).flatten(1) + self.offset


class OwnLoss(ClassLoss):
    """A margin that is learned, and a running mean: both must outlive an interruption."""

    def __init__(self, scale: float = 16.0) -> None:
        super().__init__(scale)
        self.margin = nn.Parameter(torch.tensor(0.1))
        self.register_buffer("mean_cosine", torch.zeros(()))

    def observe(self, rows: Rows) -> None:
        """Follow the own cosines."""
        self.mean_cosine.lerp_(rows.own.mean(), 0.1)

    def context(self, rows: Rows) -> tuple[Tensor, ...]:
        """The margin in force."""
        return (self.strength * self.margin * (1 + self.mean_cosine),)

    def own(self, cosine: Tensor, margin: Tensor) -> Tensor:
        """The own logit, made smaller."""
        return self.scale * (cosine - margin)

    def others(self, cosine: Tensor, margin: Tensor) -> Tensor:
        """The others as they are."""
        return self.scale * cosine

    def finish(self, own: Tensor, rest: Tensor, margin: Tensor) -> Tensor:
        """The softmax cross entropy."""
        return nn.functional.softplus(rest - own)


class DrawsForItself(ClassLoss):
    """A random margin for each row from the global generator, whose state is another on each rank."""

    def __init__(self) -> None:
        super().__init__(16.0)

    def context(self, rows: Rows) -> tuple[Tensor, ...]:
        """The margins drawn."""
        return (0.5 + 0.2 * torch.randn_like(rows.own),)

    def own(self, cosine: Tensor, margin: Tensor) -> Tensor:
        """The own logit, made smaller."""
        return self.scale * (cosine - margin)

    def finish(self, own: Tensor, rest: Tensor, margin: Tensor) -> Tensor:
        """The softmax cross entropy."""
        return nn.functional.softplus(rest - own)


class Noise(Faces):
    """Random images, each person's around a colour of their own."""

    def __init__(self, people: int = 5, images: int = 4, side: int = 16) -> None:
        self.side = side
        self.names = tuple(f"p{person}/{image}.png" for person in range(people) for image in range(images))
        self.identities = tuple(f"p{person}" for person in range(people) for _ in range(images))

    def images(self, indices: Sequence[int]) -> Tensor:
        """The images at these positions."""
        made = []
        for index in indices:
            colour = torch.Generator().manual_seed(int(self.identities[index][1:]))
            noise = torch.Generator().manual_seed(1000 + index)
            base = torch.randint(0, 200, (3, 1, 1), generator=colour)
            made.append(base + torch.randint(0, 56, (3, self.side, self.side), generator=noise))
        return torch.stack(made).to(torch.uint8)


class Mislabelled(Noise):
    """The last image of each person truly shows the next one."""

    def __init__(self, people: int = 6, images: int = 4, side: int = 16) -> None:
        super().__init__(people, images, side)
        truth = list(self.identities)
        for person in range(people):
            truth[(person + 1) * images - 1] = f"p{(person + 1) % people}"
        self.true_identities = tuple(truth)


class Sketches(Noise):
    """A set that says of itself that its images are drawn."""

    @property
    def source(self) -> ImageSource:
        """Where the images come from."""
        return ImageSource("sketches", drawn=True)


class Rooms(Noise):
    """A set with domains: half of the people in a bright room, half in a dark one."""

    def __init__(self, people: int = 12, images: int = 3, side: int = 16) -> None:
        super().__init__(people, images, side)
        self.domains = tuple(("bright", "dark")[int(person[1:]) % 2] for person in self.identities)


class Spoilt(Noise):
    """The last image cannot be read."""

    def images(self, indices: Sequence[int]) -> Tensor:
        """The images at these positions."""
        if len(self) - 1 in indices:
            raise ValueError(f"{self.names[-1]}: not an image")
        return super().images(indices)
