"""requirements.lock: each dependency in the tested version with the digests of its files; and the bill made from it."""

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import sbom

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = ("detect", "export", "heif", "data", "clean", "tune")
PINS = {pin.name: pin for pin in sbom.read_lock(LOCK)}


def constraints() -> dict[str, str]:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}


def direct() -> list[Requirement]:
    extras = [requirement for extra in EXTRAS for requirement in PROJECT["optional-dependencies"][extra]]
    return [Requirement(text) for text in (*PROJECT["dependencies"], *extras)]


def test_it_names_packages_and_digests_alone():
    assert "://" not in LOCK
    assert not re.search(r"(^|\s)(/|file:|--(extra-)?index|--find-links)", LOCK)
    assert all(pin.digests for pin in PINS.values())
    assert len(PINS) == LOCK.count("==") - sum(pin.marker.count("==") for pin in PINS.values() if pin.marker)


def test_it_has_every_dependency_in_the_tested_version():
    tested = constraints()
    for requirement in direct():
        pin = PINS[canonicalize_name(requirement.name)]
        assert pin.version in requirement.specifier
        assert "verisphere" in pin.needed_by
    assert {name: pin.version for name, pin in PINS.items() if name in tested} == {
        name: version for name, version in tested.items() if name in PINS
    }
    beyond = {name for name in PINS if name not in tested}
    assert all(name.startswith(("cuda-", "nvidia-")) or name in ("colorama", "setuptools", "triton") for name in beyond)


def test_what_a_dependency_needs_here_is_in_it_too():
    """The lock is closed under the requirements of what is installed."""
    for name in PINS.keys() & constraints().keys():
        for text in distribution(name).requires or []:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                assert canonicalize_name(requirement.name) in PINS, f"{name} needs {text}"


@pytest.mark.parametrize("line", ["numpy>=2", "numpy==2.0", "    --hash=md5:00", "-r other.txt"])
def test_a_line_that_is_no_pin_is_named(line: str):
    with pytest.raises(ValueError, match=re.escape(f"line 3 is {line!r}")):
        sbom.read_lock(f"tqdm==4.70.1 \\\n    --hash=sha256:{'0' * 64}\n{line}\n")


def test_the_bill_has_every_package_and_who_needs_it(tmp_path: Path):
    call = [sys.executable, str(ROOT / "release" / "sbom.py"), "7.8.9", "86400"]
    for out in ("a.json", "b.json"):
        subprocess.run([*call, str(tmp_path / out)], cwd=ROOT, check=True, timeout=60)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    bill = json.loads((tmp_path / "a.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["timestamp"] == "1970-01-02T00:00:00+00:00"
    assert [(part["name"], part["version"]) for part in bill["components"]] == [
        (pin.name, pin.version) for pin in PINS.values()
    ]
    graph = {entry["ref"]: entry["dependsOn"] for entry in bill["dependencies"]}
    assert graph.keys() == {part["bom-ref"] for part in bill["components"]} | {"pkg:pypi/verisphere@7.8.9"}
    assert {url.partition("@")[0] for url in graph["pkg:pypi/verisphere@7.8.9"]} == {
        f"pkg:pypi/{canonicalize_name(requirement.name)}" for requirement in direct()
    }
    assert f"pkg:pypi/markdown-it-py@{PINS['markdown-it-py'].version}" in graph[PINS["rich"].url]
