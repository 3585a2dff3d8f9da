"""A whole model in FSDP, of rank 0 of two: what is refused comes before any exchange, so no other rank is needed."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from loss_examples import EXAMPLES
from verisphere.head.dense import Dense
from verisphere.head.head import Head
from verisphere.head.sampled import Sampled
from verisphere.head.sharded import Sharded
from verisphere.losses.adaface import AdaFace
from verisphere.losses.margin import ArcFace

CLASSES, SIZE, ROWS = 12, 6, 4


class Network(nn.Module):
    def __init__(self, engine, loss=None) -> None:
        super().__init__()
        self.backbone = nn.Linear(SIZE, SIZE)
        self.head = Head(ArcFace() if loss is None else loss, CLASSES, SIZE, engine=engine)

    def forward(self):
        return self.head(self.backbone(torch.ones(ROWS, SIZE)), torch.arange(ROWS)).loss


def sharded_flat(network):
    return FullyShardedDataParallel(network, device_id=torch.device("cpu"), use_orig_params=True)


@pytest.fixture(params=[fully_shard, sharded_flat])
def wrapped(request):
    """Wraps a model as rank 0 of two."""
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    yield request.param
    dist.destroy_process_group()


def test_a_sharded_head_is_refused(wrapped):
    with pytest.raises(ValueError, match=r"a sharded head is inside FSDP, .*: wrap the backbone alone in FSDP"):
        wrapped(Network(Sharded(Dense())))()


def test_sampled_classes_are_refused(wrapped):
    with pytest.raises(ValueError, match="a head with sampled classes is inside FSDP"):
        wrapped(Network(Sampled(0.5, Dense())))()


# fully_shard itself refuses a parameter that is a single number
@pytest.mark.parametrize("name", [name for name, example in EXAMPLES.items() if not list(example.loss.parameters())])
def test_a_loss_is_refused_if_it_depends_on_the_rows_of_all_ranks(name, wrapped):
    if not EXAMPLES[name].loss.of_batch:
        wrapped(Network(Dense(), EXAMPLES[name].make()))()
        return
    with pytest.raises(ValueError, match="is inside FSDP, where each rank sees its own rows only"):
        wrapped(Network(Dense(), EXAMPLES[name].make()))()


def test_state_that_does_not_move_is_not_refused(wrapped):
    wrapped(Network(Dense(), AdaFace())).eval()()
