"""Landmarks of one's own: both layouts, and a line for each way of getting them wrong."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from verisphere.files.landmarks import BOX_COLUMNS, POINT_COLUMNS, read_landmarks

FACE = [[30, 40], [70, 42], [50, 60], [35, 80], [66, 81]]
TILTED = [[70, 30], [68, 70], [50, 50], [30, 35], [29, 66]]  # a quarter turn: what was left is above


def write_json(folder: Path, content: object) -> Path:
    path = folder / "marks.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def write_csv(folder: Path, *lines: str, header: str = ",".join(("name", *POINT_COLUMNS))) -> Path:
    path = folder / "marks.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def cells(face: list[list[float]]) -> str:
    return ",".join(str(value) for point in face for value in point)


def test_json(tmp_path):
    path = write_json(
        tmp_path,
        {
            "a/1.jpg": {"landmarks": FACE, "box": [20, 10, 60, 90], "score": 0.75, "by": "hand"},
            "a/2.jpg": [{"landmarks": FACE}, {"landmarks": TILTED, "score": None, "box": None}],
            "a/3.jpg": [],
        },
    )
    one, two, three = read_landmarks(path).values()
    assert one.landmarks.tolist() == [FACE]
    assert one.boxes.tolist() == [[20, 10, 80, 100]]  # right and bottom
    assert one.scores.tolist() == [0.75]
    assert two.landmarks.tolist() == [FACE, TILTED]
    # About the middle of 30..70 and 40..81, twice as large as the larger extent, 41.
    assert two.boxes.tolist()[0] == [50 - 41, 60.5 - 41, 50 + 41, 60.5 + 41]
    assert all(math.isnan(score) for score in two.scores)
    assert three.landmarks.shape == (0, 5, 2)
    assert three.boxes.shape == (0, 4)


def test_csv(tmp_path):
    header = ",".join(("score", *BOX_COLUMNS, *POINT_COLUMNS, "name", "status"))
    path = write_csv(
        tmp_path,
        f"0.75,20,10,60,90,{cells(FACE)},a/1.jpg,aligned",
        f",,,,,{cells(FACE)},a/2.jpg,",
        f",,,,,{cells(TILTED)},a/2.jpg,",
        "," * 15 + "a/3.jpg,skipped",
        header=header,
    )
    one, two, three = read_landmarks(path).values()
    assert (one.landmarks.tolist(), one.boxes.tolist(), one.scores.tolist()) == ([FACE], [[20, 10, 80, 100]], [0.75])
    assert two.landmarks.tolist() == [FACE, TILTED]
    assert three.landmarks.shape == (0, 5, 2)


def test_a_byte_order_mark_and_line_ends_of_windows(tmp_path):
    path = write_csv(tmp_path, f"a/1.jpg,{cells(FACE)}")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert read_landmarks(path)["a/1.jpg"].landmarks.tolist() == [FACE]


@pytest.mark.parametrize("turn", [0, 0.5, 1.5, 3.1, -2.2])
@pytest.mark.parametrize("width", [1, 0.3, 0.05])
def test_faces_turned_and_seen_from_the_side_are_faces(tmp_path, turn, width):
    points = (np.array(FACE, float) - 50) * [width, 1]
    turned = points @ np.array([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]]) + 50
    read_landmarks(write_json(tmp_path, {"a.jpg": {"landmarks": turned.tolist()}}))


def with_point(index: int, point: object) -> list:
    return [*FACE[:index], point, *FACE[index + 1 :]]


SWAPPED = [FACE[1], FACE[0], *FACE[2:]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1], r"not an object with the names of photos, but \[1\]"),
        ({}, "lists no photo; is it empty"),
        ({"a.jpg": 3}, "'a.jpg': 3 where an object with `landmarks` is expected"),
        (
            {"a.jpg": [{"landmarks": FACE}, {"box": [1, 2, 3, 4]}]},
            "'a.jpg' face 2: .* where an object with `landmarks`",
        ),
        ({"a.jpg": {"landmarks": FACE[:4]}}, r"'a.jpg': landmarks: \[\[30, .* where five points \[x, y\] with finite"),
        ({"a.jpg": {"landmarks": with_point(2, [1])}}, "where five points"),
        ({"a.jpg": {"landmarks": with_point(2, ["1", 2])}}, "where five points"),
        ({"a.jpg": {"landmarks": with_point(2, [math.nan, 2])}}, "not JSON: NaN is no number"),
        ({"a.jpg": {"landmarks": with_point(2, [1e300, 2])}}, "where five points"),
        ({"a.jpg": {"landmarks": with_point(2, [True, 2])}}, "where five points"),
        ({"a.jpg": {"landmarks": FACE, "score": True}}, "'a.jpg': score: True where a number"),
        ({"a.jpg": {"landmarks": FACE, "box": [1, 2, 3]}}, r"'a.jpg': box: \[1, 2, 3\] where \[left, top, width, heig"),
        ({"a.jpg": {"landmarks": FACE, "box": [20, 30, 0, 5]}}, "has no area; it is left, top, width and height"),
        ({"a.jpg": {"landmarks": SWAPPED}}, r"'a.jpg': left and right eyes are swapped: \(70, 42\) \(30, 40\)"),
        ({"a.jpg": {"landmarks": [*FACE[:3], FACE[4], FACE[3]]}}, "left and right mouth corners are swapped"),
        ({"a.jpg": {"landmarks": [FACE[1], FACE[0], FACE[2], FACE[4], FACE[3]]}}, "eyes are swapped.*person's left"),
        ({"a.jpg": {"landmarks": [[5, 5]] * 5}}, "have eyes and mouth at one place; did a detection fail"),
    ],
)
def test_json_that_is_wrong_gets_one_line(tmp_path, content, message):
    path = write_json(tmp_path, content)
    with pytest.raises(ValueError, match=message) as error:
        read_landmarks(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "lists no photo"),
        ([f"a.jpg,{cells(FACE)}", "b.jpg,1,2"], "line 3: 3 values where the header has 11 columns"),
        ([f"a.jpg,{cells(FACE)},7"], "line 2: 12 values where"),
        ([f",{cells(FACE)}"], "line 2: no photo in column 'name'"),
        ([f"a.jpg,{cells(FACE)}".replace("42", "x")], "line 2: right_eye_y is 'x', not a finite number"),
        ([f"a.jpg,{cells(FACE)}".replace("42", "inf")], "line 2: right_eye_y is 'inf', not a finite number"),
        ([f"a.jpg,{cells(FACE)}", f"b.jpg,{cells(SWAPPED)}"], "line 3: left and right eyes are swapped"),
        (['a.jpg,"' + "x" * 200_000 + '"'], "line [12]: field larger than field limit"),
    ],
)
def test_csv_that_is_wrong_gets_its_line(tmp_path, lines, message):
    path = write_csv(tmp_path, *lines)
    with pytest.raises(ValueError, match=message) as error:
        read_landmarks(path)
    assert str(error.value).startswith(f"{path}: ")


def test_headers(tmp_path):
    with pytest.raises(ValueError, match=r"line 1: no column 'name' among \['photo'\]; is it a JSON file"):
        read_landmarks(write_csv(tmp_path, header="photo"))
    with pytest.raises(ValueError, match="line 1: no column 'right_mouth_y'"):
        read_landmarks(write_csv(tmp_path, header=",".join(("name", *POINT_COLUMNS[:-1]))))
    with pytest.raises(ValueError, match="line 1: two columns are named 'score'"):
        read_landmarks(write_csv(tmp_path, header=",".join(("name", "score", *POINT_COLUMNS, "score"))))


@pytest.mark.parametrize(
    ("shift", "inside"),
    [((0, 0), True), ((-40, 0), True), ((49, 0), True), ((60, 0), False), ((0, -70), False), ((300, 300), False)],
)
def test_landmarks_far_outside_the_photo_are_refused(tmp_path, shift, inside):
    points = (np.array(FACE) + shift).tolist()
    entry = read_landmarks(write_json(tmp_path, {"a.jpg": [{"landmarks": FACE}, {"landmarks": points}]}))["a.jpg"]
    if inside:
        entry.check_inside(100, 100)
        return
    with pytest.raises(
        ValueError, match=r"'a\.jpg'.*: landmarks \(.* lie outside the photo's 100 x 100 pixels; were th"
    ):
        entry.check_inside(100, 100)


def test_the_file_that_comes_with_the_photos(real_data, tmp_path):
    import zipfile

    with zipfile.ZipFile(real_data / "lfw_raw_sample.zip") as archive:
        path = write_json(tmp_path, archive.read("landmarks.json").decode())
    listed = read_landmarks(path)
    assert len(listed) == 301
    for entry in listed.values():
        entry.check_inside(250, 250)
        assert entry.boxes.shape == (1, 4)
        assert (entry.boxes[0, :2] < entry.landmarks[0].mean(0)).all()
        assert (entry.landmarks[0].mean(0) < entry.boxes[0, 2:]).all()
