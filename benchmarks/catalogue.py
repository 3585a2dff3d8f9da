"""Measures a model made elsewhere on a set, and writes its entry of the catalogue (docs/first_minute.md).

    python benchmarks/catalogue.py MODEL.onnx FACES.zip src/verisphere/ship/known_models/NAME.yaml --about about.yaml

`about.yaml` has name, takes, flip, source, licence_of_weights and licence_of_data, and of the set
measured_on, aligned and in_training. With --check the entry
is there already: only its commands are run again, and the figures are compared to the last digit.
"""

import argparse
import hashlib
import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent
from typing import Any

import yaml

from verisphere.base.vocabulary import OperatingPoint
from verisphere.files.disk import write_text
from verisphere.files.documents import YAML_FLOAT, read_yaml_file
from verisphere.files.embeddings import read_embeddings
from verisphere.files.json_values import from_json
from verisphere.files.results import to_json
from verisphere.ship.catalogue import CatalogueEntry, CatalogueFigures, read_entry
from verisphere.ship.pixels import Told

OF_SET = ("measured_on", "aligned", "in_training")
FARS = ("1e-2", "1e-3", "1e-4", "1e-5")
HEAD = """\
# A model made elsewhere, known by the digest of its file: what it takes, and what was measured on a named set. It
# holds no weights and no address. Written by benchmarks/catalogue.py; docs/first_minute.md says how an entry is added.
"""


class Dumper(yaml.SafeDumper):
    """Quotes texts such as 1e-3, which `read_yaml_file` would take for numbers."""


Dumper.add_implicit_resolver(*YAML_FLOAT)


def text_of(entry: CatalogueEntry) -> str:
    """The YAML of an entry."""
    fields: Any = to_json(entry)
    last = {"commands": fields["figures"].pop("commands")}
    settings: dict[str, Any] = {"Dumper": Dumper, "sort_keys": False, "width": 120}
    text = yaml.dump(fields, default_flow_style=None, **settings)
    return HEAD + text + indent(yaml.dump(last, default_flow_style=False, **settings), "  ")


def options_of(takes: Told, flip: bool) -> list[str]:
    """What a model takes, as options of `adopt`."""
    words = [] if takes.size is None else ["--size", "{}x{}".format(*takes.size)]
    for name, value in vars(takes).items():
        if value is not None and name != "size":
            words += [f"--{name}", f"{value:g}" if isinstance(value, float) else str(value)]
    return [*words, *(["--flip"] if flip else [])]


def commands(model: str, faces: str, takes: Told, flip: bool) -> list[list[str]]:
    """The commands that measure a model, with the paths as they are typed."""
    fars = [word for far in FARS for word in ("--far", far)]
    return [
        ["verisphere", "adopt", model, *options_of(takes, flip), "--out", "model"],
        ["verisphere", "embed", "model", faces, "--out", "faces.npz"],
        ["verisphere", "evaluate", "all-pairs", "faces.npz", *fars, "--json", "figures.json"],
    ]


def measured(model: Path, faces: Path, takes: Told, flip: bool) -> tuple[int, int, list[OperatingPoint]]:
    """People, images and operating points, by the commands, run in a folder of their own."""
    with TemporaryDirectory() as folder:
        for command in commands(str(model.resolve()), str(faces.resolve()), takes, flip):
            subprocess.run([sys.executable, "-m", *command], cwd=folder, check=True)
        rows = read_embeddings(Path(folder, "faces.npz"))
        figures = json.loads(Path(folder, "figures.json").read_text())["operating_points"]
    return len(set(rows.identities.tolist())), len(rows), [from_json(OperatingPoint, each) for each in figures]


def entry_of(model: Path, faces: Path, about: dict[str, Any]) -> CatalogueEntry:
    """The entry of a model, with figures that are measured now."""
    takes, flip = from_json(Told, about["takes"]), about["flip"]
    people, images, points = measured(model, faces, takes, flip)
    of_set = {name: about[name] for name in OF_SET}
    typed = tuple(map(shlex.join, commands(model.name, faces.name, takes, flip)))
    return CatalogueEntry(
        sha256=hashlib.sha256(model.read_bytes()).hexdigest(),
        name=about["name"],
        takes=takes,
        flip=flip,
        source=about["source"],
        licence_of_weights=about["licence_of_weights"],
        licence_of_data=about["licence_of_data"],
        figures=CatalogueFigures(**of_set, people=people, images=images, points=tuple(points), commands=typed),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="ONNX file")
    parser.add_argument("faces", type=Path, help="aligned faces, a folder a person")
    parser.add_argument("entry", type=Path, help="YAML file to write")
    parser.add_argument("--about", type=Path, help="YAML with what is not measured")
    parser.add_argument("--check", action="store_true", help="compare with the entry that is there")
    options = parser.parse_args(arguments)
    if options.check:
        before = read_entry(options.entry)
        about = {**to_json(before), **vars(before.figures)}
        same = entry_of(options.model, options.faces, about) == before
        print(f"{options.entry}: {'the same figures' if same else 'OTHER FIGURES'}")
        return 0 if same else 1
    entry = entry_of(options.model, options.faces, read_yaml_file(options.about))
    write_text(options.entry, text_of(entry))
    print(f"{options.entry}: {read_entry(options.entry).name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
