"""Lists as text files, for the tests of their readers."""

from collections.abc import Callable
from pathlib import Path

import pytest


def write_list(folder: Path, text: str, name: str = "list.txt") -> Path:
    """A file of this text."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refuse_list(read: Callable[[Path], object], path: Path, message: str) -> None:
    """Assert that a reader refuses a file by one short line that begins with its path."""
    with pytest.raises(ValueError, match=message) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(path)) + 400
