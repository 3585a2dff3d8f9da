"""Top-k against brute force: the same scores and the same rows, whatever the block, the precision and the ties."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from verisphere.base.vocabulary import PRECISIONS, Precision
from verisphere.score import pair_scores, unit_rows
from verisphere.score.exact.screen import Screen, products, rounded
from verisphere.score.top_k import as_tensor, top_k

GENERATOR = np.random.default_rng


def spread(rows: int, dim: int, seed: int) -> Tensor:
    """Unit rows in all directions."""
    return unit_rows(GENERATOR(seed).normal(size=(rows, dim)).astype(np.float32))


def ties(rows: int, dim: int, seed: int) -> Tensor:
    """Unit rows of entries -1, 0 and 1: few distinct scores, most of them shared."""
    entries = GENERATOR(seed).integers(-1, 2, size=(rows, dim)).astype(np.float32)
    entries[~entries.any(1), 0] = 1
    return unit_rows(entries)


def close(rows: int, dim: int, seed: int) -> Tensor:
    """Unit rows that differ in their last digits, by far less than the screens can see."""
    base = GENERATOR(seed).normal(size=(1, dim))
    return unit_rows((base * (1 + 1e-6 * GENERATOR(seed + 1).normal(size=(rows, dim)))).astype(np.float32))


KINDS: dict[str, Callable[[int, int, int], Tensor]] = {"spread": spread, "ties": ties, "close": close}


def brute(
    probes: Tensor, gallery: Tensor, k: int, exclude: tuple[Tensor, Tensor] | None = None
) -> tuple[list[list[float]], list[list[int]]]:
    """Every pair scored by itself, and sorted by falling score and rising row."""
    scores, rows = [], []
    for number in range(len(probes)):
        left = torch.full((len(gallery),), number)
        every = pair_scores(torch.cat([probes, gallery]), left, len(probes) + torch.arange(len(gallery))).tolist()
        near = [(-score, row) for row, score in enumerate(every)]
        if exclude is not None:
            near = [pair for pair in near if exclude[0][number] != exclude[1][pair[1]]]
        near = (sorted(near) + [(float("inf"), -1)] * k)[:k]
        scores.append([-score for score, _ in near])
        rows.append([row for _, row in near])
    return scores, rows


def same(found: tuple[Tensor, Tensor], wanted: tuple[list[list[float]], list[list[int]]]) -> bool:
    return (found[0].tolist(), found[1].tolist()) == wanted


def test_by_hand():
    gallery = unit_rows(np.array([[0, 1], [3, 4], [1, 0], [4, 3], [3, 4]], np.float32))
    probes = unit_rows(np.array([[1, 0], [0, -2]], np.float32))
    scores, rows = top_k(probes, gallery, 3)
    assert rows.tolist() == [[2, 3, 1], [2, 3, 1]]  # 0.6 twice for the first probe, 0.8 for rows 1 and 4 of the second
    assert scores.tolist() == [
        [1.0, float(np.float32(0.8)), float(np.float32(0.6))],
        [0.0, -float(np.float32(0.6)), -float(np.float32(0.8))],
    ]
    assert (scores.dtype, rows.dtype) == (torch.float64, torch.int64)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 5, 90])
def test_equals_brute_force(kind: str, k: int, precision: Precision):
    probes, gallery = KINDS[kind](9, 6, 0), KINDS[kind](90, 6, 1)
    wanted = brute(probes, gallery, k)
    for block in (1, 7, 64, 2048):
        assert same(top_k(probes, gallery, k, precision, block=block), wanted), block


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_far_more_rows_than_candidates_are_held(kind: str, precision: Precision):
    """Floors rise, candidates are dropped, and where all are equal they are settled by their exact scores."""
    probes, gallery = KINDS[kind](5, 4, 2), KINDS[kind](1500, 4, 3)
    wanted = brute(probes, gallery, 3)
    for block in (50, 333, 1500):
        assert same(top_k(probes, gallery, 3, precision, block=block), wanted), block


def test_random_cases():
    """Sizes, ties and exclusions drawn at random."""
    for seed in range(60):
        random = GENERATOR(seed)
        count, rows, dim = random.integers(1, 12), random.integers(1, 200), random.integers(1, 9)
        make = KINDS[list(KINDS)[seed % 3]]
        probes, gallery = make(count, dim, seed), make(rows, dim, seed + 100)
        exclude = None
        if seed % 2:
            exclude = torch.from_numpy(random.integers(0, 4, count)), torch.from_numpy(random.integers(0, 4, rows))
        k = int(random.integers(1, rows + 1))
        wanted = brute(probes, gallery, k, exclude)
        precision = PRECISIONS[seed % 2]
        assert same(top_k(probes, gallery, k, precision, exclude, int(random.integers(1, 250))), wanted), seed


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_order_of_the_gallery_changes_nothing_but_ties(precision: Precision):
    probes, gallery = spread(20, 16, 4), spread(400, 16, 5)
    scores, rows = top_k(probes, gallery, 10, precision)
    order = torch.randperm(400, generator=torch.Generator().manual_seed(0))
    shuffled, found = top_k(probes, gallery[order], 10, precision, block=64)
    assert torch.equal(shuffled, scores)
    assert torch.equal(order[found], rows)


def test_a_large_gallery_of_wide_rows():
    """Some thousand rows of 512 numbers, where bfloat16 rounds every product."""
    probes, gallery = spread(40, 512, 6), spread(5000, 512, 7)
    gallery[4000:4040] = unit_rows((probes + 0.5 * gallery[4000:4040]).numpy())
    exact = torch.stack([pair_scores(probes, torch.full((5000,), n), torch.arange(5000), gallery) for n in range(40)])
    wanted, order = exact.sort(dim=1, descending=True, stable=True)
    for precision in PRECISIONS:
        scores, rows = top_k(probes, gallery, 20, precision, block=1024)
        assert torch.equal(scores, wanted[:, :20])
        assert torch.equal(rows, order[:, :20])


@pytest.mark.parametrize("dim", [1, 3, 127, 512, 20_000])
def test_scores_are_those_of_listed_pairs(dim: int):
    """Bit for bit, sums longer than one piece included."""
    probes, gallery = spread(3, dim, 8), spread(7, dim, 9)
    scores, rows = top_k(probes, gallery, 7)
    left = torch.arange(3).repeat_interleave(7)
    assert torch.equal(scores.flatten(), pair_scores(torch.cat([probes, gallery]), left, 3 + rows.flatten()))


def test_small_tiles_and_few_probes_at_a_time(monkeypatch: pytest.MonkeyPatch):
    probes, gallery = ties(30, 5, 10), ties(300, 5, 11)
    wanted = top_k(probes, gallery, 8)
    module = sys.modules["verisphere.score.top_k"]  # the package's name is the function
    monkeypatch.setitem(module.TILE_PRODUCTS, "cpu", 256)
    monkeypatch.setattr(module, "PROBES_TOGETHER", 7)
    monkeypatch.setattr(module, "NUMBERS_MULTIPLIED", 64)
    seen = []

    def progress(items, description, total=None):
        seen.append((description, total))
        yield from items

    found = top_k(probes, gallery, 8, block=128, progress=progress)
    assert torch.equal(found[0], wanted[0])
    assert torch.equal(found[1], wanted[1])
    assert seen == [("searching 300 rows", 15)]  # 5 times 3


def test_exclusion_by_row_keeps_a_probe_from_itself():
    units = spread(50, 8, 12)
    own = torch.arange(50)
    scores, rows = top_k(units, units, 1, exclude=(own, own))
    assert not (rows[:, 0] == own).any()
    assert same((scores, rows), brute(units, units, 1, (own, own)))


def test_exclusion_that_leaves_too_few():
    gallery = unit_rows(np.eye(3, dtype=np.float32))
    scores, rows = top_k(gallery[:2], gallery, 3, exclude=(torch.tensor([5, 6]), torch.tensor([5, 5, 6])))
    assert rows.tolist() == [[2, -1, -1], [1, 0, -1]]
    assert scores.tolist() == [[0.0, -np.inf, -np.inf], [1.0, 0.0, -np.inf]]


def test_exclusion_that_leaves_nobody():
    units = spread(3, 4, 0)
    same_number = torch.zeros(3, dtype=torch.int64)
    scores, rows = top_k(units, units, 2, exclude=(same_number, same_number), block=2)
    assert (rows == -1).all()
    assert (scores == -np.inf).all()


def test_no_probes():
    scores, rows = top_k(spread(0, 4, 0), spread(5, 4, 0), 2)
    assert (scores.shape, rows.shape) == ((0, 2), (0, 2))


def test_a_gallery_that_is_mapped_from_a_file(tmp_path: Path):
    probes, gallery = spread(4, 8, 13), spread(70, 8, 14)
    np.save(tmp_path / "gallery.npy", gallery.numpy())
    mapped = np.load(tmp_path / "gallery.npy", mmap_mode="r")
    for one, other in zip(top_k(probes, mapped, 5, block=16), top_k(probes, gallery, 5), strict=True):
        assert torch.equal(one, other)
    assert as_tensor(mapped).data_ptr() == mapped.ctypes.data  # no copy


def test_float32_is_meant_whatever_the_process_allows():
    probes, gallery = spread(8, 64, 15), spread(300, 64, 16)
    wanted = top_k(probes, gallery, 4, "float64")
    before = torch.backends.mkldnn.matmul.fp32_precision
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"
    try:
        found = top_k(probes, gallery, 4, "float32")
        assert torch.backends.mkldnn.matmul.fp32_precision == "bf16"
    finally:
        torch.backends.mkldnn.matmul.fp32_precision = before
    assert torch.equal(found[0], wanted[0])
    assert torch.equal(found[1], wanted[1])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 64, 512), (5, 65, 100), (64, 64, 1030), (200, 300, 31)])
def test_products_lie_within_the_error(precision: Precision, shape: tuple[int, int, int]):
    """What the floors rest on: a product and its exact score differ by no more than is said."""
    left, right = spread(shape[0], shape[2], 17), spread(shape[1], shape[2], 18)
    one, other = rounded(left, precision), rounded(right, precision)
    exact = left.double() @ right.double().T
    made = products(one.rows, other.rows).double() * (one.unit * other.unit)
    short = 2.0**-8 if precision == "bfloat16" else 0.0
    assert ((made - exact).abs() <= Screen(one, other).error + made.abs() * short).all()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_what_rounding_takes_is_never_understated(precision: Precision):
    units = spread(300, 257, 19)
    kept = rounded(units, precision)
    stored = kept.rows.double() * kept.unit
    lost = (units.double() - stored).norm(dim=1).max()
    longest = stored.norm(dim=1).max()
    assert lost <= kept.lost <= lost * 1.001 + 1e-12
    assert longest <= kept.longest <= longest * 1.01


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, "k must lie between 1 and the 6 rows of the gallery, got 0"),
        ({"k": 7}, "k must lie between 1 and the 6 rows of the gallery, got 7"),
        ({"gallery": spread(6, 5, 0)}, "probes have 4 numbers a row but the gallery has 5"),
        ({"block": 0}, "block must be at least 1, got 0"),
        (
            {"exclude": (torch.arange(3), torch.arange(5))},
            "exclude has 3 and 5 numbers for 3 probes and 6 rows",
        ),
        ({"probes": torch.ones(3, 4)}, "row 0 has length 2, not 1; rows come from `unit_rows`"),
        ({"gallery": torch.full((6, 4), torch.nan)}, "row 0 has length nan, not 1"),
    ],
)
def test_wrong_calls(change: dict, message: str):
    call = {"probes": spread(3, 4, 0), "gallery": spread(6, 4, 1), "k": 2} | change
    with pytest.raises(ValueError, match=message):
        top_k(**call)


def test_the_row_that_is_wrong_is_named_across_blocks():
    gallery = spread(40, 4, 0)
    gallery[33] *= 2
    with pytest.raises(ValueError, match="row 33 has length 2, not 1"):
        top_k(spread(3, 4, 1), gallery, 2, block=16)


@pytest.mark.cuda
@pytest.mark.parametrize("precision", ["bfloat16", "float32", "float64"])
def test_a_gpu_gives_the_same_answer(precision: Precision):
    probes, gallery = spread(300, 128, 20), spread(5000, 128, 21)
    scores, rows = top_k(probes, gallery, 10)
    found = top_k(probes.cuda(), gallery.cuda(), 10, precision)
    assert (found[0].cpu() - scores).abs().max() < 1e-14  # the order of a float64 sum is the device's
    assert torch.equal(found[1].cpu(), rows)
