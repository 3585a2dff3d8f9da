"""The table of loss examples is whole: no exported loss is missing in it, and no suite leaves an example out."""

import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from torch import nn

from loss_examples import EXAMPLES, KINDS, asked
from verisphere import losses

TESTS = Path(__file__).parent
#: What is exported and is no loss to train with, or needs a teacher: tests/losses/test_similarity_kl.py asks the latter
#: on every engine.
NO_LOSS = {"ClassLoss", "Rows", "SimilarityKL"}
#: Suites that ask each example in a test of its own. The tests that start processes go over the table themselves, and
#: assert that they have: tests/head/test_sharded.py, tests/head/test_sampled.py, tests/train/dry_run/test_dry_run.py.
SUITES = ["losses/test_class_loss.py", "head/test_engines.py", "head/test_sampled.py"]


@cache
def functions_of(suite: str) -> list[Callable[..., None]]:
    """The tests of a file."""
    spec = importlib.util.spec_from_file_location(Path(suite).stem, TESTS / suite)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [function for name, function in vars(module).items() if name.startswith("test_")]


def house_class(part: nn.Module) -> str:
    """Name of the class of a loss; of one that the tests built on a loss of the house, that of the latter."""
    classes = type(part).__mro__
    return next((kind.__name__ for kind in classes if kind.__module__.startswith("verisphere.")), classes[0].__name__)


def test_every_exported_loss_has_an_example():
    used = {house_class(part) for example in EXAMPLES.values() for part in example.loss.modules()}
    assert set(losses.__all__) - NO_LOSS - used == set()


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_asks_every_example(suite):
    reached = {id(example) for test in functions_of(suite) for example in asked(test)}
    assert [name for name, example in EXAMPLES.items() if id(example) not in reached] == []


@pytest.mark.parametrize("suite", SUITES)
def test_a_test_takes_its_examples_from_the_table(suite):
    """A list of its own would stay as it is when the table grows."""
    table = {id(example) for example in EXAMPLES.values()}
    assert {id(example) for test in functions_of(suite) for example in asked(test)} <= table


def test_a_kind_is_what_an_engine_sees():
    assert EXAMPLES["CosFace"].kinds == EXAMPLES["ArcFace"].kinds
    assert EXAMPLES["SphereFace2"].kinds != EXAMPLES["SphereFace2, naive"].kinds  # which learns no bias
    assert len({example.kinds for example in EXAMPLES.values()}) == len(KINDS)
    assert {example.kinds for example in KINDS.values()} == {example.kinds for example in EXAMPLES.values()}


def test_losses_that_differ_print_differently():
    assert len({repr(example.make()) for example in EXAMPLES.values()}) == len(EXAMPLES)
