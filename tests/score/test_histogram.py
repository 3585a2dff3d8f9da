"""Streamed scores as histograms: the counts of the grid, without another pass."""

import numpy as np
import pytest
import torch

from verisphere.score import AllPairs, Group, unit_rows

ROWS = np.random.default_rng(0).normal(size=(700, 8)).astype(np.float32)  # more rows than the grid looks at
PEOPLE = torch.arange(700) // 2


def sweep(rows: np.ndarray = ROWS) -> AllPairs:
    return AllPairs(unit_rows(rows), PEOPLE[: len(rows)], block=256)


def test_the_grids_cells_lie_between_their_edges():
    grid = sweep().grid
    edges = grid.edges
    assert len(edges) == grid.cells + 1
    assert (edges.diff() > 0).all()
    middle = (edges[:-1] + edges[1:]) / 2
    assert torch.equal(grid.cell(middle), torch.arange(grid.cells))


def test_a_histogram_counts_every_score_once():
    pairs = sweep()
    impostor = pairs.scores([Group(0, False)])
    edges = np.linspace(-1.01, 1.01, 30)
    counts = impostor.histogram(edges)
    assert counts.sum() == impostor.total == 700 * 699 // 2 - 350
    exact = np.histogram(pairs.highest(impostor.total, genuine=False)[0].numpy(), edges)[0]
    assert np.abs(np.cumsum(counts) - np.cumsum(exact)).max() <= 0.001 * impostor.total
    # what lies beyond the outermost edges is not counted
    assert impostor.histogram(np.array([0.0, 1.01])).sum() == pytest.approx(exact[15:].sum(), rel=0.1)


def test_a_score_is_known_to_within_its_cell():
    pairs = sweep()
    impostor = pairs.scores([Group(0, False)])
    passes = int(pairs.opened.sum())
    near = [impostor.near(rank) for rank in (1000, 100_000, 200_000)]
    assert int(pairs.opened.sum()) == passes == 0
    exact = [impostor.ranked(rank) for rank in (1000, 100_000, 200_000)]
    assert near == pytest.approx(exact, abs=1 / pairs.grid.steps_per_score)
