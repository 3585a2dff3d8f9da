"""Halved copies and sampling: places worked out by hand."""

import numpy as np
import pytest
import torch

from verisphere.images.detect.sample import halvings, halvings_for, sample


def numbered(height: int, width: int) -> torch.Tensor:
    return torch.arange(height * width).float().view(1, height, width).expand(3, -1, -1)


def matrix(*rows: tuple[float, float, float]) -> torch.Tensor:
    return torch.tensor(rows).float()[None]


def test_a_halved_pixel_is_the_mean_of_those_it_covers():
    copies = halvings(numbered(3, 4)[None], 5)
    assert [tuple(copy.shape[2:]) for copy in copies] == [(3, 4), (2, 2), (1, 1)]
    assert copies[1][0, 0].tolist() == [[2.5, 4.5], [8.5, 10.5]]  # the last row has one row of the image under it
    assert len(halvings(numbered(3, 4)[None], 0)) == 1


def test_how_often_to_halve():
    steps = np.array([0.1, 1, 1.99, 2, 3.99, 4, 100])
    assert halvings_for(steps).tolist() == [0, 0, 0, 1, 1, 2, 6]


def test_the_image_itself_comes_back():
    image = numbered(4, 5)
    assert torch.allclose(sample(image, matrix((1, 0, 0), (0, 1, 0)), (4, 5), places=1)[0], image)


def test_places_count_from_the_edge_and_outside_is_zero():
    row = torch.tensor([10.0, 20.0, 40.0]).expand(3, 1, 3)
    shifted = sample(row, matrix((1, 0, 0.5), (0, 1, 0)), (1, 4), places=1)[0, 0, 0]
    assert shifted.tolist() == pytest.approx([15, 30, 20, 0])  # between pixels; half outside; outside
    turned = sample(row, matrix((0, 1, 0), (1, 0, 0)), (3, 1), places=1)[0, 0, :, 0]  # x and y change places
    assert turned.tolist() == pytest.approx([10, 20, 40])


def test_several_places_make_a_mean():
    image = numbered(8, 8)
    halved = sample(image, matrix((2, 0, 0), (0, 2, 0)), (4, 4), places=2)[0]
    assert torch.allclose(halved, halvings(image[None], 1)[1][0])


def test_crops_do_not_depend_on_each_other():
    image = torch.rand(3, 9, 7)
    matrices = torch.tensor([[[0.5, 0.1, 1], [-0.2, 0.6, 2]], [[1.5, 0, -3], [0, 1.5, 4]], [[1, 0, 50], [0, 1, 50]]])
    together = sample(image, matrices, (4, 6), places=2)
    assert together.shape == (3, 3, 4, 6)
    for crop, each in zip(together, matrices, strict=True):
        assert torch.allclose(crop, sample(image, each[None], (4, 6), places=2)[0], atol=1e-6)
    assert not together[2].any()
