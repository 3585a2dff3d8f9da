"""What 0.2 wrote, beside what 0.1 already wrote (test_made_before.py), is still read as it is.

`files_0_2/` was written by the commands of version 0.2.0 before its release and is never made anew. `model` is that of
`files/`, which embedded drawn faces: people.zip (`data render --people 10 --images 4 --seed 9 --difficulty easy`) and
strangers.zip (`--people 60 --images 2 --first-person 100`). Only the command line and readers of files are used here.

| file | made by |
|---|---|
| run/, resumed.jsonl | `train files/recipe.yaml`, without what the second of two epochs left; the metrics of both |
| people.npz, strangers.npz | `embed model` of either |
| gallery.json | `calibrate strangers.npz --gallery people.npz --fpir 0.1 --guarantee expected` |
| probability.json | `calibrate strangers.npz --far 0.3 --guarantee expected --probability` |
| both.json | `calibrate strangers.npz --far 0.3 --frr 0.4 --guarantee expected` |
| gate.json | `gate fit strangers.zip --model model --good 0.2` |
| bridge.json, carried.npz | `bridge` of made-up rows of 130 people; four of the old rows, and what it makes of them |
| purity.json | `purity` of 130 people: `--faces 10 --impurity 0.5` |
| clusters/ | `cluster people.npz --threshold 0.5` |
| shards/ | `embed model people.zip --shards 16` |
| door/ | `gallery create --strangers strangers.npz --fpir 0.1 --guarantee expected`, `gallery enrol people.npz` |
| scores.csv, watch.npz | 40 made-up lines; `monitor scores.csv --calibration both.json --state watch.npz` |
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from verisphere.cli import main
from verisphere.cli.renamed import RENAMED
from verisphere.files.bridge import read_bridge
from verisphere.files.gallery_calibration import read_thresholds
from verisphere.ship.monitor import Monitor

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "upgrading.md"

pytestmark = pytest.mark.usefixtures("process_as_it_was")

Call = Callable[..., str]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs a command in a copy of the files; returns standard output."""
    shutil.copytree(HERE / "files_0_2", tmp_path, dirs_exist_ok=True)
    shutil.copytree(HERE / "files" / "model", tmp_path / "model")
    monkeypatch.chdir(tmp_path)

    def run(line: str) -> str:
        capsys.readouterr()
        code = main(["--default-allocator", *line.split()])
        said = capsys.readouterr()
        assert code == 0, said.err
        return said.out

    return run


def losses(path: str) -> list[float]:
    return [json.loads(line)["loss"] for line in Path(path).read_text().splitlines()]


def test_a_run_goes_on_from_its_checkpoint(call: Call):
    call("train run/recipe.yaml --out run --resume --device cpu")
    found, expected = losses("run/metrics.jsonl"), losses("resumed.jsonl")
    assert len(found) == len(expected) == 6
    assert found[:4] == pytest.approx(expected[:4], rel=1e-3)  # later steps depend on the kind of processor
    assert "40 images" in call("data render faces.zip --people 10 --images 4 --seed 9 --difficulty easy")
    assert "40 images of 10 people, 4 numbers each" in call("embed run faces.zip --out rows.npz --device cpu")


@pytest.mark.parametrize("name", ["probability", "both"])
def test_a_calibration_of_two_photographs_gives_the_same_threshold(name: str, call: Call):
    option = {"probability": "--probability", "both": "--frr 0.4"}[name]
    call(f"calibrate strangers.npz --far 0.3 --guarantee expected {option} --out again.json")
    again, before = (json.loads(Path(file).read_text())["thresholds"][0] for file in ("again.json", f"{name}.json"))
    assert again["threshold"] == before["threshold"]
    assert again.get("frr") == before.get("frr")


def test_a_calibration_of_a_gallery_still_decides(call: Call):
    said = call("identify people.npz people.npz --model model --calibration gallery.json --each found.csv "
                "--accept-drawn-model --device cpu")  # fmt: skip
    assert "40 probes among 10 people" in said
    call("calibrate strangers.npz --gallery people.npz --again gallery.json --out again.json")
    again, before = (json.loads(Path(file).read_text())["thresholds"][0] for file in ("again.json", "gallery.json"))
    assert again["threshold"] == before["threshold"]


def test_a_living_gallery_is_opened_searched_and_changed(call: Call):
    assert "10 people" in call("gallery info door")
    assert "Found: the best score above 0.997093" in call("gallery info door")
    call("gallery remove door --name lookalike-p00003")
    assert "9 people" in call("gallery info door")


def test_a_gate_still_judges_faces(call: Call):
    call("data render faces.zip --people 4 --first-person 300 --images 2 --seed 9 --difficulty hard")
    said = call("gallery enrol door faces.zip --aligned --gate gate.json --model model --accept-alarms")
    assert "Enrolled 7 photographs" in said
    assert "(refused: its fine detail" in said


def test_a_bridge_carries_rows_as_it_did(call: Call):
    with np.load("carried.npz") as carried:
        np.testing.assert_allclose(read_bridge(Path("bridge.json")).apply(carried["old"]), carried["new"], rtol=1e-6)


def test_clusters_and_their_purity_are_read(call: Call):
    assert "10" in call("cluster people.npz --purity purity.json --out grouped")
    again = call("cluster people.npz --threshold 0.5 --before clusters --out again")
    assert Path("again/people.csv").read_text().count("\n") == Path("clusters/people.csv").read_text().count("\n")
    assert again


def test_shards_are_an_embeddings_file(call: Call):
    call("evaluate all-pairs shards --far 0.1 --json shards_now.json")
    call("evaluate all-pairs people.npz --far 0.1 --json file_now.json")
    shards, file = (json.loads(Path(f"{name}_now.json").read_text())["operating_points"] for name in ("shards", "file"))
    assert shards == file


def test_a_watch_goes_on_from_its_state(call: Call):
    with Path("scores.csv").open("a") as file:
        file.write("0.1,new,other\n")
    watch = "monitor scores.csv --calibration both.json --state watch.npz"
    assert "41 of 41 lines count" in call(watch)
    with pytest.raises(ValueError, match=r"the state of another watch: the watch: names was 'merge' and is 'exact'"):
        Monitor(read_thresholds(Path("both.json")), names="exact").follow(Path("scores.csv"), Path("watch.npz"))


def test_the_upgrade_notes_list_every_renamed_verb_and_option():
    page = PAGE.read_text(encoding="utf-8")
    assert [old for old in RENAMED if f"`{old}`" not in page] == []
