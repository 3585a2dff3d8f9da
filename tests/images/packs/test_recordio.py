"""RecordIO: what an independent writer of the published layout wrote, and round trips."""

import pickle
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import recordio_writer as writer
from recordio_writer import IMAGES
from verisphere.base.vocabulary import ImageSource
from verisphere.images.packs import recordio
from verisphere.images.packs.formats import open_pack
from verisphere.images.packs.manifest import Manifest, manifest_path
from verisphere.images.packs.pack import Row
from verisphere.images.packs.recordio import RECORDIO


def content(pack) -> list[bytes]:
    return [data for _, data in pack.files.read(range(len(pack)))]


def reasons(path: Path) -> list[str]:
    return list(map(str, RECORDIO.faults(path)))


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Keys out of order, one label or several, as `im2rec` writes them."""
    path = tmp_path / "plain.rec"
    labels = [3.0, [3.0, 0.5], 0.0, [-1.0, 2.0, 4.0], 3.0, 0.0, -1.0]
    keys = [4, 2, 0, 6, 1, 5, 3]
    writer.write(
        path, [(key, writer.image(key, label, data)) for key, label, data in zip(keys, labels, IMAGES, strict=True)]
    )
    return path


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    path = tmp_path / "faces.rec"
    writer.three_people(path)
    return path


def test_records_of_im2rec(plain: Path):
    pack = RECORDIO.read(plain)
    assert list(pack.names) == ["4", "2", "0", "6", "1", "5", "3"]
    assert list(pack.identities) == ["3", "3", "0", "-1", "3", "0", "-1"]
    assert content(pack) == IMAGES
    assert pack.domains is None
    part = pickle.loads(pickle.dumps(pack.keep([5, 1])))
    assert (list(part.names), list(part.identities), content(part)) == (["5", "2"], ["0", "3"], [IMAGES[5], IMAGES[1]])
    assert [name for name, _ in part.files.read([1])] == [f"{plain}: record 2 at byte 40"]
    assert reasons(plain) == []


def test_an_identity_header(faces: Path):
    pack = RECORDIO.read(faces)
    assert list(pack.names) == [str(key) for key in range(1, 8)]
    assert list(pack.identities) == ["0", "0", "0", "1", "2", "2", "2"]
    assert content(pack) == IMAGES
    assert reasons(faces) == []


def test_labels_come_from_the_identity_records(tmp_path: Path):
    """The label of a range is that of its first image; another one inside the range is an error when it is read."""
    path = tmp_path / "faces.rec"
    records = [(key, writer.image(key, float(label), b"jpeg")) for key, label in ((1, 5), (2, 5), (3, 8))]
    records += [(0, writer.image(0, [4.0, 5.0], b"")), (4, writer.image(4, [1.0, 4.0], b""))]
    writer.write(path, records)
    pack = RECORDIO.read(path)
    assert list(pack.identities) == ["5"] * 3
    with pytest.raises(ValueError, match=r"faces\.rec: record 3 at byte 72: its header has the label 8, but .* 5 "):
        content(pack)
    assert reasons(path) == [
        f"{path}: record 3 at byte 72: label 8, but it lies in the range of record 4, of label 5",
    ]


@pytest.mark.parametrize("last", [3.0, 4.0, 7.0])
def test_an_identity_header_without_identity_records(tmp_path: Path, last: float):
    """Programs state no records, or the number of identities in place of the second label."""
    path = tmp_path / "faces.rec"
    records = [(1, writer.image(1, 5.0, b"a")), (2, writer.image(2, 6.0, b"b")), (3, writer.image(3, 5.0, b"c"))]
    writer.write(path, [*records, (0, writer.image(0, [4.0, last], b""))])
    assert list(RECORDIO.read(path).identities) == ["5", "6", "5"]


def test_keys_that_float32_cannot_state(tmp_path: Path):
    """Past 2**24 the ranges are rounded, as in Glint360K; the labels there are those of the images' own headers."""
    path = tmp_path / "faces.rec"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recordio, "EXACT", 4)  # as if float32 had 2 bits: 5 images, but 7 for the key 6
        records = [(key, writer.image(key, float(label), b"jpeg")) for key, label in enumerate([0, 0, 1, 1, 2], 1)]
        ranges = [(6, [1.0, 3.0]), (7, [3.0, 6.0]), (8, [4.0, 6.0])]
        records += [(0, writer.image(0, [7.0, 8.0], b""))]
        writer.write(path, records + [(key, writer.image(key, bounds, b"")) for key, bounds in ranges])
        assert list(RECORDIO.read(path).identities) == ["0", "0", "1", "1", "2"]


def test_names_and_labels_of_a_list(plain: Path, faces: Path):
    rows = {4: 3, 2: 3, 0: 0, 6: -1, 1: 3, 5: 0, 3: -1}
    lines = [f"{key}\t{label}.000000\tdir/é {key}.jpg\n" for key, label in rows.items()]
    plain.with_suffix(".lst").write_text("".join(lines), encoding="utf-8")
    pack = RECORDIO.read(plain)
    assert list(pack.names) == [f"dir/é {key}.jpg" for key in rows]
    assert content(pack) == IMAGES
    plain.with_suffix(".lst").write_text("".join(reversed(lines)) + "77\t1\tnot-packed.jpg\n", encoding="utf-8")
    assert list(RECORDIO.read(plain).names) == [f"dir/é {key}.jpg" for key in rows]
    assert reasons(plain) == [
        f"{plain.with_suffix('.lst')}: record not-packed.jpg: line 8: no image has its key 77",
    ]
    # the layout of InsightFace: aligned, path, label
    labels = [0, 0, 0, 1, 2, 2, 2]
    faces.with_suffix(".lst").write_text("".join(f"1\t/f/{row}.jpg\t{label}\n" for row, label in enumerate(labels)))
    assert list(RECORDIO.read(faces).names) == [f"/f/{row}.jpg" for row in range(7)]
    assert reasons(faces) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1\t0\ta\n", r"6 of 7 images are not in this list, the first is record 2"),
        ("".join(f"{key}\t1\tn{key}\n" for key in range(1, 8)), r"line 1: label 1, but faces\.rec has 0 for record 1"),
        ("1\t0\n", "line 1: not `key<TAB>label<TAB>path`"),
        ("1\tx\t0.5\n", "line 1: its key and its first label are not whole"),
        (
            "".join(f"{key}\t{label}\tn\n" for key, label in enumerate((0, 0, 0, 1, 2, 2, 2), 1)),
            "'n' stands there twice",
        ),
        ("1\t0\t\xff\n", "not UTF-8"),
    ],
)
def test_a_list_that_disagrees(faces: Path, text: str, reason: str):
    faces.with_suffix(".lst").write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=rf"faces\.lst: {reason}"):
        RECORDIO.read(faces)
    assert reasons(faces)


def test_without_an_index(plain: Path, faces: Path, tmp_path: Path):
    """The ids in the headers are the keys; where they repeat, the numbers of the records, as `rec2idx` counts."""
    for path in (plain, faces):
        expected = RECORDIO.read(path)
        path.with_suffix(".idx").unlink()
        pack = RECORDIO.read(path)
        assert list(pack.names) == list(expected.names)
        assert content(pack) == IMAGES
        assert reasons(path) == [f"{path}: there is no index {path.stem}.idx beside it"]
    path = tmp_path / "zeros.rec"
    writer.write(path, [(key, writer.image(0, 1.0, b"x")) for key in range(3)])
    path.with_suffix(".idx").unlink()
    assert list(RECORDIO.read(path).names) == ["0", "1", "2"]
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ValueError, match=r"zeros\.rec: record at byte 72: .*cut short.*no index"):
        RECORDIO.read(path)
    data = bytearray(path.read_bytes() + b"\0\0\0\0")
    data[36] ^= 1  # the second record is passed over, and the third found
    path.write_bytes(data)
    assert [fault.offset for fault in RECORDIO.faults(path)] == [None, 36]


def test_ids_that_are_not_keys(tmp_path: Path):
    """Some programs write 0, or the key that the image had before it was shuffled; labels are compared all the same."""
    path = tmp_path / "shuffled.rec"
    offsets = writer.write(path, [(key, writer.image(9 - key, float(key), b"x")) for key in range(6)])
    assert len(content(RECORDIO.read(path))) == 6
    assert reasons(path) == [
        f"{path}: 6 of 6 headers have another id than their key, so swapped lines of the index would not be noticed"
    ]
    data = bytearray(path.read_bytes())
    pack = RECORDIO.read(path)
    struct.pack_into("<f", data, offsets[2] + 12, 5.0)
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"record 2 at byte 72: its header has the label 5, but the pack has 2"):
        content(pack)


ROWS = [
    Row(f"d/{number}.jpg", person, data) for number, (person, data) in enumerate(zip("aabbbcc", IMAGES, strict=True))
]


@pytest.mark.parametrize(
    ("people", "labels"),
    [
        ("aabbbcc", [0, 0, 1, 1, 1, 2, 2]),
        ("bababcc", [0, 1, 0, 1, 0, 2, 2]),
        ("-aa-bb-", [-1, 0, 0, -1, 1, 1, -1]),
    ],
    ids=["in runs", "mixed", "with nobody"],
)
def test_there_and_back(tmp_path: Path, people: str, labels: list[int]):
    path = tmp_path / "set.rec"
    rows = [
        Row(f"d/{number}.jpg", person.replace("-", "-1"), data)
        for number, (person, data) in enumerate(zip(people, IMAGES, strict=True))
    ]
    RECORDIO.write(path, iter(rows))
    pack = RECORDIO.read(path)
    assert list(pack.names) == [row.name for row in rows]
    assert list(pack.identities) == list(map(str, labels))
    assert content(pack) == IMAGES
    assert reasons(path) == []
    seen = tuple(dict.fromkeys(row.identity for row in rows if row.identity != "-1"))
    source = ImageSource("here", False)
    manifest = Manifest(1, "recordio", 7, {}, source, people=seen, domains=tuple("xxyyzzz"))
    manifest_path(path).write_text(manifest.json())
    pack = RECORDIO.read(path)
    assert list(pack.identities) == [row.identity for row in rows]
    assert pack.source == source
    assert list(pack.domains or ()) == list("xxyyzzz")
    manifest_path(path).write_text(Manifest(1, "recordio", 7, {}, source, people=("a",)).json())
    with pytest.raises(
        ValueError, match=r"set\.rec: record d/\d\.jpg at byte \d+: label \d is out of range: the manifest has 1 people"
    ):
        RECORDIO.read(path)
    assert "out of range: the manifest has 1 people" in reasons(path)[0]
    manifest_path(path).write_text(Manifest(1, "recordio", 6, {}, source).json())
    with pytest.raises(ValueError, match=r"^\S*set\.rec\.manifest\.json: .*states 6 images, but the pack has 7"):
        RECORDIO.read(path)
    assert [fault.file for fault in RECORDIO.faults(path)] == [str(manifest_path(path))]


def test_the_bytes_written_are_those_of_the_published_layout(tmp_path: Path):
    people = [(0.0, IMAGES[:2]), (1.0, IMAGES[2:5]), (2.0, IMAGES[5:])]
    RECORDIO.write(tmp_path / "ours.rec", ROWS)
    writer.insightface(tmp_path / "theirs.rec", people)
    theirs = b"".join(
        writer.record(writer.image(key, label, data))
        for key, (label, data) in enumerate(((label, data) for label, images in people for data in images), 1)
    )
    tail = [(0, [8.0, 11.0]), (8, [1.0, 3.0]), (9, [3.0, 6.0]), (10, [6.0, 8.0])]
    theirs += b"".join(writer.record(writer.image(key, bounds, b"")) for key, bounds in tail)
    assert (tmp_path / "ours.rec").read_bytes() == theirs
    keys = [line.split("\t")[0] for line in (tmp_path / "ours.idx").read_text().splitlines()]
    assert keys == ["1", "2", "3", "4", "5", "6", "7", "0", "8", "9", "10"]
    assert (tmp_path / "ours.lst").read_text().splitlines()[2] == "3\t1\td/2.jpg"


def test_people_whose_images_are_not_in_a_row_have_no_ranges(tmp_path: Path):
    RECORDIO.write(tmp_path / "set.rec", [Row(str(place), person, b"x") for place, person in enumerate("aba")])
    no_ranges = writer.record(writer.image(0, [4.0, 4.0], b""))
    assert (tmp_path / "set.rec").read_bytes().endswith(no_ranges)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([], "no images to write"),
        ([Row("a\tb", "a", b"x")], "a name with a tab or a line end"),
        ([Row("a\nb", "a", b"x")], "a name with a tab or a line end"),
        ([Row("a", "a", b"")], "a: no bytes"),
    ],
)
def test_what_cannot_be_written(tmp_path: Path, rows: list[Row], reason: str):
    with pytest.raises(ValueError, match=reason):
        RECORDIO.write(tmp_path / "set.rec", rows)


# --- large packs ---


@pytest.mark.parametrize("images", [1_000_000, pytest.param(10_000_000, marks=pytest.mark.slow)])
def test_opening_a_large_pack(tmp_path: Path, images: int):
    """A file that is mostly a hole: opening reads the index, the identity records and one header an identity."""
    path, people = tmp_path / "large.rec", images // 100
    step = 8192
    with open(path, "wb") as file:
        for person in range(people):
            file.seek(person * 100 * step)
            file.write(writer.record(writer.image(1 + person * 100, float(person), b"jpeg")))
        file.seek(images * step)
        file.write(writer.record(writer.image(0, [images + 1.0, images + 1.0 + people], b"")))
        for person in range(people):
            bounds = [1.0 + person * 100, 101.0 + person * 100]
            file.write(writer.record(writer.image(images + 1 + person, bounds, b"")))
    keys = np.concatenate([np.arange(1, images + 1), [0], np.arange(images + 1, images + 1 + people)])
    offsets = np.concatenate([np.arange(images) * step, images * step + 40 * np.arange(people + 1)])
    with open(path.with_suffix(".idx"), "w") as file:
        for start in range(0, len(keys), 1 << 16):
            block = slice(start, start + (1 << 16))
            file.writelines(map("{}\t{}\n".format, keys[block].tolist(), offsets[block].tolist()))
    tracemalloc.start()
    pack = RECORDIO.read(path)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(pack) == images
    assert pack.names[images - 1] == str(images)
    assert pack.identities[images - 1] == str(people - 1)
    # 21 bytes an image are held, and 51 at most; a string for the name of each would be 66 bytes more.
    assert held < 40 * images
    assert peak < 77 * images
    assert content(pack.keep([100])) == [b"jpeg"]


def test_a_folder_with_a_file_of_the_usual_name_is_that_pack(tmp_path: Path):
    RECORDIO.write(tmp_path / "train.rec", (Row(f"{n}.jpg", "a", data) for n, data in enumerate(IMAGES)))
    (tmp_path / "property").write_text("1,112,112")
    pack = open_pack(tmp_path)
    assert (pack.format, pack.path, len(pack)) == ("recordio", tmp_path / "train.rec", len(IMAGES))
    assert reasons(tmp_path) == []
