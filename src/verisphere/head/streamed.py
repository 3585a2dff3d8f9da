"""The streamed engine: an exact step that goes over the classes chunk by chunk and holds no batch x classes floats.

Pass 1, in the forward, reduces the other classes of each row and computes the gradient in rows and context; it divides
by the softmax's denominator at the end, as attention kernels do. Pass 2, in the backward, computes the centers'
gradient, from derivatives that pass 1 kept in bfloat16 where they fit, and computes them again where not. A loss that
is affine in a sum over its classes has no denominator, and pass 1 computes the centers' gradient too.

Own centers are gathered by an autograd function of this module, and each pass over the classes takes that function's
second output. So autograd runs the backward of the passes first, which only record their row gradients, and then the
backward of the gathering, which computes the centers' gradient in one pass, or defers it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import nan
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from verisphere.base.vocabulary import check_whole, check_word
from verisphere.head.chunk import ChunkTerms
from verisphere.head.interface import DeferredGradient, ViewRequest, WholeEngine, WholeView
from verisphere.head.passes import CenterGradient, Chunks, OtherClasses
from verisphere.losses.class_loss import ClassLoss

Precision = Literal["float32", "bfloat16"]

#: Largest number of a chunk's products, or of entries of its centers, by device: few enough for a CPU's cache, and many
#: enough for a GPU to take longer than the CPU does to launch its work (half a millisecond a chunk beside an H200).
CHUNK_ELEMENTS = {"cpu": 2**20, "cuda": 2**27}

_NO_HOOKS = (
    "the streamed engine cannot run under hooks on saved tensors (checkpoint with use_reentrant=False, save_on_cpu): "
    "call the head outside of them, or give it the dense engine"
)

#: From so many batch x centers products on, element-wise work is compiled unless a setting says otherwise.
COMPILED_ELEMENTS = 2**20


@dataclass(frozen=True)
class Streamed(WholeEngine):
    """Chunks of classes, exactly.

    >>> from verisphere.head import Head
    >>> from verisphere.losses import ArcFace
    >>> Head(ArcFace(), 10, 4, engine=Streamed(chunk=4)).engine.chunk
    4

    Attributes:
        precision: type of the products: "float32", or "bfloat16" with float32 sums over float32 centers. Embeddings or
            centers in float64 are computed in float64, and a loss with `exact_products` in float32 at least.
        chunk: classes a chunk; None chooses by device, batch size, sub-centers and embedding size.
        keep_bytes: bytes that pass 1 may keep for pass 2: 2 for each row and center, for bfloat16 products only.
            Beyond that, pass 2 computes the products once more.
        compile: compile element-wise work; None does so where the products are many enough to be worth the half minute
            of compiling. Where no compiler works it runs eager, and says so once.

    Raises:
        ValueError: an unknown precision, or a number outside its range.
    """

    precision: Precision = "float32"
    chunk: int | None = None
    keep_bytes: int = 2**30
    compile: bool | None = None

    def __post_init__(self) -> None:
        check_word("precision", self.precision, Precision)
        if self.chunk is not None:
            check_whole("chunk", self.chunk)
            if self.chunk < 1:
                raise ValueError(f"chunk is {self.chunk}; it needs at least 1 class")
        check_whole("keep_bytes", self.keep_bytes)
        if self.keep_bytes < 0:
            raise ValueError(f"keep_bytes is {self.keep_bytes}; it must not be negative (0 keeps nothing)")

    def view(self, centers: Float[Tensor, "classes subcenters columns"], request: ViewRequest) -> "StreamedView":
        """The centers for a batch."""
        elements = CHUNK_ELEMENTS.get(centers.device.type, CHUNK_ELEMENTS["cuda"])
        rows, subcenters = len(request.labels), request.subcenters.count
        # of the products and of the copies of centers, whichever are more
        at_most = self.chunk or max(elements // (subcenters * max(rows, centers.shape[2])), 64)
        compiled = rows * centers.shape[:2].numel() >= COMPILED_ELEMENTS if self.compile is None else self.compile
        cosine = request.similarity == "cosine"
        teacher = None if request.teacher is None else request.teacher.centers
        chunks = Chunks(centers.detach(), at_most, request.dtype, cosine, compiled, request.class_weights, teacher)
        return StreamedView(self, chunks, centers, request)


class StreamedView(WholeView):
    """The centers for one batch, in chunks without gradient, and as they are with gradient; see `View`."""

    def __init__(
        self,
        engine: Streamed,
        chunks: Chunks,
        centers: Float[Tensor, "classes subcenters columns"],
        request: ViewRequest,
    ) -> None:
        self._engine, self._chunks = engine, chunks
        self._budget = engine.keep_bytes
        self._gradient = CenterGradient(chunks, request.labels)
        own_centers, self._token = _Gather.apply(self._gradient, request.defer, centers, request.labels)
        super().__init__(own_centers, centers, request)

    def rest(
        self,
        loss: ClassLoss,
        query: Float[Tensor, "batch columns"],
        context: tuple[Float[Tensor, "batch"], ...],
        row_gradient: Float[Tensor, "batch"] | None = None,
    ) -> Float[Tensor, "batch"]:
        """See `View.rest`."""
        with torch.autograd.graph.disable_saved_tensors_hooks(_NO_HOOKS):
            pass  # raises under such hooks
        tracked = torch.is_grad_enabled()
        differentiated = tuple(tracked and item.requires_grad for item in context)
        # the teacher's cosines follow the context, as constants
        terms = ChunkTerms(loss, self.request.subcenters, query.dtype, differentiated + (False,) * loss.teacher)
        product_dtype = query.dtype
        if self._engine.precision == "bfloat16" and query.dtype == torch.float32 and not loss.exact_products:
            product_dtype = torch.bfloat16
        if self.request.defer is not None or not self._token.requires_grad:
            row_gradient = None
        needed = 2 * len(query) * self._chunks.centers.shape[:2].numel()
        keep = (
            product_dtype == torch.bfloat16
            and tracked
            and self._token.requires_grad
            and row_gradient is None
            and needed <= self._budget
        )
        if keep:
            self._budget -= needed
        others = OtherClasses(
            terms,
            query.detach(),
            self.request.labels,
            tuple(item.detach() for item in context),
            product_dtype,
            keep,
            None if self.request.teacher is None else self.request.teacher.rows,
        )
        return _Rest.apply(self._gradient, others, row_gradient, self._token, query, *context)

    def spread(self, columns: int) -> Float[Tensor, ""]:
        """The mean over the classes of the distance between their sub-centers, by the first `columns` columns."""
        return _Spread.apply(self._gradient, columns, self._token)


class _Gather(torch.autograd.Function):
    """Gathers own centers, and returns a token whose consumers run their backward before this function's."""

    @staticmethod
    def forward(
        ctx: Any,
        gradient: CenterGradient,
        defer: Callable[[DeferredGradient], None] | None,
        centers: Tensor,
        labels: Tensor,
    ) -> tuple[Tensor, Tensor]:
        ctx.gradient, ctx.defer = gradient, defer
        ctx.save_for_backward(centers)  # so that autograd refuses centers changed in the meantime
        return centers[labels.clamp(min=0)], centers.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_own: Tensor, by_token: Tensor) -> tuple[None, None, Tensor | None, None]:
        _ = ctx.saved_tensors
        gradient: CenterGradient = ctx.gradient
        gradient.complete(by_own)
        if ctx.defer is not None:
            ctx.defer(gradient)
            return None, None, None, None
        with torch.autocast(by_own.device.type, enabled=False):
            return None, None, gradient.compute(), None


class _Rest(torch.autograd.Function):
    """Pass 1 of a loss; its backward records the row gradient for pass 2."""

    @staticmethod
    def forward(
        ctx: Any,
        gradient: CenterGradient,
        others: OtherClasses,
        row_gradient: Tensor | None,
        token: Tensor,
        query: Tensor,
        *context: Tensor,
    ) -> Tensor:
        ctx.gradient, ctx.others, ctx.row_gradient = gradient, others, row_gradient
        write = None
        if row_gradient is not None:
            others.set_row_gradient(row_gradient)
            write = gradient.start()
        rest, by_query, by_context = others.first_pass(gradient.chunks, query.requires_grad, write)
        computed = iter(by_context)
        ctx.by_query = by_query
        wanted = others.terms.differentiated[: len(context)]
        ctx.by_context = [next(computed) if want else None for want in wanted]
        return rest

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_rest: Tensor) -> tuple[Tensor | None, ...]:
        gradient: CenterGradient = ctx.gradient
        if ctx.row_gradient is None:
            gradient.others[ctx.others] = by_rest
        else:
            gradient.factor = _factor(by_rest, ctx.row_gradient)
        by_query = None if ctx.by_query is None else ctx.by_query * by_rest[:, None]
        by_context = (None if derivative is None else derivative * by_rest for derivative in ctx.by_context)
        return None, None, None, by_rest.new_zeros(()), by_query, *by_context


class _Spread(torch.autograd.Function):
    """The mean spread of the classes; its backward records its gradient for pass 2."""

    @staticmethod
    def forward(ctx: Any, gradient: CenterGradient, columns: int, token: Tensor) -> Tensor:
        ctx.gradient, ctx.columns = gradient, columns
        centers = gradient.chunks.centers
        sums = [chunk.spread(chunk.by_class(centers.shape[1])[..., :columns]) for chunk in gradient.chunks]
        return torch.stack(sums).sum() / gradient.chunks.total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_spread: Tensor) -> tuple[None, None, Tensor]:
        gradient: CenterGradient = ctx.gradient
        gradient.pull = by_spread / gradient.chunks.total, ctx.columns
        return None, None, torch.zeros_like(by_spread)


def _factor(gradient: Float[Tensor, "batch"], expected: Float[Tensor, "batch"]) -> float:
    """The factor between the expected gradient and the actual one; NaN where the latter is not finite."""
    largest = int(expected.abs().argmax())
    factor = float(gradient[largest] / expected[largest]) if expected[largest] != 0 else 0.0
    if not torch.allclose(gradient, factor * expected, rtol=1e-4):
        if not gradient.isfinite().all():
            return nan  # the training diverged, which the training loop reports
        raise ValueError(
            "a loss says that it is linear, but the gradient in its reduced others is not what its slope() says; "
            "is `finish` affine in `rest`, with that slope?"
        )
    return factor
