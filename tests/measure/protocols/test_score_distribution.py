"""What plots are drawn from, against every score held in memory."""

import numpy as np
import pytest

from verisphere.base.vocabulary import Embeddings, Redrawing
from verisphere.decide import TooFewScoresError, roc
from verisphere.measure.protocols.all_pairs import PairsOfSet
from verisphere.measure.protocols.redrawn import intervals_of_set
from verisphere.measure.protocols.score_distribution import histograms, thinned_curve


def some(people: int = 30, images: int = 5, domains: int = 0, noise: float = 0.7, seed: int = 0) -> Embeddings:
    random = np.random.default_rng(seed)
    person = np.repeat(np.arange(people), images)
    rows = random.normal(size=(people, 16))[person] + noise * random.normal(size=(len(person), 16))
    return Embeddings(
        rows.astype(np.float32),
        names=np.array([f"i{number}" for number in range(len(person))]),
        identities=np.array([f"p{number}" for number in person]),
        domains=np.array([f"d{number % domains}" for number in person]) if domains else None,
    )


@pytest.mark.parametrize("noise", [0.7, 0.0, 1e-4])
def test_the_thinned_curve_is_a_part_of_the_whole(noise: float):
    pairs = PairsOfSet(some(noise=noise))
    whole = roc(pairs.all_scores(genuine=True).scores, pairs.all_scores(genuine=False).scores)
    thin = thinned_curve(pairs, points=60)
    assert (np.diff(thin.thresholds) < 0).all()
    # the point of the whole curve that each threshold stands on: the lowest one that is no lower than it
    places = len(whole.thresholds) - 1 - np.searchsorted(whole.thresholds[::-1], thin.thresholds, side="right") + 1
    places = np.minimum(places, len(whole.thresholds) - 1)
    assert thin.impostor_accepted.tolist() == whole.impostor_accepted[places].tolist()
    assert thin.genuine_accepted.tolist() == whole.genuine_accepted[places].tolist()
    assert (thin.impostor_total, thin.genuine_total) == (whole.impostor_total, whole.genuine_total)
    # everything at the end; no impostor at the start
    assert thin.thresholds[-1] == -np.inf
    assert (thin.far[-1], thin.tar[-1], thin.far[0]) == (1.0, 1.0, 0.0)


def test_the_highest_impostors_are_all_on_the_thinned_curve():
    pairs = PairsOfSet(some())
    assert thinned_curve(pairs, points=200).impostor_accepted[:8].tolist() == list(range(8))


@pytest.mark.parametrize("domains", [0, 3])
def test_histograms_count_what_there_is(domains: int):
    embeddings = some(domains=domains)
    pairs = PairsOfSet(embeddings)
    genuine = pairs.all_scores(genuine=True)
    impostors = pairs.all_scores(genuine=False)
    impostor, rows = impostors.scores, impostors.rows
    overall, by_domain = histograms(pairs, genuine, bins=40)
    assert (overall.genuine_total, overall.impostor_total) == (30 * 10, 150 * 149 // 2 - 30 * 10)
    assert overall.genuine.tolist() == np.histogram(genuine.scores, overall.edges)[0].tolist()
    assert overall.impostor.tolist() == np.histogram(impostor, overall.edges)[0].tolist()
    assert overall.impostor.sum() >= 0.99 * len(impostor)
    assert list(by_domain) == [f"d{number}" for number in range(domains)]
    for name, histogram in by_domain.items():
        inside = (embeddings.domains[rows] == name).all(1)
        assert histogram.impostor_total == inside.sum()
        assert histogram.genuine_total == 10 * 10
        assert np.array_equal(histogram.edges, overall.edges)
        assert histogram.impostor.tolist() == np.histogram(impostor[inside], histogram.edges)[0].tolist()


def test_a_set_of_one_point_has_histograms_too():
    rows = np.ones((6, 4), np.float32)
    names = np.array([f"i{number}" for number in range(6)])
    pairs = PairsOfSet(Embeddings(rows, names, np.array(["a", "a", "b", "b", "c", "c"])))
    overall, by_domain = histograms(pairs, pairs.all_scores(genuine=True))
    assert (overall.genuine.sum(), overall.impostor.sum()) == (3, 12)
    assert not by_domain


def test_the_interval_takes_more_impostors_where_a_replicate_needs_them(monkeypatch: pytest.MonkeyPatch):
    pairs = PairsOfSet(some())
    asked = []

    def highest(far, times):
        asked.append(times)
        if times < 8:
            raise TooFewScoresError("too few")
        return PairsOfSet.highest(pairs, far, times)

    monkeypatch.setattr(pairs, "highest", highest)
    intervals_of_set(pairs, ["1e-2"], Redrawing(5))
    assert asked == [2, 4, 8]


def test_bins_of_equal_angle():
    pairs = PairsOfSet(some(noise=0.0))  # every genuine score is 1, up to rounding
    genuine = pairs.all_scores(genuine=True)
    overall, _ = histograms(pairs, genuine, bins=40, degrees=True)
    angles = np.degrees(np.arccos(np.clip(overall.edges, -1, 1)))
    assert np.diff(angles[:-1]) == pytest.approx(np.full(39, np.diff(angles[:-1]).mean()), rel=1e-6)
    assert overall.genuine.sum() == overall.genuine_total
