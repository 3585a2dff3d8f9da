"""`make` sets its environment up once, again where its Python is gone, and says what is missing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LONG_AGO = 946_684_800  # a system's Python is older than any environment made from it

# Instead of a Python: says that it is new enough, makes environments that link to it, and logs installations.
FAKE = """#!/bin/sh
case "$1 $2" in
    "-c "*) exit "${TOO_OLD:-0}" ;;
    "-m venv") mkdir -p "$3/bin" && ln -s "$REAL" "$3/bin/python" && touch "$3/pyvenv.cfg" "$3/fresh" ;;
    "-m pip") echo installed >> "$REAL.log" ;;
esac
"""

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")


class Checkout:
    """A folder with the Makefile alone, and the Python that it is to use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name in ("Makefile", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, folder)
        self.environment = folder / ".venv"
        self.use(folder.parent / "python-1")

    def use(self, python: Path) -> None:
        self.python = python
        python.write_text(FAKE)
        python.chmod(0o755)
        os.utime(python, (LONG_AGO, LONG_AGO))

    def make(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Bring the environment up to date, or what the arguments say."""
        call = ["make", f"PYTHON={self.python.name}", ".venv/.core", *arguments]
        path = f"{self.python.parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "REAL": str(self.python), "MAKEFLAGS": "", **variables}
        return subprocess.run(call, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300)

    @property
    def installations(self) -> int:
        log = Path(f"{self.python}.log")
        return len(log.read_text().splitlines()) if log.exists() else 0


@pytest.fixture(params=["checkout", "a check out"])
def checkout(tmp_path: Path, request: pytest.FixtureRequest) -> Checkout:
    return Checkout(tmp_path / request.param)


def test_it_installs_once(checkout: Checkout):
    first = checkout.make()
    assert (first.returncode, first.stderr) == (0, "")
    assert checkout.make().returncode == 0
    assert checkout.installations == 1


@pytest.mark.parametrize("jobs", ["-j1", "-j4"])
def test_an_environment_whose_python_is_gone_is_set_up_anew(checkout: Checkout, jobs: str):
    checkout.make()
    (checkout.environment / "stale").touch()
    checkout.python.unlink()
    checkout.use(checkout.python.with_name("python-2"))
    assert checkout.make(jobs).returncode == 0
    assert checkout.installations == 1  # by the second Python
    assert not (checkout.environment / "stale").exists()
    checkout.make(jobs)
    assert checkout.installations == 1


def test_a_changed_list_of_requirements_is_installed_into_the_same_environment(checkout: Checkout):
    checkout.make()
    (checkout.environment / "kept").touch()
    os.utime(checkout.folder / "constraints.txt", (4_000_000_000, 4_000_000_000))
    checkout.make()
    assert checkout.installations == 2
    assert (checkout.environment / "kept").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("fuzz",), "-m fuzz --seed 16 --inputs 10000"),
        (("fuzz", "SEED=7", "INPUTS=50"), "-m fuzz --seed 7 --inputs 50"),
        (("faults",), "--full -m faults"),
    ],
)
def test_fuzz_and_faults_run_what_the_page_says(checkout: Checkout, words: tuple[str, ...], expected: str):
    told = checkout.make("--dry-run", *words)
    assert told.returncode == 0
    assert expected in told.stdout


def test_a_python_that_does_not_exist(checkout: Checkout):
    failed = checkout.make("PYTHON=nope")
    assert failed.returncode == 2
    assert failed.stderr.splitlines()[0].startswith("there is no program nope; name a Python by: make PYTHON=")
    assert "3.11 or newer" not in failed.stderr
    assert not checkout.environment.exists()


def test_a_python_that_is_too_old(checkout: Checkout):
    failed = checkout.make(TOO_OLD="1")
    assert failed.returncode == 2
    assert failed.stderr.startswith("verisphere needs Python 3.11 or newer")
    assert not checkout.environment.exists()


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
def test_a_release_is_not_made_beside_changes_that_are_not_committed(checkout: Checkout):
    own = ["git", "-c", "user.name=nobody", "-c", "user.email=nobody@localhost", "-C", str(checkout.folder)]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run([*own, *arguments], check=True, timeout=300)
    (checkout.folder / "further.txt").touch()
    done = checkout.make("dist")
    assert done.returncode == 2
    assert "made of the last commit, and there are changes after it; commit them first" in done.stderr
    assert not (checkout.folder / "dist").exists()
