"""`verisphere bridge`: the map between two models, its promise, its file, and what is refused."""

import json
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from two_models import NEW, OLD, saved, two_models
from verisphere.base.trained_on import RowsInTraining, name_digest
from verisphere.base.vocabulary import Embeddings
from verisphere.decide import TooFewComparisonsError
from verisphere.files.bridge import read_bridge
from verisphere.files.embeddings import write_embeddings
from verisphere.score.bridge import FEWEST_FITTED, GRID, fit_map
from verisphere.ship.bridge import make_bridge, promised_map
from verisphere.ship.calibration_check import Accepted

NEEDED = 58 + FEWEST_FITTED  # `confident` at FAR 1e-1


def unit(rows: np.ndarray) -> np.ndarray:
    rows = rows.astype(np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def share_nearest(probes: np.ndarray, enrolled: np.ndarray) -> float:
    """The share of first photographs that are nearest to the second photograph of their person."""
    scores = unit(probes[::2]) @ unit(enrolled[1::2]).T
    return float((scores.argmax(axis=1) == np.arange(len(scores))).mean())


def test_old_rows_are_found_by_probes_of_the_new_model():
    (old, new), (later_old, later_new) = two_models(400), two_models(200, seed=1)
    found = fit_map(old.embeddings, new.embeddings, np.unique(old.identities, return_inverse=True)[1])
    carried = found.apply(later_old.embeddings)
    assert carried.shape == (400, 32)
    assert carried.dtype == np.float32
    assert np.allclose(np.linalg.norm(carried.astype(np.float64), axis=1), 1, atol=1e-6)
    alone = share_nearest(later_new.embeddings, later_new.embeddings)
    assert share_nearest(later_new.embeddings, carried) > 0.6 * alone > 0.3
    assert found.people == 400
    assert (found.power, found.ridge) in GRID
    assert found.separation > 2


def test_the_map_is_the_stated_product_and_sees_new_rows_as_if_centred():
    old, new = two_models(120)
    found = fit_map(old.embeddings, new.embeddings, np.repeat(np.arange(120), 2))
    y, x = unit(old.embeddings), unit(new.embeddings)
    mean, new_mean = y.mean(axis=0), x.mean(axis=0)  # everybody has two photographs: all rows weigh alike
    y, x = y - mean, x - new_mean

    def root(rows: np.ndarray) -> np.ndarray:
        values, axes = np.linalg.eigh(rows.T @ rows / len(rows))
        return axes @ np.diag((values + found.ridge * values.mean()) ** -found.power) @ axes.T

    product = root(x) @ (x.T @ y / len(x)) @ root(y)
    direction = new_mean / np.linalg.norm(new_mean)
    product = (np.eye(32) - np.outer(direction, direction)) @ product
    assert np.allclose(found.apply(old.embeddings), unit(y @ product.T), atol=1e-5)
    assert np.abs(found.apply(old.embeddings) @ direction).max() < 1e-5


def test_a_person_with_many_photographs_does_not_decide():
    """By the fourth root, 16 equal photographs weigh 8 times as much as one, not 16 times."""
    old, new = two_models(120, images=1)
    crowd = np.concatenate([np.arange(120), np.zeros(15, np.int64)])
    found = fit_map(old.embeddings[crowd], new.embeddings[crowd], crowd)
    mean = (unit(old.embeddings).sum(axis=0) + 7 * unit(old.embeddings)[0]) / 127
    assert np.allclose(np.frombuffer(b64decode(found.mean), "<f8"), mean, atol=1e-6)


def test_the_means_of_few_people_are_not_subtracted():
    old, new = two_models(100, images=1)
    for people in (99, 100):
        found = fit_map(old.embeddings[:people], new.embeddings[:people], np.arange(people))
        assert np.frombuffer(b64decode(found.mean), "<f8").any() == (people == 100)


def test_equal_files_give_an_equal_bridge_and_the_order_of_rows_none_other(tmp_path: Path):
    old, new = two_models(NEEDED + 40)
    paths = saved(tmp_path, old, new)
    first, second = (make_bridge(*paths, "1e-1") for _ in range(2))
    assert first == second
    order = np.random.default_rng(3).permutation(len(new))
    write_embeddings(paths[1], new.take(order))
    third = make_bridge(*paths, "1e-1")
    assert third.map == first.map
    assert third.promise == first.promise
    assert make_bridge(*paths, "1e-1", seed=1).promise != first.promise


def test_map_and_promise_share_nobody():
    """The promise is the largest score of 29 comparisons of new rows with carried rows of people outside the fit."""
    old, new = two_models(NEEDED)
    found, promise = promised_map(old, new, "1e-1", seed=5)
    people = np.unique(old.identities)
    promised = people[np.random.default_rng(5).permutation(NEEDED)[:58]]
    inside = ~np.isin(old.identities, promised)
    again = fit_map(
        old.embeddings[inside], new.embeddings[inside], np.unique(old.identities[inside], return_inverse=True)[1]
    )
    assert again == found
    assert (found.people, promise.people, promise.comparisons, promise.rank) == (50, 58, 29, 1)
    carried, probes = found.apply(old.embeddings), unit(new.embeddings)
    scores = (probes @ unit(carried).T)[np.ix_(~inside, ~inside)]
    of = old.identities[~inside]
    assert np.abs(scores[of[:, None] != of] - promise.threshold).min() < 1e-6
    assert promise.genuine is not None
    assert promise.genuine.total == 58


def test_the_threshold_holds_for_strangers_as_often_as_is_promised():
    """Of 120 bridges at FAR 1e-1, at most 5 % accept more, within three standard errors."""
    old, new = two_models(1500, images=1, seed=2)
    above = 0
    for draw in range(120):
        order = np.random.default_rng(draw).permutation(1500)
        used, rest = order[:NEEDED], order[NEEDED:]
        found, promise = promised_map(old.take(used), new.take(used), "1e-1", seed=draw)
        scores = unit(new.embeddings[rest]) @ found.apply(old.embeddings[rest]).T
        above += (scores[~np.eye(len(rest), dtype=bool)] > promise.threshold).mean() > 0.1
    assert above / 120 <= 0.05 + 3 * (0.05 * 0.95 / 120) ** 0.5


def test_a_bridge_is_read_as_it_was_written(tmp_path: Path):
    paths = saved(tmp_path, *two_models(NEEDED))
    bridge = make_bridge(*paths, "1e-1", "confident")
    bridge.write_json(tmp_path / "bridge.json")
    again = read_bridge(tmp_path / "bridge.json")
    assert again == bridge
    assert (again.old, again.new, again.threshold) == (OLD, NEW, bridge.promise.threshold)
    assert (again.old_source.file, again.old_source.people) == ("old.npz", NEEDED)
    rows = two_models(5, seed=3)[0].embeddings
    assert np.array_equal(again.apply(rows), bridge.apply(rows))


def test_a_bridge_knows_on_whom_it_was_fitted(tmp_path: Path):
    old, new = two_models(NEEDED)
    bridge = make_bridge(*saved(tmp_path, old, new), "1e-1", seed=5)
    names = np.unique(old.identities)
    others = np.random.default_rng(5).permutation(NEEDED)[:58]
    of_map = names[~np.isin(np.arange(NEEDED), others)].tolist()
    assert set(bridge.fitted) == {name_digest(name.upper()) for name in of_map}  # once folded
    bridge.write_json(tmp_path / "bridge.json")
    earlier = json.loads((tmp_path / "bridge.json").read_text())
    del earlier["fitted"]
    (tmp_path / "earlier.json").write_text(json.dumps(earlier))
    assert read_bridge(tmp_path / "earlier.json").fitted == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 2}, "format 2, and this version reads format 1"),
        ({"map": None}, "map must be an object"),
        ({"map.matrix": "AAAA"}, "map: buffer size must be a multiple"),
        ({"map.matrix": "!"}, "map: "),
        ({"map.matrix": ""}, "map: its matrix or mean holds NaN, infinity or nothing"),
        ({"map.mean": ""}, "map: its matrix or mean holds NaN, infinity or nothing"),
        ({"promise": None}, "promise must be an object"),
        ({"promise.threshold": None}, "promise.threshold must be a number"),
        ({"promise.rank": 3}, "rank 3 of 29 comparisons is not what guarantee"),
        ({"old_source.sha256": "ab"}, "old_source: "),
        ({"fitted": ["Ann"]}, "fitted"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_damaged_bridge_is_refused_by_one_line(tmp_path: Path, change: dict[str, object], said: str):
    make_bridge(*saved(tmp_path, *two_models(NEEDED)), "1e-1").write_json(tmp_path / "bridge.json")
    document = json.loads((tmp_path / "bridge.json").read_text())
    for name, value in change.items():
        *outer, last = name.split(".")
        (document[outer[0]] if outer else document)[last] = value
    (tmp_path / "bridge.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match="not a bridge as `verisphere bridge` writes it") as error:
        read_bridge(tmp_path / "bridge.json")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_other_files_are_no_bridges(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        read_bridge(tmp_path / "none.json")
    for text in ("", "[]", "{}", '{"format": 1}'):
        (tmp_path / "other.json").write_text(text)
        with pytest.raises(ValueError, match="not a bridge"):
            read_bridge(tmp_path / "other.json")


@pytest.mark.parametrize(
    ("far", "guarantee", "people", "said"),
    [
        ("1e-1", "confident", 107, "needs 108 people, 58 for the promise and 50 others for the map; there are 107"),
        ("1e-2", "confident", 300, "needs 648 people, 598 for the promise and 50 others for the map; there are 300"),
        ("1e-2", "expected", 247, "needs 248 people, 198 for the promise and 50 others for the map; there are 247"),
        ("1e-3", "confident", 300, "needs 6,040 people, .* possible: FAR 2.37e-2 or higher"),
        ("1e-1", "confident", 51, "there are 51; possible: nothing"),
    ],
)
def test_too_few_people_are_refused_with_the_number_needed(far: str, guarantee: str, people: int, said: str):
    old, new = two_models(people, images=1)
    with pytest.raises(TooFewComparisonsError, match=said):
        promised_map(old, new, far, guarantee)  # type: ignore[arg-type]


def test_the_number_said_is_enough():
    for far, guarantee, people in (
        ("1e-1", "confident", 108),
        ("0.3", "expected", 56),
        ("1e-2", "expected", 248),
        ("2.37e-2", "confident", 300),
    ):
        promised_map(*two_models(people, images=1), far, guarantee)  # type: ignore[arg-type]


def test_rows_that_do_not_match_are_named(tmp_path: Path):
    old, new = two_models(NEEDED)
    for sides, said in (
        ((old, new.take(np.arange(len(new) - 3))), r"old.npz: 3 of 216 rows have no row of their name .* 'p106/1'"),
        ((old.take(np.arange(1, len(old))), new), r"new.npz: 1 of 216 rows have no row of their name .* 'p0/0'"),
        (
            (old, replace(new, identities=np.concatenate([new.identities[2:], new.identities[:2]]))),
            r"new.npz: 'p0/0' is of '0-1', but in .*old.npz of '0-0'",
        ),
    ):
        with pytest.raises(ValueError, match=said):
            make_bridge(*saved(tmp_path, *sides), "1e-1", accepted=Accepted(implausible=True))


def test_one_model_needs_no_bridge(tmp_path: Path):
    old, new = two_models(NEEDED)
    for sides in ((old, replace(new, origin=OLD)), (old, replace(old, origin=NEW)), (old, replace(old, origin=None))):
        with pytest.raises(ValueError, match=r"made by the model of .*old.npz, in one way; its rows need no bridge"):
            make_bridge(*saved(tmp_path, *sides), "1e-1")
    unknown = saved(tmp_path, replace(old, origin=None), replace(new, origin=None))
    assert make_bridge(*unknown, "1e-1").old is None
    adopted = saved(tmp_path, old, replace(new, origin=replace(OLD, preprocessing=None)))
    assert make_bridge(*adopted, "1e-1", accepted=Accepted(unrecorded_pixels=True)).new is not None, "pixels may differ"


def test_rows_of_other_photographs_give_no_bridge():
    """Each file is right by itself, and the names of one belong to the other people's rows."""
    old, new = two_models(200)
    moved = replace(new, embeddings=np.roll(new.embeddings, 100, axis=0))
    with pytest.raises(ValueError, match=r"no map separates held-out people .*; do the names fit the rows"):
        promised_map(old, moved, "1e-1")


def test_exchanged_photographs_are_refused_and_other_crops_are_not(tmp_path: Path):
    old, new = two_models(NEEDED)
    nobody, pixels = np.zeros(len(old), bool), np.arange(len(old))

    def of(side: Embeddings, digests: np.ndarray) -> Embeddings:
        return replace(side, in_training=RowsInTraining(nobody, nobody, False, "", digests))

    within = np.concatenate([[1, 0], pixels[2:]])
    said = r"new.npz: 2 of 216 rows were made of .* in .*old.npz, by their pixels; the first, 'p0/0', is 'p0/1' there"
    with pytest.raises(ValueError, match=said):
        make_bridge(*saved(tmp_path, of(old, pixels), of(new, within)), "1e-1")
    for other_crops in (pixels + 1000, np.where(pixels % 2, pixels, pixels + 1000)):
        assert make_bridge(*saved(tmp_path, of(old, pixels), of(new, other_crops)), "1e-1")


def test_people_of_a_training_promise_nothing_about_new_people(tmp_path: Path):
    old, new = two_models(NEEDED)
    seen = np.arange(len(new)) < 4
    new_known = RowsInTraining(seen, seen, True, "")
    paths = saved(tmp_path, old, replace(new, in_training=new_known))
    with pytest.raises(ValueError, match=r"new.npz: the model was trained on 2 of the 108 people"):
        make_bridge(*paths, "1e-1")
    bridge = make_bridge(*paths, "1e-1", accepted=Accepted(training_people=True))
    assert "promises nothing about new people" in bridge.text()
    one = RowsInTraining(np.zeros(len(old), bool), np.arange(len(old)) < 1, True, "")
    paths = saved(tmp_path, *(replace(side, in_training=of) for side, of in ((old, one), (new, new_known))))
    both = make_bridge(*paths, "1e-1", accepted=Accepted(training_people=True))
    of_old, of_new = both.text().splitlines()[:2]
    assert of_old.startswith("old.npz: the model was trained on 1 of the")
    assert of_new.startswith("new.npz: the model was trained on 2 of the 108 people (by name)")
    assert both.promise.in_training is not None
    assert both.promise.in_training.people == 2


def test_rows_of_unrecorded_pixels_are_refused(tmp_path: Path):
    old, new = two_models(NEEDED)
    paths = saved(tmp_path, replace(old, origin=replace(OLD, preprocessing=None)), new)
    with pytest.raises(ValueError, match=r"old.npz: made by an earlier version, which did not record the pixels"):
        make_bridge(*paths, "1e-1")
    assert make_bridge(*paths, "1e-1", accepted=Accepted(unrecorded_pixels=True)).old.preprocessing is None


def test_labels_of_other_rows_are_refused(tmp_path: Path):
    old, new = two_models(200)
    paths = saved(tmp_path, old, replace(new, embeddings=np.roll(new.embeddings, 1, axis=0)))
    with pytest.raises(ValueError, match=r"new.npz: implausible"):
        make_bridge(*paths, "1e-1")


def test_other_words_and_sizes_are_refused():
    old, new = two_models(NEEDED)
    found, _ = promised_map(old, new, "1e-1")
    with pytest.raises(ValueError, match=r"rows of shape \(216, 32\); the bridge takes 24 numbers a row"):
        found.apply(new.embeddings)
    with pytest.raises(ValueError, match="embedding 0 has no direction"):
        found.apply(np.zeros((1, 24), np.float32))
    with pytest.raises(ValueError, match="fitted on at least 50 people, got 49"):
        fit_map(old.embeddings[:98], new.embeddings[:98], np.repeat(np.arange(49), 2))


def test_a_guarantee_that_needs_other_comparisons_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="guarantee is 'approximate'; allowed are confident, expected"):
        make_bridge(tmp_path / "a.npz", tmp_path / "b.npz", "1e-1", "approximate")


def test_one_photograph_of_each_has_no_rate_of_misses():
    old, new = two_models(NEEDED, images=1)
    assert promised_map(old, new, "1e-1")[1].genuine is None


def test_the_people_beyond_what_a_map_is_worth_serve_the_promise(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("verisphere.ship.bridge.MOST_FITTED", 60)
    found, promise = promised_map(*two_models(200, images=1), "1e-1")
    assert (found.people, promise.people) == (60, 140)
