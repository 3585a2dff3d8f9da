"""CSV for people shows every cell as it is; CSV that a verb reads back holds every name unchanged."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from verisphere.decide.people import PersonCounts, people_at
from verisphere.files.label_lists import LabelList, read_labels, write_labels
from verisphere.files.results import people_csv
from verisphere.files.tables import csv_for_people
from verisphere.study.clean.same_person.duplicates import Duplicates, IdentityPair, ImagePair, read_pairs

FORMULAS = ("=1+1", "+A1", "-Ann", "@SUM(A1)", "\t=1", '=HYPERLINK("http://a","b")')


@pytest.mark.parametrize("name", FORMULAS)
def test_a_text_that_a_spreadsheet_would_run_gets_an_apostrophe(name: str):
    ((cell,),) = csv.reader(io.StringIO(csv_for_people([], [[name]]).removeprefix("\n")))
    assert cell == f"'{name}"


@pytest.mark.parametrize("number", ["-0.5", "-inf", "+3", "-1", "-", "-1e-05", "Ann", "a=b", ""])
def test_numbers_and_other_texts_stay(number: str):
    assert csv_for_people(["x", "y"], [[number, 1]]) == f"x,y\n{number},1\n"


def test_names_of_people_in_the_table_of_their_error_rates():
    one = np.array([1, 1])
    counts = PersonCounts(["=1+1", "-1"], one, one, one, one)
    text = people_csv([people_at(counts, threshold=-0.5, far_target="1e-1", rule="at_most")], [counts])
    assert [row.split(",")[1:3] for row in text.splitlines()[1:]] == [["-0.5", "'=1+1"], ["-0.5", "-1"]]


@pytest.mark.parametrize("name", FORMULAS[:4])
def test_what_is_read_back_keeps_its_names(tmp_path: Path, name: str):
    write_labels(tmp_path / "labels.csv", LabelList((f"{name}.png",), (name,)))
    read = read_labels(tmp_path / "labels.csv")
    assert (list(read.names), list(read.identities)) == ([f"{name}.png"], [name])
    pair, picture = IdentityPair(name, "Ben", 0.9, 1, 1), ImagePair(name, "b.png", name, "Ben", None)
    Duplicates("set.npz", 2, 2, 0.5, None, (pair,), (picture,)).write(tmp_path / "out")
    assert [tuple(row)[:2] for row in read_pairs(tmp_path / "out" / "pairs.csv")] == [(name, "Ben")]
    assert f"\n'{name},b.png,'{name},Ben," in (tmp_path / "out" / "images.csv").read_text()
