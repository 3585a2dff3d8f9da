"""Element-wise functions compiled where that works; eager, and said once, where it does not."""

import logging

import pytest
import torch
import torch._dynamo.exc

from verisphere.base import compiling
from verisphere.base.compiling import fused
from verisphere.losses.margin import ArcFace


def double(numbers: torch.Tensor) -> torch.Tensor:
    return 2 * numbers


@pytest.fixture(autouse=True)
def _ask_again():
    fused.cache_clear()
    yield
    fused.cache_clear()


def test_without_a_compiler_it_is_the_function(monkeypatch):
    monkeypatch.setattr(compiling, "compiler_works", lambda device: False)
    assert fused(double, "cpu") is double


class Unread(torch._dynamo.exc.TorchDynamoException):
    """What a compiler says."""


def test_a_compiler_that_fails_on_it_is_given_up_once(monkeypatch, caplog):
    tried = []

    def failing(*arguments):
        tried.append(1)
        raise Unread("cannot read this\nat all")

    monkeypatch.setattr(compiling, "compiler_works", lambda device: True)
    monkeypatch.setattr(compiling.torch, "compile", lambda function, **options: failing)
    with caplog.at_level(logging.WARNING, "verisphere"):
        for _ in range(3):
            assert fused(double, "cpu")(torch.ones(2)).tolist() == [2, 2]
    assert tried == [1]
    assert fused(double, "cpu", ArcFace)(torch.ones(2)).tolist() == [2, 2]
    assert tried == [1, 1]  # another kind of loss may be one that it can read
    assert [record.getMessage() for record in caplog.records] == [
        "double could not be compiled (cannot read this); it runs eager",
        "double of ArcFace could not be compiled (cannot read this); it runs eager",
    ]


def test_an_error_of_its_own_is_not_the_compilers(monkeypatch, caplog):
    def add_and_fail(numbers):
        numbers.add_(1)
        raise torch.OutOfMemoryError("out of memory")

    numbers = torch.ones(2)
    monkeypatch.setattr(compiling, "compiler_works", lambda device: True)
    monkeypatch.setattr(compiling.torch, "compile", lambda function, **options: function)
    with caplog.at_level(logging.WARNING, "verisphere"), pytest.raises(torch.OutOfMemoryError):
        fused(add_and_fail, "cpu")(numbers)
    assert numbers.tolist() == [2, 2]  # it is not run a second time on what it has changed
    assert not caplog.records


def test_an_error_that_the_compiler_meets_is_its_own(monkeypatch, caplog):
    def broken(numbers):
        raise ValueError("no such class")

    def failing(*arguments):
        raise Unread("cannot read this")

    monkeypatch.setattr(compiling, "compiler_works", lambda device: True)
    monkeypatch.setattr(compiling.torch, "compile", lambda function, **options: failing)
    with caplog.at_level(logging.WARNING, "verisphere"), pytest.raises(ValueError, match="no such class"):
        fused(broken, "cpu")(torch.ones(2))
    assert not caplog.records
