"""The head: class centers, a loss over them and the engine that runs it."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from verisphere.head.dense import Engine, dense_rest
from verisphere.losses.contract import NO_CLASS, ClassLoss, Rows, compared_rows
from verisphere.score.cosine import unit

#: Engines by the name that a recipe spells.
ENGINES: dict[str, Engine] = {"dense": dense_rest}

#: Standard deviation of a new center's entries, as in ArcFace's release. Under a cosine only directions matter, but the
#: length sets how fast a center turns: a step turns it by the learning rate over the length squared.
CENTER_STD = 0.01


@dataclass(frozen=True)
class HeadOutput:
    """What a head makes of a batch.

    Attributes:
        loss: mean over the batch of weight * loss, with gradient.
        per_sample: loss of each row before weights, without gradient.
    """

    loss: Float[Tensor, ""]
    per_sample: Float[Tensor, "batch"]


class Head(nn.Module):
    """Class centers and a loss over them: from embeddings and labels to one number.

    Everything is computed in float32 (float64 if embeddings or centers are), also under autocast, since half-precision
    cosines times a scale of 64 are off by a quarter of a logit.

    Args:
        loss: any `ClassLoss`; the head tells it the number of classes.
        classes: number of identities, N.
        embedding_size: numbers in an embedding, d.
        subcenters: centers a class, K; a class is as near as its nearest center (sub-center ArcFace, eq. 7).
        engine: name of an engine, or an engine.

    Attributes:
        centers: (N, K, d) parameter, as stored, not of unit length; with `loss.class_bias` (N, K, d + 1), the last
            column being the bias.

    Raises:
        ValueError: a count below 1, an unknown engine, or a class bias beside a cosine.
    """

    def __init__(
        self, loss: ClassLoss, classes: int, embedding_size: int, subcenters: int = 1, engine: str | Engine = "dense"
    ) -> None:
        super().__init__()
        for name, count in (("classes", classes), ("embedding_size", embedding_size), ("subcenters", subcenters)):
            if count < 1:
                raise ValueError(f"{name} is {count}; a head needs at least 1")
        if loss.class_bias and loss.similarity == "cosine":
            raise ValueError(
                f"{type(loss).__name__} asks for a class bias beside a cosine; it needs similarity 'product'"
            )
        if isinstance(engine, str) and engine not in ENGINES:
            raise ValueError(f"engine is {engine!r}; allowed are {', '.join(ENGINES)}")
        self.loss = loss
        self.classes, self.embedding_size, self.subcenters = classes, embedding_size, subcenters
        self.engine: Engine = ENGINES[engine] if isinstance(engine, str) else engine
        self.centers = nn.Parameter(torch.empty(classes, subcenters, embedding_size + loss.class_bias))
        self.reset_parameters()
        loss.prepare(classes)

    def reset_parameters(self) -> None:
        """Draw new centers, with no bias."""
        nn.init.normal_(self.centers, std=CENTER_STD)
        if self.loss.class_bias:
            nn.init.zeros_(self.centers[..., -1])

    def forward(
        self,
        embeddings: Float[Tensor, "batch dim"],
        labels: Int64[Tensor, "batch"],
        weights: Float[Tensor, "batch"] | None = None,
    ) -> HeadOutput:
        """The mean loss of a batch and the loss of each row.

        Args:
            embeddings: as a backbone gives them, any length, any floating type.
            labels: class numbers; -1 means 'no known class' and is for `sum` losses only.
            weights: a constant for each row (no gradient flows into it); the mean divides by the batch size, not by
                the sum of the weights.

        Raises:
            ValueError: an empty batch, counts that disagree, embeddings of another size, or labels out of range.
        """
        self._check(embeddings, labels)
        if weights is not None and weights.shape != labels.shape:
            raise ValueError(f"weights have shape {tuple(weights.shape)}; a batch of {len(labels)} takes one a row")
        with torch.autocast(embeddings.device.type, enabled=False):
            per_sample = self._per_sample(embeddings, labels)
            weighted = per_sample if weights is None else per_sample * weights.detach()
            return HeadOutput(weighted.mean(), per_sample.detach())

    def _per_sample(
        self, embeddings: Float[Tensor, "batch dim"], labels: Int64[Tensor, "batch"]
    ) -> Float[Tensor, "batch"]:
        loss = self.loss
        precision = torch.promote_types(torch.promote_types(embeddings.dtype, self.centers.dtype), torch.float32)
        embeddings, centers = embeddings.to(precision), self.centers.to(precision)

        query = compared_rows(embeddings, loss.similarity)
        if loss.class_bias:
            query = torch.cat([query, query.new_ones(len(query), 1)], dim=1)
        known = labels != NO_CLASS
        own_centers = compared_rows(centers[labels.clamp(min=0)], loss.similarity)  # (batch, subcenters, columns)
        own_cosine, nearest = torch.einsum("bd,bkd->bk", query, own_centers).max(1)
        own_cosine = own_cosine.masked_fill(~known, 0.0)

        rows = Rows(own_cosine, torch.linalg.vector_norm(embeddings, dim=1), unit(embeddings), labels)
        if self.training:
            with torch.no_grad():
                loss.observe(rows)
        context = tuple(item.to(precision).expand(len(labels)) for item in loss.context(rows))
        if loss.query == "own_center":
            query = own_centers[torch.arange(len(nearest), device=nearest.device), nearest]
        rest = self.engine(loss, query, centers, labels, *context)
        own = loss.own(own_cosine, *context).masked_fill(~known, 0.0)
        return loss.finish(own, rest, *context)

    def _check(self, embeddings: Float[Tensor, "batch dim"], labels: Int64[Tensor, "batch"]) -> None:
        if len(labels) == 0:
            raise ValueError("the batch is empty: a mean over no rows has no value")
        if len(embeddings) != len(labels):
            raise ValueError(f"{len(embeddings)} embeddings came with {len(labels)} labels; each row takes one")
        if embeddings.shape[1] != self.embedding_size:
            raise ValueError(
                f"embeddings have {embeddings.shape[1]} columns but the head was built for {self.embedding_size}; "
                "does its embedding_size match the backbone's?"
            )
        lowest, highest = (int(end) for end in torch.stack(labels.aminmax()).tolist())  # one wait for the device
        if highest >= self.classes:
            raise ValueError(
                f"labels reach {highest} but the head has {self.classes} classes; "
                "was the class count taken from another list?"
            )
        if lowest < NO_CLASS:
            raise ValueError(f"labels reach down to {lowest}; the lowest allowed is -1, which means 'no known class'")
        if lowest == NO_CLASS and (self.loss.reduce != "sum" or self.loss.query == "own_center"):
            raise ValueError(
                f"{int((labels == NO_CLASS).sum())} labels are -1 ('no known class'), but {type(self.loss).__name__} "
                "needs a class for every row; only losses that sum over the classes accept them"
            )

    def extra_repr(self) -> str:
        """What `print(head)` shows."""
        return f"classes={self.classes}, embedding_size={self.embedding_size}, subcenters={self.subcenters}"
