"""The landmarks file: JSON or CSV with five points for each face of each photo.

A photo is named by its path below the folder, or inside the archive, of the photos. The points are left eye, right eye,
nose, left and right mouth corner; left and right as seen in the photo, so that in an upright face the left eye has the
smaller x. Coordinates are in pixels of the photo; the centre of the first pixel is (0, 0). A box is left, top, width
and height.

JSON: `{"a/1.jpg": {"landmarks": [[x, y], ... five], "box": [...], "score": 0.9}}`; box and score are optional, a
photo with several faces has a list of such objects, and an empty list means that there is no face.

CSV: a header that names `name`, `left_eye_x`, `left_eye_y`, `right_eye_x`, `right_eye_y`, `nose_x`, `nose_y`,
`left_mouth_x`, `left_mouth_y`, `right_mouth_x`, `right_mouth_y`, and optionally `box_left`, `box_top`, `box_width`,
`box_height` and `score`, in any order; other columns are ignored. Each line is a face; a line without points means that
there is no face. The `align.csv` of `verisphere align` is such a file.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from verisphere.files.disk import MAX_TABLE, check_file, read_file
from verisphere.files.documents import read_json
from verisphere.files.json_values import shown
from verisphere.files.text import table_rows

#: The columns of the points in a CSV file, in order.
POINT_COLUMNS = tuple(
    f"{point}_{axis}" for point in ("left_eye", "right_eye", "nose", "left_mouth", "right_mouth") for axis in "xy"
)
#: The columns of the box.
BOX_COLUMNS = ("box_left", "box_top", "box_width", "box_height")

# Largest distance of the right eye on the wrong side of the left one, also of the mouth corners, as a share of the
# distance from eyes to mouth: in a profile they nearly coincide, and swapped they are about one such distance apart.
_WRONG_SIDE = 0.2
_FAR_OUTSIDE = 0.5  # largest distance of a point outside the photo, in its widths or heights
_LARGEST_COORDINATE = 1e9  # single precision can hold this, and every photo is smaller


@dataclass(frozen=True, eq=False)
class ListedFaces:
    """The faces that a file lists for one photo.

    Boxes are left, top, right, bottom; if none is listed, a square around the points of twice their extent. Landmarks
    are (x, y) of left eye, right eye, nose, left and right mouth corner. Scores are NaN if none is listed.
    """

    boxes: Float32[np.ndarray, "faces 4"]
    landmarks: Float32[np.ndarray, "faces 5 2"]
    scores: Float32[np.ndarray, " faces"]
    where: str

    def check_inside(self, height: int, width: int) -> None:
        """Refuses points far outside a photo of this size."""
        size = np.array([width, height])
        outside = (np.abs(self.landmarks + 0.5 - size / 2) > (0.5 + _FAR_OUTSIDE) * size).any(axis=(1, 2))
        middle = self.landmarks.mean(axis=1) + 0.5
        outside |= ((middle < 0) | (middle > size)).any(axis=1)
        if outside.any():
            raise ValueError(
                f"{self.where}: landmarks {_text(self.landmarks[outside.argmax()])} lie outside the photo's {width} x "
                f"{height} pixels; were they found at another resolution, or before the photo was turned upright?"
            )


def read_landmarks(path: str | Path) -> dict[str, ListedFaces]:
    """The faces of each photo that a landmarks file lists; JSON by its suffix, else CSV."""
    path = Path(path)
    check_file(path)
    faces = _faces_in_json(path) if path.suffix.lower() == ".json" else _faces_in_csv(path)
    photos: dict[str, list[_Face]] = {}
    where: dict[str, str] = {}
    for name, place, face in faces:
        where.setdefault(name, place)
        photos.setdefault(name, []).extend([] if face is None else [face])
    if not photos:
        raise ValueError(f"{path}: lists no photo; is it empty?")
    return {name: _listed(found, where[name]) for name, found in photos.items()}


def points_of_images(names: Sequence[str], listed: Mapping[str, ListedFaces]) -> Float32[np.ndarray, "images 5 2"]:
    """The landmarks of the largest face of each image, found by its name with or without suffix; NaN for none."""
    by_stem: dict[str, ListedFaces | None] = {}
    for photo, of_photo in listed.items():
        stem = _stem(photo)
        by_stem[stem] = None if stem in by_stem else of_photo
    points = np.full((len(names), 5, 2), np.nan, np.float32)
    for row, name in enumerate(names):
        faces = listed[name] if name in listed else by_stem.get(_stem(name))
        if faces is not None and len(faces.landmarks):
            boxes = faces.boxes
            points[row] = faces.landmarks[((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])).argmax()]
    return points


def _stem(name: str) -> str:
    folder, _, base = name.rpartition("/")
    return f"{folder}/{base.rpartition('.')[0] or base}"


@dataclass(frozen=True, eq=False)
class _Face:
    landmarks: Float32[np.ndarray, "5 2"]
    box: Float32[np.ndarray, "4"]
    score: float


def _listed(faces: Sequence[_Face], where: str) -> ListedFaces:
    return ListedFaces(
        boxes=np.array([face.box for face in faces], np.float32).reshape(-1, 4),
        landmarks=np.array([face.landmarks for face in faces], np.float32).reshape(-1, 5, 2),
        scores=np.array([face.score for face in faces], np.float32),
        where=where,
    )


def _faces_in_json(path: Path) -> Iterator[tuple[str, str, _Face | None]]:
    """Name of the photo, place in the file, and face; the face is None if an entry states that there is none."""
    try:
        content = read_json(read_file(path, MAX_TABLE).decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text (byte {error.start})") from None
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: not an object with the names of photos, but {shown(content)}")
    for name, entry in content.items():
        faces = entry if isinstance(entry, list) else [entry]
        if not faces:
            yield name, f"{path}: {shown(name, 200)}", None
        for number, face in enumerate(faces):
            place = f"{path}: {shown(name, 200)}" + (f" face {number + 1}" if len(faces) > 1 else "")
            if not isinstance(face, dict) or "landmarks" not in face:
                raise ValueError(f"{place}: {shown(face)} where an object with `landmarks` is expected")
            points = _numbers(face["landmarks"], (5, 2), f"{place}: landmarks")
            box = None if face.get("box") is None else _numbers(face["box"], (4,), f"{place}: box")
            score = math.nan if face.get("score") is None else float(_numbers(face["score"], (), f"{place}: score"))
            yield name, place, _face(points, box, score, place)


def _numbers(value: object, shape: tuple[int, ...], where: str) -> Float32[np.ndarray, "..."]:
    cells = np.array(value, object)
    # by type, because in Python true is the number 1
    if cells.shape != shape or not all(
        type(cell) in (int, float) and abs(cell) < _LARGEST_COORDINATE for cell in cells.flat
    ):
        expected = {(5, 2): "five points [x, y]", (4,): "[left, top, width, height]", (): "a number"}[shape]
        raise ValueError(f"{where}: {shown(value)} where {expected} with finite numbers are expected")
    return cells.astype(np.float32)


def _faces_in_csv(path: Path) -> Iterator[tuple[str, str, _Face | None]]:
    """Name of the photo, line, and face from CSV; the face is None if a line has no points."""
    points_of = ("name", *POINT_COLUMNS)
    columns, rows = table_rows(path, points_of, (*BOX_COLUMNS, "score"), "is it a JSON file named .csv?")
    for line, cells in rows:
        place, row = f"{path}: line {line}", dict(zip(columns, map(str.strip, cells), strict=True))
        if not row["name"]:
            raise ValueError(f"{place}: no photo in column 'name'")
        if not any(row[column] for column in POINT_COLUMNS):
            yield row["name"], place, None
            continue
        points = np.array([_number(row[column], column, place) for column in POINT_COLUMNS], np.float32)
        given = [row.get(column, "") for column in BOX_COLUMNS]
        box = [_number(cell, column, place) for cell, column in zip(given, BOX_COLUMNS, strict=True) if any(given)]
        score = _number(row["score"], "score", place) if row.get("score") else math.nan
        box_of = np.array(box, np.float32) if box else None
        yield row["name"], place, _face(points.reshape(5, 2), box_of, score, place)


def _number(cell: str, column: str, place: str) -> float:
    try:
        number = float(cell)
    except ValueError:
        number = math.nan
    if not abs(number) < _LARGEST_COORDINATE:
        raise ValueError(f"{place}: {column} is {shown(cell)}, not a finite number")
    return number


def _face(points: Float32[np.ndarray, "5 2"], box: Float32[np.ndarray, "4"] | None, score: float, place: str) -> _Face:
    """A face, its points checked for plausible places."""
    _check_sides(points, place)
    if box is None:
        low, high = points.min(axis=0), points.max(axis=0)
        half = (high - low).max()
        return _Face(points, np.concatenate([(low + high) / 2 - half, (low + high) / 2 + half]), score)
    if min(box[2:]) <= 0:
        raise ValueError(f"{place}: box {shown(box.tolist())} has no area; it is left, top, width and height")
    return _Face(points, np.concatenate([box[:2], box[:2] + box[2:]]), score)


def _check_sides(points: Float32[np.ndarray, "5 2"], place: str) -> None:
    """Refuses a face with left and right swapped, for any rotation of the face in the photo."""
    left_eye, right_eye, _, left_mouth, right_mouth = points.astype(np.float64)
    down = (left_mouth + right_mouth - left_eye - right_eye) / 2
    length = math.hypot(*down)
    if length < 1e-3:
        raise ValueError(f"{place}: landmarks {_text(points)} have eyes and mouth at one place; did a detection fail?")
    rightward = np.array([down[1], -down[0]]) / length**2  # y points downward: the right of an upright face
    for name, left, right in (("eyes", left_eye, right_eye), ("mouth corners", left_mouth, right_mouth)):
        if (right - left) @ rightward < -_WRONG_SIDE:
            raise ValueError(
                f"{place}: left and right {name} are swapped: {_text(points)}; left is what is left as seen in the "
                "photo, not the person's left, and eyes come before the mouth"
            )


def _text(points: np.ndarray) -> str:
    return " ".join(f"({x:.6g}, {y:.6g})" for x, y in points)
