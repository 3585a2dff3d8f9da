"""Two images and a label a line, the label last or first."""

from pathlib import Path

import pytest

from list_files import refuse_list, write_list
from verisphere.files.pair_lists.layouts import read_pairs


@pytest.mark.parametrize(
    "text",
    [
        "00001.jpg 00002.jpg 1\n00003.jpg 00004.jpg -1\n",
        "00001.jpg 00002.jpg 1\r\n00003.jpg 00004.jpg 0",
        "00001.jpg\t00002.jpg\t1\n00003.jpg\t00004.jpg\t0\n",
        "1 00001.jpg 00002.jpg\n0 00003.jpg 00004.jpg",
        "-1 00003.jpg 00004.jpg\n1 00001.jpg 00002.jpg",
    ],
)
def test_a_label_last_or_first(tmp_path: Path, text: str):
    pairs = read_pairs(write_list(tmp_path, text))
    read = dict(zip(zip(pairs.left, pairs.right, strict=True), pairs.genuine, strict=True))
    assert read == {("00001.jpg", "00002.jpg"): True, ("00003.jpg", "00004.jpg"): False}
    assert (pairs.folds, pairs.lines) == (None, (1, 2))


def test_images_that_are_called_by_numbers(tmp_path: Path):
    pairs = read_pairs(write_list(tmp_path, "0 1 1\n2 3 0\n"))
    assert (pairs.left, pairs.right, pairs.genuine) == (("0", "2"), ("1", "3"), (True, False))


def test_names_with_spaces_between_tabs(tmp_path: Path):
    assert (
        read_pairs(write_list(tmp_path, "my face.jpg\tother.jpg\t1\nmy face.jpg\tb.jpg\t0\n")).left[0] == "my face.jpg"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.jpg b.jpg 1\nc.jpg d.jpg 2\n", "line 2: label '2'; allowed are 1"),
        ("a.jpg b.jpg 1\n" * 8 + "c.jpg d.jpg 2\n", "line 9: label '2'; allowed are 1 .genuine., and 0 or -1"),
        ("1 a.jpg b.jpg\n" * 8 + "same c.jpg d.jpg\n", "line 9: label 'same'; allowed are 1"),
        ("a.jpg b.jpg 1\n" * 8 + "c.jpg d.jpg\n", "line 9: 'c.jpg d.jpg' is not `a.jpg b.jpg 1`"),
        ("1 a.jpg b.jpg\n" * 8 + "1 a.jpg b.jpg c.jpg\n", "line 9: .* is not `1 a.jpg b.jpg`"),
        ("a b 1\nc d 0\ne f 1\ng h -1\n", "line 4: label -1 for an impostor pair, but others have 0"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str, message: str):
    refuse_list(read_pairs, write_list(tmp_path, text), message)


def test_a_list_of_ten_folds_that_lacks_a_line(tmp_path: Path):
    """Ten times two genuine and two impostor pairs; without line 7, an impostor pair of the second fold."""
    rows = [f"a{pair}.jpg b{pair}.jpg {int(pair % 4 < 2)}\n" for pair in range(40)]
    assert read_pairs(write_list(tmp_path, "".join(rows))).folds is None
    with pytest.raises(ValueError, match=r"line 7: ends 1 impostor pairs in a row, but each fold .* here 2"):
        read_pairs(write_list(tmp_path, "".join(rows[:6] + rows[7:])))
