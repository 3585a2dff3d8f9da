"""Which parameters decay, and what the two optimizers are."""

import math

import pytest
import torch
from torch import nn

from verisphere.backbones.mobilefacenet import MobileFaceNet
from verisphere.head.head import Head
from verisphere.losses.margin import ArcFace
from verisphere.train.objective import Objective
from verisphere.train.optimizer import Optimizer


def decays(module: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, float]:
    """Weight decay of each parameter, by its name."""
    decay = {id(one): group["weight_decay"] for group in optimizer.param_groups for one in group["params"]}
    return {name: decay[id(parameter)] for name, parameter in module.named_parameters()}


def test_filters_and_centers_decay_and_channels_numbers_do_not():
    backbone = MobileFaceNet(embedding_size=8, width=0.1, activation="prelu")
    objective = Objective(backbone, Head(ArcFace(), 3, 8))
    found = decays(objective, Optimizer(weight_decay=0.01).build(objective))
    assert found["head.centers"] == 0.01
    assert len(found) == len(list(objective.parameters()))  # each exactly once: nothing is left out
    for name, module in objective.named_modules():
        for key, _ in module.named_parameters(recurse=False):
            if isinstance(module, nn.Conv2d):
                assert found[f"{name}.{key}"] == 0.01
            if isinstance(module, nn.BatchNorm2d | nn.PReLU):
                assert found[f"{name}.{key}"] == 0.0


def test_biases_do_not_decay():
    linear = nn.Linear(2, 2)
    assert decays(linear, Optimizer(weight_decay=0.5).build(linear)) == {"weight": 0.5, "bias": 0.0}


def test_frozen_parameters_are_left_out():
    linear = nn.Linear(2, 2)
    linear.bias.requires_grad_(False)
    groups = Optimizer().build(linear).param_groups
    assert [len(group["params"]) for group in groups] == [1]  # and there is no empty group


def test_one_step_of_sgd_by_hand():
    weight = nn.Linear(1, 1, bias=False)
    nn.init.constant_(weight.weight, 2.0)
    optimizer = Optimizer("sgd", rate=0.1, momentum=0.5, weight_decay=0.25).build(weight)
    for _ in range(2):
        optimizer.zero_grad()
        (3 * weight.weight.sum()).backward()
        optimizer.step()
    # gradient + decay: 3 + 0.25 * 2 = 3.5, weight 1.65; then 3 + 0.4125 + 0.5 * 3.5 = 5.1625, weight 1.13375
    assert weight.weight.item() == pytest.approx(1.13375)


def test_adamw_is_adamw():
    optimizer = Optimizer("adamw", rate=1e-3).build(nn.Linear(2, 2))
    assert isinstance(optimizer, torch.optim.AdamW)
    assert {group["lr"] for group in optimizer.param_groups} == {1e-3}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rate": 0.0}, "optimizer.rate must be a positive number, got 0.0"),
        ({"rate": math.inf}, "optimizer.rate"),
        ({"rate": math.nan}, "optimizer.rate"),
        ({"momentum": 1.0}, r"optimizer.momentum must lie in \[0, 1\), got 1.0"),
        ({"weight_decay": -1e-4}, "optimizer.weight_decay must be a number and not negative, got -0.0001"),
        ({"weight_decay": math.nan}, "optimizer.weight_decay"),
    ],
)
def test_refusals(fields, message):
    with pytest.raises(ValueError, match=message):
        Optimizer(**fields)
