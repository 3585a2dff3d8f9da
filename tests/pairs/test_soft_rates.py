"""Soft TAR and FAR: equations 3 to 5 of AnchorFace by hand, and the streamed walk against all pairs at once."""

import math

import pytest
import torch
from torch import Tensor, nn

from verisphere.pairs import anchor_face
from verisphere.pairs.anchor_face import far_loss, soft_count_of_listed, soft_count_of_others, soft_step, tar_loss
from verisphere.score.stored import same_label

# The equations ------------------------------------------------------------------------------------------


def test_soft_step_by_hand():
    # tau = 0.01, s - t = 0.02: 1 / (1 + e^-2)
    found = soft_step(torch.tensor([0.32, 0.3, 0.28], dtype=torch.float64), 0.3, 0.01)
    torch.testing.assert_close(found, torch.tensor([0.880797078, 0.5, 0.119202922], dtype=torch.float64))


def test_far_loss_by_hand():
    # (0.5 + 0.880797 + 2 x e^-50) / 4
    scores = torch.tensor([0.3, 0.32, -0.2, -0.2], dtype=torch.float64)
    assert float(far_loss(scores, 0.3, 0.01)) == pytest.approx(0.3451992695, abs=1e-10)


def test_tar_loss_by_hand():
    # 1 - (0.5 + 0.119203) / 2
    scores = torch.tensor([0.3, 0.28], dtype=torch.float64)
    assert float(tar_loss(scores, 0.3, 0.01)) == pytest.approx(0.690398539, abs=1e-9)


def test_gradients_of_the_losses_by_hand():
    # the sigmoid's slope at 0 is 1/4: over tau = 0.01 and two pairs that is 12.5; at 2 it is 0.104993585
    scores = torch.tensor([0.3, 0.32], dtype=torch.float64, requires_grad=True)
    (by_far,) = torch.autograd.grad(far_loss(scores, 0.3, 0.01), scores)
    (by_tar,) = torch.autograd.grad(tar_loss(scores, 0.3, 0.01), scores)
    torch.testing.assert_close(by_far, torch.tensor([12.5, 5.24967927], dtype=torch.float64))
    assert torch.equal(by_tar, -by_far)


@pytest.mark.parametrize("loss", [far_loss, tar_loss])
def test_gradcheck(loss):
    scores = torch.linspace(0.2, 0.4, 9, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda some: loss(some, 0.3, 0.05), scores)


def test_toward_temperature_0_they_are_the_rates_that_evaluation_counts():
    scores = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5], dtype=torch.float64)
    assert float(far_loss(scores, 0.35, 1e-4)) == pytest.approx(2 / 5)
    assert float(tar_loss(scores, 0.35, 1e-4)) == pytest.approx(1 - 2 / 5)


@pytest.mark.parametrize("loss", [far_loss, tar_loss])
def test_without_a_pair_there_is_no_loss(loss):
    assert float(loss(torch.empty(0), 0.3, 0.01)) == 0


# Streamed ------------------------------------------------------------------------------------------------


class Case:
    """Rows of a batch and stored ones, of six identities, some places empty; one row is of no identity."""

    def __init__(self, batch: int = 7, stored: int = 50, dim: int = 12, dtype: torch.dtype = torch.float64) -> None:
        generator = torch.Generator().manual_seed(3)
        self.units, self.rows = (
            nn.functional.normalize(torch.randn(count, dim, dtype=torch.float64, generator=generator), dim=1).to(dtype)
            for count in (batch, stored)
        )
        self.labels = torch.randint(-1, 6, (batch,), generator=generator)
        owners = torch.randint(0, 6, (stored,), generator=generator)
        self.filled = (torch.rand(stored, generator=generator) < 0.7).nonzero()[:, 0]
        self.owners = owners[self.filled]
        self.left, self.right = same_label(self.labels, self.owners)
        self.threshold, self.temperature = 0.3, 0.05

    def others(self, units: Tensor) -> Tensor:
        """Scores of all pairs but those of one label, all at once."""
        apart = self.labels[:, None] != self.owners[None, :]
        return (units @ self.rows[self.filled].to(units).T)[apart]

    def streamed(self, **options) -> anchor_face.SoftCount:
        of = self.units, self.rows, self.filled, self.left, self.right
        return soft_count_of_others(*of, self.threshold, self.temperature, **options)

    def at_once(self) -> tuple[Tensor, Tensor]:
        units = self.units.double().requires_grad_()
        count = soft_step(self.others(units), self.threshold, self.temperature).sum()
        return count.detach(), torch.autograd.grad(count, units)[0]


def apart(found: Tensor, expected: Tensor) -> float:
    """The largest difference as a share of the largest number."""
    return float((found.double() - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("at_once", [1, 7, 20, 64, 7 * 33, 10**6, None])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_streamed_equals_materialised(dtype, tolerance, at_once):
    case = Case(dtype=dtype)
    found, (count, gradient) = case.streamed(at_once=at_once), case.at_once()
    assert apart(found.count, count) < tolerance
    assert apart(found.gradient, gradient) < tolerance
    assert found.gradient.dtype == dtype


def test_half_precision_is_near_and_stays_in_float32_where_it_counts():
    case = Case(batch=64, stored=600, dim=64, dtype=torch.float32)
    found, (count, gradient) = case.streamed(precision="bfloat16", at_once=4096), case.at_once()
    assert apart(found.count, count) < 2e-3
    assert apart(found.gradient, gradient) < 2e-2
    assert found.gradient.dtype == torch.float32


def test_rows_stored_in_half_precision_are_compared_as_they_are_stored():
    case = Case(dtype=torch.float32)
    case.rows = case.rows.bfloat16()
    found, (count, gradient) = case.streamed(), case.at_once()
    assert apart(found.count, count) < 1e-6
    assert apart(found.gradient, gradient) < 1e-6


def test_what_lies_in_places_that_are_not_filled_does_not_matter():
    case = Case()
    expected = case.streamed()
    empty = torch.ones(len(case.rows), dtype=torch.bool)
    empty[case.filled] = False
    case.rows[empty] = math.nan
    found = case.streamed()
    assert torch.equal(found.count, expected.count)
    assert torch.equal(found.gradient, expected.gradient)


def test_nothing_stored_and_no_rows():
    case = Case()
    case.filled, case.left, case.right = (torch.empty(0, dtype=torch.int64) for _ in range(3))
    assert float(case.streamed().count) == 0
    assert not case.streamed().gradient.any()
    case.filled, case.units = torch.arange(3), case.units[:0]
    assert float(case.streamed().count) == 0


def test_no_more_than_a_run_of_pairs_ever_lives(monkeypatch):
    case, sizes = Case(stored=400), []
    monkeypatch.setattr(
        anchor_face, "products", lambda a, b, room: (sizes.append((len(a), len(b))), torch.mm(a, b.T))[1]
    )
    case.streamed(at_once=7 * 32)
    made = sizes[::2]  # the others turn a run's slopes into a gradient
    assert set(made[:-1]) == {(7, 32)}
    assert sum(columns for _, columns in made) == len(case.filled)


def test_listed_pairs_equal_autograd(monkeypatch):
    monkeypatch.setattr(anchor_face, "LISTED_AT_ONCE", 5)
    case = Case()
    rows, (left, right) = case.rows[case.filled], (case.left, case.right)
    assert len(left) > 10
    units = case.units.clone().requires_grad_()
    scores = (units[left] * rows[right]).sum(1)
    expected = soft_step(scores, case.threshold, case.temperature).sum()
    (gradient,) = torch.autograd.grad(expected, units)
    found = soft_count_of_listed(scores.detach(), rows, left, right, len(units), case.threshold, case.temperature)
    torch.testing.assert_close(found.count, expected.detach())
    torch.testing.assert_close(found.gradient, gradient)
