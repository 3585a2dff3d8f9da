"""YAML and JSON within limits: what is refused before it takes memory or time, and that the rest reads as before."""

from pathlib import Path

import pytest
import yaml

from memory_limit import memory_limit
from verisphere.files.documents import LARGEST_YAML, check_yaml, read_json, read_json_file, read_yaml, read_yaml_file

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{line}: &a{line} [{', '.join([f'*a{line - 1}'] * 9)}]\n" for line in range(1, 9)
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1e-3\nb: [1, x, null, true]\n", {"a": 0.001, "b": [1, "x", None, True]}),
        ("a: &a {x: 1}\nb: *a\n", {"a": {"x": 1}, "b": {"x": 1}}),
        ("a: &a {x: 1}\nb: {<<: *a, y: 2}\n", {"a": {"x": 1}, "b": {"x": 1, "y": 2}}),
        ("[{a: 1}, {a: 2}]", [{"a": 1}, {"a": 2}]),
        ("a: {b: 1}\nb: a\n", {"a": {"b": 1}, "b": "a"}),
        ("a: '[[[not closed'\n", {"a": "[[[not closed"}),
        ("a: " + "9" * 40, {"a": int("9" * 40)}),
        ("a: " + "deadbeef" * 8, {"a": "deadbeef" * 8}),
        ("a: [1e5, 1.e5, .5e-3, -1.5E+2, 1.5]", {"a": [1e5, 1e5, 5e-4, -150.0, 1.5]}),
        ("a: " + "9" * 200_000 + "x", {"a": "9" * 200_000 + "x"}),  # the square of its length would take minutes
        ("", None),
    ],
)
def test_yaml_within_the_limits_reads_as_it_says(text, value):
    assert read_yaml(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAUGHS, "more than 1,048,576 letters by line 5, with what aliases stand for written out"),
        ("[" * 5000, "nested more than 32 deep in line 1"),
        ("- " * 100_000, "nested more than 32 deep in line 1"),
        ("a: 1\nb: 2\na: 3\n", "'a' is there twice, in line 1 and in line 3"),
        ("a: {x: 1,\n 'x': 2}\n", "'x' is there twice, in line 1 and in line 2"),
        ("a: &a [*a]", r"\*'a' in line 1 stands inside what it stands for"),
        ("a: " + "9" * 5000, "a whole number of 5,000 letters in line 1"),
        ("a: " + ":".join(["59"] * 3000), "a whole number of 8,999 letters in line 1"),
        ("a: 190:20:30", "'190:20:30' in line 1: YAML reads it as a number to base 60; put a text into quotes"),
        ("a: !!timestamp x", "the tag !!timestamp in line 1; no tag is read"),
        ("!!python/object/apply:os.system ['true']", "the tag !!python/object/apply:os.system in line 1"),
        (f"a: '{'[' * 40}'", "the text in line 1 holds YAML with nested more than 32 deep"),
        ("x" * (LARGEST_YAML + 1), "262,145 letters of YAML; at most 262,144 are read"),
        ("[" + "0," * 40_000 + "]", "more than 1,048,576 letters"),
        ("a: *b", "not YAML: found undefined alias in line 1"),
        ("? [a]\n: 1", "not YAML: found unhashable key in line 1"),
        ("a: \0", "not YAML: "),
    ],
)
def test_yaml_beyond_them_gets_one_line(text, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_yaml(text)
    assert "\n" not in str(caught.value)


def test_what_is_not_yaml_is_the_parsers_to_say():
    with pytest.raises(yaml.YAMLError):
        check_yaml("[")


def test_a_yaml_file_is_named_and_read_no_further_than_it_may_be_long(tmp_path: Path):
    path = tmp_path / "a.yaml"
    path.write_text("a: 1\na: 2\n")
    with pytest.raises(ValueError, match=r"a\.yaml: 'a' is there twice"):
        read_yaml_file(path)
    with path.open("wb") as file:
        file.truncate(2**40)  # a hole, which takes no room on the disk
    with pytest.raises(ValueError, match=r"a\.yaml: .* bytes, more than the 262,144 allowed"):
        read_yaml_file(path)
    path.write_bytes(b"a: \xff")
    with pytest.raises(ValueError, match=r"a\.yaml: not UTF-8 text: byte 3 is 0xff"):
        read_yaml_file(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("[" * 300 + "]" * 300, "nested too deeply"),
        ('{"a": 1, "b": 2, "a": 3}', "'a' stands in it twice"),
        ("[" + "1" * 5000 + "]", "a whole number of 5,000 letters"),
        ("[NaN]", "NaN is no number"),
        ("1e999", "'1e999' is too large a number"),
        ("{", "Expecting property name"),
    ],
)
def test_json_that_python_would_take_or_trip_over(text, message):
    with pytest.raises(ValueError, match=message):
        read_json(text)


def test_what_python_wrote_itself_may_hold_numbers_that_are_not_finite():
    assert read_json("[Infinity, 1e999, 1]", not_finite=True) == [float("inf"), float("inf"), 1]


def test_a_json_file_is_read_no_further_than_it_may_be_long(tmp_path: Path):
    path = tmp_path / "a.json"
    path.write_text('{"a": [1, 2.5, null]}')
    assert read_json_file(path) == {"a": [1, 2.5, None]}
    with pytest.raises(ValueError, match="21 bytes, more than the 20 allowed"):
        read_json_file(path, largest=20)


def test_nothing_here_takes_memory(tmp_path: Path):
    path = tmp_path / "laughs.yaml"
    path.write_text(LAUGHS)
    with memory_limit(300), pytest.raises(ValueError, match="with what aliases stand for written out"):
        read_yaml_file(path)
