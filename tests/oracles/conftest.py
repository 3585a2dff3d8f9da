"""Thousands of cases in seconds: signatures are left unchecked in this folder."""

from collections.abc import Iterator

import jaxtyping
import pytest


@pytest.fixture(scope="module", autouse=True)
def unchecked() -> Iterator[None]:
    """Checking every call would be most of the time; the tests of `tests/decide` check the same signatures."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)
