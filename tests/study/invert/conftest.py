"""What the tests of inversion share."""

from pathlib import Path

import pytest

from tiny_inversion import make


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, its data, other people, and a judge."""
    folder = tmp_path_factory.mktemp("tiny")
    make(folder)
    return folder
