"""The weight files of the `mtcnn` wheel: read to the byte, and nothing in them is run."""

import hashlib
import importlib.util
import io
import os
import pickle
import re
import sys

import numpy as np
import pytest

from processes import run
from verisphere.images.detect import weights
from verisphere.images.detect.weights import DIGESTS, decompress, read_file, read_weights, unpickle

frame = pytest.importorskip("lz4.frame", reason="the extra `detect` is not installed")
spec = importlib.util.find_spec("mtcnn")
pytestmark = pytest.mark.skipif(spec is None, reason="the extra `detect` is not installed")


def path_of(network: str) -> str:
    return os.path.join(spec.submodule_search_locations[0], "assets", "weights", f"{network}.lz4")


def content(network: str = "pnet") -> bytes:
    with open(path_of(network), "rb") as file:
        return frame.decompress(file.read())


@pytest.mark.parametrize("network", DIGESTS)
def test_the_arrays_are_those_that_joblib_reads(network):
    joblib = pytest.importorskip("joblib")
    arrays, expected = read_weights(network), joblib.load(io.BytesIO(content(network)))
    assert [array.shape for array in arrays] == [array.shape for array in expected]
    assert all(np.array_equal(array, other) for array, other in zip(arrays, expected, strict=True))


def imported_by_reading() -> list[str]:
    assert "joblib" not in sys.modules
    read_weights("onet")
    return [name for name in ("mtcnn", "joblib", "tensorflow") if name in sys.modules]


def test_nothing_of_the_wheel_is_imported():
    assert run(imported_by_reading, 1) == [[]]


class Hostile:
    def __reduce__(self):
        return os.mkdir, ("made-by-a-pickle",)


@pytest.mark.parametrize("inside", [Hostile(), [Hostile()], {"weights": Hostile()}])
def test_a_pickle_that_calls_something_is_refused_and_calls_nothing(tmp_path, monkeypatch, inside):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"it names posix\.mkdir, which is not allowed"):
        unpickle(pickle.dumps(inside), "bad.lz4")
    assert not list(tmp_path.iterdir())


def test_numpy_itself_is_not_at_the_disposal_of_a_pickle():
    with pytest.raises(ValueError, match=r"numpy\._core\.multiarray\._reconstruct, which is not allowed"):
        unpickle(pickle.dumps([np.zeros(3, np.float32)]), "bad.lz4")
    made = b"\x80\x04\x8c\x05numpy\x8c\x07ndarray\x93)\x81."  # numpy.ndarray()
    with pytest.raises(ValueError, match=r"it makes a numpy\.ndarray by itself"):
        unpickle(made, "bad.lz4")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"\x8c\x02f4\x94", b"\x8c\x02O8\x94", "an array of type 'O8'"),
        (b"\x8c\x01<\x94", b"\x8c\x01>\x94", "an array of byte order '>'"),
        (b"\x8c\x01C\x94", b"\x8c\x01F\x94", "an array whose order is not as expected"),
        (b"NumpyArrayWrapper", b"NumpyArrayWrappes", r"it names joblib\.numpy_pickle\.NumpyArrayWrappes"),
        (b"(K\x03K\x03K\x03K\x0at", b"(K\xffK\xffK\xffK\xfft", r"an array of shape \(255, 255, 255, 255\)"),
        (b"(K\x03K\x03K\x03K\x0at", b"(K\x00K\x03K\x03K\x0at", r"an array of shape \(0, 3, 3, 10\)"),
        (b"K\x10ub", b"K\x20ub", "an array whose numpy_array_alignment_bytes is not as expected"),
    ],
)
def test_an_array_of_another_kind_is_refused(old, new, message):
    data = content()
    assert old in data
    with pytest.raises(ValueError, match=f"^bad.lz4: not a list of float32 arrays as joblib writes it .*{message}"):
        unpickle(data.replace(old, new, 1), "bad.lz4")


@pytest.mark.parametrize("length", [0, 1, 100, 230, 300, 2000])
def test_a_pickle_that_ends_early_is_refused(length):
    with pytest.raises(ValueError, match="not a list of float32 arrays as joblib writes it"):
        unpickle(content()[:length], "bad.lz4")


@pytest.mark.parametrize(
    "data",
    [
        *(pickle.dumps(inside) for inside in (None, 3, {"a": 1}, [1, 2], "text", [])),
        b"](cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81e.",  # an array that is never told what it is
    ],
)
def test_anything_but_a_list_of_arrays_is_refused(data):
    with pytest.raises(ValueError, match=r"^bad\.lz4: not a list of float32 arrays as joblib writes it"):
        unpickle(data, "bad.lz4")


def test_a_frame_may_not_grow_without_end():
    bomb = frame.compress(bytes(9 << 20))
    assert len(bomb) < 1 << 16
    with pytest.raises(
        ValueError, match=r"bomb\.lz4: an lz4 frame that is cut short, or holds more than 8388608 bytes"
    ):
        decompress(bomb, "bomb.lz4")
    with pytest.raises(ValueError, match="cut short"):
        decompress(frame.compress(b"some content")[:-6], "short.lz4")
    with pytest.raises(ValueError, match=r"text\.lz4: not an lz4 frame"):
        decompress(b"not a frame at all", "text.lz4")
    assert decompress(frame.compress(b"some content"), "good.lz4") == b"some content"


def test_another_file_is_refused_before_it_is_opened_as_anything(tmp_path):
    path = tmp_path / "pnet.lz4"
    path.write_bytes(b"another version")
    digest = hashlib.sha256(b"another version").hexdigest()
    with pytest.raises(
        ValueError, match=rf"pnet\.lz4: its SHA-256 is {digest}, not ea6b0c3e.*'mtcnn==1\.0\.0'"
    ) as error:
        read_file(path, "pnet")
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=r"absent\.lz4: cannot be read \(No such file or directory\); the weights are"):
        read_file(tmp_path / "absent.lz4", "pnet")


def test_without_the_extra_one_line_names_it(monkeypatch):
    expected = re.escape("pip install '.[detect]'")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "lz4.frame", None)
        with pytest.raises(ValueError, match=expected):
            read_weights("pnet")
    monkeypatch.setattr(weights.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=expected):
        read_weights("pnet")
