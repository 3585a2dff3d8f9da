"""Checkpoints: there and back, whole or absent, and what a damaged one says."""

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import nn

from verisphere.base.distributed import World
from verisphere.files import disk as files
from verisphere.head.head import Head
from verisphere.losses.margin import CosFace
from verisphere.models.checkpoint import (
    ByClass,
    Shard,
    list_checkpoints,
    load_into,
    load_optimizer,
    optimizer_tensors,
    read_checkpoint,
    save_checkpoint,
    shared_rows,
    write_shard,
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

    monkeypatch.setattr("verisphere.models.checkpoint.save_file", full)
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


# Rows of classes ------------------------------------------------------------------------------------------------------

CENTERS = torch.arange(42.0).reshape(7, 2, 3)
MOMENTUM = CENTERS.flip(0)
PARTS = {
    "backbone": TENSORS,
    "head": {"centers": CENTERS, "loss.bias": torch.tensor(2.0)},
    "optimizer": {"0.momentum_buffer": torch.ones(2), "3.momentum_buffer": MOMENTUM, "3.step": torch.tensor(5.0)},
}


def by_class(rows: range) -> ByClass:
    return ByClass(rows, lambda part, name: name == "centers" or name.startswith("3."))


def split(run: Path, shares: list[range]) -> Path:
    """A checkpoint as several processes write it, their shards in any order."""
    path = run / "checkpoints" / "step-00000003"
    path.mkdir(parents=True)
    digests, held = {}, {}
    for rank, rows in enumerate(shares):
        name = Shard.of(World(rank, len(shares)), rows).name
        parts = {part: {key: one[rows.start : rows.stop] if one.ndim == 3 else one for key, one in tensors.items()}
                 for part, tensors in PARTS.items()}  # fmt: skip
        digests[name] = write_shard(path / f"{name}.safetensors", parts, by_class(rows))
        held[name] = [rows.start, rows.stop]
    for part, tensors in PARTS.items():
        file = path / f"{part}.safetensors"
        save_file({name: one.contiguous() for name, one in tensors.items() if one.ndim != 3}, file)
        digests[part] = files.digest(file)
    shards = dict(reversed(held.items()))
    (path / "state.json").write_text(json.dumps({"format": 2, "step": 3, "sha256": digests, "shards": shards}))
    return path


@pytest.fixture(params=[[range(7)], [range(4), range(4, 7)], [range(3), range(3, 5), range(5, 7)], None], ids=str)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A checkpoint of some processes; None is today's of one."""
    if request.param is None:
        return save_checkpoint(tmp_path, 3, PARTS, {})
    return split(tmp_path, request.param)


@pytest.mark.parametrize("rows", [None, range(7), range(4), range(2, 6), range(6, 7), range(7, 7)], ids=str)
def test_any_process_reads_its_rows_of_any_checkpoint(stored, rows):
    checkpoint = read_checkpoint(stored)
    held = None if rows is None else by_class(rows)
    inside = slice(None) if rows is None else slice(rows.start, rows.stop)
    for part, tensors in PARTS.items():
        read = checkpoint.tensors(part, held)
        assert read.keys() == tensors.keys()
        for name, tensor in tensors.items():
            expected = tensor[inside] if name == "centers" or name == "3.momentum_buffer" else tensor
            assert torch.equal(read[name], expected), name


def test_only_the_shards_asked_for_are_opened_and_each_is_checked(tmp_path):
    path = split(tmp_path, [range(4), range(4, 7)])
    file = path / "head-00002-of-00002.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    checkpoint = read_checkpoint(path)
    assert torch.equal(checkpoint.tensors("head", by_class(range(3)))["centers"], CENTERS[:3])
    with pytest.raises(ValueError, match=r"head-00002-of-00002\.safetensors is damaged .*it is not what was written"):
        checkpoint.tensors("head")
    file.unlink()
    with pytest.raises(ValueError, match=r"head-00002-of-00002\.safetensors is damaged .*No such file"):
        checkpoint.tensors("optimizer", by_class(range(3, 5)))


KEPT = torch.arange(10.0).view(5, 2)


@pytest.mark.parametrize("shares", [[range(3), range(3, 5)], [range(5), range(5, 5)]], ids=str)
@pytest.mark.parametrize("wanted", [range(5), range(2), range(2, 4), range(4, 5), range(5, 5), None], ids=str)
def test_rows_that_are_not_by_class_have_shares_of_their_own(tmp_path, shares, wanted):
    path = split(tmp_path, [range(4), range(4, 7)])
    state = json.loads((path / "state.json").read_text())
    state["rows"] = {}
    for rank, (rows, classes) in enumerate(zip(shares, [range(4), range(4, 7)], strict=True)):
        name = Shard.of(World(rank, 2), classes).name
        held = ByClass(classes, lambda part, name: False, {"pairs/0.kept": rows})
        parts = {"pairs": {"0.kept": KEPT[rows.start : rows.stop], "0.count": torch.tensor(3)}}
        state["sha256"][name] = write_shard(path / f"{name}.safetensors", parts, held)
        state["rows"][name] = {"pairs/0.kept": [rows.start, rows.stop]}
    save_file({"0.count": torch.tensor(3)}, path / "pairs.safetensors")
    state["sha256"]["pairs"] = files.digest(path / "pairs.safetensors")
    (path / "state.json").write_text(json.dumps(state))
    held = None if wanted is None else ByClass(range(4), lambda part, name: False, {"pairs/0.kept": wanted})
    read = read_checkpoint(path).tensors("pairs", held)
    inside = slice(None) if wanted is None else slice(wanted.start, wanted.stop)
    assert torch.equal(read["0.kept"], KEPT[inside])
    assert read["0.count"] == 3


@pytest.mark.parametrize(
    "rows",
    [[], {"nobody": {}}, {"head-00001-of-00001": 3}, {"head-00001-of-00001": {"pairs/a": [0]}},
     {"head-00001-of-00001": {"pairs/a": [2, 4]}}],
    ids=str,
)  # fmt: skip
def test_rows_that_are_none_are_refused(tmp_path, rows):
    path = split(tmp_path, [range(7)])
    state = json.loads((path / "state.json").read_text()) | {"rows": rows}
    (path / "state.json").write_text(json.dumps(state))
    with pytest.raises(ValueError, match="not a checkpoint's state"):
        read_checkpoint(path)


@pytest.mark.parametrize(
    "shards",
    [
        *({"../elsewhere": [0, 7]}, {"a": [7, 0]}, {"a": [-1, 3]}, {"a": [0, 4, 2]}, [], {"a": "b"}, {}),
        *({"a": [0, 4], "b": [3, 7]}, {"a": [0, 3], "b": [4, 7]}, {"a": [True, 7]}, {"a": [0, 10**30]}, {"a": [5]}),
    ],
    ids=str,
)
def test_shards_that_are_none_are_refused(tmp_path, shards):
    path = split(tmp_path, [range(7)])
    state = json.loads((path / "state.json").read_text()) | {"shards": shards}
    (path / "state.json").write_text(json.dumps(state))
    with pytest.raises(ValueError, match="not a checkpoint's state"):
        read_checkpoint(path)


def test_shards_that_were_exchanged_are_refused(tmp_path):
    path = split(tmp_path, [range(4), range(4, 7)])
    state = json.loads((path / "state.json").read_text())
    one, two = state["shards"]
    state["shards"] = {one: [0, 4], two: [4, 7]} if state["shards"][one] == [4, 7] else {one: [4, 7], two: [0, 4]}
    (path / "state.json").write_text(json.dumps(state))
    with pytest.raises(ValueError, match=r"head-0000\d-of-00002\.safetensors holds \d classes, \d were written"):
        read_checkpoint(path).tensors("head")


def test_a_backbone_is_read_without_the_shards(tmp_path):
    path = split(tmp_path, [range(4), range(4, 7)])
    for shard in path.glob("head-*"):
        shard.unlink()
    assert read_checkpoint(path).tensors("backbone").keys() == PARTS["backbone"].keys()


@pytest.mark.parametrize("step", [-5, 2.7, True, "3", float("inf"), None])
def test_a_step_that_is_none_is_refused(tmp_path, step):
    file = save(tmp_path, 1) / "state.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"step": step}))
    with pytest.raises(ValueError, match=r"not a checkpoint's state: its step is .*, not a number of steps"):
        read_checkpoint(tmp_path)


def test_the_tensors_of_classes_are_the_centers_and_what_is_kept_of_them():
    head = Head(CosFace(), 5, 3)
    network = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    optimizer = Optimizer().build(nn.ModuleList([network, head]))
    held = shared_rows(head, optimizer)
    assert held.rows == range(5)
    asked = [("head", "centers"), ("head", "loss.bias"), ("optimizer", "2.momentum_buffer"), ("backbone", "centers"),
             ("optimizer", "1.momentum_buffer"), ("optimizer", "20.momentum_buffer")]  # fmt: skip
    assert [one for one in asked if held.has(*one)] == [("head", "centers"), ("optimizer", "2.momentum_buffer")]


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
