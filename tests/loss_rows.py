"""Small rows that the losses' own tests are asked about."""

import math

import torch

from verisphere.losses.class_loss import Rows


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def cosines(*degrees: float, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.tensor([math.cos(math.radians(value)) for value in degrees], dtype=dtype)


def rows_of(own: torch.Tensor, *noise: float, length: torch.Tensor | None = None) -> Rows:
    """Rows of classes 0, 1, ... with these own cosines; of length 1 unless given."""
    length = torch.ones_like(own) if length is None else length
    drawn = numbers(*noise)[:, None] if noise else None
    return Rows(own, length, torch.ones(len(own), 2, dtype=own.dtype), torch.arange(len(own)), None, drawn)
