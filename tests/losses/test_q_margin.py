"""Q-Margin: values by hand, its limits, and an independent sparsemax."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from loss_rows import numbers
from verisphere.losses import CosFace, QMargin, Rows
from verisphere.losses.q_margin import (
    base_of,
    margin_in_logits,
    newton_step,
    normaliser,
    probability,
    probability_and_slope,
    term_of,
)


def logits_of(*rows: tuple[float, ...]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def bisected(others: torch.Tensor, own: torch.Tensor, alpha: float, own_q: float) -> torch.Tensor:
    """The normaliser by bisection of the definition, with q as it is."""

    def total(tau: torch.Tensor) -> torch.Tensor:
        logits = torch.cat([own[:, None], others], dim=1)
        q = torch.ones_like(logits)
        q[:, 0] = own_q
        return (q * (1 + (alpha - 1) * (logits - tau[:, None])).clamp(min=0) ** (1 / (alpha - 1))).sum(1)

    low, high = own.minimum(others.amin(1)) - 1e9, own.maximum(others.amax(1)) + 1 / (alpha - 1)
    for _ in range(200):
        middle = (low + high) / 2
        above = total(middle) > 1
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return low


def divergence(p: torch.Tensor, q: torch.Tensor, alpha: float) -> torch.Tensor:
    """D(p, q) = sum_j q_j f(p_j / q_j), f(u) = (u^a - 1 - a (u - 1)) / (a (a - 1))."""
    u = p / q
    return (q * (u**alpha - 1 - alpha * (u - 1)) / (alpha * (alpha - 1))).sum(1)


def by_definition(logits: torch.Tensor, labels: torch.Tensor, alpha: float, own_q: float) -> torch.Tensor:
    """<p, z> - D(p, q) + D(e_y, q) - z_y, with p from a bisection."""
    row = torch.arange(len(logits))
    own = logits[row, labels]
    is_own = torch.nn.functional.one_hot(labels, logits.shape[1]).bool()
    others = logits[~is_own].reshape(len(logits), -1)
    tau = bisected(others, own, alpha, own_q)
    q = torch.ones_like(logits).masked_fill(is_own, own_q)
    p = q * (1 + (alpha - 1) * (logits - tau[:, None])).clamp(min=0) ** (1 / (alpha - 1))
    return (p * logits).sum(1) - divergence(p, q, alpha) + divergence(is_own.double(), q, alpha) - own


@pytest.mark.parametrize("alpha", [1.1, 1.25, 1.5, 2.0])
@pytest.mark.parametrize("prior", ["separating", "exponential", 0.2])
def test_value_is_that_of_the_definition(alpha, prior):
    generator = torch.Generator().manual_seed(1)
    cosines = torch.rand(9, 6, generator=generator, dtype=torch.float64) - 0.4
    labels = torch.arange(9) % 6
    loss = QMargin(alpha, None if isinstance(prior, float) else 0.25, 8.0, prior)
    own_q = {"separating": (1 + (alpha - 1) * 2) ** (-1 / (alpha - 1)), "exponential": math.exp(-2)}.get(prior, prior)
    expected = by_definition(8.0 * cosines, labels, alpha, own_q)
    for row in range(9):
        value = loss.forward(cosines[row : row + 1], labels[row : row + 1])
        assert value.item() == pytest.approx(expected[row].item(), rel=1e-9, abs=1e-9)
