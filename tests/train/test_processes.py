"""How batches are divided, and what a process alone is told; several are in tests/train/test_processes_agree.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verisphere.backbones.mobilefacenet import MobileFaceNet
from verisphere.base.collectives import gather_text, on_every_rank, on_first_rank
from verisphere.base.distributed import World
from verisphere.train.processes import divided, summed_backbone


@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 5))
def test_every_image_goes_to_one_process_and_parts_are_everybodys(batch: int, parts: int, size: int):
    if batch // parts < size:
        with pytest.raises(
            ValueError, match=f"batch_size is {batch} and accumulate {parts}: .* too small for {size} proc"
        ):
            divided(batch, parts, World(0, size))
        return
    divisions = [divided(batch, parts, World(rank, size)) for rank in range(size)]
    assert sorted(place for one in divisions for place in one.places) == list(range(batch))
    for number, part in enumerate(World(size=parts).share(batch, number) for number in range(parts)):
        assert [place for one in divisions for place in one.own[number]] == list(part)
        assert all(one.weights[number] == len(part) / batch for one in divisions)


def test_a_process_alone_hears_itself():
    assert gather_text("a word") == ["a word"]
    assert on_every_rank(lambda: 3) == 3
    assert on_first_rank(lambda: "three") == "three"
    with pytest.raises(ValueError, match="its own"):
        on_every_rank(lambda: int("its own"))


def test_alone_there_is_nothing_to_add_up():
    assert summed_backbone(MobileFaceNet(8, width=0.1)) is None
