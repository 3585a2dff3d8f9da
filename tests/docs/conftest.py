"""What tests of pages share: the module of benchmarks that makes the tables of a page."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def made(request: pytest.FixtureRequest) -> ModuleType:
    """The module that makes the tables: a parameter, or what the test's file names as `MADE_BY`."""
    benchmarks = str(Path(__file__).parents[2] / "benchmarks")
    sys.path.insert(0, benchmarks)
    try:
        return importlib.import_module(getattr(request, "param", None) or request.module.MADE_BY)
    finally:
        sys.path.remove(benchmarks)
