"""A disk that is full: one line that names the file, exit code 2, nothing half-written, and the old file as it was."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.verbs import Act, listing, said
from small_disk import enlarged, mounted

VERBS = {
    "embed": ("embed", "network.yaml", "faces", "--out", "{}/made.npz", "--workers", 0),
    "evaluate": ("evaluate", "all-pairs", "set.npz", "--json", "{}/made.json"),
    "calibrate": ("calibrate", "set.npz", "--far", "0.2", "--out", "{}/made.json", "--guarantee", "expected"),
    "render": ("data", "render", "{}/made.zip", "--people", 3, "--images", 2),
    "adopt": (
        "adopt",
        "net.onnx",
        "--colour",
        "RGB",
        "--mean",
        0,
        "--scale",
        1,
        "--template",
        "own",
        "--out",
        "{}/made",
    ),
    "convert to an archive": ("data", "convert", "faces", "{}/made.zip"),
    "convert to a folder": ("data", "convert", "faces", "{}/made"),
    "report": ("report", "set.npz", "--out", "{}/made"),
    "train": ("train", "recipe.yaml", "--out", "{}/made"),
}
ROOM = 600  # bytes: less than any of these files has


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_a_file_that_may_not_grow(verb: str, act: Act, world: Path):
    """By the largest size that a process may give a file: what a quota does, and any user can ask for."""
    (world / "out").mkdir()
    refused(act, [str(word).format("out") for word in VERBS[verb]], world / "out", disk=ROOM)


@pytest.fixture
def small_disk(world: Path) -> Iterator[Path]:
    """A disk of 16 kB that is nearly full."""
    with mounted(world / "disk", 16) as place:
        (place / "filler").write_bytes(bytes(12_000))
        yield place


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_a_disk_without_room(verb: str, act: Act, small_disk: Path):
    refused(act, [str(word).format(small_disk) for word in VERBS[verb]], small_disk)


def refused(act: Act, words: list[str], place: Path, **happens: int) -> None:
    """The verb is refused in one line that names its file, and the place is as it was."""
    (out,) = (Path(word) for word in words if "made" in word)
    if out.suffix in (".npz", ".json"):
        (place / out.name).write_text("old")
    before = listing(place)
    done = act(*words, **happens)
    assert done.returncode == 2, done.stderr
    (line,) = said(done)
    assert "made" in line
    assert any(reason in line for reason in ("No space left on device", "File too large")), line
    after = listing(place)
    if words[0] == "train":  # a run keeps what was whole before: its recipe and the lines of its log
        assert not [name for name in after if name.startswith("made/checkpoints/step-")]
    else:
        assert after == before


WORK = ("evaluate", "identification", "set.npz", "--closed-set", "--json", "figures.json", "--work")


@pytest.mark.slow
def test_a_disk_that_fills_up_while_pieces_are_kept(act: Act, world: Path):
    """One line that names the piece; with more room, the same command continues."""
    assert act(*WORK[:-1]).returncode == 0
    expected = (world / "figures.json").read_bytes()
    (world / "figures.json").unlink()
    done = act(*WORK, "work", disk=ROOM)
    (line,) = said(done)
    assert done.returncode == 2
    assert "work/01-nearest-" in line
    assert "File too large" in line
    with mounted(world / "disk", 16) as place:
        (place / "filler").write_bytes(bytes(8000))
        done = act(*WORK, place / "work")
        (line,) = said(done)
        assert (done.returncode, "No space left on device" in line, str(place) in line) == (2, True, True)
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        done = act(*WORK, place / "other")
        (line,) = said(done)
        assert (done.returncode, line) == (2, f"verisphere: {place / 'other'}: Read-only file system")
        subprocess.run(["mount", "-o", "remount,rw", place], check=True)
        enlarged(place, 4096)
        assert not (world / "figures.json").exists()
        for folder in ("work", place / "work"):
            assert act(*WORK, folder).returncode == 0
            assert (world / "figures.json").read_bytes() == expected
