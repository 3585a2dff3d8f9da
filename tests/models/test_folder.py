"""Model folders: what is loaded is what was exported, byte for byte, and it is used as it was calibrated."""

import dataclasses
import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from verisphere.backbones import MobileFaceNet
from verisphere.base.vocabulary import ImageSource, Origin, TrainingRecord
from verisphere.decide import independent_threshold
from verisphere.images.faces import Faces
from verisphere.models import folder as model_folder
from verisphere.models.build import build_backbone
from verisphere.models.folder import Model, is_model_folder, load, pixel_batches
from verisphere.models.model_json import (
    Description,
    FileDigest,
    model_json,
    preprocessing,
    read_model_json,
    taken_pixels,
)

SOURCE = ImageSource("lfw.zip", False, "arcface_112x112 by MTCNN")

CLASS = "verisphere.backbones.mobilefacenet.MobileFaceNet"
ARGUMENTS = {"embedding_size": 8, "width": 0.1, "activation": "relu"}
THRESHOLDS = tuple(independent_threshold(np.linspace(-1, 1, 101), far, "expected") for far in ("0.1", "2e-2"))
SIZE = (112, 112)


def digest(path: Path) -> FileDigest:
    content = path.read_bytes()
    return FileDigest(hashlib.sha256(content).hexdigest(), len(content))


def write(folder: Path, **changes: object) -> Path:
    """A model folder, made without the export."""
    folder.mkdir()
    torch.manual_seed(0)
    backbone = build_backbone({"class_path": CLASS, "init_args": ARGUMENTS})
    save_file(backbone.state_dict(), folder / "backbone.safetensors")
    (folder / "notes.txt").write_text("as it was\n")
    description = Description(
        name="tiny",
        verisphere="0.1.0",
        torch="2.9.0",
        backbone={"class_path": CLASS, "init_args": ARGUMENTS},
        embedding_size=8,
        template="arcface_112x112",
        preprocessing=preprocessing(backbone),
        flip=True,
        thresholds=THRESHOLDS,
        training=TrainingRecord(step=3, images=10, people=2, seed=None, sources=(SOURCE,)),
        files={name: digest(folder / name) for name in ("backbone.safetensors", "notes.txt")},
    )
    (folder / "model.json").write_text(model_json(dataclasses.replace(description, **changes)))
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    return write(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def folder(whole, tmp_path) -> Path:
    """A copy to spoil."""
    return shutil.copytree(whole, tmp_path / "tiny")


@pytest.fixture(scope="module")
def model(whole) -> Model:
    return load(whole, "cpu")


def images(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *SIZE, 3), np.uint8)


# --- what is loaded ---


def test_everything_comes_back(whole, model):
    assert (model.name, model.flip, model.template) == ("tiny", True, "arcface_112x112")
    assert model.thresholds == THRESHOLDS
    assert model.sha256 == digest(whole / "backbone.safetensors").sha256
    assert isinstance(model.backbone, MobileFaceNet)
    assert not model.backbone.training
    torch.manual_seed(0)
    expected = MobileFaceNet(**ARGUMENTS).state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in model.backbone.state_dict().items())


def test_files_that_are_not_listed_are_ignored(folder):
    (folder / "more.txt").touch()
    assert load(folder, "cpu").name == "tiny"


def test_a_model_folder_is_known_by_its_description(whole, tmp_path):
    assert is_model_folder(whole)
    assert is_model_folder(str(whole))
    assert not is_model_folder(tmp_path)
    assert not is_model_folder(whole / "model.json")


def test_embeddings_add_the_mirror_image(model):
    pixels = torch.from_numpy(images(3)).permute(0, 3, 1, 2)
    with torch.inference_mode():
        both = [model.backbone(model.backbone.normalise(view)) for view in (pixels, pixels.flip(-1))]
    np.testing.assert_allclose(model.embed(images(3)), (both[0] + both[1]).numpy(), rtol=1e-5, atol=1e-6)
    plain = dataclasses.replace(model, flip=False)
    np.testing.assert_allclose(plain.embed(images(3)), both[0].numpy(), rtol=1e-5, atol=1e-6)


def test_arrays_and_tensors_and_batches_give_the_same(model):
    rows = model.embed(images(5))
    assert rows.shape == (5, 8)
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(model.embed(torch.from_numpy(images(5)).permute(0, 3, 1, 2)), rows)
    np.testing.assert_allclose(model.embed(images(5), batch_size=2), rows, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(model.embed(images(0)), np.empty((0, 8), np.float32))


def test_arrays_of_any_memory_order_are_taken(model):
    """OpenCV's order of colours, turned round by a view with a negative stride; and an array that cannot be written."""
    bgr = images(2)[..., ::-1].copy()
    still = images(2)
    still.setflags(write=False)
    for view in (bgr[..., ::-1], still, np.asfortranarray(images(2))):
        np.testing.assert_array_equal(model.embed(view), model.embed(images(2)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (images(2).astype(np.float32), "images are float32, but uint8 pixels"),
        (torch.zeros(1, 3, *SIZE), "images are torch.float32, but uint8 pixels"),
        (images(1)[0], r"images have shape \(112, 112, 3\); .*image\[None\]"),
        (images(1).transpose(0, 3, 1, 2), r"have shape \(1, 3, 112, 112\); an array \(n, height, width, 3\)"),
        (torch.from_numpy(images(1)), r"have shape \(1, 112, 112, 3\)"),
        (np.zeros((1, 250, 96, 3), np.uint8), "250 x 96 pixels, but the model takes 112 x 112; align them first"),
        ([images(1)[0]], "images are a list; an array"),
    ],
)
def test_other_images_get_one_line(wrong, message):
    with pytest.raises(ValueError, match=message):
        next(pixel_batches(wrong, SIZE))


def test_embeddings_that_are_no_numbers_are_refused(whole):
    broken = load(whole, "cpu")
    next(broken.backbone.parameters()).data.fill_(torch.nan)
    with pytest.raises(ValueError, match="2 of 2 embeddings hold NaN or infinity, the first is 0"):
        broken.embed(images(2))


class Few(Faces):
    names, identities = ("a/1.png", "b/1.png"), ("a", "b")

    def images(self, indices):
        return torch.from_numpy(images(2)[list(indices)]).permute(0, 3, 1, 2).contiguous()


def test_embeddings_of_a_set_name_the_model(model):
    embeddings = model.extract(Few(), "few.zip")
    pixels = taken_pixels(model.backbone)
    made = Origin(model.sha256, True, "float32", "few.zip", preprocessing=pixels, template="arcface_112x112")
    assert embeddings.origin == made
    np.testing.assert_allclose(embeddings.embeddings, model.embed(images(2)), rtol=1e-5, atol=1e-6)


# --- thresholds ---


@pytest.mark.parametrize(("far", "place"), [("0.1", 0), (0.1, 0), ("1e-1", 0), ("0.02", 1), ("2e-2", 1)])
def test_a_threshold_is_found_by_its_rate(model, far, place):
    assert model.threshold(far) == THRESHOLDS[place]


def test_a_threshold_that_is_not_there(model):
    with pytest.raises(ValueError, match=r"no threshold at FAR 1e-6 .*; there is: 0\.1, 2e-2"):
        model.threshold("1e-6")
    with pytest.raises(ValueError, match=r"thresholds at FAR 0\.1, 2e-2; name one"):
        model.threshold()
    with pytest.raises(ValueError, match="a FAR must be a decimal number"):
        model.threshold("one percent")
    assert dataclasses.replace(model, thresholds=THRESHOLDS[:1]).threshold() == THRESHOLDS[0]
    with pytest.raises(
        ValueError, match=r"ships no threshold for two photographs; find one .*calibrate.*--calibration"
    ):
        dataclasses.replace(model, thresholds=()).threshold("0.1")


# --- what is refused ---


def test_no_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent: there is no such model folder"):
        load(tmp_path / "absent")
    with pytest.raises(ValueError, match=r"a folder without model\.json; a model is a folder"):
        load(tmp_path)
    (tmp_path / "model.onnx").touch()
    with pytest.raises(ValueError, match=r"model\.onnx: a file; a model is a folder"):
        load(tmp_path / "model.onnx")


@pytest.mark.parametrize("name", ["backbone.safetensors", "notes.txt", "model.json"])
def test_a_changed_byte_anywhere_gives_one_line_that_names_the_file(folder, name):
    content = bytearray((folder / name).read_bytes())
    random = np.random.default_rng(1)
    for place in (0, len(content) - 1, *random.integers(0, len(content), 10)):
        spoilt = bytearray(content)
        spoilt[place] ^= 1
        (folder / name).write_bytes(spoilt)
        with pytest.raises(ValueError, match=rf"{name}: ") as caught:
            load(folder, "cpu")
        assert "\n" not in str(caught.value)


def test_a_missing_file(folder):
    (folder / "notes.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"notes\.txt: listed in model\.json but not there"):
        load(folder, "cpu")


def resealed(folder: Path, **changes: object) -> None:
    """Change fields of model.json as somebody would who also puts the digest right."""
    fields = json.loads((folder / "model.json").read_text())
    del fields["sha256"]
    fields |= changes
    seal = hashlib.sha256(json.dumps(fields, indent=2).encode()).hexdigest()
    (folder / "model.json").write_text(json.dumps(fields | {"sha256": seal}, indent=2) + "\n")


def threshold(**changes: object) -> list[dict[str, object]]:
    return [dataclasses.asdict(THRESHOLDS[0]) | changes]


WEIGHTS = {"backbone.safetensors": {"sha256": "0" * 64, "bytes": 1}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "its format is 2, this version reads 1"),
        ({"name": "two\nlines"}, "its name is .*; a name is one line"),
        ({"backbone": "Net"}, "backbone must be an object, got 'Net'"),
        ({"thresholds": threshold(guarantee="certain")}, r"guarantee must be 'expected'"),
        ({"thresholds": threshold(far_target="few")}, r"thresholds\[0\]: a FAR must be a decimal number"),
        ({"thresholds": threshold(rank=5)}, r"thresholds\[0\]: rank 5"),
        ({"thresholds": threshold() * 2}, r"several thresholds at FAR 0\.1"),
        ({"files": {}}, "its files must name one of backbone.safetensors, network.onnx and function.json"),
        ({"files": WEIGHTS | {"../notes.txt": {"sha256": "", "bytes": 0}}}, r"its files name '\.\./notes\.txt'"),
        ({"files": WEIGHTS | {"/etc/hostname": {"sha256": "", "bytes": 0}}}, "its files name '/etc/hostname'"),
    ],
)
def test_a_description_of_the_wrong_kind_gets_one_line(folder, changes, message):
    resealed(folder, **changes)
    with pytest.raises(ValueError, match=message) as caught:
        load(folder, "cpu")
    assert str(caught.value).startswith(f"{folder / 'model.json'}: not a model's description: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"format": 1}'])
def test_what_is_no_description_gets_one_line(folder, content):
    (folder / "model.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"model\.json: not a model's description: ") as caught:
        read_model_json(folder / "model.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"backbone": {"class_path": "os.system", "init_args": {"command": "true"}}}, "'os.system' is not part of"),
        ({"backbone": {"class_path": CLASS, "init_args": {"width": -1.0}}}, "cannot be built: width is -1"),
        (
            {"backbone": {"class_path": CLASS, "init_args": ARGUMENTS | {"embedding_size": 9}}},
            "embedding_size is 8, but the backbone is to be built with 9",
        ),
        (
            {"backbone": {"class_path": CLASS, "init_args": ARGUMENTS | {"width": 0.3}}},
            r"backbone\.safetensors does not fit MobileFaceNet: stem",
        ),
        (
            {"preprocessing": {"size": [112, 96], "colour": "RGB", "mean": 127.5, "scale": 128.0, "layout": "NCHW"}},
            r"preprocessing is .*, but MobileFaceNet has .*; was the class changed",
        ),
    ],
)
def test_weights_and_class_must_belong_together(folder, changes, message):
    resealed(folder, **changes)
    with pytest.raises(ValueError, match=message) as caught:
        load(folder, "cpu")
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "cpu:x"])
def test_a_device_that_is_not_there(whole, device):
    with pytest.raises(ValueError, match=f"device '{device}' cannot be used: ") as caught:
        load(whole, device)
    assert "\n" not in str(caught.value)


def test_a_device_is_chosen_and_may_be_an_object(whole):
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert next(load(whole).backbone.parameters()).device.type == expected
    assert next(load(whole, torch.device("cpu")).backbone.parameters()).device.type == "cpu"


@pytest.mark.parametrize(
    ("size", "asked", "message"),
    [
        (10**9, 10**9, "its embedding_size is 1000000000; allowed are 1 to 65536"),
        (0, 0, "its embedding_size is 0; allowed are"),
        (8, 10**9, "embedding_size is 8, but the backbone is to be built with 1000000000"),
    ],
)
def test_no_network_of_a_size_out_of_reason_is_built(folder, monkeypatch, size, asked, message):
    monkeypatch.setattr(model_folder, "build_backbone", lambda *_: pytest.fail("it was built"))
    arguments = ARGUMENTS | {"embedding_size": asked}
    resealed(folder, embedding_size=size, backbone={"class_path": CLASS, "init_args": arguments})
    with pytest.raises(ValueError, match=message) as caught:
        load(folder, "cpu")
    assert len(str(caught.value)) < 300


def test_a_folder_from_before_sources_were_recorded_is_described_by_its_recipe(folder):
    recipe = folder / "recipe.yaml"
    recipe.write_text("data: {class_path: verisphere.images.SyntheticFaces, init_args: {people: 2}}\n")
    names = ("backbone.safetensors", "notes.txt", "recipe.yaml")
    before = dataclasses.replace(
        read_model_json(folder / "model.json"),
        training=TrainingRecord(step=3, images=10, people=2),
        files={name: digest(folder / name) for name in names},
    )
    (folder / "model.json").write_text(model_json(before))
    model = load(folder, "cpu")
    assert model.training.drawn
    assert model.drawn("0.1") == "trained"
    assert "the model was trained on drawn faces of 2 people who do not exist" in model.promise("0.1")
