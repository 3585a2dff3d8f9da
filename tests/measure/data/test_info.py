"""A data set in figures, from its index alone."""

import json
from pathlib import Path

import numpy as np
import pytest

from measure.data.planting import SOUND, archive, folder, image, listed
from verisphere.base.vocabulary import ImageSource
from verisphere.images.packs.columns import Coded, Numbers
from verisphere.images.packs.pack import Pack
from verisphere.images.packs.spans import Spans
from verisphere.measure.data import info
from verisphere.measure.data.convert import convert


@pytest.mark.parametrize(("make", "name"), [(folder, "folder"), (archive, "zip"), (listed, "list")])
def test_figures_of_a_set(make, name: str, tmp_path: Path):
    shown = info.data_info(make(tmp_path))
    assert (shown.format, shown.images, shown.identities, shown.nobody) == (name, 6, 3, 0)
    assert shown.images_per_identity == info.ImagesPerIdentity(2, 2.0, 2.0, 2, 0)
    assert shown.bytes == sum(len(row.data) for row in SOUND)
    assert (shown.domains, shown.manifest, shown.known_set) == (None, None, None)


@pytest.mark.parametrize("suffix", [".rec", ".tar", ".parquet", ".lmdb"])
def test_bytes_are_those_of_the_images_or_not_stated(suffix: str, tmp_path: Path):
    path = tmp_path / f"all{suffix}"
    convert(folder(tmp_path), path)
    assert info.data_info(path).bytes in (None, sum(len(row.data) for row in SOUND))


def test_nobody_and_domains_and_a_known_name(tmp_path: Path):
    path = tmp_path / "faces_emore.zip"
    root = tmp_path / "source"
    for number, name in enumerate(["day/Ann/1.png", "day/-1/1.png", "night/Ann/1.png", "night/Ben/1.png"]):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_bytes(image(number))
    convert(root, path)
    shown = info.data_info(path)
    assert (shown.images, shown.identities, shown.nobody) == (4, 2, 1)
    assert shown.domains == {"day": 2, "night": 2}
    assert shown.images_per_identity == info.ImagesPerIdentity(1, 1.5, 1.5, 2, 1)
    assert shown.manifest == str(tmp_path / "faces_emore.zip.manifest.json")
    shown.write_json(tmp_path / "info.json")
    written = json.loads((tmp_path / "info.json").read_text())
    assert {"format", "images", "identities", "images_per_identity"} <= set(written)
    assert written["known_set"]["terms"] == "withdrawn"
    assert written["source"]["drawn"] is None
    text = shown.text()
    assert "| identities of one image      | " in text
    assert "| night  |      2 |" in text
    assert "withdrew in 2019" in text


def test_a_described_data_set(tmp_path: Path):
    description = {"class_path": "verisphere.images.SyntheticFaces", "init_args": {"people": 3, "images": 2}}
    (tmp_path / "set.yaml").write_text(json.dumps({"data": description}))
    shown = info.data_info(tmp_path / "set.yaml")
    assert shown.format.endswith(".SyntheticFaces")
    assert (shown.images, shown.identities, shown.bytes, shown.source.drawn) == (6, 3, None, True)


def test_ten_million_images_take_a_moment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The figures come from arrays: a loop over the images would take many seconds (here at a tenth of the size)."""
    rows = 1_000_000
    names = Numbers(np.arange(rows))
    people = Coded(tuple(map(str, range(1000))), np.arange(rows) % 1000)
    path = folder(tmp_path)
    files = Spans((path,), names, np.arange(rows), np.full(rows, 3000))
    pack = Pack(path, "fake", names, people, files, ImageSource("fake"), Coded(("day", "night"), np.arange(rows) % 2))
    monkeypatch.setattr("verisphere.images.photos.open_pack", lambda path: pack)
    monkeypatch.setattr(Coded, "__iter__", None)
    monkeypatch.setattr(Numbers, "__iter__", None)
    shown = info.data_info(path)
    assert (shown.images, shown.identities, shown.bytes) == (rows, 1000, 3000 * rows)
    assert shown.domains == {"day": rows // 2, "night": rows // 2}


def test_many_domains_are_cut_short_in_the_table():
    text = info.domains_table({f"d{number:02}": 100 - number for number in range(25)})
    assert "d19" in text
    assert "d20" not in text
    assert "(5 further domains)" in text
