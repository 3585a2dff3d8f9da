"""Definitions: values over those of a file, and places inside lists."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from verisphere.files.definitions import build, complete, options, with_values


class Part:
    """Something that a definition names."""

    def __init__(self, size: int = 1, far: str | float = "1e-4", path: Path = Path("x")) -> None:
        self.size, self.far, self.path = size, far, path


class Long(Part):
    """It passes on what it does not know."""

    def __init__(self, length: float, **more: Any) -> None:
        super().__init__(**more)
        self.length = length


@dataclass(frozen=True)
class Whole:
    """A definition."""

    part: Part
    parts: list[Part] = field(default_factory=list)
    names: dict[str, float] = field(default_factory=dict)
    title: str | None = None


HERE = f"{__name__}."


def test_a_class_takes_the_arguments_of_the_one_above_it():
    described = complete(Whole, {"part": {"class_path": f"{HERE}Long", "init_args": {"length": 2, "size": "3"}}})
    assert described["part"]["init_args"] == {"length": 2.0, "size": 3, "far": 1e-4, "path": "x"}
    built = build(Whole, described).part
    assert isinstance(built, Long)
    assert (built.length, built.size, built.path) == (2.0, 3, Path("x"))


LISTED = {"part": f"{HERE}Part", "parts": [{"class_path": f"{HERE}Part"}, f"{HERE}Part"]}


def test_a_place_in_a_list_is_named_by_its_number():
    changed = with_values(Whole, LISTED, [("parts.0.size", "3"), ("parts.1.init_args.size", 4), ("title", "5")])
    built = build(Whole, complete(Whole, changed))
    assert ([part.size for part in built.parts], built.title) == ([3, 4], "5")
    assert LISTED["parts"] == [{"class_path": f"{HERE}Part"}, f"{HERE}Part"]
    with pytest.raises(ValueError, match=r"^parts\.2: there is no 2 in parts, which has 2 entries, from 0$"):
        with_values(Whole, LISTED, [("parts.2.size", 1)])


def test_another_class_keeps_the_arguments_that_it_takes():
    before = {"part": {"class_path": f"{HERE}Long", "init_args": {"length": 2, "size": 7}}}
    changed = with_values(Whole, before, [("part", f"{HERE}Part")])
    assert changed["part"] == {"class_path": f"{HERE}Part", "init_args": {"size": 7}}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([("part.size", "many")], r"part\.init_args\.size must be a whole number, got 'many'"),
        ([("names.a", "x")], r"names\.a must be a number, got 'x'"),
        ([("names", {1: 0.5})], r"names has the key 1, not text"),
        ([("parts.0.siz", 1)], rf"parts\.0: {HERE}Part: there is no field 'siz' \(did you mean size\?\)"),
    ],
)
def test_a_value_that_does_not_fit_is_named(values: list[tuple[str, Any]], message: str):
    with pytest.raises(ValueError, match=f"^{message}"):
        complete(Whole, with_values(Whole, LISTED, values))


@pytest.mark.parametrize("words", [["--a"], ["--a", "--b", "1"], ["a"], ["--"]])
def test_words_that_are_no_options(words: list[str]):
    with pytest.raises(ValueError, match=r"expected one argument|unrecognized arguments"):
        options(words)
