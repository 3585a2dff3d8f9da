"""Images that lie in large files as they are: read at their places, and not from a file that has changed."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from verisphere.images.packs.formats import FORMATS, open_pack
from verisphere.images.packs.pack import Row
from verisphere.images.packs.spans import Spans

#: Formats whose images lie in large files, but for RecordIO, where each record states its own key and label.
FORMATS_OF_FILES = [known for known in FORMATS if known.suffix and known.name != "recordio"]


def spans(folder: Path) -> Spans:
    for name, content in (("one", b"abcdef"), ("two", b"uvwxyz")):
        (folder / name).write_bytes(content)
    places = (np.array([0, 4, 1]), np.array([2, 2, 3]))
    return Spans((folder / "one", folder / "two"), ("a", "b", "c"), *places, np.array([0, 1, 0]))


def test_runs_of_bytes_are_read_at_their_places(tmp_path: Path):
    images = spans(tmp_path)
    assert [data for _, data in images.read([2, 0, 1])] == [b"bcd", b"ab", b"yz"]
    assert [name for name, _ in images.keep([1]).read([0])] == [f"{tmp_path / 'two'}: record b at byte 4"]


def test_a_file_that_has_changed_since_it_was_opened_is_refused(tmp_path: Path):
    images = spans(tmp_path)
    (tmp_path / "two").write_bytes(b"uvwxy")
    assert next(images.read([0]))[1] == b"ab"
    with pytest.raises(ValueError, match=r"two: has changed since it was opened \(6 bytes then, 5 now\)"):
        list(images.keep([1]).read([0]))
    with pytest.raises(ValueError, match="record a at byte 4: 2 of 9 bytes; is the file cut short"):
        list(Spans((tmp_path / "one",), ("a",), np.array([4]), np.array([9])).read([0]))
    (tmp_path / "two").unlink()
    with pytest.raises(ValueError, match="record b at byte 4: cannot be read"):
        list(images.read([1]))


@pytest.mark.parametrize("known", FORMATS_OF_FILES, ids=lambda known: known.name)
def test_images_in_another_order_never_come_under_the_identities_of_before(tmp_path: Path, known):
    """The file is replaced by one of the same size, whose images have changed their places."""
    noise = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), np.uint8)
    for name, person in (("a", 0), ("b", 1)):
        Image.fromarray(noise[person]).save(tmp_path / f"{name}.bmp")
    images = [(tmp_path / f"{name}.bmp").read_bytes() for name in "ab"]
    places = [tmp_path / f"{name}{known.suffix}" for name in ("before", "after")]
    for path, order in zip(places, ((0, 1), (1, 0)), strict=True):
        named = [("Ann/1.bmp", "Ann"), ("Ben/1.bmp", "Ben")]
        known.write(path, (Row(*row, images[image]) for row, image in zip(named, order, strict=True)))
    pack = open_pack(places[0])
    before, after = (open_pack(place).files.place(0)[0] for place in places)
    os.replace(after, before)
    read = []
    with pytest.raises(ValueError, match=r"before.*: (has changed since it was opened|damaged archive entry)"):
        read += [data for _, data in pack.files.read([0, 1])]
    assert not read
