"""The loosest threshold of a library has no impure one above it."""

import numpy as np
import pytest

from verisphere.decide.purity import loosest


@pytest.mark.parametrize(
    ("impurity", "wanted"),
    [
        ([0, 0, 0, 0], 0.3),
        ([0.02, 0.01, 0, 0], 0.4),
        ([0, 0.02, 0, 0], 0.5),  # the impurity at 0.3 is small by luck
        ([0.02, 0.02, 0, 0.02], np.inf),
        ([0, 0, 0.011, 0.01], 0.6),
    ],
)
def test_the_loosest_threshold_has_no_impure_one_above(impurity: list[float], wanted: float):
    assert loosest(np.array([0.3, 0.4, 0.5, 0.6]), np.array(impurity), 0.01) == wanted
    assert loosest(np.array([0.5, 0.3, 0.6, 0.4]), np.array(impurity)[[2, 0, 3, 1]], 0.01) == wanted
