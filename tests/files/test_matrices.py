"""Features in matrices of OpenCV, as MegaFace's development kit and Trillion-Pairs have them."""

from pathlib import Path

import numpy as np
import pytest

from feature_files import write_matrix
from verisphere.files import streamed_rows
from verisphere.files.matrices import features_of, matrix_portions, matrix_shape, pictures_in
from verisphere.files.streamed_rows import open_templates, read_rows

ROWS = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
LIST = '{"path": ["Ann/1.png", "Ben/2.png", "Ann/3.png"], "id": ["A", "B", "A"]}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A feature file for each of three pictures, of one column as MegaFace has it, and a file of another kind."""
    for name, row in zip(("Ann/1.png", "Ben/2.png", "Ann/3.png"), ROWS, strict=True):
        (tmp_path / "features" / name).parent.mkdir(parents=True, exist_ok=True)
        write_matrix(tmp_path / "features" / f"{name}_arc.bin", row[:, None])
    (tmp_path / "features" / "readme.txt").write_text("x")
    return tmp_path / "features"


def test_a_matrix_as_the_published_writers_lay_it_out(tmp_path: Path):
    path = tmp_path / "merged.bin"
    # 3 rows, 2 columns, 8 bytes a row, type 5; then the numbers row by row
    path.write_bytes(np.array([3, 2, 8, 5], "<i4").tobytes() + np.arange(1, 7, dtype="<f4").tobytes())
    assert matrix_shape(path) == (3, 2)
    assert [part.tolist() for part in matrix_portions(path, 2)] == [[[1, 2], [3, 4]], [[5, 6]]]
    write_matrix(tmp_path / "ours.bin", ROWS)
    assert (tmp_path / "ours.bin").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x80\x04\x95", "3 bytes, too few for the header"),
        (np.array([3, 2, 8, 6], "<i4").tobytes(), r"its header states \[3, 2, 8, 6\]"),
        (np.array([3, 2, 4, 5], "<i4").tobytes(), r"its header states \[3, 2, 4, 5\]"),
        (np.array([0, 2, 8, 5], "<i4").tobytes(), r"its header states \[0, 2, 8, 5\]"),
        (np.array([3, 2, 8, 5], "<i4").tobytes() + bytes(20), "3 rows of 2 take 40 bytes, it has 36"),
    ],
)
def test_another_file_is_no_matrix(tmp_path: Path, content, message):
    path = tmp_path / "merged.bin"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"merged.bin: .*{message}"):
        matrix_shape(path)


def test_a_folder_of_features(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert pictures_in(folder, "_arc.bin") == ("Ann/1.png", "Ann/3.png", "Ben/2.png")
    (tmp_path / "list.json").write_text(LIST)
    monkeypatch.setattr(streamed_rows, "ROWS_AT_ONCE", 2)
    opened = open_templates(folder, pictures=tmp_path / "list.json", ending="_arc.bin")
    assert (opened.names.tolist(), opened.identities.tolist(), opened.dim, opened.steps) == (
        ["Ann/1.png", "Ben/2.png", "Ann/3.png"],
        ["A", "B", "A"],
        2,
        2,
    )
    kept = list(opened.portions(np.array([True, False, True])))
    assert [(names.tolist(), rows.tolist()) for names, rows in kept] == [
        (["Ann/1.png"], [[1, 2]]),
        (["Ann/3.png"], [[5, 6]]),
    ]
    embeddings, source = read_rows(folder, pictures=tmp_path / "list.json", ending="_arc.bin")
    assert embeddings.embeddings.tolist() == ROWS.tolist()
    assert source.file == "features"


def test_features_that_lack_or_differ_are_named(folder: Path, tmp_path: Path):
    (tmp_path / "list.txt").write_text("Ann/1.png\nAnn/4.png\n")
    with pytest.raises(FileNotFoundError, match=r"1 of 2 listed pictures have no feature file, .*'Ann/4.png_arc.bin'"):
        open_templates(folder, pictures=tmp_path / "list.txt", ending="_arc.bin")
    with pytest.raises(ValueError, match=r"no file below it ends in '_cos\.bin'"):
        open_templates(folder, ending="_cos.bin")
    write_matrix(folder / "Ben/2.png_arc.bin", np.ones((3, 1), np.float32))
    with pytest.raises(ValueError, match=r"2\.png_arc\.bin: 3 numbers, but the features before it have 2"):
        list(features_of(folder, ("Ann/1.png", "Ben/2.png"), "_arc.bin", 9))
    write_matrix(folder / "Ben/2.png_arc.bin", np.ones((3, 2), np.float32))
    with pytest.raises(ValueError, match="a matrix of 3 x 2; the feature of a picture is one column"):
        list(features_of(folder, ("Ben/2.png",), "_arc.bin", 9))


def test_a_merged_matrix_with_and_without_its_list(tmp_path: Path):
    path, listed = tmp_path / "merged.bin", tmp_path / "list.json"
    write_matrix(path, ROWS)
    listed.write_text(LIST)
    assert open_templates(path).names.tolist() == ["0", "1", "2"]
    assert read_rows(path, pictures=listed)[0].identities.tolist() == ["A", "B", "A"]
    with pytest.raises(ValueError, match="features do not say who is on a picture"):
        read_rows(path)
    listed.write_text("Ann/1.png\n")
    with pytest.raises(ValueError, match=r"3 rows, but .*list\.json lists 1 pictures"):
        open_templates(path, pictures=listed)
    write_matrix(path, ROWS[:, :1])
    with pytest.raises(ValueError, match="the feature of one picture; name the folder"):
        open_templates(path)
