"""The remaining time follows the recent rate: of a machine that grows busy or idle, and of an item that takes long."""

import pytest

from verisphere.report.progress import RecentRate


def worked(*portions: tuple[int, float]) -> tuple[RecentRate, float]:
    """The rate after portions of so many items, each of which took so many seconds; and the time."""
    recent, now = RecentRate(0.0), 0.0
    for items, seconds in portions:
        for _ in range(items):
            now += seconds
            recent.add(now)
    return recent, now


def test_a_machine_that_grew_busy():
    """200 steps at 20 a second, then 70 seconds at one a second: 540 steps are nine minutes, not 80 seconds."""
    recent, now = worked((200, 0.05), (70, 1.0))
    assert recent.per_second(now) == pytest.approx(1.0, rel=0.02)
    assert recent.seconds_left(540, now) == pytest.approx(540, rel=0.02)
    assert 540 / recent.overall(now) == pytest.approx(160, rel=0.02)  # an average since the start


def test_a_first_step_that_compiles_is_forgotten():
    recent, now = worked((1, 37.0), (600, 0.2))
    assert recent.per_second(now) == pytest.approx(5.0, rel=0.01)


def test_slow_items_count_by_threes():
    """Two trainings of 100 s and then three of 400 s each: the last three say what comes."""
    recent, now = worked((2, 100.0), (3, 400.0))
    assert recent.seconds_left(2, now) == pytest.approx(800)


def test_an_item_that_takes_long_is_seen_before_it_ends():
    recent, now = worked((30, 1.0))
    assert recent.seconds_left(10, now) == pytest.approx(10)
    assert recent.seconds_left(10, now + 0.5) == pytest.approx(9.5)  # the time of an item under way goes down
    assert recent.per_second(now + 120) == pytest.approx(30 / 150 * 31 / 30)
    assert recent.seconds_left(10, now + 1) <= recent.seconds_left(10, now + 600)


def test_nothing_is_known_before_the_first_item():
    recent = RecentRate(5.0)
    assert (recent.per_second(9.0), recent.seconds_left(3, 9.0), recent.overall(9.0)) == (None, None, None)


def test_quick_items_keep_few_marks():
    recent, _ = worked((100_000, 1e-4))
    assert len(recent._marks) <= 130
