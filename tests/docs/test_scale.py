"""The figures of docs/scale.md follow from the rates of `--dry-run` and from exact binomial limits."""

from math import ceil, comb, sqrt
from pathlib import Path

import pytest
from scipy.stats import beta

from verisphere.decide.sample_size import comparisons_needed
from verisphere.measure.cost import _AT_A_HIGH_FAR, _HELD, COMMANDS, EACH

TEXT = (Path(__file__).parents[2] / "docs" / "scale.md").read_text()
FACES = 1_414_214, 44_721_360, 100_000_000


def cells(beginning: str) -> list[str]:
    (line,) = [line for line in TEXT.splitlines() if line.startswith(f"| {beginning}")]
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize(
    ("beginning", "rate"),
    [
        ("`evaluate all-pairs`, FARs of", COMMANDS["all-pairs"][0]),
        ("`evaluate all-pairs`, a FAR of", _AT_A_HIGH_FAR),
        ("`evaluate identification`", COMMANDS["identification"][0]),
        ("`clean duplicates`", COMMANDS["duplicates"][0]),
    ],
)
def test_hours_and_dollars_follow_from_the_rate(beginning: str, rate: float) -> None:
    _, stated, *amounts = cells(beginning)
    assert float(stated.split()[0]) == rate
    for rows, amount in zip(FACES, amounts, strict=True):
        hours = comb(rows, 2) / rate / 3600
        said, dollars = (float(part.strip("$").replace(",", "").split()[0]) for part in amount.split(", "))
        assert said == pytest.approx(hours, rel=0.04)
        assert dollars == pytest.approx(hours * 0.04, rel=0.09)


def test_bytes_and_linkage() -> None:
    linkage = EACH["cluster"]
    assert f"{ceil(1 / linkage):,}"[:3] == cells("linkage of")[1][:3]
    assert [float(cell.split()[0]) for cell in cells("linkage of")[2:4]] == [
        pytest.approx(rows * linkage / 3600, rel=0.04) for rows in FACES[:2]
    ]
    assert cells("mapped while")[1] == f"{round(_HELD * 2048):,} bytes"


@pytest.mark.parametrize("accepted", [0, 10, 100])
def test_pairs_that_promise_a_far(accepted: int) -> None:
    for cell, far in zip(cells(f"{accepted} |")[1:], (1e-6, 1e-8), strict=True):
        pairs = int(cell.split()[0].replace(",", ""))
        limits = [float(beta.ppf(0.95, accepted + 1, count - accepted)) for count in (pairs - 1, pairs)]
        assert limits[1] <= far * (1 + 1e-9) < limits[0] * (1 + 1e-7)
    if not accepted:
        assert pairs == comparisons_needed("1e-8", "confident")


def test_people_and_pairs_of_the_sampled_calibration() -> None:
    assert comb(141_422, 2) == pytest.approx(1e10, rel=1e-4)
    assert 2 * 5 / sqrt(141_422) == pytest.approx(0.027, abs=5e-4)
    assert comb(24_500, 2) == pytest.approx(3e8, rel=0.01)
    assert 1e14 / comb(100_000_000, 2) == pytest.approx(1 / 50, rel=1e-3)
