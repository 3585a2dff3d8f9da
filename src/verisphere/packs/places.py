"""The place of an image of a pack: its file, and the byte of the file at which its record begins."""

from verisphere.packs.image_files import FilesInArchive, FilesOnDisk
from verisphere.packs.pack import Fault, Pack
from verisphere.packs.spans import Spans


def place_of(pack: Pack, position: int) -> tuple[str, int | None]:
    """The file of an image, and the byte at which its record begins; None where the format has no such byte."""
    files = pack.files
    if isinstance(files, Spans):
        part = 0 if files.parts is None else int(files.parts[position])
        return str(files.paths[part]), int(files.offsets[position])
    if isinstance(files, FilesInArchive):
        return str(files.path), int(files.entries[position, 0])
    if isinstance(files, FilesOnDisk):
        return str(files.root / files.names[position]), None
    return str(pack.path), None


def fault_of(pack: Pack, position: int, reason: str) -> Fault:
    """A fault of an image. What an error says before its reason (file, record and place) is taken off the reason."""
    file, offset = place_of(pack, position)
    name = pack.files.names[position]
    for before in (f"{file}: record {name} at byte {offset}: ", f"{file}/{name}: ", f"{file}: ", f"{pack.path}: "):
        if reason.startswith(before):
            reason = reason.removeprefix(before)
            break
    return Fault(file, pack.names[position], offset, reason)
