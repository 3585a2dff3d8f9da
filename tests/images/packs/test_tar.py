"""Tar archives of WebDataset, written here by Python's tarfile in the layout of the WebDataset project.

Layout: `base_plus_ext` and `group_by_keys` in webdataset/tariterators.py (github.com/webdataset/webdataset); headers as
in IEEE Std 1003.1, pax, "ustar Interchange Format".
"""

import io
import json
import tarfile
from pathlib import Path

import pytest

from tiny_packs import PNG, ROWS, canary_pickle, check_damaged, check_round_trip, contents
from verisphere.images.packs.formats import format_of, open_pack
from verisphere.images.packs.tar import TAR, write_tar


def archive(path: Path, members: dict[str, bytes], form: int = tarfile.PAX_FORMAT, **fields: object) -> Path:
    """An archive of these regular files; `fields` are those of every header."""
    with tarfile.open(path, "w", format=form) as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            for field, value in fields.items():
                setattr(member, field, value)
            tar.addfile(member, io.BytesIO(content))
    return path


FORMS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_identities_in_cls_and_in_json(tmp_path: Path, form: int):
    deep = "d/" * 60 + "deep"  # longer than the 100 bytes of a name: a prefix, a long name, or a pax header
    path = archive(
        tmp_path / "faces.tar",
        {
            "Ann/1.jpg": b"one",
            "Ann/1.cls": b"Ann\n",
            "Ann/1.txt": b"a caption",
            "./2.cls": b"-1",
            "./2.PNG": b"two",
            "3.webp": b"three",
            "3.json": json.dumps({"label": 7, "__key__": "3"}).encode(),
            f"{deep}.json": json.dumps({"cls": "Zo\u00eb", "name": "a.b/\u674e.png"}).encode(),
            f"{deep}.jpeg": b"four",
            "README": b"no sample",
            "notes.md": b"no sample",
            ".hidden.jpg": b"no sample",
            "__meta__/x.jpg": b"no sample",
        }
        | ({"K\u00e4the/1.jpg": b"five", "K\u00e4the/1.cls": b"K"} if form != tarfile.USTAR_FORMAT else {}),
        form,
    )
    pack = TAR.read(path)
    found = dict(zip(pack.names, pack.identities, strict=True))
    assert (found["Ann/1.jpg"], found["2.PNG"], found["3.webp"]) == ("Ann", "-1", "7")
    assert found["a.b/\u674e.png"] == "Zo\u00eb"
    assert pack.domains is None
    assert len(pack) == 4 + (form != tarfile.USTAR_FORMAT)
    assert [data for _, data in pack.files.read([list(pack.names).index("2.PNG")])] == [b"two"]
    assert form == tarfile.USTAR_FORMAT or found["K\u00e4the/1.jpg"] == "K"
    assert list(TAR.faults(path)) == []


def _members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


def test_every_row_comes_back(tmp_path: Path):
    check_round_trip(TAR, tmp_path / "faces.tar")


def test_what_is_written_is_what_tarfile_and_webdataset_read(tmp_path: Path):
    write_tar(tmp_path / "faces.tar", iter(ROWS))
    members = _members(tmp_path / "faces.tar")
    assert list(members)[:4] == ["000000000.png", "000000000.json", "000000001.jpg", "000000001.json"]
    assert json.loads(members["000000000.json"]) == {"name": ROWS[0].name, "identity": "Ann", "domain": "indoor"}


def shard(path: Path, key: str) -> Path:
    return archive(path, {f"{key}.jpg": key.encode(), f"{key}.cls": b"0"})


def test_only_some_with_a_domain(tmp_path: Path):
    bare = {f"{key}.{suffix}": b'{"cls": 1}' for key in "ab" for suffix in ("jpg", "json")}
    path = archive(tmp_path / "faces.tar", bare | {"c.jpg": b"x", "c.json": b'{"cls": 1, "domain": "x"}'})
    reason = r"faces\.tar: 2 of 3 images have no domain; allowed are domains for all images, or for none"
    with pytest.raises(ValueError, match=reason) as caught:
        open_pack(path)
    assert [str(fault) for fault in TAR.faults(path)] == [str(caught.value)]


def test_shards_in_braces_and_in_a_folder(tmp_path: Path):
    for number in range(8, 11):
        shard(tmp_path / f"faces-{number:03}.tar", f"k{number}")
    braces = tmp_path / "faces-{008..010}.tar"
    for place in (braces, tmp_path):
        pack = open_pack(place)
        assert pack.format == "tar"
        assert pack.names == ("k8.jpg", "k9.jpg", "k10.jpg")
        assert [data for _, data in pack.files.read([2, 0])] == [b"k10", b"k8"]
        assert next(pack.keep([1]).files.read([0]))[0].startswith(
            f"{tmp_path}/faces-009.tar: record k9.jpg at byte 512"
        )
    with pytest.raises(FileNotFoundError, match=r"faces-011\.tar: no such shard of faces-\{008\.\.011\}\.tar"):
        open_pack(tmp_path / "faces-{008..011}.tar")
    with pytest.raises(ValueError, match=r"010\.\.008 are no 1 to 100,000 shards"):
        open_pack(tmp_path / "faces-{010..008}.tar")
    shard(tmp_path / "faces-009.tar", "k8")
    with pytest.raises(ValueError, match=r"record k8\.jpg at byte 512: the name of image 2 is already that of image 1"):
        open_pack(braces)
    assert [str(fault).removeprefix(str(tmp_path)) for fault in TAR.faults(braces)] == [
        "/faces-009.tar: record k8.jpg at byte 512: the name of image 2 is already that of image 1; names are unique"
    ]
    (tmp_path / "Ann").mkdir()
    assert format_of(tmp_path).name == "folder"


FAULTS = {
    "no identity": ({"a.jpg": b"x"}, r"record a\.jpg at byte 512: a sample without an identity"),
    "no image": ({"a.cls": b"x"}, r"record a\.cls at byte 512: a sample without an image"),
    "parted": (
        {"a.jpg": b"x", "b.jpg": b"y", "b.cls": b"0", "a.cls": b"1"},
        r"a\.jpg at byte 512: a sample without an i",
    ),
    "two images": ({"a.jpg": b"x", "a.png": b"y", "a.cls": b"1"}, r"2 images in one sample"),
    "empty": ({}, r"no images"),
    "empty identity": ({"a.jpg": b"x", "a.cls": b" \n"}, r"identity '' has 0 characters; allowed are 1 to 255"),
    "long identity": ({"a.jpg": b"x", "a.cls": b"a" * 256}, r"has 256 characters; allowed are 1 to 255"),
    "no text": ({"a.jpg": b"x", "a.cls": b"\xff"}, r"its \.cls is not UTF-8 text \(byte 1536\)"),
    "no object": ({"a.jpg": b"x", "a.json": b"[1]"}, r"its \.json is \[1\], not an object"),
    "no JSON": ({"a.jpg": b"x", "a.json": b"{"}, r"record a\.jpg at byte 512: Expecting property name"),
    "nested": ({"a.jpg": b"x", "a.json": b"[" * 99999}, r"its JSON is nested too deeply"),
    "a list": ({"a.jpg": b"x", "a.json": b'{"cls": [1]}'}, r"identity is \[1\]; allowed are text and whole numbers"),
    "a fraction": ({"a.jpg": b"x", "a.json": b'{"cls": 1.5}'}, r"identity is 1\.5; allowed are"),
    "two identities": ({"a.jpg": b"x", "a.json": b'{"cls": 1}', "a.cls": b"2"}, r"identity '1', and \.cls has '2'"),
    "half a pair": ({"a.jpg": b"x", "a.json": b'{"cls": "\\ud800"}'}, r"half of a surrogate pair"),
    "large text": (
        {"a.jpg": b"x", "a.cls": b"1" * (2**20 + 1)},
        r"its \.cls has 1,048,577 bytes; allowed are 1,048,576",
    ),
    "above": ({"../a.jpg": b"x"}, r"at byte 0: the path '\.\./a\.jpg' is unsafe"),
    "absolute": ({"/a.jpg": b"x"}, r"at byte 0: the path '/a\.jpg' is unsafe"),
}


@pytest.mark.parametrize(("members", "message"), FAULTS.values(), ids=FAULTS)
def test_faults_of_samples(tmp_path: Path, members: dict[str, bytes], message: str):
    path = archive(tmp_path / "faces.tar", members)
    with pytest.raises(ValueError, match=message) as caught:
        open_pack(path)
    assert str(caught.value).startswith(f"{path}")
    assert "\n" not in str(caught.value)
    assert str(caught.value) in map(str, TAR.faults(path))


@pytest.mark.parametrize(
    ("kind", "what"),
    {
        tarfile.SYMTYPE: "a symbolic link",
        tarfile.LNKTYPE: "a link",
        tarfile.CHRTYPE: "a character device",
        tarfile.FIFOTYPE: "a pipe",
        tarfile.GNUTYPE_SPARSE: "a sparse file",
        b"Z": "of the type b'Z'",
    }.items(),
)
def test_members_that_are_no_files(tmp_path: Path, kind: bytes, what: str):
    path = archive(tmp_path / "faces.tar", {"a.jpg": b"", "a.cls": b""}, type=kind, linkname="b.jpg")
    with pytest.raises(ValueError, match=rf"at byte 0: b'a\.jpg' is {what}; allowed are regular files and folders"):
        open_pack(path)
    assert len(list(TAR.faults(path))) == 2


def test_every_fault_is_found_behind_a_damaged_header(tmp_path: Path):
    path = archive(
        tmp_path / "faces.tar",
        {name: b"x" for key in "abcd" for name in (f"{key}.jpg", f"{key}.cls")},
        tarfile.USTAR_FORMAT,
    )
    content = bytearray(path.read_bytes())
    content[2048 + 148] ^= 1  # the checksum of b.jpg
    content[6144 + 124 : 6144 + 136] = b"77777777777\0"  # the size of d.jpg
    header = content[6144 : 6144 + 512]
    header[148:156] = b" " * 8
    content[6144 + 148 : 6144 + 156] = b"%06o\0 " % sum(header)
    path.write_bytes(content[:8192])  # without the end mark, too
    faults = [str(fault).removeprefix(f"{path}") for fault in TAR.faults(path)]
    assert faults == [
        " at byte 2048: no header of a tar archive: its checksum is wrong",
        ": record b.cls at byte 3584: a sample without an image; all members of a sample follow one another",
        " at byte 6144: a member of 8589934591 bytes, but the archive ends after 1536",
        " at byte 8192: the archive ends without its end mark, two blocks of zeros; is it cut short?",
        ": record d.cls at byte 7680: a sample without an image; all members of a sample follow one another",
    ]


def test_compressed_archives_are_named(tmp_path: Path):
    for name in ("faces.tar.gz", "faces.tgz", "faces.tar"):
        with tarfile.open(tmp_path / name, "w:gz"):
            pass
        with pytest.raises(ValueError, match=r"a compressed archive, in which no image can be read by itself; unpack"):
            open_pack(tmp_path / name)


def test_archives_one_behind_the_other(tmp_path: Path):
    path = shard(tmp_path / "faces.tar", "a")
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(ValueError, match=r"bytes from the end mark on, which are no padding"):
        open_pack(path)


def test_damaged_in_200_ways(tmp_path: Path):
    write_tar(tmp_path / "faces.tar", iter(ROWS))
    check_damaged(TAR, tmp_path / "faces.tar", tmp_path / "faces.tar")


def test_no_pickle_is_read(tmp_path: Path):
    evil, canary = canary_pickle(tmp_path)
    path = archive(tmp_path / "faces.tar", {"a.jpg": evil, "a.cls": b"1", "b.pkl": evil, "b.jpg": PNG, "b.cls": evil})
    with pytest.raises(ValueError, match=r"its \.cls is not UTF-8"):
        contents(open_pack(path))
    list(TAR.faults(path))
    assert not canary.exists()
