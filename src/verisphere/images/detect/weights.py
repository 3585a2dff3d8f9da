"""The tensors in the `mtcnn` wheel, read without an import of the wheel and without running any code of a pickle.

The wheel has a list of arrays for each network: a pickle written by joblib, inside an lz4 frame. The pickle of the
description of each array is followed, in the same stream, by one byte with the length of a padding, that padding, and
the bytes of the array.
"""

import hashlib
import importlib.util
import io
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32

from verisphere.base.words import install_extra

#: Version of the wheel with these digests.
KNOWN_VERSION = "1.0.0"

#: SHA-256 of the weight files.
DIGESTS = {
    "pnet": "ea6b0c3e685ebee3165326ad6484acc95f2ef78f1c94fbf40a55704fa989f7b5",
    "rnet": "cb00e6460f3c98b0bfafaba3c0a0ded4bdf6e62cee7174d969e8670d7e757fee",
    "onet": "94f6ea2f4cf985275ee958cdd762d17b6009348a4fb9d8c6be39ba73ffd22ca3",
}

_MOST_BYTES = 8 << 20  # decompressed; the largest of the three networks has 1.6 MB
_INSTALL_EXTRA = f"finding faces needs mtcnn, not installed here; {install_extra('detect')}"
_REINSTALL = f"the weights are those of mtcnn {KNOWN_VERSION}: pip install 'mtcnn=={KNOWN_VERSION}'"

Array = Float32[np.ndarray, "..."]


def read_weights(network: str) -> list[Array]:
    """The arrays of one network (pnet, rnet or onet), in the order of its layers."""
    spec = importlib.util.find_spec("mtcnn")  # found, but not imported: its code needs TensorFlow
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(_INSTALL_EXTRA)
    return read_file(Path(spec.submodule_search_locations[0]) / "assets" / "weights" / f"{network}.lz4", network)


def read_file(path: Path, network: str) -> list[Array]:
    """The arrays of one network from its file, once the file's digest is the known one."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror}); {_REINSTALL}") from None
    digest = hashlib.sha256(data).hexdigest()
    if digest != DIGESTS[network]:
        raise ValueError(f"{path}: its SHA-256 is {digest}, not {DIGESTS[network]}; {_REINSTALL}")
    return unpickle(decompress(data, str(path)), str(path))


def decompress(data: bytes, name: str) -> bytes:
    """The content of an lz4 frame of at most the size of a weight file."""
    try:
        import lz4.frame
    except ImportError:
        raise ValueError(_INSTALL_EXTRA) from None
    reader = lz4.frame.LZ4FrameDecompressor()
    try:
        content = reader.decompress(data, max_length=_MOST_BYTES)
    except RuntimeError as error:
        raise ValueError(f"{name}: not an lz4 frame ({error})") from None
    if not reader.eof:
        raise ValueError(f"{name}: an lz4 frame that is cut short, or holds more than {_MOST_BYTES} bytes")
    return content


def unpickle(data: bytes, name: str) -> list[Array]:
    """The arrays of a joblib pickle with a list of float32 arrays."""
    stream = io.BytesIO(data)
    try:
        content = _Reader(stream).load()
    except Exception as error:  # hostile bytes can raise any error, and every error means the same
        raise ValueError(f"{name}: not a list of float32 arrays as joblib writes it ({error})") from None
    items = content if type(content) is list else []
    if not items or not all(isinstance(item, _StoredArray) and item.array is not None for item in items):
        raise ValueError(f"{name}: not a list of float32 arrays as joblib writes it")
    return [item.array for item in items]


class _Reader(pickle.Unpickler):
    """Resolves three names, each to a class of this module."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream)
        # The stream has no `peek`, so the unpickler reads no further than the description's end; the array follows.
        self._array = type("_Array", (_StoredArray,), {"stream": stream})

    def find_class(self, module: str, name: str) -> Any:
        """The replacement of a name; any other name is refused."""
        known = {
            ("joblib.numpy_pickle", "NumpyArrayWrapper"): self._array,
            ("numpy", "ndarray"): _PlainArray,
            ("numpy", "dtype"): _StoredType,
        }
        if (module, name) not in known:
            raise ValueError(f"it names {module}.{name}, which is not allowed")
        return known[module, name]


class _PlainArray:
    """Replaces `numpy.ndarray`, which a description names but never creates."""

    def __new__(cls, *_: object) -> "_PlainArray":
        raise ValueError("it makes a numpy.ndarray by itself")


class _StoredType:
    """Replaces `numpy.dtype`; only little-endian float32 is allowed."""

    def __init__(self, code: str, *_: object) -> None:
        if code != "f4":
            raise ValueError(f"an array of type {code!r}, not 'f4'")

    def __setstate__(self, state: tuple) -> None:
        if state[1] != "<":
            raise ValueError(f"an array of byte order {state[1]!r}, not '<'")


class _StoredArray:
    """Replaces the wrapper of joblib: takes the bytes of the array from the stream after its description."""

    stream: io.BytesIO
    array: Array | None = None  # before its description

    def __setstate__(self, state: dict[str, Any]) -> None:
        expected = {"subclass": _PlainArray, "order": "C", "numpy_array_alignment_bytes": 16}
        wrong = [key for key, value in expected.items() if state.get(key) != value]
        if wrong or not isinstance(state.get("dtype"), _StoredType):
            raise ValueError(f"an array whose {(wrong or ['dtype'])[0]} is not as expected")
        shape = tuple(int(side) for side in state["shape"])
        padding = self.stream.read(1)
        self.stream.read(padding[0])
        wanted = 4 * math.prod(shape)
        if min(shape) < 1 or wanted > _MOST_BYTES:
            raise ValueError(f"an array of shape {shape}")
        data = self.stream.read(wanted)
        if len(data) != wanted:
            raise ValueError(f"an array of shape {shape} needs {wanted} bytes, {len(data)} are left")
        self.array = np.frombuffer(data, "<f4").reshape(shape)
