"""Raw pixels: averages by hand, and what centring does to a cosine."""

import pytest
import torch

from verisphere.backbones.pixels import Pixels
from verisphere.score.cosine import unit


def squares(values: list[list[float]]) -> torch.Tensor:
    """A face of 2 x 2 flat squares, all channels alike."""
    return torch.tensor(values).repeat_interleave(56, 0).repeat_interleave(56, 1).expand(1, 3, 112, 112).contiguous()


def test_one_pixel_is_the_mean():
    images = squares([[0.0, 1.0], [2.0, 5.0]])
    torch.testing.assert_close(Pixels(side=1, centred=False)(images), torch.tensor([[2.0]]))


def test_the_whole_side_is_the_image():
    images = torch.randn(2, 3, 112, 112, generator=torch.Generator().manual_seed(0))
    assert torch.equal(Pixels(112, grey=False, centred=False)(images), images.flatten(1))
    torch.testing.assert_close(Pixels(112, grey=True, centred=False)(images), images.mean(1).flatten(1))


def test_centred_embeddings_do_not_see_brightness_or_contrast():
    images = torch.randn(1, 3, 112, 112, generator=torch.Generator().manual_seed(1))
    first, second = Pixels()(images), Pixels()(0.5 * images + 0.3)
    torch.testing.assert_close(unit(first), unit(second), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(first.mean(1), torch.zeros(1), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("grey", "size"), [(True, 28 * 28), (False, 3 * 28 * 28)])
def test_the_size_is_stated(grey, size):
    backbone = Pixels(28, grey=grey)
    assert backbone.embedding_size == size
    assert backbone(torch.zeros(2, 3, 112, 112)).shape == (2, size)
    assert list(backbone.parameters()) == []


@pytest.mark.parametrize("side", [0, 113])
def test_refusals(side):
    with pytest.raises(ValueError, match=f"side is {side}; it must lie between 1 and 112"):
        Pixels(side)
