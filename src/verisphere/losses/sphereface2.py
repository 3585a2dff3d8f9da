"""SphereFace2: a binary classification for each class, with one shared bias (Wen et al. 2022, arXiv:2108.01513).

Per sample, with similarities u of the own class and v_j of the others (eq. 5 and appendix F):
weight * (lambda / r * softplus(-(r * u + b)) + (1 - lambda) / r * sum over j of softplus(r * v_j + b)).
"""

from math import exp, hypot, inf, isfinite, log, pi
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from verisphere.base.vocabulary import check_word
from verisphere.losses.adjust import adjusted, checked_adjustment
from verisphere.losses.class_loss import ClassLoss, Rows
from verisphere.losses.margin import detached_gradient
from verisphere.score.cosine import angle

Kind = Literal["C", "A", "M"]
Gradient = Literal["paper", "released"]
TableRow = Literal["naive", "PN", "EH", "AM", "SA"]

#: The paper's margin of each kind (section 3.1 for C, appendix F for A and M).
MARGINS: dict[str, float] = {"C": 0.4, "A": 0.5, "M": 1.7}


def own_similarity(
    cosine: Float[Tensor, "batch"], kind: Kind, margin: float, t: float, gradient: Gradient = "paper"
) -> Float[Tensor, "batch"]:
    """The own class's similarity u, margin included: eq. 5 for kind C, appendix F for A and M.

    C: g(cosine) - margin. A: g(cos(min(pi, theta + margin))). M: g(cos(min(pi, margin * theta))). g is `adjusted`.
    A and M detach the characteristic gradient: the value has the margin, the slope is that of g(cosine).

    Args:
        margin: subtracted from the similarity (C), radians (A) or a factor on the angle (M); 0, 0 and 1 are no margin.
        t: exponent of the similarity adjustment; 1 is the cosine itself.
        gradient: "paper", or "released": slope 1 in the cosine, as in the authors' code for every kind.

    >>> own_similarity(torch.tensor([0.5]), "C", margin=0.4, t=3.0)  # 2 * 0.75**3 - 1 - 0.4
    tensor([-0.5562])
    """
    plain = adjusted(cosine, t)
    if kind == "C":
        value = plain - margin
    else:
        theta = angle(cosine.detach())
        theta = theta + margin if kind == "A" else theta * margin
        value = adjusted(theta.clamp(max=pi).cos(), t)
    if gradient == "released":
        return detached_gradient(value, cosine)
    return value if kind == "C" else detached_gradient(value, plain)


def other_similarity(
    cosine: Float[Tensor, "batch classes"], t: float, gradient: Gradient = "paper"
) -> Float[Tensor, "batch classes"]:
    """The other classes' similarities v before their margin: g(cosine), or its value with slope 1 ("released")."""
    value = adjusted(cosine, t)
    return detached_gradient(value, cosine) if gradient == "released" else value


def bias_start(own_logit: float, other_logit: float, ratio: float) -> float:
    """The bias b at which dL/db = 0 when every cosine is 0; appendix G, eq. 9 and 10.

    b is the root of ratio * sigmoid(-(own_logit + b)) = sigmoid(other_logit + b), which is quadratic in exp(b). There
    is one form for each sign of 1 - ratio, which avoids cancellation: the appendix gives the form for ratio <= 1.

    Args:
        own_logit: r * u at cosine 0, without bias (a_y).
        other_logit: r * (v + margin) at cosine 0, without bias (a_j).
        ratio: total weight of the positives over that of the negatives, lambda / ((1 - lambda) * (N - 1)) (z), > 0.

    >>> bias_start(0.0, 0.0, 1.0)  # balanced already
    0.0
    """
    gap = own_logit - other_logit
    root = hypot(1.0 - ratio, 2.0 * ratio**0.5 * exp(gap / 2.0))
    if ratio <= 1.0:
        return log(2.0 * ratio) - other_logit - log(1.0 - ratio + root)
    return log(ratio - 1.0 + root) - log(2.0) - own_logit


class SphereFace2(ClassLoss):
    """SphereFace2-C, -A or -M (eq. 5, appendix F), and eq. 3 with `negative_margin` and `bias=False`.

    Classes do not compete: rows labelled -1 are negatives for all of them. The loss is a sum over the classes and
    `finish` is affine in it, with slope `slope()`, so one pass over the centers is enough.

    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> round(SphereFace2().forward(cosines, labels).item(), 4)
    0.3327

    Args:
        kind: "C" (subtracted from the similarity), "A" (added to the angle) or "M" (multiplies the angle).
        margin: margin on the own class, m_p in eq. 3; None is the paper's value, 0.4 (C), 0.5 radians (A) or 1.7 (M).
        scale: r, 30 to 40 in the paper; a larger scale gives more weight to hard terms.
        balance: lambda, the weight of the positive term, in (0, 1); "balanced" is (N - 1) / N.
        t: exponent of the similarity adjustment, > 0; 1 is no adjustment. Below 1 the slope is clamped near cosine -1,
            see `verisphere.losses.adjust.adjusted`.
        loss_weight: factor on the whole loss; 50 in the released code, for gradients of the size of a softmax loss's.
        negative_margin: added to the others' similarities (m_n in eq. 3); None is `margin` for C and 0 for A and M.
        bias: whether the loss has a learned bias b, shared by all classes. Its initial value makes dL/db = 0 at cosine
            0 with the whole margin.
        gradient: "paper", or "released": every logit has slope 1 in the plain cosine, see `own_similarity`.

    `set_strength` scales both margins; it moves a factor (M) from 1 to the margin.

    Raises:
        ValueError: a number outside its range, or (from `prepare`) fewer than 2 classes.
    """

    reduce = "sum"
    linear = True

    def __init__(
        self,
        kind: Kind = "C",
        margin: float | None = None,
        scale: float = 30.0,
        balance: float | Literal["balanced"] = 0.7,
        t: float = 3.0,
        loss_weight: float = 1.0,
        negative_margin: float | None = None,
        bias: bool = True,
        gradient: Gradient = "paper",
    ) -> None:
        super().__init__(scale)
        check_word("kind", kind, Kind)
        check_word("gradient", gradient, Gradient)
        margin = MARGINS[kind] if margin is None else margin
        lowest, limit, meaning = {
            "C": (0.0, inf, "a number >= 0 (0 is no margin)"),
            "A": (0.0, pi, "in [0, pi) radians: is it in degrees?"),
            "M": (1.0, inf, "a factor >= 1 (1 is no margin)"),
        }[kind]
        if not lowest <= margin < limit:
            raise ValueError(f"margin is {margin} with kind {kind!r}; it must be {meaning}")
        if negative_margin is None:
            negative_margin = margin if kind == "C" else 0.0
        if not (isfinite(negative_margin) and negative_margin >= 0):
            raise ValueError(f"negative_margin is {negative_margin}; it must be a number >= 0 (0 is no margin)")
        if balance != "balanced" and not (isinstance(balance, int | float) and 0 < balance < 1):
            raise ValueError(f'balance is {balance!r}; it must be between 0 and 1, or "balanced": (N - 1) / N')
        if not (isfinite(loss_weight) and loss_weight > 0):
            raise ValueError(f"loss_weight is {loss_weight}; it must be a positive finite number (50 in the release)")
        self.kind, self.margin, self.negative_margin, self.gradient = kind, margin, negative_margin, gradient
        self.t, self.loss_weight = checked_adjustment(t), loss_weight
        self.balance = balance
        self.bias = nn.Parameter(torch.zeros(())) if bias else None

    def prepare(self, classes: int) -> None:
        """Set the number of classes, and the bias to its initial value (appendix G)."""
        if classes < 2:
            raise ValueError(
                f"classes is {classes}; SphereFace2 compares one class with the others and needs at least 2"
            )
        super().prepare(classes)
        if self.bias is not None:
            at_zero = torch.zeros(1, dtype=torch.float64)
            own = own_similarity(at_zero, self.kind, self.margin, self.t).item()
            other = adjusted(at_zero, self.t).item() + self.negative_margin
            with torch.no_grad():
                self.bias.fill_(bias_start(self.scale * own, self.scale * other, self._ratio(classes)))

    def _ratio(self, classes: int) -> float:
        """The weight of the positive term over that of all negative terms; exactly 1 for a balance of "balanced"."""
        if self.balance == "balanced":
            return 1.0
        return self.balance / ((1.0 - self.balance) * (classes - 1))

    def shares(self) -> tuple[float, float]:
        """(lambda, 1 - lambda).

        Raises:
            ValueError: the balance is "balanced" and the number of classes is not known yet.
        """
        if self.balance != "balanced":
            return self.balance, 1.0 - self.balance
        if not self.classes:
            raise ValueError('balance is "balanced", which needs the number of classes: call prepare(classes) first')
        return (self.classes - 1) / self.classes, 1 / self.classes

    def slope(self) -> float:
        """d finish / d rest, a constant: (1 - lambda) * loss_weight / r."""
        return self.shares()[1] * self.loss_weight / self.scale

    def _negative_shift(self) -> float:
        """r times the margin of the other classes, at the current strength."""
        return self.scale * self.strength * self.negative_margin

    def context(self, rows: Rows) -> tuple[Float[Tensor, "..."], ...]:
        """The bias plus r times the margin of the other classes, which is added to every r * v."""
        shift = self._negative_shift()
        if self.bias is None:
            return (torch.full((), shift, dtype=rows.own.dtype, device=rows.own.device),)
        return (self.bias + shift,)

    def own(self, cosine: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """softplus(-(r * u + b))."""
        (shift,) = context
        no_margin = 1.0 if self.kind == "M" else 0.0
        margin = no_margin + self.strength * (self.margin - no_margin)
        similarity = own_similarity(cosine, self.kind, margin, self.t, self.gradient)
        # Each context item costs an engine time, so one item has the bias for both sides; here the others' margin is
        # subtracted again.
        return F.softplus(-(self.scale * similarity + (shift - self._negative_shift())))

    def others(
        self, cosine: Float[Tensor, "batch classes"], *context: Float[Tensor, "batch 1"]
    ) -> Float[Tensor, "batch classes"]:
        """softplus(r * (v + negative margin) + b)."""
        (shift,) = context
        return F.softplus(self.scale * other_similarity(cosine, self.t, self.gradient) + shift)

    def argument(self, name: str) -> object:
        """The value that the caller gave under this name."""
        return self.bias is not None if name == "bias" else super().argument(name)

    def finish(
        self, own: Float[Tensor, "batch"], rest: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]
    ) -> Float[Tensor, "batch"]:
        """loss_weight * (lambda * own + (1 - lambda) * rest) / r; affine in `rest`, see `slope`."""
        return self.shares()[0] * self.loss_weight / self.scale * own + self.slope() * rest


def table_2(row: TableRow) -> SphereFace2:
    """The loss in a row of the paper's ablation (table 2): each row adds one principle to the row above.

    "naive" is eq. 1 literally (lambda = 1/2 at weight 2 is a plain sum), which according to the paper does not
    converge; our copy of the text does not show which setting was changed for the first row. "PN" balances positives
    and negatives, "EH" adds the scale, "AM" margin and bias, "SA" the similarity adjustment. lambda is that of table 4
    for "AM" (the row with the same figures) and "SA"; the text gives none for "PN" and "EH", for which we use
    (N - 1) / N, the value suggested beside eq. 2.
    """
    rows = {
        "naive": lambda: SphereFace2("C", 0.0, scale=1.0, balance=0.5, t=1.0, bias=False, loss_weight=2.0),
        "PN": lambda: SphereFace2("C", 0.0, scale=1.0, balance="balanced", t=1.0, bias=False),
        "EH": lambda: SphereFace2("C", 0.0, scale=30.0, balance="balanced", t=1.0, bias=False),
        "AM": lambda: SphereFace2("C", 0.4, scale=30.0, balance=0.8, t=1.0),
        "SA": lambda: SphereFace2("C", 0.4, scale=30.0, balance=0.7, t=3.0),
    }
    if row not in rows:
        raise ValueError(f"row is {row!r}; allowed are {', '.join(rows)}")
    return rows[row]()
