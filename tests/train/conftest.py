"""What the tests of trainings share: a tiny recipe, and the classes that it names."""

from pathlib import Path

import pytest

from tiny_runs import OWN, RECIPE


@pytest.fixture(autouse=True)
def _own_parts_can_be_imported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(OWN)


@pytest.fixture
def recipe(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The file's own RECIPE, or the tiny one."""
    path = tmp_path / "recipe.yaml"
    path.write_text(getattr(request.module, "RECIPE", RECIPE))
    return path
