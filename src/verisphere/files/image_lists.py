"""Lists of image files, each with an identity and perhaps a domain."""

import csv
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from verisphere.files.errors import fault_of
from verisphere.files.image_suffixes import SUFFIXES
from verisphere.files.json_values import shortened, shown
from verisphere.files.text import LONGEST_NAME, numbered_lines, text_lines

_Wrong = Callable[[int, str, str], None]  # number of the line, or 0; path of the image, or ""; and the reason


@dataclass(frozen=True)
class ImageList:
    """The images of a list, with paths relative to its folder; it may have no domains."""

    paths: tuple[str, ...]
    identities: tuple[str, ...]
    domains: tuple[str, ...] | None = None


def read_images(path: str | Path) -> ImageList:
    """The images of a list, in one of two layouts.

    With a header, the list is CSV, separated by commas or tabs: column `name` has the path of the image, `identity` the
    person, and `domain`, which is optional, the group of the image; other columns are ignored.

    Without one, a line has an `image path` and, after a tab, a comma or spaces, an `identity`. The path ends at the
    first image suffix before a separator, so paths and identities can contain spaces. If no line has an identity, the
    identity is the name of the folder of the image.
    """

    def refuse(number: int, image: str, reason: str) -> None:
        raise ValueError(f"{path}: line {number}: {reason}" if number else f"{path}: {reason}")

    return _read(path, refuse)


def faults_of_images(path: str | Path) -> list[tuple[int, str, str]]:
    """All faults for which `read_images` would refuse a list: its line, the path of the image, and the reason."""
    faults: list[tuple[int, str, str]] = []
    try:
        _read(path, lambda number, image, reason: faults.append((number, image, reason)))
    except (ValueError, OSError) as error:  # the rest of the text cannot be read
        faults.append((0, "", fault_of(error, path).reason))
    return faults


def _read(path: str | Path, wrong: _Wrong) -> ImageList:
    columns = _header(path)
    if columns is None:
        return _lines_without_header(path, wrong)
    return _rows_below_header(path, *columns, wrong)


def _header(path: str | Path) -> tuple[list[str], str] | None:
    """Names of the columns and their separator; None if the first line is no header."""
    with text_lines(path) as lines:
        first = next((line.strip() for line in lines if line.strip()), "")
    separator = "\t" if "\t" in first else ","
    columns = [cell.strip() for cell in first.split(separator)]
    return (columns, separator) if {"name", "identity"} <= set(columns) else None


def _rows_below_header(path: str | Path, columns: list[str], separator: str, wrong: _Wrong) -> ImageList:
    wanted = [name for name in ("name", "identity", "domain") if name in columns]
    if twice := next((name for name in wanted if columns.count(name) > 1), None):
        wrong(1, "", f"two columns are named {twice!r}")
    places = [columns.index(name) for name in wanted]
    first: dict[str, int] = {}
    texts: list[list[str]] = [[] for _ in wanted]
    with text_lines(path) as lines:
        reader = csv.reader(lines, delimiter=separator)
        try:
            rows = (row for row in reader if any(cell.strip() for cell in row))
            next(rows)
            for row in rows:
                number = reader.line_num
                if len(row) != len(columns):
                    wrong(number, "", f"{len(row)} values where the header has {len(columns)} columns")
                    continue
                cells = [row[place].strip() for place in places]
                for column, text in zip(wanted, cells, strict=True):
                    if not text or (column != "name" and len(text) > LONGEST_NAME):
                        wrong(
                            number,
                            cells[0],
                            f"{column} {shown(text)} has {len(text)} characters; allowed are 1 to {LONGEST_NAME}",
                        )
                if not cells[0].lower().endswith(SUFFIXES):
                    if cells[0]:
                        wrong(
                            number,
                            cells[0],
                            f"name {shown(cells[0], 200)} is no image; images end in {' '.join(SUFFIXES)}",
                        )
                    continue
                cells[0] = _checked_image(path, number, cells[0], first, wrong)
                for column_texts, text in zip(texts, cells, strict=True):
                    column_texts.append(text)
        except csv.Error as error:
            wrong(reader.line_num, "", str(error))
    if not texts[0]:
        wrong(0, "", "no images below the header")
    return ImageList(*map(tuple, texts))


def _checked_image(path: str | Path, number: int, spelled: str, first: dict[str, int], wrong: _Wrong) -> str:
    """The path of an image as the set names it; refuses a missing image and one that is listed twice."""
    image = os.path.normpath(spelled).replace(os.sep, "/")
    place = Path(path).parent / image
    if not os.path.isfile(place):
        wrong(number, image, f"no file {shortened(str(place), 200)}; paths are relative to the list")
    if image in first:
        wrong(number, image, f"{shown(image, 200)} is already on line {first[image]}")
    first.setdefault(image, number)
    return image


def _lines_without_header(path: str | Path, wrong: _Wrong) -> ImageList:
    images, identities = [], []
    first: dict[str, int] = {}
    bare: list[tuple[int, str]] = []
    for number, text in numbered_lines(path):
        match = _IMAGE_LINE.fullmatch(text)
        if match is None or "\t" in match["image"]:
            wrong(
                number,
                "",
                f"{shown(text, 100)} is not `image path<TAB>identity`; a header names `name` and `identity`, and "
                f"images end in {' '.join(SUFFIXES)}",
            )
            continue
        identity = match["identity"]
        if identity is not None and identity.lower().endswith(SUFFIXES):
            wrong(number, match["image"], f"two images, {shown(text, 100)}; is this a list of pairs?")
            continue
        image = _checked_image(path, number, match["image"], first, wrong)
        if identity is not None and len(identity) > LONGEST_NAME:
            wrong(
                number,
                image,
                f"identity {shown(identity)} has {len(identity)} characters; allowed are {LONGEST_NAME}",
            )
        images.append(image)
        identities.append(identity or Path(image).parent.name)
        if identity is None:
            bare.append((number, image))
        if not identities[-1]:
            wrong(number, image, f"{shown(image, 200)} has neither an identity nor a folder to take it from")
    if not images:
        wrong(0, "", "no images; the file is empty")
    if len(bare) != len(images):
        for number, image in bare:
            wrong(number, image, f"no identity after {shown(image, 200)}, though other lines have one")
    return ImageList(tuple(images), tuple(identities))


_SUFFIX = "|".join(re.escape(suffix) for suffix in SUFFIXES)
_IMAGE_LINE = re.compile(rf"(?P<image>.+?(?:{_SUFFIX}))(?:(?:\s*[,\t]\s*|\s+)(?P<identity>\S.*))?", re.IGNORECASE)
