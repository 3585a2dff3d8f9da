"""CIFP, consistent instance false positive rate (Xu et al. 2021, arXiv:2106.05519), the fairness baseline of OneFace.

Over the batch, one threshold passes a stated share of all cosines to other classes: the overall FPR. A row's instance
FPR is the share of its own that pass. The higher it is, the larger a penalty on the row's loss, so that rows, and with
them groups of people, become alike in it. The penalty goes into the softmax's denominator, added to every other cosine;
taken from the own cosine, as here, it is the same.
"""

from math import isfinite
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from verisphere.decide import Far, accepted_impostors
from verisphere.losses.class_loss import Rows
from verisphere.losses.margin import CombinedMargin

Penalty = Literal["counted", "squared"]


def passing(
    nearest: Float[Tensor, "batch nearest"], own: Float[Tensor, "batch"], allowed: int
) -> tuple[Float[Tensor, "batch nearest"], Float[Tensor, ""]]:
    """Which other-class cosines pass the batch's threshold (1 or 0), and that threshold.

    A class nearer than the own one is left out, as in the released code: the row is on the wrong side of it, which
    looks like a wrong label. Of the rest, over the whole batch, the threshold is the (`allowed` + 1)-th largest cosine
    and what is above it passes, the rule of `verisphere.decide.threshold_at`.
    """
    in_question = nearest <= own[:, None]
    ranked = torch.where(in_question, nearest, -torch.inf).flatten().sort(descending=True).values
    threshold = ranked[allowed] if allowed < len(ranked) else nearest.new_tensor(-torch.inf)
    return (in_question & (nearest > threshold)).to(nearest), threshold


def counted_penalty(passed: Float[Tensor, "batch nearest"], allowed: int) -> Float[Tensor, "batch"]:
    """Instance FPR over overall FPR: passed of the row over passed of the batch, times the batch size.

    Both have the number of other classes in the denominator, which cancels; 0 where none may pass.
    """
    return passed.sum(1) * (len(passed) / allowed if allowed else 0.0)


def squared_penalty(
    passed: Float[Tensor, "batch nearest"], nearest: Float[Tensor, "batch nearest"], own: Float[Tensor, "batch"]
) -> Float[Tensor, "batch"]:
    """(1 + own cosine) * the mean square of the cosines that pass, 0 where none does: the released code's penalty."""
    return (1.0 + own) * torch.where(passed > 0, nearest.square(), 0.0).sum(1) / passed.sum(1).clamp(min=1.0)


class CIFP(CombinedMargin):
    """CosFace whose rows are penalised by their instance false positive rate.

    Own logit scale * (cosine - margin - alpha * penalty). The penalty is a constant: it weighs a row and does not steer
    it (in the released code part of its gradient flows on). Only a row's `nearest` other classes are looked at: a row
    with as many in front of its own class gets no penalty, and more passing ones are not counted. The batch is the one
    that the head sees. `set_strength` scales margin and penalty.

    Args:
        margin: subtracted from the own cosine, >= 0.
        scale: factor from cosine to logit.
        far: the overall FPR, a decimal; None is one in N - 1, as in the released code: as many other classes may pass
            as the batch has rows.
        alpha: factor on the penalty. The released code has 1 for its "squared" form; the paper's for the "counted" form
            is not known to us.
        penalty: "squared" (`squared_penalty`, the released code), or "counted" (`counted_penalty`, the paper's words).
        nearest: how many other classes of a row are looked at.

    Raises:
        ValueError: a number outside its range, or an unknown penalty.
    """

    _m3_name = "margin"

    def __init__(
        self,
        margin: float = 0.35,
        scale: float = 64.0,
        far: Far | None = None,
        alpha: float = 1.0,
        penalty: Penalty = "squared",
        nearest: int = 64,
    ) -> None:
        super().__init__(m1=1.0, m2=0.0, m3=margin, scale=scale)
        if not (isfinite(alpha) and alpha >= 0):
            raise ValueError(f"alpha is {alpha}; it must be a finite number >= 0 (0 is CosFace)")
        if penalty not in get_args(Penalty):
            raise ValueError(f"penalty is {penalty!r}; allowed are {', '.join(get_args(Penalty))}")
        if nearest < 1:
            raise ValueError(f"nearest is {nearest}; at least 1 other class must be looked at")
        if far is not None:
            accepted_impostors(far, 1)  # refuses what is no rate
        self.far, self.alpha, self.penalty, self.nearest = far, alpha, penalty, nearest
        self.classes = 0

    def prepare(self, classes: int) -> None:
        """Learn how many other classes a row has."""
        self.classes = classes

    def context(self, rows: Rows) -> tuple[Float[Tensor, "..."], ...]:
        """What the own cosine loses to the penalty.

        Raises:
            ValueError: `rows` lack the nearest other classes.
        """
        if rows.nearest is None:
            raise ValueError(f"rows.nearest is None; a head for CIFP must fill it with {self.nearest} cosines a row")
        own, batch = rows.own.detach(), len(rows.own)
        allowed = batch if self.far is None else accepted_impostors(self.far, batch * (self.classes - 1))
        passed, _ = passing(rows.nearest, own, allowed)
        if self.penalty == "squared":
            penalty = squared_penalty(passed, rows.nearest, own)
        else:
            penalty = counted_penalty(passed, allowed)
        return (self.alpha * self.strength * penalty,)

    def own(self, cosine: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """scale * (cosine - margin - penalty)."""
        return self.scale * (self.margined(cosine) - context[0])

    def extra_repr(self) -> str:
        """What `print(loss)` shows."""
        far = "1/(N-1)" if self.far is None else self.far
        numbers = f"margin={self.m3:g}, scale={self.scale:g}, far={far}, alpha={self.alpha:g}"
        return f"{numbers}, penalty={self.penalty}, nearest={self.nearest}"
