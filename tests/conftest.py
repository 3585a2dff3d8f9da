"""What holds for the whole test run: shape checking, which tests are left out, and where the real data lies."""

import importlib
import logging
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import jaxtyping
import pytest
import torch
from jaxtyping import install_import_hook

from postgres_server import Server, running
from promised import named_tests

DATA = Path(os.environ.get("VERISPHERE_DATA", Path(__file__).parents[2] / "shared" / "data")).resolve()


_SIGNALS = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run slow tests, and CUDA tests where there is a device, too")


def pytest_configure(config: pytest.Config) -> None:
    """Check every annotated signature by beartype in a full run: it takes 40 % of the time of a run.

    And hear Ctrl-C: a test run in the background of a script is started deaf to it, which its processes would inherit.
    """
    if config.getoption("--full"):
        install_import_hook("verisphere", "beartype.beartype")
        os.environ["CHECK_SIGNATURES"] = "1"  # also in the ranks of processes.py
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    full, of_faults = config.getoption("--full"), named_tests()
    for item in items:
        if item.nodeid.partition("[")[0] in of_faults:
            item.add_marker(pytest.mark.faults)
        if "slow" in item.keywords and not full:
            item.add_marker(pytest.mark.skip(reason="slow: left out of `make test`, run by `make test-full`"))
        if "cuda" in item.keywords and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """The signals that `main` takes over are given back after each test: processes that a test forks inherit them."""
    for number, handler in _SIGNALS.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No types are checked: a full run would refuse a wrong argument first, in words of its own."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with LFW, ORL and their lists; tests that need it skip where it is absent."""
    if not (DATA / "lfw_112.zip").exists():
        pytest.skip("real faces are not at hand (set VERISPHERE_DATA to the folder with lfw_112.zip)")
    return DATA


@pytest.fixture(scope="module")
def made(request: pytest.FixtureRequest) -> ModuleType:
    """A module of benchmarks/, such as one that makes tables of a page: a parameter, or the `MADE_BY` of the file."""
    benchmarks = str(Path(__file__).parents[1] / "benchmarks")
    sys.path.insert(0, benchmarks)
    try:
        return importlib.import_module(getattr(request, "param", None) or request.module.MADE_BY)
    finally:
        sys.path.remove(benchmarks)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL server with pgvector."""
    with running() as made:
        yield made


@pytest.fixture(scope="module")
def shallow() -> Iterator[None]:
    """MobileFaceNet with 3 of its 15 bottlenecks: what is written of each layer, as ONNX, is written in a fifth."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("verisphere.backbones.mobilefacenet.BOTTLENECKS", ((2, 64, 1, 2), (2, 128, 1, 2), (2, 128, 1, 2)))
        yield


@pytest.fixture
def process_as_it_was() -> Iterator[None]:
    """`main` takes over SIGTERM, SIGHUP and the library's log, as a command may; a test run goes on after it."""
    logger = logging.getLogger("verisphere")
    handlers, level = logger.handlers[:], logger.level
    yield
    pytest_runtest_teardown()
    logger.handlers[:] = handlers
    logger.setLevel(level)


@pytest.fixture
def heard_hangup() -> Iterator[None]:
    """A lost terminal is heard, even where the test run itself was started deaf to it (nohup)."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
