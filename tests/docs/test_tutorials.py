"""The tutorials: every command parses, every program compiles, and each page runs from top to bottom as it stands."""

import ast
import re
import shlex
from pathlib import Path

import pytest

from tutorials.blocks import blocks, commands
from tutorials.outputs import agreed
from tutorials.run import SETTINGS, PageError, run
from verisphere.cli.start import parser

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted((DOCS / "tutorials").glob("*.md"))
ASKED = {"own_photos", "your_model", "add_a_loss", "read_a_report", "many_processes"}


def test_the_five_are_there_and_readme_and_the_site_name_them():
    assert {page.stem for page in PAGES} - {"index"} == ASKED
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert not [name for name in ASKED if f"docs/tutorials/{name}.md" not in readme]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_program_compiles_and_every_command_parses(page):
    whole = parser()
    for block in blocks(page):
        if block.language == "python":
            ast.parse(block.text)
        for line in commands(block.text) if block.language in ("bash", "") else ():
            words = [word for word in shlex.split(line) if not re.match(r"\d?>", word)]
            options, further = whole.parse_known_args(words[: words.index(">")] if ">" in words else words)
            assert options.any_field or not [word for word in further if word.startswith("--")], line


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if page.stem in ASKED], ids=lambda page: page.stem)
def test_a_page_runs_as_it_stands(page, tmp_path, monkeypatch):
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    run(page, tmp_path)


def test_a_page_that_prints_something_else_is_found(tmp_path):
    page, folder = tmp_path / "page.md", tmp_path / "empty"
    folder.mkdir()
    page.write_text("```python\nprint('TAR', 0.5)\n```\n\n```output\nTAR 0.5\n```\n")
    assert run(page, folder) == page.read_text()
    for shown in ("TAR 0.9", "FAR 0.5", "TAR 0.5\nmore"):
        page.write_text(f"```python\nprint('TAR', 0.5)\n```\n\n```output\n{shown}\n```\n")
        with pytest.raises(PageError, match="the page shows"):
            run(page, folder)
    page.write_text("```bash\nfalse\n```\n")
    with pytest.raises(PageError, match=r"page\.md, line 1: exit code 1"):
        run(page, folder)


def test_a_page_without_blocks_stays_as_it_is(tmp_path):
    index = DOCS / "tutorials" / "index.md"
    assert run(index, tmp_path, renew=True) == index.read_text(encoding="utf-8")


def test_an_elision_stands_for_any_text():
    assert agreed(["a ... c", "...", "end"], ["a b c", "1", "2", "end"]) == ["a ... c", "...", "end"]
    assert agreed(["a ... c"], ["a b d"]) is None
