"""The suffixes of image files, the messages about those that are not read, and the largest size of an image."""

import importlib.util
import os

from verisphere.base.words import install_extra

HEIC_SUFFIXES = (".heic", ".heif", ".hif")
"""Suffixes of photographs of phones, in lower case; read where the extra `heif` is installed."""

SUFFIXES = (
    *(".bmp", *HEIC_SUFFIXES, ".jfif", ".jpe", ".jpeg", ".jpg"),
    *(".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"),
)
"""Suffixes of image files, in lower case."""

MAX_PIXELS = 64_000_000
"""Pixels, width times height, above which an image is refused before any of them is decoded."""

MAX_BYTES = 4 * MAX_PIXELS
"""Size above which a file is refused unread: an uncompressed image of `MAX_PIXELS` with four channels."""

# Endings of photographs and pictures that are never read. The last two lines are cameras' raw files.
_OTHER_SUFFIXES = (
    *(".avif", ".gif", ".j2k", ".jp2", ".jpx", ".jxl", ".psd", ".tga"),
    *(".3fr", ".arw", ".cr2", ".cr3", ".crw", ".dcr", ".dng", ".erf", ".kdc", ".mrw", ".nef", ".nrw", ".orf"),
    *(".pef", ".raf", ".raw", ".rw2", ".rwl", ".sr2", ".srf", ".srw", ".x3f"),
)
SAVE_ANEW = "save it as PNG or JPEG"
INSTALL_HEIF = f"HEIC needs pillow-heif, not installed here; {install_extra('heif')}"


def why_unread(name: str) -> str:
    """The reason why a photograph with this name is not read; empty if it is read, or is no photograph.

    >>> why_unread("Ann/1.jpg"), why_unread("Ann/notes.txt"), why_unread("Ann/1.gif")
    ('', '', '.gif is not read; save it as PNG or JPEG')
    """
    suffix = os.path.splitext(name)[1].lower()
    if suffix in SUFFIXES and "." in name.split("/"):
        return "a path with a part . is not read; write the archive anew without it"
    if suffix in _OTHER_SUFFIXES:
        return f"{suffix} is not read; {SAVE_ANEW}"
    return INSTALL_HEIF if suffix in HEIC_SUFFIXES and importlib.util.find_spec("pillow_heif") is None else ""
