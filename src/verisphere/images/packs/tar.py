"""Tar archives of WebDataset: a sample is consecutive members with one key, `KEY.jpg` with `KEY.cls` or `KEY.json`.

Layout: that of WebDataset (github.com/webdataset/webdataset, `base_plus_ext` and `group_by_keys`): the key is all of a
path up to the first dot of its last part. Folders, members whose last part begins with a dot or has none, and members
named `__...__` are skipped, as there. `verisphere.images.packs.tar_members` reads the archive.

The archive must be uncompressed. It is indexed when it is opened: one read for each sample, of its headers and small
members; images are skipped.
"""

import json
import os
import re
import tarfile
from collections.abc import Generator, Iterable, Iterator
from io import BytesIO
from pathlib import Path

from verisphere.files.disk import regular
from verisphere.files.documents import read_json
from verisphere.files.errors import Fault, fault_of
from verisphere.files.image_suffixes import SUFFIXES
from verisphere.files.json_values import shortened, shown
from verisphere.images.packs.pack import Format, Pack, Row
from verisphere.images.packs.records import LONGEST_IMAGE_NAME, Record, as_text, contents_of_records, text_fault
from verisphere.images.packs.tar_members import MOST_TEXT, Member, Window, members

_META = re.compile(r"__[^/]*__($|/)")
_IMAGES = frozenset(suffix.removeprefix(".") for suffix in SUFFIXES)
_COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
_SHARDS = re.compile(r"(.*)\{([0-9]{1,9})\.\.([0-9]{1,9})\}(.*\.tar)", re.DOTALL)
_MOST_SHARDS = 100_000


def is_tar(path: Path) -> bool:
    """Whether a path is meant as a WebDataset: a tar archive, shards in braces, or a folder with nothing but shards."""
    if path.is_dir():
        return bool(_shards_in(path))
    return path.name.lower().endswith((".tar", *_COMPRESSED))


def is_brace_form(path: Path) -> bool:
    """Whether a path stands for numbered shards, such as `faces-{000000..000012}.tar`."""
    return _SHARDS.fullmatch(path.name) is not None


def _contents(path: Path, thorough: bool) -> Generator[Fault, None, Pack | None]:
    """The samples of a WebDataset, in their order; after a damaged header, the next one is searched for.

    The identity of a sample is the text of `KEY.cls`, or `identity`, `label` or `cls` of the object in `KEY.json`,
    which may have a `name` and a `domain` too. Without `name`, the name of the image is the path of its member. The
    archives of a folder, which has nothing else but descriptions (.json .txt .csv .md), are read in the order of their
    names.
    """
    shards = _shards(path)
    return (yield from contents_of_records(path, TAR.name, shards, _records(shards), thorough))


def _shards(path: Path) -> tuple[Path, ...]:
    if path.is_dir():
        return _shards_in(path)
    if path.exists():
        return (path,)
    braces = _SHARDS.fullmatch(path.name)
    if braces is None:
        raise FileNotFoundError(f"{path}: no such archive")
    before, first, last, after = braces.groups()
    if not 0 <= int(last) - int(first) < _MOST_SHARDS:
        raise ValueError(f"{path}: {first}..{last} are no 1 to {_MOST_SHARDS:,} shards")
    numbers = range(int(first), int(last) + 1)
    shards = tuple(path.with_name(f"{before}{number:0{len(first)}}{after}") for number in numbers)
    for shard in shards:
        if not shard.is_file():
            raise FileNotFoundError(f"{shard}: no such shard of {path.name}")
    return shards


def _shards_in(folder: Path) -> tuple[Path, ...]:
    """The archives in a folder, sorted; empty if the folder has anything but archives and descriptions."""
    shards = []
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name.lower()
            if name.endswith(".tar") and entry.is_file():
                shards.append(folder / entry.name)
            elif not name.endswith((".json", ".txt", ".csv", ".md")) and not name.startswith("."):
                return ()
    return tuple(sorted(shards))


# --- samples ---


def _records(shards: tuple[Path, ...]) -> Iterator[Record | Fault]:
    """The sample of each key in each shard, or its fault."""
    for part, path in enumerate(shards):
        try:
            with open(path, "rb", buffering=0, opener=regular) as opened:
                file = Window(path, opened.fileno())
                yield from _samples(file, part)
        except OSError as error:
            yield Fault(str(path), "", None, f"cannot be read ({error.strerror})")
        except ValueError as error:
            yield fault_of(error, path)


def _samples(file: Window, part: int) -> Iterator[Record | Fault]:
    key = ""
    sample: dict[str, Member] = {}
    for member in members(file):
        if isinstance(member, Fault):
            yield member
            continue
        name = member.name
        begin = name.rfind("/") + 1
        dot = name.find(".", begin)
        if dot <= begin or (name.startswith("__") and _META.match(name)):
            continue
        if name[:dot] != key:
            if sample:
                yield from _sample(file, part, sample)
            key, sample = name[:dot], {}
        suffix = name[dot + 1 :].lower()
        if suffix in sample:
            yield Fault(file.name, name, member.offset, f"the sample {shown(key, 200)} has two members .{suffix}")
        elif suffix in _IMAGES or suffix in ("cls", "json"):
            sample[suffix] = member
    if sample:
        yield from _sample(file, part, sample)


def _sample(file: Window, part: int, sample: dict[str, Member]) -> Iterator[Record | Fault]:
    """The record of a sample, or its fault."""
    images = [member for suffix, member in sample.items() if suffix in _IMAGES]
    first = images[0] if images else next(iter(sample.values()))
    try:
        fields = _fields(file, sample)
        if len(images) > 1:
            raise ValueError(f"{len(images)} images in one sample; the key of a sample ends at the first dot")
        if not images:
            raise ValueError("a sample without an image; all members of a sample follow one another")
        name, identity, domain = fields.get("name", first.name), fields.get("identity"), fields.get("domain")
        if identity is None:
            raise ValueError("a sample without an identity; it lies in KEY.cls or KEY.json, next to the image")
        reason = (
            text_fault("name", name, LONGEST_IMAGE_NAME)
            or text_fault("identity", identity)
            or (None if domain is None else text_fault("domain", domain))
        )
        if reason:
            raise ValueError(reason)
    except ValueError as error:
        yield Fault(file.name, shortened(first.name, 200), first.offset, str(error))
        return
    yield Record(str(name), str(identity), first.offset, first.size, None if domain is None else str(domain), part)


def _fields(file: Window, sample: dict[str, Member]) -> dict[str, object]:
    """Name, identity and domain, as far as the small members of a sample state them."""
    fields: dict[str, object] = {}
    if "json" in sample:
        content = read_json(_text(file, sample["json"]))
        if not isinstance(content, dict):
            raise ValueError(f"its .json is {shown(content)}, not an object")
        stated = [as_text(content[name]) for name in ("identity", "label", "cls") if content.get(name) is not None]
        fields = {name: as_text(content[name]) for name in ("name", "domain") if content.get(name) is not None}
        if stated:
            fields["identity"] = stated[0]
    if "cls" in sample:
        identity = _text(file, sample["cls"]).strip()
        if fields.setdefault("identity", identity) != identity:
            raise ValueError(f".json has the identity {shown(fields['identity'])}, and .cls has {shown(identity)}")
    return fields


def _text(file: Window, member: Member) -> str:
    suffix = member.name[member.name.rfind(".") :]
    if member.size > MOST_TEXT:
        raise ValueError(f"its {suffix} has {member.size:,} bytes; allowed are {MOST_TEXT:,}")
    try:
        return file.read(member.offset, member.size).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"its {suffix} is not UTF-8 text (byte {member.offset + error.start})") from None


# --- writing ---


def write_tar(path: Path, rows: Iterable[Row]) -> None:
    """Writes samples `000000000.jpg` and `000000000.json`; the object in .json has the name, identity and domain.

    An image keeps the suffix of its name, or gets .jpg if its name does not end in the suffix of an image.
    """
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for number, row in enumerate(rows):
            suffix = os.path.splitext(row.name)[1].lower()
            fields = {"name": row.name, "identity": row.identity}
            if row.domain is not None:
                fields["domain"] = row.domain
            text = json.dumps(fields, ensure_ascii=False).encode()
            for ending, content in ((suffix if suffix in SUFFIXES else ".jpg", row.data), (".json", text)):
                member = tarfile.TarInfo(f"{number:09}{ending}")
                member.size = len(content)
                archive.addfile(member, BytesIO(content))
            archive.members = []  # type: ignore[attr-defined]  # else it holds the header of every member


TAR = Format(
    "tar",
    "a .tar of WebDataset (KEY.jpg with KEY.cls or KEY.json), a folder of such shards, or shards-{000..012}.tar",
    is_tar,
    _contents,
    write_tar,
    ".tar",
)
