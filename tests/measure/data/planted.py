"""The faults that are planted, one in a set, and what `data verify` must say of each.

A further format brings a function that writes the sound images in it, and plants of its own: a `Plant` each, in `PLANTS`.
"""

import json
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from measure.data.planting import NAMES, SOUND, Plant, archive, folder, image, listed
from verisphere.measure.data.convert import convert

# --- faults that any format can have: put into the rows, and written by a converter's writer or by hand ---------------

_BYTES = {
    "bytes of no image": (b"no image at all, but some text", "do not begin as a file of"),
    "a JPEG cut short": (b"\xff\xd8\xff\xe0" + bytes(40), "not an image that can be decoded"),
    "a PNG cut short": (image(2)[:70], "not an image that can be decoded"),
    "a format that is not read": (b"GIF89a" + bytes(20), "it is GIF"),
    "other proportions": (image(9, width=20), "would stretch by a factor of more than 1.5"),
    "the bytes of another person's image": (SOUND[0].data, "the same bytes as "),
    "an empty file": (b"", "empty"),
}


def _content(write: Callable[[Path, dict[str, bytes]], Path], data: bytes) -> Callable[[Path], Path]:
    return lambda root: write(root, {"Ben/1.png": data})


def _folder_with(root: Path, changed: dict[str, bytes]) -> Path:
    path = folder(root)
    for name, data in changed.items():
        (path / name).parent.mkdir(exist_ok=True, parents=True)
        (path / name).write_bytes(data)
    return path


def _archive_with(root: Path, changed: dict[str, bytes]) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(root / "faces.zip", "w") as file:
        for row in SOUND:
            file.writestr(zipfile.ZipInfo(row.name), changed.get(row.name, row.data))
        for name in changed.keys() - set(NAMES):
            file.writestr(zipfile.ZipInfo(name), changed[name])
    return root / "faces.zip"


def _list_with(root: Path, changed: dict[str, bytes]) -> Path:
    path = listed(root)
    _folder_with(root, changed)
    return path


def _contents() -> Iterator[Plant]:
    for form, write, file, record in (
        ("folder", _folder_with, "faces/Ben/1.png", "Ben/1.png"),
        ("zip", _archive_with, "faces.zip", "Ben/1.png"),
        ("list", _list_with, "faces/Ben/1.png", "faces/Ben/1.png"),
    ):
        for name, (data, says) in _BYTES.items():
            expected = "0 bytes" if form == "list" and not data else says
            yield Plant(form, name, _content(write, data), file, record, expected)


# --- labels -----------------------------------------------------------------------------------------------------------


def _lines(*lines: str, header: bool = True) -> Callable[[Path], Path]:
    """A list with these lines beside the sound ones."""

    def make(root: Path) -> Path:
        path = listed(root, header)
        with path.open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))
        return path

    return make


def _with_extra_image(make: Callable[[Path], Path], seed: int = 50) -> Callable[[Path], Path]:
    def made(root: Path) -> Path:
        path = make(root)
        (root / "faces" / "x.png").write_bytes(image(seed))
        return path

    return made


# --- archives ---------------------------------------------------------------------------------------------------------


def _changed_archive(change: Callable[[bytearray, int, int], object]) -> Callable[[Path], Path]:
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


def _set(field: int, form: str, value: int, of_entry: bool = True) -> Callable[[bytearray, int, int], object]:
    return lambda content, header, entry: struct.pack_into(
        form, content, (entry if of_entry else header) + field, value
    )


def _flip(content: bytearray, header: int, entry: int) -> None:
    content[header + 60] ^= 0xFF


def _renamed(name: bytes) -> Callable[[Path], Path]:
    """An archive in which Ben/1.png has another name of nine bytes, in both places."""

    def change(content: bytearray, header: int, entry: int) -> None:
        content[header + 30 : header + 39] = name
        content[entry + 46 : entry + 55] = name

    return _changed_archive(change)


def _swap(content: bytearray, header: int, entry: int) -> None:
    """Ben/1.png and Cem/1.png exchange the places at which their entries are said to lie."""
    other = content.index(b"Cem/1.png", content.index(b"PK\x01\x02")) - 46
    for first, last in ((16, 28), (42, 46)):  # CRC and sizes; offset
        one, two = content[entry + first : entry + last], content[other + first : other + last]
        content[entry + first : entry + last], content[other + first : other + last] = two, one


def _cut(root: Path) -> Path:
    path = archive(root)
    path.write_bytes(path.read_bytes()[:-30])
    return path


# --- manifests --------------------------------------------------------------------------------------------------------


def _converted(suffix: str, change: Callable[[Path, dict], object]) -> Callable[[Path], Path]:
    """The sound images converted, with a change of the pack or of the content of its manifest."""

    def make(root: Path) -> Path:
        out = root / f"out{suffix}"
        convert(folder(root), out)
        about = out / "manifest.json" if out.is_dir() else root / "out.manifest.json"
        content = json.loads(about.read_text())
        change(out, content)
        about.write_text(json.dumps(content))
        return out

    return make


def _other_bytes(out: Path, content: dict) -> None:
    (out / "Ben/1.png").write_bytes(image(77))


def _removed(out: Path, content: dict) -> None:
    (out / "Ben/1.png").unlink()
    content["images"] = 5


def _added(out: Path, content: dict) -> None:
    (out / "Ben/3.png").write_bytes(image(78))
    content["images"] = 7


def _states(key: str, value: object) -> Callable[[Path, dict], None]:
    return lambda out, content: content.update({key: value})


def _digest_of_none(out: Path, content: dict) -> None:
    content["sha256"][out.name] = "0" * 64


def _outside(out: Path, content: dict) -> None:
    content["sha256"]["../faces/Ann/1.png"] = "0" * 64


# --- folders ----------------------------------------------------------------------------------------------------------


def _then(change: Callable[[Path], object]) -> Callable[[Path], Path]:
    def make(root: Path) -> Path:
        path = folder(root)
        change(path)
        return path

    return make


def _deep(path: Path) -> None:
    (path / "Ben" / "more").mkdir()
    (path / "Ben" / "1.png").rename(path / "Ben" / "more" / "1.png")


PLANTS = (
    *_contents(),
    # labels
    Plant(
        "folder",
        "one image",
        lambda root: _folder_with(root, {"Dan/1.png": image(40)}),
        "Dan/1.png",
        "Dan/1.png",
        "the only image of the identity 'Dan'",
    ),
    Plant(
        "zip",
        "one image",
        lambda root: _archive_with(root, {"Dan/1.png": image(40)}),
        "faces.zip",
        "Dan/1.png",
        "the only image of the identity 'Dan'",
    ),
    Plant(
        "list",
        "one image",
        _with_extra_image(_lines("faces/x.png,Dan")),
        "faces/x.png",
        "faces/x.png",
        "the only image of the identity 'Dan'",
    ),
    Plant(
        "list",
        "a label out of range",
        _with_extra_image(_lines("faces/x.png,-7")),
        "faces/x.png",
        "faces/x.png",
        "the label -7 is out of range",
    ),
    Plant(
        "folder",
        "a label out of range",
        lambda root: _folder_with(root, {"-2/1.png": image(41)}),
        "-2/1.png",
        "-2/1.png",
        "the label -2 is out of range",
    ),
    # folders
    Plant(
        "folder",
        "an image outside of a person's folder",
        lambda root: _folder_with(root, {"x.png": image(42)}),
        "faces",
        "x.png",
        "is not Name/image",
    ),
    Plant("folder", "an image too deep", _then(_deep), "faces", "Ben/more/1.png", "is not Name/image"),
    Plant(
        "folder",
        "a person without images",
        _then(lambda path: (path / "Dan").mkdir()),
        "faces/Dan",
        "Dan",
        "an empty folder",
    ),
    Plant(
        "folder",
        "a link to nothing",
        _then(lambda path: (path / "Ben/3.png").symlink_to("gone.png")),
        "Ben/3.png",
        "Ben/3.png",
        "cannot be read",
    ),
    Plant(
        "folder",
        "a link in a circle",
        _then(lambda path: (path / "Ben/3.png").symlink_to("3.png")),
        "Ben/3.png",
        "Ben/3.png",
        "cannot be read",
    ),
    Plant(
        "folder",
        "changed since it was converted",
        _converted("", _other_bytes),
        "out/Ben/1.png",
        "Ben/1.png",
        "but the manifest states",
    ),
    Plant(
        "folder",
        "removed since it was converted",
        _converted("", _removed),
        "out/Ben/1.png",
        "Ben/1.png",
        "which is not there",
        1,
    ),
    Plant(
        "folder",
        "added since it was converted",
        _converted("", _added),
        "out/Ben/3.png",
        "Ben/3.png",
        "not in manifest.json",
    ),
    Plant(
        "folder",
        "a manifest of another number",
        _converted("", _states("images", 9)),
        "manifest.json",
        "",
        "it states 9 images, but there are 6",
    ),
    Plant(
        "folder",
        "a manifest of another format",
        _converted("", _states("pack", "tar")),
        "manifest.json",
        "",
        "it is of a 'tar', and this is a folder",
    ),
    Plant(
        "folder",
        "a manifest that names a file outside",
        _converted("", _outside),
        "Ann/1.png",
        "../faces/Ann/1.png",
        "outside its folder",
    ),
    # archives
    Plant("zip", "a changed byte", _changed_archive(_flip), "faces.zip", "Ben/1.png", "a wrong CRC"),
    Plant("zip", "a wrong CRC", _changed_archive(_set(16, "<I", 7)), "faces.zip", "Ben/1.png", "a wrong CRC"),
    Plant(
        "zip",
        "a wrong magic",
        _changed_archive(_set(0, "<I", 7, of_entry=False)),
        "faces.zip",
        "Ben/1.png",
        "no archive entry at byte",
    ),
    Plant("zip", "a size that is too small", _changed_archive(_set(20, "<I", 9)), "faces.zip", "Ben/1.png", "9 of"),
    Plant(
        "zip",
        "a size beyond the end",
        _changed_archive(_set(20, "<I", 200_000_000)),
        "faces.zip",
        "Ben/1.png",
        "bytes, or a wrong CRC",
    ),
    Plant(
        "zip",
        "a size that no image has",
        _changed_archive(_set(24, "<I", 400_000_000)),
        "faces.zip",
        "Ben/1.png",
        "more than the 256000000 allowed",
    ),
    Plant(
        "zip",
        "an offset past the end",
        _changed_archive(_set(42, "<I", 1 << 30)),
        "faces.zip",
        "Ben/1.png",
        "behind the end of the archive",
    ),
    Plant(
        "zip",
        "swapped entries",
        _changed_archive(_swap),
        "faces.zip",
        "Ben/1.png",
        "the entry itself has the name 'Cem/1.png'",
        1,
    ),
    Plant("zip", "an encrypted entry", _changed_archive(_set(8, "<H", 1)), "faces.zip", "Ben/1.png", "is encrypted"),
    Plant(
        "zip",
        "a method that is not read",
        _changed_archive(_set(10, "<H", 14)),
        "faces.zip",
        "Ben/1.png",
        "by method 14",
    ),
    Plant(
        "zip",
        "damaged compression",
        _changed_archive(_set(10, "<H", 8)),
        "faces.zip",
        "Ben/1.png",
        "damaged archive entry",
    ),
    Plant(
        "zip",
        "a symbolic link",
        _changed_archive(_set(38, "<I", 0o120777 << 16)),
        "faces.zip",
        "Ben/1.png",
        "is a symbolic link",
    ),
    Plant("zip", "a name that leads outside", _renamed(b"../b1.png"), "faces.zip", "../b1.png", "unsafe name"),
    Plant("zip", "an absolute name", _renamed(b"/en/1.png"), "faces.zip", "/en/1.png", "unsafe name"),
    Plant("zip", "a name with a backslash", _renamed(b"Ben\\1.png"), "faces.zip", "Ben\\1.png", "unsafe name"),
    Plant("zip", "a name twice", _renamed(b"Ann/1.png"), "faces.zip", "Ann/1.png", "a second entry of this name"),
    Plant(
        "zip",
        "an image outside of a person's folder",
        _renamed(b"Ben-1.png"),
        "faces.zip",
        "Ben-1.png",
        "is not Name/image",
    ),
    Plant("zip", "cut short", _cut, "faces.zip", "", "not a zip archive"),
    Plant(
        "zip",
        "changed since it was converted",
        _converted(".zip", _digest_of_none),
        "out.zip",
        "out.zip",
        "but the manifest states 000",
    ),
    # lists
    Plant(
        "list",
        "an image that is not there",
        _lines("faces/gone.png,Ann"),
        "list.csv",
        "faces/gone.png",
        "line 8: no file",
    ),
    Plant(
        "list",
        "a line too short",
        _lines("faces/Ann/1.png"),
        "list.csv",
        "line 8",
        "1 values where the header has 2 columns",
    ),
    Plant(
        "list",
        "an empty identity",
        _with_extra_image(_lines("faces/x.png,")),
        "list.csv",
        "faces/x.png",
        "line 8: identity '' has 0 characters",
    ),
    Plant(
        "list",
        "an identity too long",
        _with_extra_image(_lines(f"faces/x.png,{'x' * 300}")),
        "list.csv",
        "faces/x.png",
        "has 300 characters",
    ),
    Plant("list", "no image", _lines("faces/notes.txt,Ann"), "list.csv", "faces/notes.txt", "is no image"),
    Plant(
        "list",
        "an image twice",
        _lines("faces/Ann/1.png,Ben"),
        "list.csv",
        "faces/Ann/1.png",
        "line 8: 'faces/Ann/1.png' is already on line 2",
    ),
    Plant(
        "list",
        "no identity",
        _with_extra_image(_lines("faces/x.png", header=False)),
        "list.lst",
        "faces/x.png",
        "line 7: no identity after",
    ),
    Plant(
        "list",
        "two images",
        _with_extra_image(_lines("faces/x.png faces/Ann/1.png", header=False)),
        "list.lst",
        "faces/x.png",
        "two images",
    ),
    Plant(
        "list",
        "a line that is none",
        _lines("what is this?", header=False),
        "list.lst",
        "line 7",
        "is not `image path<TAB>identity`",
    ),
)
