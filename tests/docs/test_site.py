"""The site: every page has its place, nothing is taken from the network, and mkdocs builds it without a warning."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


class _Loader(yaml.SafeLoader):
    """Takes the one tag that names a function of an extension as text."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: suffix)


def config() -> dict[str, Any]:
    return yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), _Loader)  # of this repository


def pages_of(entry: Any) -> list[str]:
    """The pages below an entry of the navigation."""
    if isinstance(entry, str):
        return [entry]
    inside = entry if isinstance(entry, list) else entry.values()
    return [page for one in inside for page in pages_of(one)]


def test_every_page_has_one_place_in_the_navigation():
    listed = pages_of(config()["nav"])
    assert sorted(listed) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def test_six_questions_are_answered_on_the_first_page():
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    questions = re.findall(r"^\*\*(.+?\?)\*\*", text, re.MULTILINE)
    assert len(questions) == 6
    for target in re.findall(r"\]\(([\w./]+?)(?:#[\w-]+)?\)", text):
        assert (DOCS / target).exists(), target


@pytest.mark.slow
def test_it_builds_without_a_warning_and_asks_no_other_host(tmp_path):
    pytest.importorskip("mkdocs", reason="mkdocs is not installed (make docs)")
    call = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(call, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 50
    loaded = re.compile(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"?(https?:)?//")
    for page in pages:
        assert not loaded.search(page.read_text(encoding="utf-8")), page.name
    index = (tmp_path / "site" / "search" / "search_index.json").read_text(encoding="utf-8")
    assert "threshold" in index
    assert "SphereFace2" in index
