"""Keys of products: bounds that hold for every pair, also where rounding and ties press on them."""

import math

import numpy as np
import pytest
import torch

from verisphere.base.device import full_float32
from verisphere.base.vocabulary import PRECISIONS, Precision
from verisphere.score import unit_rows
from verisphere.score.exact import screen
from verisphere.score.exact.screen import KEY_RANGE, Screen, exact_int8, int8_unit, products, rounded

ALL = slice(0, None)


def rows(dim: int, seed: int = 0) -> torch.Tensor:
    """Spread, equal, opposite and nearly equal rows, and rows whose rounding takes as much as it can."""
    random = np.random.default_rng(seed)
    some = random.normal(size=(60, dim))
    some[7], some[9], some[11] = -some[3], some[3], some[3] + 1e-6
    some[20:30] = 1 + 2.0**-8.5 * random.choice([-1, 1], size=(10, dim))
    some[30:33] = np.eye(dim)[0]
    return unit_rows(some.astype(np.float32))


@pytest.mark.parametrize("dim", [1, 2, 17, 512])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_keys_never_say_what_is_false(precision: Precision, dim: int):
    units = rows(dim)
    exact = (units.double()[:, None] * units.double()[None]).sum(-1)
    half = rounded(units, precision)
    screen = Screen(half, half)
    with full_float32():
        keys = screen.keys(ALL, ALL).clone()
    assert int(keys.min()) >= 1
    ends = [-math.inf, -1.0, -0.3, -0.0, 0.0, 1e-9, screen.error, 0.2, 0.5, 1.0, math.inf, *exact[0, :9].tolist()]
    for low in ends:
        for high in ends:
            if low <= high:
                first, last = screen.between(low, high)
                inside = (exact >= low) & (exact <= high)
                assert bool(((keys >= first) & (keys <= last))[inside].all())
                assert bool((exact[keys > last] > high).all())
                assert bool((exact[keys < first] < low).all())


@pytest.mark.parametrize("precision", ["int8", "bfloat16"])
def test_the_short_way_to_keys_of_positive_scores_agrees_with_the_long_one(precision: Precision):
    half = rounded(rows(64), precision)
    screen = Screen(half, half)
    first, last = screen.between(0.1, 0.3)
    shift = screen.shift(first)
    assert shift == KEY_RANGE // 2
    whole = screen.keys(ALL, ALL).clone()
    short = screen.keys(ALL, ALL, positive=True) >> screen.fine(positive=True)
    assert torch.equal(whole > last, short > last - shift)
    assert torch.equal((whole >= first) & (whole <= last), (short >= first - shift) & (short <= last - shift))
    assert screen.shift(screen.between(-0.1, 0.3)[0]) == 0


def test_int8_products_are_exact_and_the_largest_key_leaves_room():
    assert all(exact_int8(dim) for dim in (2, 3, 17, 512))
    for dim in (1, 2, 3, 512):
        some = unit_rows(np.eye(3, dim, dtype=np.float32)[:1])
        eight = rounded(some, "int8")
        assert int(eight.rows.max()) == 127
        assert eight.unit == pytest.approx(1 / 127)
        screen = Screen(eight, eight)
        assert int(screen.keys(ALL, ALL).max()) < KEY_RANGE - 1
        assert int(Screen(eight, eight).keys(ALL, ALL, positive=True).max()) == 127**2


def test_the_unit_of_int8_rows_is_the_better_of_some():
    units = rows(512)
    chosen = rounded(units, "int8")
    largest = float(units.abs().max())
    assert chosen.lost <= min(rounded(units, "int8", unit=share * largest / 127).lost for share in (1.0, 0.64)) * 1.001
    assert int8_unit(units[:0]) > 0


def test_int8_is_for_a_cpu():
    with pytest.raises(ValueError, match="int8 products are made on a CPU; on meta bfloat16 is the fast type"):
        rounded(torch.empty(2, 3, device="meta"), "int8")


def test_int8_that_saturates_is_not_used(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(screen, "exact_int8", lambda dim: False)
    eight = rounded(rows(16), "int8")
    with pytest.raises(RuntimeError, match=r"products in torch\.int8 are not exact on this CPU; use another type"):
        Screen(eight, eight)


def test_bounds_follow_what_rounding_took_not_the_worst_it_could_take():
    half = rounded(rows(512), "bfloat16")
    kept = rounded(torch.eye(512), "bfloat16")  # exact in any type
    assert 0.001 < Screen(half, half).error < 2.0**-7
    assert Screen(kept, kept).error < 1e-3


def test_keys_of_a_narrow_span_are_fine_inside_and_coarse_beyond():
    units = unit_rows((1 + 1e-4 * np.random.default_rng(0).normal(size=(40, 16))).astype(np.float32))
    exact = units.double() @ units.double().T
    off = exact[~torch.eye(40, dtype=torch.bool)]
    half = rounded(units, "float64")
    wide, narrow = Screen(half, half), Screen(half, half, float(off.min()), float(off.max()))
    assert len(wide.keys(ALL, ALL).unique()) < 5
    assert len(narrow.keys(ALL, ALL).unique()) > 100
    first, last = narrow.between(-0.5, 0.5)
    assert not bool(((narrow.keys(ALL, ALL) >= first) & (narrow.keys(ALL, ALL) <= last) & (exact > 0.9999)).all())
    assert first == last == 1


def test_products_in_float32_are_in_float32_whatever_the_process_allows():
    backend = torch.backends.mkldnn.matmul
    before = backend.fp32_precision
    backend.fp32_precision = "bf16"
    try:
        with full_float32():
            assert backend.fp32_precision == "ieee"
        assert backend.fp32_precision == "bf16"
    finally:
        backend.fp32_precision = before


def test_a_device_that_computes_too_roughly_is_not_used(monkeypatch: pytest.MonkeyPatch):
    half = rounded(rows(16), "float32")
    monkeypatch.setattr(screen, "products", lambda left, right, room=None: (left @ right.T) * 1.01)
    with pytest.raises(RuntimeError, match=r"products in torch.float32 are off by 0\.01, which is more than they may"):
        Screen(half, half)


def test_rows_that_int8_lengthens_reach_no_wrong_key():
    """Small numbers beside a large one are rounded up, so that products exceed 1 by far."""
    random = np.random.default_rng(0)
    some = random.choice([-1.0, 1.0], size=(7, 40000)).astype(np.float32)
    some[4:] = some[:3]
    some[4:, :200] *= -1
    units = unit_rows(np.concatenate([some, np.eye(1, 40000, dtype=np.float32)]))
    exact = (units.double()[:, None] * units.double()[None]).sum(-1)
    eight = rounded(units, "int8")
    screen = Screen(eight, eight)
    assert int(products_of(screen).abs().max()) * screen.unit > 1.5
    for positive in (False, True):
        keys = screen.keys(ALL, ALL, positive) >> screen.fine(positive)
        shift = KEY_RANGE // 2 if positive else 0
        for low in (0.9, 0.97, 0.98, 0.999):
            first, last = screen.between(low, math.inf)
            assert bool((exact[keys > last - shift] > math.inf).all())
            assert bool((exact[keys < first - shift] < low).all())
            first, last = screen.between(low, low)
            assert bool((exact[keys > last - shift] > low).all())


def products_of(screen: Screen) -> torch.Tensor:
    return products(screen.left, screen.right)
