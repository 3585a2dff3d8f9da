"""All pairs streamed: the integers of a sort of every score, for any block size and any shape of the embeddings."""

import itertools
from collections.abc import Iterable
from functools import partial

import numpy as np
import pytest
import torch

from held_bytes import most_held
from processes import run
from verisphere.score import AllPairs, Group, pair_scores, unit_rows

GROUPS = (True, False)


def people_of(rows: int, people: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, people, rows))


def spread(rows: int = 90, dim: int = 16, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, dim))


def collapsed(noise: float) -> np.ndarray:
    return np.random.default_rng(1).normal(size=16) + noise * spread()


def repeated() -> np.ndarray:
    """Fourteen directions, each many times, some at another length and some turned round."""
    rows = spread(14)[np.arange(90) % 14]
    rows[::5] *= -1
    rows[::7] *= 4
    return rows


SHAPES = {
    "spread": spread(),
    "collapsed to 1e-3": collapsed(1e-3),
    "collapsed to 1e-7": collapsed(1e-7),  # all scores within a few roundings of float32 of one
    "one point": collapsed(0.0),
    "repeated": repeated(),
    "one dimension": np.where(spread(90, 1) > 0, 1.0, -2.0),
    "two clusters": np.repeat([[1.0, 0.0], [0.0, 1.0]], 45, 0) + 1e-6 * spread(90, 2),
    # more rows than the grid looks at, so that it may meet none of the far ones
    "a few far off": np.concatenate([collapsed(1e-9)] * 3 + [spread(5)] + [collapsed(1e-9)] * 3),
}


def by_group(units: torch.Tensor, people: torch.Tensor, domains: torch.Tensor | None) -> dict[Group, torch.Tensor]:
    """Every score of each kind of pair, descending."""
    left, right = torch.triu_indices(len(units), len(units), 1)
    score, same = pair_scores(units, left, right), people[left] == people[right]
    home = torch.zeros(len(left), dtype=torch.int64)
    count = 1
    if domains is not None:
        count = int(domains.max()) + 1
        home = torch.where(domains[left] == domains[right], domains[left], count)
    kinds = itertools.product([*range(count), None], GROUPS)
    return {
        Group(domain, genuine): score[(home == (count if domain is None else domain)) & (same == genuine)]
        .sort(descending=True)
        .values
        for domain, genuine in kinds
    }


def ranks_to_ask(total: int) -> Iterable[int]:
    return sorted({*range(1, min(total, 25) + 1), total // 3 + 1, total // 2 + 1, *range(max(total - 3, 1), total + 1)})


def check(scan: AllPairs, groups: list[Group], expected: torch.Tensor) -> None:
    scores = scan.scores(groups)
    assert scores.total == len(expected)
    if not len(expected):
        return
    ranks = ranks_to_ask(scores.total)
    thresholds = [-np.inf, np.inf, -3.0, 3.0, 0.0, 0.123]
    # together here; whether questions may also come one by one is asked elsewhere
    scan.settle([(scores, rank) for rank in ranks], [(scores, cut) for cut in thresholds])
    for rank in ranks:
        value = float(expected[rank - 1])
        assert scores.ranked(rank) == value
        thresholds += [value, float(np.nextafter(value, -np.inf)), float(np.nextafter(value, np.inf))]
    scan.settle(thresholds=[(scores, cut) for cut in thresholds])
    for threshold in thresholds:
        assert scores.above(threshold) == int((expected > threshold).sum())


def test_questions_one_by_one():
    units, people = unit_rows(repeated().astype(np.float32)), people_of(90, 12)
    expected = by_group(units, people, None)[Group(0, False)]
    scores = AllPairs(units, people, block=64).scores([Group(0, False)])
    for rank in (len(expected), 1, 1000, 1001, 2000):
        assert scores.ranked(rank) == expected[rank - 1]
        assert scores.above(float(expected[rank - 1])) == int((expected > expected[rank - 1]).sum())


@pytest.mark.parametrize("block", [5, 64, 1024])
@pytest.mark.parametrize("shape", SHAPES)
def test_ranks_and_counts_are_those_of_a_sort(shape: str, block: int):
    units = unit_rows(SHAPES[shape].astype(np.float32))
    people = people_of(len(units), 12)
    expected = by_group(units, people, None)
    scan = AllPairs(units, people, block=max(block, len(units) // 12))  # a pass of some eighty blocks
    for genuine in GROUPS:
        check(scan, [Group(0, genuine)], expected[Group(0, genuine)])


@pytest.mark.parametrize("rows", [1, 2, 3, 9])
def test_blocks_of_one_row(rows: int):
    units, people = unit_rows(spread(rows).astype(np.float32)), people_of(rows, 2)
    expected = by_group(units, people, None)
    for genuine in GROUPS:
        check(AllPairs(units, people, block=1), [Group(0, genuine)], expected[Group(0, genuine)])


@pytest.mark.parametrize("count", [2, 5, 40])
def test_domains_apart_and_together(count: int):
    units = unit_rows(repeated().astype(np.float32))
    people, domains = people_of(len(units), 12), torch.arange(len(units)) % count
    expected = by_group(units, people, domains)
    scan = AllPairs(units, people, domains, block=32)
    for group in [*list(expected)[:8], Group(None, True), Group(None, False)]:
        check(scan, [group], expected[group])
    impostors = [group for group in expected if not group.genuine]
    check(scan, impostors, torch.cat([expected[group] for group in impostors]).sort(descending=True).values)
    within = [group for group in impostors if group.domain is not None]
    check(scan, within, torch.cat([expected[group] for group in within]).sort(descending=True).values)


def test_a_group_named_twice_counts_once():
    scan = AllPairs(unit_rows(spread(20).astype(np.float32)), people_of(20, 3))
    once, twice = scan.scores([Group(0, False)]), scan.scores([Group(0, False)] * 2)
    assert once.total == twice.total


def test_more_equal_scores_than_are_held_at_once(monkeypatch: pytest.MonkeyPatch):
    """Equal scores are merged on the way; merging early and often changes nothing."""
    units, people = unit_rows(repeated().astype(np.float32)), people_of(90, 12)
    monkeypatch.setattr("verisphere.score.exact.windows.SCORES_BEFORE_NARROWING", 10)
    expected = by_group(units, people, None)[Group(0, False)]
    scan = AllPairs(units, people, block=8)
    check(scan, [Group(0, False)], expected)


def test_two_rows():
    units = unit_rows(np.array([[3, 4], [4, 3]], np.float32))
    scan = AllPairs(units, torch.tensor([0, 1]))
    genuine, impostor = (scan.scores([Group(0, kind)]) for kind in GROUPS)
    assert (genuine.total, impostor.total, impostor.above(0.95), impostor.above(0.97)) == (0, 1, 1, 0)
    assert impostor.ranked(1) == float(pair_scores(units, torch.tensor([0]), torch.tensor([1])))


def test_questions_asked_together_share_a_pass():
    passes: list[str] = []

    def count(items, description, total=None):
        passes.append(description)
        return items

    units = unit_rows(spread(300).astype(np.float32))
    scan = AllPairs(units, people_of(300, 30), progress=count, block=64)
    scores = scan.scores([Group(0, False)])
    assert not passes
    ranks = (1, 10, 100, 1000, 10_000)
    scan.settle([(scores, rank) for rank in ranks])
    assert len(passes) == 1
    for rank in ranks:
        assert scores.above(scores.ranked(rank)) == rank - 1
    assert len(passes) == 1


@pytest.mark.parametrize("count", [1, 7, 500, 10_000])
@pytest.mark.parametrize("shape", ["spread", "repeated", "one point"])
def test_the_highest_scores_and_their_rows(shape: str, count: int):
    units, people = unit_rows(SHAPES[shape].astype(np.float32)), people_of(90, 12)
    domains = people_of(90, 3, seed=5)
    groups = by_group(units, people, domains)
    for genuine in GROUPS:
        expected = torch.cat([part for group, part in groups.items() if group.genuine == genuine])
        expected = expected.sort(descending=True).values[:count]
        scores, rows = AllPairs(units, people, domains, block=32).highest(min(count, len(expected)), genuine)
        assert torch.equal(scores, expected)
        assert torch.equal(pair_scores(units, rows[:, 0].contiguous(), rows[:, 1].contiguous()), scores)
        assert bool(((people[rows[:, 0]] == people[rows[:, 1]]) == genuine).all())
        assert bool((rows[:, 0] < rows[:, 1]).all())
        assert len(rows.unique(dim=0)) == len(rows)


def scan(rows: np.ndarray) -> None:
    pairs = AllPairs(unit_rows(rows), torch.arange(len(rows)) // 5, block=256, precision="float32")
    scores = pairs.scores([Group(0, False)])
    ranks = [10_000, scores.total // 2]
    pairs.settle([(scores, rank) for rank in ranks])
    assert scores.total == len(rows) * (len(rows) - 1) // 2 - 2 * len(rows)
    assert all(scores.above(scores.ranked(rank)) < rank for rank in ranks)


def all_in_memory(rows: np.ndarray) -> None:
    units = unit_rows(rows).double()
    torch.cat([units[:row] @ units[row] for row in range(len(units))])


def held_by_more_rows() -> list[int]:
    """Bytes held at most for 2,000 rows, less those for 1,000: of rows spread apart, of ties, of a list of scores."""
    draws = np.random.default_rng(0).normal(size=(2000, 16)).astype(np.float32)
    most_held(lambda: scan(draws[:300]))  # what the libraries take once
    calls = (scan, draws), (scan, draws[np.arange(2000) % 40]), (all_in_memory, draws)
    held = (tuple(most_held(partial(call, rows[:count])) for count in (1000, 2000)) for call, rows in calls)
    return [many - few for few, many in held]


def test_memory_does_not_grow_with_the_pairs():
    """1.5 million more pairs: the scan holds 6 MB more; a list of their scores, made of parts, holds 24 MB more."""
    [(spread_apart, ties, in_memory)] = run(held_by_more_rows, 1)  # in a process where types are not checked
    assert max(spread_apart, ties) < 12_000_000 < 18_000_000 < in_memory
