"""Files that the readers' tests write."""

from collections.abc import Callable
from pathlib import Path

import pytest

from list_files import write_list


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes a text, as `list.txt` unless named, and returns the path."""
    return lambda text, name="list.txt": write_list(tmp_path, text, name)
