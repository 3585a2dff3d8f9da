"""The planted faults of `verisphere why`: one of them, and one healthy case, on LFW."""

import csv
from pathlib import Path

import pytest

from studies.why.__main__ import main


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "only", "named"), [("planted", "rows of length 1", "norm"), ("healthy", "second model, its rows", "")]
)
def test_a_case_of_each_kind(real_data: Path, tmp_path: Path, kind: str, only: str, named: str):
    arguments = ["--data", str(real_data), "--out", str(tmp_path), "--kind", kind, "--only", only]
    assert main(arguments) == 0
    with (tmp_path / "results.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["kind"], row["case"], row["named"], row["right"]) == (kind, only, named, "yes")
