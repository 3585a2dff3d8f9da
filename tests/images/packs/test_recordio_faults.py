"""Faults in RecordIO files: each planted one is found, by record and place, and hostile files do no harm."""

import os
import struct
from pathlib import Path

import numpy as np
import pytest

import recordio_writer as writer
from memory_limit import memory_limit
from tiny_packs import check_damaged
from verisphere.images.packs.pack import Row
from verisphere.images.packs.recordio import RECORDIO, write_recordio


def content(path: Path) -> list[bytes]:
    pack = RECORDIO.read(path)
    return [data for _, data in pack.files.read(range(len(pack)))]


def reasons(path: Path) -> list[str]:
    return list(map(str, RECORDIO.faults(path)))


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    path = tmp_path / "faces.rec"
    writer.three_people(path)
    return path


def places(path: Path) -> dict[int, int]:
    """The offset of each key."""
    lines = path.with_suffix(".idx").read_text().splitlines()
    return {int(key): int(offset) for key, offset in (line.split("\t") for line in lines)}


def _patched(path: Path, place: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[place : place + len(data)] = data
    path.write_bytes(content)


def _index(path: Path, *changes: tuple[str, str]) -> None:
    text = path.with_suffix(".idx").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path.with_suffix(".idx").write_text(text)


# offsets of `faces`: image 1 at 0, 2 at 48; a header has 8 bytes of the part, 24 of IfQQ, 8 of labels
PLANTED = {
    "wrong magic": (lambda path, at: _patched(path, at[5], b"\1"), "record 5", 5, "0xced72301 at byte"),
    "a length past the end": (lambda path, at: _patched(path, at[5] + 6, b"\x0f"), "record 5", 5, "is it cut short"),
    "a wrong length": (lambda path, at: _patched(path, at[1] + 4, b"\x20"), "", 1, "bytes that are no record"),
    "a first part alone": (lambda path, at: _patched(path, at[5] + 7, b"\x20"), "record 5", 5, "all but the last"),
    "a middle part first": (lambda path, at: _patched(path, at[5] + 7, b"\x40"), "record 5", 5, "a part of kind 2"),
    "an unknown kind": (lambda path, at: _patched(path, at[5] + 7, b"\x80"), "record 5", 5, "a part of kind 4"),
    "another id": (lambda path, at: _patched(path, at[5] + 16, b"\x09"), "record 5", 5, "id 9, but its key is 5"),
    "a label of 0.5": (
        lambda path, at: _patched(path, at[6] + 32, struct.pack("<f", 0.5)), "record 6", 6, "label 0.5 is out of range",
    ),
    "a label of -2": (
        lambda path, at: _patched(path, at[6] + 32, struct.pack("<f", -2)), "record 6", 6, "label -2 is out of range",
    ),
    "a label that is not a number": (
        lambda path, at: _patched(path, at[6] + 32, struct.pack("<f", np.nan)), "record 6", 6, "label nan is out",
    ),
    "another label": (
        lambda path, at: _patched(path, at[6] + 32, struct.pack("<f", 1)), "record 6", 6, "in the range of record 10",
    ),
    "too many labels": (lambda path, at: _patched(path, at[5] + 8, b"\xff"), "record 5", 5, "255 labels stated"),
    "an end of the images": (
        lambda path, at: _patched(path, at[0] + 32, struct.pack("<f", 7)), "record 7", 7, "it should be an identity's",
    ),
    "a range past the images": (
        lambda path, at: _patched(path, at[10] + 36, struct.pack("<f", 9)), "record 10", 10, "and is 5 to 9",
    ),
    "a range without end": (
        lambda path, at: _patched(path, at[10] + 36, struct.pack("<f", np.inf)), "record 10", 10, "and is 5 to inf",
    ),
    "ranges that overlap": (
        lambda path, at: _patched(path, at[10] + 32, struct.pack("<f", 4)), "record 10", 10, "of identity record 9 too",
    ),
    "an image left out": (
        lambda path, at: _patched(path, at[8] + 36, struct.pack("<f", 3)), "record 3", 3, "in the range of no identity",
    ),
    "swapped keys": (
        lambda path, at: _index(path, ("2\t", "x\t"), ("4\t", "2\t"), ("x\t", "4\t")), "record 4", 2, "id 2, but its",
    ),
    "a key twice": (lambda path, at: _index(path, ("2\t", "4\t")), "record 4", 4, "line 4 of faces.idx has its key"),
    "an offset past the end": (
        lambda path, at: _index(path, (f"10\t{at[10]}", "10\t99999")), "record 10", None, "past the end of the file",
    ),
    "an offset inside a record": (
        lambda path, at: _index(path, (f"5\t{at[5]}", f"5\t{at[5] - 4}")), "record 5", None, "within record 4",
    ),
    "an offset that is odd": (
        lambda path, at: _index(path, (f"5\t{at[5]}", f"5\t{at[5] + 2}")), "record 5", None, "not at a multiple of 4",
    ),
    "a record without a line": (
        lambda path, at: _index(path, (f"5\t{at[5]}\n", "")), "", 5, "a record with the id 5, which the index",
    ),
    "a line that is none": (lambda path, at: _index(path, ("6\t", "six\t")), "", None, "line 6: not `key<TAB>offset`"),
    "bytes at the end": (
        lambda path, at: path.write_bytes(path.read_bytes() + b"more"), "", None, "4 bytes that are no record",
    ),
    "the end cut off": (
        lambda path, at: path.write_bytes(path.read_bytes()[:-2]), "record 10", 10, "is it cut short?",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(faces: Path, name: str):
    """By record and offset, once or with what follows from it; and the pack is refused when opened or when read."""
    at = places(faces)
    plant, record, key, reason = PLANTED[name]
    plant(faces, at)
    found = [fault for fault in RECORDIO.faults(faces) if reason in fault.reason]
    assert found, reasons(faces)
    assert record in str(found[0])
    if key is not None:
        begin = at[key] if record or name == "a record without a line" else None
        assert begin is None or found[0].offset == begin
    if name not in ("bytes at the end", "a wrong length", "an image left out"):
        with pytest.raises(ValueError, match=r"faces\.(rec|idx)") as caught:
            content(faces)
        assert "\n" not in str(caught.value)


def test_an_identity_header_that_is_damaged(faces: Path):
    """Its identity records are not taken for images, and are one fault, not one each."""
    at = places(faces)
    original = faces.read_bytes()
    for place, data, reason in [
        (at[0], b"\1", "record 0 at byte 392: 0xced72301 at byte 392"),
        (at[0] + 32, struct.pack("<f", 0.5), "record 0 at byte 392: an identity header whose images end at 0.5"),
        (at[0] + 8, b"\0", "record 8 at byte 432: 3 records have two labels and no image"),
    ]:
        faces.write_bytes(original)
        _patched(faces, place, data)
        found = reasons(faces)
        assert any(reason in fault for fault in found), found
        assert sum("no image" in fault for fault in found) <= 1, found
        with pytest.raises(ValueError, match=r"faces\.rec: record (0|8) at byte"):
            RECORDIO.read(faces)


def test_a_record_without_a_line_behind_a_damaged_one(faces: Path):
    """A part of the damaged record, which has the magic number too, is none."""
    at = places(faces)
    _patched(faces, at[3], b"\1")  # a record in parts
    _index(faces, (f"4\t{at[4]}\n", ""))
    found = [(fault.record, fault.offset) for fault in RECORDIO.faults(faces)]
    assert ("3", at[3]) in found
    assert ("", at[4]) in found
    assert sum(at[3] < (offset or 0) < at[4] for _, offset in found) == 0


def test_every_one_of_several_faults(faces: Path):
    at = places(faces)
    for name in ("wrong magic", "a label of -2"):
        PLANTED[name][0](faces, at)
    _patched(faces, at[1] + 16, b"\x63")
    found = [(fault.record, fault.offset) for fault in RECORDIO.faults(faces)]
    assert set(found) >= {("5", at[5]), ("6", at[6]), ("1", at[1])}


@pytest.mark.parametrize("suffix", [".rec", ".idx", ".lst"])
def test_damaged_in_100_ways(faces: Path, suffix: str):
    lines = (f"{key}\t{max(key - 3, 0) and min(key - 3, 2)}\tn{key}\n" for key in range(1, 8))
    faces.with_suffix(".lst").write_text("".join(lines))
    with memory_limit(256):
        check_damaged(RECORDIO, faces, faces.with_suffix(suffix), 100)


def test_records_that_share_a_chain_of_parts_cost_no_more_than_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Each record begins within the one before it, and all go on in the same 2,000 empty parts."""
    starts, path = 40, tmp_path / "faces.rec"
    head = struct.pack("<IfQQ", 0, 1.0, 0, 0)
    firsts = (writer.MAGIC + struct.pack("<I", (1 << 29) + 32 * (starts - row) - 8) for row in range(starts))
    chain = writer.chunk(2, b"") * 2000 + writer.chunk(3, b"")
    path.write_bytes(b"".join(first + head for first in firsts) + chain)
    path.with_suffix(".idx").write_text("".join(f"{row}\t{32 * row}\n" for row in range(starts)))
    reads = []
    really = os.pread
    monkeypatch.setattr(os, "pread", lambda *asked: reads.append(asked[1]) or really(*asked))
    assert len(reasons(path)) == starts
    assert (len(reads), sum(reads)) < (20_000, 10_000_000)
    with pytest.raises(ValueError, match=r"record 0 at byte 0: more than 100 parts"):
        RECORDIO.read(path)
    with pytest.raises(ValueError, match=r"^Ann/1: a record of more than 100 parts: its bytes repeat 0xced7230a"):
        write_recordio(tmp_path / "new.rec", [Row("Ann/1", "Ann", writer.MAGIC * 100)])
