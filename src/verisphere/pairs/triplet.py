"""The angular triplet loss beside a class-center loss, or alone (ArcFace, Deng et al. 2019, arXiv:1801.07698).

ArcFace's section 3.1 requires arccos<x_pos, x> + m <= arccos<x_neg, x>; the loss is the amount by which this is
violated. The margin is that of its table 2.
"""

import logging
from math import isfinite, pi

from verisphere.base.vocabulary import check_word
from verisphere.pairs.counts import check_count
from verisphere.pairs.memory import OnlineSet, Place, Storage
from verisphere.pairs.pair_term import PairOutput, PairTerm, Step, Training
from verisphere.pairs.triplet_mining import Mining, triplets

log = logging.getLogger(__name__)


class AngularTriplet(PairTerm):
    """The mean hinge over triplets of the global batch: [theta(anchor, positive) + m - theta(anchor, negative)]+.

    Anchors are rows of the batch; a positive is another image of the same person, a negative an image of another
    person. A row whose person is none of the classes is no anchor, but a negative for every anchor. With `accumulate`
    triplets are formed within each part of a batch. An image has a positive in its batch only if the batch contains
    several images of its person: see the recipe's `images_per_identity`.

    Logged: `triplet_loss`, the mean before its weight; `triplet_active`, the share of triplets that miss the margin;
    `triplet_anchors`, the number of rows of the batch that have a triplet.

    >>> import torch
    >>> from verisphere.pairs import GlobalBatch, Step, Training
    >>> embeddings, labels = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), torch.tensor([0, 0, 1])
    >>> step = Step(GlobalBatch.of(embeddings, labels), embeddings, labels)
    >>> output = AngularTriplet(margin=0.35)(step)
    >>> output.figures["triplet_anchors"], round(float(output.loss), 4)
    (2.0, 0.0331)

    Args:
        margin: m, in radians, in [0, pi]. The default is table 2's.
        mining: the triplets that count. "all": every triplet. "hard": for each anchor the positive farthest from it and
            the negative nearest to it (Hermans et al. 2017, arXiv:1703.07737, eq. 5). "semihard": for each anchor and
            positive the nearest negative that is farther from the anchor than the positive (Schroff et al. 2015,
            FaceNet, arXiv:1503.03832, section 3.2); a pair without such a negative forms no triplet, and a negative
            beyond the margin forms a triplet whose hinge is 0.
        weight: factor on the loss.
        memory: number of features of earlier batches that are stored for each identity, as further positives and
            negatives; 0 stores none.
        valid_steps: number of steps for which a stored feature is usable, see `OnlineSet`.
        storage: type of the stored features, see `Memory`.
        place: place of the stored features, see `Memory`.

    Raises:
        ValueError: a number or name outside what is allowed.
    """

    def __init__(
        self,
        margin: float = 0.35,
        mining: Mining = "all",
        weight: float = 1.0,
        memory: int = 0,
        valid_steps: int = 1000,
        storage: Storage = "float32",
        place: Place = "device",
    ) -> None:
        super().__init__()
        if not 0 <= margin <= pi:
            raise ValueError(f"margin is {margin}; it is an angle in radians, from 0 to pi")
        check_word("mining", mining, Mining)
        if not (isfinite(weight) and weight >= 0):
            raise ValueError(f"weight is {weight}; it must be a number and not negative")
        check_count("memory", memory, least=0)
        self.margin, self.mining, self.weight = margin, mining, weight
        self.memory = OnlineSet(memory, valid_steps, storage, place) if memory else None
        self._warned = False

    def prepare(self, training: Training) -> None:
        """Allocate the memory, if the term has one."""
        if self.memory is not None:
            self.memory.prepare(training.classes, training.embedding_size)

    def forward(self, step: Step) -> PairOutput:
        """Compute the loss; 0 for a batch without triplets, which is reported once."""
        batch, stored = step.batch, None
        if self.memory is not None:
            stored = self.memory.stored(
                step.number
            )  # earlier steps only: the batch itself takes part with its gradient
        mined = triplets(batch.units, batch.labels, stored, self.margin, self.mining)
        if self.memory is not None:
            self.memory.insert(batch.units, batch.labels, step.number)
        if not mined.count and not self._warned:
            log.warning(
                "step %d: a batch of %d images has no triplet, which needs two images of one person and one of "
                "another; images_per_identity sets how many images of each person a batch contains",
                step.number + 1,
                len(batch.labels),
            )
            self._warned = True
        figures = {
            "triplet_loss": float(mined.value),
            "triplet_active": mined.active / max(mined.count, 1),
            "triplet_anchors": float(mined.anchors),
        }
        return PairOutput(batch.loss(self.weight * mined.value, self.weight * mined.gradient), figures=figures)
