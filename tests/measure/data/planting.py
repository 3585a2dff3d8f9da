"""Small sound sets of images in each format that is written by hand, and what a fault planted in one is."""

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from verisphere.packs.pack import Row


def image(seed: int, width: int = 8, height: int = 8) -> bytes:
    """A small PNG; every seed gives other pixels."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


NAMES = ("Ann/1.png", "Ann/2.png", "Ben/1.png", "Ben/2.png", "Cem/1.png", "Cem/2.png")
SOUND = tuple(Row(name, name.split("/")[0], image(seed)) for seed, name in enumerate(NAMES))


def folder(root: Path) -> Path:
    """The sound images as a folder."""
    for row in SOUND:
        path = root / "faces" / row.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(row.data)
    return root / "faces"


def archive(root: Path, method: int = zipfile.ZIP_STORED) -> Path:
    """The sound images as a zip archive."""
    root.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(root / "faces.zip", "w", method) as file:
        for row in SOUND:
            file.writestr(zipfile.ZipInfo(row.name), row.data, method)
    return root / "faces.zip"


def listed(root: Path, header: bool = True) -> Path:
    """The sound images as a list beside a folder."""
    folder(root)
    lines = [f"faces/{row.name},{row.identity}" for row in SOUND]
    path = root / ("list.csv" if header else "list.lst")
    path.write_text("\n".join([*(["name,identity"] if header else []), *lines]) + "\n")
    return path


@dataclass(frozen=True)
class Plant:
    """A fault in a set.

    Attributes:
        format: name of the format.
        name: the fault, in words.
        make: writes the set below a folder, and returns its path.
        file: end of the path of the file that the fault names.
        record: the record that the fault names.
        says: words of its reason.
        others: how many further faults the same damage gives.
    """

    format: str
    name: str
    make: Callable[[Path], Path]
    file: str
    record: str
    says: str
    others: int = 0
