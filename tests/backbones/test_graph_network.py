"""Networks described by lists of operators: what they compute, that they can be trained, and what is refused."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from verisphere.backbones import GraphNetwork
from verisphere.models.build import build_backbone

#: A small network with every operator that has weights: 6 x 6 faces to 4 numbers.
SMALL = [
    {"operator": "Arithmetic", "inputs": [0], "function": "Sub", "constant": 0.5},
    {"operator": "Conv", "inputs": [1], "weight": [4, 3, 3, 3], "bias": True, "pads": [1, 1], "strides": [2, 2]},
    {"operator": "BatchNormalization", "inputs": [2], "channels": 4, "epsilon": 1e-3},
    {"operator": "PRelu", "inputs": [3], "slopes": 4},
    {"operator": "Conv", "inputs": [4], "weight": [4, 1, 3, 3], "group": 4, "pads": [1, 1]},
    {"operator": "Arithmetic", "inputs": [5, 4], "function": "Add"},
    {"operator": "Conv", "inputs": [6], "weight": [8, 4, 3, 3]},
    {"operator": "Arithmetic", "inputs": [7], "function": "Add", "sizes": [8, 1, 1], "trained": True},
    {"operator": "Reshape", "inputs": [8], "sizes": [8]},
    {"operator": "Gemm", "inputs": [9], "weight": [4, 8], "bias": True},
    {"operator": "BatchNormalization", "inputs": [10], "channels": 4, "axes": 2},
]


def small() -> GraphNetwork:
    torch.manual_seed(0)
    return GraphNetwork(4, copy.deepcopy(SMALL), height=6, width=6)


def faces(count: int = 8) -> torch.Tensor:
    return torch.randn(count, 3, 6, 6, generator=torch.Generator().manual_seed(1))


def computed(operator: dict, x: torch.Tensor) -> torch.Tensor:
    """The result of one operator on images, as an embedding."""
    size = int(np.prod(layer_of(operator)(x).shape[1:]))
    flat = {"operator": "Reshape", "inputs": [1], "sizes": [size]}
    network = GraphNetwork(size, [{"inputs": [0], **operator}, flat], *x.shape[2:])
    return network.eval()(x)


def layer_of(operator: dict) -> torch.nn.Module:
    from verisphere.backbones.graph_network import read_operator

    return read_operator(operator).layer().eval()


def test_it_computes_what_the_operators_say():
    network, x = small().eval(), faces()
    conv, norm, slopes, depthwise, last, bias, gemm, end = (
        network.layers[place] for place in (1, 2, 3, 4, 6, 7, 9, 10)
    )
    with torch.no_grad():
        for layer in (norm, end):
            layer.running_mean.uniform_(-1, 1)
            layer.running_var.uniform_(0.5, 2)
        bias.constant.uniform_(-1, 1)
        y = F.conv2d(x - 0.5, conv.weight, conv.bias, 2, 1)
        y = F.batch_norm(y, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=1e-3)
        y = F.prelu(y, slopes.weight)
        y = F.conv2d(y, depthwise.weight, None, 1, 1, groups=4) + y
        y = F.conv2d(y, last.weight).flatten(1) + bias.constant
        y = (y @ gemm.weight.T + gemm.bias - end.running_mean) / (end.running_var + 1e-5).sqrt()
        torch.testing.assert_close(network(x), y)


@pytest.mark.parametrize(
    ("operator", "wanted"),
    [
        ({"operator": "Function", "function": "Relu"}, F.relu),
        ({"operator": "Function", "function": "HardSwish"}, lambda x: x * (x + 3).clamp(0, 6) / 6),
        ({"operator": "LeakyRelu", "slope": 0.2}, lambda x: torch.where(x < 0, 0.2 * x, x)),
        ({"operator": "HardSigmoid", "alpha": 0.25}, lambda x: (0.25 * x + 0.5).clamp(0, 1)),
        ({"operator": "Clip", "high": 0.5}, lambda x: x.clamp(max=0.5)),
        ({"operator": "Arithmetic", "function": "Sub", "constant": 1, "constant_first": True}, lambda x: 1 - x),
        ({"operator": "Arithmetic", "function": "Pow", "constant": 2}, lambda x: x * x),
        ({"operator": "Arithmetic", "function": "Mul", "inputs": [0, 0]}, lambda x: x * x),
        ({"operator": "Pool", "function": "MaxPool", "kernel": [2, 3]}, lambda x: F.max_pool2d(x, (2, 3), 1)),
        (
            {"operator": "Pool", "function": "AveragePool", "kernel": [3, 3], "pads": [1, 1]},
            lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False),
        ),
        ({"operator": "Reduce", "function": "ReduceL2", "axes": [1]}, lambda x: x.square().sum(1, True).sqrt()),
        ({"operator": "Reduce", "function": "ReduceMax", "axes": [2, 3]}, lambda x: x.amax((2, 3))),
        ({"operator": "Transpose", "order": [0, 2, 3, 1]}, lambda x: x.permute(0, 2, 3, 1)),
        ({"operator": "Pad", "pads": [0, 0, 1, 0, 0, 2], "value": 3.0}, lambda x: F.pad(x, (0, 2, 1, 0), value=3.0)),
        ({"operator": "Slice", "axis": 3, "start": 1, "end": 6, "step": 2}, lambda x: x[..., 1:6:2]),
        ({"operator": "Concat", "axis": 1, "inputs": [0, 0]}, lambda x: torch.cat([x, x], 1)),
        ({"operator": "Dropout", "ratio": 0.9}, lambda x: x),
    ],
    ids=lambda case: case.get("function", case["operator"]) if isinstance(case, dict) else "",
)
def test_an_operator_by_hand(operator, wanted):
    x = faces(3)
    if len(operator.get("inputs", [0])) == 2:
        flat = wanted(x).flatten(1)
        made = GraphNetwork(
            flat.shape[1], [operator, {"operator": "Reshape", "inputs": [1], "sizes": [flat.shape[1]]}], 6, 6
        )
        torch.testing.assert_close(made(x), flat)
    else:
        torch.testing.assert_close(computed(operator, x), wanted(x).flatten(1))


def test_colour_layout_and_normalisation_are_as_described():
    mean = {"operator": "Reduce", "inputs": [0], "function": "ReduceMean", "axes": [1, 2], "keepdims": False}
    network = GraphNetwork(3, [mean], 6, 6, mean=10.0, scale=2.0, colour="BGR", layout="NHWC")
    pixels = torch.tensor([10, 20, 40], dtype=torch.uint8).reshape(1, 3, 1, 1).expand(1, 3, 6, 6)
    assert network(network.normalise(pixels)).tolist() == [[15.0, 5.0, 0.0]]


def test_gradient_reaches_every_parameter_and_statistics_move():
    network, x = small().train(), faces()
    before = network.layers[2].running_mean.clone()
    (network(x) * torch.randn(8, 4, generator=torch.Generator().manual_seed(2))).sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad.abs().max() > 0, name
    assert not torch.equal(network.layers[2].running_mean, before)
    assert network.eval()(x[:1]).isfinite().all()


def test_a_bias_among_the_constants_has_one_axis_so_that_it_does_not_decay():
    assert small().layers[7].constant.shape == (8,)


def test_channels_last_is_the_same():
    network, x = small().eval(), faces()
    with torch.no_grad():
        plain = network(x)
        last = network.to(memory_format=torch.channels_last)(x.to(memory_format=torch.channels_last))
    torch.testing.assert_close(last, plain)


def test_state_and_description_survive_a_round_trip():
    network = small().eval()
    arguments = {"embedding_size": 4, "operators": SMALL, "height": 6, "width": 6}
    description = {"class_path": "verisphere.backbones.GraphNetwork", "init_args": arguments}
    again = build_backbone(description)
    again.load_state_dict(network.state_dict())
    assert torch.equal(again.eval()(faces()), network(faces()))


def test_constants_start_where_they_change_nothing():
    operators = [
        {"operator": "Arithmetic", "inputs": [0], "function": "Div", "sizes": [3, 1, 1]},
        {"operator": "Reduce", "inputs": [1], "function": "ReduceSum", "axes": [2, 3], "keepdims": False},
    ]
    network = GraphNetwork(3, operators, 6, 6)
    torch.testing.assert_close(network(faces()), faces().sum((2, 3)))
    assert [name for name, _ in network.named_parameters()] == []


def changed(place: int, **entries) -> list:
    operators = copy.deepcopy(SMALL)
    operators[place] |= entries
    return operators


HUGE = {"operator": "Expand", "inputs": [0], "sizes": [3, 2**20, 2**20]}
REPEATED = [{"operator": "Concat", "inputs": [number] * 4096, "axis": 1} for number in (0, 1)]
WIDE = [{"operator": "Gemm", "inputs": [0], "weight": [2**24, 6]}] * 6
REFUSED = {
    "nothing": ([], "operators has 0 entries; 1 to 4,096 are allowed"),
    "too many": ([SMALL[0]] * 4097, "operators has 4,097 entries"),
    "no object": (["Relu"], "operator 1: it is 'Relu', not an object"),
    "no name": ([{"inputs": [0]}], "operator 1: operator is None; known are Arithmetic, "),
    "unknown": (changed(1, operator="__import__"), "operator 2: operator is '__import__'; known are"),
    "unknown field": (changed(1, code="x"), "operator 2: Conv has no attribute 'code'; it has bias, dilations"),
    "a field missing": ([{"operator": "Conv", "inputs": [0]}], "operator 1: weight is missing"),
    "of another kind": (changed(1, weight="big"), "operator 2: weight must be a list, got 'big'"),
    "true is no number": (changed(3, slopes=True), "operator 4: slopes must be a whole number, got True"),
    "not finite": (changed(0, constant=float("nan")), "operator 1: constant is nan; numbers are finite"),
    "later input": (changed(1, inputs=[2]), r"operator 2: inputs is \[2\]; 0 is the image"),
    "negative input": (changed(1, inputs=[-1]), r"operator 2: inputs is \[-1\]"),
    "no inputs": (changed(1, inputs=[]), r"operator 2: inputs is \[\]"),
    "inputs of another kind": (changed(1, inputs="0"), "operator 2: inputs is '0'"),
    "two inputs": (changed(1, inputs=[0, 1]), "operator 2: Conv takes 1, not 2 inputs"),
    "channels": (changed(4, inputs=[0]), r"operator 5 \(Conv2d\) does not take 3 x 6 x 6"),
    "sizes": (changed(1, weight=[2**24, 2**24, 3, 3]), r"operator 2: weight is \[16777216, 16777216, 3, 3\]; 4 whole"),
    "a huge number": (changed(1, strides=[10**400, 1]), "operator 2: strides is "),
    "a long list": (changed(8, sizes=[1] * 999), "operator 9: sizes has 999 numbers"),
    "a huge result": ([HUGE], r"operator 1: sizes is \[3, 1048576, 1048576\]"),
    "repeated": (REPEATED, "operator 2: results so far are more than 268,435,456 for an image"),
    "too many weights": (WIDE, "operators have more than 536,870,912 weights"),
    "the batch": (changed(8, sizes=[16]), r"operator 9 \(Reshape\) does not take 8 x 1 x 1"),
    "no embedding": (SMALL[:2], "the last operator gives 4 x 3 x 3 for an image, where an embedding of 4 numbers"),
    "order": ([{"operator": "Transpose", "inputs": [0], "order": [1, 0, 2, 3]}], r"order is \(1, 0, 2, 3\); it"),
    "group": (changed(4, group=0), "operator 5: group is 0; it must divide the 4 outputs"),
    "an axis that is not there": ([{"operator": "Reduce", "inputs": [0], "function": "ReduceMean", "axes": [7]}],
                                  r"operator 1 \(Reduce\) does not take 3 x 6 x 6"),
    "past the end": ([{"operator": "Slice", "inputs": [0], "axis": 3, "start": 0, "end": 7}], "axis 3 has 6 places"),
}  # fmt: skip


@pytest.mark.parametrize(("operators", "line"), REFUSED.values(), ids=[*REFUSED])
def test_a_description_is_refused_in_one_line_before_memory_is_taken(operators, line):
    with pytest.raises(ValueError, match=line) as refused:
        GraphNetwork(4, operators, height=6, width=6)
    assert "\n" not in str(refused.value)


def test_what_normalises_is_checked():
    with pytest.raises(ValueError, match="mean is 0 and scale 0; pixels cannot be normalised by them"):
        GraphNetwork(4, SMALL, height=6, width=6, mean=0.0, scale=0.0)
