"""A probe finds how a network wants its pixels, where telling people apart hardly shows it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import numpy_helper
from PIL import Image

from foreign_graphs import SIDE, SIZE, graph, weights, written
from verisphere.backbones import OnnxNetwork
from verisphere.images import InMemory, Photos
from verisphere.images.detect import TEMPLATES, Detections
from verisphere.ship import probe as probing
from verisphere.ship.adopt import adopt_onnx
from verisphere.ship.pixels import Pixels, Told
from verisphere.ship.probe import FEWEST_PEOPLE, probe, standing_out


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
    assert "taken, since not everything was given" in found.text()
    assert "few people: RGB and BGR part from about 60 people on" in found.text()


def test_too_few_people_are_refused(network):
    with pytest.raises(ValueError, match=rf"9 people have two images or more; a probe needs {FEWEST_PEOPLE}"):
        probe(network, people(9))
    with_nobody = people(10)
    with_nobody.identities = ("-1", "-1", *with_nobody.identities[2:])
    with pytest.raises(ValueError, match="9 people have two images or more"):
        probe(network, with_nobody)
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
    on_disk(tmp_path / "faces", people(40))
    net = of_red(tmp_path / "net.onnx")
    found = adopt_onnx(net, tmp_path / "model", Told(template="mine_8x8"), probe_with=tmp_path / "faces")
    assert found.description.preprocessing["colour"] == "RGB"
    assert "taken, since not everything was given" in found.text()


def on_disk(folder: Path, faces: InMemory, side: int = SIDE, at: tuple[int, int] = (0, 0)) -> Path:
    """The faces as PNG files; each enlarged to another `side` within a grey photograph of 4 x 5 sides."""
    for name, pixels in zip(faces.names, faces.images(range(len(faces))), strict=True):
        image = Image.fromarray(pixels.permute(1, 2, 0).numpy()).resize((side, side), Image.Resampling.NEAREST)
        if side != SIDE:
            photograph = Image.new("RGB", (5 * side, 4 * side), (128, 128, 128))
            photograph.paste(image, at)
            image = photograph
        path = folder / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path)
    return folder


class Knows:
    """A detector that knows the place of the face: its landmarks are those of a template in a square there."""

    name = "one that knows"

    def __init__(self, left: float, top: float, side: float) -> None:
        corner = np.array([left, top], np.float32)
        points = np.array(TEMPLATES["arcface_112x112"].points, np.float32)
        self.landmarks = (points + 0.5) * np.float32(side / 112) - 0.5 + corner
        self.box = np.concatenate([corner, corner + np.float32(side)])
        self.searched = 0

    def detect(self, images):
        self.searched += len(images)
        return [
            Detections(self.box[None], self.landmarks[None], np.ones(1, np.float32))
            if image.max() > 200  # not on a photograph that is dark
            else Detections(np.zeros((0, 4), np.float32), np.zeros((0, 5, 2), np.float32), np.zeros(0, np.float32))
            for image in images
        ]

    def how_searched(self, height, width):
        return ""


def test_templates_are_cut_from_photographs_by_landmarks_that_are_found_once(network, tmp_path):
    folder = on_disk(tmp_path / "photos", people(30), 5 * SIDE, (40, 24))
    Image.new("RGB", (9, 9)).save(folder / "p7" / "0.png")  # without a face
    detector = Knows(40, 24, 5 * SIDE)
    found = probe(network, Photos(folder, size=(SIDE, SIDE)), Pixels("RGB", 127.5, 127.5), detector=detector)
    assert detector.searched == 60
    assert found.people == 29
    assert {(way.pixels.template, way.pixels.crop) for way in found.ways} == {
        ("arcface_112x112", share) for share in probing.SHARES
    }
    assert found.declared == Pixels("RGB", 127.5, 127.5, template="arcface_112x112")
    # the faces fill the template's own view, and no part of it
    assert found.best.pixels.crop == 1
    assert found.best.pixels.colour == "RGB"
    said = found.text()
    assert "29 people, two images each (faces on photographs, found by one that knows; excluded, no face" in said
    assert "arcface_112x112, 116% of its view" in said
    assert "arcface_112x112, the middle 86%" in said


def test_another_part_of_the_template_is_found_to_serve_best(network, tmp_path):
    """The network was made for faces that fill 1.16 of the view."""
    folder, side = on_disk(tmp_path / "photos", people(40), 5 * SIDE, (40, 24)), 5 * SIDE / 1.16
    beside = (5 * SIDE - side) / 2
    detector = Knows(40 + beside, 24 + beside, side)
    found = probe(network, Photos(folder, size=(SIDE, SIDE)), Pixels("RGB", 127.5, 127.5), detector=detector)
    assert found.best.pixels.crop == 1.16
    assert found.best.gain > 0


def test_photographs_are_told_from_aligned_faces(network, tmp_path, monkeypatch):
    """By the detector that is installed: here one that finds each face where it lies."""
    doubts: list[object] = []
    monkeypatch.setattr(probing, "checking_detector", lambda: "detector")
    monkeypatch.setattr(probing, "Detector", lambda device: Knows(40, 24, 5 * SIDE))
    monkeypatch.setattr(probing, "doubt_alignment", lambda *_, **__: doubts[-1])
    photographs = Photos(on_disk(tmp_path / "photos", people(12), 5 * SIDE, (40, 24)), size=(SIDE, SIDE))
    for doubt, origin in (("far", "found by one that knows"), (None, "images as they are")):
        doubts.append(doubt)
        assert origin in probe(network, photographs).origin
    aligned = Photos(on_disk(tmp_path / "aligned", people(12)), size=(SIDE, SIDE))
    doubts.append("not asked: these have the network's size, for which there is no template")
    assert "images as they are" in probe(network, aligned).origin


def test_what_is_told_in_part_is_kept(network):
    found = probe(network, people(30), told=Told(colour="BGR"))
    assert found.declared.colour == "BGR"
    assert found.best.pixels.colour == "RGB"
    assert probe(network, people(30), told=Told(mean=3.0, scale=9.0)).declared.scale == 9.0
    with pytest.raises(ValueError, match="no way that is measured has the mean, or the scale, that is given"):
        probe(network, people(30), told=Told(mean=3.0))


def test_only_what_a_folder_can_say_is_taken(network):
    assert {probe(network, people(12, seed=seed)).declared.crop for seed in range(3)} == {1.0}


@pytest.mark.slow
def test_lfw_shows_the_colours_from_sixty_people_on(real_data):
    faces = Photos(str(real_data / "lfw_112.zip"), str(real_data / "lfw_protocol" / "peopleDevTest.txt"), min_images=2)
    faces = faces.select([index for index, person in enumerate(faces.identities) if person in set(faces.people[:60])])
    made = OnnxNetwork(128, mean=0.0, scale=1.0, embedding_output="fc1")
    path = real_data / "pretrained_mobilefacenet.onnx"
    made.read(path.read_bytes(), path)
    found = probe(made, faces, Pixels("BGR", 0.0, 1.0))
    assert Pixels("RGB", 0.0, 1.0) in [way.pixels for way in found.better]


def test_grey_images_say_nothing_of_the_colours(network):
    coloured = people(12)
    grey = InMemory(coloured.pixels[:, :1].expand(-1, 3, -1, -1), coloured.names, coloured.identities)
    with pytest.raises(ValueError, match=r"grey, by which RGB and BGR cannot be distinguished; give --colour"):
        probe(network, grey)
    found = probe(network, grey, told=Told(colour="BGR"))
    assert {way.pixels.colour for way in found.ways} == {"BGR"}
    assert "all images are grey: whether the order of the colours is the right one was not measured" in found.text()


def test_a_mirror_image_that_is_told_is_kept(network):
    assert all(probe(network, people(12), told=Told(scale=scale), flip=True).declared.flip for scale in (1.0, 127.5))
