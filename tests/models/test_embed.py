"""Opening models: a run, a checkpoint, a recipe; and refusing what is damaged or foreign."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from verisphere.base.vocabulary import Origin, Preprocessing
from verisphere.files.embeddings import read_embeddings
from verisphere.images.synthetic.synthetic_faces import SyntheticFaces
from verisphere.models.checkpoint import save_checkpoint
from verisphere.models.embed import EmbeddingModel, embed, embed_faces, open_model
from verisphere.report.plots import save_image

CPU = torch.device("cpu")
CLASS = "verisphere.backbones.mobilefacenet.MobileFaceNet"
ARGUMENTS = {"embedding_size": 8, "width": 0.1, "activation": "relu"}


def write(run: Path, step: int = 3, **state: object) -> tuple[Path, dict[str, torch.Tensor]]:
    from verisphere.models.build import build_backbone

    description = {"class_path": CLASS, "init_args": ARGUMENTS}
    torch.manual_seed(step)
    tensors = dict(build_backbone(description).state_dict())
    path = save_checkpoint(run, step, {"backbone": tensors}, {"backbone": description} | state)
    return path, tensors


def test_a_run_gives_its_newest_checkpoint_and_a_checkpoint_itself(tmp_path):
    old, old_tensors = write(tmp_path, 3)
    _, new_tensors = write(tmp_path, 5)
    for place, tensors in ((tmp_path, new_tensors), (old, old_tensors)):
        backbone = open_model(place, CPU).backbone
        assert not backbone.training
        assert all(torch.equal(value, tensors[name]) for name, value in backbone.state_dict().items())


def test_nothing_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"net\.yaml: there is no such file"):
        open_model(tmp_path / "net.yaml", CPU)
    with pytest.raises(FileNotFoundError, match="neither a checkpoint"):
        open_model(tmp_path / "absent", CPU)
    (tmp_path / "model.pt").touch()
    with pytest.raises(FileNotFoundError, match="neither a checkpoint"):
        open_model(tmp_path / "model.pt", CPU)


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (None, "names no backbone"),
        ("verisphere.backbones.Pixels", "names no backbone"),
        ({"class_path": CLASS, "init_args": ARGUMENTS | {"embedding_size": 9}}, "does not fit MobileFaceNet: "),
    ],
)
def test_a_checkpoint_that_is_not_what_it_says_gets_one_line(tmp_path, description, message):
    path, _ = write(tmp_path)
    state = json.loads((path / "state.json").read_text())
    (path / "state.json").write_text(json.dumps(state | {"backbone": description}))
    with pytest.raises(ValueError, match=message) as caught:
        open_model(tmp_path, CPU)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_embeddings_of_a_trained_model_name_it(tmp_path):
    path, _ = write(tmp_path)
    faces = SyntheticFaces(2, 2, size=112)
    plain = embed(open_model(tmp_path, CPU), faces, "here")
    weights = (path / "backbone.safetensors").read_bytes()
    assert plain.origin == Origin(
        *(hashlib.sha256(weights).hexdigest(), False, "float32", "here"),
        drawn=True,
        alignment=faces.source.alignment,
        preprocessing=Preprocessing((112, 112), "RGB", "NCHW", 127.5, 127.5),
    )
    mirrored = embed(open_model(tmp_path, CPU), faces, "here", flip=True)
    assert mirrored.origin.flip
    assert not np.allclose(mirrored.embeddings, plain.embeddings)


def test_embeddings_of_an_untrained_model_name_none(tmp_path):
    net = tmp_path / "net.yaml"
    net.write_text(f"class_path: {CLASS}\ninit_args: {{embedding_size: 8, width: 0.1, activation: relu}}\n")
    assert embed(open_model(net, CPU), SyntheticFaces(2, 2, size=112), "here").origin is None


def test_a_shipped_model_flips_as_it_was_calibrated(tmp_path):
    write(tmp_path)
    opened = open_model(tmp_path, CPU)
    faces = SyntheticFaces(2, 2, size=112)
    shipped = EmbeddingModel(opened.backbone, opened.sha256, flip=True)
    assert embed(shipped, faces, "here").origin.flip
    assert not embed(shipped, faces, "here", flip=False).origin.flip  # asked for: the origin says so


def test_an_onnx_file_flips_inside_and_runs_in_float32(tmp_path):
    write(tmp_path)
    opened = open_model(tmp_path, CPU)
    faces = SyntheticFaces(2, 2, size=112)
    itself = EmbeddingModel(opened.backbone, opened.sha256, flip=True, fixed=True)
    found = embed(itself, faces, "here")
    assert np.array_equal(found.embeddings, embed(opened, faces, "here").embeddings)
    assert found.origin.flip
    with pytest.raises(ValueError, match="flip is false, but the ONNX file adds the mirror image's embedding inside"):
        embed(itself, faces, "here", flip=False)
    with pytest.raises(ValueError, match="precision is bfloat16, but an ONNX file runs in float32") as caught:
        embed(itself, faces, "here", precision=torch.bfloat16)
    assert "\n" not in str(caught.value)


def test_the_origin_names_the_images_as_they_were_typed(tmp_path, monkeypatch):
    write(tmp_path / "run")
    faces = SyntheticFaces(2, 2, size=112)
    for number, person in enumerate(faces.identities):
        save_image(faces.images([number])[0], tmp_path / "faces" / person / f"{number}.png")
    monkeypatch.chdir(tmp_path)
    embed_faces(tmp_path / "run", Path("faces"), Path("out.npz"), workers=0, device=CPU)
    assert read_embeddings(Path("out.npz")).origin.images == "faces"


def test_embeddings_are_not_written_over_what_they_are_made_of(tmp_path):
    (tmp_path / "faces.zip").write_bytes(b"photographs")
    (tmp_path / "out.npz").symlink_to(tmp_path / "faces.zip")
    with pytest.raises(FileExistsError, match=r"out\.npz: it is, or holds, .*faces\.zip, which is read here"):
        embed_faces(tmp_path / "run", tmp_path / "faces.zip", tmp_path / "out.npz", device=CPU)
    assert (tmp_path / "faces.zip").read_bytes() == b"photographs"


@pytest.mark.parametrize("workers", [-1, 257])
def test_workers_beyond_the_limit_are_refused_by_name(tmp_path: Path, workers: int):
    with pytest.raises(ValueError, match=f"--workers {workers}: allowed are 0 to 256"):
        embed_faces(tmp_path / "run", tmp_path / "faces", tmp_path / "out.npz", workers=workers, device=CPU)


def test_people_are_counted_before_anything_is_embedded(tmp_path, caplog, monkeypatch):
    described = tmp_path / "faces.yaml"
    described.write_text("class_path: verisphere.images.SyntheticFaces\ninit_args: {people: 6, images: 1, size: 48}\n")
    network = tmp_path / "network.yaml"
    network.write_text("class_path: verisphere.backbones.Pixels\n")

    def stopped(*_: object, **__: object) -> None:
        raise RuntimeError("embedding began")

    monkeypatch.setattr("verisphere.models.embed.embed", stopped)
    out = tmp_path / "out.npz"
    with pytest.raises(RuntimeError, match="embedding began"):
        embed_faces(network, described, out, device=CPU, for_far="1e-1")
    assert (
        "guarantee 'confident' at FAR 1e-1 needs 58 people (29 comparisons that share no person); got 6" in caplog.text
    )
    with pytest.raises(ValueError, match="a guarantee needs a FAR"):
        embed_faces(network, described, out, device=CPU, for_far="0")


def test_faces_where_the_model_belongs_are_said(tmp_path):
    (tmp_path / "faces").mkdir()
    model = tmp_path / "network.onnx"
    model.write_bytes(b"")
    with pytest.raises(ValueError, match=r"network\.onnx: a model, where the faces belong; the model comes first"):
        embed_faces(tmp_path / "faces", model, tmp_path / "out.npz", device=torch.device("cpu"))
