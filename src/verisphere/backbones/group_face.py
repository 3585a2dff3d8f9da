"""GroupFace: an embedding plus the embeddings of the groups of a face (Kim et al. 2020, arXiv:2005.10497).

The group-aware similarity of the paper, which subtracts from the cosine a distance between features of the group
decision network, is not implemented: evaluations in this package compare embeddings alone.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from verisphere.backbones.backbone import Backbone
from verisphere.base.vocabulary import check_word

Ensemble = Literal["soft", "hard"]

#: Width of the two hidden layers of the group decision network; the available descriptions do not state it.
HIDDEN_WIDTH = 256
#: Most groups, and largest width of those layers.
MOST_GROUPS = 2**14


def group_ensemble(
    instance: Float[Tensor, "batch dim"],
    groups: Float[Tensor, "batch groups dim"],
    logits: Float[Tensor, "batch groups"],
    ensemble: Ensemble = "soft",
) -> Float[Tensor, "batch dim"]:
    """The instance embedding plus the group embeddings, weighted by the groups' probabilities.

    The instance embedding is e_0, and that of a group e_m. "soft" is e_0 + sum_m p_m e_m (S-GroupFace), "hard" is e_0 +
    e_m of the likeliest group (H-GroupFace). Logits are those before the softmax.
    """
    share = logits.softmax(1) if ensemble == "soft" else F.one_hot(logits.argmax(1), logits.shape[1]).to(groups)
    return instance + (share[:, :, None] * groups).sum(1)


class GroupFace(Backbone):
    """GroupFace around any backbone, whose embedding is the feature that all groups share.

    One fully connected layer computes the instance embedding from the shared feature, and one for each group the group
    embedding. The group decision network, three fully connected layers with ReLUs between them, computes the weight of
    each group from the instance embedding. In training its logits follow as further columns, for
    `verisphere.pairs.GroupLabels`, without which the groups would not become different or equally large.

    The size and the normalisation of faces are those of the inner backbone.

    >>> from verisphere.backbones import MobileFaceNet
    >>> network = GroupFace(MobileFaceNet(embedding_size=64), groups=4, embedding_size=32, hidden=16)
    >>> network.embedding_size, network.side_columns
    (32, 4)

    Args:
        backbone: computes the shared feature; its `embedding_size` is the size of that feature.
        groups: number of groups; 32 in the paper.
        embedding_size: numbers in an embedding.
        ensemble: "soft" or "hard", see `group_ensemble`.
        hidden: width of the group decision network.

    Raises:
        ValueError: a count is out of range, the ensemble is unknown, or the backbone has further columns itself.
    """

    def __init__(
        self,
        backbone: Backbone,
        groups: int = 32,
        embedding_size: int = 512,
        ensemble: Ensemble = "soft",
        hidden: int = HIDDEN_WIDTH,
    ) -> None:
        super().__init__(embedding_size)
        for name, value, least in (("groups", groups, 2), ("hidden", hidden, 1)):
            if not least <= value <= MOST_GROUPS:
                raise ValueError(f"{name} is {value}; it must be at least {least} and at most {MOST_GROUPS:,}")
        check_word("ensemble", ensemble, Ensemble)
        if backbone.side_columns:
            raise ValueError(
                f"backbone is {type(backbone).__name__}, which gives {backbone.side_columns} columns of its own"
            )
        self.backbone, self.ensemble, self.side_columns = backbone, ensemble, groups
        self.input_size, self.mean, self.scale = backbone.input_size, backbone.mean, backbone.scale
        shared = backbone.embedding_size
        self.instance = nn.Linear(shared, embedding_size)
        self.groups = nn.Linear(shared, groups * embedding_size)  # a layer a group, side by side
        self.decide = nn.Sequential(
            nn.Linear(embedding_size, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, groups),
        )

    def embed(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch dim"]:
        """The network on images of the right size; in training the group logits follow the embedding."""
        shared = self.backbone(images)
        instance, groups = (
            self.instance(shared),
            self.groups(shared).unflatten(1, (self.side_columns, self.embedding_size)),
        )
        logits = self.decide(instance)
        embeddings = group_ensemble(instance, groups, logits, self.ensemble)
        return torch.cat([embeddings, logits.to(embeddings)], 1) if self.training else embeddings
