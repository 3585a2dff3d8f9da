"""Plain softmax: a linear layer with a bias a class, under a cross entropy; the baseline of every paper here.

Nothing is of unit length: the logit of class j is <w_j, x> + b_j, for the own class and the others alike.
"""

from verisphere.losses.class_loss import ClassLoss


class Softmax(ClassLoss):
    """Cross entropy over raw products of embeddings and centers, without a margin or a scale.

    It equals `torch.nn.functional.cross_entropy` over a linear layer. The bias is the last column of the head's
    centers. With sub-centers each has a bias of its own, and the largest logit counts. An embedding of length 0 has the
    biases for logits. `set_strength` has no margin to change.

    Args:
        bias: whether a class has a bias; centers of zero mean and a balanced set hardly need one.
    """

    similarity = "product"

    def __init__(self, bias: bool = True) -> None:
        super().__init__(scale=1.0)
        self.class_bias = bias

    def extra_repr(self) -> str:
        """What `print(loss)` shows."""
        return f"bias={self.class_bias}"
