"""A short form of `benchmarks/galleries.py`: what it finds in its made-up worlds, and how its reviews are counted."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import DATA

FOLDER = Path(__file__).parents[1] / "benchmarks"
MODULES = ("promises", "gallery_pools", "gallery_worlds", "gallery_faces", "gallery_labels", "gallery_rules")


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    """The modules of the benchmark, which import one another from its folder."""
    sys.path.insert(0, str(FOLDER))
    known = {name: sys.modules.pop(name, None) for name in MODULES}
    try:
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
    finally:
        sys.path.remove(str(FOLDER))
        for name, module in known.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


def test_the_rate_of_a_pool_is_its_share_strictly_above(bench):
    pool = bench.gallery_pools.Pool(np.array([0.5, 0.1, 0.4, 0.4]))
    assert [pool.rate(at) for at in (0.0, 0.1, 0.4, 0.5)] == [1.0, 0.75, 0.25, 0.0]


def test_the_best_of_a_gallery_is_drawn_as_the_highest_of_its_scores(bench):
    worlds, random = bench.gallery_worlds, np.random.default_rng(0)
    gallery = 0.5 * random.standard_normal(30)
    scores = (gallery + worlds.PAIR * random.standard_normal((40_000, 30))).max(1)
    levels = (0.05, 0.5, 0.95)
    # the standard error of a quantile of 40,000 draws is at most 0.01 here
    assert worlds.best_of(gallery, np.array(levels)) == pytest.approx(np.quantile(scores, levels), abs=0.03)


@pytest.mark.parametrize("name", ["alike", "heavy tails", "worst case"])
def test_a_threshold_holds_in_every_world(bench, name: str):
    """29 strangers at FPIR 0.1 take rank 1: 0.9 ** 29 = 0.047 of the calibrations find more."""
    world = next(world for world in bench.gallery_worlds.worlds("1e-1") if world.name == name)
    random = np.random.default_rng(1)
    pools = [bench.gallery_pools.Pool(world.strangers(random, world.gallery(random, 20), 20_000)) for _ in range(4)]
    rows = list(bench.gallery_pools.coverage("", name, 20, pools, ["1e-1"], 800, random))
    held = {(row.case, row.strangers): row.value for row in rows if row.figure == "held"}
    assert held["best, confident", 29] >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 800)
    assert held["best, confident", 29] < 1
    assert all(row.lower <= 1 for row in rows if row.figure == "mean FPIR / f")


def test_growth_may_exceed_the_law_that_fixed_thresholds_keep(bench):
    rows = list(bench.gallery_worlds.grown((50,), "1e-2", 60, 5_000, 2))
    of = {(row.population, row.case, row.figure): row.value for row in rows}
    rare = "one in 2n enrolled resembles everybody"
    assert of[rare, "+50 people", "law"] == 2
    assert of[rare, "+50 people", "mean FPIR / mean before"] > 10
    assert of["differing", "+50 people", "the same, threshold fixed without the gallery"] < 2.2


def sample(bench, planted: list[float], strangers: list[float]):
    pool = bench.gallery_pools.Pool(np.arange(100) / 100)
    statistics = np.array([*planted, *strangers])
    return bench.gallery_labels.Sample(statistics, len(planted), np.array([0.3, 0.985, -np.inf]), pool, 5)


@pytest.mark.parametrize(
    ("case", "threshold"),
    [
        ("unreviewed", 2.0),  # 60 at FPIR 0.1: rank 2 (0.9 ** 60 + 60 * 0.1 * 0.9 ** 59 = 0.014, and 0.053 for rank 3)
        ("right", 0.97),  # 58 at 0.1: rank 2 of the strangers
        ("unfound", 0.98),  # 2.0 stays, so rank 2 of 59
        ("wrong", 0.95),  # the two highest strangers are removed too
        ("wrong, allowed for", None),  # rank 2 - 2 is none
    ],
)
def test_a_review_removes_what_its_case_says(bench, case: str, threshold: float | None):
    strangers = [0.98, 0.97, 0.96, 0.95, *np.linspace(0, 0.5, 54)]
    result = bench.gallery_labels.reviewed(sample(bench, [3.0, 2.0], strangers), "1e-1", case, 1 + ("wrong" in case))
    if threshold is None:
        assert result is None
    else:
        pool = bench.gallery_pools.Pool(np.arange(100) / 100)
        assert result == (pool.rate(threshold), np.mean([False, threshold < 0.985, False]))


def test_rows_come_back_as_they_were_written(bench, tmp_path: Path):
    rows = [
        bench.gallery_pools.Row("a", "b", "c, d", None, "1e-2", 3, "held", 0.25, None, None, 4),
        bench.gallery_pools.Row("a", "b", "c", 10, "1e-2", None, "TPIR", 0.5, 0.25, 0.75),
    ]
    bench.gallery_pools.write_rows(rows, tmp_path / "rows.csv")
    assert bench.gallery_pools.read_rows(tmp_path / "rows.csv") == rows
    assert "0.500 (0.250 to 0.750)" in bench.gallery_pools.text(rows)


def test_redrawn_people_give_the_threshold_of_the_redrawn_strangers(bench):
    """Strangers 0 to 59 with scores 0.00 to 0.59: rank 2 at FPIR 0.1 of all once; with 59 thrice 0.59 itself."""
    rules = bench.gallery_rules
    side = rules.Side(np.array([60, 61]), np.arange(60), np.array([], int))
    decided = rules.Decided(np.arange(60) / 100, np.array([]), np.array([0.585, 0.595]))
    weights = np.ones((2, 62), int)
    weights[1, [58, 57, 59]] = 0, 0, 3
    rules.RATE, rate = "1e-1", rules.RATE
    try:
        assert rules.redrawn_tpir(side, decided, weights).tolist() == [1.0, 0.5]
    finally:
        rules.RATE = rate


@pytest.mark.skipif(not (DATA / "lfw_embeddings.npz").is_file(), reason="needs LFW's embeddings beside the project")
def test_the_identities_of_lfw_that_are_twice_in_it(bench):
    faces = bench.gallery_faces.Faces.read("LFW", DATA / "lfw_embeddings.npz")
    duplicates = faces.duplicates()
    assert len(duplicates) == 32
    assert "Wang_Nan" in duplicates
    assert "Mary-Kate_Olsen" not in duplicates
