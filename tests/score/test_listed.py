"""Listed pairs by the million: the integers of a sort of every exact score, whatever the list, screen and blocks."""

import math
import tracemalloc
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch

from verisphere.base.vocabulary import PRECISIONS, RULES
from verisphere.decide import operating_point
from verisphere.score import listed, listing, pair_scores, unit_rows
from verisphere.score.listed import GatheredScores, ListedPairs
from verisphere.score.listing import Listing, PackedListing, Strips, side_of, strips_of

Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]  # left rows, right rows, genuine
ROWS = 60


def spread(dim: int = 16, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(ROWS, dim))


def quantised() -> np.ndarray:
    """Rows of few distinct entries: many exactly equal scores, zeros of both signs among them."""
    rows = np.random.default_rng(1).integers(-1, 2, (ROWS, 4)).astype(float)
    rows[~rows.any(1)] = 1
    return rows


SHAPES = {
    "spread": spread(),
    "wide": spread(700),
    "one number a row": np.where(spread(1) > 0, 1.0, -2.0),
    "quantised": quantised(),
    "repeated": spread()[np.arange(ROWS) % 7],
    "one point": np.ones((ROWS, 16)),
    "collapsed to 1e-3": 1 + 1e-3 * spread(),
    "collapsed to 1e-7": 1 + 1e-7 * spread(),
    "people": np.repeat(spread()[:20], 3, 0) + 0.3 * spread(seed=5),
}


def some_pairs(count: int = 3000, seed: int = 0) -> Pairs:
    """In any order, some twice, some turned round, some of a row with itself."""
    generator = np.random.default_rng(seed)
    left, right = generator.integers(0, ROWS, (2, count))
    return left, right, left // 3 == right // 3


def two_sides(count: int = 3000) -> Pairs:
    """Templates 0 .. 14 as a gallery against all others, ascending, as the IJB lists go."""
    places = np.sort(np.random.default_rng(2).integers(0, 15 * 45, count))
    left, right = places // 45, 15 + places % 45
    return left, right, left % 15 == right % 15


def upper() -> Pairs:
    left, right = np.triu_indices(ROWS, 1)
    return left, right, left // 3 == right // 3


def turned(pairs: Pairs) -> Pairs:
    left, right, genuine = pairs
    return right, left, genuine


def shuffled(pairs: Pairs) -> Pairs:
    order = np.random.default_rng(3).permutation(len(pairs[0]))
    left, right, genuine = (column[order] for column in pairs)
    return left, right, genuine


LISTS: dict[str, Callable[[], Pairs]] = {
    "any order": some_pairs,
    "two sides": two_sides,
    "two sides, turned": lambda: turned(two_sides()),
    "two sides, shuffled": lambda: shuffled(two_sides()),
    "every pair": upper,
    "every pair, turned": lambda: turned(upper()),
    "every pair, shuffled": lambda: shuffled(upper()),
}


def sorted_scores(units: torch.Tensor, pairs: Pairs, genuine: bool) -> np.ndarray:
    left, right, same = pairs
    exact = pair_scores(units, torch.from_numpy(left), torch.from_numpy(right)).numpy()
    return np.sort(exact[same == genuine])[::-1]


def check(scores, expected: np.ndarray) -> None:
    assert scores.total == len(expected)
    total = len(expected)
    ranks = {*range(1, min(total, 12) + 1), total // 10 + 1, total // 2 + 1, *range(max(total - 3, 1), total + 1)}
    thresholds = [-np.inf, np.inf, -3.0, 3.0, 1e300, 0.0, 0.123]
    for rank in sorted(ranks):
        value = float(expected[rank - 1])
        found = scores.ranked(rank)
        assert found == value
        assert math.copysign(1, found) == 1 or found < 0  # -0.0 is 0.0
        thresholds += [value, float(np.nextafter(value, -np.inf)), float(np.nextafter(value, np.inf))]
    for threshold in thresholds:
        assert scores.above(threshold) == int((expected > threshold).sum())


@pytest.fixture
def by_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of any size and density go by products, in shares of odd size."""
    monkeypatch.setattr(listed, "PAIRS_WITHOUT_KEYS", 0)
    monkeypatch.setattr(listing, "PRODUCTS_A_GATHERED_SCORE", 1e9)
    monkeypatch.setattr(listing, "PAIRS_AT_ONCE", 777)


# --- pairs from anywhere ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_gathered_scores_are_those_of_a_sort(shape: str):
    units, pairs = unit_rows(SHAPES[shape].astype(np.float32)), some_pairs()
    check(GatheredScores(units, *pairs[:2]), sorted_scores(units, (*pairs[:2], np.ones(3000, bool)), True))


@pytest.mark.parametrize("bits", [0, 2, 5])
def test_groups_of_left_rows_change_nothing(bits: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("verisphere.score.listed._GROUP_BITS", bits)
    units, (left, right, _) = unit_rows(spread().astype(np.float32)), some_pairs(4000)
    scores = GatheredScores(units, left, right)
    assert scores.group == bits
    check(scores, sorted_scores(units, (left, right, np.ones(4000, bool)), True))


@pytest.mark.parametrize("dim", [1, 2, 128, 512, 3000])
def test_the_error_of_gathered_scores_is_bounded(dim: int):
    """Of one sign, so that nothing cancels and roundings add up as badly as they can."""
    units = unit_rows(np.abs(spread(dim)).astype(np.float32))
    left, right, _ = some_pairs()
    scores = GatheredScores(units, left, right)
    rows = [torch.from_numpy(side) for side in scores._rows(scores.pairs)]
    off = np.abs(scores.score.astype(np.float64) - pair_scores(units, *rows).numpy()).max()
    assert off <= scores.error < (dim + 2) * 6.1e-8


@pytest.mark.parametrize("rows", [1, 2, 3, 64, 65])
def test_packing_keeps_both_rows(rows: int):
    left, right = np.random.default_rng(0).integers(0, rows, (2, 500))
    scores = GatheredScores(unit_rows(np.ones((rows, 2), np.float32)), left, right)
    found = np.stack(scores._rows(scores.pairs), 1)
    assert sorted(map(tuple, found.tolist())) == sorted(zip(left.tolist(), right.tolist(), strict=True))


def test_exact_scores_are_made_once_for_questions_about_one_value(monkeypatch: pytest.MonkeyPatch):
    asked: list[int] = []

    def counted(units, left, right):
        asked.append(len(left))
        return pair_scores(units, left, right)

    monkeypatch.setattr("verisphere.score.listed.pair_scores", counted)
    left, right, _ = some_pairs()
    scores = GatheredScores(unit_rows(np.ones((ROWS, 3), np.float32)), left, right)
    assert scores.above(scores.ranked(7)) == 0
    assert scores.ranked(2999) == scores.ranked(1)
    assert asked == [3000]


# --- lists by products -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("by_products")
def test_ranks_and_counts_are_those_of_a_sort(shape: str, precision: str):
    units, pairs = unit_rows(SHAPES[shape].astype(np.float32)), some_pairs()
    found = ListedPairs(units, *pairs, precision=precision, tile=500)
    assert found.keys is not None
    for genuine in (True, False):
        check(found.scores(genuine), sorted_scores(units, pairs, genuine))


@pytest.mark.parametrize("tile", [1, 300, 1 << 20])
@pytest.mark.parametrize("order", LISTS)
@pytest.mark.usefixtures("by_products")
def test_any_list_in_any_strips(order: str, tile: int):
    units, pairs = unit_rows(SHAPES["people"].astype(np.float32)), LISTS[order]()
    found = ListedPairs(units, *pairs, tile=tile)
    for genuine in (True, False):
        check(found.scores(genuine), sorted_scores(units, pairs, genuine))


@pytest.mark.parametrize("order", ["any order", "two sides"])
@pytest.mark.usefixtures("by_products")
def test_narrow_windows_that_do_not_hold_the_rank_are_widened(order: str, monkeypatch: pytest.MonkeyPatch):
    """A first window that is far too narrow, and windows that are never given up for one of everything."""
    monkeypatch.setattr(listed, "WIDEST_SHARE", 2.0)
    monkeypatch.setattr(listed, "SLACKS", (-0.5, 2.0, np.inf))
    units, pairs = unit_rows(spread(300).astype(np.float32)), LISTS[order]()
    scores = ListedPairs(units, *pairs).scores(False)
    check(scores, sorted_scores(units, pairs, False))
    assert len(scores.windows) > 1


@pytest.mark.usefixtures("by_products")
def test_ties_open_one_window_for_all_questions():
    units, pairs = unit_rows(np.ones((ROWS, 8), np.float32)), some_pairs()
    scores = ListedPairs(units, *pairs).scores(False)
    scores.prepare(range(1, scores.total, 100), [0.5, float(scores.ranked(1))])
    assert [window.scores.total for window in scores.windows] == [scores.total]


@pytest.mark.usefixtures("by_products")
def test_questions_prepared_together_need_no_more_windows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(listed, "WIDEST_SHARE", 2.0)
    units, pairs = unit_rows(spread(300).astype(np.float32)), some_pairs()
    expected = sorted_scores(units, pairs, False)
    scores = ListedPairs(units, *pairs).scores(False)
    scores.prepare([10, 100, 1000], [-0.01])
    opened = list(scores.windows)
    assert 1 < len(opened) <= 4
    cuts = expected[[9, 99, 999]].tolist()
    assert [scores.ranked(rank) for rank in (10, 100, 1000)] == cuts
    assert [scores.above(cut) for cut in (*cuts, -0.01)] == [(expected > cut).sum() for cut in (*cuts, -0.01)]
    assert scores.windows == opened
    assert scores.above(0.9) == (expected > 0.9).sum()
    assert len(scores.windows) == len(opened) + 1


@pytest.mark.parametrize("keys", [True, False])
@pytest.mark.parametrize("order", LISTS)
def test_a_domain_has_the_pairs_between_its_rows(order: str, keys: bool, request: pytest.FixtureRequest):
    if keys:
        request.getfixturevalue("by_products")
    units, (left, right, genuine) = unit_rows(SHAPES["people"].astype(np.float32)), LISTS[order]()
    found = ListedPairs(units, left, right, genuine, tile=500)
    assert (found.keys is not None) == keys
    only = np.random.default_rng(0).random(len(units)) < 0.6
    within = only[left] & only[right]
    for kind in (True, False):
        scores = found.scores(kind, only)
        check(scores, sorted_scores(units, (left[within], right[within], genuine[within]), kind))
    assert found.scores(True, np.zeros(len(units), bool)).total == 0


@pytest.mark.parametrize("shape", ["quantised", "spread"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.usefixtures("by_products")
def test_operating_points_are_those_of_all_scores(shape: str, rule: str):
    units, pairs = unit_rows(SHAPES[shape].astype(np.float32)), some_pairs()
    genuine, impostor = (sorted_scores(units, pairs, kind) for kind in (True, False))
    found = ListedPairs(units, *pairs)
    for far in ("0", "1", "0.9999", "0.5", "0.1", "1e-2", "1e-3", "1e-9", Fraction(1, 4) * 1.0):
        ours = operating_point(found.scores(True), found.scores(False), far, rule)
        assert ours == operating_point(genuine.copy(), impostor.copy(), far, rule)


# --- which way a list is gone ----------------------------------------------------------------------------------------


def gone_through(pairs: Pairs, tile: int, rows: int = ROWS) -> Strips | None:
    return strips_of(Listing(*pairs), side_of("left", pairs[0], rows), side_of("right", pairs[1], rows), tile)


def test_an_ascending_list_is_taken_as_it_is():
    pairs = two_sides()
    strips = gone_through(pairs, 90)
    assert strips is not None
    assert strips.listing.left is pairs[0]
    assert (strips.height, len(strips)) == (2, 8)
    assert sum(own.stop - own.start for _, _, own in strips) == len(pairs[0])


def test_a_list_that_ascends_on_the_right_is_turned():
    pairs = turned(two_sides())
    strips = gone_through(pairs, 90)
    assert strips is not None
    assert strips.listing.left is pairs[1]


def test_each_strip_meets_only_later_rows_where_both_sides_are_the_same():
    pairs = upper()
    strips = gone_through(pairs, ROWS * 20)
    assert strips is not None
    assert strips.rising
    assert strips.listing.left is pairs[0]
    assert [(rows.start, others.start) for rows, others, _ in strips] == [(0, 0), (20, 19), (40, 39)]


@pytest.mark.parametrize("order", ["any order", "two sides, shuffled", "every pair, turned", "every pair, shuffled"])
def test_other_lists_are_grouped_by_strip(order: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(listing, "PAIRS_AT_ONCE", 100)
    pairs = LISTS[order]()
    strips = gone_through(pairs, 300)
    assert strips is not None
    assert isinstance(strips.listing, PackedListing)
    seen = []
    for rows, others, own in strips:
        left, right = strips.listing.rows(own)
        assert set(left) <= set(strips.left_rows[rows])
        assert set(right) <= set(strips.right_rows[others])
        seen += zip(left.tolist(), right.tolist(), strips.listing.genuine[own].tolist(), strict=True)
    left, right, genuine = pairs
    if strips.rising:
        left, right = np.minimum(left, right), np.maximum(left, right)
    assert sorted(seen) == sorted(zip(left.tolist(), right.tolist(), genuine.tolist(), strict=True))


def test_a_list_of_few_pairs_of_many_rows_needs_no_products():
    left = np.arange(0, 1000)
    assert gone_through((left, left + 1000, left > 5), 1 << 20, 2000) is None


def test_a_short_list_needs_none_either():
    pairs = some_pairs()
    units = unit_rows(spread().astype(np.float32))
    found = ListedPairs(units, *pairs)
    assert found.keys is None
    for genuine in (True, False):
        check(found.scores(genuine), sorted_scores(units, pairs, genuine))


# --- edges -----------------------------------------------------------------------------------------------------------


def test_one_pair():
    units = unit_rows(np.array([[3, 4], [4, 3]], np.float32))
    one, two = np.array([0]), np.array([1])
    found = ListedPairs(units, one, two, np.array([False]))
    impostor, genuine = found.scores(False), found.scores(True)
    assert impostor.ranked(1) == float(pair_scores(units, torch.tensor([0]), torch.tensor([1])))
    assert (impostor.total, impostor.above(0.95), impostor.above(0.97)) == (1, 1, 0)
    assert (genuine.total, genuine.above(0.0)) == (0, 0)


def test_no_pair():
    nothing = np.empty(0, np.int64)
    found = ListedPairs(unit_rows(np.eye(3, dtype=np.float32)), nothing, nothing, np.empty(0, bool))
    assert [found.scores(kind).total for kind in (True, False)] == [0, 0]


@pytest.mark.parametrize(("side", "row"), [("left", 60), ("right", -1)])
def test_a_row_that_is_not_there(side: str, row: int):
    left, right, genuine = some_pairs(10)
    (left if side == "left" else right)[4] = row
    with pytest.raises(ValueError, match=f"^{side} of pair 4 is row {row}, but there are 60 rows$"):
        ListedPairs(unit_rows(spread().astype(np.float32)), left, right, genuine)


def test_progress_shows_the_strips():
    seen: list[tuple[str, int | None, int]] = []

    def watched(items, description, total=None):
        items = list(items)
        seen.append((description, total, len(items)))
        return items

    left, right = np.repeat(np.arange(400), 300), np.tile(400 + np.arange(300), 400)
    units = unit_rows(np.random.default_rng(0).normal(size=(700, 8)).astype(np.float32))
    ListedPairs(units, left, right, left == right, watched, tile=30_000)
    assert seen == [("scoring listed pairs", 7, 7)]  # of 64 rows


def test_a_long_list_as_it_comes():
    """Nothing patched: 120,000 pairs of two sides, whose keys, windows and ties are real."""
    left, right = np.repeat(np.arange(400), 300), np.tile(400 + np.arange(300), 400)
    rows = np.random.default_rng(0).normal(size=(700, 64))
    rows[100:130] = rows[30:60]  # ties
    units = unit_rows(rows.astype(np.float32))
    pairs = left, right, left % 300 == right - 400
    found = ListedPairs(units, *pairs)
    scores = found.scores(False)
    assert found.keys is not None
    check(scores, sorted_scores(units, pairs, False))
    check(found.scores(True), sorted_scores(units, pairs, True))
    assert len(scores.windows) > 3


def test_memory_is_a_few_bytes_a_pair():
    """Beside the list itself: 2 bytes a pair for its key, and the windows. (Products are torch's, and are bounded.)"""
    generator = np.random.default_rng(0)
    count = 1_000_000
    left, right = np.sort(generator.integers(0, 500, count)), 500 + generator.integers(0, 2000, count)
    units = unit_rows(generator.normal(size=(2500, 64)).astype(np.float32))
    genuine = generator.random(count) < 1e-3
    tracemalloc.start()
    try:
        pairs = ListedPairs(units, left, right, genuine)
        operating_point(pairs.scores(True), pairs.scores(False), "1e-3")
        assert tracemalloc.get_traced_memory()[1] < 12 * count  # 4.7 bytes a pair are taken; with its two rows it is 20
    finally:
        tracemalloc.stop()
