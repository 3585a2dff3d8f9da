"""Learning rate and margin over a training, as pure functions of the position in epochs."""

from dataclasses import dataclass
from math import inf, isfinite
from typing import Literal


@dataclass(frozen=True)
class Schedule:
    """How learning rate and margin change; every position is in epochs, and may be a fraction of one.

    Attributes:
        shape: `polynomial` falls as (1 - progress) ** power, `step` is multiplied by `factor` at each milestone,
            `constant` stays.
        power: exponent of the polynomial.
        milestones: positions at which `step` falls (ArcFace on CASIA: 20 and 28 of 32).
        factor: factor of each fall of `step`.
        warmup: length over which the learning rate rises linearly from 0.
        margin_warmup: length over which the loss's margin rises linearly from 0.
    """

    shape: Literal["polynomial", "step", "constant"] = "polynomial"
    power: float = 2.0
    milestones: tuple[float, ...] = ()
    factor: float = 0.1
    warmup: float = 0.0
    margin_warmup: float = 0.0

    def __post_init__(self) -> None:
        for name in ("power", "warmup", "margin_warmup"):
            if not (isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise ValueError(f"schedule.{name} must be a number and not negative, got {getattr(self, name)}")
        if not 0 < self.factor <= 1:
            raise ValueError(f"schedule.factor must lie in (0, 1], got {self.factor}")
        possible = all(0 < place < inf for place in self.milestones)
        if not possible or list(self.milestones) != sorted(set(self.milestones)):
            raise ValueError(f"schedule.milestones must be positive and ascending, got {list(self.milestones)}")
        if self.shape == "step" and not self.milestones:
            raise ValueError("schedule.shape is step but schedule.milestones is empty: the rate would never fall")

    def rate(self, epoch: float, epochs: float) -> float:
        """Share of the base learning rate at a position.

        The polynomial runs from the end of the warm-up to the end of training.

        >>> Schedule(power=1.0, warmup=1.0).rate(epoch=0.5, epochs=5.0)
        0.5
        >>> Schedule(power=1.0, warmup=1.0).rate(epoch=3.0, epochs=5.0)
        0.5
        >>> Schedule(shape="step", milestones=(20.0, 28.0)).rate(epoch=21.0, epochs=32.0)
        0.1
        """
        if epoch < self.warmup:
            return epoch / self.warmup
        if self.shape == "step":
            return self.factor ** sum(epoch >= place for place in self.milestones)
        if self.shape == "polynomial":
            remaining = max(epochs - epoch, 0.0) / max(epochs - self.warmup, 1e-12)
            return min(remaining, 1.0) ** self.power
        return 1.0

    def margin(self, epoch: float) -> float:
        """Share of the loss's margin at a position."""
        return min(epoch / self.margin_warmup, 1.0) if self.margin_warmup else 1.0
