"""Rows of an embeddings file that is not held: the same rows, the same refusals, and images found by name."""

import re
from pathlib import Path

import numpy as np
import pytest

from verisphere.files import embedding_rows
from verisphere.files.embedding_rows import open_rows, rows_named
from verisphere.files.embeddings import write_embeddings
from verisphere.vocabulary import Embeddings, Origin


def saved(folder: Path, **arrays) -> Path:
    np.savez(folder / "e.npz", **arrays)
    return folder / "e.npz"


@pytest.mark.parametrize("kind", ["<f4", "<f8", ">f2"])
def test_rows_come_in_portions(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(embedding_rows, "ROWS_AT_ONCE", 3)
    rows = (np.arange(16).reshape(8, 2) + 1).astype(kind)
    opened = open_rows(saved(tmp_path, embeddings=rows, names=np.arange(8)))
    assert (len(opened), opened.size, opened.origin, opened.names.tolist()[:2]) == (8, 2, None, ["0", "1"])
    for _ in range(2):  # as often as wanted
        portions = list(opened.portions())
        assert [(len(portion), portion.dtype) for portion in portions] == [(n, np.float32) for n in (3, 3, 2)]
        assert np.array_equal(np.concatenate(portions), rows.astype(np.float32))


def test_a_table_and_an_origin_are_read_too(tmp_path: Path):
    (tmp_path / "e.csv").write_text("name,identity,e0,e1\na,x,1,2\nb,y,3,4\n")
    opened = open_rows(tmp_path / "e.csv")
    assert [portion.tolist() for portion in opened.portions()] == [[[1, 2], [3, 4]]]
    origin = Origin(model="m", flip=False, precision="float32", images="i")
    write_embeddings(tmp_path / "o.npz", Embeddings([[1.0]], identities=["x"], origin=origin))
    assert open_rows(tmp_path / "o.npz").origin == origin


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (np.nan, "some embeddings hold NaN or infinity, the first is 'n4' (row 4)"),
        (1e39, "some embeddings hold NaN or infinity, the first is 'n4' (row 4)"),
        (0, "some embeddings have length zero, the first is 'n4' (row 4)"),
    ],
)
def test_a_row_that_is_no_direction_is_named(tmp_path: Path, wrong: float, says: str, monkeypatch):
    monkeypatch.setattr(embedding_rows, "ROWS_AT_ONCE", 3)
    rows = np.ones((6, 2))
    rows[4] = wrong
    path = saved(tmp_path, embeddings=rows, names=np.array([f"n{row}" for row in range(6)]))
    with pytest.raises(ValueError, match=re.escape(f"{path}: {says}")):
        list(open_rows(path).portions())


def test_rows_whose_squares_are_no_numbers_are_rows_all_the_same(tmp_path: Path):
    rows = np.array([[1e-30, 0], [1e30, 1]], np.float32)
    opened = open_rows(saved(tmp_path, embeddings=rows, names=np.arange(2)))
    assert np.array_equal(next(opened.portions()), rows)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"names": np.arange(2)}, "no array embeddings; this one has names"),
        ({"embeddings": np.ones((2, 2))}, "no array names; this one has embeddings"),
        ({"embeddings": np.ones(2), "names": np.arange(2)}, "embeddings must be floating-point (rows, dim)"),
        ({"embeddings": np.ones((2, 2), int), "names": np.arange(2)}, "embeddings must be floating-point (rows, dim)"),
        ({"embeddings": np.ones((0, 2)), "names": np.arange(0)}, "it holds no embedding (shape (0, 2))"),
        ({"embeddings": np.ones((2, 2)), "names": np.arange(3)}, "names has shape (3,) but there are 2 embeddings"),
        (
            {"embeddings": np.ones((2, 2)), "names": np.array(["a", "a"])},
            "names must be unique, but 'a' appears 2 times",
        ),
    ],
)
def test_a_file_that_is_none_is_named(tmp_path: Path, arrays: dict, says: str):
    path = saved(tmp_path, **arrays)
    with pytest.raises(ValueError, match=re.escape(f"{path}: {says}")):
        open_rows(path)


# --- images by name --------------------------------------------------------------------------------------------------


def found(wanted: str, names: str) -> list[int]:
    return rows_named(wanted.split(), names.split(), "meta.txt", "e.npz").tolist()


@pytest.mark.parametrize(
    ("wanted", "names", "rows"),
    [
        ("b a", "a b c", [1, 0]),
        ("b a", "crop/a crop/b", [1, 0]),
        ("b a", "ijbc/crop/a ijbc/crop/b ijbc/crop/c", [1, 0]),
        ("crop/b", "ijbc/crop/a ijbc/crop/b", [1]),
        ("b", "ijbc/crop/b", [0]),
        ("x/a y/b", "r/x/a r/y/b", [0, 1]),
        ("a/1", "a/1 a/a/1", [0]),  # the exact name comes first
    ],
)
def test_an_image_is_found_exactly_or_below_the_shared_folder(wanted: str, names: str, rows: list[int]):
    assert found(wanted, names) == rows


@pytest.mark.parametrize(
    ("wanted", "names", "says"),
    [
        ("a d", "a b c", "e.npz: no embedding of 1 of 2 images of meta.txt, first 'd'; names there look like 'a'"),
        ("a", "x/a y/a", "no embedding of 1 of 1 images"),  # no folder is shared, so none is left out
        ("a.jpg", "a.png", "first 'a.jpg'; names there look like 'a.png'"),
        ("a d", "crop/a crop/b", "no embedding of 1 of 2 images of meta.txt, first 'd'"),
    ],
)
def test_an_image_without_a_row_is_named(wanted: str, names: str, says: str):
    with pytest.raises(ValueError, match=re.escape(says)):
        found(wanted, names)


def test_images_below_two_folders_are_refused():
    with pytest.raises(ValueError, match="lie below 'a/' and below 'a/a/'; rename"):
        found("a/1", "a/a/1 a/a/a/1")
