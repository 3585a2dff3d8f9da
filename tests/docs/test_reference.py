"""docs/reference: its pages and the fields in `train --help` are what the docstrings say today."""

import re
from dataclasses import fields

import pytest

from reference.docstrings import arguments
from reference.pages import HELP, ROOT, classes, written
from verisphere.images.augment import Augment
from verisphere.losses import ArcFace, ArcSoftmax
from verisphere.train.recipe import Recipe

WRITTEN = written()


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_what_is_committed_is_what_make_reference_writes(path):
    stale = f"{path.relative_to(ROOT)} differs from the sources: run `make reference` and commit what it writes"
    assert path.read_text(encoding="utf-8") == WRITTEN[path], stale


@pytest.mark.parametrize("page", ["backbones", "data", "losses", "pairs"])
def test_every_argument_of_every_class_has_its_meaning(page):
    assert not [(owner, one.name) for owner in classes(page) for one in arguments(owner) if not one.meaning]


def test_every_field_of_a_recipe_is_in_the_help_with_its_default():
    named = re.findall(r"^--(\S+)", HELP.read_text(encoding="utf-8"), re.MULTILINE)
    groups = {"augment", "distill", "optimizer", "schedule"}
    plain = {field.name for field in fields(Recipe)} - groups
    assert {name for name in named if "." not in name} == plain
    assert {name.partition(".")[0] for name in named if "." in name} == groups
    assert {f"augment.{field.name}" for field in fields(Augment)} <= set(named)
    assert "\n--batch_size 128 " in HELP.read_text(encoding="utf-8")


def test_an_argument_has_type_default_and_meaning():
    margin, scale, *_ = arguments(ArcSoftmax)
    assert (margin.kind, margin.default) == ("number", "0.5")
    assert margin.meaning == "`margin` radians added to the own angle"  # of its parent's sentence
    assert (scale.default, scale.meaning) == ("32.0", "factor from cosine to logit.")
    assert [one.kind for one in arguments(ArcFace) if one.name == "gradient"] == ["`exact`, `detached`"]
