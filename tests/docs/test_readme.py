"""README.md, docs/adopt.md, docs/data.md: the first Python example runs, and every command that they show parses."""

import csv
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from verisphere.cli.start import parser
from verisphere.ship.calibrate import read_calibration

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs" / name for name in ("adopt.md", "cleaning.md", "data.md"))]

_FROM_INDEX = re.compile(r"pip install [^\n`]*\bverisphere(?:\[|['\"` ]|$)", re.MULTILINE)


def blocks(page: Path, language: str) -> list[str]:
    """The blocks of code of one language; those of commands have none."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [block for of_block, block in found if of_block == language]


def test_the_vectors_of_any_model_get_a_promised_threshold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    people = np.arange(1200) // 2
    np.save("vectors.npy", np.random.default_rng(0).normal(size=(600, 16))[people] + 0.1)
    with Path("images.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["image", "person"], *([f"{row}.jpg", f"p{row // 2}"] for row in range(1200))])
    exec(next(block for block in blocks(PAGES[0], "python") if "vectors.npy" in block), {})
    promise = read_calibration(Path("calibration.json")).thresholds[0]
    assert (promise.guarantee, promise.people, promise.confidence) == ("confident", 600, 0.95)
    said = capsys.readouterr().out
    assert f"Same person: score above {promise.threshold:.6g}. We are 95 % confident" in said
    assert "TAR 1.0000 (600 of 600 genuine" in said


def commands(page: Path) -> list[str]:
    """The lines `verisphere ...` of a page, without the remarks beside them."""
    lines = "\n".join(blocks(page, "")).replace("\\\n", " ").splitlines()
    return [line.partition(" #")[0] for line in lines if line.startswith("verisphere ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_is_shown_parses(page: Path):
    whole = parser()
    shown = commands(page)
    assert len(shown) > 5
    for line in shown:
        options, further = whole.parse_known_args(shlex.split(line)[1:])
        assert callable(options.verb), line
        assert options.any_field or not further, line


def test_the_ten_lines_run_as_they_stand(capsys: pytest.CaptureFixture[str]):
    block = blocks(PAGES[0], "python")[0]
    assert len(block.splitlines()) <= 11
    exec(block, {})
    said = capsys.readouterr().out.splitlines()
    remarks = re.findall(r"^print\(.*\)  # (.*) \.\.\.$", block, re.MULTILINE)
    assert len(said) == len(remarks) == 2
    for line, beginning in zip(said, remarks, strict=True):
        assert line.startswith(beginning)


def test_one_picture_and_the_install_line_come_before_any_table():
    text = PAGES[0].read_text(encoding="utf-8")
    before = text[: text.index("\n|")]
    assert before.count("![") == 1
    assert "pip install" in before
    assert "```python" in before


def test_no_page_or_message_installs_the_package_from_an_index():
    files = [
        *(ROOT / "src").rglob("*.py"),
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
    ]
    assert not [
        (path.name, match[0]) for path in files for match in _FROM_INDEX.finditer(path.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize(
    "line", ["pip install verisphere", "pip install 'verisphere[detect]'", "pip install -U verisphere "]
)
def test_an_installation_from_an_index_would_be_found(line: str):
    assert _FROM_INDEX.search(line)


def test_the_readme_counts_no_tests():
    assert not re.search(r"\b\d[\d,]* tests\b", PAGES[0].read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "index.md"], ids=["README", "site"])
def test_the_first_page_has_at_most_120_lines(page: Path):
    assert len(page.read_text(encoding="utf-8").splitlines()) <= 120


def test_the_table_of_planted_faults_is_that_of_the_study():
    text = (ROOT / "docs" / "why.md").read_text(encoding="utf-8")
    with (ROOT / "studies" / "why" / "results.csv").open(newline="", encoding="utf-8") as file:
        planted = [row for row in csv.DictReader(file) if row["kind"] == "planted"]
    for row in planted:
        assert f"| {row['case']} | {row['named']} | {row['evidence']} | {row['core_seconds']} |\n" in text
    right = sum(row["right"] == "yes" for row in planted)
    assert f"{right} of {len(planted)} faults are named first" in text
    assert f"at most {max(float(row['core_seconds']) for row in planted):.0f} seconds of a core" in text
