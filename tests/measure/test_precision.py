"""The drop of TAR from float32 to a smaller precision: worked out by hand, as a table, and as a file."""

import numpy as np
import pytest

from verisphere.base.vocabulary import Embeddings, ImageSource, Redrawing
from verisphere.files.results import json_text
from verisphere.measure.precision import (
    FORMAT,
    PrecisionDrop,
    RangeImages,
    check_impostors,
    cosines,
    precision_drop,
    read_precision_drop,
)

PEOPLE = ["Ann", "Ann", "Ben", "Ben"]


def angles(*degrees: float) -> Embeddings:
    """One row of two numbers for each angle."""
    radians = np.radians(degrees)
    return Embeddings(np.stack([np.cos(radians), np.sin(radians)], 1), identities=PEOPLE)


def drop_of(points, **changed) -> PrecisionDrop:
    fields = {"precision": "int8", "measured_on": ImageSource("set.zip"), "images": 4, "people": 2,
              "ranges": RangeImages(9, 3, 0), "bytes_float32": 400, "bytes_smaller": 100, "cosine_mean": 0.99,
              "cosine_lowest": 0.9, "points": points}  # fmt: skip
    return PrecisionDrop(**(fields | changed))


def test_a_drop_worked_out_by_hand():
    # genuine at 10 and 20 degrees, the nearest impostors at 40; then genuine at 10 and 60, impostors at 20 and 50
    float32, smaller = angles(0, 10, 50, 70), angles(0, 10, 30, 90)
    (point,) = precision_drop(float32, smaller, ["0.25"], Redrawing(20))
    assert (point.float32.tar, point.smaller.tar) == (1.0, 0.5)
    assert point.drop.value == 0.5
    # float32's threshold is the second highest impostor score, cos 50 degrees: cosines of 20 and 30 degrees lie above
    assert point.float32.threshold == pytest.approx(np.cos(np.radians(50)), abs=1e-6)
    assert (point.at_float32_threshold.impostor_accepted, point.at_float32_threshold.impostor_total) == (2, 4)
    assert cosines(float32, smaller) == pytest.approx(((2 + 2 * np.cos(np.radians(20))) / 4, np.cos(np.radians(20))))


def test_the_same_model_drops_nothing_and_too_few_impostors_show_nothing():
    rows = angles(0, 10, 50, 70)
    points = precision_drop(rows, rows, ["0.25", "1e-3"], Redrawing(20))
    assert (points[0].drop.value, points[1].drop) == (0.0, None)
    text = drop_of(points).text()
    assert "int8 against float32, measured on 4 images of 2 people from set.zip" in text
    assert "100 bytes for 400" in text
    assert "ranges of int8 from 9 images of people who are not measured (3 of that set, drawn by seed 0)" in text
    assert "* below resolution: 4 impostors cannot show a FAR this low" in text
    assert "drop of TAR at FAR 0.25: 0.0000 is inside the noise" in text
    assert [line.count("-0") for line in text.splitlines() if line.startswith("| 1e-3*")] == [0]


def test_too_few_impostors_for_every_far_are_refused():
    check_impostors(PEOPLE, ["1e-3", "0.25"])
    line = (
        r"4 pairs of different people \(2 people are measured\) cannot show FAR 1e-2; it takes 100, such as of 9 meas"
    )
    with pytest.raises(ValueError, match=line):
        check_impostors(PEOPLE, ["1e-3", "1e-2"])
    with pytest.raises(ValueError, match="cannot show FAR 0; give a --far above 0"):
        check_impostors(PEOPLE, ["0"])


def test_the_file_is_read_back_and_another_is_refused(tmp_path):
    path = tmp_path / "precision.json"
    drop = drop_of(precision_drop(angles(0, 10, 50, 70), angles(0, 10, 30, 90), ["0.25"], Redrawing(20)))
    path.write_text(json_text({"format": FORMAT, **vars(drop)}))
    assert read_precision_drop(path) == drop
    path.write_text('{"format": 2}')
    with pytest.raises(ValueError, match=r"precision\.json: not figures that `verisphere export --precision` writes: "):
        read_precision_drop(path)
