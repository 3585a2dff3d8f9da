"""People and images of the training: found in a set, refused by calibrate and export, and said first where accepted."""

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch

from tiny_runs import OWN, command, read
from verisphere.base.vocabulary import Embeddings
from verisphere.files.embeddings import pool_embeddings, read_embeddings, write_embeddings
from verisphere.files.streamed_rows import open_rows
from verisphere.images import InMemory
from verisphere.images.faces import Faces
from verisphere.measure.evaluate import Options, evaluate_all_pairs, evaluate_one_threshold
from verisphere.measure.listed import evaluate_pairs
from verisphere.measure.report import make_report, report_inputs
from verisphere.models import onnx_file
from verisphere.models.embed import embed, open_model
from verisphere.models.folder import load
from verisphere.report.calibration_tables import calibration_text
from verisphere.score.templates import templates_of
from verisphere.ship import export
from verisphere.ship.arrays import calibrate as calibrate_arrays
from verisphere.ship.calibrate import calibrate, read_calibration
from verisphere.ship.export import export_model
from verisphere.ship.face_search import aligned_faces
from verisphere.ship.notes import notes_on_model
from verisphere.train.session import train_run

RECIPE = """\
data: {class_path: own_parts.Noise, init_args: {people: 12, images: 3}}
backbone: {class_path: own_parts.TinyNet}
loss: {class_path: own_parts.OwnLoss}
epochs: 1
batch_size: 12
workers: 0
"""
FAR = "0.4"
EXPECTED = ("--far", FAR, "--guarantee", "expected", "--out")


@pytest.fixture(scope="module", autouse=True)
def _own_parts_can_be_imported():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(OWN)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    (folder / "recipe.yaml").write_text(RECIPE)
    train_run(read(folder / "recipe.yaml"), folder / "run")
    return folder / "run"


def training_images() -> torch.Tensor:
    from own_parts import Noise

    return Noise(12, 3).images(range(36))


def faces(images: torch.Tensor, people: list[str]) -> Faces:
    each = len(images) // len(people)
    identities = tuple(person for person in people for _ in range(each))
    return InMemory(images, tuple(f"{person}/{row}.png" for row, person in enumerate(identities)), identities)


def noise(seed: int, people: int = 12) -> torch.Tensor:
    """Three images of each person around a colour of their own."""
    draws = torch.Generator().manual_seed(seed)
    colours = torch.randint(200, (people, 3, 1, 1), generator=draws).repeat_interleave(3, 0)
    return (colours + torch.randint(56, (3 * people, 3, 16, 16), generator=draws)).to(torch.uint8)


TRAINED = [f"p{person}" for person in range(12)]
OTHERS = [f"Person {letter}" for letter in "abcdefghijkl"]
SAME, PHOTOS, RENAMED, NEW, NUMBERS = "same.npz", "photos.npz", "renamed.npz", "new.npz", "numbers.npz"


@pytest.fixture(scope="module")
def sets(run: Path, tmp_path_factory) -> Path:
    """Embeddings of the training itself, of its people on other images, of its images renamed, and of others."""
    folder, model = tmp_path_factory.mktemp("sets"), open_model(run, torch.device("cpu"), trust=True)
    made = {
        SAME: faces(training_images(), TRAINED),
        PHOTOS: faces(noise(1), [*TRAINED[:2], *OTHERS[2:]]),
        RENAMED: faces(torch.cat([training_images()[:6], noise(2, 10)]), OTHERS),
        NEW: faces(noise(3), OTHERS),
        NUMBERS: faces(noise(4), [f"{number}" for number in range(12)]),
    }
    for name, images in made.items():
        write_embeddings(folder / name, embed(model, images, name))
    return folder


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (SAME, "12 of the 12 people (by name) and 36 of the 36 images, such as 'p0'"),
        (PHOTOS, "2 of the 12 people (by name), such as 'p0'"),
        (RENAMED, "6 of the 36 images, such as 'Person a/0.png'"),
    ],
)
def test_people_and_images_of_the_training_are_refused_and_named(sets: Path, tmp_path, capsys, name, found):
    out = tmp_path / "found.json"
    for files in ((name,), (NEW, "--check", str(sets / name))):
        assert command("calibrate", sets / files[0], *files[1:], *EXPECTED, out) == 2
        error = capsys.readouterr().err.strip().splitlines()[-1]
        assert f"{name}: the model was trained on {found}; what is found on them promises nothing" in error
        assert "--accept-training-people" in error
        assert not out.exists()


def test_other_people_are_calibrated_on_and_it_is_said_that_they_were_compared(sets: Path, tmp_path, capsys):
    nameless = "; people could not be compared, since the set or the training has no names"
    for name, by_name, unknown in ((NEW, " and, by name, none of the 12 people", ""), (NUMBERS, "", nameless)):
        assert command("calibrate", sets / name, *EXPECTED, tmp_path / "f.json") == 0
        assert f"none of the 36 images{by_name} were in the training{unknown}\n" in capsys.readouterr().out
        assert not any(found.warning() for found in read_calibration(tmp_path / "f.json").thresholds)


def test_evaluate_says_it_first_and_in_the_json(sets: Path, tmp_path):
    result = evaluate_all_pairs(sets / RENAMED, Options([FAR]))
    first = result.text().splitlines()[0]
    assert (
        first == f"{RENAMED}: the model was trained on 6 of the 36 images; these figures say nothing about new people"
    )
    result.write_json(tmp_path / "figures.json")
    (source,) = json.loads((tmp_path / "figures.json").read_text())["sources"]
    assert source["in_training"] == {
        "people": 0, "images": 6, "of_people": 12, "of_images": 36, "named": True, "gap": "",
        "nameless": 0, "pooled": False,
    }  # fmt: skip
    assert evaluate_all_pairs(sets / NEW, Options([FAR])).text().startswith("| FAR target")
    nameless = "none of the 36 images were in the training; people could not be compared, since the set or the training"
    assert evaluate_all_pairs(sets / NUMBERS, Options([FAR])).text().startswith(f"{NUMBERS}: {nameless} has no names\n")


def test_the_files_of_against_and_of_calibration_and_a_report_say_it_too(sets: Path, tmp_path):
    said = "the model was trained on 6 of the 36 images; these figures say nothing about new people"
    ours, known = sets / RENAMED, read_embeddings(sets / RENAMED)
    write_embeddings(tmp_path / "ours.npz", replace(known, in_training=None, origin=None))
    result = evaluate_all_pairs(tmp_path / "ours.npz", Options([FAR]), [ours])
    assert result.text().splitlines()[0] == f"{RENAMED}: {said}"
    assert [source.in_training.images for source in result.fields()["against"]] == [6]
    pairs = combinations(zip(known.names.tolist(), known.identities.tolist(), strict=True), 2)
    lines = "".join(f"{one},{other},{int(own == theirs)}\n" for (one, own), (other, theirs) in pairs)
    (tmp_path / "pairs.csv").write_text(f"left,right,label\n{lines}")
    listed = evaluate_pairs(tmp_path / "ours.npz", tmp_path / "pairs.csv", Options([FAR]), [ours])
    assert listed.text().splitlines()[0] == f"{RENAMED}: {said}"
    domains = np.arange(len(known)) // 3 % 2
    write_embeddings(
        tmp_path / "domains.npz", replace(known, in_training=None, origin=None, domains=domains.astype(str))
    )
    result = evaluate_all_pairs(tmp_path / "domains.npz", Options([FAR], calibration=ours))
    assert result.text().splitlines()[0] == f"{RENAMED}: {said}"
    assert result.fields()["calibration"].in_training.images == 6
    made = make_report(report_inputs([ours]), tmp_path / "report", fars=[FAR], one_far=FAR)
    assert made.text().splitlines()[0] == f"renamed: {said}"
    assert f"renamed: {said}" in (tmp_path / "report" / "report.html").read_text()
    (found,) = json.loads((tmp_path / "report" / "figures.json").read_text())["sets"]
    assert found["in_training"]["images"] == 6


@pytest.fixture
def no_conversion(monkeypatch):
    """Exports without ONNX, for what has nothing to do with it."""
    monkeypatch.setattr(export, "require_export", lambda: None)
    monkeypatch.setattr(export, "write_onnx", lambda path, backbone, about: path.write_text("no network"))
    monkeypatch.setattr(export, "read_onnx", lambda path: path)
    monkeypatch.setattr(export, "compare_onnx", lambda file, model: onnx_file.Agreement(0.0, 0.0, (1, 7)))


@pytest.mark.usefixtures("no_conversion")
@pytest.mark.parametrize("checked", [False, True])
def test_export_refuses_them_too_and_an_accepted_model_says_so_first(run: Path, sets: Path, tmp_path, checked):
    path, out = tmp_path / "found.json", tmp_path / "model"
    own, checks = (NEW, [sets / PHOTOS]) if checked else (PHOTOS, [])
    found = calibrate(sets / own, [FAR], "expected", checks=checks, accept_training_people=True)
    found.write_json(path)
    with pytest.raises(
        ValueError, match=r"found.json: .* 2 of the 12 people \(by name\) of photos.npz, so it promises"
    ):
        export_model(run, out, calibration=path, template="own", trust_code=True)
    made = export_model(run, out, calibration=path, template="own", trust_code=True, accept_training_people=True)
    card = (out / "model_card.md").read_text()
    assert "photos.npz: the model was trained on 2 of the 12 people \\(by name\\)." in card.replace(
        "(by name)", "\\(by name\\)"
    )
    if checked:  # the threshold itself is that of new people
        assert "new.npz: none of the 36 images" in card
        weak = "the model was trained on 2 of the 12 people (by name) of photos.npz, so with new people both errors"
        model = load(out, "cpu", trust_code=True)
        assert model.promise().startswith(weak)
        first = notes_on_model(model, model.threshold(), False, aligned_faces((112, 112)), path, None)[0]
        assert first.startswith(f"T{weak[1:]}")
        assert str(model.threshold()).startswith(f"T{weak[1:]}")
        assert made.notes[0].startswith(weak)
        assert calibration_text(found).startswith(weak)
        assert card.split("\n\n")[1].startswith(f"**Checks that say little.** T{weak[1:]}")
        assert not model.threshold().warning()
        return
    warning = (
        "the model was trained on 2 of the 12 people (by name) calibrated on, so its threshold promises nothing about "
        "new people"
    )
    model = load(out, "cpu", trust_code=True)
    assert model.promise().startswith(f"{warning}; accept iff score > ")
    assert (
        notes_on_model(model, model.threshold(), False, aligned_faces((112, 112)), path, None)[0] == f"T{warning[1:]}."
    )
    assert str(model.threshold()).startswith(f"T{warning[1:]}. Same person: ")
    assert made.notes[0] == warning
    assert card.split("\n\n")[1].startswith("**Calibrated on people of the training.**")


@pytest.mark.usefixtures("no_conversion")
def test_the_card_says_first_that_the_strangers_of_a_gallery_were_trained_on(run: Path, sets: Path, tmp_path):
    strangers, gallery = (read_embeddings(sets / name) for name in (PHOTOS, NUMBERS))
    about = {"fpir": FAR, "guarantee": "expected", "accept_training_people": True}
    calibrate_arrays(strangers, gallery=gallery, **about).write_json(tmp_path / "gallery.json")
    promised, out = tmp_path / "gallery.json", tmp_path / "model"
    export_model(run, out, gallery_calibration=promised, template="own", trust_code=True, accept_training_people=True)
    first = (out / "model_card.md").read_text().split("\n\n")[1]
    assert first == (
        "**Calibrated on people of the training.** For a gallery the model was trained on 2 of the 12 people (by name),"
        " so it promises nothing about new people."
    )


@pytest.mark.usefixtures("no_conversion")
def test_the_card_does_not_say_of_all_files_what_holds_for_some(run: Path, sets: Path, tmp_path):
    known = read_embeddings(sets / NEW)
    write_embeddings(tmp_path / "plain.npz", replace(known, origin=None, in_training=None))
    evaluate_one_threshold([sets / RENAMED, tmp_path / "plain.npz"], Options([FAR])).write_json(tmp_path / "both.json")
    evaluate_all_pairs(sets / RENAMED, Options([FAR])).write_json(tmp_path / "one.json")
    evaluated = [tmp_path / "both.json", tmp_path / "one.json"]
    export_model(run, tmp_path / "model", evaluation=evaluated, template="own", trust_code=True)
    card = (tmp_path / "model" / "model_card.md").read_text()
    assert "; nothing names the model that made the scores of plain.npz: that it was this one is the exporter's" in card
    assert card.count("whose embeddings the exported weights made") == 1


@pytest.mark.usefixtures("no_conversion")
def test_the_card_names_both_of_two_files_of_one_name(run: Path, sets: Path, tmp_path):
    (tmp_path / "again").mkdir()
    evaluated = tmp_path / "again" / NEW
    evaluated.write_bytes((sets / PHOTOS).read_bytes())
    calibrate(sets / NEW, [FAR], "expected").write_json(tmp_path / "found.json")
    evaluate_all_pairs(evaluated, Options([FAR])).write_json(tmp_path / "figures.json")
    found, figures, out = tmp_path / "found.json", [tmp_path / "figures.json"], tmp_path / "model"
    export_model(run, out, calibration=found, evaluation=figures, template="own", trust_code=True)
    card = (out / "model_card.md").read_text()
    assert "- new.npz: none of the 36 images" in card
    assert "- new.npz: the model was trained on 2 of the 12 people" in card


@pytest.mark.usefixtures("no_conversion")
def test_a_model_folder_and_what_is_made_of_it_know_the_training(run: Path, tmp_path):
    export_model(run, tmp_path / "model", template="own", trust_code=True)
    model = open_model(tmp_path / "model", torch.device("cpu"), trust=True)
    rows = embed(model, faces(training_images(), OTHERS), "there")
    assert rows.shared_with_training.images == 36
    same = load(tmp_path / "model", "cpu", trust_code=True).extract(faces(training_images(), OTHERS), "there")
    assert same.shared_with_training == rows.shared_with_training
    with pytest.raises(ValueError, match="embeddings: the model was trained on 36 of the 36 images"):
        calibrate_arrays(rows, far=FAR, guarantee="expected")
    assert (
        calibrate_arrays(rows, far=FAR, guarantee="expected", accept_training_people=True).source.in_training.images
        == 36
    )
    assert calibrate_arrays(rows.embeddings, rows.identities, far=FAR, guarantee="expected").source.in_training is None


def test_what_a_file_states_is_read_back_pooled_and_streamed(sets: Path, tmp_path):
    rows = read_embeddings(sets / RENAMED)
    assert rows.in_training.digests.dtype == np.int64
    assert rows.shared_with_training.images == 6
    assert open_rows(sets / RENAMED).source.in_training.images == 6
    both = pool_embeddings([("a", rows), ("b", read_embeddings(sets / PHOTOS))])
    assert (both.shared_with_training.people, both.shared_with_training.images) == (2, 6)
    media = replace(rows, media=np.repeat(np.arange(12), 3).astype(str))
    assert templates_of(media).shared_with_training.images == 2  # templates that hold one


def test_a_file_of_an_earlier_version_says_that_images_were_not_compared(sets: Path, tmp_path, capsys):
    with np.load(sets / SAME) as archive:
        kept = ("embeddings", "names", "identities", "origin")
        np.savez(tmp_path / "old.npz", **{name: archive[name] for name in kept})
    note = "images could not be compared with those of the training: an earlier version made the embeddings"
    assert command("calibrate", tmp_path / "old.npz", *EXPECTED, tmp_path / "f.json") == 0
    assert note in capsys.readouterr().out
    assert evaluate_all_pairs(tmp_path / "old.npz", Options([FAR])).text().startswith(f"old.npz: {note}")


@pytest.mark.parametrize(
    "change",
    [
        {"trained_people": np.zeros(3, bool)},
        {"trained_images": np.zeros(36)},
        {"digests": np.zeros(36, np.int32)},
        {"trained_record": np.array("{}")},
        {"trained_record": np.array('{"named": 1, "gap": ""}')},
    ],
)
def test_arrays_that_no_embed_wrote_are_refused(sets: Path, tmp_path, change):
    with np.load(sets / NEW) as archive:
        np.savez(tmp_path / "odd.npz", **({name: archive[name] for name in archive.files} | change))
    for reading in (read_embeddings, open_rows):
        with pytest.raises(ValueError, match=r"odd.npz: its array.* what `verisphere embed` writes"):
            reading(tmp_path / "odd.npz")


def test_arrays_without_a_model_say_nothing(tmp_path):
    rows = Embeddings(np.random.default_rng(0).normal(size=(24, 4)), identities=np.arange(24) // 2)
    write_embeddings(tmp_path / "rows.npz", rows)
    result = evaluate_all_pairs(tmp_path / "rows.npz", Options([FAR]))
    assert result.sources[0].in_training is None
    assert result.text().startswith("| FAR target")
