"""The collectives of a training step, by `Sharded`, DDP and the training loop: their kinds and bytes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from verisphere.base.distributed import World
from verisphere.head.passes import known_shift
from verisphere.losses.class_loss import ClassLoss, Rows
from verisphere.losses.similarity_kl import TeacherNormaliser
from verisphere.score.cosine import unit
from verisphere.train.dry_run.measured import copied_loss
from verisphere.train.recipe import Recipe

Kind = Literal["gather", "scatter", "sum", "maximum", "broadcast"]
_FLOAT, _LABEL, _COUNT, _DOUBLE, _FLAG = 4, 8, 8, 8, 4


@dataclass(frozen=True)
class Collective:
    """A collective between the ranks.

    Attributes:
        what: the exchanged values, in words.
        kind: "gather" (every rank gets the rows of all ranks), "scatter" (every rank gets the sum for its own rows),
            "sum" or "maximum" (every rank gets the result), or "broadcast" (every rank gets the values of rank 0).
        payload: bytes that a rank contributes during a step, summed over all `times`.
        times: number of such collectives in a step.
    """

    what: str
    kind: Kind
    payload: int
    times: int = 1

    def __post_init__(self) -> None:
        if self.payload < 1 or self.times < 1:
            raise ValueError(f"{self.what}: {self.payload} bytes, {self.times} times, is no exchange")

    def sent(self, processes: int) -> int:
        """Bytes that a rank sends in a step, if this many ranks exchange them in a ring.

        >>> Collective("gradients", "sum", 1000).sent(4)  # each part goes round once to be summed, and once to be known
        1500
        """
        others = processes - 1
        if self.kind == "gather":
            return self.payload * others
        rounds = 1 if self.kind in ("scatter", "broadcast") else 2
        return rounds * self.payload * others // processes


def collectives(recipe: Recipe, processes: int, teacher_size: int = 0) -> tuple[Collective, ...]:
    """Those of a training step by several processes, at least 2."""
    return (*head_collectives(recipe, processes, teacher_size), *_backbone(recipe))


def head_collectives(recipe: Recipe, processes: int, teacher_size: int = 0) -> Iterator[Collective]:
    """Those of the head, as the table at `verisphere.head.sharded.Sharded` has them."""
    parts = recipe.accumulate
    sizes = [World(size=parts).share(recipe.batch_size, part) for part in range(parts)]
    most = sum(len(World(size=processes).share(len(size), 0)) for size in sizes)  # shares are padded to the largest
    row, column = recipe.backbone.embedding_size * _FLOAT, recipe.batch_size * _FLOAT
    loss = recipe.loss

    yield Collective("numbers of rows", "gather", _COUNT * parts, parts)
    yield Collective("embeddings", "gather", most * row, parts)
    yield Collective("labels", "gather", most * _LABEL, parts)
    if any(term.teacher for _, term in loss.terms):
        yield Collective("the teacher's embeddings", "gather", most * teacher_size * _FLOAT, parts)
        scale = max(term.scale for _, term in loss.terms if term.teacher)
        if known_shift(TeacherNormaliser(scale), 1) is None:
            yield Collective("the teacher's largest logits", "maximum", column, parts)
        yield Collective("the teacher's sums over the classes", "sum", column, parts)
    if loss.partial_losses(recipe.pull_together):
        yield Collective("losses of the rows", "sum", column, parts)
    else:
        yield from _softmax(recipe, column, parts)
    for _, term in loss.terms:
        for a_row in _learned_context(term, recipe.backbone.embedding_size):
            yield Collective("gradient of the loss's context", "sum", column if a_row else _FLOAT * parts, parts)
    if any(_reaches_embeddings(term, recipe.backbone.embedding_size) for _, term in loss.terms):
        yield Collective("gradients of the embeddings", "scatter", most * processes * row, parts)


def _softmax(recipe: Recipe, column: int, parts: int) -> Iterator[Collective]:
    """The collectives of losses that reduce each row over all classes, or that need the own cosines first."""
    loss, columns = recipe.loss, recipe.backbone.embedding_size + recipe.loss.class_bias
    yield Collective("own cosines", "sum", column, parts)
    by_centers = sum(term.query == "own_center" for _, term in loss.terms)
    if by_centers:
        yield Collective("own centers", "sum", column * columns, parts)
        yield Collective("gradients of the own centers", "sum", column * columns * by_centers, parts * by_centers)
    if nearest := max(term.nearest for _, term in loss.terms):
        yield Collective("nearest other classes", "gather", column * nearest, parts)
    for _, term in loss.terms:
        if term.query == "none":
            continue
        if term.reduce == "logsumexp" and known_shift(term, 1) is None:
            yield Collective("largest logits", "maximum", column, parts)
        yield Collective("sums over the classes", "sum", column, parts)
    if recipe.pull_together:
        yield Collective("spread of the sub-centers", "sum", _FLOAT * parts, parts)


def _learned_context(loss: ClassLoss, embedding_size: int) -> Iterator[bool]:
    """For each item of the context that needs a gradient, whether the item has a number for each row."""
    if loss.query == "none":
        return
    rows = _example_rows(loss, embedding_size)
    for item in copied_loss(loss, 2).context(rows):
        if item.requires_grad:
            yield item.ndim > 0


def _reaches_embeddings(loss: ClassLoss, embedding_size: int) -> bool:
    """Whether the loss has a gradient in the embeddings; a loss that compares only centers with centers has none."""
    if loss.query == "embedding":
        return True
    rows, prepared = _example_rows(loss, embedding_size), copied_loss(loss, 2)
    prepared.requires_grad_(False).prepare(2)
    context = tuple(item.expand(2) for item in prepared.context(rows))
    own = prepared.own(rows.own, *context)
    return prepared.finish(own, torch.zeros(2), *context).requires_grad


def _example_rows(loss: ClassLoss, embedding_size: int) -> Rows:
    """Two rows whose embeddings need a gradient; they show which results of the loss depend on embeddings."""
    embeddings = torch.ones(2, embedding_size, requires_grad=True)
    own = embeddings[:, 0] * 0.5
    nearest = torch.zeros(2, loss.nearest) if loss.nearest else None
    labels = torch.zeros(2, dtype=torch.int64)
    length, teacher = torch.linalg.vector_norm(embeddings, dim=1), torch.zeros(2) if loss.teacher else None
    return Rows(own, length, unit(embeddings), labels, nearest, teacher=teacher)


def _backbone(recipe: Recipe) -> Iterator[Collective]:
    """The collectives of DistributedDataParallel, of synchronised batch norm, and of the check before the update."""
    trained = [one for one in recipe.backbone.parameters() if one.requires_grad]
    buffers = sum(one.nbytes for one in recipe.backbone.buffers())
    norms = [one.num_features for one in recipe.backbone.modules() if isinstance(one, _BatchNorm)]
    parts = recipe.accumulate
    if recipe.sync_batch_norm and norms:
        forward = sum(2 * channels + 1 for channels in norms) * _DOUBLE
        yield Collective("batch statistics", "gather", forward * parts, len(norms) * parts)
        yield Collective("their gradients", "sum", sum(norms) * 2 * _DOUBLE * parts, len(norms) * parts)
    if trained:
        yield Collective("gradients of the backbone", "sum", sum(one.nbytes for one in trained))
        yield Collective("which parameters were used", "sum", len(trained) * _FLAG)
        if buffers:
            yield Collective("running means", "broadcast", buffers)
    yield Collective("is all finite, and shall we stop", "maximum", 4 * _FLOAT)
