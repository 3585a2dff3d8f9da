"""Lists of template pairs: the quick way and line by line read alike, and every mistake is named by its line."""

import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from verisphere.files.ijb import pairs as module
from verisphere.files.ijb.pairs import read_template_pairs

META = Path("meta.txt")
TEMPLATES = np.array([3, 5, 40, 17000, 187955])
LARGE = np.array([3, 5, 40, 17000, 10**17])


@pytest.fixture(params=[1 << 19, 13])
def portions(request, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole file at once, or lines cut anywhere."""
    monkeypatch.setattr(module, "_BYTES_AT_ONCE", request.param)


@pytest.mark.usefixtures("portions")
@pytest.mark.parametrize(
    "text",
    [
        "3 187955 1\n5 3 0\n17000 40 0\n",
        "3 187955 1\n5 3 0\n17000 40 0",  # no line feed at the end
        "3 187955 1\r\n5 3 0\r\n17000 40 0\r\n",
        "\ufeff3\t187955\t1\n5  3 0\n17000 40 0\n\n \n",
        "03 187955 1\n5 3 0 \n 17000 40 0\n",
    ],
)
def test_pairs_are_positions_of_their_templates(write, text: str):
    read = read_template_pairs(write(text), TEMPLATES, META)
    assert (read.left.tolist(), read.right.tolist()) == ([0, 1, 3], [4, 0, 2])
    assert (read.genuine.tolist(), list(read.lines)) == ([True, False, False], [1, 2, 3])


@pytest.mark.parametrize("templates", [TEMPLATES, LARGE])
def test_many_pairs_in_portions_are_as_a_loop_reads_them(write, templates: np.ndarray, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_BYTES_AT_ONCE", 1000)
    random = np.random.default_rng(0)
    left, right = random.integers(0, 5, (2, 2000))
    genuine = random.random(2000) < 0.5
    lines = [f"{templates[a]} {templates[b]} {int(c)}\n" for a, b, c in zip(left, right, genuine, strict=True)]
    lines[1234] = lines[1234].replace(" ", "  ")  # one portion goes line by line
    read = read_template_pairs(write("".join(lines)), templates, META)
    assert np.array_equal(read.left, left)
    assert np.array_equal(read.right, right)
    assert np.array_equal(read.genuine, genuine)


def test_published_lines_never_go_line_by_line(write, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(module, "_line_by_line")
    assert len(read_template_pairs(write("3 5 1\n" * 70_000), TEMPLATES, META)) == 70_000


@pytest.mark.usefixtures("portions")
@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("3 6 1", "line 3: template 6 is not in meta.txt"),
        ("187956 3 1", "line 3: template 187956 is not in meta.txt"),
        ("3 999999999999999999 0", "line 3: template 999999999999999999 is not in meta.txt"),
        ("3 5 2", "line 3: '3 5 2'; a line is `template template label`"),
        ("3 5 10", "line 3: '3 5 10'"),
        ("3 5", "line 3: '3 5'"),
        ("3 5 1 1", "line 3: '3 5 1 1'"),
        ("3 -5 1", "line 3: '3 -5 1'"),
        ("3,5,1", "line 3: '3,5,1'"),
        ("a 5 1", "line 3: 'a 5 1'"),
        ("3 5 \u0661", "line 3: '3 5 \u0661'"),
        ("3 1234567890123456789 1", "line 3: '3 1234567890123456789 1'"),
        ("3 5\n1 3 5 1", "line 3: '3 5'"),
        ("", "a blank line after line 2, before other lines"),
    ],
)
def test_a_mistake_is_named_by_its_line(write, line: str, says: str):
    path = write(f"3 5 1\n5 3 0\n{line}\n40 3 0\n")
    with pytest.raises(ValueError, match=re.escape(f"{path}: {says}")):
        read_template_pairs(path, TEMPLATES, META)


def test_a_list_without_pairs_or_line_feeds(write):
    for text in ("", "\n\n"):
        with pytest.raises(ValueError, match=r"list\.txt: it lists no pair"):
            read_template_pairs(write(text), TEMPLATES, META)
    with pytest.raises(ValueError, match="line 1: longer than 1,048,576 bytes"):
        read_template_pairs(write("3" * (3 << 19)), TEMPLATES, META)
    with pytest.raises(FileNotFoundError, match=r"none\.txt"):
        read_template_pairs(Path("none.txt"), TEMPLATES, META)


def test_a_list_without_line_ends_is_refused_by_its_line_and_not_held(write):
    path = write("3 5 0\n" + "3 5 0 " * 4_000_000)
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"list\.txt: line 2: longer than 1,048,576 bytes; is it a list at all\?"):
        read_template_pairs(path, TEMPLATES, META)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 12_000_000  # 3.2 MB; the file is 24 MB
