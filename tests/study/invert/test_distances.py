"""Frechet and kernel distance against values by hand, and against SciPy's root of a matrix."""

import numpy as np
import pytest
from scipy.linalg import sqrtm

from verisphere.study.invert.likeness import frechet_distance, kernel_distance


def test_frechet_of_two_boxes_by_hand():
    # variances 2 and 8 along one axis, means apart by 1: 1 + 2 + 8 - 2 * sqrt(16)
    one, other = np.array([[-1.0], [1.0]]), np.array([[-1.0], [3.0]])
    assert frechet_distance(one, other) == pytest.approx(1 + 2 + 8 - 2 * 4)


@pytest.mark.parametrize("seed", range(4))
def test_frechet_equals_the_formula_with_a_root_of_the_product(seed: int):
    draw = np.random.default_rng(seed)
    one, other = draw.normal(size=(30, 5)), draw.normal(size=(40, 5)) @ draw.normal(size=(5, 5)) + 0.3
    a, b = np.cov(one, rowvar=False), np.cov(other, rowvar=False)
    wanted = ((one.mean(0) - other.mean(0)) ** 2).sum() + np.trace(a + b - 2 * sqrtm(a @ b).real)
    assert frechet_distance(one, other) == pytest.approx(wanted, rel=1e-9)
    assert frechet_distance(one, one) == pytest.approx(0, abs=1e-9)


def test_frechet_takes_more_images_than_dimensions():
    with pytest.raises(ValueError, match="5 images and 5 dimensions"):
        frechet_distance(np.zeros((5, 5)), np.zeros((9, 5)))


def test_kernel_distance_by_hand():
    one, other = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 0.0], [1.0, 0.0]])
    # within: 1 and 8; between: 8, 8, 1, 1
    assert kernel_distance(one, other) == pytest.approx(1 + 8 - 2 * 4.5)


def test_kernel_distance_is_0_in_the_mean_for_one_distribution():
    draw = np.random.default_rng(0)

    def unit(rows: int) -> np.ndarray:
        values = draw.normal(size=(rows, 6))
        return values / np.linalg.norm(values, axis=1, keepdims=True)

    found = np.array([kernel_distance(unit(8), unit(8)) for _ in range(400)])
    assert (found < 0).any()
    assert abs(found.mean()) < 4 * found.std() / 20
    with pytest.raises(ValueError, match="two images"):
        kernel_distance(unit(1), unit(8))
