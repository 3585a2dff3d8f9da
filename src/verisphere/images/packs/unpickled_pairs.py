"""A pickled list of pairs, unpickled by names that stand for no code: a task of `verisphere.files.child`.

A verification set is a pickle of (list of 2n images, list of n booleans). An image is bytes or an array of numpy, of
which only the bytes are kept: every name that such a file may have stands for a class or a function of this file, and
any other name is refused.
"""

import mmap
import pickle
from typing import Any, BinaryIO

_EXPECTED = "not a tuple of a list of encoded images and a list of booleans"
_CODECS = ("latin1", "latin-1")


def answer(told: dict[str, Any], _: BinaryIO) -> tuple[dict[str, Any], bytes]:
    """The pairs of the file at `path`.

    Returns:
        `genuine`: whether each pair is; `sizes`: bytes of each image; `offsets`: byte of the file at which each image
        stands as it is, or None if one of them stands there in another form. Then all images follow.
    """
    with open(told["path"], "rb") as file:
        content = _Reader(file, encoding="bytes").load()
        if file.read(1):
            raise ValueError("bytes follow the pairs")
        images, genuine = _pairs(content)
        offsets = _places(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), images)
    fields = {"genuine": genuine, "sizes": list(map(len, images)), "offsets": offsets}
    return fields, b"" if offsets is not None else b"".join(images)


def _pairs(content: object) -> tuple[list[bytes], list[bool]]:
    """The images and the booleans of the unpickled object, which must hold nothing else."""
    if not (isinstance(content, tuple | list) and len(content) == 2):
        raise ValueError(_EXPECTED)
    images, genuine = content
    if isinstance(genuine, _Array):
        genuine = genuine.booleans()
    if not (isinstance(images, tuple | list) and isinstance(genuine, tuple | list)):
        raise ValueError(_EXPECTED)
    if len(images) != 2 * len(genuine) or not genuine:
        raise ValueError(f"{len(images)} images and {len(genuine)} booleans; a pair has two and one")
    images = [image.data if isinstance(image, _Array) and image.code == "u1" else image for image in images]
    for number, image in enumerate(images):
        if not isinstance(image, bytes | bytearray):
            raise ValueError(f"image {number} is neither bytes nor an array of them")
    for number, word in enumerate(genuine):
        if not (isinstance(word, int) and word in (0, 1)):
            raise ValueError(f"the word on pair {number} is neither True nor False")
    return images, list(map(bool, genuine))


def _places(file: mmap.mmap, images: list[bytes]) -> list[int] | None:
    """Where each image stands in the file, one after the other; None if one does not."""
    places, end = list[int](), 0
    for image in images:
        place = file.find(image, end)
        if place < 0:
            return None
        places.append(place)
        end = place + len(image)
    return places


class _Reader(pickle.Unpickler):
    """An unpickler that knows the few names of bytes and arrays, and gives each a meaning without code of the file."""

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith(("numpy.core.", "numpy._core.")):
            module = module.rpartition(".")[2]
        known = _KNOWN.get((module, name))
        if known is None:
            raise ValueError(f"it names {ascii(module)[1:-1]}.{ascii(name)[1:-1]}, which is not allowed")
        return known


class _Type:
    """In place of `numpy.dtype`: u1 for bytes, b1 for booleans."""

    def __init__(self, code: object, *_: object) -> None:
        self.code = _text(code).lstrip("|")
        if self.code not in ("u1", "b1"):
            raise ValueError(
                f"it makes an array of type {self.code!a}; allowed are u1 and b1, images encoded as JPEG or PNG"
            )

    def __setstate__(self, state: object) -> None:
        """Nothing: with one byte an item, the order of bytes means nothing."""


class _Array:
    """In place of `numpy.ndarray`: an array of one dimension, as its bytes."""

    code, data = "", b""

    def __setstate__(self, state: object) -> None:
        match state:
            case (int(), (int() as items,), _Type() as kind, _, bytes() as data):
                self.fill(kind, items, data)
            case _:
                raise ValueError("it makes something other than an array of one dimension")

    def fill(self, kind: _Type, items: int, data: bytes) -> None:
        """Takes the type and the bytes, whose number must be that of the items."""
        if len(data) != items:
            raise ValueError(f"it makes an array of {items} items out of {len(data)} bytes")
        self.code, self.data = kind.code, data

    def booleans(self) -> list[bool]:
        if self.code != "b1":
            raise ValueError("the words on the pairs are neither a list nor an array of booleans")
        return [byte != 0 for byte in self.data]


def _text(value: object) -> str:
    """A short text of Python 3, or of Python 2, whose texts are bytes."""
    if not isinstance(value, str | bytes):
        raise ValueError(f"it has {type(value).__name__} where a text is needed")
    return value if isinstance(value, str) else value.decode("latin-1")


def _encode(text: object, codec: object) -> bytes:
    if not isinstance(text, str) or _text(codec) not in _CODECS:
        raise ValueError(f"it encodes {type(text).__name__} by another codec than latin-1")
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        raise ValueError("an image is written as text that stands for no bytes") from None


def _reconstruct(kind: object, *_: object) -> _Array:
    if kind is not _Array:
        raise ValueError("it makes something other than an array")
    return _Array()


def _frombuffer(data: object, kind: object, shape: object, *_: object) -> _Array:
    made = _Array()
    made.__setstate__((1, shape, kind, False, bytes(data) if isinstance(data, bytearray) else data))
    return made


def _scalar(kind: object, data: object) -> bool:
    made = _Array()
    made.__setstate__((1, (1,), kind, False, data))
    return made.booleans()[0]


_KNOWN = {
    ("_codecs", "encode"): _encode,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("multiarray", "_reconstruct"): _reconstruct,
    ("multiarray", "scalar"): _scalar,
    ("numeric", "_frombuffer"): _frombuffer,
}
