"""Checkpoints: there and back, whole or absent, and what a damaged one says."""

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from torch import nn

from verisphere.data import files
from verisphere.train.checkpoint import (
    list_checkpoints,
    load_into,
    load_optimizer,
    optimizer_tensors,
    read_checkpoint,
    save_checkpoint,
)
from verisphere.train.optimizer import Optimizer

TENSORS = {
    "filter": torch.arange(24.0).reshape(2, 3, 2, 2).contiguous(memory_format=torch.channels_last),
    "count": torch.tensor(7),
    "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
}


def save(run: Path, step: int, **state: object) -> Path:
    return save_checkpoint(run, step, {"backbone": TENSORS, "optimizer": {}}, state)


def test_it_comes_back_bit_for_bit(tmp_path):
    path = save(tmp_path, 12, seed=3, backbone={"class_path": "x", "init_args": {"a": None}})
    for place in (tmp_path, path):
        checkpoint = read_checkpoint(place)
        assert (checkpoint.path, checkpoint.step) == (path, 12)
        assert checkpoint.state == {"seed": 3, "backbone": {"class_path": "x", "init_args": {"a": None}}}
        read = checkpoint.tensors("backbone")
        assert read.keys() == TENSORS.keys()
        for name, tensor in TENSORS.items():
            assert read[name].dtype == tensor.dtype
            assert torch.equal(read[name], tensor)
        assert checkpoint.tensors("optimizer") == {}  # SGD without momentum has no state


def test_the_newest_two_stay(tmp_path):
    for step in (5, 100, 20, 3):
        save(tmp_path, step)
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step-00000020", "step-00000100"]
    assert read_checkpoint(tmp_path).step == 100


def test_a_write_that_fails_leaves_nothing_and_the_old_one_readable(tmp_path, monkeypatch):
    save(tmp_path, 1)

    def full(*_: object) -> None:
        raise SafetensorError("I/O error: No space left on device")

    monkeypatch.setattr("verisphere.train.checkpoint.save_file", full)
    with pytest.raises(OSError, match=r"step-00000002: backbone cannot be written: .* No space left"):
        save(tmp_path, 2)
    assert [entry.name for entry in (tmp_path / "checkpoints").iterdir()] == ["step-00000001"]
    assert read_checkpoint(tmp_path).step == 1


def test_what_a_killed_process_left_is_not_read_and_goes_with_the_next(tmp_path, monkeypatch):
    save(tmp_path, 1)
    monkeypatch.setattr(files, "_remove", lambda path: None)  # a killed process cleans nothing up
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, 2)
    monkeypatch.undo()
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2
    assert read_checkpoint(tmp_path).step == 1
    save(tmp_path, 3)
    assert sorted(entry.name for entry in (tmp_path / "checkpoints").iterdir()) == ["step-00000001", "step-00000003"]


def test_other_folders_are_not_checkpoints(tmp_path):
    for name in ("step-1", "step-00000001.bak", ".part-00ff-step-00000009"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    assert list_checkpoints(tmp_path) == []
    for place in (tmp_path, tmp_path / "absent"):
        with pytest.raises(FileNotFoundError, match="neither a checkpoint"):
            read_checkpoint(place)


def one_line(error: BaseException) -> str:
    assert "\n" not in str(error)
    return str(error)


@pytest.mark.parametrize("damage", ["truncated", "header", "flipped", "absent", "empty"])
def test_damaged_tensors_are_refused_by_name(tmp_path, damage):
    file = save(tmp_path, 1) / "backbone.safetensors"
    content = bytearray(file.read_bytes())
    if damage == "truncated":
        file.write_bytes(content[:-5])
    elif damage == "header":
        file.write_bytes(b"\xff" * 8 + content[8:])
    elif damage == "flipped":  # one bit of one number, which safetensors by itself would not notice
        content[-1] ^= 1
        file.write_bytes(content)
    elif damage == "absent":
        file.unlink()
    else:
        file.write_bytes(b"")
    with pytest.raises(ValueError, match="is damaged") as caught:
        read_checkpoint(tmp_path).tensors("backbone")
    assert str(file) in one_line(caught.value)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "7", '{"format": 1}', '{"format": 1, "step": "x", "sha256": {}}', '{"format": 1, "step": 1}',
     '{"format": 2, "step": 1, "sha256": {}}', '{"format": 1, "step": 1, "sha256": 3}', "\x00\x01"],
)  # fmt: skip
def test_a_damaged_state_is_refused_by_name(tmp_path, content):
    file = save(tmp_path, 1) / "state.json"
    file.write_text(content)
    with pytest.raises(ValueError, match="not a checkpoint's state") as caught:
        read_checkpoint(tmp_path)
    assert str(file) in one_line(caught.value)


def test_the_state_is_plain_json(tmp_path):
    state = json.loads((save(tmp_path, 4, seed=1) / "state.json").read_text())
    assert (state["format"], state["step"], state["seed"]) == (1, 4, 1)
    assert state["sha256"].keys() == {"backbone", "optimizer"}


def test_a_module_takes_exactly_its_own_tensors():
    source, target = nn.Linear(3, 2), nn.Linear(3, 2)
    load_into(target, dict(source.state_dict()), "here")
    assert torch.equal(source.weight, target.weight)
    with pytest.raises(ValueError, match="here does not fit Linear: bias"):
        load_into(target, {"weight": source.weight.detach()}, "here")
    with pytest.raises(ValueError, match=r"weight \(2, 4\) for \(2, 3\)"):
        load_into(target, dict(nn.Linear(4, 2).state_dict()), "here")
    with pytest.raises(ValueError, match="and 1 more"):
        load_into(nn.Linear(3, 2), {"a": torch.zeros(1), "b": torch.zeros(1)}, "here")


def stepped(optimizer: torch.optim.Optimizer, module: nn.Module) -> None:
    for _ in range(2):
        optimizer.zero_grad()
        module(torch.ones(1, 3, 4, 4).contiguous(memory_format=torch.channels_last)).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("settings", [Optimizer("sgd"), Optimizer("adamw", 1e-3), Optimizer("sgd", momentum=0.0)])
def test_an_optimizer_goes_on_as_if_nothing_had_happened(tmp_path, settings):
    torch.manual_seed(0)
    modules = [nn.Conv2d(3, 2, 3).to(memory_format=torch.channels_last) for _ in range(2)]
    optimizers = [settings.build(module) for module in modules]
    stepped(optimizers[0], modules[0])
    path = save_checkpoint(tmp_path, 2, {"optimizer": optimizer_tensors(optimizers[0])}, {})
    modules[1].load_state_dict(modules[0].state_dict())
    load_optimizer(optimizers[1], read_checkpoint(path).tensors("optimizer"), "here")
    for optimizer, module in zip(optimizers, modules, strict=True):
        stepped(optimizer, module)
    assert torch.equal(modules[0].weight, modules[1].weight)
    assert torch.equal(modules[0].bias, modules[1].bias)
    for values in optimizers[1].state.values():
        for value in values.values():  # in the order of the weights, or fused updates fall back to slow ones
            assert value.ndim < 4 or value.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("name", ["0.momentum_buffer", "9.momentum_buffer", "x.momentum_buffer", "momentum"])
def test_an_optimizer_refuses_what_is_not_its_own(name):
    optimizer = Optimizer().build(nn.Linear(3, 2))
    with pytest.raises(ValueError, match=rf"here does not fit SGD: {name} \(5,\)"):
        load_optimizer(optimizer, {name: torch.zeros(5)}, "here")
