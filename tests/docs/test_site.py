"""The site: every page has its place, nothing is taken from the network, and mkdocs builds it without a warning."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from building.hooks import faults_of, leaving_links_as_paths, on_page_content, on_page_markdown

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


def test_a_link_to_the_sources_becomes_a_path():
    page = "see [test_margin.py](../tests/losses/test_margin.py), [`lfw`](../src/verisphere/recipes/lfw.yaml#L3)"
    paths = "see `tests/losses/test_margin.py`, `lfw` (`src/verisphere/recipes/lfw.yaml`)"
    assert leaving_links_as_paths(page, "losses.md") == paths
    assert leaving_links_as_paths("[a](../../README.md)", "reference/losses.md") == "a (`README.md`)"


@pytest.mark.parametrize(
    "link",
    ["[a](losses.md#options)", "[a](#options)", "[a](https://arxiv.org/abs/1801.07698)", "[a](../losses.md)"],
)
def test_every_other_link_stays(link: str):
    assert leaving_links_as_paths(link, "reference/data.md") == link


def test_a_link_to_sources_that_are_not_there_is_a_warning(caplog: pytest.LogCaptureFixture):
    leaving_links_as_paths("[a](../src/verisphere/nothing.py)", "losses.md")
    assert caplog.messages == [
        "losses.md: the link ../src/verisphere/nothing.py leads to src/verisphere/nothing.py, which does not exist"
    ]


def test_a_list_that_the_site_would_not_indent_is_a_warning(caplog: pytest.LogCaptureFixture):
    page = SimpleNamespace(file=SimpleNamespace(src_uri="data.md"))
    text = "- a\n    - b\n- c\n  - d\n\n```\n  - e\n```\n"
    assert on_page_markdown(text, page) == text
    assert caplog.messages == ["data.md: indent the list inside a list by four spaces: - d"]


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=lambda path: str(path.relative_to(DOCS)))
def test_no_page_loses_a_list_or_a_link_on_the_site(path: Path, caplog: pytest.LogCaptureFixture):
    on_page_markdown(
        path.read_text(encoding="utf-8"), SimpleNamespace(file=SimpleNamespace(src_uri=str(path.relative_to(DOCS))))
    )
    assert caplog.messages == []


def test_names_in_tables_may_break():
    cell, outside = "<td><code>decide/point.py</code></td>", "<p><code>decide/point.py</code></p>"
    assert on_page_content(f"{cell}{outside}") == f"<td><code>decide/<wbr>point.<wbr>py</code></td>{outside}"


def test_links_of_a_page_beside_docs_lead_to_files_and_headings(tmp_path: Path):
    (tmp_path / "losses.html").write_text('<h2 id="options">')
    text = "[a](docs/losses.md#options) `[b](no)` [c](docs/losses.md#nothing) [d](nowhere.md) [e](https://example.org)"
    assert faults_of(text, tmp_path) == [
        "the link docs/losses.md#nothing leads to no heading of docs/losses.md",
        "the link nowhere.md leads to no file",
    ]


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
    index = json.loads((tmp_path / "site" / "search" / "search_index.json").read_text(encoding="utf-8"))
    entries = {entry["location"]: entry for entry in index["docs"]}
    assert "FAR" in entries["evaluation.html#the-threshold-at-a-far"]["title"]
    assert "guarantee" in entries["reference/commands.html#calibrate"]["text"]
    assert "radians" in entries["reference/api.html#verisphere.losses.ArcFace"]["text"]
    assert "genuine" in entries["reference/api.html#verisphere.decide.one_threshold.one_threshold"]["text"]
    assert "add_angular_margin" in entries["papers.html#arcface"]["text"]
