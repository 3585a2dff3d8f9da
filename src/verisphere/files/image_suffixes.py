"""The endings by which image files are told from others."""

HEIC_SUFFIXES = (".heic", ".heif", ".hif")
"""Endings, in lower case, of what phones write; read where the extra `heif` is installed."""

SUFFIXES = (
    *(".bmp", *HEIC_SUFFIXES, ".jfif", ".jpe", ".jpeg", ".jpg"),
    *(".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"),
)
"""Endings, in lower case, by which image files are told from others."""
