"""The space of a search, checked against a recipe as plain data."""

from typing import Any

import pytest

from verisphere.files.definitions import with_values
from verisphere.study.search import Linear, Logarithmic, ModulatingFactor
from verisphere.study.search.space import Space
from verisphere.train.recipe import Recipe

RECIPE: dict[str, Any] = {
    "data": {"init_args": {"people": 5}},
    "seed": 0,
    "epochs": 2,
    "clip": None,
    "deterministic": True,
    "schedule": {"rate": 0.1, "shape": "cosine"},
    "loss": {"class_path": "SearchSoftmax", "init_args": {"factor": -1.0, "scale": 16.0}},
    "pair_terms": [{"init_args": {"weight": 1.0}}, {"init_args": {"weight": 2.0}}],
}


def space(*fields: str) -> Space:
    return Space(fields, tuple(Linear(0.0, 1.0) for _ in fields))


def test_values_and_start_follow_the_maps():
    of_two = Space(("schedule.rate", "clip"), (Logarithmic(0.01, 1.0, start=0.1), Linear(0.0, 4.0, start=1.0)))
    assert of_two.start.tolist() == pytest.approx([0.5, 0.25])
    assert of_two.values([1.0, 0.5]) == {"schedule.rate": 1.0, "clip": 2.0}
    of_two.check(RECIPE)  # a number, and none yet


def test_readable_numbers_have_short_names_where_these_differ():
    both = Space(("loss.init_args.factor", "schedule.rate"), (ModulatingFactor(16.0), Linear(0.0, 1.0)))
    values = both.values([1.0, 0.5])
    assert list(both.readable(values)) == ["factor", "factor as margin", "schedule.rate"]
    alike = space("pair_terms.0.init_args.weight", "pair_terms.1.init_args.weight")
    assert alike.readable(alike.values([0.0, 1.0])) == {
        "pair_terms.0.init_args.weight": 0.0,
        "pair_terms.1.init_args.weight": 1.0,
    }


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("seed", "space: seed: all candidates of a search share seed; it cannot be searched"),
        ("epochs", "space: epochs: all candidates of a search share epochs"),
        ("data.init_args.people", "space: data.init_args.people: all candidates of a search share data"),
        ("schedule.shape", "space: schedule.shape is 'cosine'; only a number can be searched"),
        ("deterministic", "space: deterministic is True; only a number can be searched"),
        ("loss", "space: loss is .*; only a number can be searched"),
        ("schedule.rat", "schedule.rat: there is no rat in schedule, which has rate, shape"),
        ("pair_terms.2.init_args.weight", "pair_terms.2.init_args.weight: there is no 2 in pair_terms"),
        ("schedule.rate.more", "schedule.rate.more: there is no more in schedule.rate, which has none"),
    ],
)
def test_fields_that_cannot_be_searched(field, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        space(field).check(RECIPE)


def test_a_map_for_another_scale_is_refused():
    name = "loss.init_args.factor"
    Space((name,), (ModulatingFactor(16.0),)).check(RECIPE)
    with pytest.raises(ValueError, match=f"^space: {name}: the map has scale 32 and the loss 16; they must be equal"):
        Space((name,), (ModulatingFactor(),)).check(RECIPE)
    # a scale that is searched too has no value to compare with
    Space((name, "loss.init_args.scale"), (ModulatingFactor(), Linear(8.0, 32.0))).check(RECIPE)


def test_a_margin_of_a_domain_by_its_name():
    domains = {"East Asian": 0.1, "2": 0.2}
    recipe = {"loss": {"class_path": "DomainMargins", "init_args": {"margins": domains}}}
    names = [f"loss.init_args.margins.{domain}" for domain in domains]
    of_both = space(*names)
    of_both.check(recipe)
    changed = with_values(Recipe, recipe, [*of_both.values([0.5, 0.25]).items()])
    assert changed["loss"]["init_args"]["margins"] == {"East Asian": 0.5, "2": 0.25}
    dotted = {"loss": {"init_args": {"margins": {"a.b": 0.1}}}}
    with pytest.raises(ValueError, match=r"^loss.init_args.margins.a.b: there is no a in .*margins, which has a.b$"):
        space("loss.init_args.margins.a.b").check(dotted)
