"""The score of a pair: one number, whichever way, in whatever company and in whatever block it is taken."""

import math

import numpy as np
import pytest
import torch

from verisphere.score import pair_scores, unit_rows
from verisphere.score.pairs import COLUMNS_SUMMED, NUMBERS_AT_ONCE, rough_error, rough_scores, sums_by_halves


def random_units(rows: int, dim: int, seed: int = 0) -> torch.Tensor:
    return unit_rows(np.random.default_rng(seed).normal(size=(rows, dim)).astype(np.float32))


def every_pair(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    left, right = torch.triu_indices(rows, rows, 1)
    return left, right


def test_by_hand():
    units = unit_rows(np.array([[3, 4], [4, 3], [-6, -8], [0, 2]], np.float32))
    # cosines 24/25, -1 and 4/5, from 0.6 and 0.8 rounded to float32
    scores = pair_scores(units, torch.tensor([0, 0, 0]), torch.tensor([1, 2, 3]))
    assert scores.dtype == torch.float64
    assert scores.tolist() == pytest.approx([0.96, -1.0, 0.8], abs=1e-7)
    assert scores[2] == float(np.float32(0.8))  # exactly the float32 entry times one


def test_units_are_rounded_once_from_float64():
    rows = np.random.default_rng(1).normal(size=(50, 7)).astype(np.float32)
    for row, unit in zip(rows.astype(float).tolist(), unit_rows(rows).tolist(), strict=True):
        length = math.sqrt(math.fsum(value * value for value in row))
        assert unit == pytest.approx([value / length for value in row], rel=2.0**-24)


@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1e-20, 1e20, 1e30])
def test_lengths_that_float32_cannot_square(scale: float):
    rows = (np.array([[3.0, 4.0], [4.0, -3.0]]) * scale).astype(np.float32)
    assert pair_scores(unit_rows(rows), torch.tensor([0, 0]), torch.tensor([0, 1])).tolist() == pytest.approx(
        [1, 0],
        abs=1e-4 if scale == 1e-40 else 1e-7,  # entries this small have few digits left
    )


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_a_row_without_a_direction(bad: float):
    rows = np.ones((4, 3), np.float32)
    rows[[1, 3]] = bad
    with pytest.raises(ValueError, match="embedding 1 has no direction"):
        unit_rows(rows)


def test_no_pairs():
    nothing = torch.empty(0, dtype=torch.int64)
    assert pair_scores(random_units(3, 4), nothing, nothing).shape == (0,)


@pytest.mark.parametrize("dim", [1, 2, 3, 5, 17, 64, 127, 128, 512, 1030])
def test_a_score_is_the_same_alone_turned_round_and_in_company(dim: int):
    """Bit for bit: thresholds and counts then agree between listed pairs, all pairs and deployment."""
    units = random_units(24, dim)
    left, right = every_pair(24)
    together = pair_scores(units, left, right)
    assert torch.equal(pair_scores(units, right, left), together)
    order = torch.randperm(len(left), generator=torch.Generator().manual_seed(0))
    assert torch.equal(pair_scores(units, left[order], right[order]), together[order])
    alone = [pair_scores(units, left[i : i + 1], right[i : i + 1]) for i in range(len(left))]
    assert torch.equal(torch.cat(alone), together)
    few = [pair_scores(units, a, b) for a, b in zip(left.split(5), right.split(5), strict=True)]
    assert torch.equal(torch.cat(few), together)


@pytest.mark.parametrize("dim", [1, 17, 128, 512, COLUMNS_SUMMED + 5])
def test_a_score_is_the_same_for_any_threads_and_any_layout_of_the_rows(dim: int):
    units = random_units(12, dim)
    left, right = every_pair(12)
    expected = pair_scores(units, left, right)
    layouts = {
        "columns first": units.T.contiguous().T,
        "every other column": torch.zeros(12, 2 * dim)[:, ::2].copy_(units),
        "off the beginning": torch.zeros(12 * dim + 3)[3:].view(12, dim).copy_(units),
    }
    threads = torch.get_num_threads()
    try:
        for number in (1, 3, 8):
            torch.set_num_threads(number)
            for rows in (units, *layouts.values()):
                assert torch.equal(pair_scores(rows, left, right), expected)
                assert torch.equal(pair_scores(rows, right, left, units), expected)
    finally:
        torch.set_num_threads(threads)


def test_pairs_of_equal_rows_are_ties_and_pairs_of_equal_sums_nearly():
    """As docs/evaluation.md says: numbers in another order are added in another order, and round differently."""
    dim = 512
    units = random_units(40, dim)
    left, right = every_pair(40)
    scores = pair_scores(units, left, right)
    copies = units.repeat(2, 1)
    assert torch.equal(pair_scores(copies, left + 40, right), scores)
    order = torch.randperm(dim, generator=torch.Generator().manual_seed(0))
    off = (pair_scores(units[:, order], left, right) - scores).abs()
    assert 0 < float(off.max()) < 1e-15  # far below dim * 2**-52, which is the bound


def test_more_pairs_than_one_gathering_takes():
    units = random_units(8, 4)
    left, right = every_pair(8)
    times = 2 * NUMBERS_AT_ONCE["cpu"] // units.shape[1] // len(left) + 1
    many = pair_scores(units, left.repeat(times), right.repeat(times))
    assert torch.equal(many, pair_scores(units, left, right).repeat(times))


@pytest.mark.parametrize("dim", [1, 2, 3, 24, 512])
def test_sums_by_halves_are_sums(dim: int):
    numbers = torch.randn(5, dim, dtype=torch.float64)
    torch.testing.assert_close(sums_by_halves(numbers), numbers.sum(1), rtol=1e-13, atol=1e-13)
    assert torch.equal(sums_by_halves(numbers)[2:3], sums_by_halves(numbers[2:3]))


@pytest.mark.parametrize("dim", [3, 128, 512])
def test_near_the_true_sum(dim: int):
    """Products of float32 numbers are exact in float64, so only the additions round."""
    units = random_units(12, dim)
    left, right = every_pair(12)
    for score, a, b in zip(
        pair_scores(units, left, right).tolist(), units[left].tolist(), units[right].tolist(), strict=True
    ):
        assert score == pytest.approx(math.fsum(x * y for x, y in zip(a, b, strict=True)), abs=dim * 2.0**-53)


@pytest.mark.parametrize("dim", [1, 3, 512])
def test_rough_scores_are_off_by_no_more_than_is_said(dim: int):
    random = np.random.default_rng(dim)
    units, others = (unit_rows(random.normal(size=(count, dim)).astype(np.float32)) for count in (40, 30))
    left = torch.from_numpy(np.sort(random.integers(3, 31, 200)))  # some rows are met often, some never
    right = torch.from_numpy(random.integers(2, 29, 200))
    for second in (None, others):
        off = rough_scores(units, left, right, second).double() - pair_scores(units, left, right, second)
        assert float(off.abs().max()) <= rough_error(dim)
        assert rough_scores(units, left[:0], right[:0], second).shape == (0,)
        assert rough_scores(units, left[:1], right[:1], second).shape == (1,)
