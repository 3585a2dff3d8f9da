"""Every planted fault is found, with its file and record, and nothing else."""

import json
from pathlib import Path

import numpy as np
import pytest

from measure.data.planted import PLANTS
from measure.data.planting import SOUND, Plant, archive, folder, image, listed
from verisphere.base.identity import names_taken
from verisphere.images.packs.columns import coded
from verisphere.images.packs.formats import FORMATS, open_pack
from verisphere.images.packs.pack import Row
from verisphere.measure.data.convert import convert
from verisphere.measure.data.info import data_info
from verisphere.measure.data.statistics import data_statistics
from verisphere.measure.data.verify import png_damage, repeated_images, verify


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: f"{plant.format}: {plant.name}")
def test_a_planted_fault_is_found(plant: Plant, tmp_path: Path):
    path = plant.make(tmp_path)
    result = verify(path)
    file = plant.file or open_pack(path).files.place(0)[0]
    found = [
        fault
        for fault in result.faults
        if fault.file.endswith(file) and fault.record == plant.record and plant.says in fault.reason
    ]
    assert len(found) == 1, result.text()
    assert len(result.faults) == 1 + plant.others, result.text()
    assert result.format == plant.format


def test_there_are_fifty_plants():
    assert len(PLANTS) >= 50
    assert len({(plant.format, plant.name) for plant in PLANTS}) == len(PLANTS)


@pytest.mark.parametrize("make", [folder, archive, listed], ids=["folder", "zip", "list"])
def test_a_sound_set_has_no_fault(make, tmp_path: Path):
    result = verify(make(tmp_path))
    assert (result.images, result.identities, result.faults, result.notes) == (6, 3, (), ())
    assert result.text().endswith("6 images of 3 identities, 0 faults, 0 notes")


def test_many_faults_in_one_archive_are_all_found(tmp_path: Path):
    path = archive(tmp_path)
    content = bytearray(path.read_bytes())
    for row in SOUND:
        content[content.index(row.name.encode()) + 60] ^= 1
    path.write_bytes(content)
    result = verify(path)
    assert [fault.record for fault in result.faults] == [row.name for row in SOUND]
    assert [fault.offset for fault in result.faults] == [content.index(row.name.encode()) - 30 for row in SOUND]


@pytest.mark.parametrize("known", ["zip", "recordio", "tar", "parquet", "lmdb"])
def test_a_fault_of_a_label_lies_where_its_image_does(known: str, tmp_path: Path):
    source, single = folder(tmp_path), image(9)
    (source / "Solo").mkdir()
    (source / "Solo" / "1.png").write_bytes(single)
    path = tmp_path / f"all{next(form.suffix for form in FORMATS if form.name == known)}"
    convert(source, path)
    (fault,) = verify(path).faults
    place = Path(fault.file).read_bytes().index(single)
    assert fault.offset is not None
    assert place - 80 < fault.offset <= place


def test_processes_find_the_same(tmp_path: Path):
    path = folder(tmp_path)
    (path / "Ben" / "1.png").write_bytes(b"no image")
    (path / "Cem" / "1.png").write_bytes(SOUND[0].data)
    here, elsewhere = verify(path), verify(path, workers=2)
    assert here == elsewhere
    assert len(here.faults) == 2


def test_a_negative_number_of_processes(tmp_path: Path):
    with pytest.raises(ValueError, match="-1 processes; allowed are 0"):
        verify(folder(tmp_path), workers=-1)


def test_one_image_may_be_meant(tmp_path: Path):
    path = folder(tmp_path)
    (path / "Dan").mkdir()
    (path / "Dan" / "1.png").write_bytes(image(40))
    assert len(verify(path).faults) == 1
    assert not verify(path, allow_single=True).faults


def test_a_domain_that_is_missing_is_a_fault(tmp_path: Path):
    (tmp_path / "set").mkdir()
    for domain in ("day", "None"):
        folder(tmp_path).rename(tmp_path / "set" / domain)
    faults = verify(tmp_path / "set").faults
    assert [fault.reason for fault in faults] == ["the domain 'None' is the text of a missing value"] * 6


def test_nobody_may_have_one_image(tmp_path: Path):
    path = folder(tmp_path)
    (path / "-1").mkdir()
    (path / "-1" / "1.png").write_bytes(image(40))
    result = verify(path)
    assert (result.faults, result.identities) == ((), 3)


def test_what_may_be_meant_is_a_note(tmp_path: Path):
    path = folder(tmp_path)
    (path / "Ann" / "3.png").write_bytes(SOUND[0].data)
    (path / "Ann" / "4.png").write_bytes(image(60, width=9))
    (path / "Ann" / "5.gif").write_bytes(b"GIF89a")
    result = verify(path)
    assert not result.faults
    unread, repeated, sizes = result.notes
    assert "1 photograph is not read (.gif 1)" in unread.reason
    assert (repeated.record, repeated.reason) == ("Ann/3.png", "the same bytes as Ann/1.png")
    assert sizes.reason.endswith("width x height: 8 x 8 (7), 9 x 8 (1)")


def test_the_first_hundred_are_printed_and_all_are_in_the_json(tmp_path: Path):
    path = folder(tmp_path)
    for person in range(103):
        (path / f"p{person:03}").mkdir()
        (path / f"p{person:03}" / "1.png").write_bytes(image(1000 + person))
    result = verify(path)
    lines = result.text().splitlines()
    assert sum(line.startswith("fault: ") for line in lines) == 100
    assert "... and 3 further faults, which --json lists" in lines
    result.write_json(tmp_path / "faults.json")
    assert len(json.loads((tmp_path / "faults.json").read_text())["faults"]) == 103


def test_repeats_name_an_image_of_the_same_person_where_there_is_one(tmp_path: Path):
    pack = open_pack(folder(tmp_path))  # Ann Ann Ben Ben Cem Cem
    digests = np.array([[1, 1], [2, 2], [1, 1], [1, 1], [0, 0], [0, 0]], np.uint64)
    assert list(repeated_images(pack, digests)) == [(2, 0, True), (3, 2, False)]
    assert coded(pack.identities).values == ("Ann", "Ben", "Cem")


def test_names_are_taken_as_all_readers_take_them(tmp_path: Path):
    """Identities of the six images Ann, Ann, Ben, Ben, Cem, Cem, of which the second is the first one's copy."""
    path, lines = listed(tmp_path), (tmp_path / "list.csv").read_text().splitlines()
    (tmp_path / "faces" / SOUND[1].name).write_bytes(SOUND[0].data)

    def verified(*people: str) -> tuple[int | None, list[str], int]:
        named = zip([line.partition(",")[0] for line in lines[1:]], people, strict=True)
        path.write_text("\n".join([lines[0], *map(",".join, named)]) + "\n")
        result = verify(path)
        return result.identities, [fault.reason for fault in result.faults], len(result.notes)

    with names_taken("merge"):
        assert verified("Ann", "ann", "Ben", "ben", "Cem", "CEM") == (3, [], 1)
        assert verify(path).names_rule == data_info(path).names_rule == data_statistics(path).names_rule == "merge"
    with names_taken("exact"):
        assert "which is under the identity Ann, but this one is under ann" in verified("Ann", "ann", *"BBCC")[1][-1]
    assert verified("1.0", "1.0", "2.0", "2.0", "-1.0", "-1.0") == (2, [], 1)  # -1.0 is nobody
    assert verified("A", "A", "2.0", "2.0", "-1\u200b", "-1") == (2, [], 1)
    assert verified("A", "A", "2.0", "2.0", "2.0", "2")[1][-1:] == [
        "the identity '2' is '2.0' but for case, blanks, Unicode form, invisible letters or the spelling of a number"
    ]
    said = verified("-1.0", "-1.0", "2.0", "2.0", "2", "2")[1]  # nobody has two spellings and is no fault
    assert len(said) == 2
    assert all("'2' is '2.0'" in reason for reason in said)


def test_nothing_is_there(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"no such folder, archive, list or pack"):
        verify(tmp_path / "none.zip")


def test_a_damaged_entry_is_one_fault_where_the_manifest_has_its_name(tmp_path: Path):
    rows = [Row("x/1.png", "Ann", image(1)), Row("x/2.png", "Ann", image(2))]
    (tmp_path / "x").mkdir()
    for row in rows:
        (tmp_path / row.name).write_bytes(row.data)
    (tmp_path / "list.csv").write_text("name,identity\nx/1.png,Ann\nx/2.png,Ann\n")
    path = tmp_path / "out.zip"
    convert(tmp_path / "list.csv", path)
    content = bytearray(path.read_bytes())
    content[content.index(b"Ann/2.png") + 60] ^= 1
    path.write_bytes(content)
    damaged, changed = verify(path).faults
    assert (damaged.record, changed.record) == ("Ann/2.png", "out.zip")


def test_a_png_that_differs_from_its_checksums_is_a_fault(tmp_path: Path):
    """Such a PNG is decoded without an error, with other pixels or with none of its end."""
    sound = image(1)
    content = sound.index(b"IDAT") + 4
    changed = sound[:content] + bytes([sound[content] ^ 0x80]) + sound[content + 1 :]
    cut = sound[:-12]
    assert [png_damage(data) for data in (sound, b"\xff\xd8\xff")] == ["", ""]
    assert "'IDAT' at byte 33 differs from its CRC-32" in png_damage(changed)
    assert all("without its end chunk" in png_damage(sound[:size]) for size in range(8, len(sound)))
    path = folder(tmp_path)
    (path / "Ann" / "1.png").write_bytes(cut)
    (fault,) = verify(path).faults
    assert (fault.record, fault.reason) == ("Ann/1.png", "a PNG without its end chunk IEND; is it cut short?")
