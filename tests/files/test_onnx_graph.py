"""Graphs made elsewhere, as they are read; tests/models/test_foreign_onnx.py has those that are refused."""

import pytest

from foreign_graphs import SIDE, graph, written
from verisphere.files.onnx_graph import axes_in_words, axes_of, only_input, read_graph


def test_a_graph_is_read_with_its_ends(tmp_path):
    path = written(tmp_path / "net.onnx", graph(listed=True))
    content, model = read_graph(path)
    assert content == path.read_bytes()
    image = only_input(model.graph)
    assert image.name == "images"
    assert axes_of(image) == [None, 3, SIDE, SIDE]
    assert axes_in_words(axes_of(image)) == f"? x 3 x {SIDE} x {SIDE}"


def test_several_inputs_have_no_only_one(tmp_path):
    model = graph()
    model.graph.input.append(model.graph.output[0])
    with pytest.raises(ValueError, match=r"its inputs are \['images', 'embedding'\]; one is allowed"):
        only_input(model.graph)
