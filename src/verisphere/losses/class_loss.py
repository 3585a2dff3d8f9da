"""The interface of a class-center loss, by which every engine can run it.

A loss defines a function of the own-class cosine, a function of the cosines to the other classes, and how the two
become one number a row. It never sees the class centers, nor whether they are sharded: all engines call the same few
element-wise methods. A head calls `observe` (in training only), `context`, `own`, `others` and `finish`, in this order.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from inspect import signature
from math import inf, isfinite
from typing import Literal, NoReturn

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from verisphere.base.vocabulary import NO_CLASS
from verisphere.score.cosine import unit

Reduce = Literal["logsumexp", "sum", "normalised"]
Similarity = Literal["cosine", "product"]
Query = Literal["embedding", "own_center", "none"]

#: From a function of cosines to sums over a row's other classes, float64 (numbers, batch), without gradient.
Sums = Callable[[Callable[[Tensor], tuple[Tensor, ...]]], Tensor]


@dataclass(frozen=True)
class Rows:
    """The batch as a loss may see it; `own`, `length` and `unit` carry gradient.

    >>> own, length, labels = torch.tensor([0.5]), torch.tensor([20.0]), torch.tensor([3])
    >>> Rows(own, length, torch.eye(1, 4), labels).nearest is None
    True

    Attributes:
        own: own-class cosine (or product), pooled over the sub-centers; 0 for a row labelled -1.
        length: Euclidean length of the embedding.
        unit: embedding divided by its length.
        labels: class number, or -1 for 'no known class'.
        nearest: cosines of the nearest other classes, descending, as constants: `ClassLoss.nearest` of them, or fewer
            if there are fewer classes; minus infinity where a row has fewer than other rows. None if no loss needs
            them.
        noise: standard normal numbers, as constants; as many as `ClassLoss.noise` asks for. They are the same on every
            rank, and a loss may use no other random numbers. None if no loss needs them, and in evaluation mode, where
            a loss uses the mean of its draws.
        sums: takes a function from cosines to a tuple of tensors of their shape, and returns their sums over the other
            classes, in one pass over all; every rank calls it equally often. None where `nearest` has all classes.
    """

    own: Float[Tensor, "batch"]
    length: Float[Tensor, "batch"]
    unit: Float[Tensor, "batch dim"]
    labels: Int64[Tensor, "batch"]
    nearest: Float[Tensor, "batch nearest"] | None = None
    noise: Float[Tensor, "batch noise"] | None = None
    teacher: Float[Tensor, "batch"] | None = None
    sums: Sums | None = None


class ClassLoss(nn.Module):
    """Base of every class-center loss. Unchanged it is NormFace: every logit is `scale` times the cosine.

    >>> class Doubled(ClassLoss):
    ...     def own(self, cosine, *context):
    ...         return self.scale * (2.0 * cosine - 1.0)
    >>> Doubled(scale=4.0).forward(torch.tensor([[0.5, 0.3]]), torch.tensor([0]))  # log(1 + exp(4 * 0.3))
    tensor(1.4633)

    Attributes:
        reduce: how the other classes combine: "logsumexp" (softmax losses), "sum" (binary losses, which also accept
            rows labelled -1), or "normalised": a sum of terms that contain a normaliser of all classes, from `context`.
        similarity: "cosine", or "product" of raw embeddings and raw centers (plain softmax).
        class_bias: whether the head stores a bias for each class, as an additional column of the centers; needs
            `similarity = "product"`.
        query: the vector that the other centers are compared with: the "embedding", the "own_center" (inter-class
            losses), or "none": the loss needs no other center and `rest` is 0. The own cosine is always that of the
            embedding.
        nearest: number of a row's nearest other classes that `Rows` must contain; each batch then costs one more pass
            over all centers, without gradient.
        noise: number of random numbers that `Rows` must contain for each row in training. A loss that drew them itself
            would have another value on each rank. The terms of a sum receive the same numbers.
        linear: whether `finish` is affine in `rest` with a slope known beforehand, and, of a "sum", `context` and
            `observe` do not read `rows.own`; see `one_pass` and `partial_losses`.
        exact_products: whether `others` needs cosines in float32 at least, such as for an angle, whose slope 1 / sin
            near cosine 1 magnifies the rounding. Otherwise an engine may round products to bfloat16.
        teacher: whether the term compares with a teacher (distillation). `others` then receives, after the context,
            the teacher's cosine of each row and class as constants, and its terms are reduced over all classes, the own
            class among them. A sum counts each class once, also those that an engine has drawn.
        scale: factor from cosine to logit.
        strength: share of the margin that the loss applies, see `set_strength`.
        classes: number of classes, set by `prepare`; 0 before.

    Raises:
        ValueError: `scale` is not a positive finite number.
    """

    reduce: Reduce = "logsumexp"
    similarity: Similarity = "cosine"
    class_bias: bool = False
    query: Query = "embedding"
    nearest: int = 0
    noise: int = 0
    linear: bool = False
    exact_products: bool = False
    teacher: bool = False

    def __init__(self, scale: float) -> None:
        super().__init__()
        if not (isfinite(scale) and scale > 0):
            raise ValueError(f"scale is {scale}; it must be a positive finite number (64 is usual for softmax losses)")
        self.scale = scale
        self.strength = 1.0
        self.classes = 0

    @property
    def moves(self) -> bool:
        """Whether two passes of one batch in training differ: by state that moves, or by random numbers."""
        moves = self.noise > 0 or type(self).observe is not ClassLoss.observe
        return moves or any(term.moves for _, term in self.terms if term is not self)

    @property
    def of_batch(self) -> bool:
        """Whether the loss of a row depends on the other rows of the global batch, so that parts give another loss.

        State and random numbers do; a loss whose `context` compares rows says so by an override.
        """
        return self.moves or any(term.of_batch for _, term in self.terms if term is not self)

    def set_strength(self, share: float) -> None:
        """Set the share of its margin that the loss applies: 0 is no margin, 1 (the initial value) the whole margin.

        A warm-up schedule calls this on any loss; a loss without a margin ignores it. The strength is a setting and not
        state: the schedule sets it again after a checkpoint was loaded. `own`, `finish` and `context` read
        `self.strength`; `others` must receive through `context` whatever depends on it, since engines may compile
        `others`.

        Raises:
            ValueError: `share` is outside [0, 1].
        """
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"share is {share}; the strength of a margin must be in [0, 1]")
        self.strength = float(share)

    @property
    def terms(self) -> tuple[tuple[float, "ClassLoss"], ...]:
        """(weight, loss) of each loss that a head runs over the same centers and adds up; for a plain loss itself."""
        return ((1.0, self),)

    def prepare(self, classes: int) -> None:
        """Set the global number of classes; called once, when the head is built. An override calls this too."""
        self.classes = classes

    @property
    def class_domains(self) -> tuple[str, ...]:
        """Names of the domains that the loss distinguishes, in one of which each class must lie; empty for most losses.

        A training of a loss that has such names calls `prepare_domains`, and refuses data that do not fit them.
        """
        return ()

    def prepare_domains(self, domains: Sequence[str] | None) -> None:  # most losses need none
        """Take the domain of each class, before the training; a loss that treats all classes alike ignores it.

        Args:
            domains: name of each class's domain, in the order of the classes; None for data without domains.

        Raises:
            ValueError: the loss cannot be used with these domains.
        """

    def observe(self, rows: Rows) -> None:
        """Update slow state (running means) from the global batch; called in training only, without gradient.

        A training may skip steps whose batch contains NaN or infinity: `follow` leaves the state unchanged then.
        """

    def context(self, rows: Rows) -> tuple[Float[Tensor, "..."], ...]:
        """The inputs of the element-wise methods besides cosines, as scalars () or one number a row (batch,).

        State, lengths and learnable numbers reach those methods through the context only, which ordinary autograd
        differentiates. Each item reaches `own` and `finish` as (batch,) and `others` as (batch, 1), in this order.
        """
        return ()

    def own(self, cosine: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """The own-class logit or term. For a row labelled -1 the head replaces it by 0."""
        return self.scale * cosine

    def others(
        self, cosine: Float[Tensor, "batch classes"], *context: Float[Tensor, "batch 1"]
    ) -> Float[Tensor, "batch classes"]:
        """The other-class logits or terms: an element-wise pure function; the head masks the own class afterwards.

        `torch.func.vjp` differentiates it inside a chunk of classes, so value and gradient must be finite on [-1, 1]
        and within rounding beyond. `detach` is allowed.
        """
        return self.scale * cosine

    def finish(
        self, own: Float[Tensor, "batch"], rest: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]
    ) -> Float[Tensor, "batch"]:
        """The loss of each row from its own term and the reduced others; by default the softmax cross entropy.

        log(1 + exp(rest - own)) equals -log softmax of the own logit, and needs no tensor of all logits. `rest` is
        minus infinity if there is no other class.
        """
        return F.softplus(rest - own)

    def slope(self) -> float:
        """The derivative of `finish` in `rest`, the same for every row; used where `linear` is set."""
        return 1.0

    def one_pass(self, pull_together: float = 0.0) -> bool:
        """Whether one pass over the classes is enough, since the gradient in `rest` is known before `rest` itself.

        This needs a single term that is `linear` and sums over the classes. A softmax divides by its denominator first,
        even if `finish` is linear in the result.

        Args:
            pull_together: weight of the mean distance between sub-centers, whose gradient needs a second pass.
        """
        terms = self.terms
        return len(terms) == 1 and terms[0][1].linear and terms[0][1].reduce != "logsumexp" and not pull_together

    def partial_losses(self, pull_together: float = 0.0) -> bool:
        """Whether each rank computes a summand of every row's loss, so that own cosines are not exchanged.

        Args:
            pull_together: weight of the mean distance between sub-centers.
        """
        return self.linear and self.reduce == "sum" and self.one_pass(pull_together) and self.query != "own_center"

    def zero_up_to(self, *context: Float[Tensor, "batch"]) -> Float[Tensor, "batch"] | None:
        """The cosine of each row up to which `others` and its derivative are exactly 0; None if they are 0 nowhere."""
        return None

    def bound(self) -> float | None:
        """The largest value that `others` can take; None if it is not known.

        With a bound up to 64 an engine fixes the shift of its exponentials before its pass over the classes. Values
        below -64 would then be lost, so a loss that has such values returns None.
        """
        return None

    def __call__(self, *inputs: object, **named: object) -> NoReturn:
        """Always raises a TypeError, which names the call that builds a head: a loss has no class centers by itself."""
        name = type(self).__name__
        raise TypeError(
            f"{name} has no class centers, so it cannot be called: write head = verisphere.Head({name}(...), classes, "
            "size) and call head(embeddings, labels); loss.forward(cosines, labels) takes cosines to every class"
        )

    def forward(self, cosines: Tensor, labels: Tensor, *, norms: Tensor | None = None) -> Float[Tensor, ""]:
        """The mean loss over a whole matrix of cosines: the reference value, without centers or changes of state.

        The value is that of a head in evaluation mode: running state stays, and a random margin is the mean of its
        draws. A loss that no head has prepared is computed as a head with this number of classes would prepare it.

        >>> loss = ClassLoss(scale=64.0)
        >>> loss.forward(torch.tensor([[0.5, 0.5], [0.1, 0.9]]), torch.tensor([0, 1]))
        tensor(0.3466)

        Args:
            cosines: (batch, classes); for similarity "product" the logits themselves, with their bias. Half precision
                is computed in float32.
            labels: (batch,) class numbers; -1, 'no known class', is for losses that sum over the classes.
            norms: (batch,) lengths of the embeddings, for a loss that reads them.

        Raises:
            ValueError: shapes that do not fit, numbers that are no cosines, labels out of range, or a loss that needs
                more than cosines.
        """
        cosines = checked_cosines(self, cosines, labels, norms)
        loss = self
        if not loss.classes:
            loss = deepcopy(self)
            loss.prepare(cosines.shape[1])
        if loss.classes not in (0, cosines.shape[1]):
            raise ValueError(f"cosines have {cosines.shape[1]} columns, but the loss belongs to {loss.classes} classes")
        with torch.autocast(cosines.device.type, enabled=False):
            per_row = loss_of_cosines(loss, cosines, labels, norms)
            if per_row.isnan().any():  # NaN marks the rows that read an unknown value
                by_length = (
                    norms is None and not loss_of_cosines(loss, cosines, labels, cosines[:, 0] + 20.0).isnan().any()
                )
                unknown = "the lengths of the embeddings: give norms=" if by_length else "the embeddings: use a head"
                raise ValueError(f"{type(self).__name__} cannot be computed from cosines alone; it reads {unknown}")
            return per_row.mean()

    def argument(self, name: str) -> object:
        """The value that the caller gave under this name; a loss that stores it under another name overrides this."""
        return getattr(self, name)

    def extra_repr(self) -> str:
        """The arguments under the names that the caller typed, which `print(loss)` shows."""
        shown: list[str] = []
        for name in signature(type(self)).parameters:
            with suppress(AttributeError):  # an argument of a user's loss that stores it under another name
                shown.append(f"{name}={self.argument(name)!r}")
        return ", ".join(shown)


def follow(state: Float[Tensor, ""], value: Float[Tensor, ""], rate: float) -> None:
    """Update a running mean in place: state <- (1 - rate) * state + rate * value; skips a value that is not finite.

    >>> mean = torch.tensor(1.0)
    >>> follow(mean, torch.tensor(3.0), rate=0.5)
    >>> mean
    tensor(2.)
    """
    value = value.to(state)
    state.lerp_(torch.where(value.isfinite(), value, state), rate)  # without waiting for the device


def compared_rows(rows: Float[Tensor, "*rows dim"], similarity: Similarity) -> Float[Tensor, "*rows dim"]:
    """Rows (embeddings or centers) ready for comparison: of unit length for "cosine", unchanged for "product"."""
    return unit(rows) if similarity == "cosine" else rows


def reduced_others(
    loss: ClassLoss,
    cosines: Float[Tensor, "batch classes"],
    labels: Int64[Tensor, "batch"],
    *context: Float[Tensor, "batch"],
    class_weights: Float[Tensor, "classes"] | None = None,
    teacher: Float[Tensor, "batch classes"] | None = None,
) -> Float[Tensor, "batch"]:
    """The other classes of each row, reduced as `loss.reduce` says: minus infinity or 0 where there are none.

    Args:
        class_weights: how often each class counts in a "sum"; None counts each once, and so do the other losses.
        teacher: the teacher's cosines, for a loss that reads them; it reduces all classes, each counted once.
    """
    if loss.teacher:
        assert teacher is not None, "a head has checked it"
        terms = loss.others(cosines, *(item[:, None] for item in context), teacher)
        return terms.sum(1) if loss.reduce == "sum" else terms.logsumexp(1)
    terms = loss.others(cosines, *(item[:, None] for item in context))
    own_class = labels[:, None] == torch.arange(cosines.shape[1], device=labels.device)
    if loss.reduce != "logsumexp":
        terms = terms.masked_fill(own_class, 0.0)
        return (terms if class_weights is None or loss.reduce == "normalised" else terms * class_weights).sum(1)
    return terms.masked_fill(own_class, -inf).logsumexp(1)


def loss_of_cosines(
    loss: ClassLoss,
    cosines: Float[Tensor, "batch classes"],
    labels: Int64[Tensor, "batch"],
    norms: Float[Tensor, "batch"] | None,
) -> Float[Tensor, "batch"]:
    """The loss of each row; NaN where it reads a value that the cosines do not contain."""
    known = labels != NO_CLASS
    own_cosine = cosines.gather(1, labels.clamp(min=0)[:, None])[:, 0].masked_fill(~known, 0.0)
    unknown = torch.full_like(own_cosine, torch.nan)
    length = unknown if norms is None else norms.to(cosines)
    count, nearest = max(term.nearest for _, term in loss.terms), None
    own_class = labels[:, None] == torch.arange(cosines.shape[1], device=labels.device)
    if count:
        others = cosines.detach().masked_fill(own_class, -inf)
        nearest = others.topk(min(count, cosines.shape[1] - 1)).values

    def sums(function: Callable[[Tensor], tuple[Tensor, ...]]) -> Tensor:
        terms = function(cosines.detach())
        return torch.stack([term.masked_fill(own_class, 0.0).sum(1, dtype=torch.float64) for term in terms])

    rows = Rows(own_cosine, length, unknown[:, None], labels, nearest, sums=sums)
    total = torch.zeros_like(own_cosine)
    for weight, term in loss.terms:
        context = tuple(item.to(cosines.dtype).expand(len(labels)) for item in term.context(rows))
        own = term.own(own_cosine, *context).masked_fill(~known, 0.0)
        rest = torch.zeros_like(own) if term.query == "none" else reduced_others(term, cosines, labels, *context)
        total = total + weight * term.finish(own, rest, *context)
    return total


def checked_cosines(
    loss: ClassLoss, cosines: Tensor, labels: Tensor, norms: Tensor | None
) -> Float[Tensor, "batch classes"]:
    """The cosines in float32 at least."""
    name = type(loss).__name__
    if any(term.query == "own_center" for _, term in loss.terms):
        raise ValueError(f"{name} cannot be computed from cosines alone; it compares the centers: use a head")
    if any(term.teacher for _, term in loss.terms):
        raise ValueError(f"{name} cannot be computed from cosines alone; it compares with a teacher: use a head")
    if cosines.ndim != 2 or not cosines.numel() or not cosines.is_floating_point():
        raise ValueError(
            f"cosines are {cosines.dtype} of shape {tuple(cosines.shape)}; they must be floating-point numbers "
            "(batch, classes)"
        )
    for column, values in (("labels", labels), ("norms", norms)):
        if values is not None and values.shape != cosines.shape[:1]:
            raise ValueError(f"{column} have shape {tuple(values.shape)}; a batch of {len(cosines)} takes one a row")
    if labels.dtype != torch.int64:
        raise ValueError(f"labels are {labels.dtype}; they must be int64 class numbers")
    largest = float(cosines.detach().abs().max())
    if not isfinite(largest) or (loss.similarity == "cosine" and largest > 1.01):
        raise ValueError(
            f"cosines reach {largest:.4g} in absolute value; they must lie in [-1, 1]: are they embeddings, or "
            "scaled? a head takes embeddings"
        )
    lowest, highest = int(labels.min()), int(labels.max())
    if highest >= cosines.shape[1] or lowest < NO_CLASS:
        raise ValueError(f"labels reach from {lowest} to {highest}, but cosines have {cosines.shape[1]} classes")
    if lowest == NO_CLASS and loss.reduce != "sum":
        raise ValueError(f"a label is -1 ('no known class'), but {name} needs a class for every row")
    return cosines.to(torch.promote_types(cosines.dtype, torch.float32))
