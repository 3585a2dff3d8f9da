"""`verisphere gate`: fitted on drawn faces, verdicts on others, and one line for a wrong call."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFilter

from verisphere.backbones import Pixels
from verisphere.base.trained_on import TrainedOn, image_digests
from verisphere.images import SyntheticFaces
from verisphere.models.embed import EmbeddingModel

pytestmark = pytest.mark.usefixtures("process_as_it_was")


def folder(path: Path, first: int) -> Path:
    faces = SyntheticFaces(people=12, images=3, first_person=first)
    for name, image in zip(faces.names, faces.images(range(len(faces))), strict=True):
        file = path / Path(name).with_suffix(".png")
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(file)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "pixels.yaml"
    path.write_text("class_path: verisphere.backbones.Pixels\ninit_args: {side: 8}\n")
    return path


def test_a_blurred_photograph_is_refused_by_a_gate_fitted_on_others(tmp_path: Path, model: Path, run):
    others, faces, gate = folder(tmp_path / "others", 0), folder(tmp_path / "faces", 100), tmp_path / "gate.json"
    code, out, err = run("gate", "fit", others, "--model", model, "--good", "0.2", "--out", gate)
    assert (code, err) == (0, "")
    assert "from 36 photographs of 12 people, none to be enrolled" in out
    assert "detail: at least" in out
    assert [limit["measure"] for limit in json.loads(gate.read_text())["limits"]] == ["detail"]
    blurred = next(faces.rglob("*.png"))
    with Image.open(blurred) as image:
        image.filter(ImageFilter.GaussianBlur(4)).save(blurred)
    code, out, err = run("gate", "check", faces, "--gate", gate, "--model", model)
    assert (code, err) == (0, "")
    assert " of 36 images are accepted" in out
    (line,) = [line for line in out.splitlines() if line.startswith(blurred.relative_to(faces).as_posix())]
    assert "(blurred, or a small face enlarged); this gallery asks for at least" in line


def test_size_is_asked_for_with_landmarks_and_named_where_there_are_none(tmp_path: Path, model: Path, run):
    others, gate, listed = folder(tmp_path / "others", 0), tmp_path / "gate.json", tmp_path / "landmarks.json"
    points = np.array([[38.0, 52], [74, 52], [56, 72], [42, 92], [71, 92]])
    names = sorted(path.relative_to(others).as_posix() for path in others.rglob("*.png"))
    listed.write_text(json.dumps({name: {"landmarks": points.tolist()} for name in names}))
    fit = ("gate", "fit", others, "--model", model, "--landmarks", listed, "--measure", "size", "--out", gate)
    assert run(*fit)[0] == 0
    code, out, _ = run("gate", "check", others, "--gate", gate, "--model", model)
    assert (code, "not checked, because there are no --landmarks: size" in out) == (0, True)
    small = {name: {"landmarks": (points / (3 if name == names[4] else 1)).tolist()} for name in names}
    listed.write_text(json.dumps(small))
    code, out, _ = run("gate", "check", others, "--gate", gate, "--model", model, "--landmarks", listed)
    assert code == 0
    assert f"{names[4]}: the face is 12 pixels between the eyes; this gallery asks for at least 36" in out
    assert "35 of 36 images are accepted" in out


def test_length_is_asked_for_of_embeddings(tmp_path: Path, model: Path, run):
    others, gate = folder(tmp_path / "others", 0), tmp_path / "gate.json"
    call = ("gate", "fit", others, "--model", model, "--measure", "length", "--good", "0.5", "--out", gate)
    assert run(*call)[0] == 0
    code, out, _ = run("gate", "check", others, "--gate", gate, "--model", model)
    assert code == 0
    assert "32 of 36 images are accepted" in out  # an eighth of 36 and no more
    assert out.count("the model makes little of the face") == 4


def test_a_gate_of_another_model_is_refused(tmp_path: Path, model: Path, run, refused, monkeypatch):
    others, gate = folder(tmp_path / "others", 0), tmp_path / "gate.json"
    networks = iter(["ab" * 32, "cd" * 32])
    monkeypatch.setattr("verisphere.ship.gate.open_model", lambda *_: EmbeddingModel(Pixels(8).eval(), next(networks)))
    assert run("gate", "fit", others, "--model", model, "--out", gate)[0] == 0
    said = refused("gate", "check", others, "--gate", gate, "--model", model)
    assert f"{gate}: not made as" in said
    assert "fit a gate for this model" in said


def test_a_gate_from_people_of_the_training_is_refused_unless_accepted(
    tmp_path: Path, model: Path, run, refused, monkeypatch
):
    others, gate = folder(tmp_path / "others", 0), tmp_path / "gate.json"
    images = SyntheticFaces(people=12, images=3, first_person=0).images([4])
    known = TrainedOn(np.empty(0, np.int64), np.sort(image_digests(images.numpy())))
    opened = EmbeddingModel(Pixels(8).eval(), "ab" * 32, trained_on=known)
    monkeypatch.setattr("verisphere.ship.gate.open_model", lambda *_: opened)
    fit = ("gate", "fit", others, "--model", model, "--out", gate)
    assert "the model was trained on 1 of the 36 images" in refused(*fit)
    first = "the model was trained on 1 of the 36 images of others, so it promises nothing about new people\n"
    assert run(*fit, "--accept-training-people")[1].startswith(first)
    assert run("gate", "check", others, "--gate", gate, "--model", model)[1].startswith(first)


def test_a_gate_from_labels_of_other_images_is_refused_unless_accepted(tmp_path: Path, model: Path, run, refused):
    others, gate = folder(tmp_path / "others", 0), tmp_path / "gate.json"
    files = [min(person.iterdir()) for person in sorted({path.parent for path in others.rglob("*.png")})[:8]]
    for file in files[1:]:
        file.write_bytes(files[0].read_bytes())
    fit = ("gate", "fit", others, "--model", model, "--out", gate)
    assert "implausible: one vector stands in 8 of 36 rows, under 8 people" in refused(*fit)
    first = "scores cannot be right: others: one vector stands in 8 of 36 rows, under 8 people"
    assert run(*fit, "--accept-implausible")[1].startswith(first)
    assert run("gate", "check", others, "--gate", gate, "--model", model)[1].startswith(first)


def test_names_that_are_equal_once_folded_are_decided(tmp_path: Path, model: Path, run, refused):
    others, gate = folder(tmp_path / "others", 0), tmp_path / "gate.json"
    first = min(others.rglob("*.png"))
    other = first.parent.parent / f"{first.parent.name}\u200b" / first.name
    other.parent.mkdir()
    first.rename(other)
    fit = ("gate", "fit", others, "--model", model, "--out", gate)
    assert "--names merge takes such names as one person" in refused(*fit)
    code, out, _ = run(*fit, "--names", "merge")
    assert (code, "of 12 people" in out) == (0, True)
    assert run("gate", "check", others, "--gate", gate, "--model", model, "--names", "exact")[0] == 0


def test_a_wrong_call_is_one_line(tmp_path: Path, model: Path, refused):
    others, gate = folder(tmp_path / "others", 0), tmp_path / "gate.json"
    fit = ("gate", "fit", others, "--model", model)
    assert "--out" in refused(*fit)
    assert "no measure 'blur'" in refused(*fit, "--out", gate, "--measure", "blur")
    assert "no measure 'size'" in refused(*fit, "--out", gate, "--measure", "size")
    assert "2" in refused(*fit, "--out", gate, "--good", "2")
    gate.write_text("{}")
    assert "not a gate" in refused("gate", "check", others, "--gate", gate, "--model", model)
    assert gate.read_text() == "{}"
