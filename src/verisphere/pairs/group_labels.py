"""The self-grouping loss of GroupFace (Kim et al. 2020, arXiv:2005.10497, section 3.3): what makes its groups."""

from math import isfinite

from verisphere.pairs.implicit_domains import self_made_labels, self_made_loss
from verisphere.pairs.pair_term import PairOutput, PairTerm, Step, Training


class GroupLabels(PairTerm):
    """Cross entropy of a backbone's group logits to labels that it makes itself, evened out over the global batch.

    It goes with `verisphere.backbones.GroupFace`, whose group decision network gives the logits in training. The
    expected probabilities of eq. 8 are the batch's means.

    Logged: group_loss, and the shares of the batch that the largest and the smallest group take (group_largest_share,
    group_smallest_share).

    Args:
        weight: lambda, 0.1 in the paper.

    Raises:
        ValueError: a weight that is negative or not finite; from `prepare`, a backbone without group logits.
    """

    def __init__(self, weight: float = 0.1) -> None:
        super().__init__()
        if not (isfinite(weight) and weight >= 0):
            raise ValueError(f"weight is {weight}; it must be a finite number >= 0")
        self.weight = weight

    def prepare(self, training: Training) -> None:
        """Refuse a backbone that makes no groups."""
        if training.side < 2:
            raise ValueError(
                f"GroupLabels needs a backbone that gives logits of 2 groups or more in training, this one gives "
                f"{training.side}; verisphere.backbones.GroupFace does"
            )

    def forward(self, step: Step) -> PairOutput:
        """The weighted loss of a step."""
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
