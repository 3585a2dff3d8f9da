"""Verification sets of InsightFace (`lfw.bin`, `cfp_fp.bin`, `agedb_30.bin`): encoded images and a list of pairs.

Such a file is a pickle of (list of 2n images, list of n booleans), in which the images 2i and 2i + 1 are pair i and the
boolean states whether they show one person (`recognition/common/face2rec` and `lfw2pack.py` of InsightFace). It is
unpickled in a process with limits, by names that stand for no code: see `unpickled_pairs`.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from verisphere.base.vocabulary import NOBODY
from verisphere.files.child import Task, in_child
from verisphere.files.disk import check_file
from verisphere.files.errors import Fault
from verisphere.files.image_suffixes import MAX_BYTES
from verisphere.files.images_json import read_source
from verisphere.files.pair_lists.pair_list import PairList
from verisphere.images.packs import unpickled_pairs
from verisphere.images.packs.columns import Coded, Texts
from verisphere.images.packs.image_files import ImageFiles, ReadInPlace
from verisphere.images.packs.pack import Format, Pack
from verisphere.images.packs.spans import Spans

SUFFIX = ".bin"

_TASK = Task(Path(unpickled_pairs.__file__), "cannot be unpickled as a list of pairs", "unpickling it takes", 120, 240)
_MEMORY, _TIMES = 256 << 20, 8  # bytes of Python, and how often the file may be in memory


@dataclass(frozen=True, eq=False)
class HeldImages(ReadInPlace):
    """Images in memory: those of a pickle in which they stand as text."""

    by_image = "names", "images"
    path: Path
    names: Sequence[str]
    images: tuple[bytes, ...]

    def read(self, positions: Sequence[int]) -> Iterator[tuple[str, bytes]]:
        """For each image its file and name as a text for error messages, and its bytes."""
        for position in positions:
            yield f"{self.path}: record {self.names[position]}", self.images[position]

    def place(self, position: int) -> tuple[str, None]:
        """The file."""
        return str(self.path), None


def _contents(path: Path, thorough: bool) -> Generator[Fault, None, Pack]:
    """The images of a verification set, named `0000/left`, `0000/right`, `0001/left` and so on, of nobody known."""
    files, sizes, _ = _unpickled(path)
    for position, size in enumerate(sizes):
        if not 0 < size <= MAX_BYTES:
            more = f"{size} bytes, more than the {MAX_BYTES} allowed for an image file"
            file, offset = files.place(position)
            yield Fault(file, files.names[position], offset, more if size else "no bytes")
    identities = Coded((NOBODY,), np.zeros(len(sizes), np.int64))
    return Pack(path, "bin", files.names, identities, files, read_source(path, ()))


def read_bin_pairs(path: str | Path) -> PairList:
    """The pairs of a verification set, without folds; the images have the names that the pack gives them."""
    _, _, genuine = _unpickled(Path(path))
    left, right = _names(len(genuine))
    return PairList(left, right, tuple(genuine), source=str(path))


def _names(pairs: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    digits = max(4, len(str(pairs - 1)))
    left, right = (tuple(f"{pair:0{digits}}/{side}" for pair in range(pairs)) for side in ("left", "right"))
    return left, right


def _unpickled(path: Path) -> tuple[ImageFiles, list[int], list[bool]]:
    """The images, the number of bytes of each, and whether each pair is genuine."""
    check_file(path)
    memory = _MEMORY + _TIMES * path.stat().st_size
    told, content = in_child(_TASK, path, {"path": str(path.absolute())}, memory)
    sizes, offsets = told["sizes"], told["offsets"]
    names = Texts.of(name for pair in zip(*_names(len(told["genuine"])), strict=True) for name in pair)
    if offsets is not None:
        return Spans((path,), names, np.array(offsets, np.int64), np.array(sizes, np.int64)), sizes, told["genuine"]
    ends = np.cumsum(sizes).tolist()
    images = tuple(content[end - size : end] for size, end in zip(sizes, ends, strict=True))
    return HeldImages(path, names, images), sizes, told["genuine"]


BIN = Format(
    "bin",
    "a verification set of InsightFace (.bin)",
    lambda path: path.suffix.lower() == SUFFIX and not path.is_dir(),
    _contents,
    None,
    holds=frozenset({"names"}),
)
