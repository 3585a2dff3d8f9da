"""Plain softmax: cross entropy over a linear layer with a bias for each class; the baseline of every paper here.

Neither embeddings nor centers are normalised: the logit of class j is <w_j, x> + b_j, also for the own class.
"""

from verisphere.losses.class_loss import ClassLoss


class Softmax(ClassLoss):
    """Cross entropy over raw products of embeddings and centers, without a margin or a scale.

    It equals `torch.nn.functional.cross_entropy` over a linear layer. The bias is the last column of the head's
    centers. With sub-centers each sub-center has its own bias, and the largest logit counts. The logits of an embedding
    of length 0 are the biases. `set_strength` has no effect: there is no margin.

    >>> import torch
    >>> logits, labels = torch.tensor([[2.0, 1.0]]), torch.tensor([0])
    >>> Softmax().forward(logits, labels)
    tensor(0.3133)

    Args:
        bias: whether each class has a bias; with centers of zero mean and balanced classes it hardly matters.
    """

    similarity = "product"

    def __init__(self, bias: bool = True) -> None:
        super().__init__(scale=1.0)
        self.class_bias = bias

    def argument(self, name: str) -> object:
        """The value that the caller gave under this name."""
        return self.class_bias if name == "bias" else super().argument(name)
