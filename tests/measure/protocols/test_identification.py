"""Probes in galleries against every pair scored by itself, on sets with and without exact ties."""

import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch

from verisphere.base.vocabulary import PRECISIONS, Embeddings, Precision
from verisphere.decide.identification import ProbeScores, identification_point, probe_scores, rank_rate
from verisphere.measure.protocols.identification import identification, score_probes, split_gallery
from verisphere.score import pair_scores, unit_rows


def faces(rows: np.ndarray, people: np.ndarray, prefix: str = "") -> Embeddings:
    names = np.array([f"{prefix}{number}.jpg" for number in range(len(rows))], dtype=str)
    return Embeddings(rows.astype(np.float32), names, people.astype(str))


def spread(rows: int, people: int, seed: int, prefix: str = "") -> Embeddings:
    """Images that resemble their person, more or less."""
    random = np.random.default_rng(seed)
    person = random.integers(0, people, rows)
    centers = np.random.default_rng(99).normal(size=(people, 8))
    return faces(centers[person] + 0.9 * random.normal(size=(rows, 8)), person, prefix)


def ties(rows: int, people: int, seed: int, prefix: str = "") -> Embeddings:
    """Entries -1, 0 and 1: most mates are tied with somebody else."""
    random = np.random.default_rng(seed)
    entries = random.integers(-1, 2, size=(rows, 5))
    entries[~entries.any(1), 0] = 1
    return faces(entries, random.integers(0, people, rows), prefix)


KINDS: dict[str, Callable[..., Embeddings]] = {"spread": spread, "ties": ties}


def brute(probes: Embeddings, gallery: Embeddings) -> ProbeScores:
    units, rows = unit_rows(probes.embeddings), unit_rows(gallery.embeddings)
    every = torch.arange(len(rows))
    scores = [pair_scores(units, torch.full((len(rows),), number), every, rows) for number in range(len(units))]
    return probe_scores(torch.stack(scores).numpy(), probes.identities, gallery.identities)


def assert_same(found: ProbeScores, wanted: ProbeScores) -> None:
    for field in ("mate", "rival", "rank", "stranger", "people"):
        assert np.array_equal(getattr(found, field), getattr(wanted, field)), field


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_equals_every_pair_scored(kind: str, precision: Precision):
    probes, gallery = KINDS[kind](80, 40, 0), KINDS[kind](120, 25, 1)
    wanted = brute(probes, gallery)
    assert len(wanted.mate)
    assert len(wanted.stranger)
    assert wanted.rank.max() > 5
    for block in (1, 10, 64, 2048):
        assert_same(score_probes(probes, gallery, precision, block), wanted)


def test_random_cases():
    for seed in range(60):
        random = np.random.default_rng(seed)
        make = KINDS[["spread", "ties"][seed % 2]]
        probes = make(int(random.integers(1, 40)), int(random.integers(1, 30)), seed)
        gallery = make(int(random.integers(1, 60)), int(random.integers(1, 20)), seed + 1000)
        found = score_probes(probes, gallery, PRECISIONS[seed % 3], int(random.integers(1, 80)))
        assert_same(found, brute(probes, gallery))


def test_small_tiles_and_lists(monkeypatch: pytest.MonkeyPatch):
    probes, gallery = ties(60, 20, 4), ties(90, 15, 5)
    wanted = score_probes(probes, gallery)
    module = sys.modules["verisphere.measure.protocols.identification"]  # the package's name is the function
    monkeypatch.setattr(module, "TILE_PRODUCTS", 100)
    monkeypatch.setattr(module, "PAIRS_AT_ONCE", 7)
    assert_same(score_probes(probes, gallery, block=20), wanted)


def test_a_person_counts_once():
    """Three images of b stand above a's mate, and one of c: rank 3, not 5."""
    rows = np.array([[4, 3], [1, 0], [1, 0], [1, 0], [24, 7]])
    gallery = faces(rows, np.array(["a", "b", "b", "b", "c"]))
    found = score_probes(faces(np.array([[1, 0]]), np.array(["a"])), gallery)
    assert (found.rank.tolist(), found.rival.tolist()) == ([3], [1.0])
    assert found.mate[0] == np.float32(0.8)


def test_nobody_else_and_nobody_mated():
    gallery = spread(5, 1, 6)
    assert score_probes(spread(3, 1, 7), gallery).rank.tolist() == [1, 1, 1]
    strangers = score_probes(faces(np.eye(8)[:2], np.array(["x", "y"])), gallery)
    assert (len(strangers.mate), len(strangers.stranger)) == (0, 2)


def test_names_of_other_lengths_are_the_same_people():
    """A fixed-width string array of one file may be wider than the other's."""
    probes = faces(np.eye(3), np.array(["a", "long name", "b"]))
    found = score_probes(probes, faces(np.eye(3), np.array(["a", "b", "c"])))
    assert (len(found.mate), len(found.stranger)) == (2, 1)


def test_wrong_calls():
    with pytest.raises(ValueError, match="probes have 5 numbers a row but the gallery has 8"):
        score_probes(ties(4, 2, 0), spread(4, 2, 0))
    nobody = faces(np.eye(5, dtype=np.float32), np.array(["-1", "-1", "a", "a", "b"]))
    for searched in (lambda: score_probes(nobody, ties(4, 2, 0)), lambda: score_probes(ties(4, 2, 0), nobody),
                     lambda: split_gallery(nobody)):  # fmt: skip
        with pytest.raises(ValueError, match="2 embeddings have the identity -1: nobody is known on them; exclude"):
            searched()
    with pytest.raises(ValueError, match="there are no probes to search"):
        score_probes(faces(np.empty((0, 5)), np.empty(0, "U1")), ties(4, 2, 0))


# --- galleries drawn from one set ---------------------------------------------------------------------------------


def test_a_split_enrols_and_holds_out():
    whole = spread(200, 30, 10)
    images = dict(zip(*np.unique(whole.identities, return_counts=True), strict=True))
    probes, gallery = split_gallery(whole, enrol=2, strangers=0.3, seed=1)
    assert sorted([*probes.names, *gallery.names]) == sorted(whole.names)
    enrolled, counts = np.unique(gallery.identities, return_counts=True)
    assert len(enrolled) == len(images) - round(0.3 * len(images))
    assert dict(zip(enrolled, counts, strict=True)) == {name: min(images[name], 2) for name in enrolled}
    held_out = set(images) - set(enrolled)
    for name in held_out:  # with all their images
        assert (probes.identities == name).sum() == images[name]
    row = {name: number for number, name in enumerate(whole.names)}
    for part in (probes, gallery):
        numbers = [row[name] for name in part.names]
        assert numbers == sorted(numbers)
        assert np.array_equal(part.embeddings, whole.embeddings[numbers])


def test_a_seed_is_a_draw():
    whole = spread(100, 20, 11)
    draws = [split_gallery(whole, seed=seed)[1].names.tolist() for seed in (3, 3, 4)]
    assert draws[0] == draws[1] != draws[2]


def test_people_with_few_images_are_enrolled_without_probes():
    whole = faces(np.eye(4), np.array(["a", "b", "c", "c"]))
    probes, gallery = split_gallery(whole, strangers=0.0)
    assert (sorted(gallery.identities), probes.identities.tolist()) == (["a", "b", "c"], ["c"])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"enrol": 0}, "enrol must be at least 1, got 0"),
        ({"strangers": 1.0}, "strangers must be a share of the people, at least 0 and below 1, got 1.0"),
        ({"strangers": -0.1}, "strangers must be a share of the people"),
        ({"seed": -1}, "seed must be 0 or more, got -1"),
        ({"strangers": 0.95}, "a share of 0.95 strangers leaves none of 4 people to enrol"),
    ],
)
def test_wrong_splits(asked: dict, message: str):
    whole = faces(np.eye(5), np.array(["a", "b", "c", "d", "d"]))
    with pytest.raises(ValueError, match=message):
        split_gallery(whole, **asked)


# --- several galleries ----------------------------------------------------------------------------------------------


def test_galleries_apart_then_averaged():
    whole = spread(300, 40, 13)
    searches = {}
    for seed in range(3):
        probes, gallery = split_gallery(whole, seed=seed)
        searches[f"seed {seed}"] = score_probes(probes, gallery), len(gallery)
    result = identification(searches, ("1e-1", "1e-2"), (1, 3), open_rank=2)
    assert list(result.galleries) == ["seed 0", "seed 1", "seed 2"]
    for name, one in result.galleries.items():
        found, images = searches[name]
        assert (one.people, one.images) == (found.people, images)
        assert (one.mated_probes, one.nonmated_probes) == (len(found.mate), len(found.stranger))
        assert one.operating_points == tuple(identification_point(found, fpir, 2) for fpir in ("1e-1", "1e-2"))
        assert one.ranks == (rank_rate(found, 1), rank_rate(found, 3))
        assert one.cmc.identified[-1] == len(found.mate)
    tpirs = [one.operating_points[0].tpir for one in result.galleries.values()]
    assert result.mean_points is not None
    assert result.mean_points[0].tpir == pytest.approx(np.mean(tpirs))
    assert result.mean_ranks is not None
    rates = [one.ranks[1].rate for one in result.galleries.values()]
    assert result.mean_ranks[1].rate == pytest.approx(np.mean(rates))


def test_one_gallery_has_no_mean():
    probes, gallery = split_gallery(spread(100, 20, 14))
    result = identification({"only": (score_probes(probes, gallery), len(gallery))}, fpirs=())
    assert (result.mean_points, result.mean_ranks) == (None, None)
    assert result.galleries["only"].operating_points == ()
