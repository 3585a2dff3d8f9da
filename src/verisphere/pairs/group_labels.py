"""The self-grouping loss of GroupFace, which forms its groups (Kim et al. 2020, arXiv:2005.10497, section 3.3)."""

from math import isfinite

from verisphere.pairs.implicit_domains import self_made_labels, self_made_loss
from verisphere.pairs.pair_term import PairOutput, PairTerm, Step, Training


class GroupLabels(PairTerm):
    """Cross entropy between a backbone's group logits and self-distributed labels, see `self_made_labels`.

    The logits are those of the group decision network of `verisphere.backbones.GroupFace` in training. The expected
    probabilities of eq. 8 are the means over the global batch.

    Logged: group_loss, and the shares of the batch in the largest and the smallest group (group_largest_share,
    group_smallest_share).

    >>> import torch
    >>> from verisphere.pairs import GlobalBatch
    >>> embeddings, labels = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), torch.tensor([0, 0, 1])
    >>> step = Step(GlobalBatch.of(embeddings, labels), embeddings, labels, side=torch.zeros(3, 2))
    >>> round(float(GroupLabels(weight=1.0)(step).loss), 4)  # two groups that are as likely: log 2
    0.6931

    Args:
        weight: factor on the loss, lambda; 0.1 in the paper.

    Raises:
        ValueError: a weight that is negative or not finite; from `prepare`, a backbone without group logits.
    """

    def __init__(self, weight: float = 0.1) -> None:
        super().__init__()
        if not (isfinite(weight) and weight >= 0):
            raise ValueError(f"weight is {weight}; it must be a finite number >= 0")
        self.weight = weight

    def prepare(self, training: Training) -> None:
        """Refuse a backbone without group logits."""
        if training.side < 2:
            raise ValueError(
                f"GroupLabels needs a backbone that returns logits of at least 2 groups in training, this one returns "
                f"{training.side}; verisphere.backbones.GroupFace returns them"
            )

    def forward(self, step: Step) -> PairOutput:
        """Compute the weighted loss of a step."""
        assert step.side is not None, "prepare has refused a backbone without side columns"
        logits = step.batch.gather_with_gradient(step.side)
        labels = self_made_labels(logits)
        loss = self_made_loss(logits, labels)
        shares = labels.bincount(minlength=logits.shape[1]) / max(len(labels), 1)
        smallest, largest = (float(share) for share in shares.aminmax())
        figures = {"group_loss": float(loss.detach()), "group_largest_share": largest, "group_smallest_share": smallest}
        return PairOutput(self.weight * loss, figures=figures)

    def extra_repr(self) -> str:
        """What `print(term)` shows."""
        return f"weight={self.weight:g}"
