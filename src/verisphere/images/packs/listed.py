"""A pack that is a list: image files anywhere below its folder, each with an identity and perhaps a domain."""

from collections.abc import Generator
from pathlib import Path

from verisphere.files.errors import Fault
from verisphere.files.image_lists import faults_of_images, read_images
from verisphere.files.images_json import read_source
from verisphere.images.packs.image_files import FilesOnDisk
from verisphere.images.packs.pack import Format, Pack

SUFFIXES = (".csv", ".lst", ".txt")


def _contents(path: Path, thorough: bool) -> Generator[Fault, None, Pack | None]:
    """The images of a list, in its order; see `verisphere.files.image_lists.read_images`."""
    faults = faults_of_images(path) if thorough else []
    for number, image, reason in faults:
        record = image or (f"line {number}" if number else "")
        yield Fault(str(path), record, None, f"line {number}: {reason}" if number and image else reason)
    if faults:
        return None
    listed = read_images(path)
    files = FilesOnDisk(path.parent, listed.paths)
    source = read_source(path, listed.paths)
    return Pack(path, "list", listed.paths, listed.identities, files, source, listed.domains, True)


LIST = Format(
    "list",
    f"a list ({' '.join(SUFFIXES)}) with an image path and an identity a line",
    lambda path: path.suffix.lower() in SUFFIXES and not path.is_dir(),
    _contents,
    None,
)
