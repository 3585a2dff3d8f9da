"""Every fault of a data set: in the structure of its format, its images, its labels and its manifest."""

import hashlib
import re
import signal
import warnings
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from jaxtyping import Int32, UInt64
from torch.utils.data import DataLoader, Dataset

from verisphere.base.identity import crowds, decided, folded, is_missing
from verisphere.base.vocabulary import NOBODY, Progress, printable, quietly
from verisphere.base.words import Names
from verisphere.files.disk import digest
from verisphere.files.errors import Fault, fault_of
from verisphere.files.json_values import shown
from verisphere.files.results import Result
from verisphere.files.text import LONGEST_NAME
from verisphere.images.decode import decode
from verisphere.images.packs.columns import coded, spelled_once
from verisphere.images.packs.file_names import people_of
from verisphere.images.packs.formats import format_of
from verisphere.images.packs.image_files import FilesOnDisk, counted
from verisphere.images.packs.manifest import manifest_path, read_manifest
from verisphere.images.packs.pack import Format, Pack

_NEGATIVE = re.compile(r"-[0-9]+(\.0*)?")


def label_faults(pack: Pack, allow_single: bool = False) -> list[Fault]:
    """Faults of the identities and domains of a pack, one for each image that has a faulty one."""
    reasons: dict[str, str] = {}
    how = decided()
    column = coded(pack.identities)
    spelled = {NOBODY: NOBODY}
    for person, count in zip(column.values, column.counts().tolist(), strict=True):
        if not count or folded(person) == NOBODY:
            continue
        first = spelled.setdefault(folded(person), person)
        if wrong := _wrong_text(person):
            reasons[person] = f"the identity {shown(person, 80)} {wrong}"
        elif first != person and how is None:
            reasons[person] = (
                f"the identity {person!a} is {first!a} but for case, blanks, Unicode form, invisible letters or the "
                "spelling of a number"
            )
        elif _NEGATIVE.fullmatch(person):
            reasons[person] = f"the label {person} is out of range; allowed are 0 and more, and {NOBODY} for nobody"
        elif count == 1 and not allow_single:
            reasons[person] = f"the only image of the identity {shown(person, 80)}; no genuine pair can be made of it"
    faulty = np.array([value in reasons for value in column.values], bool)[column.codes]
    faults = [
        pack.fault(position, reasons[column.values[column.codes[position]]])
        for position in faulty.nonzero()[0].tolist()
    ]
    if pack.domains is not None:
        groups = coded(pack.domains)
        bad = {value: wrong for value in groups.values if (wrong := _wrong_text(value))}
        faulty = np.array([value in bad for value in groups.values], bool)[groups.codes]
        for position in faulty.nonzero()[0].tolist():
            domain = groups.values[groups.codes[position]]
            faults.append(pack.fault(position, f"the domain {shown(domain, 80)} {bad[domain]}"))
    return faults


def _wrong_text(name: str) -> str:
    """The fault of the name of a person or a domain; empty if there is none."""
    if not name.strip():
        return "is empty"
    if is_missing(name):
        return "is the text of a missing value"
    return f"has {len(name)} characters; allowed are {LONGEST_NAME}" if len(name) > LONGEST_NAME else ""


def repeated_images(pack: Pack, digests: UInt64[np.ndarray, "images 2"]) -> Iterator[tuple[int, int, bool]]:
    """Images with the bytes of an earlier one.

    Equal images stand together and in order. Yields the position of the image; that of an earlier one with these bytes,
    if possible of the same identity; and whether no earlier one has the same identity, which is label noise.
    """
    order = np.lexsort((digests[:, 1], digests[:, 0]))  # a stable sort: equal digests stay in the order of the pack
    ordered = digests[order]
    equal = (ordered[1:] == ordered[:-1]).all(axis=1) & ordered[1:].any(axis=1)
    earlier: dict[str, int] = {}  # by identity, in the current run of equal digests
    for place in equal.nonzero()[0].tolist():
        before, here = int(order[place]), int(order[place + 1])
        if not place or not equal[place - 1]:
            earlier = {pack.identities[before]: before}
        person = pack.identities[here]
        yield here, earlier.get(person, next(iter(earlier.values()))), person not in earlier
        earlier.setdefault(person, here)


def manifest_faults(path: Path, form: Format, pack: Pack | None, progress: Progress = quietly) -> list[Fault]:
    """The differences between the manifest of a pack and its files."""
    about = manifest_path(path)
    try:
        manifest = read_manifest(path, None if pack is None else len(pack), must_agree=False)
    except (ValueError, OSError) as error:
        return [Fault(str(about), "", None, str(error).removeprefix(f"{about}: "))]
    if manifest is None:
        return []
    faults = []
    if manifest.pack != form.name:
        faults.append(Fault(str(about), "", None, f"it is of a {shown(manifest.pack, 80)}, and this is a {form.name}"))
    if pack is not None and manifest.images != len(pack):
        faults.append(Fault(str(about), "", None, f"it states {manifest.images:,} images, but there are {len(pack):,}"))
    for name, sha256 in progress(manifest.sha256.items(), "SHA-256", len(manifest.sha256)):
        if reason := _wrong(about.parent, name, sha256):
            faults.append(Fault(str(about.parent / name), name, None, reason))
    if pack is not None and path.is_dir() and isinstance(pack.files, FilesOnDisk):
        added = [name for name in pack.files.names if name not in manifest.sha256]
        faults += [Fault(str(path / name), name, None, f"not in {about.name}; was it added later?") for name in added]
    return faults


def _wrong(folder: Path, name: str, sha256: str) -> str:
    """How a file differs from its entry in the manifest; empty if it does not."""
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or PurePosixPath(name).is_absolute():
        return "the manifest names a file outside its folder"
    try:
        actual = digest(folder / name)
    except FileNotFoundError:
        return "the manifest names this file, which is not there"
    except (ValueError, OSError) as error:
        return f"cannot be read ({error})"
    return "" if actual == sha256 else f"its SHA-256 is {actual}, but the manifest states {sha256}; it has changed"


MAX_STRETCH = 1.5
"""Largest change of the aspect ratio by resampling to the size of most images, as for `verisphere.images.Photos`."""
SHOWN = 100
"""Faults and notes that are printed; the JSON has all."""

_AT_ONCE = 64  # images that a process checks before it reports
_NOT_SEEN = 0  # as width and height: the image could not be decoded


@dataclass(frozen=True)
class SetFaults(Result):
    """The faults of a data set."""

    format: str
    path: str
    images: int | None
    identities: int | None
    faults: tuple[Fault, ...]
    notes: tuple[Fault, ...]
    names_rule: Names | None = None

    ascii_only = False

    def text(self, shown: int = SHOWN) -> str:
        """The first faults and notes, one per line, and their numbers."""
        lines = [f"fault: {printable(str(fault))}" for fault in self.faults[:shown]]
        lines += _more(len(self.faults) - shown, "faults")
        lines += [f"note: {printable(str(note))}" for note in self.notes[:shown]]
        lines += _more(len(self.notes) - shown, "notes")
        if self.images is None:
            lines.append("the pack cannot be opened, so no image was decoded; repair it, and verify it again")
        held = "" if self.images is None else f"{self.images:,} images of {self.identities:,} identities, "
        count = f"{len(self.faults):,} fault{'' if len(self.faults) == 1 else 's'}"
        notes = f"{len(self.notes):,} note{'' if len(self.notes) == 1 else 's'}"
        lines.append(f"{printable(self.path)} ({self.format}): {held}{count}, {notes}")
        return "\n".join(lines)


def _more(number: int, what: str) -> list[str]:
    return [f"... and {number:,} further {what}, which --json lists"] if number > 0 else []


def verify(
    path: Path,
    workers: int = 0,
    allow_single: bool = False,
    progress: Progress = quietly,
    described: Pack | None = None,
) -> SetFaults:
    """Finds every fault of a data set; or of its images, people and domains that a description of it gives.

    Memory for a large set: about 50 bytes an image, beside its index and the faults.
    """
    form = format_of(path)
    faults = list(progress(form.faults(path), "structure"))
    named = {fault.record for fault in faults if fault.record}
    try:
        pack = form.read(path)
    except (ValueError, OSError) as error:
        if not faults:
            faults.append(fault_of(error, path))
        faults += manifest_faults(path, form, None, progress)
        return SetFaults(form.name, str(path), None, None, tuple(faults), ())
    faults += manifest_faults(path, form, pack, progress)
    pack = described or pack
    with suppress(ValueError):  # of identities that are refused, `label_faults` names each image
        pack = replace(pack, identities=spelled_once(pack.identities, pack.names, decided()))
    faults += label_faults(pack, allow_single)
    notes: list[Fault] = []
    if pack.files.unread:
        notes.append(Fault(str(path), "", None, counted(pack.files.unread)))
    notes += [Fault(str(path), "", None, note) for note in crowds(Counter(pack.identities).items())]
    sizes = np.zeros((len(pack), 2), np.int32)
    digests = np.zeros((len(pack), 2), np.uint64)
    for seen in progress(_looked_at(pack, workers), "decoding", -(-len(pack) // _AT_ONCE)):
        positions = slice(seen.start, seen.start + len(seen.sizes))
        sizes[positions], digests[positions] = seen.sizes, seen.digests
        for position, reason in seen.wrong:
            if not named & {
                pack.names[position],
                pack.files.names[position],
            }:  # else the format has reported it
                faults.append(pack.fault(position, reason))
    for position, other, is_fault in repeated_images(pack, digests):
        name, person = pack.names[other], pack.identities[other]
        reason = f"the same bytes as {name}"
        if is_fault:
            reason += f", which is under the identity {person}, but this one is under {pack.identities[position]}"
        (faults if is_fault else notes).append(pack.fault(position, reason))
    stretched, about_sizes = _sizes(pack, sizes)
    counts = len(pack), len(people_of(pack.identities))
    return SetFaults(form.name, str(path), *counts, (*faults, *stretched), (*notes, *about_sizes), decided())


# --- images ---


@dataclass(frozen=True)
class _Seen:
    """The results for some consecutive images; a digest of zeros if an image cannot be read."""

    start: int
    sizes: Int32[np.ndarray, "images 2"]
    digests: UInt64[np.ndarray, "images 2"]
    wrong: list[tuple[int, str]]


class _Images(Dataset[_Seen]):
    """Checks the images of a pack, some at a time."""

    def __init__(self, pack: Pack) -> None:
        self.pack = pack

    def __len__(self) -> int:
        return -(-len(self.pack) // _AT_ONCE)

    def __getitem__(self, number: int) -> _Seen:
        start = number * _AT_ONCE
        positions = range(start, min(start + _AT_ONCE, len(self.pack)))
        sizes, digests = np.full((len(positions), 2), _NOT_SEEN, np.int32), np.zeros((len(positions), 2), np.uint64)
        wrong = []
        for row, position in enumerate(positions):
            try:
                ((name, data),) = self.pack.files.read([position])
                digests[row] = digest_of(data)
                try:
                    sizes[row] = decode(data, name).shape[:2]
                    if damage := png_damage(data):
                        wrong.append((position, damage))
                except ValueError as error:
                    wrong.append((position, fault_of(error, name).reason))
            except (ValueError, OSError) as error:
                wrong.append((position, fault_of(error, self.pack.path).reason))
        return _Seen(start, sizes, digests, wrong)


def png_damage(data: bytes) -> str:
    """Where a PNG's checksums, which decoding does not compare, show damage; empty for none, and for no PNG."""
    if not data.startswith(b"\x89PNG\r\n\x1a\n"):
        return ""
    begin, kind = 8, b""
    while kind != b"IEND":
        end = begin + 12 + int.from_bytes(data[begin : begin + 4], "big")
        kind = data[begin + 4 : begin + 8]
        if end > len(data) or len(kind) < 4:
            return "a PNG without its end chunk IEND; is it cut short?"
        if zlib.crc32(data[begin + 4 : end - 4]) != int.from_bytes(data[end - 4 : end], "big"):
            return f"a PNG whose chunk {shown(kind.decode('latin-1'))} at byte {begin} differs from its CRC-32"
        begin = end
    return ""


def digest_of(data: bytes) -> UInt64[np.ndarray, "2"]:
    """128 bits of the digest of an image's bytes."""
    return np.frombuffer(hashlib.blake2b(data, digest_size=16).digest(), np.uint64)


def _looked_at(pack: Pack, workers: int) -> Iterable[_Seen]:
    if workers < 0:
        raise ValueError(f"{workers} processes; allowed are 0 (this process reads) or more")
    if not workers:
        images = _Images(pack)
        return (images[number] for number in range(len(images)))
    return _by_workers(pack, workers)


def _by_workers(pack: Pack, workers: int) -> Iterator[_Seen]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")  # the number is the caller's decision
        loader: DataLoader[Any] = DataLoader(
            _Images(pack), batch_size=None, num_workers=workers, worker_init_fn=_start_worker, collate_fn=_as_it_is
        )
        iterator = iter(loader)
    yield from iterator


def _as_it_is(seen: Any) -> Any:
    return seen


def _start_worker(_: int) -> None:
    torch.set_num_threads(1)  # the processes are the parallelism
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the main process, which ends the workers


def _sizes(pack: Pack, sizes: Int32[np.ndarray, "images 2"]) -> tuple[list[Fault], list[Fault]]:
    """Images whose aspect ratio is far from that of most images, as faults; and a note where sizes differ."""
    seen = (sizes != _NOT_SEEN).all(axis=1)
    if not seen.any():
        return [], []
    different, counts = np.unique(sizes[seen], axis=0, return_counts=True)
    usual = different[counts.argmax()].astype(np.int64)
    tall, wide = sizes[:, 0].astype(np.int64) * usual[1], sizes[:, 1].astype(np.int64) * usual[0]
    stretched = seen & (np.maximum(tall, wide) > MAX_STRETCH * np.minimum(tall, wide))
    faults = [
        pack.fault(
            position,
            f"{sizes[position, 1]} x {sizes[position, 0]} pixels, which the {usual[1]} x {usual[0]} of most images "
            f"would stretch by a factor of more than {MAX_STRETCH}",
        )
        for position in stretched.nonzero()[0].tolist()
    ]
    if len(different) == 1:
        return faults, []
    most = Counter({f"{width} x {height}": count for (height, width), count in zip(different, counts, strict=True)})
    listed = ", ".join(f"{size} ({count:,})" for size, count in most.most_common(5))
    reason = f"images of {len(different):,} sizes, which training resamples to one; width x height: {listed}"
    return faults, [Fault(str(pack.path), "", None, reason)]
