"""A set of loose photographs is warned about once, by name; aligned and drawn ones are not."""

import importlib.util
import io
import logging
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from verisphere.files.images_json import NAME, images_json
from verisphere.images import Photos
from verisphere.images.detect import unaligned
from verisphere.images.detect.unaligned import warn_if_files_unaligned, warn_if_unaligned
from verisphere.images.synthetic.synthetic_faces import SyntheticFaces
from verisphere.models.embed import embed_faces


@pytest.fixture
def loose(real_data: Path, tmp_path: Path) -> Path:
    """Forty photographs, resampled to the size of crops."""
    with zipfile.ZipFile(real_data / "lfw_raw_sample.zip") as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".jpg"))[:40]
        for name in names:
            path = tmp_path / "loose" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.open(io.BytesIO(archive.read(name))).resize((112, 112)).save(path)
    return tmp_path / "loose"


@pytest.fixture(params=["detector", "no detector"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extra `detect`, and without."""
    if request.param == "no detector":
        monkeypatch.setattr(unaligned, "checking_detector", lambda: None)


@pytest.mark.usefixtures("either_way")
def test_loose_photographs_are_warned_about_by_name(loose: Path, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        warn_if_unaligned(Photos(loose))
    (message,) = caplog.messages
    assert message.startswith("loose: these do not look like aligned faces: ")
    named = message.split("the furthest: ")[1].split(". Figures")[0].split(", ")
    assert len(named) == 3
    assert all((loose / name).is_file() for name in named)
    assert message.endswith("align them first: verisphere align")


@pytest.mark.usefixtures("either_way")
def test_aligned_and_drawn_faces_are_not(real_data: Path, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        warn_if_unaligned(Photos(real_data / "lfw_112.zip"))
        warn_if_unaligned(SyntheticFaces(people=40, images=1))
        warn_if_unaligned(SyntheticFaces(people=40, images=1).select(range(5)))
    assert caplog.messages == []


def test_an_image_that_cannot_be_read_is_left_to_whoever_needs_it(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    (tmp_path / "Ann").mkdir()
    (tmp_path / "Ann" / "1.png").write_bytes(b"no image")
    with caplog.at_level(logging.WARNING):
        warn_if_unaligned(Photos(tmp_path))
        warn_if_files_unaligned(tmp_path, (112, 112))
        warn_if_files_unaligned(tmp_path / "absent", (112, 112))
    assert caplog.messages == []


def test_images_of_a_size_without_a_template_are_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "Ann").mkdir()
    Image.fromarray(np.zeros((50, 50, 3), np.uint8)).save(tmp_path / "Ann" / "1.png")
    monkeypatch.setattr(unaligned, "checking_detector", lambda: pytest.fail("looked for faces"))
    warn_if_unaligned(Photos(tmp_path, size=(50, 50)))
    warn_if_files_unaligned(tmp_path, (112, 112))


def test_photographs_given_as_aligned_are_warned_about(loose: Path, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        warn_if_files_unaligned(loose, (112, 112))
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith(f"{loose}: these do not look like aligned faces")


def test_embed_warns(loose: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    recipe = tmp_path / "net.yaml"
    recipe.write_text(
        "class_path: verisphere.backbones.mobilefacenet.MobileFaceNet\ninit_args: {embedding_size: 4, width: 0.1}\n"
    )
    with caplog.at_level(logging.WARNING):
        embed_faces(recipe, loose, tmp_path / "out.npz", workers=0, device=torch.device("cpu"))
    assert [message.split(":")[1] for message in caplog.messages] == [" these do not look like aligned faces"]


def test_what_images_json_says_of_a_set_is_believed(loose: Path, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        for drawn, alignment in ((True, None), (False, "arcface_112x112 by MTCNN")):
            (loose / NAME).write_text(images_json(drawn, alignment))
            warn_if_unaligned(Photos(loose))
            warn_if_files_unaligned(loose, (112, 112))
        assert caplog.messages == []
        (loose / NAME).write_text(images_json(False, "sphereface_112x96 by MTCNN"))
        warn_if_unaligned(Photos(loose))  # of another template, stretched
        assert len(caplog.messages) == 1


@pytest.mark.skipif(importlib.util.find_spec("mtcnn") is None, reason="no extra `detect`")
def test_one_photograph_for_a_model_of_drawn_faces_is_not_judged(loose: Path, caplog: pytest.LogCaptureFixture):
    photo = next(loose.rglob("*.jpg"))
    with caplog.at_level(logging.WARNING):
        warn_if_files_unaligned(photo, (112, 112), drawn=True)
        assert caplog.messages == []
        warn_if_files_unaligned(photo, (112, 112))
        assert len(caplog.messages) == 1
