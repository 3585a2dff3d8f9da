"""What is stated of a release agrees: its version, its changelog, the Pythons that it is for."""

import re
import tomllib
from pathlib import Path

import yaml

import verisphere

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert (citation["title"], citation["version"]) == ("verisphere", verisphere.__version__)
    assert citation["license"] == PROJECT["license"]
    assert len(citation["references"]) == 5  # the papers


def test_the_newest_entry_of_the_changelog_is_of_this_version():
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings == [verisphere.__version__, "0.2.0", "0.1.0"]


def test_the_supported_pythons_are_those_of_the_project():
    page = (ROOT / "docs" / "releasing.md").read_text()
    pythons = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert PROJECT["requires-python"] == f">={pythons[0]}"
    assert f"Python {pythons[0]} to {pythons[-1]}" in page
