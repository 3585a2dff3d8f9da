"""The manifest beside a converted pack: digests of its files, and the information that its format cannot hold."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from verisphere.base.vocabulary import ImageSource
from verisphere.files.documents import LARGEST_JSON, read_json, read_text
from verisphere.files.json_values import from_json

FORMAT = 1
_SUFFIX = ".manifest.json"
_BYTES_PER_IMAGE = 1024  # of a manifest; the digest, the path, the name and the domain of an image take about 200


@dataclass(frozen=True)
class Manifest:
    """The record that `verisphere data convert` writes beside a pack; None for what the pack itself holds."""

    format: int
    pack: str
    images: int
    sha256: dict[str, str]  # digest of each file of the pack, by its path relative to the folder of the manifest
    source: ImageSource
    names: tuple[str, ...] | None = None
    people: tuple[str, ...] | None = None  # identity of each label that the pack holds as a number, from 0
    domains: tuple[str, ...] | None = None
    files: tuple[str, ...] | None = None  # path of each image's file; also None for sorted paths

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ValueError(f"format is {self.format}; this version reads {FORMAT}")
        for field in ("names", "domains", "files"):
            column = getattr(self, field)
            if column is not None and len(column) != self.images:
                raise ValueError(f"{field} has {len(column)} entries for {self.images} images")
        for field in ("names", "people", "files"):
            column = getattr(self, field)
            if column is not None and len(set(column)) != len(column):
                raise ValueError(f"{field} has one text twice")

    def json(self) -> str:
        """The text of the file."""
        fields = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps(fields, ensure_ascii=False) + "\n"


def manifest_path(pack: Path) -> Path:
    """The path of a pack's manifest: in its folder, or beside its file under a name that begins with its name."""
    return pack / "manifest.json" if pack.is_dir() else pack.with_name(pack.name + _SUFFIX)


def read_manifest(pack: Path, images: int | None = None, must_agree: bool = True) -> Manifest | None:
    """The manifest of a pack; None if there is none.

    It has at most 64 MiB, and 1 KiB more for each image of its pack. Without a number of images the pack could not be
    opened.
    """
    path = manifest_path(pack)
    if not path.is_file():
        return None
    text = read_text(path, LARGEST_JSON + _BYTES_PER_IMAGE * (images or 0))
    try:
        content = read_json(text)
        if pack.is_dir() and not (isinstance(content, dict) and {"pack", "sha256"} <= set(content)):
            return None  # many programs write a file named manifest.json
        manifest = from_json(Manifest, content)
        if must_agree and images is not None and manifest.images != images:
            raise ValueError(f"it states {manifest.images:,} images, but the pack has {images:,}")
    except ValueError as error:
        raise ValueError(f"{path}: not the manifest of {pack.name}: {error}") from None
    return manifest
