"""JSON values back into dataclasses: what fits, and one line for what does not."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from verisphere.base.vocabulary import OperatingPoint
from verisphere.files.json_values import as_kind, from_json
from verisphere.files.results import json_text


@dataclass(frozen=True)
class Leg:
    length: float
    side: Literal["left", "right"]

    def __post_init__(self) -> None:
        if self.length < 0:
            raise ValueError(f"length is {self.length}; it must not be negative")


@dataclass(frozen=True)
class Table:
    name: str
    legs: tuple[Leg, ...]
    tags: dict[str, int | None]
    spare: Leg | None = None
    painted: bool = False
    notes: Any = None


FIELDS: dict[str, Any] = {
    "name": "desk",
    "legs": [{"length": 1, "side": "left"}, {"length": 2.5, "side": "right"}],
    "tags": {"year": 1950, "price": None},
    "spare": None,
    "painted": True,
    "notes": ["any", 1],
}


def test_values_become_what_the_annotations_say():
    found = from_json(Table, FIELDS | {"unknown": 1})
    assert found == Table("desk", (Leg(1.0, "left"), Leg(2.5, "right")), {"year": 1950, "price": None}, None, True,
                          ["any", 1])  # fmt: skip
    assert type(found.legs[0].length) is float


def test_a_dataclass_inside_may_be_optional():
    assert from_json(Table, FIELDS | {"spare": FIELDS["legs"][0]}).spare == Leg(1.0, "left")


def test_it_is_the_way_back_from_a_result():
    point = OperatingPoint("1e-3", "at_most", -math.inf, 1.0, 1.0, 3, 3, 4, 4, True, 0.4, 1.0, 0.3, 1.0)
    assert from_json(OperatingPoint, json.loads(json_text(point))) == point


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 3}, "name must be text, got 3"),
        ({"legs": {}}, "legs must be a list, got {}"),
        ({"legs": [{"length": 1}]}, r"legs\[0\]\.side is missing"),
        ({"legs": [7]}, r"legs\[0\] must be an object, got 7"),
        ({"legs": [{"length": True, "side": "left"}]}, r"legs\[0\]\.length must be a number, got True"),
        ({"legs": [{"length": 1, "side": "top"}]}, r"legs\[0\]\.side must be 'left' or 'right', got 'top'"),
        ({"legs": [{"length": 1, "side": []}]}, r"legs\[0\]\.side must be 'left'"),
        ({"legs": [{"length": -1, "side": "left"}]}, r"legs\[0\]: length is -1.0; it must not be negative"),
        ({"tags": {"year": 1.5}}, r"tags\.year must be a whole number, got 1\.5"),
        ({"tags": []}, r"tags must be an object, got \[\]"),
        ({"spare": 1}, "spare must be an object, got 1"),
        ({"painted": 1}, "painted must be true or false, got 1"),
        ({"legs": [{"length": 10**400, "side": "left"}]}, r"legs\[0\]\.length must be a number, got 10+\.\.\."),
        ({"name": [0] * 100}, r"name must be text, got \[0, 0, .*\.\.\."),
    ],
)
def test_what_does_not_fit_is_named(change, message):
    with pytest.raises(ValueError, match=message) as caught:
        from_json(Table, FIELDS | change)
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize("value", [[], None, 1, "text"])
def test_only_an_object_makes_a_dataclass(value):
    with pytest.raises(ValueError, match=r"it must be an object, got .*"):
        from_json(Table, value)


@pytest.mark.parametrize(("value", "wanted"), [(0.5, 0.5), (1, 1.0), ("balanced", "balanced"), (None, None)])
def test_a_choice_takes_what_any_of_its_kinds_takes(value: object, wanted: object):
    assert as_kind(float | Literal["balanced"] | None, value, "balance") == wanted
    with pytest.raises(ValueError, match="balance must be a number, got 'even'"):
        as_kind(float | Literal["balanced"], "even", "balance")


def test_a_mapping_is_checked_entry_by_entry():
    assert as_kind(Mapping[str, float], {"a": 1}, "margins") == {"a": 1.0}
    with pytest.raises(ValueError, match=r"margins\.a must be a number, got 'x'"):
        as_kind(Mapping[str, float], {"a": "x"}, "margins")
