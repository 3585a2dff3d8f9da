"""The suites of losses and heads find every fault of tests/mutations; each runs on a copy of the sources."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mutations.faults import FAULTS, ROOT, Fault, read_fault


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A folder with a copy of the sources, on which a fault does no harm."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def run_tests(files: list[str], sources: Path) -> subprocess.CompletedProcess[str]:
    """Run test files of this project on the sources in another folder, up to the first failure."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "--tb=line", "-p", "no:cacheprovider", *files]
    environment = {**os.environ, "PYTHONPATH": str(sources / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_patch_still_applies(fault: Fault, tmp_path: Path):
    path = tmp_path / fault.file
    path.parent.mkdir(parents=True)
    shutil.copy(ROOT / fault.file, path)
    fault.apply(tmp_path)
    assert path.read_text() != (ROOT / fault.file).read_text()
    compile(path.read_text(), path.name, "exec")
    for file in fault.found_by:
        assert (ROOT / file).is_file(), file
    with pytest.raises(ValueError, match=r"stand 0 times in .*, not once; renew it"):
        fault.apply(tmp_path)


def test_there_are_twenty_faults_in_losses_engines_and_collectives():
    assert len(FAULTS) >= 20
    assert {Path(fault.file).parent.name for fault in FAULTS} >= {"losses", "head", "verisphere"}


def test_a_patch_of_another_form_is_refused(tmp_path: Path):
    path = tmp_path / "other.patch"
    path.write_text("--- a/src/x.py\n+++ b/src/x.py\n@@\n-a\n+b\n")
    with pytest.raises(ValueError, match=r"^other\.patch: a patch starts with 'Fault: \.\.\.'"):
        read_fault(path)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_suites_pass_without_a_fault(copied: Path):
    """Otherwise they would fail whatever the fault."""
    done = run_tests(sorted({file for fault in FAULTS for file in fault.found_by}), copied)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_found(fault: Fault, copied: Path):
    fault.apply(copied)
    done = run_tests([*fault.found_by], copied)
    assert done.returncode == 1, f"{fault.why}: {', '.join(fault.found_by)} passed\n{done.stdout}{done.stderr}"
