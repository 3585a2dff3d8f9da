"""The choice of a device, and telling the allocator to keep memory."""

import sys

import pytest
import torch

from processes import run
from verisphere.base.device import choose_device, device_of, full_float32, keep_memory
from verisphere.base.distributed import World


def test_the_cpu():
    assert choose_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize(("there", "chosen"), [(True, "cuda"), (False, "cpu")])
def test_a_gpu_where_there_is_one(there: bool, chosen: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert choose_device(None).type == choose_device().type == chosen


# mps, xpu and meta are names that PyTorch knows.
@pytest.mark.parametrize("name", ["mps", "xpu", "meta", "nope", "", "cuda:99", "cuda:x", "cuda:-1"])
def test_other_devices_are_refused_by_name(name: str):
    with pytest.raises(ValueError, match=repr(name)) as caught:
        choose_device(name)
    assert "\n" not in str(caught.value)


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    for name in ("cuda", "cuda:0"):
        with pytest.raises(ValueError, match=f"device {name!r} was asked for, but PyTorch sees"):
            choose_device(name)


def test_the_number_of_a_gpu_is_checked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("cuda") == torch.device("cuda")
    assert choose_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(ValueError, match="'cuda:2'"):
        choose_device("cuda:2")


@pytest.mark.cuda
def test_a_real_gpu_computes():
    assert torch.ones(2, device=choose_device("cuda:0")).sum().item() == 2


def test_of_several_processes_each_takes_its_own_gpu(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("verisphere.base.device.world", lambda: World(3, 4, 1))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("cuda") == choose_device(None) == torch.device("cuda:1")
    assert choose_device("cpu") == torch.device("cpu")
    with pytest.raises(
        ValueError, match="device 'cuda:0' is one GPU for 4 processes; name cuda, and each takes its own"
    ):
        choose_device("cuda:0")


def kept() -> bool:
    told = keep_memory()
    for _ in range(3):
        assert torch.ones(1 << 22).mul_(2).sum().item() == 1 << 23  # 16 MiB, above glibc's own threshold
    return told


def test_keeping_memory_does_no_harm():
    [told] = run(kept, 1)  # a process of its own, for it holds for the whole of one
    assert isinstance(told, bool)


def test_elsewhere_than_on_linux_nothing_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert keep_memory() is False


def test_a_network_lies_where_its_weights_do():
    statistics_only = torch.nn.BatchNorm1d(2, affine=False)
    assert device_of(torch.nn.ReLU()) == device_of(statistics_only) == torch.device("cpu")
    assert device_of(statistics_only.to("meta")) == torch.device("meta")


def test_float32_is_float32_and_afterwards_what_it_was():
    before = torch.backends.cudnn.conv.fp32_precision
    with full_float32():
        assert torch.backends.cudnn.conv.fp32_precision == torch.backends.cuda.matmul.fp32_precision == "ieee"
    assert torch.backends.cudnn.conv.fp32_precision == before


@pytest.mark.cuda
def test_convolutions_on_a_gpu_keep_every_bit_of_float32_inside():
    torch.manual_seed(0)
    image, weight = torch.randn(8, 64, 28, 28), torch.randn(64, 64, 3, 3)
    exact = torch.nn.functional.conv2d(image.double(), weight.double())
    with full_float32():
        there = torch.nn.functional.conv2d(image.cuda(), weight.cuda()).cpu()
    assert float((there - exact).norm() / exact.norm()) < 1e-6
