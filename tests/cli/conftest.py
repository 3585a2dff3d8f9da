"""What several tests of the command line share."""

import math

import pytest

from verisphere.cli import main
from verisphere.report import progress


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "QUIET_SECONDS", math.inf)  # nothing is said of work that is long on a busy machine

    def call(*arguments: object) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of one call."""
        try:
            # the allocator's settings would outlive the call
            code = main(["--default-allocator", *map(str, arguments)])
        except SystemExit as leaving:
            code = leaving.code
        output = capsys.readouterr()
        return code, output.out, output.err

    return call


@pytest.fixture
def says(run):
    def call(*arguments: object) -> str:
        """Standard output of a call that works, and leaves nothing on standard error."""
        code, out, err = run(*arguments)
        assert (code, err) == (0, "")
        return out

    return call


@pytest.fixture
def refused(run):
    def call(*arguments: object) -> str:
        """The one line that a wrong call leaves on standard error, and nothing else anywhere."""
        code, out, err = run(*arguments)
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert err.startswith("verisphere")
        assert err.endswith("\n")
        return err

    return call
