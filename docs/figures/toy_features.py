"""Small trainings for plots of features: drawn faces, a small network, embeddings of 2 or 3 numbers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Float32, Float64, Int64
from torch import Tensor, nn

from verisphere.base.vocabulary import Progress, quietly
from verisphere.head.head import Head
from verisphere.images.synthetic.synthetic_faces import SyntheticFaces
from verisphere.losses import ClassLoss, NormFace, SphereFace2
from verisphere.score.cosine import angle, unit

_SIDE = 48  # pixels of a drawn face; averaged two by two before the network sees them
_FACES_AT_ONCE = 200  # faces drawn between two reports of progress
_CLIP = 5.0  # largest gradient norm


@dataclass(frozen=True)
class ToySize:
    """The size of a small training; the tests use a smaller one.

    Attributes:
        people: classes of the trainings with 2 or 3 numbers.
        many: classes of the training for the distributions of angles.
        images: training photographs of each class.
        held_out: further photographs of each class, which are plotted.
        width: width of the hidden layers.
        steps: steps of a training, without those for a start from another loss or for a bias alone.
        batch: photographs in a step.
        rate: learning rate at the start; it falls to 0 in a straight line.
        seed: seed of weights and order. The faces are always the same.
    """

    people: int = 8
    many: int = 100
    images: int = 100
    held_out: int = 40
    width: int = 128
    steps: int = 300
    batch: int = 128
    rate: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("people", 2), ("many", 2), ("images", 1), ("held_out", 1), ("width", 1), ("steps", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least {least}")


@dataclass(frozen=True, eq=False)
class Photographs:
    """Small images with their classes, for training and for the plots.

    Attributes:
        pixels, labels: for training.
        unseen, unseen_labels: other photographs of the same people.
    """

    pixels: Float32[Tensor, "images 3 height width"]
    labels: Int64[Tensor, "images"]
    unseen: Float32[Tensor, "unseen 3 height width"]
    unseen_labels: Int64[Tensor, "unseen"]

    @property
    def classes(self) -> int:
        """Number of people."""
        return int(self.labels.max()) + 1


@dataclass(frozen=True, eq=False)
class Features:
    """The features of a trained network for photographs that it has not seen.

    Attributes:
        unit: directions of the embeddings.
        labels: class of each embedding.
        centers: directions of the class centers.
    """

    unit: Float64[np.ndarray, "rows dim"]
    labels: Int64[np.ndarray, "rows"]
    centers: Float64[np.ndarray, "classes dim"]

    def nearest_is_own(self) -> float:
        """Share of the rows whose nearest center is their own."""
        return float(((self.unit @ self.centers.T).argmax(1) == self.labels).mean())

    def angles(self) -> Float64[np.ndarray, "rows"]:
        """Angle of each row to its own center, in degrees."""
        cosine = (self.unit * self.centers[self.labels]).sum(1)
        return np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))

    def text(self) -> str:
        """The share and the median angle as a line."""
        return (
            f"{len(self.labels)} photographs not trained on: {100 * self.nearest_is_own():.1f} % nearest to their own "
            f"center, median angle to it {np.median(self.angles()):.1f} degrees"
        )


def draw_photographs(
    people: int, images: int, held_out: int, difficulty: str = "easy", progress: Progress = quietly
) -> Photographs:
    """Drawn faces of this many people, as 24 x 24 colour images with values in [-1, 1]."""
    domains = ("studio",) if difficulty == "easy" else ("studio", "night", "street", "lookalike")
    faces = SyntheticFaces(people, images + held_out, difficulty=difficulty, domains=domains, size=_SIDE)
    parts = []
    starts = range(0, len(faces), _FACES_AT_ONCE)
    for start in progress(starts, "drawing faces", len(starts)):
        drawn = faces.images(range(start, min(start + _FACES_AT_ONCE, len(faces))))
        parts.append(F.avg_pool2d(drawn.float(), 2) / 127.5 - 1.0)
    pixels, place = torch.cat(parts), torch.arange(len(faces))
    labels, trained_on = place // (images + held_out), place % (images + held_out) < images
    return Photographs(pixels[trained_on], labels[trained_on], pixels[~trained_on], labels[~trained_on])


def small_network(size: int, width: int) -> nn.Sequential:
    """Two hidden layers with batch norm, then a linear one to `size` numbers."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(3 * (_SIDE // 2) ** 2, width),
        nn.BatchNorm1d(width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.BatchNorm1d(width),
        nn.ReLU(),
        nn.Linear(width, size),
    )


class ToyTraining:
    """A small network with class centers, and photographs to train them.

    Weights, centers and order follow from `how.seed`; the global generator is left as it was.

    Args:
        photographs: to train on, and to look at.
        loss: the class-center loss.
        size: numbers in an embedding.
        how: rates and counts.
    """

    def __init__(self, photographs: Photographs, loss: ClassLoss, size: int, how: ToySize) -> None:
        self.photographs, self.how = photographs, how
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(how.seed)
            self.network = small_network(size, how.width)
            self.head = Head(loss, photographs.classes, size)
        self._order = torch.Generator().manual_seed(how.seed)

    def take(self, loss: ClassLoss) -> None:
        """Continues with another loss over the same centers."""
        centers = self.head.centers.detach()
        with torch.random.fork_rng(devices=[]):
            self.head = Head(loss, self.photographs.classes, centers.shape[-1])
        self.head.centers.data.copy_(centers)

    def run(
        self,
        steps: int,
        margin_warmup: float = 0.0,
        only: nn.Parameter | None = None,
        rate: float | None = None,
        before: Callable[[int], None] | None = None,
        progress: Progress = quietly,
        named: str = "training",
    ) -> None:
        """Train by SGD with momentum 0.9, the rate falling to 0 in a straight line.

        Args:
            steps: how many.
            margin_warmup: share of them in which the margin grows from none to all of it.
            only: train this number alone, all else standing still.
            rate: learning rate at the start, if not `how.rate`.
            before: called with the number of steps done, before each and after the last.
            progress: shown while it runs.
            named: what it shows.
        """
        loss = self.head.loss
        parameters = [*self.network.parameters(), *self.head.parameters()] if only is None else [only]
        start = self.how.rate if rate is None else rate
        # weight decay would pull a bias that is fitted alone toward 0
        optimizer = torch.optim.SGD(parameters, lr=start, momentum=0.9, weight_decay=5e-4 if only is None else 0.0)
        self.network.train()
        self.head.train()
        for step, (images, labels) in progress(enumerate(self._batches(steps)), named, steps):
            if before is not None:
                before(step)
            loss.set_strength(min(1.0, step / (margin_warmup * steps)) if margin_warmup else 1.0)
            for group in optimizer.param_groups:
                group["lr"] = start * (1.0 - step / steps)
            optimizer.zero_grad()
            self.head(self.network(images), labels).loss.backward()
            nn.utils.clip_grad_norm_(parameters, _CLIP)
            optimizer.step()
        loss.set_strength(1.0)
        if before is not None:
            before(steps)

    def _batches(self, steps: int) -> Iterator[tuple[Tensor, Tensor]]:
        count = len(self.photographs.labels)
        for _ in range(steps):
            chosen = torch.randint(count, (min(self.how.batch, count),), generator=self._order)
            yield self.photographs.pixels[chosen], self.photographs.labels[chosen]

    @torch.no_grad()
    def features(self) -> Features:
        """Where the photographs that it has not seen come to lie."""
        embeddings = self._embedded(self.photographs.unseen)
        return Features(
            unit(embeddings.double()).numpy(),
            self.photographs.unseen_labels.numpy(),
            unit(self.head.centers[:, 0].double()).numpy(),
        )

    @torch.no_grad()
    def own_angles(self) -> Float[np.ndarray, "images"]:
        """Angles of the photographs trained on to their own centers, in degrees."""
        own = unit(self.head.centers[:, 0])[self.photographs.labels]
        cosine = (unit(self._embedded(self.photographs.pixels)) * own).sum(1)
        return angle(cosine).rad2deg().numpy()

    def _embedded(self, pixels: Float32[Tensor, "images 3 height width"]) -> Float32[Tensor, "images dim"]:
        """Embeddings by the network as it stands, batch norm by its running statistics."""
        training = self.network.training
        self.network.eval()
        embeddings = self.network(pixels)
        self.network.train(training)
        return embeddings


def train_softmax(
    loss: ClassLoss, photographs: Photographs, size: int, how: ToySize, progress: Progress = quietly
) -> Features:
    """Features of a softmax loss, its margin growing over the first third of the steps."""
    training = ToyTraining(photographs, loss, size, how)
    training.run(how.steps, margin_warmup=1 / 3, progress=progress, named=f"training {type(loss).__name__}")
    return training.features()


def train_sphereface2(
    loss: SphereFace2, photographs: Photographs, size: int, how: ToySize, progress: Progress = quietly
) -> Features:
    """Features of SphereFace2 with so few numbers that it needs help: NormFace first, then its bias alone, then all.

    The paper's start of the bias has every cosine at 0 in mind, as with hundreds of numbers. On a circle that eight
    classes share, other centers are 45 degrees away: the bias then accepts nearly everything, and the push away from
    all other centers moves the classes on top of one another, where they stay.

    Raises:
        ValueError: the loss has no bias.
    """
    if loss.bias is None:
        raise ValueError("the loss has no bias, which this training fits first")
    training = ToyTraining(photographs, NormFace(16.0), size, how)
    training.run(max(how.steps * 2 // 3, 1), progress=progress, named="training NormFace first")
    training.take(loss)
    training.run(max(how.steps // 3, 1), only=loss.bias, rate=20.0, progress=progress, named="training the bias")
    training.run(how.steps, progress=progress, named="training SphereFace2")
    return training.features()
