"""Histograms: counts and totals agree with their edges."""

import numpy as np
import pytest

from verisphere.decide.histogram import Histogram, count_scores

EDGES = np.array([0.0, 0.5, 1.0])


def test_scores_are_counted_between_edges_and_totals_count_all():
    histogram = count_scores(np.array([0.5, 1.0, 1.5]), np.array([-1.0, 0.0, 0.49]), EDGES)
    assert histogram.genuine.tolist() == [0, 2]  # an inner edge belongs to the upper bin, the last one to the last
    assert histogram.impostor.tolist() == [2, 0]
    assert (histogram.genuine_total, histogram.impostor_total) == (3, 3)


def test_counts_that_do_not_fit_are_refused():
    two, three = np.zeros(2, np.int64), np.zeros(3, np.int64)
    with pytest.raises(ValueError, match="3 edges bound 2 bins, but there are 3 genuine and 3 impostor counts"):
        Histogram(EDGES, three, three, 0, 0)
    with pytest.raises(ValueError, match="edges of a histogram must be ascending"):
        Histogram(EDGES[::-1].copy(), two, two, 0, 0)
