"""Shape checking for the whole test run, and where the real data lies."""

import os
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

# Every annotated signature under verisphere is checked by beartype during tests; compiled element-wise functions live
# in modules that the hook leaves alone.
_hook = install_import_hook("verisphere", "beartype.beartype")

DATA = Path(os.environ.get("VERISPHERE_DATA", Path(__file__).parents[1] / ".." / "shared" / "data")).resolve()


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with LFW, ORL and their lists; tests that need it skip where it is absent."""
    if not (DATA / "lfw_112.zip").exists():
        pytest.skip("real faces are not at hand (set VERISPHERE_DATA to the folder with lfw_112.zip)")
    return DATA
