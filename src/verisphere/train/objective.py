"""The trained objective: a backbone, a head over its embeddings, and pair terms."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from verisphere.backbones.backbone import Backbone
from verisphere.head.head import Head
from verisphere.pairs.pair_term import GlobalBatch, PairOutput, PairTerm, Step

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Position:
    """The position of a step in a training: the number of steps made before, and the same in epochs."""

    number: int = 0
    epoch: float = 0.0


@dataclass(frozen=True, eq=False)
class ObjectiveOutput:
    """The loss of a batch.

    Attributes:
        loss: mean class-center loss over the global batch plus the losses of the pair terms; with gradient.
        per_sample: class-center loss of each row of this rank, before weights; without gradient.
    """

    loss: Float[Tensor, ""]
    per_sample: Float[Tensor, "batch"]
    figures: Mapping[str, float] = field(default_factory=dict)


class Objective(nn.Module):
    """From normalised images and labels to a loss.

    The backbone runs in `precision` (autocast for bfloat16); head and pair terms compute in float32 for any input.

    Args:
        run: computes the embeddings in training, as a `SummedBackbone` does; None calls the backbone itself.
        local_gradients: context of every backward but the last before a step; see that of `SummedBackbone`.
        terms: prepared pair terms; their losses are added, their weights multiplied.
    """

    def __init__(
        self,
        backbone: Backbone,
        head: Head,
        precision: torch.dtype = torch.float32,
        run: Callable[[Tensor], Tensor] | None = None,
        local_gradients: Callable[[], AbstractContextManager[None]] = nullcontext,
        terms: Sequence[PairTerm] = (),
    ) -> None:
        super().__init__()
        self.backbone, self.head, self.precision = backbone, head, precision
        self._run = backbone.__call__ if run is None else run
        self.local_gradients = local_gradients
        self.terms = nn.ModuleList(terms)
        self._warned = False
        self._compares = any(loss.teacher for _, loss in head.loss.terms)

    def forward(
        self,
        images: Float[Tensor, "batch 3 height width"],
        labels: Int64[Tensor, " batch"],
        weights: Float[Tensor, " batch"] | None = None,
        position: Position = Position(),  # it is frozen
        domains: Int64[Tensor, " batch"] | None = None,
        teacher: Float[Tensor, "batch teacher_dim"] | None = None,
    ) -> ObjectiveOutput:
        """The mean loss over the global batch, and the loss of each image of this rank."""
        with torch.autocast(images.device.type, torch.bfloat16, enabled=self.precision == torch.bfloat16):
            columns = self._run(images)
        size, of_head = self.backbone.embedding_size, teacher if self._compares else None
        embeddings, side = columns[:, :size], columns[:, size:] if self.backbone.side_columns else None
        if not len(self.terms):
            output = self.head(embeddings, labels, weights, of_head)
            return ObjectiveOutput(output.loss, output.per_sample)
        with torch.autocast(images.device.type, enabled=False):
            of_terms = self._of_terms(embeddings, labels, position, domains, side, teacher)
        for given in of_terms:
            if given.weights is not None:
                weights = given.weights if weights is None else weights * given.weights
        output = self.head(embeddings, labels, weights, of_head)
        loss = output.loss
        for given in of_terms:
            if given.loss is not None:
                loss = loss + given.loss
        figures: dict[str, float] = {}
        for number, given in enumerate(of_terms, start=1):
            for name, value in given.figures.items():  # of equal names, the later one is followed by its term's number
                figures[name if name not in figures else f"{name}#{number}"] = value
        return ObjectiveOutput(loss, output.per_sample, figures)

    def _of_terms(
        self,
        embeddings: Float[Tensor, "batch dim"],
        labels: Int64[Tensor, " batch"],
        position: Position,
        domains: Int64[Tensor, " batch"] | None,
        side: Float[Tensor, "batch side"] | None,
        teacher: Float[Tensor, "batch teacher_dim"] | None,
    ) -> list[PairOutput]:
        """The result of each term; none if an embedding has no direction, since terms compare directions."""
        batch = GlobalBatch.of(embeddings, labels)
        if batch.degenerate:
            if not self._warned:
                log.warning(
                    "step %d: an embedding is not finite, or of length 0: pair terms skip such a step",
                    position.number + 1,
                )
                self._warned = True
            return []
        step = Step(
            batch,
            embeddings.float(),
            labels,
            position.number,
            position.epoch,
            domains,
            None if side is None else side.float(),
            self.head.centers[..., : self.backbone.embedding_size],
            self.head.held,
            teacher,
        )
        return [term(step) for term in self.terms]
