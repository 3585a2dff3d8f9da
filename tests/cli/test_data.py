"""`verisphere data`: what is printed and written, and the exit codes."""

import json
import re
import subprocess
from functools import partial
from pathlib import Path

import pytest

from measure.data.planting import archive, folder, image
from processes import forked
from verisphere.cli.data import WRITABLE
from verisphere.images.packs.formats import FORMATS

pytestmark = pytest.mark.usefixtures("process_as_it_was")


@pytest.fixture
def run(run):
    return partial(run, "data")


def test_info(tmp_path: Path, says):
    assert "| identities                   |" in says("info", archive(tmp_path), "--json", tmp_path / "info.json")
    written = json.loads((tmp_path / "info.json").read_text())
    assert (written["format"], written["images"], written["identities"]) == ("zip", 6, 3)
    assert written["images_per_identity"]["maximum"] == 2


def test_verify_of_a_sound_set(tmp_path: Path, says):
    assert says("verify", archive(tmp_path)).endswith("0 faults, 0 notes\n")


def test_verify_ends_with_2_where_there_is_a_fault(tmp_path: Path):
    path = folder(tmp_path)
    (path / "Ben" / "1.png").write_bytes(b"no image")
    (path / "D\x1b").mkdir()
    (path / "D\x1b" / "1.png").write_bytes(image(40))
    words = [*forked(), "data", "verify", path, "--json", tmp_path / "faults.json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (2, "")
    first, second, last = done.stdout.splitlines()
    assert r"D\x1b/1.png: the only image of the identity" in first
    assert second.startswith(
        f"fault: {path}/Ben/1.png: record Ben/1.png: not an image: the file's first bytes match no known format"
    )
    assert last.endswith("7 images of 4 identities, 2 faults, 0 notes")
    faults = json.loads((tmp_path / "faults.json").read_text())["faults"]
    assert [fault["record"] for fault in faults] == ["D\x1b/1.png", "Ben/1.png"]


def test_convert_there_and_back(tmp_path: Path, refused, says):
    assert "6 images of 3 identities, zip to folder; read back" in says("convert", archive(tmp_path), tmp_path / "out")
    says("convert", tmp_path / "out", tmp_path / "back.zip", "--min-images", "2")
    assert "back.zip: exists already, and is never overwritten" in refused(
        "convert", tmp_path / "out", tmp_path / "back.zip"
    )


def test_statistics(tmp_path: Path, says):
    path = archive(tmp_path)
    assert "| images per identity |" in says(
        "statistics", path, "--out", tmp_path / "figures", "--json", tmp_path / "s.json"
    )
    assert sorted(file.name for file in (tmp_path / "figures").iterdir()) == ["statistics.json", "statistics.png"]
    assert json.loads((tmp_path / "s.json").read_text())["identities"] == 3


@pytest.mark.parametrize("verb", ["info", "verify", "statistics"])
def test_the_json_never_replaces_the_set(verb: str, tmp_path: Path, refused):
    path = archive(tmp_path)
    before = path.read_bytes()
    assert "which is read here" in refused(verb, path, "--json", path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("part", ["faces.rec.manifest.json", "faces.idx", "faces.lst"])
def test_the_json_never_replaces_a_file_that_belongs_to_the_set(part: str, tmp_path: Path, refused, says, run):
    run("convert", archive(tmp_path), tmp_path / "faces.rec")
    before = (tmp_path / part).read_bytes()
    assert f"{part}: it belongs to" in refused("info", tmp_path / "faces.rec", "--json", tmp_path / part)
    assert (tmp_path / part).read_bytes() == before
    says("info", tmp_path / "faces.rec", "--json", tmp_path / "faces.json")


def test_the_json_never_replaces_an_image(tmp_path: Path, refused):
    path = folder(tmp_path)
    before = (path / "Ann" / "1.png").read_bytes()
    refused("info", path, "--json", path / "Ann" / "1.png")
    assert (path / "Ann" / "1.png").read_bytes() == before


def test_the_help_names_every_format_that_can_be_written():
    assert {known.name for known in FORMATS if known.write is not None} <= set(re.findall(r"\w+", WRITABLE))
