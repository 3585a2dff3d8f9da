"""Pairs of a batch with stored rows: the answers of a sort of every exact score, wherever one looks first."""

import itertools
import math
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from processes import run
from verisphere.base.distributed import ALONE, world
from verisphere.base.vocabulary import NO_CLASS, PRECISIONS
from verisphere.decide import accepted_impostors, operating_point, threshold_at
from verisphere.score import batch_pairs, pair_scores, unit_rows
from verisphere.score.batch_pairs import BatchPairs, BatchScores, Hints
from verisphere.score.stored import EMPTY, Stored, same_label

INFINITE = math.inf


@dataclass(frozen=True, eq=False)
class Case:
    """A batch and what it is compared with."""

    units: Tensor
    labels: Tensor
    stored: Stored
    groups: Tensor

    def expected(self, groups: frozenset[int]) -> Tensor:
        """Every impostor score of some groups, descending, from a list of all pairs."""
        there = self.stored.labels != EMPTY
        mine = torch.tensor([int(group) in groups for group in self.groups], dtype=torch.bool)
        left, right = ((self.labels[:, None] != self.stored.labels) & there & mine[:, None]).nonzero().T
        return pair_scores(self.units, left, right, self.stored.rows.float()).sort(descending=True).values + 0.0


def units_of(kind: str, rows: int, dim: int, random: np.random.Generator) -> Tensor:
    """Rows of length 1, of one shape or another."""
    spread = random.normal(size=(rows, dim))
    one = np.ones(dim)
    made = {
        "spread": lambda: spread,
        "near 1": lambda: one + 1e-3 * spread,
        "nearer 1": lambda: one + 1e-7 * spread,  # scores a few roundings of float32 apart
        "one point": lambda: one + 0.0 * spread,
        "near -1": lambda: (one + 1e-4 * spread) * random.choice([-1, 1], size=(rows, 1)),
        "repeated": lambda: random.normal(size=(4, dim))[random.integers(0, 4, rows)],
    }[kind]()
    made[~made.any(1)] = 1.0
    return unit_rows(made.astype(np.float32))


KINDS = "spread", "near 1", "nearer 1", "one point", "near -1", "repeated"


def case(
    seed: int,
    rows: int = 20,
    stored: int = 90,
    dim: int = 16,
    kind: str = "spread",
    classes: int = 12,
    unknown: float = 0.0,
    empty: float = 0.0,
    groups: int = 1,
    dtype: torch.dtype = torch.float32,
) -> Case:
    """Rows of random people, some of them unknown, some places empty."""
    random = np.random.default_rng(seed)
    every = units_of(kind, rows + stored, dim, random)
    labels = random.integers(0, classes, rows + stored)
    labels[random.random(rows + stored) < unknown] = NO_CLASS
    kept = labels[rows:]
    kept[random.random(stored) < empty] = EMPTY
    return Case(
        every[:rows],
        torch.from_numpy(labels[:rows]),
        Stored(every[rows:].to(dtype), torch.from_numpy(kept)),
        torch.from_numpy(random.choice(np.arange(groups) * 2, rows)),  # every other number is nobody's
    )


def check(one: Case, pairs: BatchPairs, together: bool = True) -> None:
    """Every question about every union of two groups, and about all."""
    present = sorted({0, *one.groups.tolist()})
    unions = [frozenset(present), *(frozenset(some) for some in itertools.combinations_with_replacement(present, 2))]
    asked = []
    for union in unions:
        scores, expected = pairs.scores(union), one.expected(union)
        assert scores.total == len(expected)
        total = len(expected)
        ranks = sorted({rank for rank in (1, 2, total // 10, total // 2, total - 1, total) if 1 <= rank <= total})
        asked += [(scores, expected, rank) for rank in ranks]
    if together:
        pairs.settle([(scores, rank, str(rank)) for scores, _, rank in asked])
    for scores, expected, rank in asked:
        value = float(expected[rank - 1])
        assert scores.ranked(rank) == value
        for cut in (value, math.nextafter(value, -INFINITE), math.nextafter(value, INFINITE)):
            assert scores.above(cut) == int((expected > cut).sum())
    for scores in map(pairs.scores, unions):
        assert (scores.above(-INFINITE), scores.above(INFINITE)) == (scores.total, 0)
        assert (scores.above(-2.0), scores.above(2.0)) == (scores.total, 0)


@settings(max_examples=250, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(0, 30),
    stored=st.integers(0, 150),
    dim=st.sampled_from([1, 2, 3, 16, 65]),
    kind=st.sampled_from(KINDS),
    classes=st.sampled_from([1, 2, 30]),
    unknown=st.sampled_from([0.0, 0.0, 0.3, 0.6, 1.0]),
    empty=st.sampled_from([0.0, 0.0, 0.4, 0.8, 1.0]),
    groups=st.sampled_from([1, 3]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    precision=st.sampled_from(PRECISIONS),
    block=st.sampled_from([5, 1024]),
    together=st.booleans(),
)
def test_every_answer_is_that_of_a_sort(
    seed, rows, stored, dim, kind, classes, unknown, empty, groups, dtype, precision, block, together
):
    one = case(seed, rows, stored, dim, kind, classes, unknown, empty, groups, dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_pairs, "TILE_ROWS", block)
        check(one, BatchPairs(one.units, one.labels, one.stored, one.groups, precision=precision, keys=1), together)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_more_rows_than_a_tile_has(precision):
    one = case(1, rows=batch_pairs.TILE_ROWS + 90, stored=100, dim=3, kind="repeated", groups=2, unknown=0.1, empty=0.1)
    check(one, BatchPairs(one.units, one.labels, one.stored, one.groups, precision=precision, keys=1 << 16))


# What is no pair ---------------------------------------------------------------------------------------------------


def test_pairs_worked_out_by_hand():
    # rows of the batch: person 0, person 1, unknown; stored: person 0, an empty place, unknown, person 2
    batch = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    rows = torch.tensor([[0.6, 0.8], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    stored = Stored(rows, torch.tensor([0, EMPTY, NO_CLASS, 2]))
    pairs = BatchPairs(batch, torch.tensor([0, 1, NO_CLASS]), stored, torch.tensor([0, 0, 2]))
    every, first, last = pairs.scores(), pairs.scores([0]), pairs.scores([2])
    # person 0: 0 (unknown), 1 (person 2); person 1: 0.8, 1 (unknown), 0; unknown: 1 (person 0), 0.6 (person 2)
    assert (every.total, first.total, last.total, pairs.scores([1]).total) == (7, 5, 2, 0)
    near = pytest.approx
    assert [first.ranked(rank) for rank in range(1, 6)] == [1.0, 1.0, near(0.8), 0.0, 0.0]
    assert [last.ranked(rank) for rank in (1, 2)] == [near(1.0), near(0.6)]
    assert (every.above(0.5), every.above(0.0), first.above(0.9), last.above(0.61)) == (5, 5, 2, 1)
    # FAR 2/5 accepts two of five; the third largest is the threshold
    assert threshold_at(first, "0.4") == first.ranked(3)


def test_one_label_is_one_identity():
    left, right = same_label(torch.tensor([3, NO_CLASS, 5, 3]), torch.tensor([EMPTY, 3, NO_CLASS, 7, 5, 3]))
    assert (left.tolist(), right.tolist()) == ([0, 3, 2, 0, 3], [1, 1, 4, 5, 5])
    for batch, stored in (([], [1, 2]), ([1, 2], []), ([], []), ([1], [2])):
        found = same_label(torch.tensor(batch, dtype=torch.int64), torch.tensor(stored, dtype=torch.int64))
        assert [len(side) for side in found] == [0, 0]


@pytest.mark.parametrize("classes", [1, 2, 3, 400])
@pytest.mark.parametrize("unknown", [0.0, 0.9])
def test_few_people_and_many(classes, unknown):
    one = case(5, rows=40, stored=500, classes=classes, unknown=unknown, groups=3)
    check(one, BatchPairs(one.units, one.labels, one.stored, one.groups, keys=1 << 12))


@pytest.mark.parametrize(("rows", "stored", "empty"), [(0, 9, 0.0), (9, 0, 0.0), (0, 0, 0.0), (9, 9, 1.0)])
def test_nothing_to_compare(rows, stored, empty):
    one = case(1, rows=rows, stored=stored, empty=empty)
    pairs = BatchPairs(one.units, one.labels, one.stored, one.groups)
    scores = pairs.scores()
    assert (scores.total, scores.above(0.1), scores.above(-INFINITE)) == (0, 0, 0)
    pairs.settle([(scores, 1, "first")])
    assert threshold_at(scores, "1e-4") == -INFINITE
    assert pairs.hints.passes == 0


def test_what_lies_in_an_empty_place_does_not_matter():
    one = case(3, empty=0.5, unknown=0.2, groups=2)
    rows = one.stored.rows.clone()
    rows[one.stored.labels == EMPTY] = torch.tensor([math.nan, INFINITE] * 8)
    other = Stored(rows, one.stored.labels)
    for precision in PRECISIONS:
        check(one, BatchPairs(one.units, one.labels, other, one.groups, precision=precision, keys=1))


# decide/ ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("far", ["0", "1e-3", "0.25", "0.999", "1"])
@pytest.mark.parametrize("kind", KINDS)
def test_thresholds_are_those_of_decide(far, kind):
    one = case(2, kind=kind, unknown=0.1, empty=0.2)
    scores = BatchPairs(one.units, one.labels, one.stored).scores()
    expected = one.expected(frozenset([0]))
    point = operating_point(torch.ones(1), expected, far)
    threshold = threshold_at(scores, far)
    assert threshold == point.threshold
    assert scores.above(threshold) == point.impostor_accepted
    assert point.impostor_accepted <= accepted_impostors(far, scores.total)
    for rule in ("nearest", "interpolated"):
        assert threshold_at(scores, far, rule) == operating_point(torch.ones(1), expected, far, rule).threshold


# Hints --------------------------------------------------------------------------------------------------------------


def big(seed: int = 0, groups: int = 1) -> Case:
    """Enough pairs for several tiles of a pass."""
    return case(seed, rows=64, stored=6000, dim=32, classes=500, groups=groups, dtype=torch.bfloat16)


def asked(pairs: BatchPairs, far: str = "1e-3") -> list[tuple[BatchScores, int, str]]:
    """The rank of a FAR, of all groups and of each."""
    every = [pairs.scores(), *(pairs.scores([group]) for group in range(0, pairs.group_count, 2))]
    return [(scores, accepted_impostors(far, scores.total) + 1, far) for scores in every]


ASTRAY = {
    "nothing": {},
    "above": {((0,), "1e-3"): (0.99, 1e-3)},
    "below": {((0,), "1e-3"): (-0.99, 1e-3)},
    "beyond": {((0,), "1e-3"): (7.0, 1.0)},
    "infinite": {((0,), "1e-3"): (INFINITE, 1.0)},
    "everywhere": {((0,), "1e-3"): (0.0, INFINITE)},
    "not a number": {((0,), "1e-3"): (math.nan, math.nan)},
    "of others": {((3, 4), "1e-3"): (0.99, 1e-3), ((0,), "other"): (0.99, 1e-3)},
}


@pytest.mark.parametrize("name", ASTRAY)
def test_hints_change_no_answer(name):
    one = big()
    expected = one.expected(frozenset([0]))
    hints = Hints(dict(ASTRAY[name]))
    pairs = BatchPairs(one.units, one.labels, one.stored, hints=hints, keys=1 << 14)
    pairs.settle(asked(pairs))
    rank = accepted_impostors("1e-3", pairs.scores().total) + 1
    assert threshold_at(pairs.scores(), "1e-3") == float(expected[rank - 1])
    assert hints.passes <= 3
    assert hints.known[(0,), "1e-3"][0] == float(expected[rank - 1])


def test_good_hints_take_one_pass_for_all_groups_and_ranks():
    hints, passes = Hints(), []
    for seed in range(6):
        one = big(seed, groups=4)
        pairs = BatchPairs(one.units, one.labels, one.stored, one.groups, hints=hints, keys=1 << 14)
        before = hints.passes
        pairs.settle([*asked(pairs), *asked(pairs, "1e-2")])
        for scores, rank, _ in [*asked(pairs), *asked(pairs, "1e-2")]:
            assert scores.ranked(rank) == float(one.expected(scores.groups)[rank - 1])
        passes.append(hints.passes - before)
    assert passes[0] <= 2
    assert passes[1:] == [1] * 5


def test_slack_follows_what_a_threshold_moves():
    hints = Hints()
    for answer in (0.3, 0.3, 0.3):
        hints.learn((0,), "far", answer)
    low, high = hints.stretch((0,), "far") or (0.0, 0.0)
    assert low < 0.3 < high
    hints.learn((0,), "far", 0.5)  # moved by 0.2: it may do so again
    low, high = hints.stretch((0,), "far") or (0.0, 0.0)
    assert low <= 0.3 + 1e-9
    assert high >= 0.7 - 1e-9
    assert hints.stretch((1,), "far") is None
    hints.learn((0,), "far", -INFINITE)
    assert hints.stretch((0,), "far") is None


# Memory -------------------------------------------------------------------------------------------------------------

#: In a process of its own, whose peak is its own: bytes at it, less those with the rows stored.
MEASURE = """
import ctypes, pathlib, sys, torch
from verisphere.decide import accepted_impostors
from verisphere.score.batch_pairs import BatchPairs, Hints
from verisphere.score.stored import Stored
from verisphere.base.device import keep_memory
keep_memory()
def unit(count): return torch.nn.functional.normalize(torch.randn(count, 512), dim=1)
def peak(): return next(int(x.split()[1]) for x in open("/proc/self/status") if x.startswith("VmHWM"))
def step(stored, hints):
    pairs = BatchPairs(unit(512), torch.randint(0, 9999, (512,)), stored, torch.arange(512) % 4, hints=hints)
    asked = [pairs.scores(), *(pairs.scores([group]) for group in range(4))]
    pairs.settle([(scores, accepted_impostors("1e-4", scores.total) + 1, "1e-4") for scores in asked])
    return hints
dtype = getattr(torch, sys.argv[1])
def stored(count): return Stored(torch.cat([unit(1024).to(dtype) for _ in range(count // 1024)]), torch.arange(count))
step(stored(4096), Hints())  # what libraries allocate once
many = stored(131072)
ctypes.CDLL(None).malloc_trim(0)
pathlib.Path("/proc/self/clear_refs").write_text("5")
before = peak()
hints = step(many, Hints())
for _ in range(3): step(many, hints)
print(1024 * (peak() - before), hints.passes)
"""


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_beside_the_stored_rows_there_is_a_part_of_the_scores(dtype):
    """All scores would be 268 MB. With 512,000 rows it is 6 MB more, for the places of those that are stored."""
    command = [sys.executable, "-c", MEASURE, dtype]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    peak, passes = map(int, done.stdout.split())
    assert peak < 120e6  # less than 58 MB are taken
    assert passes <= 5


# Errors -------------------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused():
    rows = torch.eye(3)
    with pytest.raises(ValueError, match=r"^stored rows are torch.float64; allowed are float32 and bfloat16$"):
        Stored(rows.double(), torch.arange(3))
    with pytest.raises(ValueError, match=r"^3 stored rows came with 2 labels; each takes one$"):
        Stored(rows, torch.arange(2))
    stored = Stored(rows, torch.arange(3))
    with pytest.raises(ValueError, match=r"^3 rows came with 2 labels; each takes one$"):
        BatchPairs(rows, torch.arange(2), stored)
    with pytest.raises(ValueError, match=r"^3 rows came with 3 labels and 2 groups; each takes one$"):
        BatchPairs(rows, torch.arange(3), stored, torch.zeros(2, dtype=torch.int64))


# Several processes --------------------------------------------------------------------------------------------------

SHARED = {
    "spread": {"rows": 24, "stored": 400, "groups": 3, "unknown": 0.1, "empty": 0.1},
    "ties": {"rows": 24, "stored": 400, "kind": "repeated", "dim": 3},
    "near 1": {"rows": 24, "stored": 200, "kind": "nearer 1", "dtype": torch.bfloat16, "groups": 2},
    "few": {"rows": 3, "stored": 2},
    "none": {"rows": 0, "stored": 5},
    "nobody": {"rows": 4, "stored": 0},
}


def share_of(count: int) -> slice:
    """This process's part of the stored rows: the first has nothing, the last most."""
    rank, size = world().rank, world().size
    if size == 1:
        return slice(0, count)
    bounds = [0, *(count * number * number // size**2 for number in range(size - 1)), count]
    bounds = sorted(bounds)
    return slice(bounds[rank], bounds[rank + 1])


def answers(name: str) -> list[float]:
    """What a process answers to all questions, of several steps with the same hints, some of them led astray."""
    found: list[float] = []
    hints = Hints({((0,), "1e-3"): (0.99, 1e-4)})
    for seed in range(2):
        one = case(seed, **SHARED[name])
        part = share_of(len(one.stored))
        stored = Stored(one.stored.rows[part], one.stored.labels[part])
        here = world()
        pairs = BatchPairs(
            one.units, one.labels, stored, one.groups, hints=hints, world=here if here.size > 1 else ALONE, keys=1
        )
        pairs.settle([*asked(pairs), *asked(pairs, "0.5")])
        for scores, _, _ in asked(pairs):
            found += [scores.total, threshold_at(scores, "1e-3"), threshold_at(scores, "0.5")]
        found.append(pairs.scores().above(0.3))
        found.append(hints.passes > 0)
    return found


def all_answers() -> dict[str, list[float]]:
    return {name: answers(name) for name in SHARED}


@pytest.mark.parametrize("size", [2, 3])
def test_several_processes_answer_as_one(size):
    expected = all_answers()
    for found in run(all_answers, size):
        assert found == expected
