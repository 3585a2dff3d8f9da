"""Counts of rows at or above levels: equal to counting in the whole matrix, for every precision and any portions."""

import numpy as np
import pytest
import torch

from verisphere.base.vocabulary import PRECISIONS
from verisphere.score import pair_scores, unit_rows
from verisphere.score import reaching as module
from verisphere.score.reaching import Reaching


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("ties", [False, True])
def test_counts_are_those_of_the_whole_matrix(precision, ties, monkeypatch: pytest.MonkeyPatch):
    for name, size in (("BLOCK_ROWS", 64), ("TILE_PRODUCTS", 640), ("FEWEST_WAITING", 10)):
        monkeypatch.setattr(module, name, size)
    random = np.random.default_rng(0)
    probes, rows = (random.normal(size=(size, 24)).astype(np.float32) for size in (37, 501))
    if ties:
        probes, rows = np.repeat(probes[:5], 8, 0)[:37], np.repeat(rows[:84], 6, 0)[:501]
    left, right = unit_rows(probes), unit_rows(rows)
    pairs = torch.arange(37).repeat_interleave(501), torch.arange(501).repeat(37)
    matrix = pair_scores(left, *pairs, right).numpy().reshape(37, 501)
    number = random.integers(0, 6, 37)
    # Every second probe's levels are scores of its own, which the rows reach exactly.
    own = [
        np.sort(random.choice(matrix[probe], count) if probe % 2 else random.normal(size=count) / 5)
        for probe, count in enumerate(number)
    ]
    found = Reaching(left, np.concatenate(own), np.append(0, number.cumsum()), 9, precision)
    for portion in right.split(100):
        found.take(portion)
    wanted = [int((matrix[probe] >= level).sum()) for probe, levels in enumerate(own) for level in levels]
    assert found.counts().tolist() == wanted
    assert found.best.tolist() == matrix.max(1).tolist()
    values, counts = np.unique(matrix, return_counts=True)
    assert [part.tolist() for part in found.highest()] == [values[::-1][:9].tolist(), counts[::-1][:9].tolist()]
    assert found.rows == 501


def test_sides_of_different_size_are_refused():
    units = unit_rows(np.ones((2, 3), np.float32))
    with pytest.raises(ValueError, match="probes have 3 numbers a row but the others have 2"):
        Reaching(units, np.empty(0), np.zeros(3, np.int64)).take(unit_rows(np.ones((1, 2), np.float32)))
