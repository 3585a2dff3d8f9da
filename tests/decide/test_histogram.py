"""Histograms: counts and totals agree with their edges."""

import numpy as np
import pytest

from verisphere.decide.curve import Histogram

EDGES = np.array([0.0, 0.5, 1.0])


def test_counts_that_do_not_fit_are_refused():
    two, three = np.zeros(2, np.int64), np.zeros(3, np.int64)
    with pytest.raises(ValueError, match="3 edges bound 2 bins, but there are 3 genuine and 3 impostor counts"):
        Histogram(EDGES, three, three, 0, 0)
    with pytest.raises(ValueError, match="edges of a histogram must be ascending"):
        Histogram(EDGES[::-1].copy(), two, two, 0, 0)
