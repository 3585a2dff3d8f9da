"""Embeddings files: round trip, pooling, and that a file with anything wrong is refused in one line."""

import io
import os
import pickle
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from verisphere.base.vocabulary import NOBODY, Embeddings, Origin
from verisphere.files.embeddings import (
    known_people,
    pool_embeddings,
    read_embeddings,
    read_known_people,
    write_embeddings,
)
from verisphere.files.streamed_rows import open_rows


def three(**changed) -> dict:
    """The arrays of a small good file, some of them changed; None leaves one out."""
    arrays = {
        "embeddings": np.array([[1, 2], [3, 4], [-5, 6]], np.float32),
        "names": np.array(["a/1.jpg", "a/2.jpg", "b/1.jpg"]),
        "identities": np.array(["a", "a", "b"]),
    }
    return {name: array for name, array in {**arrays, **changed}.items() if array is not None}


def save(folder: Path, **arrays) -> Path:
    path = folder / "faces.npz"
    np.savez(path, **arrays)
    return path


def refused(path: Path) -> str:
    """The error, which names the file and is one line."""
    with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
        read_embeddings(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def same(one: Embeddings, other: Embeddings) -> bool:
    domains = (one.domains is None) == (other.domains is None) and (
        one.domains is None or np.array_equal(one.domains, other.domains)
    )
    return domains and all(
        np.array_equal(getattr(one, field), getattr(other, field)) for field in ("embeddings", "names", "identities")
    )


# --- reading and writing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("domains", [None, np.array(["day", "night, late", "día"])])
def test_what_is_written_is_read(tmp_path: Path, domains):
    generator = np.random.default_rng(0)
    # lengths from 1e-30 to 1e30: a row is kept as it is, not normalised
    rows = (generator.normal(size=(3, 5)) * np.array([[1e-30], [1], [1e30]])).astype(np.float32)
    names = np.array(["a/1.jpg", "ä/β 2.jpg", " "])
    written = Embeddings(rows, names, np.array(["a", "Nan Li", "a"]), domains)
    write_embeddings(tmp_path / "deep" / "faces.npz", written)
    assert same(read_embeddings(tmp_path / "deep" / "faces.npz"), written)
    assert os.listdir(tmp_path / "deep") == ["faces.npz"]


def test_the_file_is_plain_numpy(tmp_path: Path):
    write_embeddings(tmp_path / "faces.npz", Embeddings(**three()))
    with np.load(tmp_path / "faces.npz", allow_pickle=False) as archive:
        assert sorted(archive.files) == ["embeddings", "identities", "names"]
        assert archive["embeddings"].dtype == np.float32


def test_only_npz_is_written(tmp_path: Path):
    with pytest.raises(ValueError, match=r"faces\.npy: an embeddings file ends in \.npz"):
        write_embeddings(tmp_path / "faces.npy", Embeddings(**three()))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
def test_embeddings_of_any_float_become_float32(tmp_path: Path, dtype):
    read = read_embeddings(save(tmp_path, **three(embeddings=np.asfortranarray(np.eye(3, dtype=dtype)))))
    assert read.embeddings.dtype == np.float32
    assert np.array_equal(read.embeddings, np.eye(3))


def test_numbers_become_strings_and_other_arrays_are_passed_over(tmp_path: Path):
    arrays = three(names=np.arange(3), identities=np.array([7, 7, 11]), domains=np.array([0, 0, 1]), quality=np.eye(2))
    read = read_embeddings(save(tmp_path, **arrays))
    assert (read.names.tolist(), read.identities.tolist()) == (["0", "1", "2"], ["7", "7", "11"])
    assert read.domains.tolist() == ["0", "0", "1"]


def test_text_of_either_byte_order(tmp_path: Path):
    read = read_embeddings(save(tmp_path, **three(identities=np.array(["ä", "ä", "β"]).astype(">U1"))))
    assert (read.identities.tolist(), read.identities.dtype.isnative) == (["ä", "ä", "β"], True)


@pytest.mark.parametrize("kind", [np.int8, np.float32, np.float64, np.longdouble])
@pytest.mark.parametrize("reading", [read_embeddings, lambda path: open_rows(path, ("names", "identities"))])
def test_identities_that_are_whole_numbers_are_those_numbers_in_every_type(tmp_path: Path, kind, reading):
    path = save(tmp_path, **three(identities=np.array([-1, 0, 10], kind)))
    assert reading(path).identities.tolist() == [NOBODY, "0", "10"]


@pytest.mark.parametrize(
    ("identities", "line"),
    [
        (
            np.array([1, 1.5, 2]),
            "float64 numbers, not whole .* in 1 of 3 rows, first in row 1, 'a/2.jpg'; save integers",
        ),
        (np.array([1, 2, 3], np.float16), "float16 numbers, .* too large to be distinct in 3 of 3 rows"),
        (
            np.array([1, 2, 2**24], np.float32),
            "float32 numbers, .* to be distinct in 1 of 3 rows, first in row 2",
        ),
        (np.array([1, 2, 2.0**53]), "float64 numbers, .* in 1 of 3 rows"),
        (np.array([1, 2, -1e300]), "float64 numbers, .* in 1 of 3 rows"),
    ],
)
def test_identities_that_are_other_numbers_are_refused(tmp_path: Path, identities, line: str):
    with pytest.raises(ValueError, match=line) as refused:
        read_embeddings(save(tmp_path, **three(identities=identities)))
    assert "\n" not in str(refused.value)


def test_identities_that_differ_as_strings_differ(tmp_path: Path):
    read = read_embeddings(save(tmp_path, **three(identities=np.array(["1", "01", "1_"]))))
    assert len(set(read.identities)) == 3


def test_compressed_archives_and_notes_in_them_are_read(tmp_path: Path):
    path = tmp_path / "faces.npz"
    np.savez_compressed(path, **three())
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("README.txt", "made by hand")
    assert len(read_embeddings(path)) == 3


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"names": None}, "no array names; an embeddings file has embeddings, names, identities, this one has embed"),
        ({"embeddings": np.array([[1, 2], [np.nan, 4], [5, np.inf]], np.float32)}, "2 of 3 .*NaN.*'a/2.jpg' .row 1"),
        ({"embeddings": np.array([[1, 2], [3, 4], [5, 1e300]])}, "1 of 3 .*infinity.*'b/1.jpg'"),
        ({"embeddings": np.array([[1, 2], [0, 0], [5, 6]], np.float32)}, "1 of 3 .*length zero.*'a/2.jpg' .row 1"),
        ({"embeddings": np.array([[0.0, -0.0], [1e-60, 0], [5, 6]])}, "2 of 3 .*length zero.*'a/1.jpg'"),
        ({"embeddings": np.ones(3, np.float32)}, r"floating-point \(rows, dim\), got float32 \(3,\)"),
        ({"embeddings": np.ones((3, 2), np.int64)}, r"got int64 \(3, 2\)"),
        ({"embeddings": np.ones((3, 0), np.float32)}, r"no embedding \(shape \(3, 0\)\)"),
        ({"embeddings": np.ones((0, 2), np.float32)}, r"no embedding \(shape \(0, 2\)\)"),
        ({"names": np.array(["a", "b", "a"])}, "names must be unique, but 'a' appears again at row 2"),
        ({"names": np.array(["a", "b"])}, r"names has shape \(2,\) but there are 3 embeddings"),
        ({"identities": np.array([["a"], ["a"], ["b"]])}, r"identities has shape \(3, 1\)"),
        ({"domains": np.array(["day", "", ""])}, "2 of 3 rows have an empty domain, .* '' .'a/2.jpg', row 1.: name a"),
        ({"identities": np.array([True, False, True])}, "faces.npz: identities must be text or numbers, got bool"),
        ({"identities": np.array([b"Jos\xe9", b"b", b"b"])}, "identities holds bytes that are not ASCII"),
        ({"names": np.array(["a", "b", None], object)}, "Python objects"),
        ({"names": np.array([1, 2, 3 + 1j])}, "names must be text or numbers, got complex128"),
        (
            {"identities": np.array([1, np.nan, np.nan])},
            "identities holds NaN .* in 2 of 3 rows, first in row 1, 'a/2.j",
        ),
        ({"identities": np.array(["a", "", "b"])}, "1 of 3 identities is empty .*, the first is '' .'a/2.jpg', row 1"),
        ({"identities": np.array(["a", "b", " \t"])}, "1 of 3 identities is empty .*'b/1.jpg', row 2"),
        (
            {"identities": np.array([1, np.nan, 2]).astype(str)},
            "1 of 3 identities is empty or the text of a missing value, the first is 'nan' .'a/2.jpg', row 1.;",
        ),
        ({"identities": np.array(["a", "NaN", "null"])}, "2 of 3 .* the first is 'NaN' .'a/2.jpg', row 1.; such rows"),
        (
            {"identities": np.array(["<na>", "b", "b"])},
            "first is '<na>' .*exclude them, write -1 .* who is called so$",
        ),
        ({"identities": np.array(["a", "b", " N/A\u200b"])}, "first is ' N/A.u200b' .'b/1.jpg', row 2"),
        ({"domains": np.array("day")}, r"domains has shape \(\) but there are 3 embeddings"),
        ({"names": np.frombuffer(b"\0\0\0\x7f" * 3, "<U1")}, "names holds characters that are not Unicode"),
        ({"names": np.array(["a", "b\ud800", "c"])}, "names holds characters that are not Unicode in row 1"),
        ({"origin": np.frombuffer(b"\0\0\0\x7f", "<U1").reshape(())}, "origin holds characters that are not Unicode"),
        ({"names": None, "a\nb": np.zeros(1)}, r"this one has embeddings, identities, a\\nb$"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, changed: dict, says: str):
    assert re.search(says, refused(save(tmp_path, **three(**changed))))


def test_an_empty_archive(tmp_path: Path):
    assert "this one has nothing" in refused(save(tmp_path))


@pytest.mark.parametrize("name", ["none.npz", "."])
def test_no_file(tmp_path: Path, name: str):
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        read_embeddings(tmp_path / name)


def test_a_file_that_may_not_be_read_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = save(tmp_path, **three())

    def closed(*_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("builtins.open", closed)
    with pytest.raises(PermissionError):
        read_embeddings(path)


def npy(array: np.ndarray) -> bytes:
    held = io.BytesIO()
    np.save(held, array)
    return held.getvalue()


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was executed",))


@pytest.mark.parametrize(
    "content",
    [b"", b"PK", b"not an archive", npy(np.eye(3)), pickle.dumps(Bomb()), npy(np.array([{}]))[:40]],
    ids=["empty", "cut", "text", "npy", "pickle", "half"],
)
def test_what_is_no_archive(tmp_path: Path, content: bytes):
    (tmp_path / "faces.npz").write_bytes(content)
    assert "not an .npz file of plain arrays" in refused(tmp_path / "faces.npz")


def test_a_pickle_inside_an_archive_is_never_run(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "faces.npz", "w") as archive:
        held = io.BytesIO()
        np.save(held, np.array([Bomb()], object))
        archive.writestr("embeddings.npy", held.getvalue())
    assert "never loaded" in refused(tmp_path / "faces.npz")


# --- pooling ---------------------------------------------------------------------------------------------------------


def test_sets_become_domains_by_their_names(tmp_path: Path):
    day, night = Embeddings(**three()), Embeddings(**three(embeddings=np.eye(3, 2, dtype=np.float32) + 1))
    pooled = pool_embeddings([("day", day), ("night", night)])
    assert pooled.domains.tolist() == ["day"] * 3 + ["night"] * 3
    # equal names of images are told apart, equal identities are one person
    assert pooled.names.tolist()[2:4] == ["day/b/1.jpg", "night/a/1.jpg"]
    assert pooled.identities.tolist() == ["a", "a", "b"] * 2
    assert np.array_equal(pooled.embeddings[3:], night.embeddings)


def test_a_set_with_domains_of_its_own_keeps_them():
    mixed = Embeddings(**three(domains=np.array(["fog", "rain", "fog"])))
    pooled = pool_embeddings([("mixed", mixed), ("day", Embeddings(**three()))])
    assert pooled.domains.tolist() == ["fog", "rain", "fog", "day", "day", "day"]


@pytest.mark.parametrize(("domains", "expected"), [(None, ["only"] * 3), (["x", "y", "x"], ["x", "y", "x"])])
def test_one_set_alone_keeps_its_names(domains, expected):
    only = Embeddings(**three(domains=None if domains is None else np.array(domains)))
    pooled = pool_embeddings([("only", only)])
    assert pooled.domains.tolist() == expected
    assert np.array_equal(pooled.names, only.names)


def test_two_sets_of_one_name():
    with pytest.raises(ValueError, match="two embeddings files are both called 'day'"):
        pool_embeddings(
            [("day", Embeddings(**three())), ("night", Embeddings(**three())), ("day", Embeddings(**three()))]
        )


def test_sets_of_different_sizes():
    other = Embeddings(**three(embeddings=np.ones((3, 5), np.float32)))
    with pytest.raises(ValueError, match=r"different sizes.*'day': 2, 'night': 5"):
        pool_embeddings([("day", Embeddings(**three())), ("night", other)])


def test_a_file_that_bears_the_name_of_anothers_domain():
    rows, names = np.eye(2, dtype=np.float32), np.array(["1", "2"])
    plain, divided = Embeddings(rows, names, names), Embeddings(rows, names, names, np.array(["night", "street"]))
    with pytest.raises(ValueError, match="'night' is the name of one embeddings file and a domain in another"):
        pool_embeddings([("night", plain), ("other", divided)])


def test_the_origin_travels_with_the_embeddings(tmp_path):
    origin = Origin(model="ab" * 32, flip=True, precision="float32", images="faces.zip")
    rows, names = np.eye(2, dtype=np.float32), np.array(["a", "b"])
    write_embeddings(tmp_path / "known.npz", Embeddings(rows, names, names, origin=origin))
    write_embeddings(tmp_path / "unknown.npz", Embeddings(rows, names, names))
    assert read_embeddings(tmp_path / "known.npz").origin == origin
    assert read_embeddings(tmp_path / "unknown.npz").origin is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "[" * 60_000,
        "[" * 100_000,
        '{"model": "ab"}',
        '{"model": 1, "flip": true, "precision": "", "images": ""}',
    ],
)
def test_an_origin_that_is_none(tmp_path, text):
    rows, names = np.eye(2, dtype=np.float32), np.array(["a", "b"])
    np.savez(tmp_path / "e.npz", embeddings=rows, names=names, identities=names, origin=np.array(text))
    with pytest.raises(ValueError, match=r"e\.npz: its array origin is not what `verisphere embed` writes"):
        read_embeddings(tmp_path / "e.npz")


def test_a_pool_keeps_an_origin_that_all_share(tmp_path):
    rows, names = np.eye(2, dtype=np.float32), np.array(["a", "b"])

    def made(model: str, images: str) -> Embeddings:
        return Embeddings(rows, names, names, origin=Origin(model, False, "float32", images))

    alike = pool_embeddings([("day", made("m", "day.zip")), ("night", made("m", "night.zip"))])
    assert alike.origin == Origin("m", False, "float32", "")
    assert pool_embeddings([("day", made("m", "")), ("night", made("n", ""))]).origin is None
    assert pool_embeddings([("day", made("m", "day.zip"))]).origin == Origin("m", False, "float32", "day.zip")


# --- images of nobody who is known ---


def test_rows_of_nobody_are_excluded_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO")
    rows = Embeddings(np.eye(4), ["a", "b", "c", "d"], ["Ann", "-1", "Ben", "-1"], ["x", "x", "y", "y"])
    write_embeddings(tmp_path / "set.npz", rows)
    assert read_embeddings(tmp_path / "set.npz").identities.tolist() == ["Ann", "-1", "Ben", "-1"]
    known = read_known_people(tmp_path / "set.npz")
    assert (known.names.tolist(), known.identities.tolist()) == (["a", "c"], ["Ann", "Ben"])
    assert known.domains.tolist() == ["x", "y"]
    assert np.array_equal(known.embeddings, np.eye(4)[[0, 2]])
    line = "2 of 4 images show nobody who is known (identity -1) and are excluded"
    assert [record.getMessage() for record in caplog.records] == [f"{tmp_path / 'set.npz'}: {line}"]
    assert known_people(known, "set") is known
    with pytest.raises(ValueError, match=r"set: 2 of 2 images show nobody .*, so there is nothing to compare"):
        known_people(Embeddings(np.eye(2), identities=["-1", "-1"]), "set")
