"""What is trained: a backbone, a head over its embeddings, and pair terms beside it."""

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
class Progressed:
    """How far a training has come.

    Attributes:
        number: steps made before.
        epoch: the same in epochs.
    """

    number: int = 0
    epoch: float = 0.0


@dataclass(frozen=True, eq=False)
class ObjectiveOutput:
    """What comes of a batch.

    Attributes:
        loss: the class-center loss, mean over the global batch, and what the pair terms add; with gradient.
        per_sample: class-center loss of each of this process's rows before weights, without gradient.
        figures: of the pair terms, for the log.
    """

    loss: Float[Tensor, ""]
    per_sample: Float[Tensor, "batch"]
    figures: Mapping[str, float] = field(default_factory=dict)


class Objective(nn.Module):
    """From normalised images and labels to a loss.

    The backbone runs in `precision` (autocast for bfloat16); head and pair terms compute in float32 whatever they are
    given.

    Args:
        backbone: network that makes the embeddings.
        head: class centers and loss.
        precision: of the backbone, float32 or bfloat16.
        run: what computes the embeddings in training: the backbone itself, unless a compiled form of it is given, or
            one whose gradients add up over processes.
        apart: what a backward that others will follow before the step goes inside of; see `AddedUp.apart`.
        terms: pair terms, prepared; their losses are added, their weights multiplied.
    """

    def __init__(
        self,
        backbone: Backbone,
        head: Head,
        precision: torch.dtype = torch.float32,
        run: Callable[[Tensor], Tensor] | None = None,
        apart: Callable[[], AbstractContextManager[None]] = nullcontext,
        terms: Sequence[PairTerm] = (),
    ) -> None:
        super().__init__()
        self.backbone, self.head, self.precision = backbone, head, precision
        self._run = backbone.__call__ if run is None else run
        self.apart = apart
        self.terms = nn.ModuleList(terms)
        self._warned = False

    def forward(
        self,
        images: Float[Tensor, "batch 3 height width"],
        labels: Int64[Tensor, " batch"],
        weights: Float[Tensor, " batch"] | None = None,
        progressed: Progressed = Progressed(),  # it is frozen
        domains: Int64[Tensor, " batch"] | None = None,
    ) -> ObjectiveOutput:
        """The mean loss over the batch, and each image's."""
        with torch.autocast(images.device.type, torch.bfloat16, enabled=self.precision == torch.bfloat16):
            given = self._run(images)
        size = self.backbone.embedding_size
        embeddings, side = given[:, :size], given[:, size:] if self.backbone.side_columns else None
        if not len(self.terms):
            output = self.head(embeddings, labels, weights)
            return ObjectiveOutput(output.loss, output.per_sample)
        with torch.autocast(images.device.type, enabled=False):
            found = self._of_terms(embeddings, labels, progressed, domains, side)
        for one in found:
            if one.weights is not None:
                weights = one.weights if weights is None else weights * one.weights
        output = self.head(embeddings, labels, weights)
        loss = output.loss
        for one in found:
            if one.loss is not None:
                loss = loss + one.loss
        figures: dict[str, float] = {}
        for number, one in enumerate(found, start=1):
            for name, value in one.figures.items():  # a later term's of the same name has its number
                figures[name if name not in figures else f"{name}#{number}"] = value
        return ObjectiveOutput(loss, output.per_sample, figures)

    def _of_terms(
        self,
        embeddings: Float[Tensor, "batch dim"],
        labels: Int64[Tensor, " batch"],
        progressed: Progressed,
        domains: Int64[Tensor, " batch"] | None,
        side: Float[Tensor, "batch side"] | None,
    ) -> list[PairOutput]:
        """What each term makes of the step; nothing where an embedding has no direction that it could compare."""
        batch = GlobalBatch.of(embeddings, labels)
        if batch.degenerate:
            if not self._warned:
                log.warning(
                    "step %d: an embedding is not finite, or of length 0: pair terms leave such a step out",
                    progressed.number + 1,
                )
                self._warned = True
            return []
        step = Step(
            batch,
            embeddings.float(),
            labels,
            progressed.number,
            progressed.epoch,
            domains,
            None if side is None else side.float(),
            self.head.centers[..., : self.backbone.embedding_size],
            self.head.held,
        )
        return [term(step) for term in self.terms]
