"""Lists of image files, each with an identity and perhaps a domain."""

import csv
import os
import re
from dataclasses import dataclass
from pathlib import Path

from verisphere.files.image_suffixes import SUFFIXES
from verisphere.files.json_values import shortened, shown
from verisphere.files.text import LONGEST_NAME, numbered_lines, refuse_repeats, text_lines


@dataclass(frozen=True)
class ImageList:
    """The images of a list.

    Attributes:
        paths: path of each image, relative to the folder of the list.
        identities: identity of each image.
        domains: domain of each image; None for a list without domains.
    """

    paths: tuple[str, ...]
    identities: tuple[str, ...]
    domains: tuple[str, ...] | None = None


def read_images(path: str | Path) -> ImageList:
    """The images of a list, in one of two layouts.

    With a header, the list is CSV, separated by commas or tabs: column `name` has the path of the image, `identity` the
    person, and `domain`, which is optional, the group of the image; other columns are ignored.

    Without one, a line has an `image path` and, after a tab, a comma or spaces, an `identity`. The path ends at the
    first image suffix before a separator, so paths and identities can contain spaces. Where no line has an identity, it
    is the name of the folder of the image.

    Raises:
        ValueError: a line has no image, a file does not exist, an image is listed twice, or only some lines have an
            identity; names the line.
    """
    columns = _header(path)
    return _lines_without_header(path) if columns is None else _rows_below_header(path, *columns)


def _header(path: str | Path) -> tuple[list[str], str] | None:
    """Names of the columns, and what separates them; None where the first line is no header."""
    with text_lines(path) as lines:
        first = next((line.strip() for line in lines if line.strip()), "")
    separator = "\t" if "\t" in first else ","
    columns = [cell.strip() for cell in first.split(separator)]
    return (columns, separator) if {"name", "identity"} <= set(columns) else None


def _rows_below_header(path: str | Path, columns: list[str], separator: str) -> ImageList:
    wanted = [name for name in ("name", "identity", "domain") if name in columns]
    if twice := next((name for name in wanted if columns.count(name) > 1), None):
        raise ValueError(f"{path}: line 1: two columns are named {twice!r}")
    places = [columns.index(name) for name in wanted]
    folder = Path(path).parent
    named: list[tuple[int, str]] = []
    texts: list[list[str]] = [[] for _ in wanted]
    with text_lines(path) as lines:
        reader = csv.reader(lines, delimiter=separator)
        try:
            rows = (row for row in reader if any(cell.strip() for cell in row))
            next(rows)
            for row in rows:
                number = reader.line_num
                if len(row) != len(columns):
                    raise ValueError(
                        f"{path}: line {number}: {len(row)} values where the header has {len(columns)} columns"
                    )
                cells = [row[place].strip() for place in places]
                for column, text in zip(wanted, cells, strict=True):
                    if not text or (column != "name" and len(text) > LONGEST_NAME):
                        raise ValueError(
                            f"{path}: line {number}: {column} {shown(text)} has {len(text)} characters; allowed are 1 "
                            f"to {LONGEST_NAME}"
                        )
                if not cells[0].lower().endswith(SUFFIXES):
                    raise ValueError(
                        f"{path}: line {number}: name {shown(cells[0], 200)} is no image; images end in "
                        f"{' '.join(SUFFIXES)}"
                    )
                cells[0] = _checked_image(path, number, folder, cells[0])
                named.append((number, cells[0]))
                for column_texts, text in zip(texts, cells, strict=True):
                    column_texts.append(text)
        except csv.Error as error:
            raise ValueError(f"{path}: line {reader.line_num}: {error}") from None
    if not named:
        raise ValueError(f"{path}: no images below the header")
    refuse_repeats(path, named)
    return ImageList(*map(tuple, texts))


def _checked_image(path: str | Path, number: int, folder: Path, spelled: str) -> str:
    """The path of an image as the set names it.

    Raises:
        ValueError: there is no such file.
    """
    image = os.path.normpath(spelled).replace(os.sep, "/")
    if not os.path.isfile(folder / image):
        raise ValueError(
            f"{path}: line {number}: no file {shortened(str(folder / image), 200)}; paths are relative to the list"
        )
    return image


def _lines_without_header(path: str | Path) -> ImageList:
    folder, named, identities, bare = Path(path).parent, [], [], []
    for number, text in numbered_lines(path):
        match = _IMAGE_LINE.fullmatch(text)
        if match is None or "\t" in match["image"]:
            raise ValueError(
                f"{path}: line {number}: {shown(text, 100)} is not `image path<TAB>identity`; "
                f"a header names `name` and `identity`, and images end in {' '.join(SUFFIXES)}"
            )
        identity = match["identity"]
        if identity is not None and identity.lower().endswith(SUFFIXES):
            raise ValueError(f"{path}: line {number}: two images, {shown(text, 100)}; is this a list of pairs?")
        image = _checked_image(path, number, folder, match["image"])
        if identity is not None and len(identity) > LONGEST_NAME:
            raise ValueError(
                f"{path}: line {number}: identity {shown(identity)} has {len(identity)} characters; allowed are "
                f"{LONGEST_NAME}"
            )
        named.append((number, image))
        identities.append(identity or Path(image).parent.name)
        if identity is None:
            bare.append((number, image))
    if not named:
        raise ValueError(f"{path}: no images; the file is empty")
    if bare and len(bare) != len(named):
        raise ValueError(
            f"{path}: line {bare[0][0]}: no identity after {shown(bare[0][1], 200)}, though other lines have one"
        )
    if "" in identities:
        number, image = named[identities.index("")]
        raise ValueError(
            f"{path}: line {number}: {shown(image, 200)} has neither an identity nor a folder to take it from"
        )
    refuse_repeats(path, named)
    return ImageList(tuple(image for _, image in named), tuple(identities))


_SUFFIX = "|".join(re.escape(suffix) for suffix in SUFFIXES)
_IMAGE_LINE = re.compile(rf"(?P<image>.+?(?:{_SUFFIX}))(?:(?:\s*[,\t]\s*|\s+)(?P<identity>\S.*))?", re.IGNORECASE)
