"""Windows of score: filled in any order, narrowed on the way, right in the end or known not to be."""

import numpy as np
import pytest

from verisphere.score.exact.windows import Window, WindowPart, counted

EVERY = frozenset({0, 1})


def found(score: np.ndarray, group: np.ndarray, low: float, high: float) -> WindowPart:
    """What looking through these pairs for a stretch finds."""
    over, inside = score > high, (score >= low) & (score <= high)
    held = counted(score[inside], group[inside], np.ones(int(inside.sum()), np.int64))
    return WindowPart(np.bincount(group[over], minlength=2), *held, len(score), 1)


def test_counted_merges_what_is_equal_and_of_one_group():
    score, group, count = counted(np.array([0.5, 0.1, 0.5, 0.5]), np.array([1, 0, 0, 1]), np.array([1, 2, 3, 4]))
    assert (score.tolist(), group.tolist(), count.tolist()) == ([0.1, 0.5, 0.5], [0, 0, 1], [2, 3, 5])
    assert [len(part) for part in counted(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))] == [0, 0, 0]


def test_ranks_and_counts_worked_out_by_hand():
    # group 0: 0.9 0.5 0.5 0.2, group 1: 0.7 0.5 0.1; the window 0.2 .. 0.6 holds 0.5 0.5 0.5 0.2, above lie 0.9 and 0.7
    score, group = np.array([0.9, 0.5, 0.5, 0.2, 0.7, 0.5, 0.1]), np.array([0, 0, 0, 0, 1, 1, 1])
    window = Window(0.2, 0.6, (0, 1))
    window.add(found(score, group, 0.2, 0.6), window.stretch)
    assert window.around(EVERY) == (2, 4)
    assert [window.ranked(rank, EVERY) for rank in (3, 4, 5, 6)] == [0.5, 0.5, 0.5, 0.2]
    assert window.around(frozenset({1})) == (1, 1)
    assert window.ranked(2, frozenset({1})) == 0.5
    assert (window.count_above(0.5, EVERY), window.count_above(0.2, EVERY), window.count_above(0.6, EVERY)) == (2, 5, 2)
    assert (window.count_above(0.4, frozenset({0})), window.count_above(0.4, frozenset({1}))) == (3, 2)
    with pytest.raises(AssertionError):
        window.count_above(0.7, EVERY)


@pytest.mark.parametrize("values", [10_000_000, 300])
def test_narrowing_keeps_the_rank_and_forgets_the_rest(values: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("verisphere.score.exact.windows.SCORES_BEFORE_NARROWING", 500)
    random = np.random.default_rng(0)
    score, group = random.integers(0, values, 100_000) / values, random.integers(0, 2, 100_000)
    rank = 20_000
    window = Window(-np.inf, np.inf, (0, 1), (rank, rank + 1), len(score))
    late: list[tuple[WindowPart, tuple]] = []
    for tile in range(100):
        part = slice(1000 * tile, 1000 * tile + 1000)
        asked = window.stretch
        late.append((found(score[part], group[part], *asked[:2]), asked))
        if len(late) == 3:  # others work on with wider stretches than the window now has
            window.add(*late.pop(0))
            window.narrow()
    for rest in late:
        window.add(*rest)
    assert len(window.score) < 8000
    descending = np.sort(score)[::-1]
    assert [window.ranked(r, EVERY) for r in (rank, rank + 1)] == descending[[rank - 1, rank]].tolist()
    cut = float(descending[rank])
    assert window.count_above(cut, EVERY) == (score > cut).sum()
    assert window.count_above(cut, frozenset({1})) == (score[group == 1] > cut).sum()
    assert Window.from_state(window.state()).state().keys() == window.state().keys()
    assert Window.from_state(window.state()).ranked(rank, EVERY) == descending[rank - 1]


def test_a_rank_that_was_narrowed_away_is_known_to_be_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("verisphere.score.exact.windows.SCORES_BEFORE_NARROWING", 100)
    window = Window(-np.inf, np.inf, (0, 1), (1000,), 20_000)
    low, high = np.linspace(0, 0.1, 10_000), np.linspace(0.9, 1, 10_000)  # the later half scores much higher
    group = np.zeros(10_000, np.int64)
    window.add(found(low, group, -np.inf, np.inf), window.stretch)
    window.narrow()
    asked = window.stretch
    window.add(found(high, group, *asked[:2]), asked)
    above, inside = window.around(EVERY)
    assert not above < 1000 <= above + inside
