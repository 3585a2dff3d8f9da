"""LFW in every format is the same there and back, and a training from every format gives the same bits."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tiny_runs import files, metrics, read
from verisphere.images.packs.formats import FORMATS, open_pack
from verisphere.images.packs.pack import Format, Pack
from verisphere.measure.data.convert import convert
from verisphere.train.session import train_run

WRITTEN = [known for known in FORMATS if known.write is not None]


def contents(pack: Pack) -> Iterator[tuple[str, str, str | None, bytes]]:
    """Name, identity, domain and bytes of each image."""
    domains = [None] * len(pack) if pack.domains is None else pack.domains
    for start in range(0, len(pack), 512):
        rows = range(start, min(start + 512, len(pack)))
        for row, (_, data) in zip(rows, pack.files.read(rows), strict=True):
            yield pack.names[row], pack.identities[row], domains[row], data


def place(folder: Path, known: Format) -> Path:
    return folder / f"{folder.name}{known.suffix}"


def fill(folder: Path) -> Path:
    """A list of 20 images: five people, in turn, one of whom is nobody; with names that no format likes."""
    lines = ["name,identity"]
    for index in range(20):
        person = ("Zoë B", "ann.c", "-1", "7", "Ann")[index % 5]
        name = f"{('x', 'y.z', 'é')[index % 3]}/{index:02}.v{index % 2}.{'png' if index % 4 else 'jpg'}"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        noise = np.random.default_rng(index).integers(0, 256, (16, 16, 3), np.uint8)
        Image.fromarray(noise).save(folder / name)
        lines.append(f"{name},{person}")
    (folder / "list.csv").write_text("\n".join(lines))
    return folder / "list.csv"


@pytest.mark.usefixtures("process_as_it_was")
def test_a_training_is_the_same_from_every_format(recipe: Path, tmp_path: Path):
    listed = fill(tmp_path / "listed")
    runs = {}  # takes over 5 s: a training from each format, whose readers it is about
    for path in (listed, *(place(tmp_path / known.name, known) for known in WRITTEN)):
        if path != listed:
            path.parent.mkdir()
            convert(listed, path)
        data = f"{{class_path: verisphere.images.Photos, init_args: {{path: {path}, size: [16, 16]}}}}"
        out = tmp_path / "runs" / path.name
        train_run(read(recipe, "--data", data, "--loss", "verisphere.losses.SphereFace2", "--workers", "1"), out)
        runs[path.name] = (files(out), metrics(out))
    assert len(runs) == len(WRITTEN) + 1
    assert all(run == runs[listed.name] for run in runs.values()), runs.keys()


@pytest.mark.slow
@pytest.mark.parametrize("known", WRITTEN, ids=lambda known: known.name)
def test_lfw_is_the_same_in_every_format_and_back(tmp_path: Path, known: Format, real_data: Path):
    lfw = real_data / "lfw_112.zip"
    there, back = place(tmp_path / "there", known), tmp_path / "back.zip"
    convert(lfw, there, known.name)
    convert(there, back)
    before, after = open_pack(lfw), open_pack(back)
    assert len(after) == 13_233
    assert (after.names, after.identities, after.domains) == (before.names, before.identities, None)
    assert all(one == other for one, other in zip(contents(before), contents(after), strict=True))


@pytest.mark.slow
@pytest.mark.usefixtures("process_as_it_was")
def test_a_training_on_lfw_is_the_same_from_every_format(recipe: Path, tmp_path: Path, real_data: Path):
    lfw, runs = real_data / "lfw_112.zip", {}
    for known in (None, *WRITTEN):
        path = lfw
        if known is not None:
            path = place(tmp_path / known.name, known)
            path.parent.mkdir()
            convert(lfw, path, min_images=20)
        data = f"{{class_path: verisphere.images.Photos, init_args: {{path: {path}, min_images: 20, size: [16, 16]}}}}"
        out = tmp_path / "runs" / path.name
        train_run(read(recipe, "--data", data, "--epochs", "1", "--batch_size", "64", "--workers", "1"), out)
        runs[path.name] = (files(out), metrics(out))
    first = runs[lfw.name]
    assert first[1][-1]["step"] > 40
    assert all(run == first for run in runs.values()), runs.keys()
