"""Options of the command line reach the function that they are for."""

from functools import wraps
from typing import Any

import pytest

from verisphere.cli import evaluation, shipping, training
from verisphere.cli.start import parser
from verisphere.ship.calibrate import calibrate
from verisphere.ship.identify import identify
from verisphere.train.session import train_run


class Asked(Exception):
    """What a verb asked of its function, which is not run."""

    def __init__(self, *_: object, **options: Any) -> None:
        super().__init__("asked")
        self.options = options


def ask(*_: object, **options: Any) -> None:
    raise Asked(**options)


def test_the_seed_of_a_calibration(monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setattr("verisphere.ship.calibrate.calibrate", wraps(calibrate)(ask))
    words = ["calibrate", "none.npz", "--far", "0.1", "--seed", "3", "--out", str(tmp_path / "found.json")]
    with pytest.raises(Asked) as asked:
        shipping.calibrate(parser().parse_args(words))
    assert asked.value.options["seed"] == 3


def test_how_many_matches_an_identification_lists(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("verisphere.ship.identify.identify", wraps(identify)(ask))
    monkeypatch.setattr(shipping, "_model", lambda *_: (None, None))
    words = ["identify", "probe.png", "people", "--model", "model", "--top", "3"]
    with pytest.raises(Asked) as asked:
        shipping.identify(parser().parse_args(words))
    assert asked.value.options["top"] == 3


def test_the_seed_of_a_redrawing():
    words = ["evaluate", "all-pairs", "e.npz", "--intervals", "--seed", "3", "--replicates", "7"]
    redrawing = evaluation._options(parser().parse_args(words)).redrawing
    assert (redrawing.seed, redrawing.replicates) == (3, 7)


def test_the_processes_of_a_scan():
    words = ["evaluate", "all-pairs", "e.npz", "--processes", "2"]
    assert evaluation._options(parser().parse_args(words)).processes == 2


def test_the_threads_of_a_training(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("verisphere.train.recipe.read_recipe", lambda *_: None)
    monkeypatch.setattr("verisphere.train.session.train_run", wraps(train_run)(ask))
    options = parser().parse_args(["train", "recipe.yaml", "--out", "run", "--threads", "2"])
    options.overrides = []
    with pytest.raises(Asked) as asked:
        training.train(options)
    assert asked.value.options["threads"] == 2
