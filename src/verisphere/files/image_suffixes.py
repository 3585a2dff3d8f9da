"""The suffixes of image files."""

HEIC_SUFFIXES = (".heic", ".heif", ".hif")
"""Suffixes of photographs of phones, in lower case; read where the extra `heif` is installed."""

SUFFIXES = (
    *(".bmp", *HEIC_SUFFIXES, ".jfif", ".jpe", ".jpeg", ".jpg"),
    *(".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"),
)
"""Suffixes of image files, in lower case."""
