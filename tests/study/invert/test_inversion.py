"""Images by gradient descent: they reach their people, keep the network's statistics, and go on where they ended."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from verisphere.backbones.backbone import Backbone
from verisphere.head import Head
from verisphere.losses import ArcFace, CosFace, Softmax, SphereFace
from verisphere.study.invert import BatchNormStatistics, Inversion, TowardCenters, TowardEmbeddings, invert


class Small(Backbone):
    """Two convolutions with batch norm, whose statistics are those of noise."""

    input_size = (16, 16)

    def __init__(self, norm: bool = True) -> None:
        super().__init__(embedding_size=8)
        torch.manual_seed(7)
        layers = [nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.PReLU(8), nn.Conv2d(8, 8, 3, 2, 1), nn.Flatten()]
        self.layers = nn.Sequential(*(layer for layer in layers if norm or not isinstance(layer, nn.BatchNorm2d)))
        self.last = nn.Linear(128, 8)
        self.train()
        with torch.no_grad():
            for _ in range(20):
                self(0.5 * torch.randn(16, 3, 16, 16))
        self.eval()
        self.calls = 0

    def embed(self, images: Tensor) -> Tensor:
        self.calls = getattr(self, "calls", 0) + 1
        return self.last(self.layers(images))


def embeddings_of(network: Backbone, pixels: Tensor) -> Tensor:
    with torch.no_grad():
        return network(network.normalise(pixels))


def targets(count: int = 4) -> Tensor:
    return torch.randn(count, 8, generator=torch.Generator().manual_seed(3))


SHORT = Inversion(steps=20, batch_size=2, rate=0.05, batch_norm=0.01, seed=1)


@pytest.mark.parametrize("more", [{}, {"decay": "cosine"}, {"flip": True, "shift": 1}, {"held": False}])
def test_images_reach_the_embeddings_that_they_are_drawn_to(more: dict[str, Any]):
    network, wanted = Small(), targets()
    settings = Inversion(**{**vars(SHORT), "steps": 150, **more})
    pixels = invert(network, TowardEmbeddings(wanted), settings)
    assert (pixels.shape, pixels.dtype) == ((4, 3, 16, 16), torch.uint8)
    reached = embeddings_of(network, pixels)
    assert cosine_similarity(reached, wanted).min() > 0.9
    assert cosine_similarity(reached, wanted.roll(1, 0)).mean() < 0.5


@pytest.mark.parametrize(
    "loss", [Softmax(), SphereFace(margin=1.35, scale=16.0), CosFace(scale=16.0), ArcFace(scale=16.0)]
)
def test_images_reach_the_class_centers_of_a_head(loss):
    torch.manual_seed(0)
    network, head = Small(), Head(loss, 5, 8)
    before = {name: value.clone() for name, value in head.state_dict().items()}
    labels = torch.tensor([0, 3, 4, 1])
    pixels = invert(network, TowardCenters(head, labels), Inversion(**{**vars(SHORT), "steps": 150}))
    assert (
        cosine_similarity(embeddings_of(network, pixels)[:, None], head.centers.reshape(5, -1)[None, :, :8], 2)
        .argmax(1)
        .equal(labels)
    )
    assert all(torch.equal(value, before[name]) for name, value in head.state_dict().items())


def test_the_batch_norm_term_keeps_the_statistics_of_the_network():
    network = Small()

    def distance(weight: float) -> float:
        pixels = invert(
            network, TowardEmbeddings(targets()), Inversion(**{**vars(SHORT), "steps": 60, "batch_norm": weight})
        )
        with BatchNormStatistics(network) as statistics, torch.no_grad():
            network(network.normalise(pixels))
            return statistics.distance().item()

    assert distance(0.5) < 0.7 * distance(0.0)


def test_a_network_without_batch_norm_is_refused_and_inverted_without_the_term():
    network = Small(norm=False)
    with pytest.raises(ValueError, match="has no batch norm with running statistics"):
        invert(network, TowardEmbeddings(targets()), SHORT)
    assert len(invert(network, TowardEmbeddings(targets()), Inversion(steps=2, batch_norm=0.0))) == 4


class Ended(BaseException):
    """Stands for a process that is killed."""


@pytest.mark.parametrize("after", [1, 15, 19, 21, 39])
def test_an_inversion_that_was_ended_goes_on_to_the_same_bits(tmp_path: Path, after: int):
    settings = Inversion(**{**vars(SHORT), "flip": True, "shift": 2})
    whole = invert(Small(), TowardEmbeddings(targets()), settings)
    done = 0

    def ending(items: Iterable[Any], description: str, total: int | None = None, first: int = 0) -> Iterator[Any]:
        nonlocal done
        for item in items:
            if done == after:
                raise Ended
            done += 1
            yield item

    for _ in range(2):
        with pytest.raises(Ended):
            invert(Small(), TowardEmbeddings(targets()), settings, work=tmp_path, save_every=10, progress=ending)
    network = Small()
    network.calls = 0
    assert torch.equal(invert(network, TowardEmbeddings(targets()), settings, work=tmp_path, save_every=10), whole)
    assert network.calls == 40 - after // 10 * 10  # a batch has 20 steps, which are kept in tens
    network.calls = 0
    assert torch.equal(invert(network, TowardEmbeddings(targets()), settings, work=tmp_path, save_every=10), whole)
    assert network.calls == 0


def test_work_of_another_inversion_begins_anew(tmp_path: Path):
    first = invert(Small(), TowardEmbeddings(targets()), SHORT, work=tmp_path, about={"model": "a"})
    network = Small()
    network.calls = 0
    second = invert(network, TowardEmbeddings(-targets()), SHORT, work=tmp_path, about={"model": "b"})
    assert network.calls == 40
    assert not torch.equal(first, second)


def test_a_batch_does_not_depend_on_the_others():
    network, wanted = Small(), targets()
    both = invert(network, TowardEmbeddings(wanted), SHORT)
    assert torch.equal(invert(network, TowardEmbeddings(wanted[:2]), SHORT), both[:2])
    other = invert(network, TowardEmbeddings(wanted), Inversion(**{**vars(SHORT), "seed": 2}))
    assert not torch.equal(other, both)


def test_a_loss_that_is_not_finite_names_the_step():
    with pytest.raises(ValueError, match="step 1: the loss is nan; lower the rate"):
        invert(Small(), TowardEmbeddings(torch.full((2, 8), torch.nan)), SHORT)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("steps", 0),
        ("batch_size", 0),
        ("shift", -1),
        ("rate", 0.0),
        ("batch_norm", -1.0),
        ("seed", -1),
    ],
)
def test_a_number_out_of_range_is_refused(field: str, value: object):
    with pytest.raises(ValueError, match=field):
        Inversion(**{field: value})


class WithoutGradient(Small):
    """A network whose embeddings carry no gradient, as those of a graph that another program runs."""

    def embed(self, images: Tensor) -> Tensor:
        return super().embed(images).detach()


def test_a_network_without_gradient_is_refused():
    with pytest.raises(ValueError, match="WithoutGradient gives embeddings without a gradient"):
        invert(WithoutGradient(), TowardEmbeddings(targets()), SHORT)
