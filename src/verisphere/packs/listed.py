"""A pack that is a list: image files anywhere below its folder, each with an identity and perhaps a domain."""

from collections.abc import Iterator
from pathlib import Path

from verisphere.files.image_lists import faults_of_images, read_images
from verisphere.files.images_json import read_source
from verisphere.packs.image_files import FilesOnDisk
from verisphere.packs.pack import Fault, Format, Pack

SUFFIXES = (".csv", ".lst", ".txt")


def read_listed(path: Path) -> Pack:
    """The images of a list, in its order; see `verisphere.files.image_lists.read_images`."""
    listed = read_images(path)
    files = FilesOnDisk(path.parent, listed.paths)
    source = read_source(path, listed.paths)
    return Pack(path, "list", listed.paths, listed.identities, files, source, listed.domains, True)


def _faults(path: Path) -> Iterator[Fault]:
    """Every wrong line of a list; if there is none, the error that prevents opening it."""
    faults = faults_of_images(path)
    for number, image, reason in faults:
        record = image or (f"line {number}" if number else "")
        yield Fault(str(path), record, None, f"line {number}: {reason}" if number and image else reason)
    if not faults:
        try:
            read_listed(path)
        except (ValueError, OSError) as error:
            yield Fault(str(path), "", None, str(error).removeprefix(f"{path}: "))


LIST = Format(
    "list",
    f"a list ({' '.join(SUFFIXES)}) with an image path and an identity a line",
    lambda path: path.suffix.lower() in SUFFIXES and not path.is_dir(),
    read_listed,
    _faults,
    None,
)
