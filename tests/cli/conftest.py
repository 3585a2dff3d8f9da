"""What several tests of the command line share."""

import pytest

from verisphere.cli import main


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
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
def refused(run):
    def call(*arguments: object) -> str:
        """The one line that a wrong call leaves on standard error, and nothing else anywhere."""
        code, out, err = run(*arguments)
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert err.startswith("verisphere")
        assert err.endswith("\n")
        return err

    return call
