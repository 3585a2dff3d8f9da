"""Results as JSON: any reader takes them, and no number that is not finite is lost or silently becomes another.

And curves as CSV.
"""

import csv
import dataclasses
import io
import json
import math

import numpy as np
import pytest

from verisphere.decide import operating_point, roc, with_points
from verisphere.files.results import curve_csv, json_text, to_json


@dataclasses.dataclass(frozen=True)
class Inner:
    rate: float
    name: str = "x"


@dataclasses.dataclass(frozen=True)
class Outer:
    threshold: float
    parts: tuple[Inner, ...]
    cuts: tuple[float, ...]
    by_name: dict[str, Inner]
    count: int = 3
    below: bool = False
    nothing: None = None


def strict(text: str):
    """JSON as the standard has it: the names NaN and Infinity are refused."""

    def refuse(word: str):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_fields_keep_their_names_and_types():
    value = Outer(0.5, (Inner(0.25), Inner(1.0, "y")), (0.5, 0.75), {"day": Inner(0.0)})
    assert strict(json_text(value)) == {
        "threshold": 0.5,
        "parts": [{"rate": 0.25, "name": "x"}, {"rate": 1.0, "name": "y"}],
        "cuts": [0.5, 0.75],
        "by_name": {"day": {"rate": 0.0, "name": "x"}},
        "count": 3,
        "below": False,
        "nothing": None,
    }


@pytest.mark.parametrize(
    ("number", "infinite", "sign"), [(math.inf, True, 1), (-math.inf, True, -1), (math.nan, False, 0)]
)
def test_a_number_that_is_not_finite_is_null_and_says_so(number: float, infinite: bool, sign: int):
    read = strict(json_text(Inner(number)))
    assert read == {"rate": None, "rate_is_infinite": infinite, "rate_sign": sign, "name": "x"}
    assert strict(json_text({"deep": [{"rate": number}]}))["deep"][0]["rate_is_infinite"] is infinite


def test_a_list_with_such_a_number_says_which():
    read = strict(json_text({"cuts": (0.5, -math.inf, math.nan, math.inf)}))
    assert read["cuts"] == [0.5, None, None, None]
    assert read["cuts_is_infinite"] == [False, True, False, True]
    assert (read["cuts_sign"][1], read["cuts_sign"][3]) == (-1, 1)


def test_finite_numbers_leave_no_mark():
    assert strict(json_text({"cuts": [0.5, -0.0], "rate": 1e-300})) == {"cuts": [0.5, 0.0], "rate": 1e-300}


@pytest.mark.parametrize("number", [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, np.float64(2) / 3])
def test_numbers_read_back_exactly(number: float):
    assert strict(json_text({"rate": number}))["rate"] == number


def test_text_is_kept():
    names = {'Zoë "quoted" \n|': "\u2028", "1e-4": "1e-4"}
    assert strict(json_text(names)) == names


@pytest.mark.parametrize("value", [{1, 2}, np.arange(3), object(), Inner, b"bytes"])
def test_what_has_no_place_is_refused(value):
    with pytest.raises(TypeError, match="has no place in a result"):
        to_json({"deep": [value]})


def test_a_curve_is_csv_with_far_descending_and_its_targets():
    genuine, impostor = [0.9, 0.6, 0.2], [0.6, 0.5, 0.1, math.inf]
    points = [operating_point(genuine, impostor, far=far, rule="nearest") for far in ("0.5", "0.25", "0.30")]
    text = curve_csv(with_points(roc(genuine, impostor), points), points)
    assert "\r" not in text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [float(row["threshold"]) for row in rows] == [-math.inf, 0.1, 0.2, 0.5, 0.6, 0.9, math.inf]
    fars = [float(row["far"]) for row in rows]
    assert fars == sorted(fars, reverse=True) == [1, 0.75, 0.75, 0.5, 0.25, 0.25, 0]
    assert [row["impostor_accepted"] for row in rows] == ["4", "3", "3", "2", "1", "1", "0"]
    assert [row["genuine_accepted"] for row in rows] == ["3", "3", "2", "2", "1", "0", "0"]
    assert {(row["impostor_total"], row["genuine_total"]) for row in rows} == {("4", "3")}
    assert [float(row["tar"]) + float(row["frr"]) for row in rows] == pytest.approx([1] * 7)
    marks = {row["threshold"]: (row["far_target"], row["rule"]) for row in rows if row["rule"]}
    assert marks == {"0.5": ("0.5", "nearest"), "0.6": ("0.25 0.30", "nearest")}


def test_a_curve_without_operating_points():
    rows = list(csv.DictReader(io.StringIO(curve_csv(roc([0.9], [0.1])))))
    assert {(row["far_target"], row["rule"]) for row in rows} == {("", "")}
