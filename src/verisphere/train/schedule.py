"""Learning rate and margin over a training, as pure functions of the position; and the progress that a plateau ends."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import inf, isfinite
from typing import Any, Literal

from verisphere.files.json_values import shown

Unit = Literal["epochs", "steps"]


@dataclass(frozen=True)
class Schedule:
    """How learning rate and margin change; positions are in the recipe's `unit`.

    Attributes:
        shape: `polynomial` falls as (1 - progress) ** power, `step` is multiplied by `factor` at each milestone,
            `plateau` is multiplied by `factor` when validation stops improving, `constant` stays.
        power: exponent of the polynomial.
        milestones: positions at which `step` falls (ArcFace on CASIA: epochs 20 and 28 of 32).
        factor: factor of each fall of `step` and `plateau`.
        warmup: length over which the learning rate rises linearly from 0.
        margin_warmup: length over which the loss's margin rises linearly from 0.
        patience: number of validations in a row without a new highest figure after which `plateau` falls; they are
            counted anew after each fall.
        lowest: share of the learning rate below which `plateau` does not fall.
        figure: validation figure that `plateau` follows, such as validation_tar_at_far_1e-3; null takes the one of the
            first `validation_far`.
    """

    shape: Literal["polynomial", "step", "plateau", "constant"] = "polynomial"
    power: float = 2.0
    milestones: tuple[float, ...] = ()
    factor: float = 0.1
    warmup: float = 0.0
    margin_warmup: float = 0.0
    patience: int = 3
    lowest: float = 0.0
    figure: str | None = None

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
        if not 0 <= self.lowest <= 1:
            raise ValueError(f"schedule.lowest must lie in [0, 1], got {self.lowest}")
        if self.lowest and self.shape != "plateau":
            raise ValueError(f"schedule.lowest {self.lowest} is for shape plateau, not {self.shape}")
        if self.patience < 1:
            raise ValueError(f"schedule.patience must be at least 1 validation, got {self.patience}")
        if self.figure is not None and self.shape != "plateau":
            raise ValueError(f"schedule.figure {self.figure!r} is for shape plateau, not {self.shape}")

    def rate(self, epoch: float, epochs: float, falls: int = 0) -> float:
        """Share of the base learning rate at a position.

        The polynomial runs from the end of the warm-up to the end of training.

        Args:
            epoch: the position; the schedule's own positions are in epochs too, see `in_epochs`.
            falls: how often a plateau was reached before.

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
        if self.shape == "plateau":
            return max(self.factor**falls, self.lowest)
        if self.shape == "polynomial":
            remaining = max(epochs - epoch, 0.0) / max(epochs - self.warmup, 1e-12)
            return min(remaining, 1.0) ** self.power
        return 1.0

    def margin(self, epoch: float) -> float:
        """Share of the loss's margin at a position."""
        return min(epoch / self.margin_warmup, 1.0) if self.margin_warmup else 1.0

    def in_epochs(self, unit: Unit, steps_per_epoch: int) -> "Schedule":
        """The schedule with its positions in epochs, from positions in `unit`.

        >>> Schedule(shape="step", milestones=(300.0,)).in_epochs("steps", steps_per_epoch=100).milestones
        (3.0,)
        """
        if unit == "epochs":
            return self
        return replace(
            self,
            milestones=tuple(place / steps_per_epoch for place in self.milestones),
            warmup=self.warmup / steps_per_epoch,
            margin_warmup=self.margin_warmup / steps_per_epoch,
        )

    def check_whole_steps(self) -> None:
        """Refuse positions that are no whole numbers, in a recipe whose unit is steps."""
        places = {f"schedule.milestones, place {number}": place for number, place in enumerate(self.milestones, 1)}
        check_whole_steps({**places, "schedule.warmup": self.warmup, "schedule.margin_warmup": self.margin_warmup})


def check_whole_steps(positions: Mapping[str, float]) -> None:
    """Refuse positions in steps that are no whole numbers."""
    for name, value in positions.items():
        if value != int(value):
            raise ValueError(f"{name} is {value:g}, but unit is steps: it must be a whole number")


@dataclass
class Plateau:
    """How far a validation figure has come; the state of a schedule of shape `plateau`, which checkpoints contain.

    Attributes:
        best: highest figure so far; None before the first validation.
        waited: number of validations since then, or since the last fall.
    """

    best: float | None = None
    waited: int = 0
    falls: int = 0
    step: int = 0

    def see(self, step: int, value: float, patience: int) -> bool:
        """Take the figure of a validation; returns whether the rate falls."""
        self.step = step
        if value > (-inf if self.best is None else self.best):
            self.best, self.waited = value, 0
            return False
        self.waited += 1
        if self.waited < patience:
            return False
        self.waited, self.falls = 0, self.falls + 1
        return True

    def state(self) -> dict[str, Any]:
        """The attributes as JSON values."""
        return asdict(self)

    @classmethod
    def of_state(cls, state: object, where: str) -> "Plateau":
        """The plateau of a checkpoint's state."""
        if isinstance(state, dict) and state.keys() == asdict(cls()).keys():
            counts = [state[name] for name in ("waited", "falls", "step")]
            best = state["best"]
            if all(type(count) is int and count >= 0 for count in counts) and isinstance(best, float | int | None):
                return cls(**state)
        raise ValueError(f"{where}: plateau is {shown(state)}; it has best, waited, falls and step")
