"""torch.compile where it works, eager and one line where it does not."""

import logging

import pytest
import torch
from torch import nn

from verisphere.base import compiling
from verisphere.base.compiling import compiled, compiler_works

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _ask_again():
    compiler_works.cache_clear()
    yield
    compiler_works.cache_clear()


@pytest.mark.parametrize(
    ("failure", "reason"),
    [(RuntimeError("no compiler\nwas found"), "no compiler"), (NotImplementedError(), "NotImplementedError")],
)
def test_without_a_compiler_it_runs_eager_and_says_so_once(monkeypatch, caplog, failure, reason):
    tried = []

    def broken(*arguments: object, **options: object) -> None:
        tried.append(1)
        raise failure

    monkeypatch.setattr(compiling.torch, "compile", broken)
    module = nn.Linear(2, 2)
    images = torch.ones(1, 2)
    with caplog.at_level(logging.WARNING, "verisphere"):
        for _ in range(3):
            assert torch.equal(compiled(module, CPU)(images), module(images))
    assert tried == [1]
    assert [record.getMessage() for record in caplog.records] == [
        f"compiling is not possible here ({reason}); everything runs eager"
    ]


def test_a_compiler_that_computes_wrongly_is_not_used(monkeypatch):
    monkeypatch.setattr(compiling.torch, "compile", lambda function, **options: lambda x: 0 * x)
    assert not compiler_works("cpu")


def test_the_module_stays_as_it_is(monkeypatch):
    calls = []
    monkeypatch.setattr(compiling.torch, "compile", lambda function, **options: calls.append(options) or function)
    module = nn.Linear(2, 2)
    run = compiled(module, CPU)
    assert not isinstance(run, nn.Module)  # it must not become a second copy of the network in a state dict
    assert calls == [{}, {"dynamic": False}]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what a compiler warns of is not ours
def test_compiled_equals_eager_with_gradients():
    if not compiler_works("cpu"):
        pytest.skip("there is no compiler here")
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.PReLU(4), nn.Flatten(), nn.Linear(4 * 36, 5))
    run, images = compiled(module, CPU), torch.randn(6, 3, 8, 8)
    found = []
    for one in (run, module):
        module.zero_grad()
        made = one(images)
        made.square().sum().backward()
        found.append([made.detach(), *(parameter.grad.clone() for parameter in module.parameters())])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)
