"""Verification sets of InsightFace: every protocol of Python 3, those of Python 2 by hand, and hostile pickles."""

import json
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from memory_limit import memory_limit
from tiny_packs import check_damaged
from verisphere.base.vocabulary import Embeddings
from verisphere.cli import main
from verisphere.files.embeddings import write_embeddings
from verisphere.images.packs.bin_pairs import BIN, read_bin_pairs

#: Quotes, backslashes, line ends and bytes beyond ASCII, and one longer than a frame of protocol 4.
IMAGES = [b"\xff\xd8\n'\"\\x", bytes(range(256)), b"\x00", b"\\u0041\r", b"x" * 70_000, b"(lp0\n.", b"'", b"\xe9\xe8"]
GENUINE = [True, False, True, False]
NAMES = [f"{pair:04d}/{side}" for pair in range(4) for side in ("left", "right")]


def write(path: Path, content: object, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(content, protocol))
    return path


def content(path: Path) -> list[bytes]:
    pack = BIN.read(path)
    return [data for _, data in pack.files.read(range(len(pack)))]


def array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("made", [bytes, array, lambda data: array(data).copy()], ids=["bytes", "fixed", "arrays"])
def test_every_protocol(tmp_path: Path, protocol: int, made):
    path = write(tmp_path / "set.bin", ([made(data) for data in IMAGES], GENUINE), protocol)
    pack = BIN.read(path)
    assert list(pack.names) == NAMES
    assert set(pack.identities) == {"-1"}
    assert content(path) == IMAGES
    assert list(BIN.faults(path)) == []
    pairs = read_bin_pairs(path)
    assert (list(pairs.genuine), pairs.folds) == (GENUINE, None)
    assert [name for both in zip(pairs.left, pairs.right, strict=True) for name in both] == NAMES
    if protocol > 2:  # before it, bytes stand in the file as text
        assert pack.files.paths == (path,)
        assert (np.diff(pack.files.offsets) > 0).all()
    part = pickle.loads(pickle.dumps(pack.keep([5, 1])))
    assert [data for _, data in part.files.read([0, 1])] == [IMAGES[5], IMAGES[1]]


@pytest.mark.parametrize(
    "genuine", [np.array(GENUINE), list(map(int, GENUINE)), tuple(GENUINE), list(np.array(GENUINE))]
)
def test_other_ways_to_write_the_booleans(tmp_path: Path, genuine: object):
    assert read_bin_pairs(write(tmp_path / "set.bin", (IMAGES, genuine))).genuine == tuple(GENUINE)


def python_2(protocol: int, array_of: bytes | None = None) -> bytes:
    """What `cPickle` of Python 2 writes for ([image, image], [False]); opcodes as in its Lib/pickle.py.

    `str` is STRING in protocol 0, and SHORT_BINSTRING or BINSTRING after it; False is I00 before protocol 2.
    """
    if protocol == 0:
        quoted = [repr(data)[1:].encode() for data in IMAGES[:2]]  # repr of `str` in Python 2 is that without the b
        return b"((lp1\nS" + quoted[0] + b"\np2\naS" + quoted[1] + b"\np3\na(lp4\nI00\natp5\n."
    images = b"U" + bytes([len(IMAGES[0])]) + IMAGES[0] + b"q\x02"
    images += b"T" + struct.pack("<i", len(IMAGES[1])) + IMAGES[1] + b"q\x03"
    if protocol == 1:
        return b"(]q\x01(" + images + b"e]q\x04I00\natq\x05."
    return b"\x80\x02]q\x01(" + images + b"e]q\x04\x89a\x86q\x05."


@pytest.mark.parametrize("protocol", range(3))
def test_written_by_python_2(tmp_path: Path, protocol: int):
    path = tmp_path / "set.bin"
    path.write_bytes(python_2(protocol))
    assert pickle.loads(path.read_bytes(), encoding="bytes") == (IMAGES[:2], [False])  # as InsightFace reads it
    assert content(path) == IMAGES[:2]
    assert read_bin_pairs(path).genuine == (False,)


def test_a_chosen_image_is_read_in_the_way_in_which_it_was_written(tmp_path: Path):
    """One is written as text with escapes, the other as it is."""
    escaped = repr(IMAGES[0])[1:].encode()
    plain = b"U" + bytes([len(IMAGES[4][:200])]) + IMAGES[4][:200]
    path = tmp_path / "set.bin"
    path.write_bytes(b"((lp1\nS" + escaped + b"\np2\na" + plain + b"a(lp4\nI00\natp5\n.")
    assert content(path) == [IMAGES[0], IMAGES[4][:200]]
    for place, image in enumerate(content(path)):
        ((_, data),) = BIN.read(path).keep([place]).files.read([0])
        assert data == image


def test_an_array_written_by_python_2(tmp_path: Path):
    """numpy 1 of Python 2: the arguments and the bytes are `str`."""
    data = IMAGES[0]
    made = b"cnumpy.core.multiarray\n_reconstruct\nq\x02cnumpy\nndarray\nq\x03K\x00\x85U\x01b\x87R"
    made += b"(K\x01K" + bytes([len(data)]) + b"\x85cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"
    made += b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U" + bytes([len(data)]) + data + b"tb"
    path = tmp_path / "set.bin"
    path.write_bytes(b"\x80\x02](" + made + made + b"e]\x88a\x86.")
    assert content(path) == [data] * 2


class Call:
    """Pickles as a call."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_nothing_is_executed(tmp_path: Path, protocol: int):
    canary = tmp_path / "canary"
    bad = Call(Path.touch, canary)
    for number, made in enumerate([bad, ([bad, b"x"], [True]), ([b"x", b"y"], [bad]), ([b"x", bad], [True])]):
        path = write(tmp_path / f"{number}.bin", made, protocol)
        with pytest.raises(ValueError, match=r"\d\.bin: cannot be unpickled .*: it names \S+, which") as caught:
            BIN.read(path)
        assert "\n" not in str(caught.value)
        assert str(caught.value) in map(str, BIN.faults(path))
    path = write(tmp_path / "behind.bin", (IMAGES, GENUINE), protocol)
    path.write_bytes(path.read_bytes() + pickle.dumps(bad))
    with pytest.raises(ValueError, match=r"behind\.bin: .*bytes follow the pairs"):
        BIN.read(path)
    assert not canary.exists()


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ({"a": 1}, "not a tuple of a list of encoded images and a list of booleans"),
        ([IMAGES, GENUINE, 1], "not a tuple of a list of encoded images and a list of booleans"),
        ((IMAGES[:3], GENUINE[:1]), "3 images and 1 booleans; a pair has two and one"),
        (([], []), "0 images and 0 booleans"),
        ((["text", b"x"], [True]), "image 0 is neither bytes nor an array of them"),
        (([b"x", 5], [True]), "image 1 is neither bytes"),
        (([b"x", b"y"], [2]), "the word on pair 0 is neither True nor False"),
        (([b"x", b"y"], ["True"]), "the word on pair 0 is neither True nor False"),
        (([b"x", b""], [True]), r"record 0000/right at byte \d+: no bytes"),
        (([np.zeros((2, 2), np.uint8), b"x"], [True]), "something other than an array of one dimension"),
        (([np.zeros(2, np.float32), b"x"], [True]), "makes an array of type 'f4'"),
        (([np.zeros(2, bool), b"x"], [True]), "image 0 is neither bytes"),
        (([b"x", b"y"], np.array([1.0])), "makes an array of type 'f8'"),
    ],
)
def test_what_is_not_a_set(tmp_path: Path, made: object, reason: str):
    path = write(tmp_path / "set.bin", made)
    with pytest.raises(ValueError, match=rf"set\.bin: .*({reason})"):
        BIN.read(path)
    assert len(list(BIN.faults(path))) == 1


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "Ran out of input"),
        (b"\x80\x06.", "unsupported pickle protocol: 6"),
        (b"B\xff\xff\xff\xff.", "truncated|MemoryError"),
        (b"\x8e" + b"\xff" * 8 + b".", "exceeds system's maximum size|truncated|MemoryError"),
        (b"r\xff\xff\xff\x7f.", "stack underflow"),
        (b"Nr\xff\xff\xff\x7f.", "MemoryError|not a tuple"),
        (b"cnumpy\ndtype\n)R.", "missing 1 required positional argument"),
        (b"cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\nU\x02b1\x85RU\x05xxxxx\x86R.", "1 items out of 5 bytes"),
        (b"cos\nsystem\n.", r"it names os\.system, which is not allowed"),
        (b"c\x1b]0;\n\r\n.", r"names \\x1b\]0;\.\\r, which"),
        (b"]\x94h\x00ah\x00\x86.", "not a tuple of|images and"),
        (
            b"\x80\x02](c_codecs\nencode\n(X\x03\0\0\0\xe2\x82\xacX\x06\0\0\0latin1tRU\x01xe]\x88a\x86.",
            "stands for no bytes",
        ),
    ],
)
def test_pickles_made_by_hand(tmp_path: Path, data: bytes, reason: str):
    path = tmp_path / "set.bin"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=rf"set\.bin: .*({reason})") as caught:
        BIN.read(path)
    assert "\n" not in str(caught.value)
    assert list(map(str, BIN.faults(path))) == [str(caught.value)]


def test_a_file_that_has_become_shorter(tmp_path: Path):
    path = write(tmp_path / "set.bin", (IMAGES, GENUINE))
    pack = BIN.read(path)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(ValueError, match=r"set\.bin: has changed since it was opened \([\d,]+ bytes then, 20 now\)"):
        list(pack.files.read([5]))


@pytest.mark.parametrize("protocol", range(6))
def test_damaged_in_40_ways(tmp_path: Path, protocol: int):
    """And no memory is taken by a size that is only stated."""
    made = ([b"a" * 9, array(b"b" * 9), b"c" * 300, array(b"d" * 300)], [True, False])
    path = write(tmp_path / "set.bin", made, protocol)
    with memory_limit(256):
        check_damaged(BIN, path, path, 40)


def test_a_set_is_evaluated(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """As a list without folds: ten blocks in list order, as the field takes them."""
    source = np.random.default_rng(3)
    genuine = [pair % 2 == 0 for pair in range(40)]
    path = write(tmp_path / "set.bin", ([b"image"] * 80, genuine))
    people = source.normal(size=(40, 8))
    rows = [
        people[pair] if side == 0 or same else source.normal(size=8)
        for pair, same in enumerate(genuine)
        for side in (0, 1)
    ]
    noisy = np.array(rows) + 0.1 * source.normal(size=(80, 8))
    embeddings = tmp_path / "set.npz"
    write_embeddings(embeddings, Embeddings(noisy, list(BIN.read(path).names), ["-1"] * 80))
    figures = tmp_path / "figures.json"
    command = ["evaluate", "pairs", str(embeddings), "--pairs", str(path), "--far", "1e-1"]
    assert main([*command, "--json", str(figures)]) == 0
    accuracy = json.loads(figures.read_text())["accuracy"]
    assert (accuracy["folds"], accuracy["pairs"]) == (10, 40)
    assert accuracy["mean"] > 0.9
    capsys.readouterr()
    for option in (["--intervals"], ["--against", str(embeddings)]):
        assert main([*command, *option]) == 2
        assert "80 embeddings have the identity -1: nobody is known on them, so no people" in capsys.readouterr().err
