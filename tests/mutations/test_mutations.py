"""The tests find every fault of faults.yaml; each is put into a copy of the sources."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mutations.faults import FAULTS, ROOT, SOURCES, Fault, read_faults

#: Rooms that have a fault at least.
ROOMS = {
    *("losses", "head", "score", "exact", "decide", "files", "packs", "images", "models"),
    *("train", "measure", "search", "clean", "ship", "cli"),
}


def copied(to: Path, only: str = "") -> Path:
    """A folder with a copy of the sources, or of the modules of one name, on which a fault does no harm."""
    for path in (ROOT / SOURCES).rglob(f"{only}.py" if only else "*"):
        if path.is_file() and "__pycache__" not in path.parts:
            target = to / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    return to


def run_tests(tests: list[str], sources: Path) -> subprocess.CompletedProcess[str]:
    """Run tests of this project on the sources in another folder, up to the first failure."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "--tb=line", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(sources / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_still_applies_once(fault: Fault, tmp_path: Path):
    changed = fault.apply(copied(tmp_path, fault.module))
    assert changed.read_text() != (ROOT / changed.relative_to(tmp_path)).read_text()
    for test in fault.found_by:
        path, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}" in (ROOT / path).read_text(), test
    with pytest.raises(ValueError, match=r"stands \d times in .*, not once"):
        fault.apply(tmp_path)


def test_there_are_seventy_faults_in_every_room_that_computes():
    assert len(FAULTS) >= 70
    rooms = set()
    for fault in FAULTS:
        (path,) = {path for path, _ in fault.functions(ROOT)}
        rooms |= {path.parent.name, *path.relative_to(ROOT / SOURCES).parts}
    assert rooms >= ROOMS


def test_a_row_of_another_form_is_refused(tmp_path: Path):
    path = tmp_path / "other.yaml"
    path.write_text("one: {why: x, function: f.g, before: a, after: b}\n")
    with pytest.raises(ValueError, match=r"^other\.yaml: one: a fault has why, function, before, after, found_by, and"):
        read_faults(path)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_tests_pass_without_a_fault(tmp_path: Path):
    """Otherwise they would fail whatever the fault."""
    done = run_tests(sorted({test for fault in FAULTS for test in fault.found_by}), copied(tmp_path))
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_found(fault: Fault, tmp_path: Path):
    fault.apply(copied(tmp_path))
    done = run_tests([*fault.found_by], tmp_path)
    assert done.returncode == 1, f"{fault.why}: {', '.join(fault.found_by)} passed\n{done.stdout}{done.stderr}"
