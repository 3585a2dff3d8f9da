"""A set's figures in each replicate: what only the highest scores say is what all of them say."""

from importlib import import_module

import numpy as np
import pytest

from verisphere.base.vocabulary import Embeddings, Redrawing
from verisphere.decide import PairScores
from verisphere.decide.intervals import tars_redrawn
from verisphere.decide.paired import spread_redrawn
from verisphere.measure.protocols.all_pairs import PairsOfSet, all_pairs
from verisphere.measure.protocols.redrawn import redrawn_set

FIGURES = ("gamma", "tar_std", "neg_log10_far_std")


def some(people: int = 30, images: int = 4, seed: int = 0) -> Embeddings:
    """Two domains, a person in one of them; the second's people are alike."""
    random = np.random.default_rng(seed)
    person = np.repeat(np.arange(people), images)
    shared = random.normal(size=12)
    centres = random.normal(size=(people, 12)) + 1.5 * shared * (np.arange(people) % 2)[:, None]
    rows = centres[person] + random.normal(size=(len(person), 12))
    return Embeddings(
        rows.astype(np.float32),
        names=np.array([f"i{number}" for number in range(len(person))]),
        identities=np.array([f"p{number:02}" for number in person]),
        domains=np.array(["day", "night"])[person % 2],
    )


def whole(pairs: PairsOfSet, domain: str | None = None) -> PairScores:
    """Every pair of the set, or within a domain."""
    parts = []
    for genuine in (True, False):
        scored = pairs.all_scores(genuine)
        scores, rows = scored.scores, scored.rows
        inside = np.ones(len(rows), bool)
        if domain is not None:
            inside = (pairs.domain[rows] == pairs.domains.index(domain)).all(1)
        parts.append((scores[inside], pairs.person[rows[inside]]))
    here = slice(None) if domain is None else pairs.domain == pairs.domains.index(domain)
    images = np.bincount(pairs.person[here], minlength=len(pairs.people))
    (genuine_scores, genuine_people), (impostor, people) = parts
    return PairScores(genuine_scores, genuine_people[:, 0], impostor, people, images)


@pytest.mark.parametrize("few", [False, True])
def test_the_highest_scores_say_what_all_do(few: bool, monkeypatch: pytest.MonkeyPatch):
    asked = []

    def few_scores(far: str, total: int, times: int = 2) -> int:
        asked.append(times)
        return min(total, times * 40)

    if few:  # too few at first, so that more are asked for
        monkeypatch.setattr(import_module("verisphere.measure.protocols.all_pairs"), "enough", few_scores)
    pairs = PairsOfSet(some())
    found = redrawn_set(pairs, ["0.1", "0.01"], "0.02", redrawing=Redrawing(30, 4))
    for one, other in zip(found.tars, tars_redrawn(whole(pairs), ["0.1", "0.01"], Redrawing(30, 4)), strict=True):
        assert one.value == other.value
        assert np.array_equal(one.replicates, other.replicates)
    expected = spread_redrawn(
        whole(pairs), {name: whole(pairs, name) for name in pairs.domains}, "0.02", Redrawing(30, 4)
    )
    assert found.spread is not None
    for name in FIGURES:
        one, other = getattr(found.spread, name), getattr(expected, name)
        assert one.value == other.value
        assert np.array_equal(one.replicates, other.replicates)
    assert (max(asked, default=2) > 2) == few


def test_values_are_those_of_the_evaluation():
    pairs = PairsOfSet(some(seed=1))
    found, result = redrawn_set(pairs, ["0.1"], "0.05", redrawing=Redrawing(2)), all_pairs(pairs, ["0.1", "0.05"])
    assert found.tars[0].value == result.operating_points[0].tar
    assert found.spread is not None
    assert result.one_threshold is not None
    one = result.one_threshold[1]
    assert found.spread.gamma.value == pytest.approx(one.gamma, rel=1e-12)
    assert found.spread.tar_std.value == pytest.approx(one.tar_variance**0.5, rel=1e-12)
    assert found.spread.neg_log10_far_std.value == pytest.approx(one.neg_log10_far_variance**0.5, rel=1e-12)


def test_models_of_the_same_images_see_the_same_draws():
    without = redrawn_set(PairsOfSet(some()), ["0.1"], None, redrawing=Redrawing(9, 2))
    beside = redrawn_set(PairsOfSet(some()), ["0.1", "0.3"], "0.1", redrawing=Redrawing(9, 2))
    assert without.spread is None
    assert np.array_equal(without.tars[0].replicates, beside.tars[0].replicates)


def test_a_set_without_domains_has_no_one_threshold():
    embeddings = some()
    plain = Embeddings(embeddings.embeddings, embeddings.names, embeddings.identities)
    with pytest.raises(ValueError, match="no domain"):
        redrawn_set(PairsOfSet(plain), ["0.1"], "0.1", redrawing=Redrawing(2))
