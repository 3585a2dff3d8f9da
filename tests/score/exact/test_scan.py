"""Scans in several processes, interrupted ones, other screens, galleries: always the same integers."""

import math
import os
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from processes import forked, run
from verisphere.base.vocabulary import PRECISIONS, Precision, quietly
from verisphere.base.work import shared_by_ranks, working
from verisphere.files.work import WorkFolder, digest_of
from verisphere.score import AllPairs, Group, pair_scores, unit_rows
from verisphere.score.all_pairs import StreamedScores
from verisphere.score.exact import scan
from verisphere.score.exact.screen import products
from verisphere.score.exact.tiles import Tiles, side_of
from verisphere.score.exact.windows import Window

RANKS = (1, 5, 300, 4000, 30_000)
CUTS = (0.0, 0.21, -0.1)


def rows(count: int = 400, dim: int = 24, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    random = np.random.default_rng(seed)
    people = random.integers(0, count // 5, count)
    some = random.normal(size=(count, dim))[people % (count // 7)] + random.normal(size=(count, dim)).round(1)
    return unit_rows(some.astype(np.float32)), torch.from_numpy(people)


def impostors(pairs: AllPairs) -> StreamedScores:
    return pairs.scores([*(Group(domain, False) for domain in range(pairs.domain_count)), Group(None, False)])


def integers(pairs: AllPairs) -> list[float]:
    scores = impostors(pairs)
    pairs.settle([(scores, rank) for rank in RANKS], [(scores, cut) for cut in CUTS])
    return [*(scores.ranked(rank) for rank in RANKS), *(scores.above(cut) for cut in CUTS), scores.total]


def brute(units: torch.Tensor, people: torch.Tensor) -> list[float]:
    left, right = torch.triu_indices(len(units), len(units), 1)
    score = pair_scores(units, left.to(units.device), right.to(units.device)).cpu()
    score = score[people[left] != people[right]].sort(descending=True).values
    return [*(float(score[rank - 1]) for rank in RANKS), *(int((score > cut).sum()) for cut in CUTS), len(score)]


@pytest.mark.parametrize("precision", [*PRECISIONS, None])
def test_every_screen_gives_the_same_integers(precision: Precision | None):
    units, people = rows()
    domains = torch.arange(400) % 7
    expected = brute(units, people)
    assert integers(AllPairs(units, people, block=64, precision=precision)) == expected
    assert integers(AllPairs(units, people, domains, block=48, precision=precision)) == expected
    order = torch.randperm(400, generator=torch.Generator().manual_seed(1))
    assert integers(AllPairs(units[order], people[order], block=100, precision=precision)) == expected


@pytest.mark.parametrize("precision", PRECISIONS)
def test_each_block_of_rows_has_bounds_of_its_own(precision: Precision):
    """A row with one large number makes coarse steps where it stands, and only there."""
    units, people = rows()
    units[5] = torch.eye(24)[3]
    left = side_of(units, people.numpy(), np.zeros(400, np.int64))
    tiles = Tiles(left, None, 1, precision, (-1.0, 1.0), 40)
    errors = {corner: tiles.screen(number).error for number, corner in enumerate(tiles.corners)}
    coarse = int(np.flatnonzero(left.origin == 5)[0]) // 40 * 40
    if precision == "int8":
        apart = [error for corner, error in errors.items() if coarse not in corner]
        assert max(apart) < min(error for corner, error in errors.items() if coarse in corner)
    for number, (a, b) in enumerate(tiles.corners):
        screen = tiles.screen(number)
        made = products(screen.left, screen.right).double() * screen.unit
        exact = left.units[a : a + 40].double() @ left.units[b : b + 40].double().T
        written = 2.0**-8 * made.abs() if precision == "bfloat16" else 0.0
        assert bool(((made[: len(exact), : exact.shape[1]] - exact).abs() <= screen.error + written).all())
    assert integers(AllPairs(units, people, block=40, precision=precision)) == brute(units, people)


def shared_scan() -> list[list[float]]:
    """Of launched processes that share the passes: what each comes to."""
    units, people = rows()
    domains = torch.arange(400) % 7
    with shared_by_ranks():
        whole = AllPairs(units, people, block=64)
        grouped = AllPairs(units, people, domains, block=48, precision="int8")
        return [integers(whole), integers(grouped)]


@pytest.mark.parametrize("size", [2, 3])
def test_launched_processes_share_a_scan(size: int):
    expected = brute(*rows())
    assert run(shared_scan, size) == [[expected, expected]] * size


def test_windows_that_were_narrowed_apart_give_none():
    low, high = Window(0.1, 0.2, (0,), (5,)), Window(0.3, 0.4, (0,), (5,))
    assert low.merged(high) is None


@pytest.mark.cuda
@pytest.mark.parametrize("precision", ["bfloat16", "float32", "float64", None])
def test_a_gpu_gives_the_same_integers(precision: Precision | None):
    """As a GPU's own sums have them: its order of summing is not a CPU's, but one for any number of pairs."""
    units, people = rows()
    pairs = AllPairs(units.cuda(), people, torch.arange(400) % 7, block=48, precision=precision)
    assert integers(pairs) == brute(units.cuda(), people)
    assert integers(pairs) == pytest.approx(brute(units, people), rel=1e-14)
    left, right = pairs.highest(50, genuine=False)[1].cuda().T
    alone = [float(pair_scores(units.cuda(), left[one : one + 1], right[one : one + 1])) for one in range(50)]
    assert pairs.highest(50, genuine=False)[0].tolist() == alone


def test_two_processes_give_the_same_integers():
    units, people = rows()
    assert integers(AllPairs(units, people, block=64, processes=2)) == brute(units, people)


def test_a_sample_that_misleads_costs_a_pass_and_no_more():
    """Nearly all pairs score alike; those that matter are rarer than the sample can see, and far off."""
    random = np.random.default_rng(0)
    some = np.concatenate([np.eye(32)[0] + 1e-3 * random.normal(size=(3000, 32)), random.normal(size=(40, 32))])
    units, people = unit_rows(some[random.permutation(3040)].astype(np.float32)), torch.arange(3040)
    pairs = AllPairs(units, people)
    scores = impostors(pairs)
    left, right = torch.triu_indices(3040, 3040, 1)
    exact = pair_scores(units, left, right).sort(descending=True).values
    ranks = [3, 3000 * 2999 // 2 - 5, 3000 * 2999 // 2 + 700, scores.total - 3, scores.total]
    pairs.settle([(scores, rank) for rank in ranks])
    assert [scores.ranked(rank) for rank in ranks] == [float(exact[rank - 1]) for rank in ranks]


def test_windows_of_domains_are_narrowed_by_what_was_seen_of_those_domains(monkeypatch: pytest.MonkeyPatch):
    """The tiles of a domain are few, and come when they come: the share of all pairs says nothing about them."""
    monkeypatch.setattr("verisphere.score.exact.windows.SCORES_BEFORE_NARROWING", 50)
    units, people = rows(600)
    domains = torch.arange(600) % 11 % 4
    passes = []

    def count(items: Iterable, description: str, total: int | None = None) -> Iterable:
        passes.append(description)
        return items

    pairs = AllPairs(units, people, domains, block=32, progress=count)
    alone = [pairs.scores([Group(number, False)]) for number in range(4)]
    pairs.settle([(scores, scores.total // part) for scores in alone for part in (3, 10, 40)])
    left, right = torch.triu_indices(600, 600, 1)
    exact = pair_scores(units, left, right)
    for number, scores in enumerate(alone):
        inside = (domains[left] == number) & (domains[right] == number) & (people[left] != people[right])
        expected = exact[inside].sort(descending=True).values
        for part in (3, 10, 40):
            assert scores.ranked(scores.total // part) == expected[scores.total // part - 1]
    assert len(passes) <= 3


def test_probes_and_a_gallery():
    units, people = rows(300)
    others, gallery = rows(170, seed=4)
    exact = (units.double()[:, None] * others.double()[None]).sum(-1)
    same = people[:, None] == gallery[None]
    pairs = AllPairs(units, people, gallery=(others, gallery), block=37)
    genuine, impostor = pairs.scores([Group(0, True)]), impostors(pairs)
    for scores, kind in ((genuine, same), (impostor, ~same)):
        expected = exact[kind].sort(descending=True).values
        assert scores.total == len(expected)
        for rank in (1, 2, scores.total // 2, scores.total):
            assert scores.ranked(rank) == expected[rank - 1]
            assert scores.above(float(expected[rank - 1])) == int((expected > expected[rank - 1]).sum())
    best, places = pairs.highest(50, genuine=False)
    assert torch.equal(best, exact[~same].sort(descending=True).values[:50])
    assert torch.equal(exact[places[:, 0], places[:, 1]], best)
    with pytest.raises(ValueError, match="probes and a gallery have no domains"):
        AllPairs(units, people, people % 2, gallery=(others, gallery))


class Stop(Exception):
    pass


def stopping_after(pieces: int, of_pass: int = 1) -> Callable[..., Iterable]:
    """A progress that stops the work in a pass once this many of its pieces are kept."""
    passes = [0]

    def progress(items: Iterable, description: str, total: int | None = None, done: int = 0) -> Iterable:
        passes[0] += 1
        for number, item in enumerate(items):
            if passes[0] == of_pass and number == pieces:
                raise Stop
            yield item

    return progress


def one_tile_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "PAIRS_A_PIECE", 1)


def kept_pieces(folder: Path) -> list[int]:
    """The number of pieces of each pass."""
    return [len([*step.iterdir()]) for step in sorted(folder.glob("*-pairs-*"))]


@pytest.mark.parametrize(("pieces", "precision"), [(1, "float32"), (5, "int8"), (64, "bfloat16")])
def test_windows_of_pieces_give_the_same_integers(
    pieces: int, precision: Precision, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(scan, "LEAST_PIECES", pieces)
    monkeypatch.setattr("verisphere.score.exact.windows.SCORES_BEFORE_NARROWING", 50)
    units, people = rows()
    domains = torch.arange(400) % 7
    for number, asked in enumerate((None, domains)):
        with working(WorkFolder(tmp_path / str(number))):
            assert integers(AllPairs(units, people, asked, block=64, precision=precision)) == brute(units, people)
        assert kept_pieces(tmp_path / str(number))[0] == min(pieces, 28)


def test_an_interrupted_scan_continues_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    one_tile_a_piece(monkeypatch)
    units, people = rows()
    seen = []

    def counting(items: Iterable, description: str, total: int | None = None, done: int = 0) -> Iterable:
        seen.append((description, total, done))
        return items

    def ask(units: torch.Tensor = units, people: torch.Tensor = people, **how: Any) -> list[float]:
        with working(WorkFolder(tmp_path, "evaluate this")):
            return integers(AllPairs(units, people, **{"block": 64, "progress": counting, **how}))

    for stop in (9, 0, 12):
        with pytest.raises(Stop):
            ask(progress=stopping_after(stop), precision="float64")
    assert kept_pieces(tmp_path) == [21]
    assert ask() == brute(units, people)
    assert seen == [("comparing all pairs", 28, 21)]  # seven blocks of 64 rows
    # what is finished is kept too: nothing is compared again
    monkeypatch.setattr(scan, "_filled", None)
    assert ask() == brute(units, people)
    refused = (
        r"the work of other inputs or options \(evaluate this\), which differ at step 01-pairs; name another folder"
    )
    for other in ({"units": units.flip(0)}, {"people": people.roll(1)}, {"block": 40}):
        with pytest.raises(ValueError, match=refused):
            ask(**other)


@pytest.mark.parametrize("column", ["units", "people", "domains", "origin"])
def test_what_a_scan_is_of_contains_each_column_of_its_rows(column: str):
    units, people = rows()
    side = side_of(units, people.numpy(), (np.arange(len(units)) % 2).astype(np.int64))
    other = replace(side, **{column: getattr(side, column).copy() if column != "units" else side.units.flip(0)})
    if column != "units":
        getattr(other, column)[:2] += 1
    sides = side, replace(side), other
    one, same, changed = (
        digest_of(scan.Tiling(rows_of, None, 2, "float32", (-1.0, 1.0), 64).about()) for rows_of in sides
    )
    assert one == same != changed


def test_pieces_that_others_have_narrowed_elsewhere_cost_a_pass_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The first pass misses ranks; the second, which looks for them, is interrupted as well."""
    one_tile_a_piece(monkeypatch)
    monkeypatch.setattr("verisphere.score.exact.windows.SCORES_BEFORE_NARROWING", 30)
    monkeypatch.setattr("verisphere.score.exact.windows.SCORES_BESIDE_RANK", 3)
    narrow = Window.narrow

    def carelessly(window: Window) -> None:
        slack, window.slack = window.slack, window.slack * 0.1
        narrow(window)
        window.slack = slack

    monkeypatch.setattr(Window, "narrow", carelessly)
    units, people = rows()
    ranks = [3, 50, 400, 3000, 20_000]

    def ask(progress: Callable[..., Iterable]) -> list[float]:
        with working(WorkFolder(tmp_path)):
            scores = impostors(AllPairs(units, people, block=40, precision="float32", progress=progress))
            scores.pairs.settle([(scores, rank) for rank in ranks])
            return [scores.ranked(rank) for rank in ranks]

    with pytest.raises(Stop):
        ask(stopping_after(30, of_pass=2))
    assert kept_pieces(tmp_path) == [55, 30]
    left, right = torch.triu_indices(400, 400, 1)
    exact = pair_scores(units, left, right)[people[left] != people[right]].sort(descending=True).values
    assert ask(quietly) == [float(exact[rank - 1]) for rank in ranks]
    assert kept_pieces(tmp_path)[:2] == [55, 55]


ORPHAN = """
import os, signal, sys, numpy as np, torch
from verisphere.base.distributed import world
from verisphere.score import AllPairs, Group, unit_rows

def shown(items, description, total=None):
    for item in items:
        print("working", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        yield item

rows = np.random.default_rng(0).normal(size=(3000, 16)).astype(np.float32)
AllPairs(unit_rows(rows), torch.arange(3000), progress=shown, processes=2).scores([Group(0, False)]).ranked(100)
"""


def test_a_killed_scan_leaves_no_process_and_no_file(tmp_path: Path):
    """Those who work for it hold its standard output: that it ends shows that they have ended."""
    (tmp_path / "room").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "room")}
    done = subprocess.run([*forked(), "-c", ORPHAN], capture_output=True, text=True, timeout=300, env=environment)
    assert (done.returncode, done.stdout) == (-9, "working\n")
    for _ in range(100):
        if not list((tmp_path / "room").glob("verisphere-*")):
            return
        time.sleep(0.1)
    pytest.fail(f"left behind: {list((tmp_path / 'room').iterdir())}")


def test_edges_of_a_histogram_are_exact():
    units, people = rows()
    scores = impostors(AllPairs(units, people, block=64))
    left, right = torch.triu_indices(400, 400, 1)
    exact = pair_scores(units, left, right)[people[left] != people[right]].numpy()
    edges = np.unique([*np.linspace(-0.5, 0.9, 30), *exact[:5], exact.max()])
    assert scores.histogram(edges).tolist() == np.histogram(exact, edges)[0].tolist()


def test_what_cannot_be_asked_is_refused():
    units, people = rows(20)
    with pytest.raises(ValueError, match="processes must be at least 1, got 0"):
        AllPairs(units, people, processes=0)
    with pytest.raises(ValueError, match="genuine and impostor pairs cannot be asked for together"):
        AllPairs(units, people).scores([Group(0, True), Group(0, False)])
    assert AllPairs(units, people).scores([Group(0, False)]).above(math.inf) == 0
