"""Verification sets of InsightFace (`lfw.bin`, `cfp_fp.bin`, `agedb_30.bin`): encoded images and a list of pairs.

Such a file is a pickle of (list of 2n images, list of n booleans), in which the images 2i and 2i + 1 are pair i and the
boolean states whether they show one person (`recognition/common/face2rec` and `lfw2pack.py` of InsightFace). The file
is not unpickled: see `pickled_pairs`.
"""

import codecs
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int

from verisphere.files.image_suffixes import MAX_BYTES
from verisphere.files.images_json import read_source
from verisphere.files.pair_lists.pair_list import PairList
from verisphere.packs.columns import Coded, Positions, Texts
from verisphere.packs.pack import Fault, Format, Pack
from verisphere.packs.pickled_pairs import ESCAPED, LATIN_1, PLAIN, RAW_UNICODE, Bytes, find_pairs
from verisphere.packs.spans import Spans
from verisphere.vocabulary import NOBODY

SUFFIX = ".bin"


@dataclass(frozen=True, eq=False)
class PickledImages:
    """Images inside a pickle, found by their positions in the file.

    Attributes:
        spans: begin and end of each image in the file.
        forms: encoding of each image in the pickle, as in `verisphere.packs.pickled_pairs.Bytes`.
    """

    spans: Spans
    forms: Int[np.ndarray, " images"]

    @property
    def names(self) -> Sequence[str]:
        """Name of each image."""
        return self.spans.names

    @property
    def paths(self) -> tuple[Path, ...]:
        """The file."""
        return self.spans.paths

    @property
    def offsets(self) -> Int[np.ndarray, " images"]:
        """Byte of the file at which each image begins."""
        return self.spans.offsets

    @property
    def unread(self) -> Sequence[str]:
        """Always empty."""
        return ()

    def keep(self, positions: Positions) -> "PickledImages":
        """The images at these positions."""
        return PickledImages(self.spans.keep(positions), self.forms[np.asarray(positions, np.int64)])

    def read(self, positions: Sequence[int]) -> Iterator[tuple[str, bytes]]:
        """For each image its file, name and place as a text for error messages, and its bytes."""
        for position, (name, data) in zip(positions, self.spans.read(positions), strict=True):
            form = int(self.forms[position])
            try:
                yield name, _DECODED[form](data)
            except ValueError:
                raise ValueError(f"{name}: it is written as text that stands for no bytes") from None


def _unescaped(data: bytes) -> bytes:
    if len(data) < 2 or data[:1] not in (b"'", b'"') or data[-1:] != data[:1]:
        raise ValueError
    return codecs.escape_decode(data[1:-1])[0]


_DECODED: dict[int, Callable[[bytes], bytes]] = {
    PLAIN: lambda data: data,
    LATIN_1: lambda data: data.decode("utf-8").encode("latin-1"),
    ESCAPED: _unescaped,
    RAW_UNICODE: lambda data: data.decode("raw-unicode-escape").encode("latin-1"),
}


def read_bin(path: Path) -> Pack:
    """The images of a verification set, named `0000/left`, `0000/right`, `0001/left` and so on, of nobody known."""
    images, genuine = find_pairs(path)
    files = _files(path, images, len(genuine))
    for name, image in zip(files.names, images, strict=True):
        if fault := _size_fault(image):
            raise ValueError(f"{path}: record {name} at byte {image.offset}: {fault}")
    identities = Coded((NOBODY,), np.zeros(len(images), np.int64))
    return Pack(path, "bin", files.names, identities, files, read_source(path, ()))


def read_bin_pairs(path: str | Path) -> PairList:
    """The pairs of a verification set, without folds; the images have the names that `read_bin` gives them."""
    _, genuine = find_pairs(Path(path))
    left, right = _names(len(genuine))
    return PairList(left, right, tuple(genuine), source=str(path))


def _names(pairs: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    digits = max(4, len(str(pairs - 1)))
    left, right = (tuple(f"{pair:0{digits}}/{side}" for pair in range(pairs)) for side in ("left", "right"))
    return left, right


def _files(path: Path, images: Sequence[Bytes], pairs: int) -> PickledImages:
    names = Texts.of(name for pair in zip(*_names(pairs), strict=True) for name in pair)
    offsets, sizes, forms = np.array([(image.offset, image.size, image.form) for image in images], np.int64).T
    return PickledImages(Spans((path,), names, offsets, sizes), forms)


def _size_fault(image: Bytes) -> str:
    if not image.size:
        return "no bytes"
    return "" if image.size <= MAX_BYTES else f"{image.size} bytes, more than the {MAX_BYTES} allowed for an image file"


def _faults(path: Path) -> Iterator[Fault]:
    """The fault that makes the pickle unreadable, or each image with no bytes, too many, or text that encodes none."""
    try:
        images, genuine = find_pairs(path)
    except (ValueError, OSError) as error:
        yield Fault(str(path), "", None, str(error).removeprefix(f"{path}: "))
        return
    files = _files(path, images, len(genuine))
    for position, (name, image) in enumerate(zip(files.names, images, strict=True)):
        fault = _size_fault(image)
        if not fault and image.form != PLAIN:
            try:
                list(files.read([position]))
            except ValueError as error:
                fault = str(error).removeprefix(f"{path}: record {name} at byte {image.offset}: ")
        if fault:
            yield Fault(str(path), name, image.offset, fault)


BIN = Format(
    "bin",
    "a verification set of InsightFace (.bin)",
    lambda path: path.suffix.lower() == SUFFIX and not path.is_dir(),
    read_bin,
    _faults,
    None,
    holds=frozenset({"names"}),
)
