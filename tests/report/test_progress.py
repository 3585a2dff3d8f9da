"""Progress: the items come through unchanged; talk goes to standard error, and only after a while."""

import io
import logging

import pytest
from rich.console import Console

from verisphere.report import progress
from verisphere.vocabulary import Progress, quietly


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
    clock = iter(range(0, 1000, 6))
    monkeypatch.setattr("verisphere.report.progress.time.monotonic", lambda: next(clock))
    list(progress.shown(range(4), "embedding", 4))
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.splitlines() == [
        "embedding: 2 of 4, 12 s left (6 s each)",
        "embedding: 4 of 4, 0 s left (6 s each)",
        "embedding: done, 4 in 30 s",
    ]


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
