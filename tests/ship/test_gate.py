"""A gate that refuses few good photographs."""

import numpy as np
import pytest

from verisphere.base.vocabulary import Embeddings
from verisphere.files.gate import Limit
from verisphere.score import unit_rows
from verisphere.ship.gate import fit_gate, lengths_of


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
