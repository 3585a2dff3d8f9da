"""The two passes of the streamed engine over the chunks of classes; plain tensors, no autograd."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, inf, log
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from verisphere.base.compiling import fused
from verisphere.base.vocabulary import NO_CLASS
from verisphere.head.chunk import ChunkTerms, add_to_momentum, inverse_length, step_by_momentum, write_gradient
from verisphere.head.interface import SGDStep
from verisphere.head.subcenters import spread
from verisphere.losses.class_loss import ClassLoss

#: A float32 exponential has room for about +-87. Logits in [-64, 64] less (64 - 60 + log N) add up to at most exp(60)
#: over N classes, and with up to a hundred million of them each is above exp(-87): a loss with such a bound needs no
#: running maximum. The remaining range at the upper end is for the slope of a cosine, 1 / length of a center.
SAFE_BOUND, SAFE_SUM = 64.0, 60.0


def known_shift(loss: ClassLoss, classes: int) -> float | None:
    """The shift that may be subtracted from every logit of a softmax over so many classes; None if it is not known."""
    bound = loss.bound()
    return None if bound is None or bound > SAFE_BOUND else bound - SAFE_SUM + log(classes)


def chunk_size(classes: int, at_most: int, device: str) -> int:
    """The number of classes in a chunk: chunks of nearly equal sizes, on a GPU of a multiple of 64 classes.

    Products whose rows do not begin at a multiple of 16 bytes took 4 times as long on an H200.
    """
    size = ceil(classes / ceil(classes / at_most))
    aligned = ceil(size / 64) * 64
    return aligned if device != "cpu" and aligned <= at_most else size


@dataclass(frozen=True)
class Chunk:
    """A run of consecutive classes.

    Attributes:
        stored: the centers as stored, K rows a class, in the dtype to compute in.
        inverse: one over the lengths of the centers; None where the loss compares products.
        class_weight: how often each class counts in a sum or a mean over the classes; None counts each once.
        teacher: the teacher's centers of these classes; None without a teacher.
    """

    index: int
    first: int
    stored: Float[Tensor, "centers columns"]
    inverse: Float[Tensor, "centers"] | None
    class_weight: Float[Tensor, "classes"] | None = None
    teacher: Float[Tensor, "classes teacher_dim"] | None = None

    def by_class(self, subcenters: int) -> Float[Tensor, "classes subcenters columns"]:
        """The centers, grouped by class."""
        return self.stored.unflatten(0, (-1, subcenters))

    def spread(self, centers: Float[Tensor, "classes subcenters columns"]) -> Float[Tensor, ""]:
        """The sum of `spread` over the chunk's classes, times their weights."""
        spreads = spread(centers)
        return (spreads if self.class_weight is None else spreads * self.class_weight).sum()


class Chunks:
    """The centers, chunk by chunk; their lengths are computed in the first pass and kept for the next.

    They have nearly equal numbers of classes, `at_most` so many. `cosine` says whether directions are compared.
    """

    def __init__(
        self,
        centers: Float[Tensor, "classes subcenters columns"],
        at_most: int,
        dtype: torch.dtype,
        cosine: bool,
        compiled: bool = False,
        class_weights: Float[Tensor, "classes"] | None = None,
        teacher: Float[Tensor, "classes teacher_dim"] | None = None,
    ) -> None:
        self.centers, self.dtype, self.cosine, self.compiled = centers, dtype, cosine, compiled
        self.size = chunk_size(len(centers), at_most, centers.device.type)
        self._class_weights, self._teacher = class_weights, teacher
        #: Divisor of a mean over the classes.
        self.total = float(len(centers)) if class_weights is None else class_weights.sum()
        self._inverse: list[Tensor] = []

    def __iter__(self) -> Iterator[Chunk]:
        for index, first in enumerate(range(0, len(self.centers), self.size)):
            stored = self.centers[first : first + self.size].flatten(0, 1).to(self.dtype)
            if self.cosine and index == len(self._inverse):
                self._inverse.append(inverse_length(stored))
            weight = None if self._class_weights is None else self._class_weights[first : first + self.size]
            teacher = None if self._teacher is None else self._teacher[first : first + self.size]
            yield Chunk(index, first, stored, self._inverse[index] if self.cosine else None, weight, teacher)

    def run(self, function: Callable[..., Any], loss: type | None = None) -> Callable[..., Any]:
        """The element-wise function to call: compiled, where these chunks are, for this type of loss."""
        return fused(function, self.centers.device.type, loss) if self.compiled else function

    def rows_of(
        self, tensor: Float[Tensor, "classes subcenters columns"], chunk: Chunk
    ) -> Float[Tensor, "centers columns"]:
        """The rows of a chunk in a tensor of the centers' shape; a view."""
        return tensor[chunk.first : chunk.first + self.size].flatten(0, 1)


class OtherClasses:
    """The other classes of one batch under one loss: pass 1, and for pass 2 its share of the centers' gradient.

    Args:
        labels: class of each row; a number outside the classes excludes none.
        product_dtype: type of the operands and results of products.
        keep: whether pass 1 keeps its derivatives for pass 2, which otherwise computes them again.
    """

    def __init__(
        self,
        terms: ChunkTerms,
        query: Float[Tensor, "batch columns"],
        labels: Int64[Tensor, "batch"],
        context: tuple[Float[Tensor, "batch"], ...],
        product_dtype: torch.dtype,
        keep: bool,
        teacher: Float[Tensor, "batch teacher_dim"] | None = None,
    ) -> None:
        # no class is excluded where a teacher is compared with
        labels = torch.full_like(labels, NO_CLASS) if terms.loss.teacher else labels
        self.terms, self._query, self._labels = terms, query, labels.to(torch.int32)
        self._teacher = teacher.to(product_dtype) if terms.loss.teacher and teacher is not None else None
        self._context = tuple(item[:, None] for item in context)
        self._operand = query.to(product_dtype)
        self._kept: list[Tensor] | None = [] if keep else None
        self._shifts: list[Tensor] = []  # one a chunk; minus infinity for a row without another class so far
        self._over_sums: Tensor | None = None
        self._row_weight: Tensor | None = None
        self._weighted: Tensor | None = None

    def first_pass(
        self, chunks: Chunks, rows: bool, write: Callable[[Chunk, Float[Tensor, "centers columns"]], None] | None = None
    ) -> tuple[Float[Tensor, "batch"], Float[Tensor, "batch columns"] | None, list[Float[Tensor, "batch"]]]:
        """The reduced others of each row, and their gradients in the query and in the context's differentiated items.

        `write` receives each chunk and its `product_gradient`, for which `set_row_gradient` was called before.
        """
        fixed = self._fixed_shift(len(chunks.centers))
        top = self._query.new_full((len(self._query),), -inf) if fixed is None else fixed
        sums, by_query = torch.zeros_like(top), torch.zeros_like(self._query)
        by_context = [torch.zeros_like(top) for want in self.terms.differentiated if want]
        kind = type(self.terms.loss)
        weighed, highest = chunks.run(ChunkTerms.weighed, kind), chunks.run(ChunkTerms.highest, kind)
        for chunk in chunks:
            product, operand, own_column = self._products(chunk)
            context = self._context_of(chunk)
            if fixed is None:
                higher = highest(self.terms, product, chunk.inverse, own_column, context).maximum(top)
                rescale = (top - _finite(higher)).exp()
                for total in (sums, by_query.T, *by_context):
                    total *= rescale
                top = higher
            self._shifts.append(top)
            chunk_sums, by_product, chunk_by_context = weighed(
                self.terms, product, chunk.inverse, own_column, _finite(top), context, self._class_weight(chunk)
            )
            sums += chunk_sums
            if rows:
                by_query += by_product @ operand
            for total, of_chunk in zip(by_context, chunk_by_context, strict=True):
                total += of_chunk[:, 0]
            if self._kept is not None:
                self._kept.append(by_product)
            if write is not None:
                write(chunk, by_product.T @ self._weighted_rows(chunk))
        if self.terms.loss.reduce != "logsumexp":
            return sums, by_query if rows else None, by_context
        self._over_sums = torch.where(sums > 0, 1.0 / sums, 0.0)  # a row without another class has the sum 0
        for total in (by_query.T, *by_context):
            total *= self._over_sums
        return top + sums.log(), by_query if rows else None, by_context

    def set_row_gradient(self, row_gradient: Float[Tensor, "batch"]) -> None:
        """Set the gradient of the mean loss in each row's reduced others, the factor that the derivatives lack."""
        self._row_weight = row_gradient if self._over_sums is None else row_gradient * self._over_sums
        self._weighted = None

    def scale(self, factor: Float[Tensor, ""] | float) -> None:
        """Multiply the row gradient that was set by a number."""
        assert self._row_weight is not None, "set_row_gradient comes before"
        self._row_weight = self._row_weight * factor
        self._weighted = None

    def product_gradient(self, chunks: Chunks, chunk: Chunk) -> Float[Tensor, "centers columns"]:
        """For each center of a chunk the sum over the rows of dL / d product * query; after `set_row_gradient`."""
        if self._kept is not None:
            by_product = self._kept[chunk.index]
        else:
            product, _, own_column = self._products(chunk)
            shift = _finite(self._shifts[chunk.index])
            weighed = chunks.run(ChunkTerms.weighed, type(self.terms.loss))
            context = self._context_of(chunk)
            _, by_product, _ = weighed(
                self.terms, product, chunk.inverse, own_column, shift, context, self._class_weight(chunk)
            )
        return by_product.T @ self._weighted_rows(chunk)

    def _fixed_shift(self, classes: int) -> Float[Tensor, "batch"] | None:
        """The shift of every logit if it is known before the pass; None requires a running maximum."""
        # A sum has no exponentials, so it needs no shift.
        shift = 0.0 if self.terms.loss.reduce != "logsumexp" else known_shift(self.terms.loss, classes)
        return None if shift is None else self._query.new_full((len(self._query),), shift)

    def _context_of(self, chunk: Chunk) -> tuple[Float[Tensor, "batch _"], ...]:
        """The items of the context, and after them the teacher's cosines for a loss that reads them."""
        if self._teacher is None or chunk.teacher is None:
            return self._context
        cosines = self._teacher @ chunk.teacher.to(self._teacher.dtype).T
        return (*self._context, cosines.to(self.terms.dtype))

    def _class_weight(self, chunk: Chunk) -> Float[Tensor, "classes"] | None:
        counted_once = self.terms.loss.teacher or self.terms.loss.reduce == "normalised"
        return None if counted_once else chunk.class_weight

    def _products(self, chunk: Chunk) -> tuple[Tensor, Tensor, Tensor]:
        operand = chunk.stored.to(self._operand.dtype)
        return self._operand @ operand.T, operand, self._labels - chunk.first

    def _weighted_rows(self, chunk: Chunk) -> Float[Tensor, "batch columns"]:
        """The rows of the query times the factors that this chunk's derivatives lack."""
        assert self._row_weight is not None, "set_row_gradient comes before"
        shift, last = self._shifts[chunk.index], self._shifts[-1]
        if shift is last and self._weighted is not None:
            return self._weighted
        since = torch.where(shift == -inf, 0.0, (shift - last).exp())  # derivatives of a higher shift are smaller
        weighted = (self._query * (self._row_weight * since)[:, None]).to(self._operand.dtype)
        if shift is last:
            self._weighted = weighted
        return weighted


class CenterGradient:
    """The deferred gradient of the centers: what it takes to compute it chunk by chunk, after the rows' backward pass.

    Attributes:
        own: gradient in each row's own centers.
        others: the losses that contribute by their other classes, with the gradient in each row's reduced others. A
            backward pass that stops at the embeddings sets it, too, and the next one overwrites it.
        pull: gradient in each class's `spread`, and the number of columns that the spread is measured by.
        computed: the gradient without the own centers' share, where pass 1 has computed it.
        factor: upstream factor of `computed`, known after the backward pass.
    """

    def __init__(self, chunks: Chunks, labels: Int64[Tensor, "batch"]) -> None:
        self.chunks, self.labels = chunks, labels.clamp(min=0)
        # Tensors of inference mode have no version, and no gradient.
        self._version = 0 if chunks.centers.is_inference() else chunks.centers._version
        self.own: Tensor | None = None
        self.others: dict[OtherClasses, Tensor] = {}
        self.pull: tuple[Tensor, int] | None = None
        self.computed: Tensor | None = None
        self.factor = 0.0
        self._in_pass_1 = False

    @property
    def current(self) -> bool:
        """Whether the centers are still those that the gradient belongs to."""
        return bool(self.chunks.centers._version == self._version)

    def start(self) -> Callable[[Chunk, Float[Tensor, "centers columns"]], None]:
        """A function that stores each chunk's `product_gradient` during pass 1."""
        computed = self.computed = torch.empty_like(self.chunks.centers)
        self._in_pass_1 = True
        return lambda chunk, by_product: self._write(computed, chunk, by_product)

    def complete(self, own: Float[Tensor, "batch subcenters columns"]) -> None:
        """Set the gradient in the own centers, which arrives last, and fix the row gradients of `others`."""
        self.own = own
        for others, row_gradient in self.others.items():
            others.set_row_gradient(row_gradient)

    def compute(self) -> Float[Tensor, "classes subcenters columns"]:
        """Compute the gradient as a tensor of the centers' shape; once for each backward pass, after `complete`."""
        gradient, self.computed = self.computed, None  # without a reference here autograd need not copy it
        if gradient is None:
            if self._in_pass_1:
                raise ValueError(
                    "a second backward pass through one forward pass: a linear loss computes the gradient once, "
                    "in the forward pass"
                )
            gradient = torch.empty_like(self.chunks.centers)
            for chunk in self.chunks:
                self._write(gradient, chunk, self._by_product(chunk))
        elif self.factor != 1.0:  # rare, and costs one more pass over memory
            gradient *= self.factor
        assert self.own is not None, "complete comes before"
        gradient.index_add_(0, self.labels, self.own)
        self.own, self.pull = None, None
        self.others.clear()
        return gradient

    def apply(self, step: SGDStep, buffer: Float[Tensor, "classes subcenters columns"] | None) -> None:
        """Update centers and momentum buffer, as `torch.optim.SGD` would with this gradient; only while `current`."""
        centers = self.chunks.centers
        assert self.own is not None, "complete comes before"
        add, step_by = self.chunks.run(add_to_momentum), self.chunks.run(step_by_momentum)
        momentum, none, decay, rate = (
            torch.tensor(number, dtype=centers.dtype, device=centers.device)
            for number in (step.momentum, 0.0, step.weight_decay, step.rate)
        )

        def change_of(chunk: Chunk, rows: Tensor) -> Tensor:
            by_product = self._by_product(chunk)
            old = None if buffer is None else self.chunks.rows_of(buffer, chunk)
            if old is not None and not step.nesterov:
                add(old, by_product, rows, chunk.inverse, momentum, decay)
                return old
            gradient = torch.zeros_like(rows)
            add(gradient, by_product, rows, chunk.inverse, none, decay)
            return gradient if old is None else gradient + step.momentum * old.mul_(momentum).add_(gradient)

        for chunk in self.chunks:
            rows = self.chunks.rows_of(centers, chunk)
            if buffer is not None and not step.nesterov and rows.device.type != "cpu":
                old = self.chunks.rows_of(buffer, chunk)
                step_by(old, self._by_product(chunk), rows, chunk.inverse, momentum, decay, rate)
                continue
            rows.add_(
                change_of(chunk, rows), alpha=-step.rate
            )  # a call of its own: the rows are still in the cache, and no rate is compiled in
        # The own centers last: the step is linear in the gradient, and these are few rows.
        ahead = 1.0 + step.momentum if step.nesterov else 1.0
        centers.index_add_(0, self.labels, self.own, alpha=-step.rate * ahead)
        if buffer is not None:
            buffer.index_add_(0, self.labels, self.own)

    def blocks(self) -> Iterator[Float[Tensor, "centers columns"]]:
        """Compute the gradient chunk by chunk; only after `complete`, and while `current`."""
        assert self.own is not None, "complete comes before"
        write = self.chunks.run(write_gradient)
        for chunk in self.chunks:
            gradient = torch.empty_like(chunk.stored)
            write(gradient, self._by_product(chunk), chunk.stored, chunk.inverse)
            by_class = chunk.by_class(self.chunks.centers.shape[1])
            here = ((self.labels >= chunk.first) & (self.labels < chunk.first + len(by_class))).nonzero()[:, 0]
            own = self.own[here].to(gradient)
            gradient.view_as(by_class).index_add_(0, self.labels[here] - chunk.first, own)
            yield gradient

    def scale(self, factor: Float[Tensor, ""] | float) -> None:
        """Multiply the gradient by a number; only after `complete`."""
        assert self.own is not None, "complete comes before"
        self.own = self.own * factor
        for others in self.others:
            others.scale(factor)
        if self.pull is not None:
            weight, columns = self.pull
            self.pull = weight * factor, columns

    def _by_product(self, chunk: Chunk) -> Float[Tensor, "centers columns"]:
        """The sum of `product_gradient` over the losses, plus the gradient of the spread.

        The latter is orthogonal to the centers, so it may be added before the component along them is removed.
        """
        parts = [others.product_gradient(self.chunks, chunk) for others in self.others]
        if self.pull is not None:
            weight, columns = self.pull
            centers = chunk.by_class(self.chunks.centers.shape[1])
            by_center = torch.func.grad(lambda every: chunk.spread(every[..., :columns]))(centers)
            parts.append(weight * by_center.flatten(0, 1))
        return sum(parts[1:], parts[0]) if parts else torch.zeros_like(chunk.stored)

    def _write(self, gradient: Tensor, chunk: Chunk, by_product: Tensor) -> None:
        write = self.chunks.run(write_gradient)
        write(self.chunks.rows_of(gradient, chunk), by_product, chunk.stored, chunk.inverse)


def _finite(shift: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
    return shift.masked_fill(shift == -inf, 0.0)
