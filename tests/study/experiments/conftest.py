"""What the tests of experiments share: a tiny recipe and experiment, and the classes that they name."""

from pathlib import Path

import pytest

from tiny_experiments import EXPERIMENT, RECIPE


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    (tmp_path / "experiment.yaml").write_text(EXPERIMENT)
    return tmp_path
