"""What the tests of studies share: the classes that their recipes name."""

import pytest

from tiny_runs import OWN


@pytest.fixture(autouse=True)
def _own_parts_can_be_imported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(OWN)
