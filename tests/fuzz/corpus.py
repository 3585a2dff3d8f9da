"""Inputs that once were findings: kept as what differs from a seed, and read first in every run.

A folder CORPUS/READER/NAME holds the files that differ, and `input.json`: the seed, files of it that are removed,
whether the digests are made to fit again, and what was found.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fuzz.containers import Files
from fuzz.readers import READERS, Reader, installed

FOLDER = Path(__file__).parent / "corpus"
LARGEST = 128 << 10  # bytes of an input that is kept; a larger one is made again by its seed and number


@dataclass(frozen=True)
class KeptInput:
    """An input of the corpus.

    Attributes:
        reader: which reads it.
        path: its folder.
    """

    reader: str
    path: Path

    def files(self, seeds: dict[str, Files]) -> Files:
        """The whole input."""
        about = json.loads((self.path / "input.json").read_text())
        stored = {str(file.relative_to(self.path)): file.read_bytes()
                  for file in sorted(self.path.rglob("*")) if file.is_file() and file.name != "input.json"}  # fmt: skip
        files = {name: content for name, content in seeds[about["seed"]].items() if name not in about["removed"]}
        reseal = READERS[self.reader].reseal
        return reseal(files | stored) if about["resealed"] and reseal is not None else files | stored


def slug(text: str) -> str:
    """A name for a folder."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60].strip("-")


def kept_inputs() -> Iterator[KeptInput]:
    """Every input of the corpus whose reader's packages are installed."""
    for name in READERS:
        folder = FOLDER / slug(name)
        if installed(name) and folder.is_dir():
            yield from (KeptInput(name, path) for path in sorted(folder.iterdir()) if path.is_dir())


def keep(name: str, seed: str, base: Files, files: Files, found: str) -> Path | None:
    """Write a finding's input to the corpus, unless it is large; returns its folder."""
    different, resealed = _different(READERS[name], base, files)
    if sum(map(len, different.values())) > LARGEST:
        return None
    removed = sorted(base.keys() - files.keys())
    mark = hashlib.sha256(repr((sorted(different.items()), removed)).encode()).hexdigest()[:8]
    path = FOLDER / slug(name) / f"{slug(found.partition(';')[0])}-{mark}"
    for file, content in different.items():
        (path / file).parent.mkdir(parents=True, exist_ok=True)
        (path / file).write_bytes(content)
    path.mkdir(parents=True, exist_ok=True)
    about = {"seed": seed, "removed": removed, "resealed": resealed, "found": found.splitlines()[0][:300]}
    (path / "input.json").write_text(json.dumps(about, indent=1) + "\n")
    return path


def _different(reader: Reader, base: Files, files: Files) -> tuple[Files, bool]:
    """The files that differ from the seed, and whether making the digests fit brings the rest along."""
    different = {name: content for name, content in files.items() if base.get(name) != content}
    for name in sorted(different) if reader.reseal is not None else ():
        fewer = {other: content for other, content in different.items() if other != name}
        whole = {other: content for other, content in base.items() if other in files} | fewer
        if reader.reseal is not None and reader.reseal(whole) == files:
            return fewer, True
    return different, False
