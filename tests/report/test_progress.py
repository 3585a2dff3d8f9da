"""Progress: the items come through unchanged; talk goes to standard error, and only after a while."""

import io
import logging

import pytest
from rich.console import Console

from verisphere.base.vocabulary import Progress, quietly
from verisphere.report import progress


@pytest.fixture(params=["terminal", "file"])
def told(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    held = io.StringIO()
    monkeypatch.setattr(progress, "console", Console(file=held, force_terminal=request.param == "terminal", width=120))
    return held


@pytest.mark.parametrize("total", [None, 5, 0, 99])
def test_items_come_through(told: io.StringIO, total: int | None):
    assert list(progress.shown(iter(range(5)), "counting", total)) == list(range(5))


def test_both_are_a_progress():
    for show in (progress.shown, quietly):
        assert isinstance(show, Progress)
        assert list(show([3, 1, 2], "sorting nothing")) == [3, 1, 2]


def test_an_error_within_the_work_passes_through(told: io.StringIO):
    def broken():
        yield 1
        raise ValueError("the work itself")

    with pytest.raises(ValueError, match="the work itself"):
        list(progress.shown(broken(), "breaking", 2))


def test_work_that_is_left_early_ends_quietly(told: io.StringIO):
    for item in progress.shown(range(5), "leaving", 5):
        if item == 2:
            break


def test_plain_lines_come_rarely_and_say_how_long(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    """Four steps of 6 s: a line after 12 s and after 24 s, none before, and one at the end."""
    monkeypatch.setattr(progress, "console", Console(file=io.StringIO()))
    clock = iter([float(second) for second in range(0, 1000, 6)])
    monkeypatch.setattr("verisphere.report.progress.time.monotonic", lambda: next(clock))
    list(progress.shown(range(4), "embedding", 4))
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.splitlines() == [
        "embedding: 2 of 4, 12 s left (6 s each)",
        "embedding: 4 of 4, 0 s left (6 s each)",
        "embedding: done, 4 in 30 s",
    ]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which work moves on."""
    now = [0.0]
    monkeypatch.setattr("verisphere.report.progress.time.monotonic", lambda: now[0])
    return now


def working(clock: list[float], items: int, seconds: float):
    for item in range(items):
        clock[0] += seconds
        yield item


def test_a_resumed_training_goes_on_counting_at_its_own_rate(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    """Steps 401 to 404 of 1000, 10 s each: the 400 of an earlier process count as done and not for the rate."""
    monkeypatch.setattr(progress, "console", Console(file=io.StringIO()))
    list(progress.shown(working(clock, 4, 10.0), "training", 1000, 400))
    assert capsys.readouterr().err.splitlines()[:2] == [
        "training: 401 of 1000, 1:39 h left (10 s each)",
        "training: 402 of 1000, 1:39 h left (10 s each)",
    ]


def test_the_remaining_time_of_a_bar_follows_the_recent_rate(clock: list[float], monkeypatch: pytest.MonkeyPatch):
    """1200 quick steps, then 70 slow ones: the average since the start would say 41 s where nine minutes remain."""
    held = io.StringIO()
    monkeypatch.setattr(progress, "console", Console(file=held, force_terminal=True, width=120))
    steps = progress.shown([*working(clock, 0, 0.0), *range(1810)], "training", 1810)
    for step in steps:
        clock[0] += 0.01 if step < 1200 else 1.0
        if step == 1270:
            held.truncate(0)
        if step == 1273:
            break
    steps.close()
    last = held.getvalue()
    assert "8:5" in last
    assert " min left" in last


def test_a_bar_without_a_total_ends_whole(monkeypatch: pytest.MonkeyPatch):
    held = io.StringIO()
    monkeypatch.setattr(progress, "console", Console(file=held, force_terminal=True, width=120))
    monkeypatch.setattr(progress, "_MOMENT", 0.0)
    list(progress.shown(iter(range(1)), "scoring genuine pairs"))
    assert "/?" not in held.getvalue()
    assert "1/1" in held.getvalue()


@pytest.mark.parametrize("way", ["terminal", "file"])
def test_what_waits_for_long_work_is_said_once_and_by_long_work_alone(
    way: str, clock: list[float], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    held = io.StringIO()
    monkeypatch.setattr(progress, "console", Console(file=held, force_terminal=way == "terminal", width=120))
    progress.say_when_long("threads give way")
    list(progress.shown(working(clock, 9, 1.0), "quick", 9))
    assert "threads give way" not in held.getvalue() + capsys.readouterr().err
    list(progress.shown(working(clock, 40, 1.0), "long", 40))
    list(progress.shown(working(clock, 40, 1.0), "long again", 40))
    assert (held.getvalue() + capsys.readouterr().err).count("threads give way") == 1


def test_quick_work_says_nothing_outside_a_terminal(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "console", Console(file=io.StringIO()))
    list(progress.shown(range(100), "quick", 100))
    assert capsys.readouterr() == ("", "")


def test_a_terminal_sees_a_bar(monkeypatch: pytest.MonkeyPatch):
    held = io.StringIO()
    monkeypatch.setattr(progress, "console", Console(file=held, force_terminal=True, width=120))
    list(progress.shown(range(3), "counting pairs", 3))
    assert "counting pairs" in held.getvalue()
    assert "3/3" in held.getvalue()


def test_what_the_library_logs_goes_to_standard_error_once(capsys: pytest.CaptureFixture):
    logger = logging.getLogger("verisphere")
    before, level = logger.handlers[:], logger.level
    try:
        progress.log_to_terminal()
        progress.log_to_terminal()
        logging.getLogger("verisphere.train.loop").info("no compiler, so everything runs eager")
        output = capsys.readouterr()
        assert (output.out, output.err) == ("", "no compiler, so everything runs eager\n")
    finally:
        logger.handlers[:] = before
        logger.setLevel(level)
