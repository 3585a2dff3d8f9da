"""The tensors inside the `mtcnn` wheel, read without importing it and without running what a pickle asks for.

The wheel keeps a list of arrays a network: a pickle written by joblib, inside an lz4 frame. After the pickle of each
array's description come, in the same stream, one byte with a padding length, that padding, and the array's own bytes.
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

#: Version of the wheel whose files these digests are.
KNOWN_VERSION = "1.0.0"

#: SHA-256 of the weight files.
DIGESTS = {
    "pnet": "ea6b0c3e685ebee3165326ad6484acc95f2ef78f1c94fbf40a55704fa989f7b5",
    "rnet": "cb00e6460f3c98b0bfafaba3c0a0ded4bdf6e62cee7174d969e8670d7e757fee",
    "onet": "94f6ea2f4cf985275ee958cdd762d17b6009348a4fb9d8c6be39ba73ffd22ca3",
}

_MOST_BYTES = 8 << 20  # bytes once decompressed; the largest of the three has 1.6 MB
_INSTALL_EXTRA = "finding faces needs the extra `detect`: pip install 'verisphere[detect]'"
_REINSTALL = f"the weights are those of mtcnn {KNOWN_VERSION}: pip install 'mtcnn=={KNOWN_VERSION}'"

Array = Float32[np.ndarray, "..."]


def read_weights(network: str) -> list[Array]:
    """The arrays of one network, in the order of its layers.

    Args:
        network: pnet, rnet or onet.

    Raises:
        ValueError: the extra `detect` is not installed, or the installed file is not the known one.
    """
    spec = importlib.util.find_spec("mtcnn")  # of a package at the top: found, not imported (its code needs TensorFlow)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(_INSTALL_EXTRA)
    return read_file(Path(spec.submodule_search_locations[0]) / "assets" / "weights" / f"{network}.lz4", network)


def read_file(path: Path, network: str) -> list[Array]:
    """The arrays of one network from its file, once the file's digest is the known one.

    Raises:
        ValueError: there is no such file, its digest is another, or the module `lz4` is missing.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror}); {_REINSTALL}") from None
    digest = hashlib.sha256(data).hexdigest()
    if digest != DIGESTS[network]:
        raise ValueError(f"{path}: its SHA-256 is {digest}, not {DIGESTS[network]}; {_REINSTALL}")
    return unpickle(decompress(data, str(path)), str(path))


def decompress(data: bytes, name: str) -> bytes:
    """The content of an lz4 frame, refused where it is larger than any weight file.

    Raises:
        ValueError: the frame is damaged, cut short or too large, or the module `lz4` is missing.
    """
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
    """The arrays of a joblib pickle that holds a list of float32 arrays, and nothing else.

    Raises:
        ValueError: it holds or names anything else, or ends early.
    """
    stream = io.BytesIO(data)
    try:
        content = _Reader(stream).load()
    except Exception as error:  # hostile bytes can raise anything, and all of it means the same
        raise ValueError(f"{name}: not a list of float32 arrays as joblib writes it ({error})") from None
    items = content if type(content) is list else []
    if not items or not all(isinstance(item, _StoredArray) and item.array is not None for item in items):
        raise ValueError(f"{name}: not a list of float32 arrays as joblib writes it")
    return [item.array for item in items]


class _Reader(pickle.Unpickler):
    """Knows three names, and puts a class of ours in the place of each."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream)
        # The stream has no `peek`, so the unpickler reads no further than the description's end; the array follows.
        self._array = type("_Array", (_StoredArray,), {"stream": stream})

    def find_class(self, module: str, name: str) -> Any:
        """The stand-in for a name; any other is refused."""
        known = {
            ("joblib.numpy_pickle", "NumpyArrayWrapper"): self._array,
            ("numpy", "ndarray"): _PlainArray,
            ("numpy", "dtype"): _StoredType,
        }
        if (module, name) not in known:
            raise ValueError(f"it names {module}.{name}, which is not allowed")
        return known[module, name]


class _PlainArray:
    """Stands for `numpy.ndarray`, which a description names and never makes."""

    def __new__(cls, *_: object) -> "_PlainArray":
        raise ValueError("it makes a numpy.ndarray by itself")


class _StoredType:
    """Stands for `numpy.dtype`, of which only little-endian float32 is known."""

    def __init__(self, code: str, *_: object) -> None:
        if code != "f4":
            raise ValueError(f"an array of type {code!r}, not 'f4'")

    def __setstate__(self, state: tuple) -> None:
        if state[1] != "<":
            raise ValueError(f"an array of byte order {state[1]!r}, not '<'")


class _StoredArray:
    """Stands for joblib's wrapper: once told what the array is, takes its bytes from the stream."""

    stream: io.BytesIO
    array: Array | None = None  # until it is told

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
