"""Arrays of archives: only what is asked for is read, and a header is believed only as far as bytes follow."""

import io
import re
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from verisphere.files.npz import header_in_npz, names_in_npz, read_npz, rows_in_npz


def npy(array: np.ndarray) -> bytes:
    held = io.BytesIO()
    np.save(held, array)
    return held.getvalue()


def headed(text: str, content: bytes = b"") -> bytes:
    """An array whose header is this text."""
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + content


def said(shape: str, descr: str = "'<f4'") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"


def packed(folder: Path, *entries: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(folder / "some.npz", "w", method) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return folder / "some.npz"


def refused(path: Path, *names: str) -> str:
    with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
        read_npz(path, names or ("x",))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(path)) + 400
    return str(caught.value)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_writes_is_read_as_numpy_reads_it(tmp_path: Path, save):
    random = np.random.default_rng(0)
    arrays = {
        "flat": random.normal(size=300_000),
        "high": np.asfortranarray(random.normal(size=(3, 4, 5))).astype(">f4"),
        "text": np.array(["a", "día", ""]),
        "bytes": np.array([b"a", b"bc"]),
        "truth": np.array([[True], [False]]),
        "scalar": np.array(7),
        "none": np.zeros((0, 3), np.int16),
        "time": np.array(["2026-01-01"], "datetime64[D]"),
    }
    save(tmp_path / "some.npz", **arrays)
    read = read_npz(tmp_path / "some.npz", [*arrays, "absent"])
    assert list(read) == list(arrays) == list(names_in_npz(tmp_path / "some.npz"))
    for name, array in arrays.items():
        assert (read[name].dtype, read[name].shape) == (array.dtype, array.shape)
        assert np.array_equal(read[name], array)


def test_an_array_that_nobody_asks_for_is_not_read(tmp_path: Path):
    """Not even its header is: it may hold objects, claim any size, or be no array."""
    path = packed(
        tmp_path, ("x.npy", npy(np.arange(3))), ("y.npy", b"no array"), ("README.txt", b"by hand"), ("x", b"not x.npy")
    )
    assert read_npz(path, ["x"])["x"].tolist() == [0, 1, 2]
    assert names_in_npz(path) == ("x", "y")
    assert "array 'y': it does not begin as an array of numpy does" in refused(path, "x", "y")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "its header is not one of numpy: '{'"),
        ("[" * 5000, "its header is not one of numpy"),
        ("-" * 9000 + "1", "its header is not one of numpy"),
        ("{[]: 1}", "its header is not one of numpy"),
        ("'\0", "its header is not one of numpy"),
        ("{'descr': '<f4'}", "its header is not one of numpy"),
        (said("(True, 4)"), r"its shape is \(True, 4\); allowed is a tuple of at most 32 whole numbers from 0"),
        (said("(-1, -4)"), r"its shape is \(-1, -4\)"),
        (said("(1.0,)"), r"its shape is \(1.0,\)"),
        (said("4"), "its shape is 4"),
        (said("(" + "9" * 20 + ",)"), "its shape is"),
        (said("(" + "9" * 5000 + ",)"), "its header is not one of numpy"),
        (said("(4, 4)"), r"shape \(4, 4\) of float32 takes 64 bytes, but 4 follow"),
        (said("()"), None),
        (said("(" + "1, " * 100 + ")"), "array 'x': its shape is"),
        (said("(1,)", "'O'"), "it holds Python objects, which are never loaded"),
        (said("(1,)", "[('a', '<f4')]"), "its type is .*; allowed are numbers and text"),
        (said("(1,)", "'U1000000000000'"), "its type is"),
        (said("(1000000000000000000,)", "'U0'"), "its type is"),
        (said("(1,)", "'no type'"), "its type is 'no type'"),
        (said("(1,)", "'(2,))f4'"), "its type is .*; allowed are numbers and text"),
        (said("(1,)", "'f4,f4'"), "its type is 'f4,f4'"),
        (said("(1,)").replace("False", "0"), "its fortran_order is 0, not True or False"),
    ],
)
def test_headers(tmp_path: Path, text: str, says: str | None):
    path = packed(tmp_path, ("x.npy", headed(text, np.float32(7).tobytes())))
    if says is None:
        assert read_npz(path, ["x"])["x"] == 7
    else:
        assert re.search(says, refused(path))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "does not begin as an array"),
        (b"\x93NUMPY\x09\x00" + bytes(90), "does not begin as an array"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\x7f", "its header takes 2,147,483,647 bytes; allowed are 10,000"),
        (b"\x93NUMPY\x03\x00\x04\0\0\0\xff\xfe\xfd\xfc", "utf-8"),
        (npy(np.arange(3))[:-1], "takes 24 bytes, but 23 follow"),
        (npy(np.arange(3)) + b"more", "takes 24 bytes, but 28 follow"),
    ],
)
def test_what_is_no_array(tmp_path: Path, content: bytes, says: str):
    assert says in refused(packed(tmp_path, ("x.npy", content)))


def test_what_a_small_file_may_unpack_to(tmp_path: Path):
    most = 1 << 26
    right = np.zeros(most - 128, np.int8)
    assert len(read_npz(packed(tmp_path, ("x.npy", npy(right)), method=zipfile.ZIP_DEFLATED), ["x"])["x"]) == len(right)
    two = packed(tmp_path, ("x.npy", npy(right)), ("y.npy", npy(right)), method=zipfile.ZIP_DEFLATED)
    assert len(read_npz(two, ["y"])) == 1
    assert re.search(r"x, y would unpack to 134,217,728 bytes; .* at most 67,108,864 are", refused(two, "x", "y"))


def changed_directory(path: Path, place: int, size: int, value: bytes) -> None:
    """Write over a field of the first entry of the directory."""
    content = bytearray(path.read_bytes())
    start = content.index(b"PK\x01\x02") + place
    content[start : start + size] = value
    path.write_bytes(content)


@pytest.mark.parametrize(("place", "field"), [(20, "stored size"), (24, "size"), (42, "offset")])
@pytest.mark.parametrize("number", [1 << 62, 1 << 63, (1 << 64) - 1])
def test_sizes_of_zip64_that_no_file_has(tmp_path: Path, place: int, field: str, number: int):
    """The directory says 0xFFFFFFFF where an extra field of 8 bytes has the number."""
    info = zipfile.ZipInfo("x.npy")
    info.extra = struct.pack("<HHQ", 0x7777, 8, number)
    with zipfile.ZipFile(tmp_path / "some.npz", "w") as archive:
        archive.writestr(info, npy(np.arange(3)))
    content = (tmp_path / "some.npz").read_bytes()
    directory = content.index(b"PK\x01\x02")
    head, rest = content[:directory], content[directory:].replace(b"\x77\x77\x08\x00", b"\x01\x00\x08\x00")
    (tmp_path / "some.npz").write_bytes(head + rest)
    changed_directory(tmp_path / "some.npz", place, 4, b"\xff" * 4)
    if field != "stored size":
        refused(tmp_path / "some.npz")
        return
    try:  # of what is not compressed, no more than the size is read
        found: object = read_npz(tmp_path / "some.npz", ["x"])["x"].tolist()
    except ValueError as error:
        found = str(error)
    bomb = f"{tmp_path / 'some.npz'}: not an .npz file of plain arrays: Overlapped entries: 'x.npy' (possible zip bomb)"
    assert found in ([0, 1, 2], bomb)  # newer versions of Python also look at the stored size


def test_an_entry_whose_two_names_differ(tmp_path: Path):
    """zipfile quotes both, the second from wherever in the file it is said to lie."""
    path = packed(tmp_path, ("x.npy", npy(np.zeros(4000))))
    content = bytearray(path.read_bytes())
    content[26:28] = (9000).to_bytes(2, "little")
    path.write_bytes(content)
    refused(path)


def test_two_arrays_of_one_name(tmp_path: Path):
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = packed(tmp_path, ("x.npy", npy(np.arange(3))), ("x.npy", npy(np.arange(4))))
    assert "two arrays named 'x'" in refused(path)


def test_a_wrong_checksum(tmp_path: Path):
    path = packed(tmp_path, ("x.npy", npy(np.arange(3))))
    path.write_bytes(path.read_bytes().replace(np.arange(3).tobytes(), np.arange(3, 6).tobytes()))
    assert "Bad CRC-32" in refused(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_that_numpy_does_not_write(tmp_path: Path, method: int):
    assert "another method than deflate" in refused(packed(tmp_path, ("x.npy", npy(np.arange(3))), method=method))


# --- rows, some at a time --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("at_once", [1, 3, 8, 100])
def test_rows_are_those_of_the_array(tmp_path: Path, save, order: str, at_once: int):
    array = np.array(np.random.default_rng(0).normal(size=(8, 5)), order=order)
    save(tmp_path / "some.npz", other=np.arange(3), x=array)
    assert header_in_npz(tmp_path / "some.npz", "x") == ((8, 5), np.dtype(np.float64))
    portions = list(rows_in_npz(tmp_path / "some.npz", "x", at_once))
    assert [len(portion) for portion in portions] == [at_once] * (8 // at_once) + [8 % at_once] * bool(8 % at_once)
    assert np.array_equal(np.concatenate(portions), array)


def test_a_changed_byte_is_found_after_the_last_rows(tmp_path: Path):
    np.savez(tmp_path / "some.npz", x=np.ones((4, 4096)))
    content = bytearray((tmp_path / "some.npz").read_bytes())
    content[-400] ^= 1  # of the last row
    (tmp_path / "some.npz").write_bytes(content)
    portions = rows_in_npz(tmp_path / "some.npz", "x", 2)
    assert next(portions).shape == (2, 4096)
    with pytest.raises(ValueError, match=r"some\.npz: not an .npz file of plain arrays: Bad CRC-32"):
        list(portions)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (headed(said("(4, 2)"), b"1234"), "array 'x': shape (4, 2) of float32 takes 32 bytes, but 4 follow"),
        (headed(said("(1,)", "'|O'"), b"12345678"), "array 'x': it holds Python objects"),
        (npy(np.arange(3))[:20], "array 'x': "),
    ],
)
def test_rows_are_refused_as_the_array_is(tmp_path: Path, content: bytes, says: str):
    path = packed(tmp_path, ("x.npy", content))
    for ask in (lambda: header_in_npz(path, "x"), lambda: next(rows_in_npz(path, "x", 2))):
        with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
            ask()
        assert says in str(caught.value)
    with pytest.raises(ValueError, match="it has no array y, but 'x'"):
        header_in_npz(path, "y")


def test_rows_of_a_bomb_are_refused(tmp_path: Path):
    np.savez_compressed(tmp_path / "some.npz", x=np.zeros((1 << 14, 1 << 10), np.float64))
    with pytest.raises(ValueError, match="x would unpack to 134,217,856 bytes"):
        next(rows_in_npz(tmp_path / "some.npz", "x", 2))
