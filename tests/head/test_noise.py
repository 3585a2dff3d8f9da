"""The random numbers of a loss: one sequence for a seed, whatever the engine, the parts of a batch or the restarts."""

import copy

import pytest
import torch
from torch import Tensor

from verisphere.head.auto import Auto
from verisphere.head.dense import Dense
from verisphere.head.head import Head
from verisphere.head.interface import Engine
from verisphere.head.noise import Noise, standard_normal
from verisphere.head.sampled import Sampled
from verisphere.head.sharded import Sharded
from verisphere.head.streamed import Streamed
from verisphere.losses.auxiliary import WeightedSum
from verisphere.losses.class_loss import ClassLoss, Rows
from verisphere.losses.margin import ArcFace

CLASSES, SIZE = 9, 4
DENSE = Dense()


class Noted(ClassLoss):
    """NormFace that asks for two numbers a row and notes what it gets."""

    noise = 2

    def __init__(self) -> None:
        super().__init__(8.0)
        self.seen: list[Tensor | None] = []

    def context(self, rows: Rows) -> tuple[Tensor, ...]:
        self.seen.append(rows.noise)
        return ()


def head_of(loss: ClassLoss, engine: Engine = DENSE, seed: int = 0) -> Head:
    torch.manual_seed(1)
    return Head(loss, CLASSES, SIZE, engine=engine, seed=seed)


def batch(rows: int = 6) -> tuple[Tensor, Tensor]:
    return torch.randn(rows, SIZE, generator=torch.Generator().manual_seed(2)), torch.arange(rows) % CLASSES


def test_they_are_standard_normal():
    drawn = standard_normal(0, range(100_000), 2)
    assert drawn.mean(0).abs().max() < 0.02  # six standard errors
    assert (drawn.std(0) - 1).abs().max() < 0.015
    assert abs(torch.corrcoef(drawn.T)[0, 1]) < 0.02
    assert abs(torch.corrcoef(torch.stack([drawn[:-1, 0], drawn[1:, 0]]))[0, 1]) < 0.02
    assert len(drawn.unique()) == drawn.numel()  # no block comes twice


@pytest.mark.parametrize("rows", [range(5), range(1020, 1030), range(1024, 1025), range(1000, 3100), range(7, 7)])
def test_a_row_has_its_numbers_whichever_others_are_asked_for(rows):
    assert torch.equal(standard_normal(4, rows, 3), standard_normal(4, range(4000), 3)[rows.start : rows.stop])


def test_the_global_generator_plays_no_part_and_is_left_alone():
    torch.manual_seed(1)
    first = standard_normal(0, range(3), 1)
    after = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(after, torch.rand(1))
    torch.manual_seed(2)
    assert torch.equal(standard_normal(0, range(3), 1), first)


def test_another_seed_has_other_numbers():
    assert not torch.equal(standard_normal(0, range(3), 1), standard_normal(1, range(3), 1))


def test_a_loss_receives_its_numbers_with_the_type_of_the_rows():
    for dtype in (torch.float32, torch.float64):
        loss = Noted()
        rows, labels = batch()
        head_of(loss, seed=3).to(dtype)(rows.to(dtype), labels)
        (seen,) = loss.seen
        assert torch.equal(seen, standard_normal(3, range(6), 2).to(dtype))


@pytest.mark.parametrize(
    "engine",
    [Dense(), Streamed(), Auto(), Streamed("bfloat16"), Sampled(0.5), Sharded(Dense())],
    ids=["dense", "streamed", "auto", "bfloat16", "sampled", "sharded"],
)
def test_engines_and_parts_have_the_same_numbers(engine):
    loss, (rows, labels) = Noted(), batch()
    head = head_of(loss, engine)
    head(rows, labels)
    for part in (slice(0, 1), slice(1, 4), slice(4, 6)):  # the next batch in three parts
        head(rows[part], labels[part])
    assert torch.equal(torch.cat(loss.seen), standard_normal(0, range(12), 2).float())


def test_evaluation_draws_nothing():
    loss, (rows, labels) = Noted(), batch()
    head = head_of(loss)
    head.eval()(rows, labels)
    head.train()(rows, labels)
    assert loss.seen[0] is None
    assert torch.equal(loss.seen[1], standard_normal(0, range(6), 2).float())


def test_a_head_continues_from_a_state_on_another_engine():
    before, after = Noted(), Noted()
    rows, labels = batch()
    first, second = head_of(before), head_of(after, Sampled(0.5))
    first(rows, labels)
    second.load_state_dict(first.state_dict())
    first(rows, labels)
    second(rows, labels)
    assert torch.equal(after.seen[0], before.seen[1])


def test_a_copy_has_its_own_state():
    head = head_of(Noted())
    twin = copy.deepcopy(head)
    head(*batch())
    assert (head.noise.rows.item(), twin.noise.rows.item()) == (6, 0)


def test_a_loss_that_asks_for_none_has_no_state():
    assert head_of(ArcFace()).state_dict().keys() == {"centers"}
    assert head_of(Noted()).state_dict().keys() == {"centers", "noise.rows"}


def test_centers_move_between_losses_with_and_without_noise():
    with_noise, without = head_of(Noted()), head_of(ArcFace())
    with_noise(*batch())
    without.load_state_dict(with_noise.state_dict())
    with_noise.load_state_dict(without.state_dict())
    assert torch.equal(with_noise.centers, without.centers)
    assert with_noise.noise.rows.item() == 6  # kept


def test_the_terms_of_a_sum_receive_the_same_numbers():
    first, second = Noted(), Noted()
    head_of(WeightedSum([ArcFace(), first, second]))(*batch())
    assert torch.equal(first.seen[0], second.seen[0])
    assert first.seen[0].shape == (6, 2)


def test_inference_mode():
    with torch.inference_mode():
        assert head_of(Noted())(*batch()).loss.isfinite()


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match=r"^seed is -1; it must be a number >= 0$"):
        Noise(1, -1)
    with pytest.raises(ValueError, match=r"^seed is -1; "):
        head_of(Noted(), seed=-1)
