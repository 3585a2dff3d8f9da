"""The verbs of a gallery that changes, on drawn faces and untrained networks: what they print and refuse."""

import json
import shutil
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from made_library import edited, table
from shard_writer import written as in_shards
from verisphere.base.identity import names_taken
from verisphere.base.trained_on import name_digest
from verisphere.base.vocabulary import Embeddings
from verisphere.cli.start import main
from verisphere.files.bridge import Bridge
from verisphere.files.calibration import Source
from verisphere.files.embeddings import read_embeddings, write_embeddings
from verisphere.models.build import build_backbone
from verisphere.models.checkpoint import save_checkpoint
from verisphere.models.folder import load
from verisphere.score import unit_rows
from verisphere.ship.calibrated_files import EmbeddingsSet
from verisphere.ship.calibration_check import Accepted
from verisphere.ship.living.gallery import LivingGallery
from verisphere.ship.living.migrate import migrate

DRAWN = ("--aligned", "--accept-drawn-model")
NETWORK = {
    "class_path": "verisphere.backbones.mobilefacenet.MobileFaceNet",
    "init_args": {"embedding_size": 16, "width": 0.1, "activation": "relu"},
}
RECIPE = """\
data: {class_path: verisphere.images.Photos, init_args: {path: faces.zip}}
backbone:
  class_path: verisphere.backbones.mobilefacenet.MobileFaceNet
  init_args: {embedding_size: 16, width: 0.1, activation: relu}
loss: {class_path: verisphere.losses.ArcFace, init_args: {margin: 0.3, scale: 32.0}}
"""
EXPECTED = ("--guarantee", "expected", "--accept-implausible")
ANYBODY = ("--accept-alarms",)  # an untrained network takes people for one another
ENROLLED = 10


def call(*arguments: object) -> int:
    return main(["--default-allocator", *map(str, arguments)])


@pytest.fixture
def says(capsys: pytest.CaptureFixture[str]):
    def run(*arguments: object) -> str:
        """Standard output of a call that works."""
        code = call(*arguments)
        output = capsys.readouterr()
        assert code == 0, output.err
        return output.out

    return run


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]):
    def run(*arguments: object) -> str:
        """The one line of a call that does not."""
        code = call(*arguments)
        output = capsys.readouterr()
        lines = [line for line in output.err.splitlines() if line.startswith("verisphere: ")]
        assert (code, output.out, len(lines)) == (2, "", 1), output.err
        return lines[0]

    return run


def model_of(folder: Path, seed: int) -> Path:
    """An untrained network as a run."""
    torch.manual_seed(seed)
    backbone = dict(build_backbone(NETWORK).state_dict())
    data = {"images": 72, "people": 24, "sha256": "0"}
    save_checkpoint(folder, 5, {"backbone": backbone}, {"backbone": NETWORK, "seed": 0, "data": data})
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "people.txt").write_text("nobody\n")
    (folder / "metrics.jsonl").write_text('{"step": 5, "epoch": 1.0, "loss": 3.0, "rate": 0.0}\n')
    exported = folder.with_name(f"{folder.name}-model")
    assert call("export", folder, "--out", exported, "--name", folder.name) == 0
    return exported


@pytest.fixture(scope="module")
def place(tmp_path_factory, shallow):
    """Two models, faces of people to enrol and of strangers, and the strangers' embeddings by each model."""
    place = tmp_path_factory.mktemp("living")
    assert call("data", "render", place / "faces.zip", "--people", 24, "--images", 3, "--difficulty", "easy") == 0
    with zipfile.ZipFile(place / "faces.zip") as archive:
        archive.extractall(place / "all")
    people = sorted(folder for folder in (place / "all").iterdir() if folder.is_dir())
    for number, folder in enumerate(people):
        shutil.copytree(folder, place / ("people" if number < ENROLLED else "strangers") / folder.name)
    for name in ("faces.yaml", "images.json"):
        if (place / "all" / name).exists():
            for folder in ("people", "strangers"):
                shutil.copy(place / "all" / name, place / folder / name)
    for seed, name in ((0, "old"), (1, "new")):
        model = model_of(place / name, seed)
        assert call("embed", model, place / "strangers", "--out", place / f"{name}.npz", "--workers", 0) == 0
    return place


@pytest.fixture
def door(place, tmp_path):
    """A gallery of all people, with their images."""
    folder = tmp_path / "door"
    assert call("gallery", "create", folder, "--strangers", place / "old.npz", "--fpir", "0.2", *EXPECTED) == 0
    assert (
        call("gallery", "enrol", folder, place / "people", "--aligned", "--keep-images", *ANYBODY, *model(place)) == 0
    )
    return folder


def model(place: Path, name: str = "old") -> tuple[object, ...]:
    return "--model", place / f"{name}-model"


def first_photo(place: Path) -> Path:
    return next((place / "people").rglob("*.png"), None) or next((place / "people").rglob("*.jpg"))


def test_a_person_is_enrolled_found_verified_and_removed(place, door, says, refused, monkeypatch):
    photo = first_photo(place)
    name = photo.parent.name
    found = json.loads(says("gallery", "identify", door, photo, *model(place), *DRAWN, "--json", "--top", 30))
    assert found["matches"][0]["name"] == name
    assert found["matches"][0]["score"] == pytest.approx(1)
    assert found["people"] == ENROLLED
    same = says("gallery", "verify", door, photo, "--person", name, *model(place), *DRAWN)
    assert f"This is {name}: score 1.0000" in same
    by_other_verb = json.loads(says("identify", photo, door, *model(place), *DRAWN, "--json", "--top", 30))
    assert by_other_verb["matches"] == found["matches"]
    assert name in says("gallery", "list", door)
    says("gallery", "remove", door, "--name", name)
    assert name not in says("gallery", "list", door)
    waits = "The files still hold traces of 3 removed photographs"
    assert waits in says("gallery", "info", door)
    monkeypatch.setattr("verisphere.files.gallery_store.sqlite._WAIT_S", 0.1)
    with LivingGallery(door).store.reading():
        assert "compact it again later" in refused("gallery", "compact", door)
        assert waits in says("gallery", "info", door)
    assert says("gallery", "compact", door).startswith("Compacted: ")
    assert "removed" not in says("gallery", "info", door)
    assert f"'{name}' is not enrolled" in refused(
        "gallery", "verify", door, photo, "--person", name, *model(place), *DRAWN
    )


def test_two_spellings_of_a_name_are_enrolled_as_the_refusal_advises(place, door, tmp_path, says, refused):
    rows = read_embeddings(place / "old.npz").take(np.arange(4))
    with names_taken("exact"):
        write_embeddings(tmp_path / "two.npz", replace(rows, identities=["Ann", "Ann", "ann", "Ben"], names_rule=None))
    two = dict(np.load(tmp_path / "two.npz"))
    np.savez(tmp_path / "two.npz", **{name: array for name, array in two.items() if name != "names_rule"})
    for spelled, photo in zip(("Cy", "cy"), (place / "people").rglob(f"*{first_photo(place).suffix}"), strict=False):
        (tmp_path / "faces" / spelled).mkdir(parents=True)
        shutil.copy(photo, tmp_path / "faces" / spelled)
    faces = (tmp_path / "faces", "--aligned", *model(place))
    for people in ((tmp_path / "two.npz",), faces):
        enrol = ("gallery", "enrol", door, *people, *ANYBODY)
        line = refused(*enrol)
        assert "are one name but for case" in line
        assert "--names merge takes such names as one person (" in line
        says(*enrol, "--names", "merge")
        with pytest.raises(SystemExit):
            call(*enrol, "--names", "exact")


@pytest.mark.parametrize("option", [("--aligned",), ("--detector", "mtcnn"), ("--min-face", "30")])
def test_rows_are_identified_without_looking_for_faces(place, door, tmp_path, refused, option):
    each = ("--each", tmp_path / "found.csv", "--model", place / "old-model", "--accept-drawn-model")
    line = refused("gallery", "identify", door, place / "old.npz", *each, *option)
    assert f"{option[0]} does nothing here: no photograph is given" in line


def test_each_probe_is_listed_as_by_a_folder_of_the_same_people(place, door, tmp_path, says):
    says("gallery", "identify", door, place / "people", *model(place), *DRAWN, "--each", tmp_path / "found.csv")
    lines = (tmp_path / "found.csv").read_text().splitlines()
    assert len(lines) == 1 + 3 * ENROLLED
    assert all(line.split(",")[3] == line.split("/")[0] for line in lines[1:])


def test_the_enrolment_of_one_person_repeats_and_says_so(place, door, tmp_path, says, refused):
    photo = next((place / "strangers").rglob(f"*{first_photo(place).suffix}"))
    enrol = ("gallery", "enrol", door, photo, "--person", "Guest", "--aligned", *ANYBODY, *model(place))
    assert "Enrolled 1 photograph; 1 person new to this gallery." in says(
        *enrol, "--consent", "form", "--expires", "2999-01-01"
    )
    assert "1 were enrolled before.\nFound: " in says(*enrol)
    nobody = ("gallery", "enrol", door, place / "strangers", "--person", "", "--aligned", *ANYBODY, *model(place))
    assert "identities are empty" in refused(*nobody)
    assert "Consent or expiry is another now for 1 person." in says(*enrol, "--expires", "2999-02-01")
    says("gallery", "list", door, "--json", tmp_path / "p.json")
    guest = next(one for one in json.loads((tmp_path / "p.json").read_text())["people"] if one["name"] == "Guest")
    assert (guest["photographs"], guest["consent"], guest["expires"]) == (1, "form", "2999-02-01")


def test_a_gate_skips_what_it_refuses_and_says_why(place, door, tmp_path, says, refused):
    gate = tmp_path / "gate.json"
    fit = ("gate", "fit", place / "strangers", "--measure", "brightness", "--good", "0.5", "--out", gate)
    says(*fit, *model(place))
    dark = tmp_path / "dark" / "Guest"
    dark.mkdir(parents=True)
    photo = first_photo(place)
    Image.fromarray(np.asarray(Image.open(photo).convert("RGB")) // 8).save(dark / "dark.png")
    Image.open(photo).convert("RGB").save(dark / "light.png")
    enrol = ("gallery", "enrol", door, dark.parent, "--aligned", "--gate", gate, *ANYBODY, *model(place))
    output = says(*enrol)
    assert "Skipped: Guest/dark.png (refused: its mean brightness is" in output
    assert "this gallery asks for at least" in output
    document = json.loads(gate.read_text())
    document["origin"]["model"] = "0" * 64
    gate.write_text(json.dumps(document))
    assert "fit a gate for this model" in refused(*enrol)


def test_what_does_not_fit_is_refused(place, door, tmp_path, refused):
    photo = first_photo(place)
    assert "old-model" not in refused("gallery", "enrol", door, place / "people", "--aligned")
    line = refused("gallery", "enrol", door, place / "people", "--aligned", *model(place, "new"))
    assert "weights" in line
    line = refused("gallery", "identify", door, photo, *model(place, "new"), *DRAWN)
    assert "weights" in line
    assert "a living gallery has one threshold" in refused(
        "identify", photo, door, *model(place), *DRAWN, "--fpir", "0.1"
    )
    before = LivingGallery(door).info()
    there = refused("gallery", "create", door, "--strangers", place / "old.npz", "--fpir", "0.2", *EXPECTED)
    assert "door: a folder that is not empty; it is never overwritten" in there
    assert LivingGallery(door).info() == before
    assert "name the FPIR" in refused("gallery", "create", tmp_path / "b", "--strangers", place / "old.npz")
    assert "needs 299 strangers" in refused(
        "gallery", "create", tmp_path / "b", "--strangers", place / "old.npz", "--fpir", "1e-2", "--accept-implausible"
    )
    assert not (tmp_path / "b").exists()
    assert "no date such as" in refused(
        "gallery", "enrol", door, place / "people", "--aligned", *model(place), "--expires", "soon"
    )
    assert "2020-01-31 is not after today" in refused(
        "gallery", "enrol", door, place / "people", "--aligned", *model(place), "--expires", "2020-01-31"
    )
    assert "name the people to remove" in refused("gallery", "remove", door)
    assert "no gallery that" in refused("gallery", "info", place / "people")
    swapped = refused("gallery", "identify", photo, door, *model(place), *DRAWN)
    assert swapped.startswith(f"verisphere: {photo}: no gallery that")


def test_an_empty_gallery_says_what_weakens_its_promise(tmp_path, says):
    rows = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
    whose = {"names": np.arange(60).astype(str), "identities": np.repeat([f"p{number}" for number in range(20)], 3)}
    np.savez(tmp_path / "alike.npz", embeddings=np.ones_like(rows), **whose)
    np.savez(tmp_path / "sound.npz", embeddings=np.repeat(rows[:20], 3, axis=0) + rows / 4, **whose)
    for name, first in (("alike", "Scores cannot be right: "), ("sound", "Nothing ties the threshold to this model")):
        create = ("gallery", "create", tmp_path / name, "--strangers", tmp_path / f"{name}.npz", "--fpir", "0.2")
        assert says(*create, *EXPECTED).startswith(first)
        assert first in says("gallery", "info", tmp_path / name)


class Turned(Bridge):
    """A map that is only told apart from another by its numbers."""

    old = new = None

    def __init__(self, people: Sequence[str] = ()) -> None:
        vars(self)["fitted"] = tuple(map(name_digest, people))
        vars(self)["old_source"] = vars(self)["new_source"] = Source("faces.npz", "0" * 64, "embeddings", 1, 1)

    def apply(self, rows):
        return unit_rows(np.ascontiguousarray(rows[:, ::-1])).numpy()


def test_a_gallery_takes_another_model_from_its_images(place, door, says, refused):
    photo = first_photo(place)
    done = says(
        "gallery", "migrate", door, "--strangers", place / "new.npz", *model(place, "new"), "--accept-implausible"
    )
    assert f"{3 * ENROLLED} photographs embedded anew, 0 rows carried over" in done
    found = json.loads(says("gallery", "identify", door, photo, *model(place, "new"), *DRAWN, "--json"))
    assert found["matches"][0]["name"] == photo.parent.name
    assert found["matches"][0]["score"] == pytest.approx(1, abs=1e-6)
    assert "weights" in refused("gallery", "identify", door, photo, *model(place, "old"), *DRAWN)


def test_whoever_cannot_be_carried_over_is_named(place, tmp_path, says, capsys):
    folder = tmp_path / "door"
    says("gallery", "create", folder, "--strangers", place / "old.npz", "--fpir", "0.2", *EXPECTED)
    says("gallery", "enrol", folder, place / "people", "--aligned", *ANYBODY, *model(place))
    photo = first_photo(place)
    kept = (
        "gallery",
        "enrol",
        folder,
        photo,
        "--person",
        "Kept",
        "--aligned",
        "--keep-images",
        *ANYBODY,
        *model(place),
    )
    says(*kept)
    before = LivingGallery(folder).store.rows(np.arange(3 * ENROLLED))
    new = ("--strangers", place / "new.npz", *model(place, "new"), "--accept-implausible")
    lost = sorted(folder.name for folder in (place / "people").iterdir() if folder.is_dir())
    assert len(lost) == ENROLLED
    assert call("gallery", "migrate", folder, *new) == 2
    output = capsys.readouterr()
    assert output.out.splitlines() == ["Nothing of these people can be carried over:", *lost]
    assert "no image was kept of 30 photographs" in output.err
    assert f"10 people would be lost, such as '{lost[0]}'" in output.err
    network = load(place / "new-model")
    living = LivingGallery(folder)
    strangers = EmbeddingsSet.read(place / "new.npz")
    done = migrate(living, network, strangers, Turned(), accepted=Accepted(implausible=True))
    assert (done.embedded, done.carried, done.people_left) == (1, 30, ())
    assert np.array_equal(living.store.rows(np.arange(30)), Turned().apply(before))
    assert [file.name for file in folder.glob("rows-*")] == ["rows-2.f32"]  # and nothing by the old model
    assert living.threshold.people == ENROLLED + 1
    bridge = Turned(sorted(strangers.people)[:4])
    done = migrate(living, network, strangers, bridge, accepted=Accepted(implausible=True))
    assert living.info().strangers == len(strangers.people) - 4
    assert "\n4 people of this file fitted the bridge, and none of them is a stranger" in done.text()
    again = says("gallery", "strangers", folder, place / "new.npz", "--accept-implausible")
    assert again.startswith("4 people of this file fitted the bridge, and none of them is a stranger")
    assert living.info().strangers == len(strangers.people) - 4
    bridge = Turned(sorted(strangers.people)[4:-3])
    with pytest.raises(ValueError, match=r"needs 4 strangers.*; 11 people of this file fitted the bridge"):
        migrate(living, network, strangers, bridge, accepted=Accepted(implausible=True))
    gone = migrate(living, network, strangers, drop=True, accepted=Accepted(implausible=True))
    assert list(gone.people_left) == lost
    of_them = "No longer enrolled, as nothing of them could be carried over:"
    assert "\n".join([of_them, *lost, ""]) in gone.text()
    assert gone.dropped == 0
    assert [one.name for one in living.listing().people] == ["Kept"]


def test_rows_of_an_embeddings_file_are_enrolled(place, door, tmp_path, says, refused):
    rows = read_embeddings(place / "old.npz").take(np.arange(3))
    renamed = Embeddings(rows.embeddings, rows.names, ["Guest"] * 3, origin=rows.origin)
    write_embeddings(tmp_path / "guest.npz", renamed)
    assert "Enrolled 3 photographs; 1 person new" in says("gallery", "enrol", door, tmp_path / "guest.npz", *ANYBODY)
    other = replace(read_embeddings(place / "new.npz").take(np.arange(3)), identities=np.array(["Other"] * 3))
    write_embeddings(tmp_path / "other.npz", other)
    assert "weights" in refused("gallery", "enrol", door, tmp_path / "other.npz")
    for option in (("--person", "X"), ("--gate", tmp_path / "gate.json")):
        assert "embedded already" in refused("gallery", "enrol", door, tmp_path / "guest.npz", *option)


@pytest.mark.parametrize("library", ["library.npz", "library"])
def test_of_clusters_only_confirmed_faces_are_enrolled_or_those_of_a_cluster_that_is_named(
    place, door, tmp_path, says, refused, library
):
    faces, folder = tmp_path / library, tmp_path / "clusters"
    rows = read_embeddings(place / "old.npz").take(np.arange(9))
    (write_embeddings if faces.suffix else in_shards)(faces, rows)
    says("cluster", faces, "--threshold", "-0.99", "--out", folder)  # an untrained network: everybody is one cluster
    assert {row["person"] for row in table(folder / "people.csv").values()} == {"1"}
    enrol = ("gallery", "enrol", door, faces, *ANYBODY, "--clusters", folder)
    assert "people.csv: nobody is confirmed there" in refused(*enrol)
    names = rows.names.tolist()
    edited(
        folder, {names[0]: ("Ann", "yes"), names[1]: ("Ann", "yes"), names[2]: ("Ben", "yes"), names[3]: ("Ben", "")}
    )
    assert "Enrolled 3 photographs; 2 people new" in says(*enrol, "--consent", "asked")
    edited(folder, {names[4]: ("", "")})  # as an unsure face
    assert "Enrolled 4 photographs; 1 person new" in says(*enrol, "--cluster", "1", "--person", "Cleo")
    people = {person.name: person.photographs for person in LivingGallery(door).listing().people}
    assert {name: people[name] for name in ("Ann", "Ben", "Cleo")} == {"Ann": 2, "Ben": 1, "Cleo": 4}
    edited(folder, {names[3]: ("ann", "yes")})
    assert "'ann'" in refused(*enrol)  # one person, or two: --names decides
    edited(folder, {names[3]: ("Dan", ""), names[8]: ("Eve", "")})
    named = says(*enrol, "--cluster", "EVE", "--person", "Eve", "--names", "merge")
    assert "Enrolled 1 photograph; 1 person new" in named


def test_clusters_that_do_not_fit_an_enrolment_are_refused(place, door, tmp_path, says, refused):
    faces, folder = tmp_path / "library.npz", tmp_path / "clusters"
    rows = read_embeddings(place / "old.npz").take(np.arange(6))
    write_embeddings(faces, rows)
    says("cluster", faces, "--threshold", "-0.99", "--out", folder)
    enrol = ("gallery", "enrol", door)
    assert "write both, or neither" in refused(*enrol, faces, "--clusters", folder, "--cluster", "1")
    assert "write both, or neither" in refused(*enrol, faces, "--clusters", folder, "--person", "Ann")
    for number in ("7", ""):
        call = (*enrol, faces, "--clusters", folder, "--cluster", number, "--person", "Ann")
        assert f"people.csv: there is no cluster '{number}'" in refused(*call)
    write_embeddings(tmp_path / "fewer.npz", rows.take(np.arange(4)))
    call = (*enrol, tmp_path / "fewer.npz", "--clusters", folder, "--cluster", "1", "--person", "Ann")
    assert "clusters groups the faces of another file, library.npz; to carry over" in refused(*call)
    assert "--cluster does nothing here" in refused(*enrol, faces, "--cluster", "1")
    call = (*enrol, place / "people", "--model", place / "old-model", "--clusters", folder)
    assert "--clusters does nothing here: clusters are of the rows of an embeddings file" in refused(*call)


def test_clusters_that_were_edited_wrongly_enrol_nobody(place, door, tmp_path, says, refused):
    faces, folder = tmp_path / "library.npz", tmp_path / "clusters"
    rows = read_embeddings(place / "old.npz").take(np.arange(6))
    write_embeddings(faces, rows)
    says("cluster", faces, "--threshold", "-0.99", "--out", folder)
    people, document = (folder / "people.csv").read_text(), json.loads((folder / "clusters.json").read_text())
    edited(folder, {rows.names[0]: ("Ann", "yes")})
    confirmed = (folder / "people.csv").read_text()
    call = ("gallery", "enrol", door, faces, *ANYBODY, "--clusters", folder)
    (cluster,) = document["clusters"]
    faces_of = cluster["faces"]
    for change, said in (
        ({"clusters": [cluster | {"faces": faces_of + faces_of[:1]}]}, "is in it twice"),
        ({"clusters": [{"person": "1"}]}, "clusters[0].faces is missing"),
        ({"clusters": [cluster | {"faces": [{"name": "x"}]}]}, "clusters[0].faces[0].score is missing"),
        ({"format": 9}, "format 9, and this version reads format 1"),
        ({"source": document["source"] | {"sha256": "0" * 64}}, "groups the faces of another file"),
    ):
        (folder / "clusters.json").write_text(json.dumps(document | change))
        assert said in refused(*call)
    (folder / "clusters.json").write_text(json.dumps(document))
    lines = people.splitlines()
    for wrong, said in (
        (f"{confirmed}nobody,Ann,yes,,,,,,\n", "library.npz: it lacks 1 of 2 faces to enrol, as 'nobody'"),
        (f"{confirmed}{lines[1]}\n", "is already on line 2"),
        (confirmed.replace("confirmed", "sure", 1), "no column 'confirmed'"),
    ):
        (folder / "people.csv").write_text(wrong)
        assert said in refused(*call)
    assert [person.name for person in LivingGallery(door).listing().people if person.name == "Ann"] == []
    (folder / "people.csv").write_text(confirmed)
    assert "Enrolled 1 photograph; 1 person new" in says(*call)
    (folder / "clusters.json").unlink()
    assert "clusters.json: there is no such file" in refused(*call)


def test_the_alarm_stops_a_face_of_a_cluster_too(place, door, tmp_path, says):
    faces, folder = tmp_path / "library.npz", tmp_path / "clusters"
    write_embeddings(faces, read_embeddings(place / "old.npz").take(np.arange(3)))
    says("cluster", faces, "--threshold", "-0.99", "--out", folder)
    enrol = ("gallery", "enrol", door, faces, "--clusters", folder, "--cluster", "1", "--person")
    says(*enrol, "Ann", *ANYBODY)
    assert "Not enrolled: " in says(*enrol, "Ben")
