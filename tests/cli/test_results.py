"""Options that name a file to write, and what is handed on to the function of a verb."""

import argparse
from dataclasses import dataclass
from pathlib import Path

import pytest

from every_verb import LEAVES
from verisphere.cli.parsing import options_as
from verisphere.cli.results import show_result
from verisphere.files.results import Result

#: Verbs whose functions, which are public or share the work of several ranks, refuse to overwrite inputs by themselves.
BY_THEMSELVES = {"embed", "align", "data render", "data convert", "clean relabel"}


@pytest.mark.parametrize("words", LEAVES)
def test_an_option_that_names_a_file_to_write_is_checked(words: str):
    verb = LEAVES[words]
    declared = {*(verb.get_default("files") or ()), *(verb.get_default("folders") or ())}
    named = {action.dest for action in verb._actions if action.type is Path and str(action.metavar).startswith("OUT")}
    assert words in BY_THEMSELVES or named <= declared


@dataclass(frozen=True)
class Number(Result):
    value: float

    def text(self) -> str:
        return f"value {self.value:g}"


def test_a_result_is_written_where_it_was_asked_for_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    options = argparse.Namespace(files=("json", "plot", "state"), json=tmp_path / "out.json", plot=None, state=tmp_path)
    show_result(options, Number(float("inf")))
    assert capsys.readouterr().out == "value inf\n"
    written = '{\n  "value": null,\n  "value_is_infinite": true,\n  "value_sign": 1\n}\n'
    assert (tmp_path / "out.json").read_text() == written
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_what_the_caller_did_not_write_is_left_to_the_default():
    def made(rate: float = 0.5, rule: str = "at_most", flip: bool = True, seed: int = 0) -> tuple[object, ...]:
        return rate, rule, flip, seed

    options = argparse.Namespace(rate=None, rule="nearest", flip=False, seed=3, other=7)
    assert options_as(made, options, seed=4) == (0.5, "nearest", False, 4)
