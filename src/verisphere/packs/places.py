"""The place of an image of a pack: its file, and the byte of the file at which its record begins."""

from verisphere.packs.image_files import FilesInArchive, FilesOnDisk
from verisphere.packs.pack import Fault, Pack
from verisphere.packs.plain_images import PlainImages


def place_of(pack: Pack, position: int) -> tuple[str, int | None]:
    """The file of an image, and the byte at which its record begins; None where the format has no such byte."""
    files = pack.files
    if isinstance(files, FilesInArchive):
        return str(files.path), int(files.entries[position, 0])
    if isinstance(files, FilesOnDisk):
        return str(files.root / files.names[position]), None
    if isinstance(files, PlainImages):
        return str(files.path), files.offset(position)
    # Every format whose images lie in large files has these columns, as `verisphere.packs.spans.Spans` does.
    paths, parts, offsets = (getattr(files, name, None) for name in ("paths", "parts", "offsets"))
    path = getattr(files, "path", pack.path) if paths is None else paths[0 if parts is None else int(parts[position])]
    return str(path), None if offsets is None else int(offsets[position])


def fault_of(pack: Pack, position: int, reason: str) -> Fault:
    """A fault of an image; the file, record and place before the reason of an error are removed from the reason."""
    file, offset = place_of(pack, position)
    name = pack.files.names[position]
    for before in (f"{file}: record {name} at byte {offset}: ", f"{file}/{name}: ", f"{file}: ", f"{pack.path}: "):
        if reason.startswith(before):
            reason = reason.removeprefix(before)
            break
    return Fault(file, pack.names[position], offset, reason)
