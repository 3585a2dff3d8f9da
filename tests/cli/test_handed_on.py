"""Options of the command line reach the function that they are for."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import verisphere
from every_verb import LEAVES
from verisphere.cli import calibrating, evaluation, shipping, training
from verisphere.cli.parsing import options_as
from verisphere.cli.start import parser
from verisphere.cli.working import work_of
from verisphere.measure.identification import evaluate_split
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
        calibrating.calibrate(parser().parse_args(words))
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
    monkeypatch.setattr("verisphere.train.recipe.read_training", lambda *_: SimpleNamespace())
    monkeypatch.setattr("verisphere.train.session.train_run", wraps(train_run)(ask))
    options = parser().parse_args(["train", "recipe.yaml", "--out", "run", "--threads", "2"])
    options.overrides = []
    with pytest.raises(Asked) as asked:
        training.train(options)
    assert asked.value.options["threads"] == 2


# --- every option of every verb ---

#: The results of verbs write what these name; see `verisphere.cli.results.show_result`.
WRITTEN = {
    name
    for path in Path(verisphere.__file__).parent.rglob("*.py")
    for name in re.findall(r"def write_(\w+)\(self", path.read_text(encoding="utf-8"))
}


def parameters(function: Callable[..., Any]) -> set[str]:
    return {*inspect.signature(function).parameters}


#: Options that a verb hands on by their names in a table, as far as what takes them has these.
BY_NAME = {
    "evaluate identification": {"enrol", "strangers", "seed", "galleries"} & parameters(evaluate_split),
}


def read_by(function: Callable[..., Any], **bound: Any) -> set[str]:
    """The options that a function of the command line reads, or hands on by `options_as`, with what it calls.

    Args:
        function: a function that takes `options`.
        bound: its arguments, as far as they are known.
    """
    inside = getattr(function, "__wrapped__", None)
    while "/verisphere/" not in function.__code__.co_filename:  # a check of types keeps what it checks as `fn`
        function = inspect.getclosurevars(function).nonlocals.get("fn") or function.__wrapped__
    tree = ast.parse(textwrap.dedent(inspect.getsource(function.__code__)))
    known, read = function.__globals__ | bound, set[str]()

    def value(node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            return known.get(node.id)
        return getattr(value(node.value), node.attr, None) if isinstance(node, ast.Attribute) else None

    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            exec(ast.unparse(node), known)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "options":
            read.add(node.attr)
        if not isinstance(node, ast.Call):
            continue
        called, words = value(node.func), [ast.unparse(argument) for argument in node.args]
        if called is options_as:
            read |= parameters(value(node.args[0])) - {keyword.arg for keyword in node.keywords}
        elif ast.unparse(node.func) in ("getattr", "vars(options).get"):
            read |= {argument.value for argument in node.args if isinstance(argument, ast.Constant)}
        elif "options" in words and inspect.isfunction(called) and called.__module__.startswith("verisphere.cli."):
            given = zip(inspect.signature(called).parameters, node.args, strict=False)
            read |= read_by(called, **{name: value(argument) for name, argument in given})
    return read if inside in (None, function) else read | read_by(inside)


@pytest.mark.parametrize("words", LEAVES)
def test_every_option_is_read(words: str):
    verb = LEAVES[words]
    read = read_by(verb.get_default("verb")) | BY_NAME.get(words, set())
    read |= {*verb.get_default("files")} & WRITTEN
    read |= {"threads"} if verb.get_default("threads_here") else set()  # read before the verb runs
    read |= read_by(work_of) if verb.get_default("divides") else set()
    assert {action.dest for action in verb._actions} - {"help"} <= read
