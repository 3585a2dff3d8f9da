"""The head: class centers, a loss over them and the engine that runs it."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn

from verisphere.base.compiling import left_eager
from verisphere.base.vocabulary import NO_CLASS, check_whole
from verisphere.head.auto import Auto
from verisphere.head.checks import (
    check_ddp,
    check_labels,
    check_own,
    check_parts,
    check_ranks,
    check_repeated,
    check_rows,
    is_own,
    own,
    prepare,
)
from verisphere.head.deferred import DeferredTensor
from verisphere.head.interface import Batch, DeferredGradient, Engine, SGDStep, View, ViewRequest
from verisphere.head.late import LateModule
from verisphere.head.noise import Noise
from verisphere.head.subcenters import SubCenters
from verisphere.head.teacher import Teacher, check_teacher, unit_centers
from verisphere.losses.class_loss import ClassLoss, Rows, compared_rows
from verisphere.losses.similarity_kl import TeacherNormaliser
from verisphere.score.cosine import unit

#: Standard deviation of a new center's entries, as in ArcFace's release. Under a cosine only directions matter, but the
#: length sets how fast a center turns: a step turns it by the learning rate over the length squared.
CENTER_STD = 0.01
_DRAWN_AT_ONCE = 2**20

#: Keywords that a head took in earlier versions, and what takes their place.
_RENAMED = {
    "embedding_size": "size=...",
    "subcenters": "centers=SubCenters(...)",
    "pooling": "centers=SubCenters(pooling=...)",
    "temperature": "centers=SubCenters(temperature=...)",
    "pull_together": "centers=SubCenters(pull_together=...)",
    "precision": "engine=Streamed(precision=...)",
    "sample_rate": "engine=Sampled(rate=...)",
}


@dataclass(frozen=True)
class HeadOutput:
    """The result of a head for one batch.

    >>> from verisphere.losses import ArcFace
    >>> output = Head(ArcFace(), classes=10, size=4)(torch.randn(2, 4), torch.tensor([3, 7]))
    >>> bool(output.loss.isclose(output.per_sample.mean()))
    True

    Attributes:
        loss: mean over the batch of weight * loss, with gradient.
        per_sample: loss of each row before weights, without gradient.
    """

    loss: Float[Tensor, ""]
    per_sample: Float[Tensor, "batch"]


class Head(LateModule):
    """Class centers and a loss over them: from embeddings and labels to one number.

    Everything but an engine's products is computed in float32 (float64 if embeddings or centers are), also under
    autocast, since half-precision cosines times a scale of 64 are off by a quarter of a logit.

    Under `Sharded` a batch consists of the rows of all ranks: each rank passes its own rows, and receives the mean over
    all rows and the gradient of that mean in its own rows. The ranks' gradients in a backbone are then to be added, but
    DDP divides their sum by the world size: wrap the backbone alone in DDP, and call
    `head(summed_by_ddp(backbone(images)), labels)`, with `summed_by_ddp` of `verisphere.base.collectives`.

    >>> from verisphere.losses import ArcFace
    >>> head = Head(ArcFace(margin=0.5), classes=10, size=4)
    >>> output = head(torch.randn(2, 4), torch.tensor([3, 7]))
    >>> output.loss.backward()
    >>> output.per_sample.shape, head.centers.grad.shape
    (torch.Size([2]), torch.Size([10, 1, 4]))

    Args:
        loss: any `ClassLoss`; the head tells it the number of classes, and runs its `terms`.
        classes: number of identities, N.
        size: numbers in an embedding, d.
        centers: how many centers a class has (sub-center ArcFace, eq. 7), and how their cosines become one.
        engine: the object that computes the loss over the classes: `Auto`, `Dense`, `Streamed`, `Sampled` or `Sharded`.
        seed: seed of the random numbers that the loss asks for, the same on every rank; see `Noise`.

    Attributes:
        centers: (N, K, d) parameter, as stored, not of unit length; with `loss.class_bias` (N, K, d + 1), the last
            column being the bias. Under `Sharded` a rank has the centers of the classes that it holds.
        subcenters: the argument `centers`.
        held: the classes whose centers this rank holds.
        draws: random state of the engine; None for an engine without randomness.
        noise: the random numbers that the loss asks for; None for a loss that asks for none.
        teacher: (held, d') centers of the teacher, each of length 1, where the loss compares with one; see
            `set_teacher`. It is not a part of the state.
        deferred: whether the gradient of `centers` is deferred to `step`, if the engine can. `HeadSGD` sets it.
            `centers.grad` is then a `DeferredTensor`, which stands for a gradient that has not been computed.

    Raises:
        ValueError: a number outside its range, a class bias beside a cosine, or a loss that another head has and
            that has state or was prepared for other classes; give each head a loss of its own.
        TypeError: centers or engine are not objects of their kind, or a keyword of earlier versions.
    """

    def __init__(
        self,
        loss: ClassLoss,
        classes: int,
        size: int | None = None,  # None is answered in words
        *,
        centers: SubCenters = SubCenters(),  # both are frozen
        engine: Engine = Auto(),
        seed: int = 0,
        **renamed: object,
    ) -> None:
        super().__init__()
        for name in renamed:
            raise TypeError(f"a head takes no {name}" + (f"; write {_RENAMED[name]}" if name in _RENAMED else ""))
        if size is None:
            raise TypeError("size is missing; write Head(loss, classes, size), the size being that of an embedding")
        check_parts(loss, classes, size, centers, engine)
        check_whole("seed", seed)
        self.loss = loss
        self.classes, self.size, self.subcenters = classes, size, centers
        self.engine = engine
        numbers = max(term.noise for _, term in loss.terms)
        self.noise = Noise(numbers, seed) if numbers else None
        self.deferred = False
        self._deferred: DeferredTensor | None = None
        self.held = self.engine.held(classes)
        self.centers = nn.Parameter(torch.empty(len(self.held), centers.count, size + loss.class_bias))
        self.teacher: Tensor | None
        self.register_buffer("teacher", None, persistent=False)
        self.reset_parameters()
        prepare(loss, self, classes)

    def reset_parameters(self) -> None:
        """Draw new centers, with bias 0; the centers of a class do not depend on which rank holds it."""
        per_class = self.centers.shape[1:].numel()
        # Blocks of a multiple of 16 numbers are drawn as all at once would be; those of other ranks are dropped.
        step = 16 * max(1, _DRAWN_AT_ONCE // (16 * per_class))
        with torch.no_grad():
            for first in range(0, self.classes, step):
                drawn = self.centers.new_empty(min(step, self.classes - first), *self.centers.shape[1:])
                nn.init.normal_(drawn, std=CENTER_STD)
                held = range(max(first, self.held.start), min(first + len(drawn), self.held.stop))
                if held:
                    at = held.start - self.held.start
                    self.centers[at : at + len(held)] = drawn[held.start - first : held.stop - first]
        if self.loss.class_bias:
            nn.init.zeros_(self.centers[..., -1])

    def set_teacher(self, centers: Float[Tensor, "held teacher_dim"]) -> None:
        """Set the teacher's class centers, for a loss that compares with a teacher; only their directions count.

        Args:
            centers: one for each class that this rank holds, in the order of the classes.

        Raises:
            ValueError: another number of centers, or one that has no direction.
        """
        self.teacher = unit_centers(centers, self.held, self.centers)

    @left_eager
    def forward(
        self,
        embeddings: Float[Tensor, "batch dim"],
        labels: Integer[Tensor, "batch"],
        weights: Float[Tensor, "batch"] | None = None,
        teacher: Float[Tensor, "batch teacher_dim"] | None = None,
    ) -> HeadOutput:
        """The mean loss of a batch and the loss of each row.

        `torch.compile` of a model with a head compiles what is around the head; the engines compile their own work.

        Args:
            embeddings: the output of a backbone; rows may have any norm and any floating type.
            labels: class numbers, of any integer type; -1 means 'no known class' and is for `sum` losses only.
            weights: a constant for each row (no gradient flows into it); the mean divides by the batch size, not by
                the sum of the weights.
            teacher: the teacher's embedding of each row, of any norm, for a loss that compares with a teacher.

        Raises:
            ValueError: an empty batch, shapes that disagree, embeddings of another size, labels out of range, a teacher
                that is missing or not asked for, or `torch.export`; another loss was assigned to the head; the gradient
                is deferred although several ranks hold all classes; or the loss or engine would be another one, see
                `check_ddp` and `check_repeated`.
            TypeError: labels that are not integers, or embeddings that are not floating-point numbers.
        """
        if torch.compiler.is_exporting() or torch.jit.is_tracing():
            raise ValueError("a head is a part of the training and cannot be exported: export the backbone alone")
        check_own(self.loss, self)
        check_rows(embeddings, labels, weights, self.size)
        check_teacher(self.loss, self.teacher, teacher, len(labels))
        if torch.is_grad_enabled() and self.deferred:
            check_ranks(self.held, self.classes)
        check_ddp(self, len(self.held) < self.classes, self.loss, self.draws is not None)
        if self.training:
            check_repeated(self.loss, self.draws is not None)
        labels = labels.long()
        with torch.autocast(embeddings.device.type, enabled=False):
            precision = torch.promote_types(torch.promote_types(embeddings.dtype, self.stored.dtype), torch.float32)
            of_teacher = None if teacher is None else unit(teacher.detach().to(precision))
            batch = self.engine.batch(embeddings.to(precision), labels, weights, of_teacher)
            check_labels(batch.labels, self.classes, self.loss)  # of all ranks, so that all raise the same error
            # factor of each row's loss in the mean
            share = embeddings.new_full((len(batch.labels),), 1 / len(batch.labels), dtype=precision)
            if batch.weights is not None:
                share = share * batch.weights.detach()
            per_sample, spread = self._per_sample(batch, share)
            total = (per_sample * share).sum()
            if spread is not None:
                total = total + self.subcenters.pull_together * spread
            return HeadOutput(total, per_sample.detach()[batch.local_rows])

    def _per_sample(
        self, batch: Batch, share: Float[Tensor, "batch"]
    ) -> tuple[Float[Tensor, "batch"], Float[Tensor, ""] | None]:
        """The loss of each row, and the spread of the sub-centers where it has a weight."""
        similarity, dtype = self.loss.similarity, batch.embeddings.dtype
        defer = self._defer if self.deferred else None
        teacher = None
        if batch.teacher is not None and self.teacher is not None:
            teacher = Teacher(batch.teacher, self.teacher.to(dtype))
        query = compared_rows(batch.embeddings, similarity)
        if self.loss.class_bias:
            query = torch.cat([query, query.new_ones(len(query), 1)], dim=1)
        comparison = batch.labels, self.subcenters, similarity, dtype, self.loss, query.detach()
        view = self.engine.view(self.stored, ViewRequest(*comparison, defer, teacher=teacher))
        terms, pull_together = self.loss.terms, self.subcenters.pull_together
        if self.loss.partial_losses(pull_together):
            return self._partial_losses(view, batch, query, share), None

        one_pass = self.loss.one_pass(pull_together)
        own = view.own(query, center=any(loss.query == "own_center" for _, loss in terms))
        rows = self._rows(view, batch, query, own.cosine)
        known = batch.labels != NO_CLASS
        total = torch.zeros_like(own.cosine)
        for weight, loss in terms:
            context = tuple(item.to(dtype) for item in loss.context(rows))
            row_context = tuple(item.expand(len(known)) for item in context)
            own_term = loss.own(own.cosine, *row_context).masked_fill(~known, 0.0)
            rest = torch.zeros_like(own_term)
            if loss.query != "none":
                compared = query if own.center is None or loss.query == "embedding" else view.to_partial(own.center)
                of_rank = tuple(view.to_partial(item).expand(len(known)) for item in context)
                rest = view.rest(loss, compared, of_rank, weight * loss.slope() * share if one_pass else None)
            total = total + weight * loss.finish(own_term, rest, *row_context)
        return total, view.spread(self.size) if pull_together else None

    def _partial_losses(
        self, view: View, batch: Batch, query: Float[Tensor, "batch columns"], share: Float[Tensor, "batch"]
    ) -> Float[Tensor, "batch"]:
        """The loss of each row, for a loss with `partial_losses`: the ranks compute summands, which are all-reduced."""
        ((weight, loss),) = self.loss.terms
        held, owned, known = view.partial, view.owned, batch.labels != NO_CLASS
        own_cosine = held.own(query).cosine
        # NaN on purpose: a loss declared `linear` must not read `rows.own`
        rows = self._rows(view, batch, query, own_cosine.masked_fill(~owned, torch.nan))
        context = tuple(view.to_partial(item.to(query.dtype)).expand(len(known)) for item in loss.context(rows))
        own = loss.own(own_cosine, *context).masked_fill(~known, 0.0)
        rest = torch.zeros_like(own)
        if loss.query != "none":
            rest = held.rest(loss, query, context, weight * loss.slope() * share)
        return weight * view.to_replicated(torch.where(owned, loss.finish(own, rest, *context), loss.slope() * rest))

    def _rows(
        self,
        view: View,
        batch: Batch,
        query: Float[Tensor, "batch columns"],
        own: Float[Tensor, "batch"],
    ) -> Rows:
        """The batch as the loss may see it; in training the loss has observed it."""
        count = max(loss.nearest for _, loss in self.loss.terms)
        nearest = view.nearest(query, count) if count else None
        noise = None if self.noise is None else self.noise(own)
        length = torch.linalg.vector_norm(batch.replicated, dim=1)
        others = nearest, noise, self._of_teacher(view, query), partial(view.sums, query)
        rows = Rows(own, length, unit(batch.replicated), batch.labels, *others)
        if self.training:
            with torch.no_grad():
                self.loss.observe(rows)
        return rows

    @torch.no_grad()
    def _of_teacher(self, view: View, query: Float[Tensor, "batch columns"]) -> Float[Tensor, "batch"] | None:
        """See `Rows.teacher`; None for a loss that reads no teacher."""
        scales = {term.scale for _, term in self.loss.terms if term.teacher}
        return view.rest(TeacherNormaliser(scales.pop()), query.detach(), ()) if scales else None

    def step(self, step: SGDStep, buffer: Float[Tensor, "classes subcenters columns"] | None = None) -> bool:
        """Update the centers by SGD after a backward that was `deferred`: chunk by chunk, without their gradient.

        The result equals that of `torch.optim.SGD`, to within rounding.

        Args:
            step: rate, momentum and weight decay.
            buffer: momentum buffer, zeros before the first step, changed in place; None where momentum is 0.

        Returns:
            Whether there was a deferred gradient.

        Raises:
            ValueError: see `check_step`; or the buffer does not fit the momentum.
        """
        if self.deferred_gradient is not None and (buffer is None) != (step.momentum == 0):
            raise ValueError(f"momentum is {step.momentum} and the buffer {'absent' if buffer is None else 'given'}")
        gradient = self.take_deferred()
        if gradient is None:
            return False
        with torch.autocast(self.stored.device.type, enabled=False):
            gradient.apply(step, buffer)
        return True

    def take_deferred(self) -> DeferredGradient | None:
        """Take the deferred gradient out of `centers.grad`, to apply it; None if there is none.

        Raises:
            ValueError: see `check_step`.
        """
        self.check_step()
        deferred = self.deferred_gradient
        self.drop_deferred()
        return None if deferred is None else deferred.gradient

    @property
    def deferred_gradient(self) -> DeferredTensor | None:
        """The deferred gradient; None before a backward pass, and after the centers' gradient was set to None."""
        deferred = self._deferred
        if deferred is not None and deferred.visible and self.stored.grad is None:
            self._deferred = None
        return self._deferred

    def check_step(self) -> None:
        """Raise what `step` would raise, before anything has changed.

        Raises:
            ValueError: the centers have a gradient beside the deferred one, or have changed since its backward pass.
        """
        deferred = self.deferred_gradient
        if deferred is None:
            return
        if self.stored.grad is not None and self.stored.grad is not deferred:
            raise ValueError(
                "the centers have a gradient beside the deferred one: does another term of the loss reach them, or is "
                "the head inside DDP? another term needs torch.optim.SGD and deferred = False; of DDP, wrap the "
                "backbone alone"
            )
        if not deferred.gradient.current:
            raise ValueError(
                "the centers have changed since the backward pass of the deferred gradient; step before that"
            )

    def drop_deferred(self) -> None:
        """Drop the deferred gradient, as `zero_grad` does."""
        if self._deferred is not None and self.stored.grad is self._deferred:
            self.stored.grad = None
        self._deferred = None

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop every gradient, the deferred one too."""
        self.drop_deferred()
        super().zero_grad(set_to_none)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Load centers that were trained with another engine or loss: a random state is kept, or skipped."""
        self.engine.forget(prefix + "centers" in state_dict)  # before momentum that needs no such steps is loaded
        for name, module in (("draws.state", self.draws), ("noise.rows", self.noise)):
            if module is None:
                state_dict.pop(prefix + name, None)
            else:
                state_dict.setdefault(prefix + name, module.get_buffer(name.partition(".")[2]))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def __getstate__(self) -> dict[str, Any]:
        """The state of a copy, without the deferred gradient, as copied parameters have no gradients."""
        self.bring_up()
        return {**self.__dict__, "_deferred": None, "_built_with": is_own(self.loss, self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy has its loss as the original has: built with it, or assigned after building."""
        super().__setstate__(state)
        if self.__dict__.pop("_built_with", True):
            own(self.loss, self)

    def _defer(self, gradient: DeferredGradient) -> None:
        """Take the gradient during a backward pass; at its end the gradient becomes visible in `centers.grad`."""
        if self.deferred_gradient is not None:
            raise ValueError(
                "a second backward pass came before the step of the first: gradients that accumulate need "
                "torch.optim.SGD and deferred = False; zero_grad drops the first one"
            )
        deferred = self._deferred = DeferredTensor(self.stored, gradient, len(self.held) < self.classes)

        def place() -> None:
            deferred.visible = True
            if self.stored.grad is None and self._deferred is deferred:
                self.stored.grad = deferred

        # at the end: autograd would add the gradient of another term of the loss to one that stood here before
        torch.autograd.Variable._execution_engine.queue_callback(place)

    def extra_repr(self) -> str:
        """What `print(head)` shows."""
        return f"classes={self.classes}, size={self.size}, subcenters={self.subcenters.count}"
