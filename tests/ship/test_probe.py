"""A probe finds how a network wants its pixels, where telling people apart hardly shows it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import numpy_helper

from foreign_graphs import SIDE, SIZE, graph, weights, written
from verisphere.backbones import OnnxNetwork
from verisphere.images import InMemory, Photos
from verisphere.ship.adopt import Told, adopt_onnx
from verisphere.ship.probe import FEWEST_PEOPLE, Pixels, probe, standing_out


def people(count: int, images: int = 2, seed: int = 0) -> InMemory:
    """Faces whose red part is the person's and whose blue part is of the moment."""
    generator = np.random.default_rng(seed)
    own = generator.integers(0, 256, (count, 1, 1, SIDE, SIDE)) + generator.normal(
        0, 60, (count, images, 1, SIDE, SIDE)
    )
    other = generator.integers(0, 256, (count, images, 2, SIDE, SIDE))
    pixels = torch.from_numpy(np.concatenate([own.clip(0, 255), other], 2).reshape(-1, 3, SIDE, SIDE).astype(np.uint8))
    names = [(f"p{person}/{image}", f"p{person}") for person in range(count) for image in range(images)]
    return InMemory(pixels, tuple(name for name, _ in names), tuple(person for _, person in names))


def of_red(path: Path) -> Path:
    """A graph that sees the first colour plane alone."""
    model, planes = graph(), weights().reshape(3, -1, SIZE)
    planes[1:] *= 0.3
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(planes.reshape(-1, SIZE), "weights"))
    return written(path, model)


@pytest.fixture
def network(tmp_path: Path) -> OnnxNetwork:
    made = OnnxNetwork(SIZE, SIDE, SIDE, mean=0.0, scale=1.0, image_input="images")
    path = of_red(tmp_path / "net.onnx")
    made.read(path.read_bytes(), path)
    return made


def test_the_colours_told_wrongly_are_noticed(network):
    found = probe(network, people(80), Pixels("BGR", 127.5, 127.5))
    assert found.people == 80
    assert found.best.pixels.colour == "RGB"
    assert {way.pixels.colour for way in found.better} == {"RGB"}
    assert "what serves this model best is another way: RGB, (127.5, 127.5)" in found.text()
    gains = [way.gain for way in found.ways]
    assert gains == sorted(gains, reverse=True)
    assert next(way for way in found.ways if way.pixels == found.declared).gain == 0


def test_what_was_told_rightly_is_left_alone(network):
    found = probe(network, people(80), Pixels("RGB", 127.5, 127.5))
    assert not [way for way in found.better if way.pixels.colour == "BGR" or way.pixels.scale == 1]
    assert "few people" not in found.text()


def test_where_nothing_is_told_the_best_is_taken(network):
    found = probe(network, people(30))
    assert found.declared == found.best.pixels
    assert not found.told
    assert "taken, since nothing was declared" in found.text()
    assert "few people: RGB and BGR part from about 60 people on" in found.text()


def test_too_few_people_are_refused(network):
    with pytest.raises(ValueError, match=rf"9 people have two images or more; a probe needs {FEWEST_PEOPLE}"):
        probe(network, people(9))
    with pytest.raises(ValueError, match="0 people have two images or more"):
        probe(network, people(20, images=1))


def test_own_scores_by_hand():
    """Three people on the axes; the third's second image lies on the first axis."""
    x, y, z = np.eye(3)
    rows = np.array([x, x, y, y, z, x])
    impostor = np.array([0.0, 1.0, 0.0, 0.0, 0.0, 0.0])  # first images against second ones of the others
    wanted = (np.array([1.0, 1.0, 0.0]) - impostor.mean()) / impostor.std()
    np.testing.assert_allclose(standing_out(rows), wanted)


@pytest.mark.parametrize("rows", [np.ones((6, 3)), np.zeros((6, 3)), np.full((6, 3), np.nan)])
def test_embeddings_that_say_nothing_stand_out_by_nothing(rows):
    assert standing_out(rows).tolist() == [0, 0, 0]


def test_a_model_adopted_with_a_probe_takes_what_was_measured(tmp_path):
    from PIL import Image

    faces = people(40)
    for name, pixels in zip(faces.names, faces.images(range(80)), strict=True):
        path = tmp_path / "faces" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(path)
    net = of_red(tmp_path / "net.onnx")
    found = adopt_onnx(net, tmp_path / "model", Told(template="mine_8x8"), probe_with=tmp_path / "faces")
    assert found.description.preprocessing["colour"] == "RGB"
    assert "taken, since nothing was declared" in found.text()


@pytest.mark.slow
def test_lfw_shows_the_colours_from_sixty_people_on(real_data):
    faces = Photos(str(real_data / "lfw_112.zip"), str(real_data / "lfw_protocol" / "peopleDevTest.txt"), min_images=2)
    faces = faces.select([index for index, person in enumerate(faces.identities) if person in set(faces.people[:60])])
    made = OnnxNetwork(128, mean=0.0, scale=1.0, embedding_output="fc1")
    path = real_data / "pretrained_mobilefacenet.onnx"
    made.read(path.read_bytes(), path)
    found = probe(made, faces, Pixels("BGR", 0.0, 1.0))
    assert Pixels("RGB", 0.0, 1.0) in [way.pixels for way in found.better]
