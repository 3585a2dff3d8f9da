"""Figures of any evaluation by name, and their mean over sets."""

from types import SimpleNamespace as Fields

import pytest

from verisphere.measure.suite.result import figures_of, over_sets


def point(far: str, tar: float, coarse: bool = False) -> Fields:
    return Fields(far_target=far, tar=tar, far=0.0, threshold=0.5, below_resolution=coarse)


def test_a_rate_that_cannot_be_shown_has_no_figure():
    figures = figures_of({"operating_points": (point("1e-1", 0.9), point("1e-6", 0.1, coarse=True))})
    assert figures == {"TAR at FAR 1e-1": 0.9, "FAR at FAR 1e-1": 0.0, "threshold at FAR 1e-1": 0.5}


def test_one_gallery_has_its_own_figures_and_several_their_mean():
    gallery = Fields(
        ranks=(Fields(rank=1, rate=0.5),),
        operating_points=(Fields(fpir_target="1e-1", tpir=0.25, below_resolution=False),),
    )
    assert figures_of({"galleries": {"G1": gallery}}) == {"rank 1": 0.5, "TPIR at FPIR 1e-1": 0.25}
    mean = {"mean_ranks": (Fields(rank=1, rate=0.75),), "mean_points": (Fields(fpir_target="1e-1", tpir=0.5),)}
    both = {"galleries": {"G1": gallery, "G2": gallery}, **mean}
    assert figures_of({"identification": both}) == {"rank 1": 0.75, "TPIR at FPIR 1e-1": 0.5}


def test_mean_and_spread_over_the_sets_that_have_a_figure():
    """Of 0.5, 0.7 and 0.9: mean 0.7; variance (0.04 + 0 + 0.04) / 3 of the population, / 2 of a sample."""
    sets = {name: {"accuracy": value} for name, value in (("a", 0.5), ("b", 0.7), ("c", 0.9))}
    sets["c"]["TAR at FAR 1e-3"] = 0.25
    accuracy, tar = over_sets(sets)
    assert accuracy.mean == pytest.approx(0.7)
    assert accuracy.std_population == pytest.approx((0.08 / 3) ** 0.5)
    assert accuracy.std_sample == pytest.approx(0.2)
    assert (tar.sets, tar.mean, tar.std_population, tar.std_sample) == (("c",), 0.25, 0.0, None)
