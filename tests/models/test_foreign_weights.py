"""Checkpoints of other projects in our networks: the same embeddings, every name accounted for, and what is refused."""

import argparse
import os
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from foreign_networks import NETWORKS, SIZE, Weights, checkpoint, embed, faces, saved
from verisphere.cli import adopting
from verisphere.models import foreign_weights
from verisphere.models.build import build_backbone
from verisphere.models.foreign_names import SOURCES
from verisphere.models.foreign_weights import read_foreign_weights

SMALL = "mobilefacenet_pytorch"  # 4 MB


@pytest.fixture(scope="module")
def weights() -> Weights:
    """The tensors of a small network; a test changes a copy."""
    tensors = Weights()
    embed(SMALL, tensors, faces(SMALL, 1))
    return tensors


def ours(path: Path, source: str, pixels: torch.Tensor) -> torch.Tensor:
    description, tensors = read_foreign_weights(path, source)
    network = build_backbone(description)
    network.load_state_dict(tensors)
    with torch.no_grad():
        return network.eval()(network.normalise(pixels))


def difference(left: torch.Tensor, right: torch.Tensor) -> float:
    return ((left - right).abs().max() / right.abs().max()).item()


@pytest.mark.parametrize("source", SOURCES)
def test_embeddings_are_those_of_the_source(source, tmp_path):
    theirs, pixels, path = saved(tmp_path / "net.pth", source), faces(source), tmp_path / "net.pth"
    wanted, found = embed(source, theirs, pixels), ours(path, source, pixels)
    if source in ("adaface", "insightface_pytorch"):
        found = torch.nn.functional.normalize(found)
    assert found.shape == (2, SIZE)
    assert difference(found, wanted) < 1e-5
    # four vectors of a batch norm have one shape: an exchange of two passes every check, and is seen here
    norm = next(name.removesuffix(".running_var") for name in theirs if name.endswith(".running_var"))
    for left, right in (("weight", "running_var"), ("bias", "running_mean")):
        first, second = f"{norm}.{left}", f"{norm}.{right}"
        torch.save(checkpoint(source, {**theirs, first: theirs[second], second: theirs[first]}), path)
        assert difference(ours(path, source, pixels), wanted) > 1e-3


def test_epsilon_is_that_of_magface(tmp_path):
    theirs, pixels = saved(tmp_path / "net.pth", "magface"), faces("magface")
    other = NETWORKS["arcface_torch"][0](theirs, NETWORKS["magface"][2](pixels.float()))
    assert difference(ours(tmp_path / "net.pth", "magface", pixels), other) > 1e-4


def test_the_command_names_the_same_sources():
    assert tuple(SOURCES) == adopting.SOURCES == tuple(NETWORKS)


@pytest.mark.parametrize(
    "way", ["bare", "module.", "model.", "_orig_mod.", "older format", "safetensors", "half", "no counters"]
)
def test_every_way_of_saving_gives_the_same_tensors(way, weights, tmp_path):
    path = tmp_path / ("net.safetensors" if way == "safetensors" else "net.pth")
    tensors = dict(weights)
    if way.endswith("."):
        tensors = {f"{way}{name}": tensor for name, tensor in tensors.items()}
    elif way == "half":
        tensors = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
    elif way == "no counters":
        tensors = {name: tensor for name, tensor in tensors.items() if not name.endswith("num_batches_tracked")}
    if way == "safetensors":
        save_file(tensors, path)
    else:
        tensors = {"model": tensors} if way == "older format" else tensors
        torch.save(tensors, path, _use_new_zipfile_serialization=way != "older format")
    description, found = read_foreign_weights(path, SMALL)
    assert description == {
        "class_path": "verisphere.backbones.MobileFaceNet",
        "init_args": {"embedding_size": SIZE, "face_height": 112, "face_width": 96, "mean": 127.5, "scale": 128.0},
    }
    assert found["stem.0.1.num_batches_tracked"] == (0 if way == "no counters" else 5)
    torch.testing.assert_close(found["pool.1.running_var"], weights["linear7.bn.running_var"], atol=1e-3, rtol=0)
    assert found["pool.1.running_var"].dtype == torch.float32


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"linear1.bn.bias": None}, "not a network of mobilefacenet_pytorch: it lacks 'linear1.bn.bias'$"),
        ({"fc.weight": torch.zeros(2)}, "it has 'fc.weight', which that network has not"),
        (
            {"blocks.14.conv.7.bias": None, "blocks.15.conv.0.weight": torch.zeros(2)},
            "it lacks 'blocks.14.conv.7.bias', and it has 'blocks.15.conv.0.weight'",
        ),
        ({"dw_conv1.bn.num_batches_tracked": None}, "it lacks 'dw_conv1.bn.num_batches_tracked'"),
        ({"linear7.conv.weight": torch.zeros(512, 1, 7, 7)}, r"linear7.conv.weight is \(512, 1, 7, 7\), where"),
        ({"conv1.bn.bias": torch.full((64,), torch.nan)}, "conv1.bn.bias holds NaN or infinity"),
        ({"conv1.bn.running_var": -torch.ones(64)}, "conv1.bn.running_var holds a variance below 0"),
        ({"conv1.bn.bias": torch.zeros(64, dtype=torch.int32)}, "conv1.bn.bias is a tensor of torch.int32"),
        (
            {"conv1.bn.bias": torch.zeros(64).to_sparse()},
            r"conv1.bn.bias is a tensor of torch.float32 \(torch.sparse_coo",
        ),
        ({"conv1.bn.bias": torch.zeros(64, device="meta")}, "conv1.bn.bias is a tensor of torch.float32 .*meta"),
        ({"conv1.bn.bias": torch.zeros(1).expand(2**40)}, r"conv1.bn.bias is \(1099511627776,\), where \(64,\)"),
        ({"linear1.conv.weight": torch.zeros(0, 512, 1, 1)}, "embedding_size is 0"),
        ({"linear1.conv.weight": torch.zeros(())}, "embedding_size is 0"),
        ({"linear1.conv.weight": torch.zeros(1, 1).expand(2**30, 512)}, "embedding_size is 1,073,741,824"),
        ({"epoch": 3}, "holds 'epoch', which is no tensor; save the state_dict of the network alone"),
        ({"conv1.conv.weight": None}, "it lacks conv1.conv.weight, and begins with 'conv1.bn.weight'"),
    ],
)
def test_every_name_and_shape_must_fit(change, line, weights, tmp_path):
    changed = {**weights, **change}
    path = tmp_path / "net.pth"
    torch.save({name: tensor for name, tensor in changed.items() if tensor is not None}, path)
    with pytest.raises(ValueError, match=line):
        read_foreign_weights(path, SMALL)


def few_blocks(source: str, blocks: int) -> dict[str, torch.Tensor]:
    """Names that an IResNet of some blocks would have, for a checkpoint that is refused by their number."""
    if source == "adaface":
        names = [f"body.{block}.res_layer.0.weight" for block in range(blocks)]
        return {f"model.{name}": torch.zeros(1) for name in ["input_layer.0.weight", "output_layer.3.weight", *names]}
    names = [f"layer1.{block}.bn1.weight" for block in range(blocks)]
    return {name: torch.zeros(1) for name in ["conv1.weight", "fc.weight", *names]}


@pytest.mark.parametrize(
    ("source", "content", "line"),
    [
        (
            "arcface_torch",
            few_blocks("arcface_torch", 9),
            r"has 9 residual blocks; .* has 8 \(depth 18\), 16 \(depth 34\)",
        ),
        ("adaface", few_blocks("adaface", 50), "has 50 residual blocks"),
        ("adaface", few_blocks("adaface", 8), "it lacks 'input_layer.1.weight'"),
        ("arcface_torch", few_blocks("adaface", 8), "its first and last names are those of adaface"),
        ("magface", few_blocks("arcface_torch", 8), "its first and last names are those of arcface_torch"),
        (
            "insightface_pytorch",
            "small",
            "its first and last names are those of mobilefacenet_pytorch|it lacks 'conv2_dw.conv.weight'",
        ),
        (
            "magface",
            {"features.module.conv1.weight": torch.zeros(1), "other.weight": torch.zeros(1)},
            "has 'other.weight' beside the network of magface, whose names begin with features.module.",
        ),
        ("arcface_torch", {}, "holds no tensors by name but a dict"),
        ("arcfaec_torch", {}, r"there is no source 'arcfaec_torch' \(did you mean arcface_torch\?\)"),
    ],
)
def test_another_network_is_refused_and_named_where_it_is_known(source, content, line, weights, tmp_path):
    torch.save(dict(weights) if content == "small" else content, tmp_path / "net.pth")
    with pytest.raises(ValueError, match=line):
        read_foreign_weights(tmp_path / "net.pth", source)


def test_a_table_that_leaves_a_name_of_ours_out_is_refused(weights, tmp_path, monkeypatch):
    whole = SOURCES[SMALL]
    short = [layer for layer in whole.layers(18) if layer[1] != "pool.1"]
    monkeypatch.setitem(SOURCES, SMALL, replace(whole, layers=lambda depth: iter(short)))
    torch.save({name: tensor for name, tensor in weights.items() if "linear7.bn" not in name}, tmp_path / "net.pth")
    with pytest.raises(ValueError, match=r"and MobileFaceNet differ in 'pool\.1\.bias', .* and 2 more"):
        read_foreign_weights(tmp_path / "net.pth", SMALL)


class Opens:
    """An object whose pickle runs a command when it is read without care."""

    def __reduce__(self):
        return os.mkdir, ("ran",)


@pytest.mark.parametrize("more", [argparse.Namespace(a=1), Opens()])
def test_what_takes_code_is_not_read_and_no_command_that_would_run_it_is_shown(more, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": {}, "more": more}, "net.ckpt")
    with pytest.raises(ValueError, match="holds more than tensors") as caught:
        read_foreign_weights(Path("net.ckpt"), "adaface")
    line = str(caught.value)
    assert "\n" not in line
    assert all(way in line for way in ("owner", ".safetensors", "ONNX", "a container without network"))
    assert not any(word in line for word in ("weights_only", "torch.load", "python"))
    assert not Path("ran").exists()


def test_a_pickle_of_another_kind_warns_of_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("net.pth").write_bytes(pickle.dumps({"a": Opens()}, protocol=4))
    with pytest.raises(ValueError, match=r"net\.pth: (holds more than tensors|not a checkpoint)"):
        read_foreign_weights(Path("net.pth"), SMALL)
    assert not Path("ran").exists()


def test_damaged_files_end_with_one_line(weights, tmp_path, monkeypatch):
    path = tmp_path / "net.pth"
    torch.save(dict(weights), path)
    whole = path.read_bytes()
    for content in (b"", b"junk" * 99, b"a few words, 105", whole[: len(whole) // 2], b"PK\x03\x04" + whole[:99]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"^\S+net.pth: not a checkpoint of PyTorch that can be read: ") as caught:
            read_foreign_weights(path, SMALL)
        assert "\n" not in str(caught.value)
        assert "http" not in str(caught.value)
    (tmp_path / "net.safetensors").write_bytes(whole)
    with pytest.raises(ValueError, match=r"net\.safetensors: not a file of safetensors"):
        read_foreign_weights(tmp_path / "net.safetensors", SMALL)
    with pytest.raises(FileNotFoundError, match=r"none\.pth"):
        read_foreign_weights(tmp_path / "none.pth", SMALL)
    path.write_bytes(whole)
    monkeypatch.setattr(foreign_weights, "LARGEST_ARCHIVE", 1000)
    with pytest.raises(ValueError, match="bytes; a checkpoint has at most 1,000"):
        read_foreign_weights(path, SMALL)


def test_an_archive_of_several_disks_is_refused_by_name(weights, tmp_path):
    path = tmp_path / "net.pth"
    torch.save(dict(weights), path)
    content = bytearray(path.read_bytes())
    place = content.rindex(b"PK\x06\x07")  # the number of disks of a large archive
    content[place + 16 : place + 20] = b"\x09\x00\x00\x00"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"net\.pth: not a checkpoint of PyTorch that can be read: zipfiles that span"):
        read_foreign_weights(path, SMALL)


def test_an_archive_that_unfolds_is_refused(weights, tmp_path, monkeypatch):
    path, folded = tmp_path / "net.pth", tmp_path / "folded.pth"
    torch.save(dict(weights), path)
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(folded, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
    with pytest.raises(ValueError, match=r"is compressed, which torch\.save never does"):
        read_foreign_weights(folded, SMALL)
    monkeypatch.setattr(foreign_weights, "_LARGEST_PICKLE", 100)
    with pytest.raises(ValueError, match=r"data.pkl' has [\d,]+ bytes, at most 100"):
        read_foreign_weights(path, SMALL)
