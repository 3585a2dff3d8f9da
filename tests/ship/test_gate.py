"""A gate that refuses few good photographs."""

import numpy as np
import pytest
import torch

from tiny_service import FIND, MODEL
from verisphere.base.vocabulary import Embeddings, Origin
from verisphere.decide import TooFewComparisonsError
from verisphere.files.gate import Effect, Gate, Limit, read_gate
from verisphere.images import InMemory
from verisphere.images.worse import Worse
from verisphere.score import unit_rows
from verisphere.ship.gate import chosen, effects_of, fit_gate, gate_of, lengths_of


def people(count: int, images: int = 3, seed: int = 0) -> Embeddings:
    draw = np.random.default_rng(seed)
    own = np.repeat(draw.normal(size=(count, 16)), images, axis=0)
    identities = np.repeat(np.arange(count), images)
    return Embeddings(own + 0.9 * draw.normal(size=own.shape), identities=identities)


def measures(images: int, seed: int = 1) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    return {name: draw.normal(size=images) for name in ("detail", "size", "brightness")}


@pytest.mark.parametrize("good", ["1e-2", "4e-2", "0.2"])
def test_no_more_good_photographs_are_refused_than_was_asked(good: str):
    embeddings, measured = people(400), measures(1200)
    gate = fit_gate(measured, embeddings, good=good)
    refused = np.array([bool(reasons) for reasons in gate.reasons(measured)])
    assert 0 < refused.mean() <= float(good) / 4
    assert [limit.measure for limit in gate.limits] == ["detail", "size"]
    assert (gate.people, gate.photographs) == (400, 1200)
    units = unit_rows(embeddings.embeddings).numpy()
    scores = units[1::3] @ units[::3].T  # a second photograph of everybody with a first one
    nearest_other = (scores - 3 * np.eye(len(scores))).max(1)
    assert (nearest_other > scores.diagonal() + gate.margin).mean() <= float(good)


def test_measures_are_asked_for_by_name_and_on_both_sides():
    gate = fit_gate(measures(60), people(20), good="0.4", measures=["brightness"])
    least, most = gate.limits
    assert (least.measure, least.side, most.side) == ("brightness", "least", "most")
    order = np.sort(measures(60)["brightness"])  # a twentieth at each end: three of 60
    assert (least, most) == (Limit("brightness", "least", order[3]), Limit("brightness", "most", order[-4]))


def test_an_image_without_a_number_is_no_part_of_a_limit():
    measured = measures(60)
    measured["size"][::2] = np.nan
    gate = fit_gate(measured, people(20), good="0.4", measures=["size"])
    assert gate.limits[0].value == np.sort(measured["size"][1::2])[3]


def test_people_who_are_all_far_apart_have_no_margin():
    apart = Embeddings(np.repeat(np.eye(5), 2, axis=0), identities=np.repeat(np.arange(5), 2))
    assert fit_gate(measures(10), apart).margin == 0


@pytest.mark.parametrize(("rule", "count"), [("merge", 5), ("exact", 10)])
def test_a_gate_records_how_names_were_taken(tmp_path, rule, count):
    names = [name for person in "abcde" for name in (person, person.upper(), person, person.upper())]
    apart = Embeddings(np.repeat(np.eye(5), 4, axis=0), identities=names, names_rule=rule)
    gate = fit_gate(measures(20), apart)
    gate.write_json(tmp_path / "gate.json")
    read = read_gate(tmp_path / "gate.json")
    assert (read.names_rule, read.people) == (rule, count)


def test_photographs_of_nobody_are_no_person():
    """They count for the limits, which need no names, and not for the alarm."""
    embeddings, draw = people(400), np.random.default_rng(5)
    nobody = draw.normal(size=(300, 16))
    rows, names = np.concatenate([embeddings.embeddings, nobody]), [*embeddings.identities.tolist(), *["-1"] * 300]
    gate = fit_gate(measures(1500), Embeddings(rows, identities=names))
    assert gate.margin == fit_gate(measures(1200), embeddings).margin
    assert (gate.people, gate.photographs) == (400, 1500)
    assert gate.limits == fit_gate(measures(1500), people(500)).limits


def test_what_cannot_be_fitted_is_refused():
    with pytest.raises(ValueError, match=r"no measure 'detial' \(did you mean detail\?\)"):
        fit_gate(measures(60), people(20), measures=["detial"])
    with pytest.raises(ValueError, match=r"nobody of one\.zip has two photographs"):
        fit_gate(measures(20), people(20, images=1), images="one.zip")
    with pytest.raises(ValueError, match="do the landmarks name these images"):
        fit_gate({"size": np.full(60, np.nan)}, people(20))


def test_the_length_is_that_before_it_is_taken_away():
    assert lengths_of(np.array([[3, 4], [0, 0.5]], np.float32)) == pytest.approx([5, 0.5])


def test_worse_copies_take_names_as_the_set_does():
    faces = InMemory(torch.zeros(2, 3, 4, 4, dtype=torch.uint8), ("1", "2"), ("AB", "ab"), names_rule="exact")
    assert Worse(faces).names_rule == "exact"


def worse_world(people_there: int = 300, seed: int = 3):
    """Embeddings by which worse copies of all people look alike, and measures that tell them for the most part."""
    draw, embeddings = np.random.default_rng(seed), people(people_there, 3, seed)
    count = len(embeddings)
    alike = 0.1 * embeddings.embeddings + draw.normal(size=16) * 3 + 0.3 * draw.normal(size=(count, 16))
    copies = Embeddings(alike, identities=embeddings.identities)
    good = {"detail": draw.normal(10, 1, count)}
    return good, embeddings, {"detail": draw.normal(7, 1, count)}, copies


def test_the_more_a_gate_refuses_the_fewer_strangers_are_found_by_worse_copies():
    effects = effects_of(*worse_world(), fpir="2e-2")
    refused, found = ([getattr(effect, name) for effect in effects] for name in ("worse_refused", "fpir"))
    assert refused == sorted(refused)
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.02
    poisoned = effects_of(*worse_world()[:2], *worse_world()[:2], fpir="2e-2")  # copies that are not worse
    assert all(effect.fpir < 0.05 for effect in poisoned)


def test_the_share_is_that_of_the_most_people_at_an_fpir_that_is_kept():
    effects = [
        Effect("a", 0.5, 0.01, 0.03, 0.99),
        Effect("b", 0.7, 0.01, 0.01, 0.9),
        Effect("c", 0.9, 0.005, 0.005, 0.95),
    ]
    assert chosen(effects, "1e-2") == "c"
    assert chosen(effects[:2], "1e-2") == "b"
    assert chosen(effects, "1e-3") == "c"  # where none keeps to it, the strictest
    assert chosen(effects, "5e-2") == "a"


def test_a_threshold_that_people_are_too_few_for_is_refused():
    with pytest.raises(TooFewComparisonsError, match="needs 999 strangers"):
        effects_of(*worse_world(100), fpir="1e-3")


def test_a_gate_is_used_only_with_the_model_that_it_was_fitted_for_and_says_what_weakens_it(tmp_path, caplog):
    gate = Gate("others", 10, 20, None, (), 0.0, implausible=("scores cannot be right: one vector",))
    gate.write_json(tmp_path / "gate.json")
    gate_of(tmp_path / "gate.json", MODEL, FIND)
    assert "scores cannot be right: one vector" in caplog.text
    other = Gate("others", 10, 20, Origin("ab" * 32, False, "float32", "others"), (), 0.0)
    other.write_json(tmp_path / "other.json")
    with pytest.raises(ValueError, match=r"other\.json: not made as .*fit a gate for this model"):
        gate_of(tmp_path / "other.json", MODEL, FIND)
