"""A graph made elsewhere as a backbone: the pixels that it is given are those that were told."""

from pathlib import Path

import numpy as np
import pytest
import torch

from foreign_graphs import SIDE, SIZE, expected, graph, written
from verisphere.backbones import OnnxNetwork

IMAGES = np.random.default_rng(1).integers(0, 256, (5, SIDE, SIDE, 3), dtype=np.uint8)


def network(tmp_path: Path, model, **told) -> OnnxNetwork:
    made = OnnxNetwork(SIZE, SIDE, SIDE, image_input="images", **told)
    path = written(tmp_path / "net.onnx", model)
    made.read(path.read_bytes(), path)
    return made


def embedded(made: OnnxNetwork) -> np.ndarray:
    return made(made.normalise(torch.from_numpy(IMAGES).permute(0, 3, 1, 2))).numpy()


@pytest.mark.parametrize("colour", ["RGB", "BGR"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    ("numbers", "mean", "scale", "tolerance"),
    [("float32", 127.5, 128.0, 1e-5), ("float16", 127.5, 127.5, 2e-2), ("uint8", 0.0, 1.0, 1e-2)],
)
@pytest.mark.parametrize("batch", [None, 1, 2, 8])
def test_embeddings_are_those_of_the_pixels_told(tmp_path, colour, layout, numbers, mean, scale, tolerance, batch):
    told = {"colour": colour, "layout": layout, "numbers": numbers, "mean": mean, "scale": scale, "batch": batch}
    found = embedded(network(tmp_path, graph(layout, numbers, batch), **told))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected(IMAGES, mean, scale, colour), rtol=0, atol=tolerance * 3 * SIDE)


def test_what_the_graph_normalises_is_not_normalised_before(tmp_path):
    found = embedded(network(tmp_path, graph(normalised=False), mean=0.0, scale=1.0))
    np.testing.assert_allclose(found, expected(IMAGES, 127.5, 128), rtol=0, atol=1e-4)


def test_colours_told_wrongly_change_the_embeddings(tmp_path):
    right, wrong = (embedded(network(tmp_path, graph(), colour=colour)) for colour in ("RGB", "BGR"))
    assert np.abs(right - wrong).max() > 1


def test_no_image_is_no_batch(tmp_path):
    assert network(tmp_path, graph(), batch=1)(torch.empty(0, 3, SIDE, SIDE)).shape == (0, SIZE)


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ({"height": 0}, "a face of 0 x 112 pixels"),
        ({"scale": 0.0}, "scale is 0; pixels are divided by it, so it is above 0"),
        ({"numbers": "uint8"}, "mean 127.5 and scale 127.5 for an input of uint8 pixels"),
        ({"batch": 0}, "batch is 0; a graph takes one image at a time or more"),
    ],
)
def test_what_cannot_be(told, line):
    with pytest.raises(ValueError, match=line):
        OnnxNetwork(SIZE, **told)


def test_without_a_graph_nothing_is_embedded():
    with pytest.raises(ValueError, match="no graph was read; load the folder that `verisphere adopt` made"):
        OnnxNetwork(SIZE)(torch.zeros(1, 3, 112, 112))


def test_a_graph_of_another_shape_is_named(tmp_path):
    made = OnnxNetwork(SIZE + 1, SIDE, SIDE, image_input="images")
    path = written(tmp_path / "net.onnx", graph())
    made.read(path.read_bytes(), path)
    with pytest.raises(ValueError, match=r"net\.onnx: gives numbers of shape \(5, 6\) for 5 images, where \(5, 7\)"):
        embedded(made)


def test_what_fails_while_it_runs_names_the_file(tmp_path):
    made = network(tmp_path, graph(batch=4))
    with pytest.raises(ValueError, match=r"net\.onnx: does not run on a batch of 2: "):
        embedded(made)
