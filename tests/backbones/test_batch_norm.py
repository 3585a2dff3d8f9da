"""Synchronised batch norm: one process's with all the images, on processes that have unequally many."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from processes import run
from verisphere.backbones.batch_norm import SyncBatchNorm, synchronised
from verisphere.base.collectives import counted
from verisphere.base.distributed import world

SIZES = {2: (5, 2), 3: (1, 4, 2)}
#: Places beyond the channels, dtype of the images, and settings of the norm.
CASES: dict[str, tuple[tuple[int, ...], torch.dtype, dict[str, Any]]] = {
    "planes": ((4, 3), torch.float64, {}),
    "rows": ((), torch.float64, {"momentum": 0.3}),
    "not affine": ((2,), torch.float64, {"affine": False}),
    "rows, not affine": ((), torch.float64, {"affine": False}),
    "counting": ((2, 2), torch.float64, {"momentum": None}),
    "no running statistics": ((2, 2), torch.float64, {"track_running_stats": False}),
    "float32": ((4, 4), torch.float32, {"eps": 1e-3}),
    "half precision": ((4, 4), torch.bfloat16, {}),
}
KINDS = {0: nn.BatchNorm1d, 1: nn.BatchNorm1d, 2: nn.BatchNorm2d}
CHANNELS = 3


def images(name: str, step: int, rows: int) -> tuple[Tensor, Tensor]:
    """Images far from 0, as sums of squares do not like them, and the gradient that comes back."""
    place, dtype, _ = CASES[name]
    generator = torch.Generator().manual_seed(step)
    made, back = (torch.randn(rows, CHANNELS, *place, generator=generator, dtype=torch.float64) for _ in range(2))
    return (3 * made + 50).to(dtype), back.to(dtype)


def norm(name: str) -> nn.Module:
    place, dtype, settings = CASES[name]
    made = KINDS[len(place)](CHANNELS, **settings)
    torch.manual_seed(1)
    for parameter in made.parameters():
        nn.init.normal_(parameter)
    return synchronised(made.to(torch.promote_types(dtype, torch.float32)))


def found(name: str, sizes: tuple[int, ...], rank: int | None) -> dict[str, Tensor]:
    """Two steps and an evaluation: on a process's rows, or on all rows where it has no rank."""
    layer = norm(name)
    rows = slice(None) if rank is None else slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
    result: dict[str, Tensor] = {}
    for step in range(2):
        given, back = images(name, step, sum(sizes))
        given = given[rows].clone().requires_grad_()
        made = layer(given)
        made.backward(back[rows])
        assert given.grad is not None
        result |= {f"row made {step}": made.detach().double(), f"row gradient {step}": given.grad.double()}
    result |= {f"gradient of {key}": one.grad.double() for key, one in layer.named_parameters() if one.grad is not None}
    result |= {f"buffer {key}": one.double() for key, one in layer.named_buffers()}
    layer.eval()
    if name == "no running statistics":  # a process's own are taken in evaluation, where others may not be called
        return result
    return result | {"row evaluated": layer(images(name, 2, sum(sizes))[0][rows]).double()}


def worker() -> dict[str, Any]:
    here = world()
    result: dict[str, Any] = {name: found(name, SIZES[here.size], here.rank) for name in CASES}
    layer = norm("planes")
    given = images("planes", 0, 2)[0].requires_grad_()
    with counted() as traffic:
        layer(given).sum().backward()
    result["traffic"] = [(call.kind, call.payload) for call in traffic.calls]
    return result


@pytest.fixture(scope="module", params=SIZES, ids=lambda size: f"{size} processes")
def said(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return run(worker, request.param)


def test_it_is_one_processs_with_all_the_images(said: list[dict[str, Any]]):
    sizes = SIZES[len(said)]
    for name, (_, dtype, _) in CASES.items():
        tolerance = {torch.float64: 1e-10, torch.float32: 1e-4, torch.bfloat16: 2e-2}[dtype]
        for key, expected in found(name, sizes, None).items():
            parts = [one[name][key] for one in said]
            if key.startswith("row"):
                ours = torch.cat(parts)
            elif key.startswith("buffer"):
                ours = parts[0]
                assert all(torch.equal(part, ours) for part in parts)
            else:
                ours = torch.stack(parts).sum(0)
            assert torch.allclose(ours, expected, rtol=tolerance, atol=tolerance), (name, key)


def test_it_takes_two_small_collectives(said: list[dict[str, Any]]):
    for one in said:
        assert one["traffic"] == [("gather", 8 * (2 * CHANNELS + 1)), ("sum", 8 * 2 * CHANNELS)]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
        self.last = nn.BatchNorm1d(4, momentum=None)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x).mean((2, 3)))


def test_exchanged_layers_keep_names_numbers_and_mode():
    plain, net = Net(), Net()
    net.load_state_dict(plain.state_dict())
    net.last.eval()
    parameters = dict(net.named_parameters())
    assert synchronised(net) is net
    assert type(net.first[1]) is SyncBatchNorm
    assert not net.last.training
    assert net.last.momentum is None
    assert {name: id(one) for name, one in net.named_parameters()} == {
        name: id(one) for name, one in parameters.items()
    }
    assert net.state_dict().keys() == plain.state_dict().keys()
    plain.load_state_dict(net.state_dict())
    assert synchronised(net) is net  # once more changes nothing


def test_on_one_process_it_is_pytorchs_bit_for_bit():
    plain, net = Net(), Net()
    net.load_state_dict(plain.state_dict())
    synchronised(net)
    for mode in (True, False):
        given = torch.randn(5, 3, 2, 2)
        assert torch.equal(net.train(mode)(given), plain.train(mode)(given))
    assert all(torch.equal(one, plain.state_dict()[name]) for name, one in net.state_dict().items())


class OwnNorm(nn.BatchNorm2d):
    """Somebody's own."""


def test_a_batch_norm_of_ones_own_is_refused():
    with pytest.raises(ValueError, match="knows PyTorch's BatchNorm1d, 2d and 3d, but the backbone has a OwnNorm"):
        synchronised(nn.Sequential(OwnNorm(2)))
