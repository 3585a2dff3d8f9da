"""Where an image of a pack lies, for the line on its fault."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from verisphere.packs.columns import Numbers
from verisphere.packs.image_files import FilesOnDisk
from verisphere.packs.pack import Fault, Pack
from verisphere.packs.places import fault_of, place_of
from verisphere.packs.spans import Spans
from verisphere.vocabulary import ImageSource


def pack(files) -> Pack:
    names = ("a", "b")
    return Pack(Path("all"), "fake", names, names, files, ImageSource("fake"))


SHARDS = Spans(
    (Path("0.tar"), Path("1.tar")),
    Numbers(np.arange(2)),
    np.array([512, 1024]),
    np.array([9, 9]),
    np.array([1, 0]),
    stamps=((0, 0), (0, 0)),
)


@dataclass
class Grouped:
    """Images of a format that has no bytes of its own for each."""

    names: tuple[str, ...] = ("a", "b")


@pytest.mark.parametrize(
    ("files", "first", "second"),
    [
        (SHARDS, ("1.tar", 512), ("0.tar", 1024)),
        (FilesOnDisk(Path("all"), ("x/a.png", "x/b.png")), ("all/x/a.png", None), ("all/x/b.png", None)),
        (Grouped(), ("all", None), ("all", None)),
    ],
)
def test_places(files, first: tuple, second: tuple):
    made = pack(files) if not isinstance(files, Grouped) else None
    if made is None:
        made = pack(SHARDS)
        object.__setattr__(made, "files", files)  # it is no whole `ImageFiles`
    assert (place_of(made, 0), place_of(made, 1)) == (first, second)


def test_the_place_stands_once_in_a_fault():
    whole = fault_of(pack(SHARDS), 1, "0.tar: record 1 at byte 1024: 3 of 9 bytes; is the file cut short?")
    assert whole == Fault("0.tar", "b", 1024, "3 of 9 bytes; is the file cut short?")
    assert fault_of(pack(SHARDS), 1, "all: what else").reason == "what else"
    assert fault_of(pack(SHARDS), 1, "what else").reason == "what else"
