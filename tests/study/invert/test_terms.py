"""The terms of an inversion: values by hand, gradients against numerical ones, and what they are for."""

from math import sqrt

import pytest
import torch
from torch import nn

from verisphere.backbones import MobileFaceNet, Pixels
from verisphere.study.invert import BatchNormStatistics, energy, total_variation, toward_embeddings


def norm(mean: list[float], variance: list[float], kind: type[nn.Module] = nn.BatchNorm2d) -> nn.Module:
    layer = kind(len(mean), eps=0.5).double().eval()
    layer.running_mean.copy_(torch.tensor(mean, dtype=torch.float64))
    layer.running_var.copy_(torch.tensor(variance, dtype=torch.float64))
    return layer


def distance(network: nn.Module, images: torch.Tensor) -> torch.Tensor:
    with BatchNormStatistics(network) as statistics:
        network(images)
        return statistics.distance()


def test_the_distance_of_one_layer_is_the_one_by_hand():
    images = torch.tensor([[[[1.0, 3.0]], [[0.0, 0.0]]], [[[5.0, 7.0]], [[4.0, 4.0]]]], dtype=torch.float64)
    # channel 0: mean 4, variance 5; channel 1: mean 2, variance 4
    stored = norm([1.0, -2.0], [0.5, 3.5])
    expected = sqrt(3**2 + 4**2) + sqrt((sqrt(5.5) - 1) ** 2 + (sqrt(4.5) - 2) ** 2)
    assert distance(stored, images).item() == pytest.approx(expected, abs=1e-12)


def test_layers_are_added_and_vectors_count_as_images_do():
    rows = torch.tensor([[1.0], [5.0]], dtype=torch.float64)  # mean 3, variance 4
    first, second = norm([0.0], [4.0], nn.BatchNorm1d), norm([0.0], [1.0], nn.BatchNorm1d)
    through = (rows - 0.0) / sqrt(4.5)
    alone = distance(second, through).item()
    assert distance(first, rows).item() == pytest.approx(3.0)
    assert distance(nn.Sequential(first, second), rows).item() == pytest.approx(3.0 + alone)


def test_a_layer_that_is_used_twice_counts_twice():
    layer = norm([0.0], [4.0], nn.BatchNorm1d)
    rows = torch.tensor([[1.0], [5.0]], dtype=torch.float64)
    with BatchNormStatistics(layer) as statistics:
        layer(rows), layer(rows)
        assert statistics.distance().item() == pytest.approx(6.0)


def test_the_statistics_of_the_batch_itself_are_at_distance_0():
    images = torch.randn(4, 3, 5, 5, dtype=torch.float64)
    layer = norm(images.mean((0, 2, 3)).tolist(), images.var((0, 2, 3), unbiased=False).tolist())
    assert distance(layer, images).item() == pytest.approx(0.0, abs=1e-12)


def test_gradients_equal_numerical_ones():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(27, 4)).double()
    network.eval()
    images = torch.randn(2, 2, 4, 4, dtype=torch.float64, requires_grad=True)
    targets = torch.randn(2, 4, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda values: distance(network, values), images)
    assert torch.autograd.gradcheck(lambda values: toward_embeddings(network(values), targets), images)
    assert torch.autograd.gradcheck(total_variation, images)
    assert torch.autograd.gradcheck(energy, images)


def test_a_batch_is_measured_once_and_hooks_are_removed():
    layer = norm([0.0], [1.0], nn.BatchNorm1d)
    with BatchNormStatistics(layer) as statistics:
        layer(torch.ones(2, 1, dtype=torch.float64))
        statistics.distance()
        with pytest.raises(ValueError, match="no batch was put through the network since"):
            statistics.distance()
    assert not layer._forward_hooks


def test_the_batch_norms_of_a_backbone_are_found_and_stay_as_they_are():
    network = MobileFaceNet(embedding_size=8, width=0.05).eval()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    with BatchNormStatistics(network) as statistics:
        network(torch.randn(2, 3, *network.input_size))
        assert statistics.distance() > 0
    assert len(statistics) == sum(isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d) for layer in network.modules())
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


@pytest.mark.parametrize("network", [Pixels(side=8), nn.BatchNorm2d(3, track_running_stats=False)])
def test_a_network_without_running_statistics_is_refused(network: nn.Module):
    with pytest.raises(ValueError, match="has no batch norm with running statistics"):
        BatchNormStatistics(network)


def test_an_embedding_that_is_reached_has_a_gradient_of_0():
    rows = torch.tensor([[3.0, 4.0], [1.0, 0.0]], requires_grad=True)
    toward_embeddings(rows, torch.tensor([[3.0, 4.0], [0.0, 1.0]])).backward()
    assert rows.grad is not None
    assert torch.isfinite(rows.grad).all()
    assert rows.grad[0].abs().max() < 1e-6
    assert rows.grad[1].abs().max() > 0.1
