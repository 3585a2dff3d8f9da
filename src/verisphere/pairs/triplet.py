"""The angular triplet loss beside a class-center loss, or alone (ArcFace, Deng et al. 2019, arXiv:1801.07698, table 2).

The text of table 2 has arccos<x_pos, x> + m <= arccos<x_neg, x>; by how much that is missed is the loss.
"""

import logging
from math import isfinite, pi

from verisphere.pairs.counts import check_count
from verisphere.pairs.memory import OnlineSet, Place, Storage
from verisphere.pairs.pair_term import PairOutput, PairTerm, Step, Training
from verisphere.pairs.triplet_mining import Mining, triplets
from verisphere.vocabulary import check_word

log = logging.getLogger(__name__)


class AngularTriplet(PairTerm):
    """The mean hinge over triplets of the global batch: [theta(anchor, positive) + m - theta(anchor, negative)]+.

    Anchors are rows of the batch; a positive is another image of the same person, a negative one of another. A row
    whose person is none of the classes is no anchor, but a negative for all. Of a batch worked through in parts
    (`accumulate`) each part has its own triplets. An image finds a positive in its batch
    only if that holds more of its person: see the recipe's `images_per_identity`.

    Logged: `triplet_loss`, the mean before its weight; `triplet_active`, the share of triplets that fall short of the
    margin; `triplet_anchors`, rows of the batch that have a triplet.

    Args:
        margin: m, in radians, in [0, pi]. The default is table 2's.
        mining: which triplets. "all" of them; "hard", for each anchor the positive farthest from it and the negative
            nearest to it (Hermans et al. 2017, arXiv:1703.07737, eq. 5); "semihard", for each anchor and positive the
            nearest negative that is farther from the anchor than the positive (Schroff et al. 2015, FaceNet,
            arXiv:1503.03832, section 3.2); a pair without such a negative gives none, and one beyond the margin counts
            as a triplet whose hinge is 0.
        weight: of the loss.
        memory: features of each identity that are kept of earlier batches, as positives and negatives; 0 keeps none.
        valid_steps: for how many steps each is, see `OnlineSet`.
        storage: of the memory, see `Memory`.
        place: of the memory, see `Memory`.

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
        """Make room for the memory, if there is to be one."""
        if self.memory is not None:
            self.memory.prepare(training.classes, training.embedding_size)

    def held(self) -> dict[str, range]:
        """See `PairTerm.held`."""
        return {} if self.memory is None else {f"memory.{name}": rows for name, rows in self.memory.held().items()}

    def forward(self, step: Step) -> PairOutput:
        """The loss; 0 where the batch has no triplet, which is said once."""
        batch, stored = step.batch, None
        if self.memory is not None:
            stored = self.memory.stored(step.number)  # of earlier steps: the batch itself is there with its gradient
        found = triplets(batch.units, batch.labels, stored, self.margin, self.mining)
        if self.memory is not None:
            self.memory.insert(batch.units, batch.labels, step.number)
        if not found.count and not self._warned:
            log.warning(
                "step %d: a batch of %d images has no triplet, which takes two images of one person and one of "
                "another; with images_per_identity a batch holds so many of each person",
                step.number + 1,
                len(batch.labels),
            )
            self._warned = True
        figures = {
            "triplet_loss": float(found.value),
            "triplet_active": found.active / max(found.count, 1),
            "triplet_anchors": float(found.anchors),
        }
        return PairOutput(batch.loss(self.weight * found.value, self.weight * found.gradient), figures=figures)
