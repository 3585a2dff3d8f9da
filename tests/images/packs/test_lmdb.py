"""LMDB databases, written here by the lmdb package, whose own reader is beside ours.

Layout: `libraries/liblmdb/mdb.c` of OpenLDAP, LMDB 0.9 (github.com/LMDB/lmdb).
"""

import json
import random
import struct
from pathlib import Path

import pytest

from tiny_packs import PNG, ROWS, canary_pickle, check_damaged, check_round_trip, contents
from verisphere.images.packs.formats import format_of, open_pack
from verisphere.images.packs.lmdb import LMDB, Value, values_in, write_lmdb
from verisphere.images.packs.pack import Row

lmdb = pytest.importorskip("lmdb", reason="needs lmdb (extra: data)")


def database(path: Path, entries: dict[bytes, bytes], subdir: bool = True) -> Path:
    with lmdb.open(str(path), map_size=1 << 24, subdir=subdir, lock=False) as opened, opened.begin(write=True) as put:
        for key, value in entries.items():
            put.put(key, value)
    return path


def identities(of: object) -> dict[bytes, bytes]:
    return {b"__identities__": json.dumps(of).encode()}


@pytest.mark.parametrize("largest", [40, 3000, 30_000], ids=["in leaves", "in both", "in overflow pages"])
def test_what_the_lmdb_package_reads(tmp_path: Path, largest: int):
    """Several thousand keys, deleted and written again in several transactions."""
    chance = random.Random(largest)
    count = 4000 if largest < 4000 else 600
    path = tmp_path / "some.lmdb"
    with lmdb.open(str(path), map_size=1 << 29, lock=False, sync=False) as opened:
        for _ in range(3):
            with opened.begin(write=True) as transaction:
                for _ in range(count // 2):
                    key = b"%x" % chance.randrange(count * 4) * chance.randrange(1, 60)
                    transaction.put(key[:511], chance.randbytes(chance.randrange(largest)))
                for key in [key for key, _ in transaction.cursor() if chance.random() < 0.2]:
                    transaction.delete(key)
        with opened.begin() as transaction:
            expected = list(transaction.cursor())
        assert opened.stat()["depth"] > 1
    content = (path / "data.mdb").read_bytes()
    values = [value for value in values_in(path / "data.mdb") if isinstance(value, Value)]
    assert [(value.key, content[value.offset : value.offset + value.size]) for value in values] == expected
    assert len(expected) > 300


def test_every_row_comes_back_in_its_order(tmp_path: Path):
    check_round_trip(LMDB, tmp_path / "faces.lmdb")
    with lmdb.open(str(tmp_path / "faces.lmdb"), lock=False, readonly=True) as opened, opened.begin() as transaction:
        assert {row.name: transaction.get(row.name.encode()) for row in ROWS} == {row.name: row.data for row in ROWS}
        assert json.loads(transaction.get(b"__identities__")) == {row.name: row.identity for row in ROWS}
        assert json.loads(transaction.get(b"__domains__")) == [row.domain for row in ROWS]
    assert sorted(file.name for file in (tmp_path / "faces.lmdb").iterdir()) == ["data.mdb"]


def test_a_map_that_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("verisphere.images.packs.lmdb._BATCH", 20_000)
    rows = [Row(f"{number}.png", "Ann", bytes(5000)) for number in range(30)]
    write_lmdb(tmp_path / "faces.lmdb", iter(rows))
    assert open_pack(tmp_path / "faces.lmdb").names == tuple(row.name for row in rows)


def test_identities_in_a_list_in_the_database(tmp_path: Path):
    images = {b"2": PNG, b"1": PNG + b"1", b"__len__": b"2", b"__keys__": b"\x80\x04N."}
    pack = open_pack(database(tmp_path / "faces", images | identities(["Ann", -1])))
    assert (pack.names, list(pack.identities), contents(pack)) == (("1", "2"), ["Ann", "-1"], [PNG + b"1", PNG])


@pytest.mark.parametrize("place", ["faces/identities.csv", "faces.csv"])
def test_identities_in_a_list_beside_it(tmp_path: Path, place: str):
    path = database(tmp_path / "faces", {b"2": PNG, b"1": PNG + b"1"})
    (tmp_path / place).write_text('name,domain,identity\n2,x,"Ann, B"\n1,y,-1\n')
    pack = open_pack(path)
    assert (pack.names, list(pack.identities), contents(pack)) == (("2", "1"), ["Ann, B", "-1"], [PNG, PNG + b"1"])
    assert pack.domains == ("x", "y")
    (tmp_path / place).write_text("name,identity\n2\n")
    with pytest.raises(ValueError, match=rf"{place.split('/')[-1]}: line 2: 1 values where the header has 2 columns"):
        open_pack(path)
    (tmp_path / place).write_text("file,identity\n")
    with pytest.raises(
        ValueError,
        match=r"line 1: no column 'name' among \['file', 'identity'\]; its columns are name, identity, domain",
    ):
        open_pack(path)


def test_a_database_in_one_file(tmp_path: Path):
    path = database(tmp_path / "faces.mdb", {b"1": PNG} | identities({"1": "Ann"}), subdir=False)
    assert (format_of(path).name, open_pack(path).names) == ("lmdb", ("1",))


FAULTS = {
    "none": (
        {b"1": PNG},
        r"no identities: no entry __identities__ \(JSON\), and no list identities\.csv in it or faces",
    ),
    "empty": (identities({}), r"faces: no images"),
    "no image": ({b"1": PNG} | identities({"1": "a", "2": "b"}), r"record 2: an identity, but no image under this key"),
    "no identity": ({b"1": PNG, b"2": PNG} | identities({"2": "b"}), r"record 1: an image without an identity"),
    "short list": ({b"1": PNG} | identities(["a", "b"]), r"record __identities__: 2 identities for 1 images"),
    "long": ({b"1": PNG} | identities({"1": "a" * 256}), r"character 1: the identity 'a+\.\.\. has 256 characters"),
    "twice": ({b"1": PNG, b"__identities__": b'{"1": "a", "1": "b"}'}, r"record 1: identity 2 is of the same image as"),
    "a fraction": ({b"1": PNG} | identities({"1": 1.5}), r"character 1: .* is no entry with a text"),
    "nested": ({b"1": PNG} | identities([[["1"]]]), r"is no entry with a text"),
    "more": ({b"1": PNG, b"__identities__": b'{"1": "a"} x'}, r"character 10: ' x' after its end"),
    "no JSON": ({b"1": PNG, b"__identities__": b"\x80\x04"}, r"record __identities__ at byte \d+: not UTF-8 text"),
    "other JSON": ({b"1": PNG, b"__identities__": b"7"}, r"begins with '7'; allowed are a JSON object and a JSON list"),
    "large": ({b"1": PNG, b"__identities__": b" " * 20_000}, r"20,000 bytes for 1 images"),
    "domains": (
        {b"1": PNG, b"__domains__": b'["x", "y"]'} | identities({"1": "a"}),
        r"__domains__: 2 domains for 1 im",
    ),
    "no text": ({b"\xff": PNG} | identities({}), r"the key b'\\xff' is not UTF-8"),
}


@pytest.mark.parametrize(("entries", "message"), FAULTS.values(), ids=FAULTS)
def test_faults_of_entries(tmp_path: Path, entries: dict[bytes, bytes], message: str):
    path = database(tmp_path / "faces", entries)
    with pytest.raises(ValueError, match=message) as caught:
        open_pack(path)
    assert "\n" not in str(caught.value)
    faults = [str(fault) for fault in LMDB.faults(path)]
    assert any(fault.partition("data.mdb")[2] in str(caught.value) for fault in faults)


def test_pickled_values_are_named_and_not_read(tmp_path: Path):
    evil, canary = canary_pickle(tmp_path)
    images = {b"%03d" % number: PNG for number in range(40)} | {b"005": evil, b"030": evil, b"__keys__": evil}
    path = database(tmp_path / "faces", images | identities(["a"] * 40))
    with pytest.raises(
        ValueError, match=r"data\.mdb: record 005 at byte \d+: the value is a pickle, which can run code"
    ):
        open_pack(path)
    assert [fault.record for fault in LMDB.faults(path)] == ["005", "030"]
    assert not canary.exists()


def test_databases_of_other_kinds(tmp_path: Path):
    with lmdb.open(str(tmp_path / "faces"), max_dbs=2, lock=False) as opened:
        opened.open_db(b"images")
    with pytest.raises(ValueError, match=r"a database inside the database, or several values of one key"):
        open_pack(tmp_path / "faces")


LIES = {
    "magic": (16, "<I", 1, r"no LMDB file: its meta page at byte 0 begins with 01000000"),
    "version": (20, "<I", 2, r"version 2 of the layout of LMDB; this reader knows 1"),
    "page size": (40, "<I", 3, r"pages of 3 bytes; allowed are powers of two from 512 to 65,536"),
    "another page size": (4096 + 40, "<I", 8192, r"its two meta pages state two page sizes"),
    "last page": (4096 + 136, "<Q", 1, r"page \d+ of 2; is the file cut short\?"),
    "depth": (4096 + 94, "<H", 99, r"a tree of 99 levels; allowed are 1 to 32"),
    "flags": (4096 + 92, "<H", 4, r"the main database has the flags 0x4"),
    "entries": (4096 + 120, "<Q", 7, r"the database states 7 entries, but its pages have 8"),
    "root": (4096 + 128, "<Q", 1, r"page 1 of"),
}


@pytest.mark.parametrize(("place", "kind", "number", "message"), LIES.values(), ids=LIES)
def test_meta_pages_that_lie(tmp_path: Path, place: int, kind: str, number: int, message: str):
    write_lmdb(tmp_path / "faces", iter(ROWS))  # one transaction, whose meta page is the second
    file = tmp_path / "faces" / "data.mdb"
    content = bytearray(file.read_bytes())
    struct.pack_into(kind, content, place, number)
    file.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        open_pack(tmp_path / "faces")
    assert any(fault.file == str(file) for fault in LMDB.faults(tmp_path / "faces"))


def leaf_of(content: bytes) -> int:
    """The byte at which the root page begins, which is a leaf in a small database."""
    return 4096 * int.from_bytes(content[4096 + 128 : 4096 + 136], "little")


def test_every_fault_of_a_leaf_is_found(tmp_path: Path):
    path = database(
        tmp_path / "faces", {b"%d" % number: bytes(5000 * (number > 5)) for number in range(8)} | identities(["a"] * 8)
    )
    file = path / "data.mdb"
    content = bytearray(file.read_bytes())
    leaf = leaf_of(content)
    nodes = [leaf + pointer for pointer in struct.unpack_from("<9H", content, leaf + 16)]
    content[nodes[1] + 8 : nodes[1] + 9] = b"0"  # twice the key 0
    struct.pack_into("<H", content, nodes[2], 60_000)  # a value that ends behind the page
    struct.pack_into("<Q", content, nodes[6] + 9, 1 << 33)  # an overflow page that is not there
    struct.pack_into("<H", content, leaf + 16 + 2 * 4, 4095)  # a node at the end of the page
    other = struct.unpack_from("<Q", content, nodes[7] + 9)[0]
    struct.pack_into("<Q", content, 4096 * other, 77)  # the number in the overflow page
    file.write_bytes(content)
    faults = [str(fault).partition("data.mdb")[2] for fault in LMDB.faults(path)]
    for reason in (
        f" at byte {nodes[1]}: the key b'0' stands there twice; keys ascend",
        f" at byte {nodes[2]}: a value of 60000 bytes ends behind its page",
        f" at byte {leaf + 4095}: page {leaf // 4096} has a node at its byte 4095",
        f" at byte {nodes[6]}: a value of 5000 bytes from page 8589934592 on",
        f": record 7 at byte {4096 * other}: no overflow page for 5000 bytes: page {other} has the number 77",
    ):
        assert any(fault.startswith(reason) for fault in faults), (reason, faults)


def test_values_that_share_a_page(tmp_path: Path):
    path = database(tmp_path / "faces", {b"1": bytes(5000), b"2": bytes(5000)} | identities(["a", "b"]))
    file = path / "data.mdb"
    content = bytearray(file.read_bytes())
    first, second = (leaf_of(content) + place for place in struct.unpack_from("<2H", content, leaf_of(content) + 16))
    content[second + 9 : second + 17] = content[first + 9 : first + 17]
    file.write_bytes(content)
    assert [fault.reason for fault in LMDB.faults(path)] == ["two values share the page of this one"]


def test_a_branch_that_leads_back(tmp_path: Path):
    path = database(tmp_path / "faces", {b"%03d" % number: bytes(200) for number in range(100)})
    file = path / "data.mdb"
    content = bytearray(file.read_bytes())
    root = leaf_of(content)
    nodes = [root + pointer for pointer in struct.unpack_from("<2H", content, root + 16)]
    content[nodes[1] : nodes[1] + 6] = content[nodes[0] : nodes[0] + 6]
    file.write_bytes(content)
    assert any("stands in the tree twice" in fault.reason for fault in LMDB.faults(path))
    struct.pack_into("<HHH", content, nodes[1], root // 4096, 0, 0)
    struct.pack_into("<H", content, 4096 + 94, 32)
    file.write_bytes(content)
    assert any(f"page {root // 4096} stands in the tree twice" in fault.reason for fault in LMDB.faults(path))


def test_rows_that_lmdb_cannot_hold(tmp_path: Path):
    for rows, message in (
        ([Row("a" * 512, "x", PNG)], r"'a+\.\.\. has 512 bytes; a key of LMDB has 1 to 511"),
        ([Row("__len__", "x", PNG)], r"the name '__len__' has 7 bytes; .* none of the tables"),
        ([Row("a", "x", PNG), Row("a", "x", PNG)], r"two images are named a"),
        ([Row("a", "x", PNG), Row("b", "x", PNG, "d")], r"'b': only some images have a domain"),
    ):
        with pytest.raises(ValueError, match=message):
            write_lmdb(tmp_path / f"faces{len(message)}", iter(rows))


def test_damaged_in_200_ways(tmp_path: Path):
    write_lmdb(tmp_path / "faces", iter(ROWS))
    check_damaged(LMDB, tmp_path / "faces", tmp_path / "faces" / "data.mdb")


def test_a_full_disk_names_the_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import lmdb

    def full(*_: object) -> None:
        raise lmdb.DiskError("mdb_txn_commit: Input/output error")

    monkeypatch.setattr("verisphere.images.packs.lmdb._put", full)
    with pytest.raises(OSError, match="is the disk full") as error:
        write_lmdb(tmp_path / "faces.lmdb", iter(ROWS))
    assert error.value.filename == str(tmp_path / "faces.lmdb")
