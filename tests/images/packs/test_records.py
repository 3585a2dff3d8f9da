"""Records that arrive one at a time, the columns they become, and what is wrong with them together."""

import json
import random
from pathlib import Path

import pytest

from verisphere.files.errors import Fault
from verisphere.images.packs.columns import Texts
from verisphere.images.packs.pack import Format, Pack
from verisphere.images.packs.records import Record, contents_of_records, repeated, text_fault


def test_texts_at_positions_are_those_of_a_list():
    chance = random.Random(0)
    texts = ["\u674e\u00e9a/b" * chance.randrange(3) + str(chance.randrange(99)) for _ in range(500)] + [""]
    for count in (0, 1, 3, 70_000):  # more than are copied at a time
        positions = [chance.randrange(-501, 501) for _ in range(count)]
        assert list(Texts.of(texts).take(positions)) == [texts[position] for position in positions]
    assert list(Texts.of([]).take([])) == []


def test_names_that_stand_there_again_are_all_found():
    names = [f"{number}" for number in range(1000)]
    again = {5: 3, 999: 3, 500: 499}
    for place, first in again.items():
        names[place] = names[first]
    assert {second: first for first, second in repeated(Texts.of(names))} == again
    assert not list(repeated(()))


def record(name: str, **fields: object) -> Record:
    return Record(name, "Ann", 0, 1)._replace(**fields)


def form_of(parts: tuple[Path, ...], rows: list[Record | Fault]) -> Format:
    """A format whose records are these."""
    return Format(
        "tar",
        "records",
        Path.is_file,
        lambda path, thorough: contents_of_records(path, "tar", parts, rows, thorough),
        None,
    )


def pack_of(path: Path, rows: list[Record | Fault], *others: Path) -> Pack:
    return form_of((path, *others), rows).read(path)


def test_all_faults_and_the_first_one(tmp_path: Path):
    path = tmp_path / "some.pack"
    path.touch()
    lie = Fault(str(path), "x", 7, "a lie")
    rows = [record("a", domain="x"), lie, record("b", size=2**40), record("a", offset=9, domain="x")]
    with pytest.raises(ValueError, match=r"some\.pack: record x at byte 7: a lie$"):
        pack_of(path, rows)
    assert [str(fault).removeprefix(str(path)) for fault in form_of((path,), rows).faults(path)] == [
        ": record x at byte 7: a lie",
        ": record b at byte 0: 1099511627776 bytes, more than the 256000000 allowed for an image file",
        ": 1 of 3 images have no domain; allowed are domains for all images, or for none",
        ": record a at byte 9: the name of image 3 is already that of image 1; names are unique",
    ]
    for wrong, message in ((rows[::3], "is already that of"), ([], "no images"), (rows[2:], "1 of 2 images have no")):
        with pytest.raises(ValueError, match=message):
            pack_of(path, wrong)


def test_the_source_is_that_of_the_manifest(tmp_path: Path):
    path = tmp_path / "some.pack"
    path.touch()
    assert pack_of(path, [record("a")]).source.place == "some.pack"
    source = {"place": "lfw.zip", "drawn": False, "alignment": "arcface_112x112 by MTCNN"}
    manifest = {"format": 1, "pack": "tar", "images": 1, "sha256": {}, "source": source}
    (tmp_path / "some.pack.manifest.json").write_text(json.dumps(manifest))
    assert pack_of(path, [record("a")]).source.described() == (
        "images from lfw.zip, aligned to arcface_112x112 by MTCNN"
    )
    with pytest.raises(ValueError, match=r"it states 1 images, but the pack has 2"):
        pack_of(path, [record("a"), record("b")])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "identity is None; allowed are text and whole numbers"),
        (1.5, "identity is 1.5; allowed are text and whole numbers"),
        ("", "identity '' has 0 characters; allowed are 1 to 255"),
        ("\udc80", r"identity '\udc80' is not Unicode: it has half of a surrogate pair"),
        ("\U0001f600", None),
    ],
)
def test_what_can_be_an_identity(value: object, reason: str | None):
    assert text_fault("identity", value) == reason
