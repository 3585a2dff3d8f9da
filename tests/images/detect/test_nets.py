"""The three networks: layouts of what is stored, and what each looks at."""

import importlib.util

import numpy as np
import pytest
import torch
from torch import nn

from verisphere.images.detect.nets import OutputNet, ProposalNet, RefinementNet, _Flatten, fill, trained_nets

needs_weights = pytest.mark.skipif(importlib.util.find_spec("mtcnn") is None, reason="no extra `detect`")


def test_stored_layouts_are_turned():
    net = nn.Sequential(nn.Conv2d(2, 3, (4, 5)), nn.PReLU(3), nn.Linear(6, 7))
    rng = np.random.default_rng(0)
    shapes = [(4, 5, 2, 3), (3,), (1, 1, 3), (6, 7), (7,)]  # (height, width, in, out), bias, slopes, (in, out), bias
    arrays = [rng.random(shape, np.float32) for shape in shapes]
    fill(net, arrays)
    assert net[0].weight[2, 1, 3, 4] == arrays[0][3, 4, 1, 2]
    assert torch.equal(net[1].weight, torch.from_numpy(arrays[2][0, 0]))
    assert torch.equal(net[2](torch.eye(6)), torch.from_numpy(arrays[3] + arrays[4]))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(2, 3)], "Linear has 2 parameters, but 1 arrays were stored"),
        ([(3, 2), (3,)], r"Linear.weight is \(3, 2\), stored is \(3, 2\)"),
        ([(2, 3), (4,)], r"Linear.bias is \(3,\), stored is \(4,\)"),
        ([(2, 3), (1, 3, 1)], r"Linear.bias is \(3,\), stored is \(1, 3, 1\)"),
    ],
)
def test_what_does_not_fit_is_refused(shapes, message):
    with pytest.raises(ValueError, match=message):
        fill(nn.Linear(2, 3), [np.zeros(shape, np.float32) for shape in shapes])


def test_a_crop_is_laid_out_by_columns_then_rows_then_channels():
    maps = torch.tensor([[[[1, 2], [3, 4]], [[10, 20], [30, 40]]]]).float()  # (crop, channel, row, column)
    assert _Flatten()(maps).tolist() == [[1, 10, 3, 30, 2, 20, 4, 40]]


def test_the_first_network_sees_12_by_12_pixels_two_apart():
    torch.manual_seed(0)
    net, image = ProposalNet(), torch.randn(1, 3, 30, 24)
    score, box = net(image)
    assert score.shape == (1, 10, 7)
    assert box.shape == (1, 4, 10, 7)
    for row, column in ((0, 0), (3, 2), (9, 6)):
        top, left = net.stride * row, net.stride * column
        alone, moved = net(image[:, :, top : top + net.side, left : left + net.side])
        torch.testing.assert_close(alone[0, 0, 0], score[0, row, column])
        torch.testing.assert_close(moved[0, :, 0, 0], box[0, :, row, column])


@needs_weights
@pytest.mark.parametrize("net", [1, 2])
def test_the_others_take_any_number_of_crops(net):
    net = trained_nets(torch.device("cpu"))[net]
    crops = torch.randn(3, 3, net.side, net.side)
    with torch.no_grad():
        together = net(crops)
        for index in range(3):
            for each, alone in zip(together, net(crops[index : index + 1]), strict=True):
                torch.testing.assert_close(each[index : index + 1], alone, rtol=1e-4, atol=1e-5)
        assert [len(output) for output in net(crops[:0])] == [0] * len(together)
    assert not any(parameter.requires_grad for parameter in net.parameters())


def test_sizes_of_the_layers_are_the_paper_s_with_the_wheel_s_widths():
    counted = [
        sum(parameter.numel() for parameter in net().parameters()) for net in (ProposalNet, RefinementNet, OutputNet)
    ]
    # P: 280 + 10, 1,456 + 16, 4,640 + 32, 132 + 66. R: 784 + 28, 12,144 + 48, 12,352 + 64, 73,856 + 128, 516 + 258.
    # O: 896 + 32, 18,496 + 64, 36,928 + 64, 32,896 + 128, 295,168 + 256, 1,028 + 2,570 + 514.
    assert counted == [6_632, 100_178, 389_040]
