"""Grid search: every combination of values at even steps, in turn."""

import numpy as np
import pytest

from verisphere.study.search import GridDraws


def begun(points: int, fields: int) -> GridDraws:
    method = GridDraws(points)
    method.begin(np.zeros(fields), seed=0)
    return method


def test_one_field_goes_from_end_to_end_and_begins_anew():
    method = begun(5, 1)
    assert method.ask(3).tolist() == [[0], [0.25], [0.5]]
    assert method.ask(4).tolist() == [[0.75], [1], [0], [0.25]]


def test_the_last_of_several_fields_varies_fastest():
    assert begun(2, 2).ask(4).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]


def test_one_point_is_the_middle():
    assert begun(1, 2).ask(2).tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_no_point_is_refused():
    with pytest.raises(ValueError, match="points must be at least 1, got 0"):
        GridDraws(0)
