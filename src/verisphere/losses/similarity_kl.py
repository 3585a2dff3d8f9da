"""Distillation of class similarities: the KL divergence between a teacher's softmax over the classes and the student's.

ArcFace (arXiv:1801.07698, section 4.4) trains a light network by ArcFace + 1.0 * L2 + 0.1 * KL, the KL being "between
class-wise similarities". The paper writes neither its direction nor the scale of the similarities. Here it is the
direction of Hinton et al. (2015, arXiv:1503.02531), KL(teacher || student), and both sides have one scale.

For a row with the student's logits z_j = s * cos(x, w_j) and the teacher's t_j = s * cos(x', w'_j), over all classes j:

    p_j = exp(t_j - log sum_k exp t_k)
    KL  = log sum_k exp z_k + sum_j p_j (log p_j - z_j)

The first summand is a softmax over the student's classes. The second is a sum with a factor for each row and class, for
which an engine computes the teacher's cosines chunk by chunk. So there are three passes forward, none of which holds a
number for each row and class: the teacher's normaliser, and the two summands.
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from verisphere.losses.class_loss import ClassLoss, Rows

__all__ = ["SimilarityKL"]


class TeacherNormaliser(ClassLoss):
    """The log of the sum over all classes of exp(scale * the teacher's cosine); a head runs it without gradient."""

    teacher = True

    def others(
        self, cosine: Float[Tensor, "batch classes"], *context: Float[Tensor, "batch _"]
    ) -> Float[Tensor, "batch classes"]:
        """The teacher's logits."""
        return self.scale * context[-1] + 0.0 * cosine

    def bound(self) -> float | None:
        """The logit of the cosine 1."""
        return self.scale


class _StudentNormaliser(ClassLoss):
    """log sum_k exp z_k over all classes."""

    def finish(
        self, own: Float[Tensor, "batch"], rest: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]
    ) -> Float[Tensor, "batch"]:
        return own + F.softplus(rest - own)

    def bound(self) -> float | None:
        """The logit of the cosine 1."""
        return self.scale


class _TeacherMean(ClassLoss):
    """sum_j p_j (log p_j - z_j) over all classes."""

    reduce = "sum"
    teacher = True

    def context(self, rows: Rows) -> tuple[Float[Tensor, "..."], ...]:
        assert rows.teacher is not None, "a head computes it"
        return (rows.teacher,)

    def own(self, cosine: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """Zero: the own class is summed with the others."""
        return 0.0 * cosine

    def others(
        self, cosine: Float[Tensor, "batch classes"], *context: Float[Tensor, "batch _"]
    ) -> Float[Tensor, "batch classes"]:
        """p_j (log p_j - z_j), from the normaliser and the teacher's cosines."""
        normaliser, teacher = context
        log_share = self.scale * teacher - normaliser
        return log_share.exp() * (log_share - self.scale * cosine)

    def finish(
        self, own: Float[Tensor, "batch"], rest: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]
    ) -> Float[Tensor, "batch"]:
        return rest


class SimilarityKL(ClassLoss):
    """KL(teacher || student) between the softmaxes over all classes of `scale` times the cosines; see this module.

    It is added to a margin loss by `WeightedSum([ArcFace(), SimilarityKL()], [1.0, 0.1])`, in a head whose teacher was
    set by `head.set_teacher(centers)` and which is called with `teacher=` the teacher's embeddings of the batch. The
    two networks may have embeddings of different sizes. The engine `Sampled` compares over the classes drawn.

    >>> import torch
    >>> from verisphere.head import Head
    >>> head = Head(SimilarityKL(scale=4.0), classes=3, size=2)
    >>> head.set_teacher(head.centers[:, 0])
    >>> rows = torch.randn(5, 2)
    >>> bool(head(rows, torch.tensor([0, 1, 2, 0, 1]), teacher=rows).loss.abs() < 1e-6)  # a student like its teacher
    True

    Args:
        scale: factor from cosine to logit of both networks: 1 / temperature. The paper does not write one; 64 is that
            of its ArcFace.

    Raises:
        ValueError: `scale` is not a positive finite number.
    """

    def __init__(self, scale: float = 64.0) -> None:
        super().__init__(scale)
        self._terms = _StudentNormaliser(scale), _TeacherMean(scale)

    @property
    def terms(self) -> tuple[tuple[float, ClassLoss], ...]:
        """The two summands."""
        return tuple((1.0, term) for term in self._terms)

    def prepare(self, classes: int) -> None:
        """Prepare both summands."""
        super().prepare(classes)
        for term in self._terms:
            term.prepare(classes)
