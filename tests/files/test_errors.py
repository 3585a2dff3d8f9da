"""Errors with the name of the file in which something is wrong."""

from pathlib import Path

import pytest

from verisphere.decide import TooFewComparisonsError
from verisphere.files.errors import Fault, FaultError, caught, errors_naming


def test_the_name_comes_first():
    with pytest.raises(ValueError, match=r"^a\.csv: line 3 is empty$"), errors_naming(Path("a.csv")):
        raise ValueError("line 3 is empty")


def test_too_few_comparisons_stay_that():
    with pytest.raises(TooFewComparisonsError, match=r"^a\.npz: 7 people$"), errors_naming("a.npz"):
        raise TooFewComparisonsError("7 people")


def test_the_error_that_ends_a_search_for_faults_is_the_last_of_them():
    first, last = Fault("a.tar", "x", 7, "a lie"), Fault("a.tar", "y", None, "another")

    def faults(error):
        yield first
        raise error

    assert list(caught(faults(FaultError(last)), "all")) == [first, last]
    for message in ("all: cut short", "cut short"):
        assert list(caught(faults(OSError(message)), "all")) == [first, Fault("all", "", None, "cut short")]
    assert str(FaultError(first)) == "a.tar: record x at byte 7: a lie"


def test_errors_of_the_system_pass():
    with pytest.raises(FileNotFoundError, match=r"^absent$"), errors_naming("a.npz"):
        raise FileNotFoundError("absent")
