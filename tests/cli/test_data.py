"""`verisphere data`: what is printed and written, and the exit codes."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from measure.data.planting import archive, folder, image
from processes import forked
from verisphere.cli.data import WRITABLE
from verisphere.cli.start import main
from verisphere.images.packs.formats import FORMATS

pytestmark = pytest.mark.usefixtures("process_as_it_was")


def run(*words: object) -> int:
    return main(["--default-allocator", "data", *map(str, words)])


def test_info(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run("info", archive(tmp_path), "--json", tmp_path / "info.json") == 0
    assert "| identities                   |" in capsys.readouterr().out
    written = json.loads((tmp_path / "info.json").read_text())
    assert (written["format"], written["images"], written["identities"]) == ("zip", 6, 3)
    assert written["images_per_identity"]["maximum"] == 2


def test_verify_of_a_sound_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run("verify", archive(tmp_path)) == 0
    assert capsys.readouterr().out.endswith("0 faults, 0 notes\n")


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


def test_convert_there_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run("convert", archive(tmp_path), tmp_path / "out") == 0
    assert "6 images of 3 identities, zip to folder; read back" in capsys.readouterr().out
    assert run("convert", tmp_path / "out", tmp_path / "back.zip", "--min-images", "2") == 0
    assert run("convert", tmp_path / "out", tmp_path / "back.zip") == 2
    assert "back.zip: exists already, and is never overwritten" in capsys.readouterr().err


def test_statistics(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = archive(tmp_path)
    assert run("statistics", path, "--out", tmp_path / "figures", "--json", tmp_path / "s.json") == 0
    assert "| images per identity |" in capsys.readouterr().out
    assert sorted(file.name for file in (tmp_path / "figures").iterdir()) == ["statistics.json", "statistics.png"]
    assert json.loads((tmp_path / "s.json").read_text())["identities"] == 3


@pytest.mark.parametrize("verb", ["info", "verify", "statistics"])
def test_the_json_never_replaces_the_set(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = archive(tmp_path)
    before = path.read_bytes()
    assert run(verb, path, "--json", path) == 2
    assert "which is read here" in capsys.readouterr().err
    assert path.read_bytes() == before


@pytest.mark.parametrize("part", ["faces.rec.manifest.json", "faces.idx", "faces.lst"])
def test_the_json_never_replaces_a_file_that_belongs_to_the_set(
    part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run("convert", archive(tmp_path), tmp_path / "faces.rec")
    before = (tmp_path / part).read_bytes()
    assert run("info", tmp_path / "faces.rec", "--json", tmp_path / part) == 2
    assert f"{part}: it belongs to" in capsys.readouterr().err
    assert (tmp_path / part).read_bytes() == before
    assert run("info", tmp_path / "faces.rec", "--json", tmp_path / "faces.json") == 0


def test_the_json_never_replaces_an_image(tmp_path: Path):
    path = folder(tmp_path)
    before = (path / "Ann" / "1.png").read_bytes()
    assert run("info", path, "--json", path / "Ann" / "1.png") == 2
    assert (path / "Ann" / "1.png").read_bytes() == before


def test_the_help_names_every_format_that_can_be_written():
    assert {known.name for known in FORMATS if known.write is not None} <= set(re.findall(r"\w+", WRITABLE))
