"""Embeddings files of a suite: used again only where the model, the way and the images are those of before."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from verisphere.backbones import Pixels
from verisphere.base.trained_on import TrainedOn, name_digests
from verisphere.base.vocabulary import Embeddings, ImageSource
from verisphere.files.embeddings import read_embeddings
from verisphere.images.detect.alignment import TEMPLATES
from verisphere.images.packs.image_files import image_files
from verisphere.measure.suite.embedding import EmbedOnce
from verisphere.measure.suite.images import SetFaces, SetImages
from verisphere.models.embed import EmbeddingModel

MODEL = EmbeddingModel(Pixels(4), sha256="a" * 64, trained_on=TrainedOn.unknown("nothing is recorded"))


@pytest.fixture
def photos(tmp_path: Path) -> Callable[..., SetImages]:
    """Three images of 112 x 112 pixels, of which the second and the third have the same bytes."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for name, seed in (("a", 1), ("b", 2), ("c", 2)):
        pixels = np.random.default_rng(seed).integers(256, size=(112, 112, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{name}.png")

    def made(points: np.ndarray | None = None) -> SetImages:
        files = image_files(folder)
        return SetImages(files, tuple(files.names), ("x", "y", "y"), ImageSource("photos"), points=points)

    return made


def test_equal_bytes_are_embedded_once(photos: Callable[..., SetImages], tmp_path: Path):
    once = EmbedOnce(MODEL, tmp_path / "out")
    rows = read_embeddings(once.write("set", photos()))
    assert (once.embedded, once.reused) == (2, 1)
    assert np.array_equal(rows.embeddings[1], rows.embeddings[2])
    assert rows.origin is not None
    assert (rows.origin.model, rows.origin.flip, rows.origin.images) == ("a" * 64, False, "set")


def test_a_second_set_takes_the_rows_of_the_first(photos: Callable[..., SetImages], tmp_path: Path):
    once = EmbedOnce(MODEL, tmp_path / "out")
    first, second = (read_embeddings(once.write(name, photos())) for name in ("one", "two"))
    assert (once.embedded, once.reused) == (2, 1 + 3)
    assert np.array_equal(first.embeddings, second.embeddings)


def test_a_later_run_uses_the_file_again(photos: Callable[..., SetImages], tmp_path: Path):
    path = EmbedOnce(MODEL, tmp_path / "out").write("set", photos())
    before = path.read_bytes(), path.stat().st_mtime_ns
    again = EmbedOnce(MODEL, tmp_path / "out")
    again.write("set", photos())
    assert (again.embedded, again.reused) == (0, 3)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


@pytest.mark.parametrize("change", ["model", "flip", "image", "untrained", "identity", "damage"])
def test_what_was_made_otherwise_is_made_anew(photos: Callable[..., SetImages], tmp_path: Path, change: str):
    out = tmp_path / "out"
    path = EmbedOnce(MODEL, out).write("set", photos())
    model, flip, images = MODEL, False, photos()
    if change == "model":
        model = EmbeddingModel(Pixels(4, centred=False), sha256="b" * 64)
    elif change == "flip":
        flip = True
    elif change == "image":
        (tmp_path / "photos" / "a.png").write_bytes((tmp_path / "photos" / "b.png").read_bytes())
    elif change == "untrained":  # without a digest nothing says that it is the same network
        model = EmbeddingModel(Pixels(4))
    elif change == "identity":
        images = SetImages(images.files, images.names, ("x", "y", "z"), images.source)
    else:
        path.write_bytes(path.read_bytes()[:500])
    again = EmbedOnce(model, out, flip=flip)
    rows = read_embeddings(again.write("set", images))
    assert again.embedded == (1 if change == "image" else 2)
    assert rows.identities.tolist() == list(images.identities)
    fresh = EmbedOnce(model, tmp_path / "elsewhere", flip=flip).write("set", images)
    assert np.array_equal(rows.embeddings, read_embeddings(fresh).embeddings)


def test_a_file_from_elsewhere_is_never_replaced(photos: Callable[..., SetImages], tmp_path: Path):
    path = EmbedOnce(MODEL, tmp_path / "out").write("set", photos())
    (tmp_path / "out" / "set.images.txt").unlink()
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"set\.npz: there already, and not written by a suite"):
        EmbedOnce(MODEL, tmp_path / "out").write("set", photos())
    assert path.read_bytes() == before


def test_a_killed_process_leaves_no_old_embeddings_beside_a_new_list(
    photos: Callable[..., SetImages], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = EmbedOnce(MODEL, tmp_path / "out").write("set", photos())
    (tmp_path / "photos" / "a.png").write_bytes((tmp_path / "photos" / "b.png").read_bytes())

    def killed(path: Path, embeddings: Embeddings) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("verisphere.measure.suite.embedding.write_embeddings", killed)
    with pytest.raises(KeyboardInterrupt):
        EmbedOnce(MODEL, tmp_path / "out").write("set", photos())
    monkeypatch.undo()
    assert not path.exists()
    again = EmbedOnce(MODEL, tmp_path / "out")
    rows = read_embeddings(again.write("set", photos())).embeddings
    assert again.embedded == 1
    assert (rows[0] == rows[1]).all()


def test_images_are_looked_at_for_alignment_unless_their_points_align_them(
    photos: Callable[..., SetImages], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Photographs as LFW's own archive has them are square, so nothing else would say that they are no crops."""
    looked_at: list[int] = []
    monkeypatch.setattr(
        "verisphere.measure.suite.embedding.warn_if_unaligned", lambda faces: looked_at.append(len(faces))
    )
    EmbedOnce(MODEL, tmp_path / "out").write("aligned", photos())
    EmbedOnce(MODEL, tmp_path / "out").write("loose", photos(np.stack([TEMPLATES["arcface_112x112"].points] * 3)))
    assert looked_at == [2]


def test_a_loose_crop_is_aligned_by_its_points(photos: Callable[..., SetImages], tmp_path: Path):
    """Points at the places of the template leave an image as it is; points 8 pixels further right shift it by 8."""
    template = np.array(TEMPLATES["arcface_112x112"].points)
    points = np.stack([template, template, template + np.array([8, 0])])
    exact = EmbedOnce(EmbeddingModel(Pixels(112, centred=False)), tmp_path / "out")
    rows = read_embeddings(exact.write("set", photos(points))).embeddings.reshape(3, 112, 112)
    plain = EmbedOnce(EmbeddingModel(Pixels(112, centred=False)), tmp_path / "plain")
    whole = read_embeddings(plain.write("set", photos())).embeddings.reshape(3, 112, 112)
    assert exact.embedded == 3  # equal bytes with other points are other images
    assert np.allclose(rows[:2], whole[:2], atol=1e-2)
    assert np.allclose(rows[2][:, :100], whole[2][:, 8:108], atol=1e-2)


def test_loose_crops_have_the_template_to_which_they_are_aligned(photos: Callable[..., SetImages], tmp_path: Path):
    points = np.stack([TEMPLATES["arcface_112x112"].points] * 3)
    for size, template in (((112, 112), "arcface_112x112"), ((112, 96), "sphereface_112x96")):
        faces = SetFaces(photos(points), size)
        assert faces.source.template == template
        assert faces.template.size == size
    assert SetFaces(photos(), (112, 112)).source.template is None
    other = replace(MODEL, template="mine")
    with pytest.raises(ValueError, match="loose: its faces are aligned to arcface_112x112, but the model takes mine"):
        EmbedOnce(other, tmp_path / "out").write("loose", photos(points))
    EmbedOnce(other, tmp_path / "out").write("aligned", photos())


def test_a_file_is_made_anew_where_more_is_known_of_the_training(photos: Callable[..., SetImages], tmp_path: Path):
    unknown = replace(MODEL, trained_on=TrainedOn.unknown("a copy says nothing"))
    path = EmbedOnce(unknown, tmp_path / "out").write("set", photos())
    digests = read_embeddings(path).in_training.digests
    known = replace(MODEL, trained_on=TrainedOn(name_digests(["x"]), np.sort(digests[:1])))
    EmbedOnce(known, tmp_path / "out").write("set", photos())
    shared = read_embeddings(path).shared_with_training
    assert (shared.people, shared.images, shared.gap) == (1, 1, "")
    again = EmbedOnce(known, tmp_path / "out")
    again.write("set", photos())
    assert again.embedded == 0
