"""JSON values back into dataclasses: what fits, and one line for what does not."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from verisphere.files.json_values import as_kind, from_json
from verisphere.files.results import json_text
from verisphere.vocabulary import OperatingPoint


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
        ({"name": 3}, "name is 3, not text"),
        ({"legs": {}}, "legs is {}, not a list"),
        ({"legs": [{"length": 1}]}, r"legs\[0\]\.side is missing"),
        ({"legs": [7]}, r"legs\[0\] is 7, not an object"),
        ({"legs": [{"length": True, "side": "left"}]}, r"legs\[0\]\.length is True, not a number"),
        ({"legs": [{"length": "1", "side": "left"}]}, r"legs\[0\]\.length is '1', not a number"),
        ({"legs": [{"length": 1, "side": "top"}]}, r"legs\[0\]\.side is 'top', not 'left' or 'right'"),
        ({"legs": [{"length": 1, "side": []}]}, r"legs\[0\]\.side is \[\], not 'left'"),
        ({"legs": [{"length": -1, "side": "left"}]}, r"legs\[0\]: length is -1.0; it must not be negative"),
        ({"tags": {"year": 1.5}}, r"tags\.year is 1\.5, not a whole number"),
        ({"tags": []}, r"tags is \[\], not an object"),
        ({"spare": 1}, "spare is 1, not an object"),
        ({"painted": 1}, "painted is 1, not true or false"),
        ({"legs": [{"length": 10**400, "side": "left"}]}, r"legs\[0\]\.length is 10+\.\.\., not a number"),
        ({"name": [0] * 100}, r"name is \[0, 0, .*\.\.\., not text"),
    ],
)
def test_what_does_not_fit_is_named(change, message):
    with pytest.raises(ValueError, match=message) as caught:
        from_json(Table, FIELDS | change)
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize("value", [[], None, 1, "text"])
def test_only_an_object_makes_a_dataclass(value):
    with pytest.raises(ValueError, match=r"it is .*, not an object"):
        from_json(Table, value)


@pytest.mark.parametrize(("value", "wanted"), [(0.5, 0.5), (1, 1.0), ("balanced", "balanced"), (None, None)])
def test_a_choice_takes_what_any_of_its_kinds_takes(value: object, wanted: object):
    assert as_kind(float | Literal["balanced"] | None, value, "balance") == wanted
    with pytest.raises(ValueError, match="balance is 'even', not a number"):
        as_kind(float | Literal["balanced"], "even", "balance")


def test_a_mapping_is_checked_entry_by_entry():
    assert as_kind(Mapping[str, float], {"a": 1}, "margins") == {"a": 1.0}
    with pytest.raises(ValueError, match=r"margins\.a is 'x', not a number"):
        as_kind(Mapping[str, float], {"a": "x"}, "margins")
