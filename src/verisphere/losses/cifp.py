"""CIFP, consistent instance false positive rate (Xu et al. 2021, arXiv:2106.05519), the fairness baseline of OneFace.

One threshold over the batch lets a stated share of all cosines to other classes pass: the overall FPR. The instance FPR
of a row is the share of the row's cosines to other classes that pass. A higher instance FPR gives a larger penalty on
the row's loss, which evens out the instance FPR over rows, and so over groups of people. In the paper the penalty is
added to every other cosine in the softmax's denominator; here it is subtracted from the own cosine, which is
equivalent.

The released code (Tencent/TFace) penalises by the mean square of the passing cosines in place of the paper's ratio, and
sets the threshold by another rule, `allowed_released`. Both are options here. Its gradient is not: there the penalty's
factor 1 + own cosine and its passing cosines carry gradient into the embedding, and a passing cosine below the own
cosine less the margin carries gradient into its center too; here the penalty is a constant.
"""

from fractions import Fraction
from math import ceil, isfinite
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from verisphere.base.vocabulary import check_word
from verisphere.decide import Far, accepted_impostors, exact_rate
from verisphere.losses.class_loss import Rows
from verisphere.losses.margin import CombinedMargin

Penalty = Literal["counted", "squared"]
ThresholdRule = Literal["overall", "released"]


def passing(
    nearest: Float[Tensor, "batch nearest"], own: Float[Tensor, "batch"], allowed: int
) -> tuple[Float[Tensor, "batch nearest"], Float[Tensor, ""]]:
    """Compare each other-class cosine with the batch's threshold; returns 1 where it passes, else 0, and the threshold.

    A class nearer than the own class is excluded, as in the released code, since such a row may have a wrong label. The
    threshold is the (`allowed` + 1)-th largest of the remaining cosines of the whole batch; cosines above it pass, by
    the rule of `verisphere.decide.threshold_at`.
    """
    included = nearest <= own[:, None]
    ranked = torch.where(included, nearest, -torch.inf).flatten().sort(descending=True).values
    threshold = ranked[allowed] if allowed < len(ranked) else nearest.new_tensor(-torch.inf)
    return (included & (nearest > threshold)).to(nearest), threshold


def allowed_released(
    nearest: Float[Tensor, "batch nearest"], own: Float[Tensor, "batch"], far: Far | None, classes: int
) -> int:
    """The number of cosines that pass the released code's threshold.

    The code applies the overall FPR to the included cosines only, without the classes nearer than a row's own, rounds
    the count up, and places the threshold on the last of these cosines. That cosine itself does not pass, so the number
    is the count less 1.

    Args:
        nearest: cosines of the nearest other classes; a nearer class beyond them is not known to be excluded.
        far: the overall FPR, a decimal; None is 1 / (classes - 1).
    """
    included = len(own) * (classes - 1) - int((nearest > own[:, None]).sum())
    rate = Fraction(1, max(classes - 1, 1)) if far is None else exact_rate(far)
    return max(ceil(rate * included) - 1, 0)


def counted_penalty(passed: Float[Tensor, "batch nearest"], allowed: int) -> Float[Tensor, "batch"]:
    """Instance FPR over overall FPR: the row's passing cosines over the batch's allowed ones, times the batch size.

    The number of other classes divides both rates and cancels. The result is 0 if none may pass.
    """
    return passed.sum(1) * (len(passed) / allowed if allowed else 0.0)


def squared_penalty(
    passed: Float[Tensor, "batch nearest"], nearest: Float[Tensor, "batch nearest"], own: Float[Tensor, "batch"]
) -> Float[Tensor, "batch"]:
    """(1 + own cosine) * mean square of the row's passing cosines, or 0 without any: the released code's penalty."""
    return (1.0 + own) * torch.where(passed > 0, nearest.square(), 0.0).sum(1) / passed.sum(1).clamp(min=1.0)


class CIFP(CombinedMargin):
    """CosFace with a penalty on each row by its instance false positive rate.

    The own logit is scale * (cosine - margin - alpha * penalty). The penalty is a constant without gradient. It uses
    the `nearest` other classes of a row only: a row with as many classes nearer than its own gets no penalty, and
    further passing classes are not counted. With threshold="released", penalty="squared" and a `nearest` that reaches
    every nearer class, the value is the released code's; the module says how its gradient differs. The batch is the
    global batch of the head. `set_strength` scales margin and penalty.

    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> CIFP().forward(cosines, labels)
    tensor(18.2400)

    Args:
        margin: subtracted from the own cosine, >= 0.
        scale: factor from cosine to logit.
        far: the overall FPR, a decimal; None is 1 / (N - 1), as in the released code: as many cosines may pass as the
            batch has rows.
        alpha: factor on the penalty; 1 in the released code for its "squared" form. We do not know the paper's value
            for the "counted" form.
        penalty: "squared" (`squared_penalty`, the released code), or "counted" (`counted_penalty`, the paper's text).
        nearest: number of other classes of a row that the penalty uses; the released code uses all.
        threshold: "overall": the share `far` of all cosines to other classes may pass; "released": the released code's
            rule, by which fewer pass, see `allowed_released`.

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
        threshold: ThresholdRule = "overall",
    ) -> None:
        super().__init__(m1=1.0, m2=0.0, m3=margin, scale=scale)
        if not (isfinite(alpha) and alpha >= 0):
            raise ValueError(f"alpha is {alpha}; it must be a finite number >= 0 (0 is CosFace)")
        check_word("penalty", penalty, Penalty)
        check_word("threshold", threshold, ThresholdRule)
        if nearest < 1:
            raise ValueError(f"nearest is {nearest}; the penalty uses at least 1 other class")
        if far is not None:
            accepted_impostors(far, 1)  # raises if `far` is no rate
        self.far, self.alpha, self.penalty, self.nearest = far, alpha, penalty, nearest
        self.threshold = threshold

    @property
    def of_batch(self) -> bool:
        """True: the threshold is that of all rows."""
        return True

    def context(self, rows: Rows) -> tuple[Float[Tensor, "..."], ...]:
        """The penalty of each row, times alpha and strength.

        Raises:
            ValueError: `rows.nearest` is None.
        """
        if rows.nearest is None:
            raise ValueError(f"rows.nearest is None; a head for CIFP must fill it with {self.nearest} cosines a row")
        own, batch = rows.own.detach(), len(rows.own)
        classes = self.classes or 1
        if self.threshold == "released":
            allowed = allowed_released(rows.nearest, own, self.far, classes)
        else:
            allowed = batch if self.far is None else accepted_impostors(self.far, batch * (classes - 1))
        passed, _ = passing(rows.nearest, own, allowed)
        if self.penalty == "squared":
            penalty = squared_penalty(passed, rows.nearest, own)
        else:
            penalty = counted_penalty(passed, allowed)
        return (self.alpha * self.strength * penalty,)

    def own(self, cosine: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """scale * (cosine - margin - penalty)."""
        return self.scale * (self.margined(cosine) - context[0])
