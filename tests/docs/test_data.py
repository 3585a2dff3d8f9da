"""docs/data.md lists what there is: formats, known sets with their terms, the keys of the JSON."""

import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from verisphere.images.packs.formats import FORMATS
from verisphere.images.packs.known_sets import KNOWN_SETS, Terms
from verisphere.measure.data.info import ImagesPerIdentity, Info
from verisphere.measure.data.statistics import ESTIMATOR

PAGE = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")


def test_every_format_has_a_row_and_no_other_name_has_one():
    listed, where, *_ = re.findall(r"(?m)^\| format \|.*\n\|[:|-]+\n((?:\|.*\n)+)", PAGE)
    first, second = (re.findall(r"(?m)^\| (\w+) \|", table) for table in (listed, where))
    assert first == [known.name for known in FORMATS]
    assert set(second) <= set(first)


def test_every_known_set_has_a_row():
    table = PAGE.partition("## Known sets")[2].partition("|:--|:--|:--|\n")[2].splitlines()
    assert table == [f"| {known.name} | {known.terms} | {known.note} |" for known in KNOWN_SETS]


@pytest.mark.parametrize("terms", get_args(Terms))
def test_every_kind_of_terms_is_explained(terms):
    assert len(re.findall(rf"^\| {terms} \| [a-z]", PAGE.partition("## Known sets")[2], re.MULTILINE)) == 1


def test_every_key_of_the_json_is_named():
    for field in (*fields(Info), *fields(ImagesPerIdentity)):
        assert f"`{field.name}`" in PAGE, field.name


def test_the_formula_of_yaw_is_that_of_the_code():
    assert "yaw = arctan(2 a - 1)" in PAGE
    assert ESTIMATOR.startswith("yaw = arctan(2 a - 1)")
