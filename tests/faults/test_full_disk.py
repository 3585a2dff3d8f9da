"""A disk that is full: one line that names the file, exit code 2, nothing half-written, and the old file as it was."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.verbs import Act, listing, said
from small_disk import mounted

VERBS = {
    "embed": ("embed", "network.yaml", "faces", "--out", "{}/made.npz", "--workers", 0),
    "evaluate": ("evaluate", "all-pairs", "set.npz", "--json", "{}/made.json"),
    "scan of all pairs": ("evaluate", "all-pairs", "set.npz", "--state", "{}/made.state"),
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
    if out.suffix in (".npz", ".json") and "--state" not in words:
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
