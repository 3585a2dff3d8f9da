"""Gradient descent on pixels: images that a network takes for given people (ArcFace, algorithm 1).

Deng et al. 2021, arXiv:1801.07698v4, sections 3.3 and 4.5. Images begin as noise from N(0, 1), a value v being the
pixel 127.5 + 127.5 v. Batches are made one after another; each has its own noise and its own steps of Adam, so a batch
does not depend on the others; a finished batch is stored.

Of the terms that are minimised (section 3.3, eq. 8) the paper does not state whether the norms of the batch-norm term
are squared, nor whether total variation and L2 are sums or means. Here the norms are not squared and are added over the
layers, as in the paper's formula; total variation and L2 are means over the values, so that their weights do not depend
on the size of the images.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from math import cos, isfinite, pi
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from verisphere.backbones.backbone import Backbone
from verisphere.base.seeds import Stream, check_seed, mixed_seed
from verisphere.base.vocabulary import Progress, check_word, quietly
from verisphere.base.work import Arrays, ranges, results, working
from verisphere.files.definitions import build, complete, options, read_based, with_values
from verisphere.files.errors import errors_naming
from verisphere.files.packaged_recipes import find_recipe
from verisphere.files.work import SealedFile, WorkFolder
from verisphere.head import Head
from verisphere.score.cosine import unit


class BatchNormStatistics:
    """The distance of the statistics of a batch from those that the batch norms of a network have stored.

    Inside the context the inputs of every batch norm are recorded; `distance` takes those of the last forward: the sum
    over the layers of |mean - running mean|_2 + |std - running std|_2, with the norms over the channels and std =
    sqrt(variance + eps), the variance being the biased one and eps that of the layer. The network must be in evaluation
    mode, so that the batch does not change the stored statistics.

    >>> network = nn.BatchNorm2d(1).eval()  # running mean 0, running variance 1
    >>> with BatchNormStatistics(network) as statistics:
    ...     _ = network(torch.tensor([3.0, 5.0]).reshape(2, 1, 1, 1))
    ...     distance = statistics.distance()
    >>> round(distance.item(), 4)  # |4 - 0| + |1 - 1|
    4.0
    """

    def __init__(self, network: nn.Module) -> None:
        self._layers = [
            layer for layer in network.modules() if isinstance(layer, _BatchNorm) and layer.running_mean is not None
        ]
        if not self._layers:
            raise ValueError(
                f"{type(network).__name__} has no batch norm with running statistics, so there is nothing that images "
                "could be drawn to; set the weight of the batch-norm term to 0"
            )
        self._inputs: list[tuple[_BatchNorm, Tensor]] = []
        self._hooks: list[torch.utils.hooks.RemovableHandle] = []

    def __len__(self) -> int:
        """Number of batch norms."""
        return len(self._layers)

    def __enter__(self) -> "BatchNormStatistics":
        self._hooks = [layer.register_forward_hook(self._record) for layer in self._layers]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for hook in self._hooks:
            hook.remove()
        self._inputs.clear()

    def _record(self, layer: nn.Module, inputs: tuple[Tensor, ...], result: Tensor) -> None:
        assert isinstance(layer, _BatchNorm)
        self._inputs.append((layer, inputs[0]))

    def distance(self) -> Float[Tensor, ""]:
        """The distance of the batch of the last forward, whose statistics are then discarded."""
        if not self._inputs:
            raise ValueError("no batch was put through the network since the last distance")
        recorded, self._inputs = self._inputs, []
        return torch.stack([_distance(layer, values) for layer, values in recorded]).sum()


def _distance(layer: _BatchNorm, values: Float[Tensor, "batch channels *place"]) -> Float[Tensor, ""]:
    assert layer.running_mean is not None
    assert layer.running_var is not None
    axes = [axis for axis in range(values.dim()) if axis != 1]
    variance, mean = torch.var_mean(values, dim=axes, unbiased=False)
    std, running = (variance + layer.eps).sqrt(), (layer.running_var + layer.eps).sqrt()
    return torch.linalg.vector_norm(mean - layer.running_mean) + torch.linalg.vector_norm(std - running)


def total_variation(images: Float[Tensor, "batch channels height width"]) -> Float[Tensor, ""]:
    """Mean absolute difference of vertical neighbours, plus that of horizontal ones.

    >>> total_variation(torch.tensor([[0.0, 1.0], [0.0, 3.0]])[None, None])  # (0 + 2) / 2 + (1 + 3) / 2
    tensor(3.)
    """
    return images.diff(dim=2).abs().mean() + images.diff(dim=3).abs().mean()


def energy(images: Float[Tensor, "batch channels height width"]) -> Float[Tensor, ""]:
    """Mean of the squared values: the L2 term.

    >>> energy(torch.tensor([[1.0, 3.0]])[None, None])
    tensor(5.)
    """
    return images.square().mean()


def toward_embeddings(embeddings: Float[Tensor, "batch dim"], targets: Float[Tensor, "batch dim"]) -> Float[Tensor, ""]:
    """Mean Euclidean distance between unit embeddings: the identity term of an open-set inversion.

    Both are scaled to length 1. The distance of equal embeddings has gradient 0.

    >>> toward_embeddings(torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 5.0]]))
    tensor(1.4142)
    """
    ours, theirs = (nn.functional.normalize(rows, dim=1) for rows in (embeddings, targets))
    return torch.linalg.vector_norm(ours - theirs, dim=1).mean()


_HALF = 127.5  # half of the range of a pixel
_IMAGES = "images"
_NOISE, _MOVES = 0, 1  # purposes of a step's random numbers
_CPU = torch.device("cpu")
#: Receives the images of an inversion while it runs.
Watch = Callable[[UInt8[Tensor, "count 3 height width"]], None]


@dataclass(frozen=True)
class Inversion:
    """The numbers of an inversion; those of the paper unless stated."""

    steps: int = 20_000
    batch_size: int = 256  # images that are made together, whose statistics the batch-norm term compares
    rate: float = 0.25  # in values of which 1 is 127.5 pixels
    decay: Literal["none", "cosine"] = "none"  # whether the rate falls to 0 along a cosine; that is ours
    identity: float = 1.0  # weight of the identity term
    batch_norm: float = 0.05  # its weight; 0 omits it, as is needed for a network without batch norm
    total_variation: float = 1e-3  # weight of the mean of the absolute differences of neighbours
    energy: float = 1e-4  # weight of the mean of the squares
    flip: bool = False  # mirror all images of a step with probability 1/2; ours
    shift: int = 0  # largest number of pixels by which all images of a step are moved, wrapping around; ours
    held: bool = True  # clip the values to [-1, 1], the range of pixels, after each step; ours
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("batch_size", 1), ("shift", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        if not (isfinite(self.rate) and self.rate > 0):
            raise ValueError(f"rate is {self.rate}; it must be a positive number")
        for name in ("identity", "batch_norm", "total_variation", "energy"):
            if not (isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise ValueError(f"{name} is {getattr(self, name)}; a weight is a number of at least 0")
        check_word("decay", self.decay, Literal["none", "cosine"])
        check_seed(self.seed)

    def rate_at(self, step: int) -> float:
        """The learning rate of a step, counted from 0.

        >>> Inversion(steps=4, rate=0.1, decay="cosine").rate_at(2)
        0.05
        """
        return self.rate if self.decay == "none" else 0.5 * self.rate * (1.0 + cos(pi * step / self.steps))


class Identity(ABC):
    """So many people that the images approach."""

    count: int

    @abstractmethod
    def loss(self, embeddings: Float[Tensor, "batch dim"], places: range) -> Float[Tensor, ""]:
        """The identity term of the images at some positions, from their current embeddings."""

    @abstractmethod
    def cosines(self, embeddings: Float[Tensor, "count dim"]) -> Float[Tensor, "count"]:
        """The cosine of each image's embedding with its target."""


class TowardEmbeddings(Identity):
    """The open-set term: toward embeddings of images that the network never saw. See `toward_embeddings`."""

    def __init__(self, targets: Float[Tensor, "count dim"]) -> None:
        self.count = len(targets)
        self._targets = targets

    def loss(self, embeddings: Float[Tensor, "batch dim"], places: range) -> Float[Tensor, ""]:
        """Mean Euclidean distance between unit embeddings."""
        return toward_embeddings(embeddings, self._targets[places.start : places.stop].to(embeddings.device))

    def cosines(self, embeddings: Float[Tensor, "count dim"]) -> Float[Tensor, "count"]:
        """The cosine with the embedding that was the target."""
        return (unit(embeddings) * unit(self._targets.to(embeddings))).sum(1)


class TowardCenters(Identity):
    """The closed-set term: toward a head's centers, held constant, by its training loss, in evaluation mode."""

    def __init__(self, head: Head, labels: Int64[Tensor, "count"]) -> None:
        self.count = len(labels)
        self._head, self._labels = head.eval().requires_grad_(False), labels

    def loss(self, embeddings: Float[Tensor, "batch dim"], places: range) -> Float[Tensor, ""]:
        """The mean of the training loss."""
        labels = self._labels[places.start : places.stop].to(embeddings.device)
        return self._head.to(embeddings.device)(embeddings, labels).loss

    def cosines(self, embeddings: Float[Tensor, "count dim"]) -> Float[Tensor, "count"]:
        """The cosine with the nearest center of the class."""
        centers = unit(self._head.centers[self._labels, :, : self._head.size].to(embeddings))
        return (unit(embeddings)[:, None] * centers).sum(2).amax(1)


def invert(
    backbone: Backbone,
    identity: Identity,
    settings: Inversion,
    *,
    device: torch.device = _CPU,
    work: Path | None = None,
    about: dict[str, Any] | None = None,
    save_every: int = 200,
    watch: Watch | None = None,
    progress: Progress = quietly,
) -> UInt8[Tensor, "count 3 height width"]:
    """Images that the network takes for the given people.

    `work` is a folder that the caller removes; the next call with the same arguments continues there, and gives the
    same bits as an uninterrupted one. Work files of another network or of other people than `about` are removed.
    """
    backbone.to(device).eval().requires_grad_(False)
    files = None if work is None else WorkFolder(work, anew=True)
    pieces = ranges(identity.count, settings.batch_size)
    images: list[UInt8[Tensor, "batch 3 height width"]] = []

    def of_batch(places: range) -> Arrays:
        number = pieces.index(places)
        batch = _Batch(backbone, identity, settings, places, device)
        state = None if files is None else files.state(_IMAGES, number)
        title = f"batch {number + 1} of {len(pieces)}"
        pixels = batch.descended(state, save_every, progress, title, partial(_show, watch, images))
        images.append(pixels)
        return {"pixels": pixels.numpy()}

    with working(files):
        parts = results(_IMAGES, lambda: [asdict(settings), about or {}], pieces, partial(map, of_batch))
        return torch.cat([torch.from_numpy(part["pixels"]) for part in parts])


def _show(
    watch: Watch | None,
    earlier: list[UInt8[Tensor, "batch 3 height width"]],
    now: UInt8[Tensor, "count 3 height width"],
) -> None:
    if watch is not None:
        watch(torch.cat([*earlier, now]))


def followed(backbone: Backbone, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch dim"]:
    """The embeddings of images that have a gradient; a network whose embeddings have none is refused."""
    embeddings: Tensor = backbone(images)
    if not embeddings.requires_grad:
        raise ValueError(
            f"{type(backbone).__name__} gives embeddings without a gradient, so no image can follow one; "
            "adopt the model by `verisphere adopt --trainable`"
        )
    return embeddings


class _Batch:
    def __init__(
        self, backbone: Backbone, identity: Identity, settings: Inversion, places: range, device: torch.device
    ) -> None:
        self.backbone, self.identity, self.settings, self.places = backbone, identity, settings, places
        noise = torch.Generator().manual_seed(mixed_seed(Stream.INVERSION, settings.seed, places.start, _NOISE))
        values = torch.randn(len(places), 3, *backbone.input_size, generator=noise)
        self.values = values.to(device).requires_grad_()
        self.adam = torch.optim.Adam([self.values], lr=settings.rate)
        self.statistics = BatchNormStatistics(backbone) if settings.batch_norm else None

    def descended(
        self,
        state: SealedFile | None,
        save_every: int,
        progress: Progress,
        title: str,
        watch: Watch,
    ) -> UInt8[Tensor, "batch 3 height width"]:
        """The images after all steps, continued from the state of an earlier call."""
        first = self._restored(state)
        steps = range(first, self.settings.steps)
        with self.statistics or nullcontext():
            for step in progress(steps, title, self.settings.steps, first):
                self._descend(step)
                if (step + 1) % save_every == 0:
                    watch(self.pixels())
                    if state is not None:
                        self._save(state, step + 1)
        return self.pixels()

    def pixels(self) -> UInt8[Tensor, "batch 3 height width"]:
        """The current images, rounded to whole pixels."""
        return (self.values.detach() * _HALF + _HALF).round().clamp(0, 255).to(torch.uint8).cpu()

    def _descend(self, step: int) -> None:
        settings = self.settings
        for group in self.adam.param_groups:
            group["lr"] = settings.rate_at(step)
        embeddings = followed(self.backbone, self._moved(step))
        loss = settings.identity * self.identity.loss(embeddings, self.places)
        if self.statistics is not None:
            loss = loss + settings.batch_norm * self.statistics.distance()
        loss = loss + settings.total_variation * total_variation(self.values)
        loss = loss + settings.energy * energy(self.values)
        if not torch.isfinite(loss):
            raise ValueError(f"step {step + 1}: the loss is {loss.item()}; lower the rate")
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        if settings.held:
            with torch.no_grad():
                self.values.clamp_(-1.0, 1.0)

    def _moved(self, step: int) -> Float[Tensor, "batch 3 height width"]:
        """The flipped and shifted images for the network; random numbers follow from the step."""
        settings, values = self.settings, self.values
        if settings.flip or settings.shift:
            seed = mixed_seed(Stream.INVERSION, settings.seed, self.places.start, _MOVES, step)
            chance = np.random.default_rng(seed)
            down, right = chance.integers(-settings.shift, settings.shift, 2, endpoint=True).tolist()
            values = values.roll((down, right), (2, 3))
            if settings.flip and chance.random() < 0.5:
                values = values.flip(3)
        return (values * _HALF + (_HALF - self.backbone.mean)) / self.backbone.scale

    def _save(self, state: SealedFile, step: int) -> None:
        adam, values = self.adam.state[self.values], self.values.detach()
        moments = {"mean": adam["exp_avg"].cpu().numpy(), "square": adam["exp_avg_sq"].cpu().numpy()}
        state.save({"step": np.array(step), "values": values.cpu().numpy(), **moments})

    def _restored(self, state: SealedFile | None) -> int:
        """Restore the stored state of the batch; returns the number of finished steps."""
        kept = None if state is None else state.load()
        if kept is None:
            return 0
        step = int(kept["step"])
        with torch.no_grad():
            self.values.copy_(torch.from_numpy(kept["values"]))
        self.adam.state[self.values] = {
            "step": torch.tensor(float(step)),
            "exp_avg": torch.from_numpy(kept["mean"]).to(self.values.device),
            "exp_avg_sq": torch.from_numpy(kept["square"]).to(self.values.device),
        }
        return step


def read_settings(path: Path, overrides: Sequence[str] = ()) -> Inversion:
    """The numbers of an inversion from a YAML file, or a packaged one, under `--field value` options."""
    file = find_recipe(path, what="recipe of an inversion")
    content = read_based(file.path).content
    with errors_naming(file.name):
        given = with_values(Inversion, content, options(overrides)) if isinstance(content, Mapping) else content
        return build(Inversion, complete(Inversion, given))
