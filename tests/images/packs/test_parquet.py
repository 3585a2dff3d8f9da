"""Parquet tables of images, written here by pyarrow itself in every way that changes where a value lies.

Layout: Apache Parquet format 2 (github.com/apache/parquet-format); the struct of Hugging Face is that of the feature
`Image` of its library datasets.
"""

import multiprocessing
import struct
from pathlib import Path

import numpy as np
import pytest

from tiny_packs import PNG, ROWS, canary_pickle, check_damaged, check_round_trip, contents
from verisphere.files.parquet_table import Compact
from verisphere.images.packs.formats import open_pack
from verisphere.images.packs.pack import Row
from verisphere.images.packs.parquet import PARQUET, GroupedImages, PlainImages, write_parquet

pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow (extra: data)")
parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow (extra: data)")

IMAGES = [PNG + bytes([number % 251]) * (number * 37 % 900) for number in range(300)]


def table(path: Path, columns: dict[str, object], **options: object) -> Path:
    parquet.write_table(pyarrow.table(columns), path, **options)
    return path


def test_every_row_comes_back(tmp_path: Path):
    check_round_trip(PARQUET, tmp_path / "faces.parquet")
    assert isinstance(open_pack(tmp_path / "faces.parquet").files, PlainImages)


def test_what_is_written_is_what_pyarrow_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("verisphere.images.packs.parquet._GROUP", 2000)
    write_parquet(tmp_path / "faces.parquet", iter(ROWS * 3))
    file = parquet.ParquetFile(tmp_path / "faces.parquet")
    assert file.metadata.num_row_groups > 3
    rows = [{"image": row.data, "identity": row.identity, "name": row.name, "domain": row.domain} for row in ROWS * 3]
    assert file.read().to_pylist() == rows
    chunk = file.metadata.row_group(0).column(0)
    assert (chunk.compression, chunk.has_dictionary_page, file.metadata.schema.column(0).max_definition_level) == (
        *("UNCOMPRESSED", False),
        0,
    )


PLAIN = {"compression": "none", "use_dictionary": False}
WAYS = {
    "plain": (PLAIN, PlainImages),
    "plain, small pages": (PLAIN | {"data_page_size": 1, "write_batch_size": 7, "row_group_size": 90}, PlainImages),
    "plain, large statistics": (PLAIN | {"write_statistics": True, "write_page_checksum": True}, PlainImages),
    "pages of version 2": (PLAIN | {"data_page_version": "2.0"}, GroupedImages),
    "snappy": ({"compression": "snappy", "use_dictionary": False, "row_group_size": 50}, GroupedImages),
    "zstd and a dictionary": ({"compression": "zstd", "row_group_size": 50}, GroupedImages),
    "a dictionary": ({"compression": "none"}, GroupedImages),
    "lengths apart": (
        PLAIN | {"column_encoding": {"image": "DELTA_LENGTH_BYTE_ARRAY", "identity": "PLAIN"}},
        GroupedImages,
    ),
}


@pytest.mark.parametrize(("options", "kind"), WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("layout", ["required", "nullable", "large", "Hugging Face"])
def test_every_way_of_writing(tmp_path: Path, layout: str, options: dict[str, object], kind: type):
    count = len(IMAGES)
    images = pyarrow.array(IMAGES, pyarrow.large_binary() if layout == "large" else pyarrow.binary())
    field = pyarrow.field("image", images.type, layout != "required")
    if layout == "Hugging Face":
        images = pyarrow.StructArray.from_arrays([images, pyarrow.nulls(count, pyarrow.string())], ["bytes", "path"])
        field = pyarrow.field("image", images.type)
        if "column_encoding" in options:
            options = options | {"column_encoding": {"image.bytes": "DELTA_LENGTH_BYTE_ARRAY"}}
    people = pyarrow.array(np.arange(count) % 7 - 1)
    made = pyarrow.Table.from_arrays([images, people], schema=pyarrow.schema([field, ("label", people.type)]))
    parquet.write_table(made, tmp_path / "faces.parquet", **options)
    pack = open_pack(tmp_path / "faces.parquet")
    assert isinstance(pack.files, kind)
    assert pack.names == tuple(map(str, range(count)))
    assert list(pack.identities) == [str(number % 7 - 1) for number in range(count)]
    assert contents(pack) == IMAGES
    order = np.random.default_rng(0).permutation(count)
    assert [data for _, data in pack.keep(order).files.read(range(count))] == [IMAGES[row] for row in order]
    assert [data for _, data in pack.files.read(order[:9].tolist())] == [IMAGES[row] for row in order[:9]]
    assert list(PARQUET.faults(tmp_path / "faces.parquet")) == []


def test_names_of_every_kind(tmp_path: Path):
    names = pyarrow.array(["Zo\u00eb/1.png", "b", "\u674e"], pyarrow.large_string())
    people = pyarrow.array(["x", "y", "x"]).dictionary_encode()
    path = table(
        tmp_path / "faces.parquet",
        {"name": names, "other": [1, 2, 3], "domain": people, "identity": people, "image": [PNG] * 3},
    )
    pack = open_pack(path)
    assert (pack.names, pack.identities, pack.domains) == (("Zo\u00eb/1.png", "b", "\u674e"), *(("x", "y", "x"),) * 2)
    table(path, {"name": [7, 5], "identity": pyarrow.array([2**64 - 1, 0], pyarrow.uint64()), "image": [PNG, PNG]})
    assert (open_pack(path).names, open_pack(path).identities) == (("7", "5"), ("18446744073709551615", "0"))


FAULTS = {
    "embeddings": (
        {"name": ["a"], "identity": ["x"], "e0": [0.5]},
        {},
        r"no column image; .* read by `verisphere evalu",
    ),
    "other": ({"a": [1]}, {}, r"no column image; a table of images has image and identity, this one has a$"),
    "no identity": ({"image": [PNG]}, {}, r"no column identity, and no column label; the table has image"),
    "text": (
        {"image": ["a"], "identity": ["x"]},
        {},
        r"column image is of the type string; allowed are bytes, and a str",
    ),
    "numbers": (
        {"image": [PNG], "identity": [0.5]},
        {},
        r"column identity is of the type double; allowed are text and",
    ),
    "null": (
        {"image": [PNG] * 2, "identity": ["x", None]},
        {},
        r"record 1: identity is None; allowed are text and whole",
    ),
    "empty": ({"image": [PNG] * 2, "identity": ["x", ""]}, {}, r"record 1: identity '' has 0 characters"),
    "twice": (
        {"image": [PNG] * 2, "identity": [1, 1], "name": ["a", "a"]},
        {},
        r"record a: the name .* already that of",
    ),
    "no rows": (
        {"image": pyarrow.array([], pyarrow.binary()), "identity": pyarrow.array([], pyarrow.string())},
        {},
        "no images",
    ),
    "no image": (
        {"image": [PNG, None], "identity": [1, 2]},
        PLAIN,
        r"record 1 at byte \d+: no image of \d+ bytes, its page",
    ),
    "no bytes": (
        {"image": [PNG, None], "identity": [1, 2]},
        {},
        r"record 1 in row group 0: no image; allowed are 1 to",
    ),
    "prefixes": (
        {"image": [PNG, PNG], "identity": [1, 2]},
        PLAIN | {"column_encoding": {"image": "DELTA_BYTE_ARRAY"}},
        r"row group 0: images in the encoding DELTA_BYTE_ARRAY, which is not read",
    ),
}


@pytest.mark.parametrize(("columns", "options", "message"), FAULTS.values(), ids=FAULTS)
def test_faults(tmp_path: Path, columns: dict[str, object], options: dict[str, object], message: str):
    path = table(tmp_path / "faces.parquet", columns, **options)
    with pytest.raises(ValueError, match=message) as caught:
        contents(open_pack(path))
    assert "\n" not in str(caught.value)
    assert any(fault.reason in str(caught.value) for fault in PARQUET.faults(path))


def test_every_fault_of_every_row_group_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("verisphere.images.packs.parquet._GROUP", 900)
    path = tmp_path / "faces.parquet"
    rows = [Row(f"{number // 2}", " " * (number != 5), IMAGES[number]) for number in range(20)]
    write_parquet(path, iter(rows[::2]))
    write_parquet(path, iter(rows[::2][:4] + rows[3:6:2] + rows[::2][4:]))  # two names twice, and an empty identity
    metadata, content = parquet.ParquetFile(path).metadata, bytearray(path.read_bytes())
    assert metadata.num_row_groups > 1
    for group in (0, 1):
        begin = metadata.row_group(group).column(0).data_page_offset
        content[begin : begin + 4] = bytes(4)  # the header of a page of images
    path.write_bytes(content)
    faults = [str(fault).removeprefix(f"{path}: ") for fault in PARQUET.faults(path)]
    for fault in (
        "record 5: identity '' has 0 characters; allowed are 1 to 255",
        "record 1: the name is already that of row 1; names are unique",
        "record 2: the name is already that of row 2; names are unique",
        "row group 0: column image: a malformed page header",
        "row group 1: column image: a malformed page header",
    ):
        assert any(line.startswith(fault) for line in faults), (fault, faults)


def test_a_small_file_that_unpacks_to_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    many = pyarrow.DictionaryArray.from_arrays(
        np.zeros(3_000_000, np.int32), pyarrow.array([bytes(1000)], pyarrow.binary())
    )
    path = table(tmp_path / "faces.parquet", {"image": many, "identity": np.zeros(len(many), int)})
    with pytest.raises(ValueError, match=r"3000000 rows in [\d,]+ bytes"):
        open_pack(path)
    few = many[:60_000]
    names = pyarrow.array(map(str, range(len(few))))
    path = table(path, {"image": few, "identity": names}, compression="none", store_schema=False)
    monkeypatch.setattr("verisphere.images.packs.parquet.LARGEST_GROUP", 50_000_000)
    with pytest.raises(ValueError, match=r"row group 0 unpacks to more than 50,000,000 bytes"):
        contents(open_pack(path))
    path = table(path, {"image": [bytes(2**25)], "identity": ["x"]}, compression="zstd")
    with pytest.raises(
        ValueError, match=r"a page of \d{4} bytes at byte \d+ states that it unpacks to 33,554,436 bytes"
    ):
        open_pack(path)
    for limit in ("_LARGEST_DICTIONARY", "_LARGEST_PAGE"):
        monkeypatch.setattr(f"verisphere.images.packs.parquet.{limit}", 2**20)
    path = table(path, {"image": [bytes(2**21)], "identity": ["x"]}, compression="zstd")
    with pytest.raises(ValueError, match=r"2,097,\d\d\d bytes of images, .* and 1,048,576 in a dictionary"):
        open_pack(path)
    path = table(path, {"image": [PNG], "identity": ["x" * 2**21]}, compression="zstd")
    with pytest.raises(ValueError, match=r"a page of column identity unpacks to 2,097,\d\d\d bytes"):
        open_pack(path)


def test_a_dictionary_that_states_more_than_it_has(tmp_path: Path):
    path = table(tmp_path / "faces.parquet", {"image": [PNG], "identity": ["x"]}, compression="none")
    content = path.read_bytes()
    header = b"\x15\x04\x15\x0a\x15\x0a\x4c\x15\x02\x15\x00"  # a dictionary page of 5 bytes, 1 value, plain
    assert content.count(header) == 1
    # 63 values more take no more room in the header; the length of "x" takes 4 bytes
    path.write_bytes(content.replace(header, header.replace(b"\x4c\x15\x02", b"\x4c\x15\x7e")))
    with pytest.raises(
        ValueError, match=r"row group 0: column identity: a dictionary of 63 values in 5 bytes at byte \d+"
    ):
        open_pack(path)
    assert [fault.reason.partition(" in ")[0] for fault in PARQUET.faults(path)] == [
        "row group 0: column identity: a dictionary of 63 values"
    ]


def test_lengths_that_lie_are_found_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("verisphere.images.packs.parquet._GROUP", 20_000)
    write_parquet(tmp_path / "faces.parquet", (Row(f"{number}", "a", IMAGES[number]) for number in range(70)))
    path = tmp_path / "faces.parquet"
    content = bytearray(path.read_bytes())
    pages = open_pack(path).files.pages  # type: ignore[attr-defined]
    assert len(pages) > 1
    for page, length in ((0, 2**32 - 1), (1, 3)):
        struct.pack_into("<I", content, int(pages[page, 1]), length)
    path.write_bytes(content)
    faults = [str(fault).removeprefix(f"{path}: ") for fault in PARQUET.faults(path)]
    assert faults[0].startswith(f"record 0 at byte {pages[0, 1]}: no image of 4294967295 bytes, its page ends at byte ")
    assert faults[1].startswith(f"record {pages[1, 0] + 1} at byte {pages[1, 1] + 7}: no image of ")
    assert len(faults) == 2
    with pytest.raises(
        ValueError, match=rf"faces\.parquet: record 0 at byte {pages[0, 1]}: no image of 4294967295 bytes"
    ):
        contents(open_pack(path))


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = table(tmp_path / "faces.parquet", {"image": [PNG], "identity": ["x"]})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    reason = r"faces\.parquet: parquet needs pyarrow, not installed here; .*pip install '\.\[data\]'"
    with pytest.raises(ValueError, match=reason):
        open_pack(path)
    with pytest.raises(ValueError, match=reason):
        write_parquet(path, iter(ROWS))
    assert len(list(PARQUET.faults(path))) == 1


def test_a_copy_in_another_process_begins_with_no_row_group(tmp_path: Path):
    pack = open_pack(table(tmp_path / "faces.parquet", {"image": IMAGES, "identity": list(range(300))}))
    assert contents(pack) == IMAGES
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(contents, (pack,)) == IMAGES


def _damage(folder: Path) -> None:
    write_parquet(folder / "faces.parquet", iter(ROWS))
    check_damaged(PARQUET, folder / "faces.parquet", folder / "faces.parquet")
    path = table(
        folder / "packed.parquet",
        {"image": IMAGES[:20], "identity": [f"{n % 3}" for n in range(20)], "name": [f"{n}.png" for n in range(20)]},
        compression="zstd",
    )
    check_damaged(PARQUET, path, path, 60)


def test_damaged_in_200_ways(tmp_path: Path):
    """In a process of its own, which a library that does not bear the damage would end."""
    process = multiprocessing.get_context("fork").Process(target=_damage, args=(tmp_path,))
    process.start()
    process.join()
    assert process.exitcode == 0


def test_no_pickle_is_read(tmp_path: Path):
    evil, canary = canary_pickle(tmp_path)
    path = table(tmp_path / "faces.parquet", {"image": [evil], "identity": ["x"]})
    assert contents(open_pack(path)) == [evil]  # bytes, which no decoder takes
    assert not list(PARQUET.faults(path))
    assert not canary.exists()


def test_lists_in_lists_end_at_a_depth():
    with pytest.raises(ValueError, match="nested too deeply"):
        Compact(b"\x19" + b"\x19" * 5000).struct(0)  # a list of one list of one list ...
