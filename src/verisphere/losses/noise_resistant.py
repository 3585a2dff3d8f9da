"""NR, the noise-resistant loss: part of the label is the class that the model predicts (Zhong et al. 2019, CVPR).

With p the softmax of the margined logits, y the given label and q the class of the largest margined logit, a row's loss
is -beta log p_y - (1 - beta) log p_q, as in the released code (zhongyy, Unequal-Training, where it is called NRA). This
is hard bootstrapping (Reed et al. 2015) on ArcFace. Since only the given label's logit has the margin, q differs from y
wherever a row does not clear its margin.

With z the logits, log p_y - log p_q = z_y - z_q, so the loss is -log p_y - (1 - beta) max(z_q - z_y, 0): the cross
entropy, less a share of the lead that the best other class has. In this form no engine needs to know which class leads.
The authors first train ArcFace alone, draw the class centers anew, and continue with this loss. They also exclude rows
whose largest probability stays below 0.007, a number that depends on their number of classes; `losses` has no such
filter.
"""

from math import isfinite

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from verisphere.losses.class_loss import ClassLoss
from verisphere.losses.margin import Beyond, CombinedMargin, Gradient

__all__ = ["NoiseResistant"]

#: Factor on the cosines whose log-sum-exp stands for their maximum: a class nearer than all others by 4e-4 has the
#: whole gradient to 1e-17, and the value lies above the maximum by at most 1e-5 * log(classes), as a cosine.
SHARPNESS = 1e5


class LeadOfOthers(CombinedMargin):
    """Minus the lead of the best other class over the own class: -max(z_q - z_y, 0), z_y with its margin.

    The maximum over the other classes is a log-sum-exp of `SHARPNESS` times their cosines, so that its gradient reaches
    the leading class's center. Classes within about 1e-5 of the largest cosine share it.

    >>> import torch
    >>> loss = LeadOfOthers(m2=0.0, m3=0.1, scale=2.0)
    >>> loss.forward(torch.tensor([[0.5, 0.6, 0.1]]), torch.tensor([0]))  # 2 * (0.6 - 0.4)
    tensor(-0.4000)
    """

    exact_products = True

    def others(
        self, cosine: Float[Tensor, "batch classes"], *context: Float[Tensor, "batch 1"]
    ) -> Float[Tensor, "batch classes"]:
        """`SHARPNESS` * cosine."""
        return SHARPNESS * cosine

    def finish(
        self, own: Float[Tensor, "batch"], rest: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]
    ) -> Float[Tensor, "batch"]:
        """-max(scale * largest other cosine - own, 0)."""
        return -F.relu(self.scale / SHARPNESS * rest - own)

    def bound(self) -> float | None:
        """The largest value at cosine 1."""
        return SHARPNESS


class NoiseResistant(CombinedMargin):
    """beta * cross entropy of the given label + (1 - beta) * cross entropy of the predicted class, on margined logits.

    Its terms are the margin loss and `LeadOfOthers`, so each batch costs two passes over the other classes.

    >>> import torch
    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> NoiseResistant().forward(cosines, labels)  # ArcFace has 17.6898, nearly all of it the lead
    tensor(15.9208)

    Args:
        m1: factor on the angle, > 0.
        m2: added to the angle, radians, 0 <= m2 < pi.
        m3: subtracted from the cosine, >= 0.
        scale: factor from cosine to logit.
        beta: share of the given label, in [0, 1]; 0.9 in the authors' commands, 1 is the margin loss alone.
        gradient: gradient of the own logit, see `CombinedMargin`.
        beyond: the rule for the own logit past theta + margin = pi, see `combined_margin`.

    `set_strength` scales the margins.

    Raises:
        ValueError: a number outside its range or an unknown name.
    """

    def __init__(
        self,
        m1: float = 1.0,
        m2: float = 0.5,
        m3: float = 0.0,
        scale: float = 64.0,
        beta: float = 0.9,
        gradient: Gradient = "exact",
        beyond: Beyond = "monotone",
    ) -> None:
        super().__init__(m1, m2, m3, scale, gradient, beyond)
        if not (isfinite(beta) and 0 <= beta <= 1):
            raise ValueError(f"beta is {beta}; the share of the given label must be in [0, 1] (0.9 is usual)")
        self.beta = beta
        margin = (m1, m2, m3, scale, gradient, beyond)
        # in a tuple, since they have no separate parameters or state
        self._parts = CombinedMargin(*margin), LeadOfOthers(*margin)

    @property
    def terms(self) -> tuple[tuple[float, ClassLoss], ...]:
        """The margin loss, and the lead of the other classes with weight 1 - beta."""
        return tuple(zip((1.0, 1.0 - self.beta), self._parts, strict=True))

    def set_strength(self, share: float) -> None:
        """Set the share of the margins in both terms."""
        super().set_strength(share)
        for part in self._parts:
            part.set_strength(share)

    def prepare(self, classes: int) -> None:
        """Prepare both terms."""
        super().prepare(classes)
        for part in self._parts:
            part.prepare(classes)
