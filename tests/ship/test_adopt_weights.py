"""A checkpoint of another project, from its file to a model folder that embeds and can be exported."""

import json

import pytest
import torch

from foreign_networks import Weights, embed, faces, saved
from verisphere.cli import main
from verisphere.files.disk import digest
from verisphere.models.build import read_description
from verisphere.models.folder import load
from verisphere.ship.adopt import adopt_weights

SMALL = "mobilefacenet_pytorch"

pytestmark = pytest.mark.usefixtures("process_as_it_was")


@pytest.fixture
def weights(tmp_path) -> Weights:
    return saved(tmp_path / "068.ckpt", SMALL)


def test_the_folder_embeds_as_the_source_does(weights, tmp_path):
    path, out, pixels = tmp_path / "068.ckpt", tmp_path / "model", faces(SMALL)
    result = adopt_weights(path, out, SMALL, flip=True, published="a page", licence="MIT")
    model = load(out, "cpu")
    wanted = embed(SMALL, weights, pixels) + embed(SMALL, weights, pixels.flip(-1))
    torch.testing.assert_close(torch.from_numpy(model.embed(pixels)), wanted, rtol=1e-5, atol=1e-5)
    assert model.template == "sphereface_112x96"
    assert model.training.described() == "there is no record of what the model was trained on"
    about = json.loads((out / "model.json").read_text())
    assert about["adopted"] == {
        **{"file": "068.ckpt", "sha256": digest(path), "source": "a page", "licence": "MIT", "preset": SMALL},
        "flip": True,
    }
    assert about["preprocessing"] == {
        **{"size": [112, 96], "colour": "RGB", "mean": 127.5, "scale": 128.0, "layout": "NCHW"}
    }
    assert sorted(file.name for file in out.iterdir()) == [
        *("backbone.safetensors", "backbone.yaml", "model.json", "model_card.md")
    ]
    assert read_description(out / "backbone.yaml") == (about["backbone"], 0)
    assert "adopted from 068.ckpt; source: a page; licence: MIT" in (out / "model_card.md").read_text()
    assert "a recipe has base: FOLDER/backbone.yaml and start: FOLDER" in result.text()


def test_the_command_adopts_a_checkpoint_by_its_suffix(weights, tmp_path, capsys):
    path, out = str(tmp_path / "068.ckpt"), str(tmp_path / "model")
    for options, line in (
        ([], "a checkpoint does not say whose network it fills; give --preset with one of arcface_torch, adaface"),
        (["--preset", SMALL, "--mean", "0"], "--mean describes an ONNX file"),
        (
            ["--preset", "facenet"],
            "--preset facenet is for ONNX files; the checkpoints that can be read are those of arc",
        ),
        (["--preset", SMALL, "--trainable"], "--trainable describes an ONNX file"),
        (["--preset", SMALL, "--template", "arcface_112x112"], "template 'arcface_112x112' does not fit MobileFaceNet"),
    ):
        assert main(["adopt", path, "--out", out, *options]) == 2
        assert line in capsys.readouterr().err
    assert main(["adopt", path, "--out", out, "--preset", SMALL, "--name", "theirs"]) == 0
    said = capsys.readouterr().out
    assert "model 'theirs', 8 numbers an embedding" in said
    assert "takes 112 x 96 pixels, RGB, NCHW, (pixel - 127.5) / 128, aligned to sphereface_112x96" in said
    assert main(["adopt", path, "--out", out, "--preset", SMALL]) == 2
    assert "a folder that is not empty" in capsys.readouterr().err


@pytest.mark.parametrize(("factor", "line"), [(1e38, "NaN or infinity"), (0, "the same numbers for every image")])
def test_nothing_is_left_of_a_network_that_does_not_run(weights, tmp_path, factor, line):
    tensors = {name: tensor.clone() for name, tensor in weights.items()}
    tensors["conv1.conv.weight"] *= factor
    torch.save(tensors, tmp_path / "068.ckpt")
    with pytest.raises(ValueError, match=rf"with these weights does not run: .*{line}"):
        adopt_weights(tmp_path / "068.ckpt", tmp_path / "model", SMALL)
    assert [file.name for file in tmp_path.iterdir()] == ["068.ckpt"]
