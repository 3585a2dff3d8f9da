"""An ONNX file adopted as a network that can be trained on: the folder, what it embeds, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from foreign_graphs import SIDE, expected, graph, written
from verisphere.backbones import GraphNetwork
from verisphere.cli import main
from verisphere.models.build import read_description
from verisphere.models.folder import load
from verisphere.models.onnx_file import read_onnx
from verisphere.ship.adopt import adopt_onnx
from verisphere.ship.card.words import settings_in_words
from verisphere.ship.pixels import Told

IMAGES = np.random.default_rng(1).integers(0, 256, (4, SIDE, SIDE, 3), dtype=np.uint8)

pytestmark = pytest.mark.usefixtures("process_as_it_was")


def adopted(tmp_path: Path, model, **told):
    path, told = written(tmp_path / "net.onnx", model), Told(**told, template="mine_8x8")
    return adopt_onnx(path, tmp_path / "model", told, trainable=True, source="a page", licence="MIT")


@pytest.mark.parametrize(
    ("model", "colour", "mean", "scale"),
    [
        (graph(), "RGB", 127.5, 128.0),
        (graph("NHWC", "uint8", 1), "BGR", 0.0, 1.0),
        (graph("NCHW", "float16"), "RGB", 127.5, 127.5),
    ],
    ids=["plain", "NHWC BGR uint8 one by one", "float16"],
)
def test_the_folder_holds_a_network_that_embeds_as_the_graph_does(tmp_path, model, colour, mean, scale):
    result = adopted(tmp_path, model, colour=colour, mean=mean, scale=scale)
    assert "its weights can be trained further" in result.text()
    assert {path.name for path in (tmp_path / "model").iterdir()} == {
        "backbone.safetensors", "backbone.yaml", "model.json", "model_card.md",
    }  # fmt: skip
    made, wanted = load(tmp_path / "model"), expected(IMAGES, mean, scale, colour)
    np.testing.assert_allclose(made.embed(IMAGES), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    assert isinstance(made.backbone, GraphNetwork)
    about = json.loads((tmp_path / "model" / "model.json").read_text())
    assert about["preprocessing"]["colour"] == colour
    assert read_description(tmp_path / "model" / "backbone.yaml") == (about["backbone"], 0)
    assert (about["adopted"]["file"], about["adopted"]["licence"]) == ("net.onnx", "MIT")


def test_an_operator_that_cannot_be_trained_on_is_named_and_nothing_stays(tmp_path):
    model = graph()
    model.graph.node[-1].output[0] = "before"
    model.graph.node.append(helper.make_node("Erf", ["before"], ["embedding"]))
    with pytest.raises(
        ValueError, match=r"net\.onnx: its operator 'Erf' cannot be trained on here; adopt the graph with"
    ):
        adopted(tmp_path, model, colour="RGB", mean=0.0, scale=1.0)
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]


def test_by_the_command_line(tmp_path, capsys):
    path = written(tmp_path / "net.onnx", graph())
    told = ["--colour", "BGR", "--mean", "0", "--scale", "1", "--template", "mine_8x8"]
    assert main(["adopt", str(path), *told, "--trainable", "--out", str(tmp_path / "model")]) == 0
    assert "its weights can be trained further" in capsys.readouterr().out
    shipped = tmp_path / "shipped"
    assert main(["export", str(tmp_path / "model"), "--out", str(shipped)]) == 0
    assert "model.onnx against PyTorch, batches of 1 and 7: cosine differs by at most" in capsys.readouterr().out
    wanted = load(tmp_path / "model").embed(IMAGES)
    np.testing.assert_array_equal(load(shipped).embed(IMAGES), wanted)
    found = read_onnx(shipped / "model.onnx").embed(IMAGES)  # RGB, as every model.onnx takes, for a graph of BGR
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())
    for name in ("backbone.yaml", "backbone.safetensors"):
        assert (shipped / name).read_bytes() == (tmp_path / "model" / name).read_bytes()


def test_the_card_counts_the_operators_of_a_network():
    operators = [{"operator": "Function", "function": "Relu", "inputs": [number]} for number in range(99)]
    assert settings_in_words({"size": 4, "operators": operators}) == "size=4, operators=(99 entries)"
    assert settings_in_words({"rates": [0.1, 0.2]}) == "rates=[0.1, 0.2]"
