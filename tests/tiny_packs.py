"""A few rows that every format must give back, and what a damaged pack may do."""

import os
import pickle
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from verisphere.base.vocabulary import NOBODY
from verisphere.files.errors import Fault
from verisphere.images.packs.formats import open_pack
from verisphere.images.packs.pack import Format, Pack, Row

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c6360606000000004000127"
    "34270a0000000049454e44ae426082"
)

#: Names with dots, slashes and letters of other scripts, not sorted; of a large image, too.
ROWS = (
    Row("Zo\u00eb/b.c.png", "Ann", PNG, "indoor"),
    Row("m.01/1-FaceId 0", "-", b"\xff\xd8" + bytes(range(256)) * 40, "outdoor"),
    Row("\u674e/1.JPG", "\u674e \u5c0f\u9f99", PNG + b"1", "indoor"),
    Row("a/1.webp", NOBODY, PNG + b"2", "\u5c4b\u5916"),
    Row('quote"d\\.bmp', '{"a": 1}', PNG + b"3", "indoor"),
    Row("a/0.png", "Ann", PNG + b"4", "indoor"),
)


def contents(pack: Pack) -> list[bytes]:
    """The bytes of every image."""
    return [data for _, data in pack.files.read(range(len(pack)))]


def check_round_trip(form: Format, path: Path) -> None:
    """That all rows come back in their order, with domains and without, whole and in part, and from a copy."""
    assert form.write is not None
    bare = path.with_name(f"bare-{path.name}")
    form.write(path, iter(ROWS))
    form.write(bare, (Row(row.name, row.identity, row.data) for row in ROWS))
    for place, domains in ((path, [row.domain for row in ROWS]), (bare, None)):
        pack = open_pack(place)
        assert (pack.format, pack.path, len(pack)) == (form.name, place, len(ROWS))
        assert list(pack.names) == [row.name for row in ROWS]
        assert list(pack.identities) == [row.identity for row in ROWS]
        assert (None if pack.domains is None else list(pack.domains)) == domains
        assert contents(pack) == [row.data for row in ROWS]
        assert [data for _, data in pack.files.read([5, 1, 1])] == [ROWS[place].data for place in (5, 1, 1)]
        copy: Pack = pickle.loads(pickle.dumps(pack.keep([4, 0])))
        assert list(copy.names) == [ROWS[4].name, ROWS[0].name]
        assert contents(copy) == [ROWS[4].data, ROWS[0].data]
        assert list(copy.identities) == [ROWS[4].identity, ROWS[0].identity]
        assert ROWS[4].name.split("/")[0][:4] in next(copy.files.read([0]))[0]
        assert list(form.faults(place)) == []


def canary_pickle(folder: Path) -> tuple[bytes, Path]:
    """A pickle that makes a folder when it is loaded, and the folder."""

    class Evil:
        def __reduce__(self) -> tuple[Callable[..., None], tuple[str]]:
            return os.mkdir, (str(folder / "canary"),)

    return pickle.dumps(Evil()), folder / "canary"


def damaged(content: bytes, ways: int = 200) -> list[bytes]:
    """A file cut short, with flipped bits, with parts swapped or filled, and with numbers that lie; always the same."""
    chance = random.Random(20)
    files = []
    for way in range(ways):
        data = bytearray(content)
        place = chance.randrange(len(data))
        if way % 5 == 0:
            del data[place:]
        elif way % 5 == 1:
            for _ in range(1 + way // 40):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        elif way % 5 == 2:
            size = min(1 << chance.randrange(3, 12), len(data) // 3)
            first, second = sorted(
                (chance.randrange(len(data) // 2 - size), chance.randrange(len(data) // 2, len(data) - size))
            )
            data[first : first + size], data[second : second + size] = (
                data[second : second + size],
                data[first : first + size],
            )
        elif way % 5 == 3:
            number = chance.choice(
                (b"\xff" * 8, b"\0" * 8, b"\xff\xff\xff\x7f", b"77777777777\0", b"\x80" + b"\xff" * 11)
            )
            data[place : place + len(number)] = number
        else:
            data[place:place] = data[chance.randrange(len(data)) :][: chance.randrange(1, 600)]
        files.append(bytes(data))
    return files


def is_refused(form: Format, path: Path) -> bool:
    """Whether reading a whole pack ends with the line of an error; anything but a line, or no fault, fails."""
    faults = list(form.faults(path))
    assert all(isinstance(fault, Fault) for fault in faults)
    assert not any("\n" in str(fault) for fault in faults), faults
    try:
        pack = form.read(path)
    except (ValueError, OSError) as error:
        check_line(str(error), path)
        return len(faults) > 0 or pytest.fail(f"refused without a fault: {error}")
    try:
        contents(pack)
    except ValueError as error:
        check_line(str(error), path)
        return True
    return False


def check_line(line: str, path: Path) -> None:
    """That an error is one line which names the file."""
    assert "\n" not in line, line
    assert path.name.split(".")[0] in line, line


def check_damaged(form: Format, path: Path, file: Path, ways: int = 200) -> None:
    """That a pack with a damaged file gives one line or is read, and that a pack which is refused has a fault."""
    content = file.read_bytes()
    refused = 0
    for data in damaged(content, ways):
        file.write_bytes(data)
        refused += is_refused(form, path)
    assert refused > ways // 4  # the damage is damage
