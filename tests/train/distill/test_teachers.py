"""Teachers: what is opened as one, their embeddings kept or made batch by batch, and their class centers."""

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

import foreign_graphs
from shard_writer import written as in_shards
from tiny_runs import OWN, RECIPE, command, read
from verisphere.backbones import Pixels
from verisphere.backbones.extract import extract
from verisphere.base.vocabulary import ImageSource
from verisphere.files.embeddings import write_embeddings
from verisphere.images.augment import Augment, mirrored_images
from verisphere.images.decoded_faces import InMemory
from verisphere.models.embed import embed, open_model
from verisphere.models.run_head import open_head
from verisphere.ship.adopt import adopt_onnx
from verisphere.ship.pixels import Told
from verisphere.train.distill import teachers
from verisphere.train.distill.taught import Taught, mean_centers, own_centers
from verisphere.train.distill.teachers import Distillation, open_teachers
from verisphere.train.recipe import Recipe

CPU = torch.device("cpu")
FLIPPED = Augment(flip=0.5)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a teacher, of a loss that compares cosines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(OWN)
        folder = tmp_path_factory.mktemp("teacher")
        (folder / "recipe.yaml").write_text(RECIPE)
        loss = ("--loss", "verisphere.losses.CosFace", "--loss.scale", "8")
        assert command("train", folder / "recipe.yaml", "--out", folder / "run", *loss) == 0
        yield folder / "run"


def recipe_of(teacher: Path, *words: str) -> Recipe:
    return read(teacher.parent / "recipe.yaml", *words).recipe


def settings(*teachers: object, **others: object) -> Distillation:
    return Distillation([str(path) for path in teachers], trust_code=True, **others)


def taught(teacher: Path, asked: Distillation, folder: Path, augment: Augment = FLIPPED) -> Taught:
    recipe = recipe_of(teacher)
    return Taught(open_teachers(asked, recipe.data, recipe.backbone, CPU), recipe.data, augment, folder, "digest")


def test_kept_embeddings_are_those_of_the_batch(teacher, tmp_path):
    recipe = recipe_of(teacher)
    kept = taught(teacher, settings(teacher), tmp_path)
    assert not kept.live
    assert len(list(tmp_path.glob("teacher-*.npy"))) == 2  # as they are, and mirrored
    live = taught(teacher, settings(teacher), tmp_path / "live", replace(FLIPPED, crop=0.1))
    assert live.live
    assert not (tmp_path / "live").exists()
    indices = torch.tensor([3, 0, 7, 12])
    mirrored = mirrored_images(FLIPPED, seed=5, places=range(4))
    assert 0 < mirrored.sum() < 4
    pixels = recipe.data.images(indices.tolist()).float()
    pixels = torch.where(mirrored[:, None, None, None], pixels.flip(-1), pixels)
    expected = normalize(open_model(teacher, CPU, trust=True).backbone((pixels - 127.5) / 127.5), dim=1).detach()
    for source in (kept, live):
        torch.testing.assert_close(source.rows(indices, mirrored, pixels), expected, rtol=1e-4, atol=1e-5)


def test_plain_images_have_one_embedding_whatever_the_augmentation(teacher, tmp_path):
    made = taught(teacher, settings(teacher, images="plain"), tmp_path, Augment(crop=0.2))
    assert not made.live
    assert len(list(tmp_path.iterdir())) == 1
    indices = torch.tensor([2, 2])
    rows = made.rows(indices, torch.tensor([True, False]), torch.zeros(2, 3, 16, 16))
    assert torch.equal(rows[0], rows[1])


def test_kept_embeddings_are_used_again_and_a_damaged_file_is_named(teacher, tmp_path):
    taught(teacher, settings(teacher), tmp_path)
    files = sorted(tmp_path.iterdir())
    before = [(path.stat().st_mtime_ns, path.read_bytes()) for path in files]
    taught(teacher, settings(teacher), tmp_path)
    assert [(path.stat().st_mtime_ns, path.read_bytes()) for path in files] == before
    for damaged, seen in (
        (before[0][1][:100], "damaged"),
        (before[0][1][:-4] + b"\0\0\xc0\x7f", "NaN"),
        (b"x", "damaged"),
    ):
        for path in files:
            path.write_bytes(damaged)
        with pytest.raises(ValueError, match=rf"teacher-\w+\.npy: .*{seen}.*remove it"):
            taught(teacher, settings(teacher), tmp_path)


def test_a_cache_tells_apart_the_pixels_of_the_teacher_and_of_the_images(teacher, tmp_path, monkeypatch):
    monkeypatch.setattr(foreign_graphs, "SIDE", 16)
    file = foreign_graphs.written(tmp_path / "net.onnx", foreign_graphs.graph(side=16))
    recipe = recipe_of(teacher)
    pixels = recipe.data.images(range(len(recipe.data))).to(torch.uint8)
    same, other = (InMemory(pixels + add, recipe.data.names, recipe.data.identities) for add in (0, 9))
    told = Told(colour="RGB", mean=0.0, scale=1.0, template="own")
    ways = {
        "plain": (told, same),
        "mean": (replace(told, mean=90.0), same),
        "scale": (replace(told, scale=2.0), same),
        "colour": (replace(told, colour="BGR"), same),
        "template": (replace(told, template="mine"), same),
        "images": (told, other),
    }
    for name, (taken, faces) in ways.items():
        adopt_onnx(file, tmp_path / name, taken)
        asked = settings(tmp_path / name, images="plain", projection=True, kl=0.0)
        opened = open_teachers(asked, faces, recipe.backbone, CPU)
        made = Taught(opened, faces, FLIPPED, tmp_path / "cache", "digest")
        seen = made.rows(torch.arange(4), torch.zeros(4) > 0, torch.zeros(4, 3, 16, 16))
        expected = embed(open_model(tmp_path / name, CPU), faces, "").embeddings[:4]
        torch.testing.assert_close(seen, normalize(torch.from_numpy(expected), dim=1), rtol=1e-4, atol=1e-5)
    assert len(list((tmp_path / "cache").iterdir())) == len(ways)


@pytest.mark.parametrize("file", ["other.npz", "other"])
def test_of_several_teachers_the_mean_of_unit_embeddings_is_followed(teacher, tmp_path, file):
    recipe = recipe_of(teacher)
    embedded = extract(open_model(teacher, CPU, trust=True).backbone, recipe.data)
    rows = np.random.default_rng(0).normal(size=embedded.embeddings.shape).astype(np.float32)
    write = in_shards if file == "other" else write_embeddings
    write(tmp_path / file, replace(embedded, embeddings=rows[::-1], names=embedded.names[::-1]))
    plain = settings(teacher, tmp_path / file, images="plain")
    made = taught(teacher, plain, tmp_path / "kept").rows(
        torch.arange(4), torch.zeros(4) > 0, torch.zeros(4, 3, 16, 16)
    )
    both = normalize(torch.from_numpy(embedded.embeddings[:4]), dim=1) + normalize(torch.from_numpy(rows[:4]), dim=1)
    torch.testing.assert_close(made, normalize(both, dim=1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("seed", "words"), [(0, ""), (1, "other pixels than 20 of 20 training images")])
def test_a_file_of_other_photographs_under_the_same_names_is_named(teacher, tmp_path, caplog, seed, words):
    recipe, model = recipe_of(teacher), open_model(teacher, CPU, trust=True)
    pixels = (recipe.data.images(range(len(recipe.data))) + seed).to(torch.uint8)
    faces = InMemory(pixels, recipe.data.names, recipe.data.identities)
    write_embeddings(tmp_path / "file.npz", embed(model, faces, "faces.zip"))
    open_teachers(settings(tmp_path / "file.npz"), recipe.data, recipe.backbone, CPU)
    assert ("file.npz was made of" in caplog.text) == bool(words)
    assert words in caplog.text


def test_a_teacher_of_another_template_than_the_images_is_refused(teacher, monkeypatch):
    recipe = recipe_of(teacher)
    monkeypatch.setattr(type(recipe.data), "source", ImageSource("photos", None, "sphereface_112x96 by MTCNN"))
    for template in (None, "sphereface_112x96", "mine"):
        model = replace(open_model(teacher, CPU, trust=True), template=template)
        monkeypatch.setattr(teachers, "open_model", lambda *_, found=model: found)
        if template != "mine":
            open_teachers(settings(teacher), recipe.data, recipe.backbone, CPU)
            continue
        aligned = (
            rf"^distill.teachers: photos: its faces are aligned to sphereface_112x96, but {teacher} takes mine; align"
        )
        with pytest.raises(ValueError, match=aligned):
            open_teachers(settings(teacher), recipe.data, recipe.backbone, CPU)


def test_own_centers_are_matched_by_name(teacher):
    head = open_head(teacher)
    people = list(head.people[::-1][:3])
    torch.testing.assert_close(own_centers([teacher, teacher], people, "own"), head.centers.flip(0)[:3, 0])


def test_own_centers_are_those_of_people_in_another_spelling_where_names_are_merged(teacher):
    head = open_head(teacher)
    people = [name.upper() for name in head.people[::-1][:3]]
    torch.testing.assert_close(own_centers([teacher], people, "own", "merge"), head.centers.flip(0)[:3, 0])
    for rule in (None, "exact"):
        with pytest.raises(ValueError, match=r"no class for 3 of the 3 people.*; --names merge takes names"):
            own_centers([teacher], people, "own", rule)


def test_a_teacher_that_has_a_person_twice_by_spellings_has_no_center_of_hers(teacher, monkeypatch):
    head = open_head(teacher)
    twice = replace(head, people=(head.people[0].upper(), *head.people[:-1]))
    monkeypatch.setattr("verisphere.train.distill.taught.open_head", lambda _: twice)
    for people in ([head.people[0], head.people[1]], [head.people[0].title()]):
        with pytest.raises(ValueError, match="of the people have several classes in it, by other spellings"):
            own_centers([teacher], people, "own", "merge")
        assert own_centers([teacher], people, "auto", "merge") is None
    assert own_centers([teacher], [head.people[0]], "own", "exact") is not None


def test_without_a_class_of_everybody_the_means_are_taken(teacher, tmp_path, caplog):
    with pytest.raises(
        ValueError, match=r"centers is own, but .*no class for 1 of the 2 people, the first is 'nobody'"
    ):
        own_centers([teacher], ["p0", "nobody"], "own")
    with caplog.at_level(logging.INFO):
        assert own_centers([teacher], ["p0", "nobody"], "auto") is None
    assert "are the means of its embeddings, since" in caplog.text
    assert own_centers([teacher], ["p0"], "means") is None
    made = taught(teacher, settings(teacher, centers="means"), tmp_path)
    recipe = recipe_of(teacher)
    rows = normalize(
        torch.from_numpy(extract(open_model(teacher, CPU, trust=True).backbone, recipe.data).embeddings), dim=1
    )
    means = torch.stack([rows[recipe.data.labels == label].mean(0) for label in range(len(recipe.data.people))])
    torch.testing.assert_close(made.centers, normalize(means, dim=1), rtol=1e-4, atol=1e-5)


def test_auto_says_that_the_teacher_has_its_own_centers(teacher, caplog):
    with caplog.at_level(logging.INFO):
        assert own_centers([teacher], ["p0"], "auto") is not None
    assert "the teacher's centers are those that it was trained with" in caplog.text


def test_a_cache_that_nothing_is_kept_in_is_refused(teacher, tmp_path):
    asked = settings(teacher, cache="kept", images="same", kl=0.0)
    with pytest.raises(ValueError, match=r"distill\.cache is kept, but nothing is kept there: .*images: plain"):
        taught(teacher, asked, tmp_path, Augment(crop=0.1))
    taught(teacher, replace(asked, images="plain"), tmp_path, Augment(crop=0.1))


def test_means_need_a_direction():
    rows = np.array([[1.0, 0.0], [-1.0, 0.0]], np.float32)
    with pytest.raises(ValueError, match="of 'Ann' have no mean direction"):
        mean_centers(rows, np.array([0, 0]), ["Ann"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"l2": -1.0}, "distill.l2 is -1.0"),
        ({"kl": float("nan")}, "distill.kl is nan"),
        ({"scale": 0.0}, "distill.scale is 0.0"),
        ({"teachers": ["x"], "l2": 0.0, "kl": 0.0}, "nothing is distilled"),
        ({"l2": 0.0, "projection": True}, "distill.projection is for the L2"),
    ],
)
def test_bad_settings_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        Distillation(**given)


def test_bad_teachers_are_named(teacher, tmp_path):
    recipe = recipe_of(teacher)

    def opened(*paths: object, **others: object) -> None:
        open_teachers(settings(*paths, **others), recipe.data, recipe.backbone, CPU)

    with pytest.raises(FileNotFoundError, match="nowhere"):
        opened(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"runs its code: allow it by distill\.trust_code: true"):
        open_teachers(Distillation([str(teacher)]), recipe.data, recipe.backbone, CPU)
    with pytest.raises(ValueError, match="is a recipe, whose network is untrained"):
        opened("pixels")
    with pytest.raises(ValueError, match="takes images of 16 x 16 pixels and the student 112 x 112"):
        open_teachers(settings(teacher), recipe.data, Pixels(side=8), CPU)
    other = recipe_of(teacher, "--backbone.embedding_size", "5").backbone
    with pytest.raises(ValueError, match=r"student's have 5 numbers and the teacher's 8: set backbone\.embedding_size"):
        open_teachers(settings(teacher), recipe.data, other, CPU)
    with pytest.raises(ValueError, match=r"start_centers: the student's embeddings have 5 numbers"):
        open_teachers(settings(teacher, projection=True, start_centers=True), recipe.data, other, CPU)
    embedded = extract(open_model(teacher, CPU, trust=True).backbone, recipe.data)
    few = replace(
        embedded, embeddings=embedded.embeddings[1:], names=embedded.names[1:], identities=embedded.identities[1:]
    )
    write_embeddings(tmp_path / "few.npz", few)
    with pytest.raises(ValueError, match=r"few\.npz has no embedding of 1 of the 20 training images, the first is"):
        opened(tmp_path / "few.npz")
    narrow = replace(embedded, embeddings=embedded.embeddings[:, :6])
    write_embeddings(tmp_path / "narrow.npz", narrow)
    with pytest.raises(ValueError, match=r"different sizes .* 8, .*narrow\.npz 6"):
        opened(teacher, tmp_path / "narrow.npz")
    write_embeddings(tmp_path / "all.npz", embedded)
    with pytest.raises(ValueError, match=r"knows plain images, but the recipe augments them; set distill\.images"):
        taught(teacher, settings(tmp_path / "all.npz"), tmp_path, Augment(crop=0.1))
