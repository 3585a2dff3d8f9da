"""A conversion has the same images in the same order, or leaves nothing behind."""

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from measure.data.planting import SOUND, archive, folder, image, listed
from verisphere.base.identity import names_taken
from verisphere.base.vocabulary import ImageSource
from verisphere.base.words import Names
from verisphere.files.disk import digest
from verisphere.files.errors import Fault
from verisphere.files.images_json import images_json
from verisphere.images.packs.folders import FOLDER
from verisphere.images.packs.formats import FORMATS, open_pack
from verisphere.images.packs.manifest import read_manifest
from verisphere.images.packs.pack import Format, Pack
from verisphere.images.photos import Photos
from verisphere.measure.data.convert import convert, target_format
from verisphere.measure.data.verify import verify


def contents(path: Path) -> tuple[list[str], list[str], list[str] | None, list[bytes]]:
    """Names, identities, domains and bytes of a pack, in order."""
    pack = open_pack(path)
    data = [data for _, data in pack.files.read(range(len(pack)))]
    return list(pack.names), list(pack.identities), None if pack.domains is None else list(pack.domains), data


def made(root: Path, rows: list[str]) -> Path:
    """A list with these `name,identity[,domain]` lines, and an image for each."""
    (root / "images").mkdir(parents=True)
    lines = ["name,identity,domain" if rows[0].count(",") == 2 else "name,identity"]
    for seed, row in enumerate(rows):
        name, _, rest = row.partition(",")
        path = root / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image(seed))
        lines.append(f"images/{name},{rest}")
    path = root / "list.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


WRITABLE = [known for known in FORMATS if known.write is not None]
SETS = {
    "sorted": ["Ann/1.png,Ann", "Ann/2.png,Ann", "Ben/1.png,Ben"],
    "not sorted": ["Ben/1.png,Ben", "Ann/2.png,Ann", "Ben/0.png,Ben", "Ann/1.png,Ann"],
    "flat": ["9.png,7", "10.png,7", "1.png,0"],
    "identities that are no folders": ["1.png,a/b", "2.png,..", "3.png,.hidden", "4.png,CON", "5.png,a/b", "6.png,x."],
    "identities that differ in case": ["1.png,ann", "2.png,Ann"],
    "names that differ in case": ["A.png,Ann", "a.png,Ann"],
    "one name in two folders": ["x/1.png,Ann", "y/1.png,Ann", "z/1.png,Ann"],
    "nobody": ["1.png,-1", "2.png,Ann", "3.png,-1"],
    "nobody among numbers": ["1.png,-1", "2.png,a/b", "3.png,0"],
    "domains": ["1.png,Ann,day", "2.png,Ann,night", "3.png,Ben,day"],
    "one domain": ["1.png,Ann,day", "2.png,Ben,day"],
    "domains that are no folders": ["1.png,Ann,day/1", "2.png,Ben,night"],
    "letters": ["Zoë 李.png,Zoë 李", "2.png,李"],
    "hidden": [".a.png,Ann", "b.png,Ann"],
    "names that not every format holds": ["a\tb.png,Ann", f"{'x' * 250}/{'y' * 250}/{'z' * 20}.png,Ann"],
    "nobody alone": ["1.png,-1"],
}


@pytest.mark.parametrize("target", WRITABLE, ids=lambda known: known.name)
@pytest.mark.parametrize("rows", SETS.values(), ids=list(SETS))
def test_every_format_gives_the_same_back(rows: list[str], target: Format, tmp_path: Path):
    source = made(tmp_path / "source", rows)
    out, back = tmp_path / f"out{target.suffix}", tmp_path / "back"
    convert(source, out, to=target.name)
    assert contents(out) == contents(source)
    convert(out, back)
    assert contents(back) == contents(source)
    with names_taken("exact"):
        assert not [fault for fault in verify(out, allow_single=True).faults if "label" not in fault.reason]


def test_names_that_other_readers_refuse_are_copied_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    twice = made(tmp_path / "twice", ["1.png,Ann", "2.png,ann", "3.png,Ben"])
    convert(twice, tmp_path / "out")
    assert contents(tmp_path / "out") == contents(twice)
    assert f"{twice}: copied as it is, and refused by what reads people: 'Ann' (" in caplog.text
    assert "are one name but for case" in caplog.text
    with pytest.raises(ValueError, match="are one name but for case"):
        Photos(tmp_path / "out")
    caplog.clear()
    for how in ("merge", "exact"):
        with names_taken(how):
            convert(twice, tmp_path / how)
    convert(made(tmp_path / "sound", ["1.png,Ann", "2.png,Ben"]), tmp_path / "copy")
    assert not caplog.text
    convert(made(tmp_path / "missing", ["1.png,nan", "2.png,Ben"]), tmp_path / "kept")
    assert "1 of 2 identities is empty or the text of a missing value" in caplog.text


@pytest.mark.parametrize("how", [None, "merge", "exact"])
def test_nobody_is_nobody_in_every_spelling(tmp_path: Path, how: Names | None):
    source = made(tmp_path / "of", ["1.png,Ann", "2.png,Ann", "3.png,Ann", "4.png,-1.0", "5.png,-1.0"])
    with names_taken(how):
        assert convert(source, tmp_path / "all").identities == 1
        convert(source, tmp_path / "some.zip", min_images=3, max_images=3)
        convert(source, tmp_path / "few.rec", max_images=1)
    assert contents(tmp_path / "some.zip")[1].count("-1") == 2
    assert sorted(contents(tmp_path / "few.rec")[1]) == ["-1", "-1", "Ann"]


def test_a_folder_has_the_images_under_their_own_names(tmp_path: Path):
    result = convert(archive(tmp_path), tmp_path / "out")
    assert contents(tmp_path / "out") == contents(tmp_path / "faces.zip")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["Ann", "Ben", "Cem", "manifest.json"]
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["sha256"] == {row.name: digest(tmp_path / "out" / row.name) for row in SOUND}
    assert not {"names", "people", "domains", "files"} & set(manifest)
    assert (result.images, result.identities, result.carried) == (6, 3, ())
    assert Photos(tmp_path / "out").source == ImageSource("faces.zip")


def test_a_zip_is_the_same_each_time(tmp_path: Path):
    source = folder(tmp_path)
    convert(source, tmp_path / "a.zip")
    convert(source, tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_images_may_be_added_by_hand_where_the_manifest_adds_nothing(tmp_path: Path):
    convert(archive(tmp_path), tmp_path / "out")
    (tmp_path / "out" / "Ann" / "3.png").write_bytes(image(90))
    assert len(open_pack(tmp_path / "out")) == 7


def test_packs_of_several_formats_may_have_one_stem(tmp_path: Path):
    source = made(tmp_path / "source", SETS["not sorted"])
    for suffix in ("zip", "rec"):
        convert(source, tmp_path / f"faces.{suffix}")
    assert contents(tmp_path / "faces.zip") == contents(tmp_path / "faces.rec") == contents(source)


def test_a_manifest_of_other_files_is_refused(tmp_path: Path):
    source = made(tmp_path / "source", SETS["not sorted"])
    convert(source, tmp_path / "out")
    (tmp_path / "out" / "Ann" / "1.png").rename(tmp_path / "out" / "Ann" / "3.png")
    with pytest.raises(ValueError, match=r"manifest\.json: 'Ann/1\.png' is not in out"):
        open_pack(tmp_path / "out")
    (tmp_path / "out" / "Ann" / "3.png").unlink()
    with pytest.raises(ValueError, match=r"it states 4 images, but out has 3"):
        open_pack(tmp_path / "out")


def test_a_folder_that_is_no_number_of_a_person_is_refused(tmp_path: Path):
    convert(made(tmp_path / "source", SETS["identities that are no folders"]), tmp_path / "out")
    (tmp_path / "out" / "4").rename(tmp_path / "out" / "9")
    with pytest.raises(ValueError, match=r"it numbers 5 people from 0, but the folder '9' is there|is not in out"):
        open_pack(tmp_path / "out")


def test_restrictions(tmp_path: Path):
    source = made(tmp_path / "source", ["1.png,Ann", "2.png,Ben", "3.png,Ann", "4.png,Ann"])
    (tmp_path / "people.txt").write_text("Ann\n")
    convert(source, tmp_path / "a", people=tmp_path / "people.txt")
    convert(source, tmp_path / "b", min_images=2, max_images=2)
    assert contents(tmp_path / "a")[0] == ["images/1.png", "images/3.png", "images/4.png"]
    assert contents(tmp_path / "b")[0] == ["images/1.png", "images/3.png"]


def test_a_part_of_a_mixed_set_has_the_source_of_its_images(tmp_path: Path):
    for part, template, people in (("a", "arcface_112x112", ("p1", "p2")), ("b", "sphereface_112x96", ("q1", "q2"))):
        for seed, person in enumerate(people):
            (tmp_path / "set" / part / person).mkdir(parents=True)
            (tmp_path / "set" / part / person / "1.png").write_bytes(image(seed))
        (tmp_path / "set" / part / "images.json").write_text(images_json(part == "a", f"{template} by MTCNN"))
    (tmp_path / "people.txt").write_text("q1\nq2\n")
    convert(tmp_path / "set", tmp_path / "part.tar", people=tmp_path / "people.txt")
    manifest = read_manifest(tmp_path / "part.tar")
    assert manifest is not None
    assert manifest.source == ImageSource("set", False, "sphereface_112x96 by MTCNN")


def test_what_is_there_is_never_overwritten(tmp_path: Path):
    source = folder(tmp_path)
    (tmp_path / "a.zip").write_bytes(b"mine")
    (tmp_path / "b.zip.manifest.json").write_text("mine")
    for out in ("a.zip", "b.zip"):
        with pytest.raises(FileExistsError, match="exists already, and is never overwritten"):
            convert(source, tmp_path / out)
    with pytest.raises(ValueError, match="lies in"):
        convert(source, source / "inside.zip")
    with pytest.raises(FileExistsError):
        convert(source, tmp_path)
    assert (tmp_path / "a.zip").read_bytes() == b"mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "b.zip.manifest.json", "faces"]


@pytest.mark.parametrize(
    ("out", "to", "says"),
    [
        ("x.csv", None, "a list cannot be written; the formats that can are .*folder, zip"),
        ("x", "zap", "there is no format 'zap' .did you mean zip"),
        ("x.zip", "recordio", "x.zip: the name of a pack in format recordio ends in .rec"),
    ],
)
def test_a_format_that_cannot_be_written(out: str, to: str | None, says: str):
    with pytest.raises(ValueError, match=says):
        target_format(Path(out), to)


def test_the_format_is_that_of_the_suffix(tmp_path: Path):
    assert target_format(tmp_path / "x.zip", None).name == "zip"
    assert target_format(tmp_path / "x", None).name == "folder"
    assert target_format(tmp_path / "faces.v2", None).name == "folder"
    assert target_format(tmp_path / "x.zip", "folder").name == "folder"


def _broken(pack: Pack, change: str) -> Pack:
    from dataclasses import replace

    from verisphere.images.packs.columns import take

    if change == "order":
        return pack.keep([1, 0, 2, 3, 4, 5])
    if change == "bytes":
        return replace(pack, files=pack.files.keep([1, 0, 2, 3, 4, 5]))
    if change == "number":
        return pack.keep([0, 1, 2, 3, 4])
    if change == "domains":
        return replace(pack, domains=("day",) * 6)
    return replace(pack, identities=take(pack.identities, [2, 1, 0, 3, 4, 5]))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("order", "image 0: the name 'Ann/1.png' was read back as 'Ann/2.png'"),
        ("bytes", "image 0, 'Ann/1.png', was read back differently"),
        ("number", "5 images were read back, of 6"),
        ("domains", "the domains were not read back"),
        ("identities", "image 0: the identity 'Ann' was read back as 'Ben'"),
    ],
)
def test_a_format_that_reads_back_otherwise_leaves_nothing(
    change: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A format whose reader does not give what its writer took."""

    def broken(path: Path, thorough: bool) -> Generator[Fault, None, Pack]:
        yield from ()
        return _broken(FOLDER.read(path), change)

    fake = Format(
        "fake",
        "a fake",
        lambda path: path.suffix == ".fake",
        broken,
        FOLDER.write,
        by_path=True,
    )
    monkeypatch.setattr("verisphere.measure.data.convert.FORMATS", (*FORMATS, fake))
    source = archive(tmp_path)
    with pytest.raises(ValueError, match=says) as error:
        convert(source, tmp_path / "out.fake")
    assert str(error.value).startswith(f"{tmp_path / 'out.fake'}: ")
    assert [path.name for path in tmp_path.iterdir()] == ["faces.zip"]


def test_a_source_that_ends_early_leaves_nothing(tmp_path: Path):
    path = archive(tmp_path)
    content = bytearray(path.read_bytes())
    content[content.index(b"Cem/2.png") + 60] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"faces\.zip/Cem/2\.png: damaged archive entry"):
        convert(path, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["faces.zip"]


def test_ctrl_c_leaves_nothing(tmp_path: Path):
    def stopped(items, description: str, total: int | None = None, done: int = 0):
        for number, item in enumerate(items):
            if number == 3 and description == "reading back":
                raise KeyboardInterrupt
            yield item

    source = listed(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(KeyboardInterrupt):
        convert(source, tmp_path / "out.zip", progress=stopped)
    assert sorted(tmp_path.iterdir()) == before


def test_the_terms_of_a_known_set_are_said(tmp_path: Path):
    source = folder(tmp_path).rename(tmp_path / "ms1mv2")
    assert (
        "MS-Celeb-1M (2016), which its publisher, Microsoft, withdrew in 2019"
        in convert(source, tmp_path / "out").text()
    )
