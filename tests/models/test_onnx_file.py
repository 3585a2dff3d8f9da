"""ONNX files: the same embedding as the network, from raw pixels, in a file that says what it takes."""

import dataclasses
import logging
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from further_backbones import with_further
from verisphere.backbones import Backbone, EfficientNet, GraphNetwork, IResNet, MobileFaceNet, Pixels, SEResNet, SFNet
from verisphere.models import folder as model_folder
from verisphere.models.folder import Model
from verisphere.models.model_json import FileDigest
from verisphere.models.onnx_file import (
    FARTHEST_COSINE,
    FARTHEST_NUMBER,
    InputFormat,
    compare_onnx,
    read_onnx,
    require_export,
    write_onnx,
)

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


class Small(Backbone):
    """Two layers, so that an export takes a second."""

    input_size = (16, 12)
    mean, scale = 100.0, 50.0

    def __init__(self) -> None:
        super().__init__(5)
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4), nn.PReLU(4), nn.Flatten())
        self.project = nn.Linear(4 * 7 * 5, 5)

    def embed(self, images):
        return self.project(self.layers(images))


def model_of(backbone: Backbone, flip: bool) -> Model:
    return Model(Path("nowhere"), "small", backbone.eval(), "ab" * 32, flip, "own", ())


def write(path: Path, model: Model) -> Path:
    backbone = model.backbone
    about = InputFormat(backbone.input_size, model.template, model.flip, backbone.embedding_size, model.sha256, "0.1.0")
    write_onnx(path, backbone, about)
    return path


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "flip"])
def pair(request, tmp_path_factory) -> tuple[Path, Model]:
    model = model_of(Small(), request.param)
    return write(tmp_path_factory.mktemp("onnx") / "model.onnx", model), model


def images(count: int, size: tuple[int, int] = (16, 12)) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, *size, 3), np.uint8)


# --- the same embedding ---


def test_the_file_and_the_network_agree(pair):
    path, model = pair
    file = read_onnx(path)
    agreement = compare_onnx(file, model)
    assert agreement.batches == (1, 7)
    assert agreement.cosine <= FARTHEST_COSINE
    assert agreement.number <= FARTHEST_NUMBER
    for count in (1, 2, 5, 0):
        np.testing.assert_allclose(file.embed(images(count)), model.embed(images(count)), rtol=1e-4, atol=1e-5)


def test_any_runtime_gets_the_embedding_from_raw_pixels(pair):
    """With nothing of ours but the file: float32 RGB in [0, 255], NCHW."""
    path, model = pair
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (taken,), (given,) = session.get_inputs(), session.get_outputs()
    assert (taken.name, taken.type, taken.shape) == ("images", "tensor(float)", ["batch", 3, 16, 12])
    assert (given.name, given.type, given.shape) == ("embeddings", "tensor(float)", ["batch", 5])
    pixels = images(3).transpose(0, 3, 1, 2).astype(np.float32)
    (rows,) = session.run(None, {"images": pixels})
    np.testing.assert_allclose(rows, model.embed(images(3)), rtol=1e-4, atol=1e-5)


def by_hand(model: Model, pixels: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        normalised = (torch.from_numpy(pixels).permute(0, 3, 1, 2).float() - 100) / 50
        rows = model.backbone.embed(normalised)
        return (rows + model.backbone.embed(normalised.flip(-1)) if model.flip else rows).numpy()


def test_the_mirror_image_is_added_inside(pair):
    path, model = pair
    np.testing.assert_allclose(read_onnx(path).embed(images(4)), by_hand(model, images(4)), rtol=1e-4, atol=1e-5)
    mirrored = np.ascontiguousarray(images(4)[:, :, ::-1])
    same = np.allclose(read_onnx(path).embed(images(4)), read_onnx(path).embed(mirrored), rtol=1e-4, atol=1e-5)
    assert same == model.flip


OPERATORS = [
    {"operator": "Arithmetic", "inputs": [0], "function": "Sub", "constant": 127.5},
    {"operator": "Arithmetic", "inputs": [1], "function": "Div", "constant": 128.0},
    {"operator": "Transpose", "inputs": [2], "order": [0, 3, 1, 2]},
    {"operator": "Conv", "inputs": [3], "weight": [6, 1, 3, 3], "group": 3, "pads": [1, 1]},
    {"operator": "BatchNormalization", "inputs": [4], "channels": 6},
    {"operator": "PRelu", "inputs": [5], "slopes": 6},
    {"operator": "Slice", "inputs": [6], "axis": 3, "start": 1, "end": 5},
    {"operator": "Reduce", "inputs": [7], "function": "ReduceMean", "axes": [2, 3]},
    {"operator": "Arithmetic", "inputs": [7, 8], "function": "Mul"},
    {"operator": "Reshape", "inputs": [9], "sizes": [192]},
    {"operator": "Gemm", "inputs": [10], "weight": [16, 192]},
    {"operator": "Arithmetic", "inputs": [11], "function": "Add", "sizes": [16], "trained": True},
]
#: Those with small arguments or several options; all others that are exported are made by their defaults.
BACKBONES = {
    "Pixels": lambda: Pixels(6),
    "Pixels colour": lambda: Pixels(9, grey=False, centred=False),
    "MobileFaceNet": lambda: MobileFaceNet(16, 0.1, "relu"),
    "MobileFaceNet PReLU": lambda: MobileFaceNet(16, 0.1),
    "SFNet": lambda: SFNet(20, 16),
    "EfficientNet": lambda: EfficientNet(16, width=0.25),
    "IResNet": lambda: IResNet(18, 16, dropout=0.4),
    "SEResNet": lambda: SEResNet(18, 16),
    "GraphNetwork": lambda: GraphNetwork(16, OPERATORS, 8, 6, 0.0, 1.0, "BGR", "NHWC"),
}
BACKBONES = with_further(BACKBONES, 16)
QUICK = ("Pixels", True)
CASES = [(name, flip) for name in BACKBONES for flip in (False, True)]


@pytest.mark.parametrize(
    ("name", "flip"), [case if case == QUICK else pytest.param(*case, marks=pytest.mark.slow) for case in CASES]
)
def test_every_backbone_can_be_exported(name, flip, tmp_path):
    torch.manual_seed(0)
    model = model_of(BACKBONES[name](), flip)
    agreement = compare_onnx(read_onnx(write(tmp_path / "model.onnx", model)), model)
    assert agreement.cosine < 1e-5


# --- what the file says, and does not say ---


def test_the_metadata_says_what_the_file_takes(pair):
    path, model = pair
    metadata = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    assert len(metadata.pop("verisphere_sha256")) == 64
    assert metadata == {
        "verisphere_format": "1",
        "verisphere_version": "0.1.0",
        "input_colour": "RGB",
        "input_range": "0..255",
        "input_layout": "NCHW",
        "input_size": "16x12",
        "template": "own",
        "flip": "added inside" if model.flip else "none",
        "embedding_size": "5",
        "backbone_sha256": "ab" * 32,
    }
    assert read_onnx(path).about == InputFormat((16, 12), "own", model.flip, 5, "ab" * 32, "0.1.0")


def test_the_file_names_no_path_of_this_machine(pair):
    content = pair[0].read_bytes()
    assert str(Path(__file__).parent).encode() not in content
    assert str(Path(torch.__file__).parent).encode() not in content
    assert b".py" not in content


def test_the_same_weights_give_the_same_bytes_and_no_talk(pair, tmp_path, capfd, caplog):
    path, model = pair
    assert write(tmp_path / "again.onnx", model).read_bytes() == path.read_bytes()
    assert capfd.readouterr() == ("", "")
    assert not [record for record in caplog.records if record.levelno >= logging.INFO]


# --- InsightFace ---


def insightface_normalisation(path: Path) -> tuple[float, float]:
    """(mean, scale) that InsightFace's loader subtracts and divides by, from the names of the first eight nodes."""
    names = [node.name for node in onnx.load(path).graph.node[:8]]
    inside = all(any(name.startswith(start) for name in names) for start in (("Sub", "_minus"), ("Mul", "_mul")))
    return (0.0, 1.0) if inside else (127.5, 127.5)


def test_insightface_leaves_pixels_as_they_are(pair):
    assert insightface_normalisation(pair[0]) == (0.0, 1.0)


def test_insightface_itself_gives_the_same_embedding(tmp_path):
    loaders = pytest.importorskip("insightface.model_zoo.arcface_onnx", exc_type=ImportError)
    torch.manual_seed(0)
    model = model_of(MobileFaceNet(16, 0.1, "relu"), True)
    loaded = loaders.ArcFaceONNX(str(write(tmp_path / "model.onnx", model)))
    faces = images(3, (112, 112))
    rows = loaded.get_feat([np.ascontiguousarray(face[..., ::-1]) for face in faces])  # it takes BGR
    np.testing.assert_allclose(rows, model.embed(faces), rtol=1e-4, atol=1e-5)


# --- what is refused ---


def test_a_file_that_computes_something_else_is_refused(pair):
    path, model = pair
    with pytest.raises(ValueError, match=r"model\.onnx differs from Small on a batch of 1: cosine by .*allowed"):
        compare_onnx(read_onnx(path), dataclasses.replace(model, flip=not model.flip))


def test_a_file_that_gives_no_numbers_is_refused(tmp_path):
    whole, broken = model_of(Small(), False), model_of(Small(), False)
    broken.backbone.project.bias.data.fill_(torch.nan)
    with pytest.raises(ValueError, match="cosine by nan"):
        compare_onnx(read_onnx(write(tmp_path / "nan.onnx", broken)), whole)


def rewritten(path: Path, to: Path, **metadata: str | None) -> Path:
    """The file with other metadata; None drops an entry."""
    model = onnx.load(path)
    entries = {entry.key: entry.value for entry in model.metadata_props} | metadata
    del model.metadata_props[:]
    for name, value in entries.items():
        if value is not None:
            model.metadata_props.add(key=name, value=value)
    onnx.save(model, to)
    return to


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (
            {"verisphere_format": None},
            "nothing in its metadata says what pixels it takes.* `verisphere adopt` makes",
        ),
        ({"verisphere_format": "2"}, "its input format is '2', this version of verisphere reads 1"),
        ({"input_size": "wide"}, "its metadata is not what `verisphere export` writes"),
        ({"template": None}, "its metadata is not what .* writes: 'template'"),
        ({"input_colour": "BGR"}, "is not what .* writes: input_colour"),
        ({"flip": "perhaps"}, "is not what .* writes: flip"),
    ],
)
def test_another_format_gets_one_line(pair, tmp_path, metadata, message):
    path = rewritten(pair[0], tmp_path / "other.onnx", **metadata)
    with pytest.raises(ValueError, match=message) as caught:
        read_onnx(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"not ONNX", b"\x00" * 100])
def test_what_is_no_onnx_file_gets_one_line(tmp_path, content):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"model\.onnx: ") as caught:
        read_onnx(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        read_onnx(tmp_path / "absent.onnx")


class Undecided(Small):
    """What it does depends on the values it sees, which a graph cannot write down."""

    def embed(self, images):
        return super().embed(images) if images.sum() > 0 else super().embed(-images)


def test_a_network_that_onnx_cannot_hold_gets_one_line(tmp_path, capfd):
    with pytest.raises(ValueError, match="Undecided cannot be written as ONNX: ") as caught:
        write(tmp_path / "model.onnx", model_of(Undecided(), False))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "model.onnx").exists()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_a_missing_extra_is_named(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=rf"needs {package}, not installed here; .*pip install '\.\[export\]'"):
        require_export()


def changed(source: Path, path: Path) -> Path:
    """The same network with one weight changed, and the metadata as they were."""
    model = onnx.load(source)
    weights = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data))
    content = bytearray(weights.raw_data)
    content[7] ^= 0x10
    weights.raw_data = bytes(content)
    onnx.save(model, path)
    return path


def test_a_changed_file_is_not_the_one_exported(pair, tmp_path):
    path, _ = pair
    (tmp_path / "copy.onnx").write_bytes(path.read_bytes())
    read_onnx(tmp_path / "copy.onnx")
    for damaged in (
        changed(path, tmp_path / "changed.onnx"),
        tmp_path / "longer.onnx",
        tmp_path / "unsealed.onnx",
    ):
        if damaged.name == "longer.onnx":
            damaged.write_bytes(path.read_bytes() + onnx.ModelProto(doc_string="more").SerializeToString())
        if damaged.name == "unsealed.onnx":
            model = onnx.load(path)
            del model.metadata_props[-1]
            onnx.save(model, damaged)
        with pytest.raises(ValueError, match=rf"{damaged.name}: not the file that was exported") as caught:
            read_onnx(damaged)
        assert "\n" not in str(caught.value)


def test_a_model_json_beside_it_has_a_say(pair, tmp_path, monkeypatch):
    path, _ = pair
    (tmp_path / "model.onnx").write_bytes(path.read_bytes())
    (tmp_path / "model.json").write_text("{}")
    with pytest.raises(ValueError, match=r"model\.json: not a model's description"):
        read_onnx(tmp_path / "model.onnx")
    digest = FileDigest("00" * 32, 5)
    listed = types.SimpleNamespace(files={"model.onnx": digest})
    monkeypatch.setattr(model_folder, "read_model_json", lambda path: listed)
    with pytest.raises(ValueError, match=r"model\.onnx: not the file that was exported: .* says 5 with 000000000000"):
        read_onnx(tmp_path / "model.onnx")
    listed.files = {"other.onnx": digest}
    read_onnx(tmp_path / "model.onnx")
