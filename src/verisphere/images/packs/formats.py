"""The formats of packs, and opening a pack of any format."""

from pathlib import Path

from verisphere.images.packs.bin_pairs import BIN
from verisphere.images.packs.folders import FOLDER, ZIP
from verisphere.images.packs.listed import LIST
from verisphere.images.packs.lmdb import LMDB
from verisphere.images.packs.pack import Format, Pack
from verisphere.images.packs.parquet import PARQUET
from verisphere.images.packs.recordio import RECORDIO
from verisphere.images.packs.tar import TAR, is_brace_form

#: Every format. A path is tried as the last format first, since a folder can be more than a folder of images;
#: `make reference` adds those of new modules.
FORMATS: tuple[Format, ...] = (FOLDER, ZIP, LIST, RECORDIO, BIN, TAR, PARQUET, LMDB)


def format_of(path: Path) -> Format:
    """The format of a folder or a file, by its name and kind."""
    if not path.exists() and not is_brace_form(path):
        raise FileNotFoundError(f"{path}: no such folder, archive, list or pack")
    for known in reversed(FORMATS):
        if known.fits(path):
            return known
    raise ValueError(f"{path}: no set of images; allowed are {'; '.join(known.looks for known in FORMATS)}")


def open_pack(path: Path) -> Pack:
    """The images of a folder, list, archive or pack."""
    return format_of(path).read(path)
