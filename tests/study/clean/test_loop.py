"""The loop: train with sub-centers, clean, train with one center a class; what is finished stays."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

import verisphere.study.clean.loop as loop
import verisphere.study.clean.page as page
from processes import run as run_processes
from tiny_runs import OWN, RECIPE, files
from verisphere.base.identity import names_taken
from verisphere.base.words import Names
from verisphere.files.label_lists import read_labels
from verisphere.models.checkpoint import read_checkpoint
from verisphere.study.clean.cleaning import Cleaning
from verisphere.study.clean.loop import CleanOptions, _first_recipe, clean_loop
from verisphere.study.clean.rules import Rule
from verisphere.train.loop import TrainingStopped
from verisphere.train.recipe import read_recipe

#: Half of the images of a barely trained network lie beyond some angle; this one leaves enough of them to train on.
WORDS = ["--loss.init_args.scale=8", "--epochs=1"]


@pytest.fixture(autouse=True)
def _no_page(monkeypatch: pytest.MonkeyPatch):
    """Plots take seconds, and no test here looks at them."""
    monkeypatch.setattr(page, "write_page", lambda *_: None, raising=False)


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    return path


def options() -> CleanOptions:
    return CleanOptions(Rule(100.0, only_dominant=True), rank_1=True)


def stages(out: Path) -> dict[str, object]:
    """The bytes of everything that a loop leaves but its logs."""
    return {
        "first": files(out / "first"),
        "second": files(out / "second"),
        "kept": (out / "cleaned" / "kept.txt").read_bytes(),
        "json": (out / "cleaned" / "clean.json").read_bytes().replace(str(out).encode(), b""),
    }


def test_a_loop_and_its_second_start(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    out = tmp_path / "out"
    truth, batches = tmp_path / "truth.csv", []
    names = read_recipe(recipe, WORDS).recipe.data.names
    truth.write_text("name,identity,true_identity\n" + "".join(f"{name},x,nobody else\n" for name in names))

    def found(run, faces, **given):
        batches.append(given["batch_size"])
        return real(run, faces, **given)

    real = loop.found_in_run
    monkeypatch.setattr(loop, "found_in_run", found)
    asked = replace(options(), truth=truth, batch_size=7)
    cleaning = clean_loop(recipe, WORDS, out, asked, device="cpu")
    assert cleaning is not None
    assert cleaning.rank_1 is not None
    assert cleaning.agreement is not None
    assert (cleaning.agreement.noisy, cleaning.agreement.clean, batches) == (20, 0, [7])
    assert read_checkpoint(out / "first").tensors("head")["centers"].shape == (5, 3, 8)
    kept = read_labels(out / "cleaned" / "kept.txt")
    assert 6 <= len(kept.names) < 20
    second = read_recipe(out / "second" / "recipe.yaml", []).recipe
    assert (second.data.names, second.subcenters) == (kept.names, 1)
    centers = read_checkpoint(out / "second").tensors("head")["centers"]
    assert centers.shape == (len(set(kept.identities)), 1, 8)
    assert {entry.name for entry in out.iterdir()} == {"loop.json", "first", "cleaned", "second"}

    before = stages(out)
    assert clean_loop(recipe, WORDS, out, asked, device="cpu") is None
    assert stages(out) == before
    with pytest.raises(ValueError, match=r"another loop: recipe: epochs was 1.0 and is 2.0; rule: angle was .* 90.0;"):
        clean_loop(recipe, ["--epochs=2", WORDS[0]], out, replace(asked, rule=Rule(90.0, True)), device="cpu")
    with pytest.raises(
        ValueError, match=r"measured: truth was .* and is None; measured: rank_1 was True and is False; ch"
    ):
        clean_loop(recipe, WORDS, out, replace(asked, truth=None, rank_1=False), device="cpu")
    with monkeypatch.context() as merged:
        merged.setattr("verisphere.images.faces.Faces.names_rule", "merge")
        with pytest.raises(ValueError, match=r"another loop: .*names: it was None and is 'merge'"):
            clean_loop(recipe, WORDS, out, asked, device="cpu")
    (tmp_path / "filled").mkdir()
    (tmp_path / "filled" / "note").touch()
    with pytest.raises(ValueError, match=r"filled: it holds something, and no loop; choose another --out"):
        clean_loop(recipe, WORDS, tmp_path / "filled", options(), device="cpu")
    assert sorted(path.name for path in (tmp_path / "filled").iterdir()) == ["note"]


@pytest.mark.parametrize("rule", ["merge", "exact"])
def test_the_recipes_of_a_loop_state_how_names_are_taken(recipe: Path, tmp_path: Path, rule: Names):
    """So they can be trained again, and explained, without the option of the loop."""
    for place, person in enumerate(("Ann", "ann", "Ben", "Ben")):
        (tmp_path / "faces" / person).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (60 * place, 0, 0)).save(tmp_path / "faces" / person / f"{place}.png")
    words = ["--data=verisphere.images.Photos", f"--data.init_args.path={tmp_path / 'faces'}"]
    with pytest.raises(ValueError, match="are one name but for case"):
        _first_recipe(recipe, words)
    with names_taken(rule):
        first = _first_recipe(recipe, words)
        assert "names" not in _first_recipe(recipe, []).resolved["data"].get("init_args", {})  # it takes none
    assert first.resolved["data"]["init_args"]["names"] == rule
    (tmp_path / "again.yaml").write_text(first.yaml)
    assert len(read_recipe(tmp_path / "again.yaml", []).recipe.data.people) == (2 if rule == "merge" else 3)
    with names_taken(rule):
        stated = _first_recipe(recipe, [*words, "--data.init_args.names=merge"])
    assert stated.resolved["data"]["init_args"]["names"] == "merge"


def test_a_loop_that_is_stopped_in_each_stage_ends_the_same(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    clean_loop(recipe, WORDS, tmp_path / "whole", options(), device="cpu")
    out = tmp_path / "out"

    class Stop(Exception):
        pass

    def stopping(phase: str, after: int):
        def progress(items, description, total=None, done=0):
            for number, item in enumerate(items):
                if description == phase and number == after:
                    raise Stop
                yield item

        return progress

    def start(progress) -> Cleaning | None:
        return clean_loop(recipe, WORDS, out, options(), device="cpu", progress=progress)

    with pytest.raises(Stop):
        start(stopping("training", 1))
    assert not (out / "cleaned").exists()
    with pytest.raises(Stop):
        start(stopping("finding the nearest classes", 0))
    assert (out / "cleaned" / ".work").is_dir()
    with monkeypatch.context() as patch:
        real = loop.train_run

        def stopped(read, folder, **session):
            if folder.name == "second":
                raise TrainingStopped(2)
            return real(read, folder, **session)

        patch.setattr(loop, "train_run", stopped)
        with pytest.raises(TrainingStopped) as stop:
            start(stopping("", 0))
        assert stop.value.advice == "the same command continues"
    assert start(stopping("", 0)) is None
    assert stages(out) == stages(tmp_path / "whole")


def test_a_truth_that_cannot_be_used_is_refused_before_the_first_training(recipe: Path, tmp_path: Path):
    truth = tmp_path / "truth.csv"
    truth.write_text("name,identity,true_identity\nnobody/1.png,nobody,somebody\n")
    with pytest.raises(ValueError, match=r"truth.csv: 20 of 20 images are not in the list, the first is"):
        clean_loop(recipe, WORDS, tmp_path / "out", replace(options(), truth=truth), device="cpu")
    assert not (tmp_path / "out").exists()


def test_a_result_beside_work_files_is_not_finished(tmp_path: Path):
    (tmp_path / "kept.txt").touch()
    assert not loop._is_clean(tmp_path)
    (tmp_path / "clean.json").touch()
    assert loop._is_clean(tmp_path)
    (tmp_path / ".work").mkdir()  # the cleaning was ended before its folder was whole
    assert not loop._is_clean(tmp_path)


def test_the_number_of_sub_centers(recipe: Path):
    assert loop._first_recipe(recipe, []).recipe.subcenters == 3
    assert loop._first_recipe(recipe, ["--subcenters=5"]).recipe.subcenters == 5


def test_a_second_training_takes_the_backbone_alone_of_a_run_that_it_starts_from(recipe: Path, tmp_path: Path):
    read = loop._first_recipe(recipe, [f"--start={tmp_path}"])
    loop._write_second(read, tmp_path / "out")
    second = (tmp_path / "out" / "second" / "recipe.yaml").read_text()
    assert "start_head: false" in second
    assert "start_head: true" in read.yaml


def of_rank(folder: str) -> list:
    import sys

    sys.path.insert(0, str(OWN))
    vars(page)["write_page"] = lambda *_: None
    words = [*WORDS, "--backbone=own_parts.PlainNet", "--augment.erase=0"]
    clean_loop(Path(folder) / "recipe.yaml", words, Path(folder) / "out", options(), device="cpu")
    written = json.loads((Path(folder) / "out" / "cleaned" / "clean.json").read_text())
    return [
        len(read_labels(Path(folder) / "out" / "cleaned" / "kept.txt").names),
        written["rank_1"]["all"]["dominant_only"],
        read_checkpoint(Path(folder) / "out" / "second").step,
        sorted(os.listdir(Path(folder) / "out")),
    ]


def test_two_ranks_make_the_same_loop(recipe: Path, tmp_path: Path):
    both = run_processes(of_rank, 2, str(tmp_path))
    assert both[0] == both[1]
    assert both[0][2] >= 1
