"""Columns of tables of text, against a plain loop over the same lines."""

from pathlib import Path

import pytest

from verisphere.images.packs import recordio_index
from verisphere.images.packs.recordio_index import NOT_WHOLE, blocks_of_lines

CELLS = {
    "0": 0,
    "7": 7,
    "007": 7,
    "123456789012345678": 123456789012345678,
    "1234567890123456789": NOT_WHOLE,
    "": NOT_WHOLE,
    "-1": NOT_WHOLE,
    "1.0": NOT_WHOLE,
    " 1": NOT_WHOLE,
    "1/": NOT_WHOLE,
    "1:": NOT_WHOLE,
    "é": NOT_WHOLE,
}
LABELS = {
    "0": 0,
    "12": 12,
    "12.": 12,
    "12.000000": 12,
    "-1": -1,
    "-1.000000": -1,
    "-0.0": 0,
    "-2": NOT_WHOLE,
    "0.5": NOT_WHOLE,
    "1.0.0": NOT_WHOLE,
    "1.x": NOT_WHOLE,
    "nan": NOT_WHOLE,
    "-": NOT_WHOLE,
    ".": NOT_WHOLE,
    "": NOT_WHOLE,
}


@pytest.mark.parametrize("block", [16, 40, 1 << 22])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, line_end: str):
    """Lines that lie across two blocks, blank ones between, and none after the last."""
    monkeypatch.setattr(recordio_index, "_BLOCK", block)
    path = tmp_path / "table"
    rows = [f"{cell}\t{label}\tnäme {cell}" for cell in CELLS for label in LABELS]
    path.write_bytes((2 * line_end).join(rows).encode())
    whole, labels, names, numbers = list[int](), list[int](), b"", list[int]()
    for lines in blocks_of_lines(path):
        tabs, first, count = lines.tabs()
        assert set(count.tolist()) <= {2}  # of a block of blank lines nothing
        one, two = tabs[first], tabs[first + 1]
        whole += lines.whole(lines.starts, one).tolist()
        labels += lines.labels(one + 1, two).tolist()
        names += lines.texts(two + 1, lines.stops).utf8.tobytes()
        numbers += lines.numbers.tolist()
    assert whole == [number for number in CELLS.values() for _ in LABELS]
    assert labels == list(LABELS.values()) * len(CELLS)
    assert names.decode() == "".join(f"näme {cell}" for cell in CELLS for _ in LABELS)
    assert numbers == list(range(1, 2 * len(rows), 2))


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recordio_index, "_BLOCK", 1 << 16)
    path = tmp_path / "table"
    path.write_bytes(b"1\t2\n" + b"x" * (2 << 20))
    with pytest.raises(ValueError, match=r"table: line 2: longer than 1,048,576 bytes"):
        list(blocks_of_lines(path))


def test_nothing(tmp_path: Path):
    (tmp_path / "table").touch()
    assert list(blocks_of_lines(tmp_path / "table")) == []
