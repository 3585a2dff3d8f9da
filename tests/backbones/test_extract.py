"""From images to embeddings: order, modes, flips, precision and refusals."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from verisphere.backbones.backbone import Backbone
from verisphere.backbones.extract import extract
from verisphere.backbones.pixels import Pixels
from verisphere.base.trained_on import TrainedOn, name_digests
from verisphere.images.decoded_faces import InMemory
from verisphere.images.faces import Faces


class Small(Backbone):
    """A matrix behind batch norm, on 4 x 4 images."""

    input_size = (4, 4)

    def __init__(self) -> None:
        super().__init__(5)
        self.norm = nn.BatchNorm2d(3)
        self.project = nn.Linear(48, 5)

    def embed(self, images: Tensor) -> Tensor:
        return self.project(self.norm(images).flatten(1))


@pytest.fixture
def backbone() -> Small:
    torch.manual_seed(0)
    return Small()


def faces(count: int = 7, side: int = 4, domains: bool = False) -> InMemory:
    pixels = torch.randint(0, 256, (count, 3, side, side), generator=torch.Generator().manual_seed(1))
    names = tuple(f"{index}.png" for index in range(count))
    groups = tuple("xy"[index % 2] for index in range(count)) if domains else None
    return InMemory(pixels.to(torch.uint8), names, tuple(str(index // 2) for index in range(count)), groups)


def by_hand(backbone: Backbone, given: InMemory) -> Tensor:
    with torch.no_grad():
        return backbone.eval()((given.pixels.float() - 127.5) / 127.5)


@pytest.mark.parametrize(("how", "known"), [("exact", [False, True]), ("merge", [True, True])])
def test_people_are_those_of_the_training_as_their_names_were_taken(backbone, how, known):
    given = InMemory(faces(2).pixels, ("1.png", "2.png"), ("Ab", "AC"), names_rule=how)
    people = ["AB", "AC"]
    record = TrainedOn(name_digests(people), np.empty(0, np.int64), written=name_digests(people, written=True))
    in_training = extract(backbone, given, trained_on=record).in_training
    assert in_training is not None
    assert in_training.people.tolist() == known


@pytest.mark.parametrize("batch_size", [1, 3, 7, 100])
@pytest.mark.parametrize("workers", [0, 1])
def test_every_image_in_the_sets_order(backbone, batch_size, workers):
    if workers and batch_size != 3:
        pytest.skip("once is enough")
    given = faces(domains=True)
    made = extract(backbone, given, batch_size=batch_size, workers=workers)
    torch.testing.assert_close(torch.from_numpy(made.embeddings), by_hand(backbone, given), rtol=1e-5, atol=1e-6)
    assert made.embeddings.dtype == np.float32
    assert tuple(made.names) == given.names
    assert tuple(made.identities) == given.identities
    assert tuple(made.domains) == given.domains


def test_a_set_without_domains_has_none(backbone):
    assert extract(backbone, faces()).domains is None


@pytest.mark.parametrize("training", [True, False])
def test_it_leaves_the_mode_and_the_statistics_as_they_were(backbone, training):
    backbone.train(training)
    before = backbone.norm.running_mean.clone()
    extract(backbone, faces())
    assert backbone.training is backbone.norm.training is training
    assert torch.equal(backbone.norm.running_mean, before)


def test_the_mode_is_put_back_after_an_error_too(backbone):
    backbone.train()
    with pytest.raises(ValueError, match="images are 5 x 5 pixels but Small takes 4 x 4"):
        extract(backbone, faces(side=5))
    assert backbone.training


def test_training_goes_on_after_it(backbone):
    extract(backbone, faces())
    backbone.train()(torch.randn(4, 3, 4, 4)).sum().backward()  # no tensor of inference mode is left inside
    assert backbone.project.weight.grad is not None


def test_flip_adds_the_mirror_image(backbone):
    given = faces()
    mirrored = InMemory(given.pixels.flip(-1), given.names, given.identities)
    both = extract(backbone, given, flip=True).embeddings
    apart = extract(backbone, given).embeddings + extract(backbone, mirrored).embeddings
    np.testing.assert_allclose(both, apart, rtol=1e-5, atol=1e-6)


def test_bfloat16_is_close_and_comes_out_as_float32(backbone):
    exact, rounded = extract(backbone, faces()), extract(backbone, faces(), precision=torch.bfloat16)
    assert rounded.embeddings.dtype == np.float32
    assert not np.array_equal(exact.embeddings, rounded.embeddings)
    np.testing.assert_allclose(rounded.embeddings, exact.embeddings, rtol=0.05, atol=0.02)  # 8 bits of mantissa


def test_a_backbone_without_parameters_works():
    assert extract(Pixels(4), faces(3, 112)).embeddings.shape == (3, 16)


def test_progress_is_told_the_batches(backbone):
    told = []

    def progress(items, description, total=None):
        told.append((description, total))
        yield from items

    extract(backbone, faces(), batch_size=3, progress=progress)
    assert told == [("embedding", 3)]


def test_refusals(backbone):
    with pytest.raises(ValueError, match="there is no image to embed"):
        extract(backbone, faces(0))
    with pytest.raises(ValueError, match="batch_size is 0"):
        extract(backbone, faces(), batch_size=0)
    nn.init.constant_(backbone.project.bias, float("nan"))
    with pytest.raises(ValueError, match=r"7 of 7 embeddings hold NaN or infinity, the first is '0.png'"):
        extract(backbone, faces())


class Unreadable(Faces):
    """A set whose third image is broken."""

    names = ("a", "b", "c")
    identities = ("a", "b", "c")

    def images(self, indices: Sequence[int]) -> Tensor:
        if 2 in indices:
            raise ValueError("c: not an image")
        return torch.zeros(len(indices), 3, 4, 4, dtype=torch.uint8)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_image_that_cannot_be_read_is_named(backbone, workers):
    with pytest.raises(ValueError, match=r"\Ac: not an image\Z"):
        extract(backbone, Unreadable(), batch_size=2, workers=workers)
