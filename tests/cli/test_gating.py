"""`verisphere gate fit`: on drawn faces, with verdicts on others, and one line for a wrong call."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageFilter

from foreign_graphs import graph
from verisphere.backbones import Pixels
from verisphere.base.trained_on import TrainedOn, image_digests
from verisphere.files.gate import read_gate
from verisphere.images import SyntheticFaces
from verisphere.images.quality import measure
from verisphere.models.described_faces import open_faces
from verisphere.models.embed import EmbeddingModel, embed, open_model
from verisphere.ship.gate import chosen, lengths_of

pytestmark = pytest.mark.usefixtures("process_as_it_was")


def folder(path: Path, first: int, people: int = 12, images: int = 3) -> Path:
    faces = SyntheticFaces(people=people, images=images, first_person=first)
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


@pytest.mark.parametrize("verb", ["gate fit", "adopt"])
def test_a_set_of_somebody_elses_class_is_opened_as_the_refusal_advises(tmp_path: Path, model: Path, run, verb: str):
    """With the option the class is imported, which this one cannot be."""
    faces = tmp_path / "set.yaml"
    faces.write_text("class_path: module_of_nobody.Faces\n")
    call = ("gate", "fit", faces, "--model", model, "--out", tmp_path / "gate.json")
    if verb == "adopt":
        (tmp_path / "net.onnx").write_bytes(graph().SerializeToString())
        call = ("adopt", tmp_path / "net.onnx", "--colour", "RGB", "--mean", "0", "--scale", "1")
        call = (*call, "--template", "mine_8x8", "--probe", faces, "--out", tmp_path / "model")
    assert "allow it by --trust-code" in run(*call)[2]
    assert "No module named 'module_of_nobody'" in run(*call, "--trust-code")[2]


def refusals(gate: Path, faces: Path, **measured: np.ndarray) -> dict[str, str]:
    """What a gate says of the faces of a folder, by their names."""
    images = open_faces(faces, size=(112, 112))
    reasons = read_gate(gate).reasons(measure(images) | measured)
    return {name: "; ".join(why) for name, why in zip(images.names, reasons, strict=True) if why}


def test_a_blurred_photograph_is_refused_by_a_gate_fitted_on_others(tmp_path: Path, model: Path, says):
    others, faces, gate = folder(tmp_path / "others", 0), folder(tmp_path / "faces", 100), tmp_path / "gate.json"
    out = says("gate", "fit", others, "--model", model, "--good", "0.2", "--out", gate)
    assert "from 36 photographs of 12 people, none to be enrolled" in out
    assert "detail: at least" in out
    assert [limit["measure"] for limit in json.loads(gate.read_text())["limits"]] == ["detail"]
    blurred = next(faces.rglob("*.png"))
    with Image.open(blurred) as image:
        image.filter(ImageFilter.GaussianBlur(4)).save(blurred)
    said = refusals(gate, faces)[blurred.relative_to(faces).as_posix()]
    assert "(blurred, or a small face enlarged); this gallery asks for at least" in said


def test_size_is_asked_for_with_landmarks(tmp_path: Path, model: Path, run):
    others, gate, listed = folder(tmp_path / "others", 0), tmp_path / "gate.json", tmp_path / "landmarks.json"
    points = np.array([[38.0, 52], [74, 52], [56, 72], [42, 92], [71, 92]])
    names = sorted(path.relative_to(others).as_posix() for path in others.rglob("*.png"))
    listed.write_text(json.dumps({name: {"landmarks": points.tolist()} for name in names}))
    fit = ("gate", "fit", others, "--model", model, "--landmarks", listed, "--measure", "size", "--out", gate)
    assert run(*fit)[0] == 0
    assert refusals(gate, others) == {}  # what was not measured is not asked for
    size = np.full(len(names), 36.0)
    size[4] = 12.0
    wanted = "the face is 12 pixels between the eyes; this gallery asks for at least 36"
    assert list(refusals(gate, others, size=size).values()) == [wanted]


def test_length_is_asked_for_of_embeddings(tmp_path: Path, model: Path, run):
    others, gate = folder(tmp_path / "others", 0), tmp_path / "gate.json"
    call = ("gate", "fit", others, "--model", model, "--measure", "length", "--good", "0.5", "--out", gate)
    assert run(*call)[0] == 0
    opened, images = open_model(model, torch.device("cpu")), open_faces(others, size=(112, 112))
    said = refusals(gate, others, length=lengths_of(embed(opened, images, "others").embeddings))
    assert len(said) == 4  # an eighth of 36 and no more
    assert all("the model makes little of the face" in why for why in said.values())


@pytest.mark.slow
def test_the_share_that_is_refused_is_chosen_by_strangers_and_people(tmp_path: Path, model: Path, run, refused):
    """By worse copies of the set's own images; with too few people the default is named, and an FPIR is refused."""
    others, gate = folder(tmp_path / "others", 0, people=40), tmp_path / "gate.json"
    fit = ("gate", "fit", others, "--model", model, "--out", gate, "--accept-implausible")
    code, out, err = run(*fit, "--fpir", "0.2")
    assert code == 0, err
    assert out.count("of worse copies are refused") == 5
    assert out.count("(chosen)") == 1
    assert "chosen at FPIR 0.2, where" in out
    made = read_gate(gate)
    assert made.good == chosen(made.effects, "0.2")
    assert made.fpir == "0.2"
    code, out, err = run(*fit)
    assert "too few people to choose by FPIR; at most 2e-2 of good photographs are refused" in err
    assert (code, read_gate(gate).good, read_gate(gate).effects) == (0, "2e-2", ())
    assert "needs 99 strangers" in refused(*fit, "--fpir", "1e-2")
    assert "omit --good or --fpir" in refused(*fit, "--fpir", "1e-2", "--good", "2e-2")


def test_people_with_one_photograph_each_are_one_line(tmp_path: Path, model: Path, refused):
    """Enough strangers for the FPIR, and nobody who could be found by another photograph."""
    others, gate = folder(tmp_path / "others", 0, people=40, images=1), tmp_path / "gate.json"
    fit = ("gate", "fit", others, "--model", model, "--out", gate, "--accept-implausible")
    assert "others: a part of its people is enrolled by one photograph" in refused(*fit, "--fpir", "0.2")
    assert "nobody of others has two photographs" in refused(*fit)


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
    assert read_gate(gate).warnings()[0].startswith(first.strip())


def test_a_gate_from_labels_of_other_images_is_refused_unless_accepted(tmp_path: Path, model: Path, run, refused):
    others, gate = folder(tmp_path / "others", 0), tmp_path / "gate.json"
    files = [min(person.iterdir()) for person in sorted({path.parent for path in others.rglob("*.png")})[:8]]
    for file in files[1:]:
        file.write_bytes(files[0].read_bytes())
    fit = ("gate", "fit", others, "--model", model, "--out", gate)
    assert "implausible: one vector stands in 8 of 36 rows, under 8 people" in refused(*fit)
    first = "scores cannot be right: others: one vector stands in 8 of 36 rows, under 8 people"
    assert run(*fit, "--accept-implausible")[1].startswith(first)
    assert read_gate(gate).warnings()[0].startswith(first.strip())


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


def test_a_wrong_call_is_one_line(tmp_path: Path, model: Path, refused):
    others, gate = folder(tmp_path / "others", 0), tmp_path / "gate.json"
    fit = ("gate", "fit", others, "--model", model)
    assert "--out" in refused(*fit)
    assert "no measure 'blur'" in refused(*fit, "--out", gate, "--measure", "blur")
    assert "no measure 'size'" in refused(*fit, "--out", gate, "--measure", "size")
    assert "2" in refused(*fit, "--out", gate, "--good", "2")
