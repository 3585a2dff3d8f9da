"""Small sets of images in each format that is written by hand, and what damages them."""

import io
import json
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from verisphere.images.packs.formats import FORMATS
from verisphere.images.packs.pack import Format, Row
from verisphere.measure.data.convert import convert


def image(seed: int, width: int = 8, height: int = 8) -> bytes:
    """A small PNG; every seed gives other pixels."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


NAMES = ("Ann/1.png", "Ann/2.png", "Ben/1.png", "Ben/2.png", "Cem/1.png", "Cem/2.png")
SOUND = tuple(Row(name, name.split("/")[0], image(seed)) for seed, name in enumerate(NAMES))


def folder(root: Path) -> Path:
    """The sound images as a folder."""
    for row in SOUND:
        path = root / "faces" / row.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(row.data)
    return root / "faces"


def archive(root: Path, method: int = zipfile.ZIP_STORED) -> Path:
    """The sound images as a zip archive."""
    root.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(root / "faces.zip", "w", method) as file:
        for row in SOUND:
            file.writestr(zipfile.ZipInfo(row.name), row.data, method)
    return root / "faces.zip"


def listed(root: Path, header: bool = True) -> Path:
    """The sound images as a list beside a folder."""
    folder(root)
    lines = [f"faces/{row.name},{row.identity}" for row in SOUND]
    path = root / ("list.csv" if header else "list.lst")
    path.write_text("\n".join([*(["name,identity"] if header else []), *lines]) + "\n")
    return path


@dataclass(frozen=True)
class Plant:
    """A fault in a set.

    Attributes:
        format: name of the format.
        name: the fault, in words.
        make: writes the set below a folder, and returns its path.
        file: end of the path of the file that the fault names; `IMAGES` for the file in which the images lie.
        record: the record that the fault names.
        says: words of its reason.
        others: how many further faults the same damage gives.
    """

    format: str
    name: str
    make: Callable[[Path], Path]
    file: str
    record: str
    says: str
    others: int = 0


def in_folder(
    name: str, make: Callable[[Path], Path], record: str, says: str, file: str | None = None, others: int = 0
) -> Plant:
    """A fault in a folder; it names the image's own file."""
    return Plant("folder", name, make, record if file is None else file, record, says, others)


def in_zip(
    name: str,
    make: Callable[[Path], Path],
    says: str,
    record: str = "Ben/1.png",
    file: str = "faces.zip",
    others: int = 0,
) -> Plant:
    """A fault in an archive, of Ben's first image."""
    return Plant("zip", name, make, file, record, says, others)


def in_list(name: str, make: Callable[[Path], Path], record: str, says: str, file: str = "list.csv") -> Plant:
    """A fault in a list."""
    return Plant("list", name, make, file, record, says)


# --- faults that any format can have: put into the rows, and written by a converter's writer or by hand ---------------

BYTES = {
    "bytes of no image": (
        b"no image at all, but some text",
        "not an image: the file's first bytes match no known format",
    ),
    "a JPEG cut short": (b"\xff\xd8\xff\xe0" + bytes(40), "not an image that can be decoded"),
    "a PNG cut short": (image(2)[:70], "not an image that can be decoded"),
    "a format that is not read": (b"GIF89a" + bytes(20), "it is GIF"),
    "other proportions": (image(9, width=20), "would stretch by a factor of more than 1.5"),
    "the bytes of another person's image": (SOUND[0].data, "the same bytes as "),
    "an empty file": (b"", "empty"),
}


def content_of(write: Callable[[Path, dict[str, bytes]], Path], changed: dict[str, bytes]) -> Callable[[Path], Path]:
    """A set with these images changed or added."""
    return lambda root: write(root, changed)


def content(write: Callable[[Path, dict[str, bytes]], Path], data: bytes) -> Callable[[Path], Path]:
    return lambda root: write(root, {"Ben/1.png": data})


def folder_with(root: Path, changed: dict[str, bytes]) -> Path:
    path = folder(root)
    for name, data in changed.items():
        (path / name).parent.mkdir(exist_ok=True, parents=True)
        (path / name).write_bytes(data)
    return path


def archive_with(root: Path, changed: dict[str, bytes]) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(root / "faces.zip", "w") as file:
        for row in SOUND:
            file.writestr(zipfile.ZipInfo(row.name), changed.get(row.name, row.data))
        for name in changed.keys() - set(NAMES):
            file.writestr(zipfile.ZipInfo(name), changed[name])
    return root / "faces.zip"


def list_with(root: Path, changed: dict[str, bytes]) -> Path:
    path = listed(root)
    folder_with(root, changed)
    return path


def written(known: Format) -> Callable[[Path, dict[str, bytes]], Path]:
    """The images as the writer of a format writes them, with these changed or added."""

    def write(root: Path, changed: dict[str, bytes]) -> Path:
        rows = {row.name: row for row in SOUND} | {
            name: Row(name, name.split("/")[0], data) for name, data in changed.items()
        }
        path = root / f"faces{known.suffix}"
        assert known.write is not None
        known.write(path, iter(rows.values()))
        return path

    return write


IMAGES = ""
#: Formats that the plants below do not write by hand.
OTHERS = [known for known in FORMATS if known.write is not None and not known.by_path]


def contents() -> Iterator[Plant]:
    """Faults of the content of an image, in every format."""
    for known in OTHERS:
        for name, (data, says) in BYTES.items():
            if data:  # an empty image is a matter of each format, and of its own plants
                yield Plant(known.name, name, content(written(known), data), IMAGES, "Ben/1.png", says)
        single = content_of(written(known), {"Dan/1.png": image(40)})
        yield Plant(known.name, "one image", single, IMAGES, "Dan/1.png", "the only image of the identity")
    for form, write, file, record in (
        ("folder", folder_with, "faces/Ben/1.png", "Ben/1.png"),
        ("zip", archive_with, "faces.zip", "Ben/1.png"),
        ("list", list_with, "faces/Ben/1.png", "faces/Ben/1.png"),
    ):
        for name, (data, says) in BYTES.items():
            yield Plant(form, name, content(write, data), file, record, says)


# --- labels -----------------------------------------------------------------------------------------------------------


def lines(*lines: str, header: bool = True) -> Callable[[Path], Path]:
    """A list with these lines beside the sound ones."""

    def make(root: Path) -> Path:
        path = listed(root, header)
        with path.open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))
        return path

    return make


def with_extra_image(make: Callable[[Path], Path], seed: int = 50) -> Callable[[Path], Path]:
    def made(root: Path) -> Path:
        path = make(root)
        (root / "faces" / "x.png").write_bytes(image(seed))
        return path

    return made


# --- archives ---------------------------------------------------------------------------------------------------------


def changed_archive(change: Callable[[bytearray, int, int], object]) -> Callable[[Path], Path]:
    """An archive with a change in the bytes; the change gets them, and where Ben/1.png's header and entry lie."""

    def make(root: Path) -> Path:
        path = archive(root)
        content = bytearray(path.read_bytes())
        header = content.index(b"Ben/1.png") - 30
        entry = content.index(b"Ben/1.png", content.index(b"PK\x01\x02")) - 46
        change(content, header, entry)
        path.write_bytes(content)
        return path

    return make


def set_field(field: int, form: str, value: int, of_entry: bool = True) -> Callable[[bytearray, int, int], object]:
    return lambda content, header, entry: struct.pack_into(
        form, content, (entry if of_entry else header) + field, value
    )


def flip(content: bytearray, header: int, entry: int) -> None:
    content[header + 60] ^= 0xFF


def renamed(name: bytes) -> Callable[[Path], Path]:
    """An archive in which Ben/1.png has another name of nine bytes, in both places."""

    def change(content: bytearray, header: int, entry: int) -> None:
        content[header + 30 : header + 39] = name
        content[entry + 46 : entry + 55] = name

    return changed_archive(change)


def swap(content: bytearray, header: int, entry: int) -> None:
    """Ben/1.png and Cem/1.png exchange the places at which their entries are said to lie."""
    other = content.index(b"Cem/1.png", content.index(b"PK\x01\x02")) - 46
    for first, last in ((16, 28), (42, 46)):  # CRC and sizes; offset
        one, two = content[entry + first : entry + last], content[other + first : other + last]
        content[entry + first : entry + last], content[other + first : other + last] = two, one


def cut(root: Path) -> Path:
    path = archive(root)
    path.write_bytes(path.read_bytes()[:-30])
    return path


# --- manifests --------------------------------------------------------------------------------------------------------


def converted(suffix: str, change: Callable[[Path, dict], object]) -> Callable[[Path], Path]:
    """The sound images converted, with a change of the pack or of the content of its manifest."""

    def make(root: Path) -> Path:
        out = root / f"out{suffix}"
        convert(folder(root), out)
        about = out / "manifest.json" if out.is_dir() else root / f"{out.name}.manifest.json"
        content = json.loads(about.read_text())
        change(out, content)
        about.write_text(json.dumps(content))
        return out

    return make


def other_bytes(out: Path, content: dict) -> None:
    (out / "Ben/1.png").write_bytes(image(77))


def removed(out: Path, content: dict) -> None:
    (out / "Ben/1.png").unlink()
    content["images"] = 5


def added(out: Path, content: dict) -> None:
    (out / "Ben/3.png").write_bytes(image(78))
    content["images"] = 7


def states(key: str, value: object) -> Callable[[Path, dict], None]:
    return lambda out, content: content.update({key: value})


def digest_of_none(out: Path, content: dict) -> None:
    content["sha256"][out.name] = "0" * 64


def outside(out: Path, content: dict) -> None:
    content["sha256"]["../faces/Ann/1.png"] = "0" * 64


# --- folders ----------------------------------------------------------------------------------------------------------


def then(change: Callable[[Path], object]) -> Callable[[Path], Path]:
    def make(root: Path) -> Path:
        path = folder(root)
        change(path)
        return path

    return make


def deep(path: Path) -> None:
    (path / "Ben" / "more").mkdir()
    (path / "Ben" / "1.png").rename(path / "Ben" / "more" / "1.png")
