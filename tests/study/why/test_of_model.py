"""Faults planted one by one in the rows, labels and lists of drawn colours, and what is named first."""

import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import verisphere
from tiny_runs import command
from two_models import OLD
from verisphere.backbones.backbone import Backbone
from verisphere.base.trained_on import TrainedOn, name_digests
from verisphere.base.vocabulary import Embeddings
from verisphere.base.words import Names
from verisphere.files.embeddings import write_embeddings
from verisphere.files.label_lists import LabelList, write_labels
from verisphere.images import InMemory, Photos
from verisphere.models.described_faces import open_faces
from verisphere.models.embed import embed, open_model
from verisphere.study.why import of_model
from verisphere.study.why.answer import Answer, Cause, Seen
from verisphere.study.why.case import ModelCase
from verisphere.study.why.of_model import training
from verisphere.study.why.of_pixels import _of_people, better_way, standing_out
from verisphere.study.why.pixels import AS_THEY_ARE, OTHER_VIEWS, Way, embedded, exchanged, grey, other_pixels, view
from verisphere.study.why.why import why

PEOPLE, IMAGES = 14, 3


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Coloured patterns, one of each person and a little noise, and a network that looks at them as they are."""
    folder, draw = tmp_path_factory.mktemp("why"), np.random.default_rng(0)
    for person in range(PEOPLE):
        (folder / "faces" / f"p{person:02d}").mkdir(parents=True)
        pattern = draw.integers(30, 226, (7, 7, 3))
        for image in range(IMAGES):
            seen = (pattern + draw.normal(0, 12, pattern.shape)).clip(0, 255).astype(np.uint8)
            large = Image.fromarray(seen).resize((112, 112), Image.Resampling.BICUBIC)
            large.save(folder / "faces" / f"p{person:02d}" / f"{image}.png")
    (folder / "net.yaml").write_text(
        "backbone: {class_path: verisphere.backbones.Pixels, init_args: {side: 14, grey: false}}\n"
    )
    return folder


@pytest.fixture(scope="module")
def rows(room: Path) -> Embeddings:
    return embed(open_model(room / "net.yaml", torch.device("cpu")), open_faces(room / "faces"), "faces")


def made(room: Path, way: Way, flip: bool = False) -> np.ndarray:
    """The rows of all images by a way."""
    faces = open_faces(room / "faces")
    both = embedded(open_model(room / "net.yaml", torch.device("cpu")).backbone, faces.images(range(len(faces))), way)
    return (both[0] + both[1] if flip else both[0]).astype(np.float32)


def asked(room: Path, rows: Embeddings | None = None, **more: Path) -> Answer:
    if rows is not None:
        write_embeddings(room / "rows.npz", rows)
        more["embeddings"] = room / "rows.npz"
    return why(room / "net.yaml", room / "faces", **more)


def named(answer: Answer) -> str:
    assert answer.cause is not None
    assert answer.cause.evidence
    assert answer.cause.mend
    return answer.cause.name


def test_healthy_rows_have_no_cause_and_every_check_says_what_it_saw(room: Path, rows: Embeddings):
    answer = asked(room, rows)
    assert answer.cause is None
    assert len(answer.tried) == 12
    told = {tried.check: (tried.told, tried.figures) for tried in answer.tried}
    assert told["rows of the images"] == ("well", "42 rows are what the model gives of their images")
    assert told["labels"][0] == "too few to tell"  # mixed labels of fewer than 40 people show nothing
    assert told["people of the rows"] == ("well", "42 of 42 images have the person of the set")
    assert told["list of pairs"][0] == "not asked"
    assert "excludes nothing" in answer.text()
    json.loads(answer.json())


def test_a_list_that_cannot_be_read_is_an_error_and_no_cause(room: Path, tmp_path: Path):
    (tmp_path / "faces.csv").write_text("image,identity\na.png,anna\n")
    with pytest.raises(ValueError, match=r"faces\.csv: line 1"):
        why(room / "net.yaml", tmp_path / "faces.csv")


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("rule", ["merge", "exact"])
def test_spellings_that_a_description_decides_are_no_damage(room: Path, tmp_path: Path, rule: Names):
    for image in sorted((room / "faces").rglob("*.png")):
        person = image.parent.name.upper() if image.stem == "0" else image.parent.name
        (tmp_path / person).mkdir(exist_ok=True)
        shutil.copy(image, tmp_path / person)
    case: Any = SimpleNamespace(faces=Photos(tmp_path, names=rule), template="arcface_112x112")
    assert isinstance(of_model.files(case), Seen)


def test_folders_of_a_set_whose_people_a_list_names_are_no_people(room: Path, tmp_path: Path):
    listed = ["name,identity"]
    for place, image in enumerate(sorted((room / "faces").glob("*/*.png"))):
        name = f"{['none', 'mask', 'MASK'][place % 3]}/{place:03d}.png"
        (tmp_path / "cond" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(image, tmp_path / "cond" / name)
        listed.append(f"{name},{image.parent.name}")
    (tmp_path / "people.csv").write_text("\n".join(listed) + "\n")
    init = {"path": str(tmp_path / "cond"), "labels": str(tmp_path / "people.csv")}
    (tmp_path / "set.yaml").write_text(json.dumps({"class_path": "verisphere.images.Photos", "init_args": init}))
    answer = why(room / "net.yaml", tmp_path / "set.yaml")
    assert answer.cause is None or answer.cause.name != "damaged or repeated images", answer.text()
    for image in (tmp_path / "cond" / "MASK").glob("*.png"):
        image.write_bytes(b"no image")
    damaged = why(room / "net.yaml", tmp_path / "set.yaml").cause
    assert damaged is not None
    assert (damaged.name, damaged.mend) == (
        "damaged or repeated images",
        f"verisphere data verify {tmp_path / 'cond'}",
    )


def test_other_names_another_order_and_float16_are_no_cause(room: Path, rows: Embeddings):
    called = replace(rows, identities=np.char.add("person ", rows.identities))
    assert asked(room, called).cause is None
    assert asked(room, rows.take(np.random.default_rng(0).permutation(len(rows)))).cause is None
    assert asked(room, replace(rows, embeddings=rows.embeddings.astype(np.float16).astype(np.float32))).cause is None


@pytest.mark.parametrize(
    ("way", "flip", "name"),
    [
        (Way(change=exchanged), False, "colour order"),
        (Way(change=view((0.86, 0, 0, 0, 0.86, 0))), False, "alignment or crop"),
        (
            Way(change=view((0.83, 0, 0, 0, 0.83, 0))),
            False,
            "alignment or crop",
        ),  # of no view that is tried, but near to one
        (AS_THEY_ARE, True, "flip"),
        (Way(normal=(0.0, 1.0)), False, "norm"),  # this network's rows change by their length alone
    ],
)
def test_rows_that_were_made_otherwise(room: Path, rows: Embeddings, way: Way, flip: bool, name: str):
    assert named(asked(room, replace(rows, embeddings=made(room, way, flip)))) == name


def test_rows_of_images_in_grey(room: Path, rows: Embeddings):
    answer = asked(room, replace(rows, embeddings=made(room, Way(change=grey))))
    assert named(answer) == "colour order"
    assert answer.cause is not None
    assert answer.cause.evidence.endswith("in grey")


def test_rows_that_were_moved_scaled_or_rounded(room: Path, rows: Embeddings):
    numbers, draw = rows.embeddings, np.random.default_rng(1)
    turned = np.linalg.qr(draw.normal(size=(numbers.shape[1],) * 2))[0]

    def unit(made: np.ndarray) -> np.ndarray:
        return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)

    for changed, name in (
        (np.roll(numbers, 2, 0), "label shift"),
        (draw.permutation(numbers), "label shift"),
        (unit(numbers), "norm"),
        ((numbers - numbers.mean(0)) / numbers.std(0), "norm"),
        (unit(numbers - numbers.mean(0)), "norm"),  # of another factor for each row
        (unit(numbers * draw.normal(size=numbers.shape[1])), "norm"),
        (numbers @ turned.astype(np.float32), "norm"),
        (unit((numbers / np.abs(numbers).max(1, keepdims=True) * 127).round()), "precision"),
        (torch.from_numpy(numbers).bfloat16().float().numpy(), "precision"),
        ((numbers / np.abs(numbers).max() * 127).round(), "precision"),
        ((numbers / numbers.std()).round(1), "precision"),
        (np.repeat(numbers[:1], len(numbers), 0), "embeddings collapsed"),
        (numbers[:, :-1], "another model"),
        (draw.normal(size=numbers.shape).astype(np.float32), "another model"),
        (1 + 1e-3 * draw.normal(size=numbers.shape).astype(np.float32), "another model"),  # nearly one row for all
    ):
        assert named(asked(room, replace(rows, embeddings=changed))) == name


def test_other_bytes_are_told_by_their_digests_and_without_them(room: Path, rows: Embeddings):
    numbers = rows.embeddings + np.random.default_rng(2).normal(0, 0.02, rows.embeddings.shape).astype(np.float32)
    assert named(asked(room, replace(rows, embeddings=numbers))) == "images of other bytes"
    much = rows.embeddings + np.random.default_rng(4).normal(0, rows.embeddings.std(), rows.embeddings.shape)
    answer = asked(room, replace(rows, embeddings=much.astype(np.float32)))
    assert named(answer) == "images of other bytes"  # at a cosine of 0.7: another network's rows are not nearer either
    assert "99 % of other images' rows" in answer.text()
    little = rows.embeddings + np.random.default_rng(2).normal(0, 0.002, rows.embeddings.shape).astype(np.float32)
    assert named(asked(room, replace(rows, embeddings=little))) == "images of other bytes"
    numbers += np.random.default_rng(3).normal(0, 0.02, rows.embeddings.shape[1]).astype(np.float32)
    assert named(asked(room, replace(rows, embeddings=numbers))) == "precision"  # an error that all rows share


def test_rows_that_were_kept_in_int8_as_was_asked_for(room: Path):
    kept = room / "kept"
    assert command("embed", room / "net.yaml", room / "faces", "--out", kept, "--store", "int8") == 0
    answer = why(room / "net.yaml", room / "faces", embeddings=kept)
    assert answer.cause is None
    assert next(tried.told for tried in answer.tried if tried.check == "rows of the images") == "well"


def test_pixels_that_were_normalised_before_the_network_did(room: Path, tmp_path: Path):
    network = "{embedding_size: 32, width: 0.125, activation: relu}"
    model = tmp_path / "net.yaml"
    model.write_text(f"backbone: {{class_path: verisphere.backbones.MobileFaceNet, init_args: {network}}}\n")
    opened, faces = open_model(model, torch.device("cpu")), open_faces(room / "faces")
    twice = Way(normal=(255 * opened.backbone.mean, 255 * opened.backbone.scale))
    made = embedded(opened.backbone, faces.images(range(len(faces))), twice)[0].astype(np.float32)
    write_embeddings(tmp_path / "rows.npz", Embeddings(made, faces.names, faces.identities))
    answer = why(model, room / "faces", embeddings=tmp_path / "rows.npz")
    assert named(answer) == "mean and scale"
    assert "(pixel - 0) / 255, and then as the network normalises" in answer.text()


def test_images_that_stand_for_people_are_of_one_person_each(room: Path, tmp_path: Path):
    """Scores of strangers are otherwise those of one person, too."""
    for person in sorted((room / "faces").iterdir())[:6]:
        shutil.copytree(person, tmp_path / "few" / person.name)
    at, person = _of_people(ModelCase(room / "net.yaml", tmp_path / "few"))
    assert at.tolist() == [0, 3, 6, 9, 12, 15]
    assert len(set(person.tolist())) == 6


def test_a_row_of_zeros_is_the_cause_and_no_crash(room: Path, rows: Embeddings):
    numbers = rows.embeddings.copy()
    numbers[3] = 0
    np.savez(room / "zeros.npz", embeddings=numbers, names=rows.names, identities=rows.identities)
    answer = why(room / "net.yaml", room / "faces", embeddings=room / "zeros.npz")
    assert named(answer) == "rows that cannot be"
    assert "zeros.npz" in answer.cause.evidence


def test_people_that_were_moved_in_the_file_or_in_a_list_of_labels(room: Path, rows: Embeddings):
    answer = asked(room, replace(rows, identities=np.roll(rows.identities, 1)))
    assert named(answer) == "label shift"
    assert "14 of 42 images are under another person than in the set" in answer.cause.evidence
    write_labels(room / "labels.csv", LabelList(rows.names.tolist(), np.roll(rows.identities, 1).tolist()))
    answer = asked(room, identities=room / "labels.csv")
    assert named(answer) == "label shift"
    assert "labels.csv anew" in answer.text()  # no new rows mend a list of labels
    few = rows.identities.copy()
    few[0] = few[41]
    assert asked(room, replace(rows, identities=few)).cause is None  # one label that somebody has corrected
    few[:2] = few[40:42]
    assert named(asked(room, replace(rows, identities=few))) == "label shift"


def test_labels_that_moved_by_less_than_half_of_a_persons_images(room: Path, rows: Embeddings, tmp_path: Path):
    """The set alone is given: most of a person's images keep his name."""
    files = sorted((room / "faces").rglob("*.png"))
    for by, name in ((0, ""), (1, "label shift")):
        for at, file in enumerate(files):
            copy = tmp_path / str(by) / files[at - by].parent.name / f"{at:02d}.png"
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
        answer = why(room / "net.yaml", tmp_path / str(by))
        assert ("" if answer.cause is None else answer.cause.name) == name
    assert answer.cause is not None
    assert "28 of 42 images are nearer to their own person" in answer.cause.evidence


def test_labels_of_other_people(room: Path, tmp_path: Path):
    """A quarter of the images lie in another person's folder."""
    files = sorted((room / "faces").rglob("*.png"))
    for at, file in enumerate(files):
        person = files[(at + 11 + at) % 42 if at % 4 == 2 else at].parent.name
        (tmp_path / person).mkdir(exist_ok=True)
        (tmp_path / person / f"{at:02d}.png").write_bytes(file.read_bytes())
    assert named(why(room / "net.yaml", tmp_path)) == "wrong labels"


def test_a_list_of_labels_is_read_as_the_rows_took_their_names(room: Path, rows: Embeddings, tmp_path: Path):
    write_embeddings(tmp_path / "rows.npz", replace(rows, names_rule="exact"))
    people = [name.upper() if row % 2 else name for row, name in enumerate(rows.identities.tolist())]
    write_labels(tmp_path / "codes.csv", LabelList(rows.names.tolist(), people))
    case = ModelCase(room / "net.yaml", room / "faces", tmp_path / "rows.npz", identities=tmp_path / "codes.csv")
    assert case.rows is not None
    assert case.rows.identities.tolist() == people
    assert set(case.people) == set(people)


@pytest.mark.parametrize(("how", "kind"), [("merge", Cause), ("exact", Seen)])
def test_a_code_of_the_training_that_differs_in_case_is_another_person_where_names_were_taken_exactly(how, kind):
    faces = InMemory(torch.zeros(1, 3, 4, 4, dtype=torch.uint8), ("1",), ("AB1",))
    faces.names_rule = how
    people = ["ab1"]
    record = TrainedOn(name_digests(people), np.empty(0, np.int64), written=name_digests(people, written=True))
    case = ModelCase(Path(), Path())
    vars(case).update(opened=SimpleNamespace(trained_on=record), faces=faces)
    assert isinstance(training(case), kind)


def test_wrong_labels_among_few_images_of_each_person():
    """A quarter of the labels of people with three images each: most people keep no two images of their own."""
    draw = np.random.default_rng(0)
    people = np.repeat(np.arange(60), 3)
    rows = draw.normal(size=(60, 32))[people] + draw.normal(0, 0.6, (180, 32))
    wrong = draw.permutation(180)[:45]
    labels = people.copy()
    labels[wrong] = people[np.roll(wrong, 1)]
    for given, named in ((people, Seen), (labels, Cause)):
        assert type(of_model._of_order(rows, np.arange(180), given)) is named
    vague = rows + draw.normal(0, 1.2, rows.shape)  # of a network that hardly tells people apart
    assert isinstance(of_model._of_order(vague, np.arange(180), people), Seen)


def test_some_images_that_are_turned_are_no_wrong_labels(room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A third of the images, as telephones keep them; their rows are near to nobody's, as those of wrong labels are."""
    for at, file in enumerate(sorted((room / "faces").rglob("*.png"))):
        copy = tmp_path / file.parent.name / file.name
        copy.parent.mkdir(exist_ok=True)
        turn = (Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_270)[at % 2]
        (Image.open(file).transpose(turn) if at % 3 == 1 else Image.open(file)).save(copy)
    monkeypatch.setattr("verisphere.study.why.of_model._of_order", lambda *_: Cause("wrong labels", "as found"))
    found = of_model.labels(ModelCase(room / "net.yaml", tmp_path))
    assert isinstance(found, Cause)
    assert found.name == "alignment or crop"
    assert "30 of 42 images are nearest to their own person, and 12 of the other 12 once they are" in found.evidence


def test_own_scores_stand_out_from_those_of_strangers_in_their_deviations():
    rows = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    strangers = np.array([0.0, 0.6, 0.0, 0.6])
    expected = (np.array([1.0, 0.8]) - strangers.mean()) / strangers.std()
    np.testing.assert_allclose(standing_out(rows, np.array([0, 0, 1, 1])), expected)
    assert not standing_out(rows * [[1], [0], [1], [1]], np.array([0, 0, 1, 1])).any()


def listed(room: Path, labels: list[int], folds: list[int] | None = None) -> Path:
    """Pairs of the images 0 and 1 of each person, and of the images 0 of neighbours."""
    pairs = [(f"p{person:02d}/0.png", f"p{person:02d}/1.png") for person in range(PEOPLE)]
    pairs += [(f"p{person:02d}/0.png", f"p{(person + 1) % PEOPLE:02d}/0.png") for person in range(PEOPLE)]
    lines = [f"{one},{two},{label}" for (one, two), label in zip(pairs, labels, strict=True)]
    if folds is not None:
        lines = [f"{line},{fold}" for line, fold in zip(lines, folds, strict=True)]
    path = room / "pairs.csv"
    path.write_text("\n".join(["left,right,label" + ("" if folds is None else ",fold"), *lines]) + "\n")
    return path


def test_labels_and_folds_of_a_list(room: Path, rows: Embeddings):
    right = [1] * PEOPLE + [0] * PEOPLE
    assert asked(room, rows, pairs=listed(room, right)).cause is None
    assert asked(room, rows, pairs=listed(room, right, [row % 4 for row in range(28)])).cause is None
    for labels, how in (
        (right[-1:] + right[:-1], "the labels moved by one line"),
        ([1 - label for label in right], "the labels inverted"),
    ):
        answer = asked(room, rows, pairs=listed(room, labels))
        assert named(answer) == "list order"
        assert how in answer.cause.evidence
    assert named(asked(room, rows, pairs=listed(room, right, [row // 14 for row in range(28)]))) == "fold rule"


def test_flags_of_a_verification_set_that_moved_are_those_of_its_list(room: Path, tmp_path: Path):
    people = [*range(PEOPLE)] * 12
    pairs = [(person, person if row % 3 else (person + 1) % PEOPLE) for row, person in enumerate(people)]
    files = [[(room / "faces" / f"p{person:02d}" / f"{image}.png").read_bytes() for image, person in enumerate(pair)]
             for pair in pairs]  # fmt: skip
    genuine = [one == other for one, other in pairs]
    mixed = np.random.default_rng(0).permutation(genuine).tolist()
    for name, flags in (("right", genuine), ("moved", genuine[-1:] + genuine[:-1]), ("mixed", mixed)):
        (tmp_path / f"{name}.bin").write_bytes(pickle.dumps(([file for pair in files for file in pair], flags)))
    assert why(room / "net.yaml", tmp_path / "right.bin").cause is None
    assert named(why(room / "net.yaml", tmp_path / "mixed.bin")) == "list order"
    answer = why(room / "net.yaml", tmp_path / "moved.bin")
    assert named(answer) == "list order"
    assert answer.cause.mend.startswith("write the list anew")


def test_records_that_differ_are_named_by_their_setting(room: Path, rows: Embeddings, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("verisphere.study.why.case.origin_of", lambda *_: OLD)
    for origin, name in (
        (replace(OLD, precision="int8", model="cd" * 32), "precision"),
        (replace(OLD, flip=True), "flip"),
        (replace(OLD, preprocessing=replace(OLD.preprocessing, colour="BGR")), "colour order"),
        (replace(OLD, preprocessing=replace(OLD.preprocessing, scale=128.0)), "mean and scale"),
    ):
        assert named(asked(room, replace(rows, origin=origin))) == name


def test_pixels_that_are_not_recorded_are_not_called_right(
    room: Path, rows: Embeddings, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("verisphere.study.why.case.origin_of", lambda *_: OLD)
    for origin, told in ((OLD, "well"), (replace(OLD, preprocessing=None), "too few to tell")):
        thresholds = SimpleNamespace(origin=origin, implausible=(), thresholds=())
        monkeypatch.setattr("verisphere.study.why.of_model.read_calibration", lambda _, found=thresholds: found)
        answer = asked(room, replace(rows, origin=origin), calibration=room / "thresholds.json")
        seen = [tried for tried in answer.tried if "this model" in tried.figures]
        assert [tried.told for tried in seen] == [told, told]
        assert all(("did not record the pixels" in tried.figures) == (told != "well") for tried in seen)


def test_rows_under_other_weights_are_the_models_where_it_gives_them(
    room: Path, rows: Embeddings, monkeypatch: pytest.MonkeyPatch
):
    """One network that was read in two ways has two digests; so have two networks, whose rows differ."""
    monkeypatch.setattr("verisphere.study.why.case.origin_of", lambda *_: OLD)
    read = replace(OLD, model="cd" * 32)
    thresholds = SimpleNamespace(origin=read, implausible=(), thresholds=())
    monkeypatch.setattr("verisphere.study.why.of_model.read_calibration", lambda _: thresholds)
    answer = asked(room, replace(rows, origin=read), calibration=room / "thresholds.json")
    assert answer.cause is None
    assert answer.tried[0].figures.endswith("yet they are its rows")
    others = np.random.default_rng(0).normal(size=rows.embeddings.shape).astype(np.float32)
    assert named(asked(room, replace(rows, origin=read, embeddings=others))) == "another model"
    assert named(asked(room, calibration=room / "thresholds.json")) == "calibration of another model"


def test_a_threshold_that_strangers_pass_more_often_than_promised(room: Path, rows: Embeddings):
    draws = np.random.default_rng(0).normal(size=(2, 600, 16))
    elsewhere = verisphere.calibrate((draws[:1] + 0.5 * draws).reshape(1200, 16), np.arange(1200) % 600, far="1e-2")
    elsewhere.write_json(room / "thresholds.json")
    answer = asked(room, rows, calibration=room / "thresholds.json")
    assert answer.cause is None
    seen = {tried.check: tried.figures for tried in answer.tried}
    assert seen["promise"] == "different people that pass: 0 of 7 at FAR 1e-2"
    lower = replace(elsewhere.thresholds[0], threshold=-0.5)
    replace(elsewhere, thresholds=(lower,), checks=()).write_json(room / "thresholds.json")
    answer = asked(room, rows, calibration=room / "thresholds.json")
    assert named(answer) == "calibration of another model"
    assert "7 of 7 comparisons of different people that share nobody pass at -0.5000" in answer.cause.evidence


class FirstChannel(Backbone):
    """Looks at the first channel alone."""

    def embed(self, images: torch.Tensor) -> torch.Tensor:
        """The channel in 8 x 8."""
        small = torch.nn.functional.interpolate(images[:, :1], (8, 8), mode="area").flatten(1)
        return small - small.mean(1, keepdim=True)


def faces_of(people: int, channel: int) -> torch.Tensor:
    """Two images of each person, whose pattern is in one channel; the others hold noise."""
    draw = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (2 * people, 3, 16, 16), generator=draw)
    pattern = torch.randint(0, 216, (people, 16, 16), generator=draw).repeat_interleave(2, 0)
    pixels[:, channel] = pattern + torch.randint(0, 40, pattern.shape, generator=draw)
    return torch.nn.functional.interpolate(pixels.float(), (112, 112), mode="nearest").to(torch.uint8)


def test_another_way_is_named_only_where_it_is_better_beyond_chance():
    network = FirstChannel(64)
    ways, person = [*other_pixels(network, faces_of(2, channel=0), normals=False), *OTHER_VIEWS], np.arange(60) // 2
    better, own = better_way(network, faces_of(30, channel=2), person, ways, flip=False)
    assert better is not None
    way, other, least = better
    assert way.cause == "colour order"
    assert other > own + least > own
    assert better_way(network, faces_of(30, channel=0), person, ways, flip=False)[0] is None
    assert better_way(network, faces_of(30, channel=1), person, ways, flip=False)[0] is None  # no way shows the pattern
    assert not any(
        way.change is exchanged
        for way in other_pixels(network, faces_of(2, channel=0)[:, :1].expand(-1, 3, -1, -1), normals=True)
    )


def test_exit_codes_and_what_the_command_refuses(room: Path, rows: Embeddings, capsys: pytest.CaptureFixture[str]):
    write_embeddings(room / "fine.npz", rows)
    write_embeddings(room / "moved.npz", replace(rows, identities=np.roll(rows.identities, 1)))
    call = ["why", room / "net.yaml", room / "faces", "--embeddings"]
    assert command(*call, room / "fine.npz", "--json", room / "why.json") == 0
    assert json.loads((room / "why.json").read_text())["cause"] is None
    assert json.loads((room / "why.json").read_text())["names_rule"] is None
    assert command(*call, room / "fine.npz", "--json", room / "why.json", "--names", "merge") == 0
    assert json.loads((room / "why.json").read_text())["names_rule"] == "merge"
    write_embeddings(room / "exact.npz", replace(rows, names_rule="exact"))
    assert asked(room, embeddings=room / "exact.npz").names_rule == "exact"
    with pytest.raises(SystemExit) as leaving:
        command(*call, room / "moved.npz", "--json", room / "why.json")
    assert leaving.value.code == 2
    assert json.loads((room / "why.json").read_text())["cause"]["name"] == "label shift"
    assert "label shift\nevidence: " in capsys.readouterr().out
    assert command("why", room / "net.yaml", "--pairs", room / "fine.npz") == 2
    assert "--pairs is about a set of images" in capsys.readouterr().err
    assert command("why", room / "faces") == 2
    assert "not the folder of a run" in capsys.readouterr().err
