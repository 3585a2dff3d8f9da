"""Rows of files and folders that are not held: the same rows, the same refusals."""

import re
from pathlib import Path

import numpy as np
import pytest

from verisphere.base.vocabulary import Embeddings, Origin
from verisphere.files import streamed_rows
from verisphere.files.embeddings import read_embeddings, write_embeddings
from verisphere.files.streamed_rows import open_rows, open_templates, read_rows


def saved(folder: Path, **arrays) -> Path:
    np.savez(folder / "e.npz", **arrays)
    return folder / "e.npz"


@pytest.mark.parametrize("kind", ["<f4", "<f8", ">f2"])
def test_rows_come_in_portions(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(streamed_rows, "ROWS_AT_ONCE", 3)
    rows = (np.arange(16).reshape(8, 2) + 1).astype(kind)
    opened = open_rows(saved(tmp_path, embeddings=rows, names=np.arange(8)))
    assert (len(opened), opened.dim, opened.source.origin, opened.names.tolist()[:2]) == (8, 2, None, ["0", "1"])
    for _ in range(2):  # as often as wanted
        portions = [rows for _, rows in opened.portions()]
        assert [(len(portion), portion.dtype) for portion in portions] == [(n, np.float32) for n in (3, 3, 2)]
        assert np.array_equal(np.concatenate(portions), rows.astype(np.float32))


def test_a_table_and_an_origin_are_read_too(tmp_path: Path):
    (tmp_path / "e.csv").write_text("name,identity,e0,e1\na,x,1,2\nb,y,3,4\n")
    opened = open_rows(tmp_path / "e.csv")
    assert [portion.tolist() for _, portion in opened.portions()] == [[[1, 2], [3, 4]]]
    origin = Origin(model="m", flip=False, precision="float32", images="i")
    write_embeddings(tmp_path / "o.npz", Embeddings([[1.0]], identities=["x"], origin=origin))
    assert open_rows(tmp_path / "o.npz").source.origin == origin


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (np.nan, "some embeddings hold NaN or infinity, the first is 'n4' (row 4)"),
        (1e39, "some embeddings hold NaN or infinity, the first is 'n4' (row 4)"),
        (0, "some embeddings have length zero, the first is 'n4' (row 4)"),
    ],
)
def test_a_row_that_is_no_direction_is_named(tmp_path: Path, wrong: float, says: str, monkeypatch):
    monkeypatch.setattr(streamed_rows, "ROWS_AT_ONCE", 3)
    rows = np.ones((6, 2))
    rows[4] = wrong
    path = saved(tmp_path, embeddings=rows, names=np.array([f"n{row}" for row in range(6)]))
    with pytest.raises(ValueError, match=re.escape(f"{path}: {says}")):
        list(open_rows(path).portions())


def test_rows_whose_squares_are_no_numbers_are_rows_all_the_same(tmp_path: Path):
    rows = np.array([[1e-30, 0], [1e30, 1]], np.float32)
    opened = open_rows(saved(tmp_path, embeddings=rows, names=np.arange(2)))
    assert np.array_equal(next(opened.portions())[1], rows)


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


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"names": np.arange(3)}, "no array identities; this one has embeddings, names"),
        (
            {"names": np.arange(3), "identities": np.arange(2)},
            "identities has shape (2,) but there are 3 embeddings",
        ),
    ],
)
def test_people_are_needed_where_they_are_asked_for(tmp_path: Path, arrays: dict, says: str):
    path = saved(tmp_path, embeddings=np.ones((3, 2)), **arrays)
    assert open_rows(path).identities is None
    with pytest.raises(ValueError, match=re.escape(f"{path}: {says}")):
        open_templates(path)


def test_an_excluded_row_may_be_no_direction_and_a_kept_one_is_named_by_its_place_in_the_file(tmp_path: Path):
    rows = np.array([[1, 2], [0, 0], [3, 4], [0, 0]])
    path = saved(tmp_path, embeddings=rows / 1.0, names=np.array(list("abcd")), identities=np.arange(4))
    opened = open_templates(path)
    ((names, kept),) = opened.portions(np.array([True, False, True, False]))
    assert (names.tolist(), kept.tolist()) == (["a", "c"], [[1, 2], [3, 4]])
    with pytest.raises(ValueError, match=r"have length zero, the first is 'd' \(row 3\)"):
        list(opened.portions(np.array([True, False, True, True])))


def test_templates_are_pooled_where_the_file_has_them(tmp_path: Path):
    rows = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    columns = {"names": ["a", "b", "c"], "identities": ["x", "x", "y"]}
    path = saved(tmp_path, embeddings=rows, **columns, templates=["t", "t", "u"])
    # of a template with two stills: (1 + 3) / 2 and (2 + 4) / 2
    assert [portion.tolist() for _, portion in open_templates(path).portions()] == [[[2, 3], [5, 6]]]
    assert [portion.tolist() for _, portion in open_rows(path).portions()] == [rows.tolist()]
    with pytest.raises(ValueError, match="an embeddings file names its pictures"):
        open_templates(path, pictures=tmp_path / "list.json")
    embeddings, source = read_rows(path)
    assert (embeddings.embeddings.tolist(), source) == ([[2, 3], [5, 6]], open_rows(path).source)


@pytest.mark.parametrize("kind", ["<u4", "<u8"])
def test_a_signalling_nan_is_refused_without_a_warning(tmp_path: Path, kind: str):
    bits, number = {"<u4": (0x7FA00000, "<f4"), "<u8": (0x7FF4000000000000, "<f8")}[kind]
    rows = np.array([[bits, bits]], kind).view(number)
    path = saved(tmp_path, embeddings=rows, names=np.arange(1), identities=np.arange(1))
    with pytest.raises(ValueError, match="some embeddings hold NaN or infinity"):
        list(open_rows(path).portions())
    with pytest.raises(ValueError, match="embeddings hold NaN or infinity"):
        read_embeddings(path)
