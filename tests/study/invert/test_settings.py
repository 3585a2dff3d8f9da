"""The numbers of an inversion from a file."""

from pathlib import Path

import pytest

from verisphere.study.invert import Inversion
from verisphere.study.invert.inversion import read_settings


def test_the_packaged_ones():
    assert read_settings(Path("inversions/paper"), []) == Inversion()
    small = read_settings(Path("inversions/small"), [])
    assert small.steps <= 2000
    assert small.batch_size == 16
    assert read_settings(Path("inversions/small"), ["--steps=7", "--flip", "false"]).steps == 7


@pytest.mark.parametrize(
    ("content", "changes", "message"),
    [
        ("stepz: 3\n", [], "stepz"),
        ("steps: many\n", [], "steps"),
        ("steps: 0\n", [], "steps is 0"),
        ("[1]\n", [], "expected fields and their values"),
        ("steps: 3\n", ["--rate=-1"], "rate is -1.0"),
        ("decay: linear\n", [], "decay"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, content: str, changes: list[str], message: str):
    (tmp_path / "mine.yaml").write_text(content)
    with pytest.raises(ValueError, match=message):
        read_settings(tmp_path / "mine.yaml", changes)


def test_a_file_that_is_not_there():
    with pytest.raises(FileNotFoundError, match="inversions/smal"):
        read_settings(Path("inversions/smal"), [])
