"""A suite: its sets are found, each image is embedded once, and what fails is named while the others go on."""

import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from verisphere.base.identity import names_taken
from verisphere.base.vocabulary import Origin, Preprocessing
from verisphere.cli import main
from verisphere.decide import kfold_accuracy
from verisphere.files.embeddings import read_embeddings, write_embeddings
from verisphere.measure.suite.result import SuiteResult
from verisphere.measure.suite.run import run_suite
from verisphere.measure.suite.task import SuiteOptions
from verisphere.ship.adopt import adopt_onnx
from verisphere.ship.pixels import Told

CPU = torch.device("cpu")
FAR = SuiteOptions(("0.25",))


def run(folder: Path, model: Path | None, embeddings: Path | None = None, options: SuiteOptions = FAR) -> SuiteResult:
    return run_suite(folder, model, options, embeddings=embeddings, device=CPU)


def test_every_set_is_found_and_the_rest_is_named(folder: Path, model: Path):
    result = run(folder, model)
    assert list(result.sets) == ["lfw", "own", "races"]
    assert result.unknown == ("holiday",)
    assert "no known set: holiday" in result.text()
    assert not result.failed


def test_each_image_is_embedded_once(folder: Path, model: Path):
    """LFW's list names 8 images, one's own list 4 of these and 4 others, and there are 12 of the groups."""
    result = run(folder, model)
    assert (result.embedded, result.reused) == (8 + 4 + 12, 4)


def test_rows_of_equal_images_are_equal_and_named_as_the_list_names_them(folder: Path, model: Path, tmp_path: Path):
    run(folder, model, tmp_path / "kept")
    lfw, own = (read_embeddings(tmp_path / "kept" / f"{name}.npz") for name in ("lfw", "own"))
    assert str(own.names[0]) == "Ann_Able/Ann_Able_0001.jpg"  # the file is a PNG
    assert str(own.identities[0]) == "Ann_Able"
    row = lfw.names.tolist().index("Ann_Able/Ann_Able_0001.jpg")
    assert np.array_equal(lfw.embeddings[row], own.embeddings[0])


def test_figures_are_those_of_each_set_and_their_mean(folder: Path, model: Path, tmp_path: Path):
    """LFW's accuracy is worked out from the rows; the mean is over the two sets that have an accuracy."""
    result = run(folder, model, tmp_path / "kept")
    rows = read_embeddings(tmp_path / "kept" / "lfw.npz")
    unit = dict(
        zip(rows.names.tolist(), rows.embeddings / np.linalg.norm(rows.embeddings, axis=1)[:, None], strict=True)
    )
    pairs = [
        (f"{a}/{a}_000{i}.jpg", f"{b}/{b}_000{j}.jpg")
        for one, two in (("Ann_Able", "Bo_Case"), ("Cy_Dunn", "Dee_East"))
        for a, i, b, j in ((one, 1, one, 2), (two, 1, two, 2), (one, 1, two, 1), (one, 2, two, 2))
    ]
    score = np.array([float(unit[left] @ unit[right]) for left, right in pairs])
    by_hand = kfold_accuracy(score, np.array([True, True, False, False] * 2), np.repeat([0, 1], 4))
    figures = result.figures
    assert figures["lfw"]["accuracy"] == by_hand.mean
    accuracy, tar = result.over_sets
    assert (accuracy.figure, accuracy.sets) == ("accuracy", ("lfw", "own"))
    both = [figures["lfw"]["accuracy"], figures["own"]["accuracy"]]
    assert accuracy.mean == sum(both) / 2
    assert accuracy.std_population == pytest.approx(abs(both[0] - both[1]) / 2)
    assert (tar.figure, tar.sets) == ("TAR at FAR 0.25", ("lfw", "own", "races"))


def test_the_command_by_hand_gives_the_same_figures(folder: Path, model: Path, tmp_path: Path, process_as_it_was: None):
    result = run(folder, model, tmp_path / "kept")
    for name, one in result.sets.items():
        words = shlex.split(shlex.join(one.command))
        assert main([*words[1:], "--json", str(tmp_path / "by_hand.json")]) == 0
        by_hand = json.loads((tmp_path / "by_hand.json").read_text())
        assert by_hand["operating_points"][0]["tar"] == result.figures[name]["TAR at FAR 0.25"]


def test_a_set_that_lacks_an_image_is_named_and_the_others_go_on(folder: Path, model: Path):
    (folder / "lfw" / "images" / "Cy_Dunn" / "Cy_Dunn_0002.png").unlink()
    result = run(folder, model)
    assert result.failed == ("lfw",)
    assert "1 of 8 listed images are not there, the first 'Cy_Dunn/Cy_Dunn_0002.jpg'" in result.sets["lfw"].error
    assert set(result.figures) == {"own", "races"}
    assert f"not evaluated:\nlfw: {folder / 'lfw' / 'images'}" in result.text()
    assert result.fields()["not_evaluated"] == ("lfw",)


def test_a_wrong_list_is_named_with_its_line(folder: Path, model: Path):
    path = folder / "lfw" / "pairs.txt"
    path.write_text(path.read_text().replace("Cy_Dunn\t1\t2\n", "Cy_Dunn\t1\n"))
    assert "line 6" in run(folder, model).sets["lfw"].error


def test_an_image_that_is_none_is_named(folder: Path, model: Path):
    (folder / "lfw" / "images" / "Bo_Case" / "Bo_Case_0001.png").write_bytes(b"no image")
    result = run(folder, model)
    assert set(result.failed) == {"lfw", "own"}
    assert "Bo_Case_0001.png" in result.sets["own"].error


def test_embeddings_alone_need_no_image_and_no_model(folder: Path, model: Path, tmp_path: Path):
    with_model = run(folder, model, tmp_path / "kept")
    shutil.rmtree(folder / "lfw" / "images")
    without = run(folder, None, tmp_path / "kept")
    assert without.figures == with_model.figures
    assert without.embedded == 0


def test_a_set_without_its_embeddings_file_is_named(folder: Path, model: Path, tmp_path: Path):
    run(folder, model, tmp_path / "kept")
    (tmp_path / "kept" / "own.npz").unlink()
    result = run(folder, None, tmp_path / "kept")
    assert result.failed == ("own",)
    assert "own.npz" in result.sets["own"].error


def test_no_mean_over_embeddings_of_two_models(folder: Path, model: Path, tmp_path: Path):
    kept = tmp_path / "kept"
    run(folder, model, kept)
    for name, digest in (("lfw", "a" * 64), ("own", "b" * 64)):
        rows = read_embeddings(kept / f"{name}.npz")
        write_embeddings(kept / f"{name}.npz", replace(rows, origin=Origin(digest, False, "float32", name)))
    result = run(folder, None, kept)
    assert result.over_sets == ()
    assert "the embeddings of lfw and own were not made alike (weights " in result.text()
    assert set(result.figures) == {"lfw", "own", "races"}


@pytest.mark.parametrize(
    ("recorded", "words"),
    [
        (True, "own was made by an earlier version, which did"),
        (False, "own: nothing in it says how it was made, as lfw"),
    ],
)
def test_sets_that_cannot_be_compared_are_named(folder: Path, model: Path, tmp_path: Path, caplog, recorded, words):
    kept = tmp_path / "kept"
    run(folder, model, kept)
    pixels = Preprocessing((112, 112), "RGB", "NCHW", 127.5, 127.5)
    made = Origin("a" * 64, False, "float32", "faces", preprocessing=pixels)
    for name in ("lfw", "own", "races"):
        origin = made if name != "own" else replace(made, preprocessing=None) if recorded else None
        write_embeddings(kept / f"{name}.npz", replace(read_embeddings(kept / f"{name}.npz"), origin=origin))
    caplog.clear()
    run(folder, None, kept)
    assert words in caplog.text
    assert ".csv" not in caplog.text, "no model makes a list"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "flip", "known"), [("pretrained_mobilefacenet", False, 0.9923), ("second_mobilefacenet", True, 0.9862)]
)
def test_lfw_by_the_pretrained_models(real_data: Path, tmp_path: Path, model: str, flip: bool, known: float):
    """View 2 of LFW embedded here; the accuracies that docs/lab/adopted.md has of both models."""
    lfw = tmp_path / "suite" / "lfw"
    lfw.mkdir(parents=True)
    (lfw / "pairs.txt").symlink_to(real_data / "lfw_protocol" / "pairs.txt")
    (lfw / "lfw_112.zip").symlink_to(real_data / "lfw_112.zip")
    adopt_onnx(real_data / f"{model}.onnx", tmp_path / "model", Told(colour="RGB", mean=0.0, scale=1.0), flip=flip)
    figures = run(tmp_path / "suite", tmp_path / "model", None, SuiteOptions()).figures["lfw"]
    assert figures["accuracy"] == pytest.approx(known, abs=5e-4)


def test_the_embeddings_folder_may_lie_in_the_suite(folder: Path, model: Path):
    assert run(folder, model, folder / "embeddings").unknown == ("holiday",)
    assert run(folder, model, folder / "embeddings").unknown == ("holiday",)


def test_without_a_folder_for_them_embeddings_are_temporary(folder: Path, model: Path):
    before = sorted(path for path in folder.rglob("*"))
    text = run(folder, model).text()
    assert sorted(path for path in folder.rglob("*")) == before
    assert "--embeddings DIR keeps them" in text
    assert "EMBEDDINGS/lfw.npz" in text


def test_far_defaults_to_the_published_ones(folder: Path, model: Path):
    result = run(folder, model, options=SuiteOptions())
    points = result.sets["lfw"].result.fields()["operating_points"]
    assert [point.far_target for point in points] == ["1e-2", "1e-3"]
    assert "TAR at FAR 1e-2" not in result.figures["lfw"]  # four impostors cannot show it


def test_images_of_an_archive_beside_the_list(folder: Path, model: Path):
    whole = run(folder, model).figures
    shutil.make_archive(str(folder / "lfw" / "aligned"), "zip", folder / "lfw" / "images")
    shutil.rmtree(folder / "lfw" / "images")
    assert run(folder, model).figures == whole


def test_json_is_written_whole(folder: Path, model: Path, tmp_path: Path):
    run(folder, model).write_json(tmp_path / "suite.json")
    content = json.loads((tmp_path / "suite.json").read_text())
    assert content["sets"]["lfw"]["result"]["accuracy"]["folds"] == 2
    assert content["sets"]["races"]["result"]["one_threshold"][0]["domains"].keys() == {"East", "West"}
    assert [entry["figure"] for entry in content["over_sets"]] == ["accuracy", "TAR at FAR 0.25"]
    assert content["unknown"] == ["holiday"]
    assert content["sets"]["own"]["command"].startswith("verisphere evaluate pairs EMBEDDINGS/own.npz --pairs")


def test_a_folder_of_ones_own_images_is_no_person(folder: Path, model: Path):
    for number, path in enumerate(sorted((folder / "lfw" / "images").glob("*/*.png"))):
        (folder / "mine" / "images").mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / "mine" / "images" / f"{number}.png")
    rows = [f"images/{n}.png,images/{(n + 1) % 12}.png,{n % 2},{n // 6}\n" for n in range(12)]
    (folder / "mine" / "pairs.csv").write_text("left,right,label,fold\n" + "".join(rows))
    assert not run(folder, model).failed


def test_combined_needs_all_four_of_its_sets(folder: Path, model: Path):
    """Without AgeDB-30 there is no combined figure, and nothing has failed."""
    for name in ("calfw", "cplfw"):
        shutil.copytree(folder / "own", folder / name)
    assert list(run(folder, model).sets) == ["lfw", "calfw", "cplfw", "own", "races"]
    shutil.copytree(folder / "own", folder / "agedb")
    assert list(run(folder, model).sets)[-1] == "combined"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda folder: {"model": None}, "--model embeds the images, --embeddings DIR names files that are there"),
        (lambda folder: {"folder": folder / "holiday"}, "no known set in it; known are lfw, sllfw"),
        (lambda folder: {"folder": folder / "lfw"}, "it is itself the set lfw; name the folder above"),
        (lambda folder: {"folder": folder / "nowhere"}, "there is no such folder"),
        (lambda folder: {"model": None, "embeddings": folder / "nowhere"}, "no such folder of embeddings files"),
        (lambda folder: {"embeddings": folder / "lfw" / "pairs.txt"}, "a file; --embeddings names a folder"),
    ],
)
def test_a_call_that_cannot_work_is_refused_in_one_line(folder: Path, model: Path, change, says: str):
    arguments = {"folder": folder, "model": model, "embeddings": None} | change(folder)
    with pytest.raises((ValueError, OSError), match=says):
        run(**arguments)


@pytest.fixture
def family(folder: Path) -> Path:
    """The folder with lists called calfw and cplfw: of the four sets of 'combined' AgeDB-30 lacks."""
    for name in ("calfw", "cplfw"):
        shutil.copytree(folder / "own", folder / name)
    return folder


def test_combined_is_named_where_one_of_its_sets_could_not_be_evaluated(family: Path, model: Path):
    (family / "agedb_30.bin").write_bytes(b"no pack")
    result = run(family, model)
    assert result.failed == ("agedb_30", "combined")
    assert result.sets["combined"].error == "it consists of agedb_30 too, which could not be evaluated"


def test_a_missing_list_is_named_as_every_verb_names_it(folder: Path, model: Path):
    shutil.copytree(folder / "lfw" / "images", folder / "million" / "facescrub_images")
    (folder / "million" / "facescrub_lst").write_text("Ann_Able/Ann_Able_0001.png\n")
    result = run(folder, model)
    assert result.sets["megaface"].error == f"{folder / 'million' / 'megaface_lst'}: No such file or directory"


def test_a_set_whose_scores_cannot_be_is_named_first(folder: Path, model: Path, tmp_path: Path):
    run(folder, model, tmp_path / "kept")
    races = read_embeddings(tmp_path / "kept" / "races.npz")
    write_embeddings(tmp_path / "kept" / "races.npz", replace(races, embeddings=np.ones_like(races.embeddings)))
    result = run(folder, None, tmp_path / "kept")
    assert result.text().startswith("implausible: races: one vector stands in 12 of 12 rows, under 6 people\n")
    assert result.fields()["sets"]["races"]["result"]["implausible"]


def test_the_command_of_a_set_repeats_the_rule_of_names():
    with names_taken("exact"):
        assert FAR.words(["0.25"]) == ["--far", "0.25", "--names", "exact"]
    assert FAR.words(["0.25"]) == ["--far", "0.25"]
