"""The space of AM-LFS: the slopes and offsets of `AMLFS` as places in lists, where every draw is an allowed loss."""

import numpy as np
import pytest

from verisphere.losses import AMLFS
from verisphere.study.search import Linear, Reinforce
from verisphere.study.search.space import Space

BINS = 4
LOWEST, SHARE = 0.5, 0.8  # lowest slope, and how far down an offset goes toward what would make its line negative


def space_of(bins: int) -> Space:
    """Slopes from 0.5 to 1.5, offsets over a range of 1, so that a draw's deviation of 0.2 is 0.2 in each number."""
    maps = {f"loss.init_args.slopes.{place}": Linear(LOWEST, LOWEST + 1, start=1.0) for place in range(bins)}
    for place in range(bins):
        low = -SHARE * LOWEST * place / bins
        maps[f"loss.init_args.offsets.{place}"] = Linear(low, low + 1, start=0.0)
    return Space(tuple(maps), tuple(maps.values()))


def loss_of(space: Space, draw: np.ndarray) -> AMLFS:
    values = list(space.values(draw.tolist()).values())
    return AMLFS(values[: len(values) // 2], values[len(values) // 2 :])


@pytest.mark.parametrize("bins", [1, 2, 4, 10])
def test_every_draw_is_an_allowed_loss(bins):
    space = space_of(bins)
    generator = np.random.default_rng(0)
    for deviation in (0.2, 1.0, 100.0):  # far outside [0, 1] too, where the ends of the ranges count
        for draw in space.start + deviation * generator.standard_normal((200, 2 * bins)):
            loss_of(space, draw)  # AMLFS refuses a line that is not positive on its bin
    for ends in (np.zeros(2 * bins), np.repeat([0.0, 1.0], bins), np.repeat([1.0, 0.0], bins), np.ones(2 * bins)):
        loss_of(space, ends)


def test_a_lower_offset_is_not_always_allowed():
    # slope 0.5 and offset -0.25 are 0 at p = 0.5, the lower end of the third of four bins
    with pytest.raises(ValueError, match="must be positive"):
        AMLFS([0.5] * 4, [0.0, 0.0, -0.25, 0.0])


def test_the_search_starts_at_the_softmax_loss():
    space = space_of(BINS)
    values = loss_of(space, space.start)
    assert values.argument("slopes") == pytest.approx((1.0,) * BINS)
    assert values.argument("offsets") == pytest.approx((0.0,) * BINS, abs=1e-12)


def test_the_deviation_of_a_draw_is_that_of_each_number():
    space = space_of(BINS)
    method = Reinforce(deviation=0.2)
    method.begin(space.start, seed=0)
    slopes = [space.values(draw.tolist())["loss.init_args.slopes.1"] for draw in method.ask(4000)]
    assert np.std(slopes) == pytest.approx(0.2, rel=0.05)  # 1.2 % of the draws are held at an end


def test_the_fields_are_places_of_a_recipe():
    resolved = {"loss": {"class_path": "AMLFS", "init_args": {"slopes": [1.0] * BINS, "offsets": [0.0] * BINS}}}
    space_of(BINS).check(resolved)
    with pytest.raises(ValueError, match=r"loss.init_args.slopes.4: there is no 4 in loss.init_args.slopes"):
        space_of(BINS + 1).check(resolved)


def test_lists_read_by_their_places():
    space = space_of(2)
    named = space.readable(space.values(space.start.tolist()))
    assert list(named) == ["slopes.0", "slopes.1", "offsets.0", "offsets.1"]
