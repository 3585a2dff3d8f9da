"""How people are redrawn: what is refused before any work."""

import pytest

from verisphere.base.vocabulary import Redrawing


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"replicates": 0}, "replicates must be at least 1, got 0"),
        ({"replicates": -3}, "replicates must be at least 1, got -3"),
        ({"seed": -1}, "seed must be 0 or more, got -1"),
    ],
)
def test_a_redrawing_that_cannot_be_is_refused(arguments: dict[str, int], message: str):
    with pytest.raises(ValueError, match=message):
        Redrawing(**arguments)
