"""Embeddings with other labels: rows, identities, and lists that do not fit."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from verisphere.base.trained_on import RENAMED, RowsInTraining
from verisphere.base.vocabulary import Embeddings
from verisphere.files.embeddings import read_embeddings, write_embeddings
from verisphere.study.clean.relabel import relabel_file, relabelled_embeddings

ROWS = Embeddings(np.eye(4, dtype=np.float32), ["a/1", "a/2", "b/1", "c/1"], ["a", "a", "b", "c"], ["x", "x", "y", "y"])


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_labels_and_exclusions(tmp_path: Path):
    labels = written(tmp_path / "merged.csv", "name,identity\nc/1,b\na/1,a\nb/1,b\n")
    without = written(tmp_path / "wrong.txt", "a/1\n")
    rows = relabelled_embeddings(ROWS, labels, without)
    assert (rows.names.tolist(), rows.identities.tolist()) == (["c/1", "b/1"], ["b", "b"])
    assert rows.embeddings.argmax(1).tolist() == [3, 2]
    assert rows.domains is not None
    assert rows.domains.tolist() == ["y", "y"]


def test_new_names_are_not_taken_for_those_that_were_compared_with_the_training(tmp_path: Path):
    known = RowsInTraining(np.array([True, True, False, False]), np.zeros(4, bool), True, "")
    write_embeddings(tmp_path / "rows.npz", replace(ROWS, in_training=known))
    labels = written(tmp_path / "new.csv", "name,identity\na/1,x\na/2,x\nb/1,b\nc/1,c\n")
    relabel_file(tmp_path / "rows.npz", tmp_path / "new.npz", labels)
    shared = read_embeddings(tmp_path / "new.npz").shared_with_training
    assert shared is not None
    assert shared.described() == f"none of the 4 images were in the training; {RENAMED}"
    written(labels, "name,identity\na/1,b\na/2,a\nb/1,b\nc/1,c\n")
    relabel_file(tmp_path / "rows.npz", tmp_path / "moved.npz", labels)
    shared = read_embeddings(tmp_path / "moved.npz").shared_with_training
    assert shared is not None
    assert shared.described() == "the model was trained on 1 of the 3 people (by name)"


def test_the_list_is_read_as_the_file_took_its_names_and_the_new_file_says_so(tmp_path: Path):
    write_embeddings(tmp_path / "rows.npz", replace(ROWS, names_rule="exact"))
    labels = written(tmp_path / "codes.csv", "name,identity\na/1,AB\na/2,AB\nb/1,ab\nc/1,ab\n")
    relabel_file(tmp_path / "rows.npz", tmp_path / "codes.npz", labels)
    rows = read_embeddings(tmp_path / "codes.npz")
    assert (rows.identities.tolist(), rows.names_rule) == (["AB", "AB", "ab", "ab"], "exact")


def test_domains_of_the_list(tmp_path: Path):
    labels = written(tmp_path / "merged.csv", "name,identity,domain\nc/1,b,night\n")
    domains = relabelled_embeddings(ROWS, labels).domains
    assert domains is not None
    assert domains.tolist() == ["night"]


def test_the_file(tmp_path: Path):
    write_embeddings(tmp_path / "rows.npz", ROWS)
    without = written(tmp_path / "wrong.txt", "a/1\nc/1\n")
    line = relabel_file(tmp_path / "rows.npz", tmp_path / "right.npz", without=without)
    assert line.endswith("right.npz: 2 of 4 embeddings, 2 identities (before: 3)")
    assert read_embeddings(tmp_path / "right.npz").names.tolist() == ["a/2", "b/1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a/1\nd/1\n", "wrong.txt: line 2: 'd/1' is not among the rows; names there look like 'a/1'"),
        ("a/1\na/1\n", "wrong.txt: line 2: 'a/1' is already on line 1"),
        ("a/1\na/2\nb/1\nc/1\n", "wrong.txt: it excludes every row"),
    ],
)
def test_exclusions_that_do_not_fit(tmp_path: Path, text: str, message: str):
    with pytest.raises(ValueError, match=message):
        relabelled_embeddings(ROWS, without=written(tmp_path / "wrong.txt", text))


def test_nothing_to_change_and_inputs_that_would_be_replaced(tmp_path: Path):
    write_embeddings(tmp_path / "rows.npz", ROWS)
    with pytest.raises(ValueError, match="nothing to change; give --labels LIST, --without LIST, or both"):
        relabel_file(tmp_path / "rows.npz", tmp_path / "right.npz")
    with pytest.raises(FileExistsError, match=r"rows\.npz"):
        relabel_file(tmp_path / "rows.npz", tmp_path / "rows.npz", without=written(tmp_path / "wrong.txt", "a/1\n"))
