"""AnchorFace: TAR and FAR at the threshold of a stated FAR, as losses (Liu et al., AAAI 2022, eqs. 4-6, algorithm 1).

The features of the batch are compared with stored features of all identities. The threshold t_A at the anchor FAR over
these negative pairs is exact, as in an evaluation; both rates are smoothed around it, by sigmoids in place of the steps
of their definitions (eqs. 3-5 there).

A score within a few temperatures of the threshold has a gradient; beyond that the gradient is nearly 0. Over all pairs
of a batch with stored rows, one pass over blocks of stored rows computes both value and gradient: only the batch's rows
receive a gradient, so nothing is kept for a backward pass.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from math import ceil, isfinite
from typing import Literal

import torch
from jaxtyping import Float, Float32, Float64, Int64
from torch import Tensor

from verisphere.base.collectives import total
from verisphere.base.device import full_float32
from verisphere.base.distributed import world
from verisphere.base.vocabulary import check_word
from verisphere.decide.point import Far, accepted_impostors, exact_rate, far_text, short_far, threshold_at
from verisphere.pairs.memory import EMPTY, OnlineSet, Place, Storage, stored_centers
from verisphere.pairs.pair_term import GlobalBatch, PairOutput, PairTerm, Step, Training
from verisphere.score.batch_pairs import BatchPairs, BatchScores, Hints
from verisphere.score.exact.screen import product_type, products
from verisphere.score.pairs import pair_scores
from verisphere.score.stored import Stored, same_label

log = logging.getLogger(__name__)

Precision = Literal["float32", "bfloat16"]

#: Pairs compared at once, by device: on a CPU few enough for its cache, on a GPU enough for the host to keep up.
AT_ONCE = {"cpu": 1 << 19, "cuda": 1 << 26}
#: Listed pairs whose rows are gathered at once.
LISTED_AT_ONCE = 1 << 13


def soft_step(scores: Float[Tensor, "*shape"], threshold: float, temperature: float) -> Float[Tensor, "*shape"]:
    """The soft step of a cosine at a constant threshold: sigmoid((s - t_A) / tau), the step for tau toward 0; eq. 3."""
    return torch.sigmoid((scores - threshold) / temperature)


def far_loss(negative: Float[Tensor, " pairs"], threshold: float, temperature: float) -> Float[Tensor, ""]:
    """The soft FAR: mean over negative pairs of `soft_step`; eq. 4. It is 0 without pairs.

    >>> far_loss(torch.tensor([0.3, 0.3, -1.0, -1.0]), threshold=0.3, temperature=0.01)
    tensor(0.2500)
    """
    return soft_step(negative, threshold, temperature).sum() / max(len(negative), 1)


def tar_loss(positive: Float[Tensor, " pairs"], threshold: float, temperature: float) -> Float[Tensor, ""]:
    """1 - soft TAR: 1 - mean over positive pairs of `soft_step`; eq. 5. It is 0 without pairs."""
    return (1.0 - soft_step(positive, threshold, temperature)).sum() / max(len(positive), 1)


@dataclass(frozen=True, eq=False)
class SoftCount:
    """The sum of `soft_step` over pairs, and its gradient in the batch's rows; the stored rows are constants."""

    count: Float64[Tensor, ""]
    gradient: Float[Tensor, "batch dim"]


def soft_count_of_listed(
    scores: Float[Tensor, " pairs"],
    rows: Float[Tensor, "stored dim"],
    left: Int64[Tensor, " pairs"],
    right: Int64[Tensor, " pairs"],
    batch: int,
    threshold: float,
    temperature: float,
) -> SoftCount:
    """The soft count of listed pairs of a row of the batch (left) and a stored row (right), whose scores are known."""
    soft = soft_step(scores, threshold, temperature)
    slope = (soft * (1.0 - soft) / temperature).to(rows)
    gradient = rows.new_zeros(batch, rows.shape[1])
    parts = (numbers.split(LISTED_AT_ONCE) for numbers in (left, right, slope))
    for batch_rows, stored_rows, slopes in zip(*parts, strict=True):
        gradient.index_add_(0, batch_rows, rows.index_select(0, stored_rows).mul_(slopes[:, None]))
    return SoftCount(soft.sum(dtype=torch.float64), gradient)


def soft_count_of_others(
    units: Float[Tensor, "batch dim"],
    rows: Float[Tensor, "stored dim"],
    filled: Int64[Tensor, " filled"],
    left: Int64[Tensor, " pairs"],
    right: Int64[Tensor, " pairs"],
    threshold: float,
    temperature: float,
    precision: Precision = "float32",
    at_once: int | None = None,
) -> SoftCount:
    """The soft count of all pairs of the batch with stored rows except the listed ones, a block of stored rows a time.

    Args:
        rows: stored rows, which may be on another device.
        right: stored row in each excluded pair, as an index into `filled`; ascending.
        precision: type of the products; scores in bfloat16 are off by up to 0.4 %. Rows in float64 are computed in
            float64.
        at_once: number of pairs compared at once, which changes speed and memory only; None chooses by device.
    """
    dtype = torch.bfloat16 if precision == "bfloat16" and units.dtype == torch.float32 else units.dtype
    scaled = (units / temperature).to(dtype)
    count, gradient = units.new_zeros((), dtype=torch.float64), torch.zeros_like(units)
    product_space, gradient_space = (units.new_empty(0, dtype=product_type(dtype)) for _ in range(2))  # reused
    step = max((at_once or AT_ONCE.get(units.device.type, AT_ONCE["cuda"])) // max(len(units), 1), 1)
    soft = units.new_empty(len(units) * min(step, len(filled)))
    filled = filled.to(rows.device)
    with full_float32():
        for start, excluded_rows, excluded_columns in _blocks(len(filled), step, left, right):
            block = rows.index_select(0, filled[start : start + step]).to(units.device, dtype)
            product = products(scaled, block, product_space)
            # All steps work in place, so that only one tensor of (batch, block) numbers occupies the cache.
            steps = soft[: product.numel()].view_as(product).copy_(product) if product.dtype != units.dtype else product
            steps.sub_(threshold / temperature)
            steps[excluded_rows, excluded_columns] = -torch.inf
            steps.sigmoid_()
            count += steps.sum()
            steps.addcmul_(steps, steps, value=-1.0)  # the sigmoid's slope, s (1 - s)
            gradient += products(steps.to(dtype), block.T, gradient_space)
    return SoftCount(count, gradient.div_(temperature))


def _blocks(
    count: int, step: int, left: Int64[Tensor, " pairs"], right: Int64[Tensor, " pairs"]
) -> Iterator[tuple[int, Int64[Tensor, " block"], Int64[Tensor, " block"]]]:
    """The first row of each block, and the listed pairs inside it, whose right rows are counted from that row."""
    starts = torch.arange(0, count + step, step, device=right.device)
    ends = torch.searchsorted(right, starts).tolist()
    for start, first, last in zip(range(0, count, step), ends[:-1], ends[1:], strict=True):
        yield start, left[first:last], right[first:last] - start


Compare = Literal["set", "centers"]
TooFew = Literal["nearest", "skip"]

_UPWARD = Context(rounding=ROUND_CEILING)


class AnchorFace(PairTerm):
    """lambda_1 * L_f + lambda_2 * L_t at one anchor FAR (eq. 6), beside any class-center loss.

    A step inserts the global batch into an online-updating set, and then compares each row of the batch with all usable
    features of the set, including those of the batch but excluding the row itself. Stored features and t_A are
    constants. A row whose person is none of the classes is a negative for every class.

    Losses are means over the pairs of all ranks; the loss of a rate without pairs is 0. With `accumulate` each part of
    a batch is inserted and compared separately.

    Logged, where F is the FAR in the form 1e-4: `anchor_threshold_at_far_F`; `anchor_tar_at_far_F`, the exact share of
    positive pairs above the threshold; `anchor_negatives_at_far_F` and `anchor_positives_at_far_F`, the numbers of
    pairs in a step; `anchor_far_loss_at_far_F` and `anchor_tar_loss_at_far_F`, L_f and L_t, if their weights are not 0;
    `anchor_too_few_at_far_F`, the share of steps with too few negatives; `anchor_set_fill`, the share of the set's
    places with a usable feature.

    >>> from verisphere.pairs import GlobalBatch, Step, Training
    >>> embeddings, labels = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), torch.tensor([0, 0, 1])
    >>> step = Step(GlobalBatch.of(embeddings, labels), embeddings, labels)
    >>> term = AnchorFace(far="0.5", after=0.0)
    >>> term.prepare(Training(classes=2, embedding_size=2, batch_size=3))
    >>> output = term(step)
    >>> round(output.figures["anchor_tar_at_far_5e-1"], 4)
    1.0

    Args:
        far: the anchor, between 0 and 1.
        tar_weight: lambda_2; 0 is the variant without TAR loss.
        far_weight: lambda_1; 0 is the variant without FAR loss. None is the paper's value, 0.1 / FAR, which is 1e3,
            1e4, 1e5 at 1e-4, 1e-5, 1e-6; it uses the FAR of the threshold where that is not the anchor. With both
            weights 0 the figures are logged and nothing is added to the loss.
        temperature: tau, in cosine.
        features_per_identity: places of the set for each identity, K. With 1 the only place of an identity holds a
            row's own copy, so positives come from other rows of the batch only: docs/lab/operating_point.md shows the
            effect.
        valid_steps: number of steps for which a feature of the set is usable, M.
        after: position up to which the class-center loss trains alone while the set fills, in the recipe's `unit`. The
            default is the paper's 20,000 iterations, in epochs of its data with 11,372 batches each.
        compare: "set", or "centers": class centers in its place (variant -FC), as copies of length 1.
        too_few: the rule for steps with fewer than 1 / FAR negatives, which are reported once. "nearest" uses the
            threshold at the nearest FAR above 0 that can be reached, 1 / negatives; "skip" skips the term in such a
            step. Fewer than two negatives have no threshold.
        storage: type of the set's features, see `Memory`.
        place: place of the set's features, see `Memory`.
        precision: type of the FAR loss's products; the threshold and the TAR loss are exact with either.
        log_before: whether to log t_A and TAR also while the class-center loss trains alone; computing the threshold
            takes time.

    Raises:
        ValueError: a number or name outside what is allowed.
    """

    def __init__(
        self,
        far: str | float = "1e-4",
        tar_weight: float = 10.0,
        far_weight: float | None = None,
        temperature: float = 0.01,
        features_per_identity: int = 5,
        valid_steps: int = 1000,
        after: float = 1.76,
        compare: Compare = "set",
        too_few: TooFew = "nearest",
        storage: Storage = "float32",
        place: Place = "device",
        precision: Precision = "float32",
        log_before: bool = True,
    ) -> None:
        super().__init__()
        rate = exact_rate(far)
        if not 0 < rate < 1:
            raise ValueError(f"far is {far_text(far)}; an anchor lies between 0 and 1, both excluded")
        if not (isfinite(temperature) and temperature > 0):
            raise ValueError(f"temperature is {temperature}; it must be a positive number")
        given = {"tar_weight": tar_weight, "far_weight": 0.0 if far_weight is None else far_weight, "after": after}
        for name, value in given.items():
            if not (isfinite(value) and value >= 0):
                raise ValueError(f"{name} is {value}; it must be a number and not negative")
        check_word("compare", compare, Compare)
        check_word("too_few", too_few, TooFew)
        check_word("precision", precision, Precision)
        self.far, self.temperature, self.after = far_text(far), temperature, after
        self.begins = after  # in epochs; `prepare` knows the recipe's unit
        self.tar_weight, self.far_weight = tar_weight, far_weight
        self.too_few, self.precision, self.log_before = too_few, precision, log_before
        memory = OnlineSet(features_per_identity, valid_steps, storage, place)
        self.memory = memory if compare == "set" else None
        self.copies_centers = compare == "centers"
        self.hints = Hints()  # not in a checkpoint: they change speed only, and thresholds are exact without them
        self._warned = False

    def prepare(self, training: Training) -> None:
        """Allocate the set.

        Raises:
            ValueError: the class-center loss would train alone for the whole training.
        """
        if self.tar_weight or self.far_weight:
            training.check_begins("AnchorFace", self.after)
        self.begins = training.epoch_of(self.after)
        if self.memory is not None:
            self.memory.prepare(training.classes, training.embedding_size)

    def forward(self, step: Step) -> PairOutput:
        """Compute both losses, from `after` on, and the figures."""
        batch, active = step.batch, step.epoch >= self.begins
        stored, copies = self._stored_and_copies(step)
        figures = {} if self.memory is None else {"anchor_set_fill": self.memory.fill(step.number)}
        if not (active or self.log_before):
            return PairOutput(figures=figures)
        pairs = _Pairs.of(batch, stored, copies, self.hints)
        positives, negatives = pairs.positive_count, pairs.negatives.total
        far = self._reachable_far(negatives, step.number, active)
        figures |= self._named(negatives=negatives, positives=positives, too_few=self._too_few(negatives))
        if far is None:
            return PairOutput(figures=figures)
        threshold = pairs.threshold_at(far, "anchor" if far == self.far else "nearest")
        figures |= self._named(threshold=threshold)
        if positives:
            figures |= self._named(tar=pairs.positives_above(threshold) / positives)
        if not active:
            return PairOutput(figures=figures)
        loss, loss_figures = self._loss(batch, pairs, threshold, far)
        return PairOutput(loss, figures=figures | loss_figures)

    def _loss(
        self, batch: GlobalBatch, pairs: "_Pairs", threshold: float, far: Far
    ) -> tuple[Float[Tensor, ""] | None, dict[str, float]]:
        """The sum that eq. 6 adds to the class-center loss, and its two parts as figures."""
        value, gradient = 0.0, torch.zeros_like(batch.units)
        figures: dict[str, float] = {}
        negatives, positives = pairs.negatives.total, pairs.positive_count
        far_weight = _far_weight(far) if self.far_weight is None else self.far_weight
        if far_weight:
            above = pairs.negatives_softly_above(batch.units, threshold, self.temperature, self.precision)
            far_loss = float(total(above.count)) / negatives
            value += far_weight * far_loss
            gradient += far_weight / negatives * above.gradient
            figures |= self._named(far_loss=far_loss)
        if self.tar_weight and positives:
            above = pairs.positives_softly_above(len(batch.units), threshold, self.temperature)
            tar_loss = 1.0 - float(total(above.count)) / positives
            value += self.tar_weight * tar_loss
            gradient -= self.tar_weight / positives * above.gradient
            figures |= self._named(tar_loss=tar_loss)
        if not figures:
            return None, figures
        return batch.loss(gradient.new_tensor(value), total(gradient)), figures

    def _stored_and_copies(self, step: Step) -> tuple[Stored, Int64[Tensor, " batch"]]:
        """The stored features of this rank, and for each row of the batch the stored row of its copy, or -1."""
        batch = step.batch
        if self.memory is None:
            assert step.centers is not None, "copies_centers asks the training for the centers"
            return stored_centers(step.centers, step.held.start), torch.full_like(batch.labels, -1)
        copies = self.memory.insert(batch.units, batch.labels, step.number)
        return self.memory.stored(step.number), copies

    def _too_few(self, negatives: int) -> bool:
        """Whether the anchor FAR accepts none of this many negatives."""
        return exact_rate(self.far) * negatives < 1

    def _reachable_far(self, negatives: int, step: int, active: bool) -> Far | None:
        """The FAR at which t_A is computed: the anchor, given enough negatives; None if there is no threshold."""
        if not self._too_few(negatives):
            return self.far
        if not active:
            return None
        self._warn(negatives, step)
        if self.too_few == "skip" or negatives < 2:
            return None
        return _UPWARD.divide(
            Decimal(1), Decimal(negatives)
        )  # rounded up, so that accepted_impostors gives one negative

    def _warn(self, count: int, step: int) -> None:
        if self._warned:
            return
        self._warned = True
        consequence = "such steps skip AnchorFace"
        if self.too_few == "nearest":
            consequence = "such steps use the threshold at the nearest FAR above 0, which accepts at most one pair"
        log.warning(
            "step %d: %d negative pairs are too few for FAR %s, which needs at least %d; %s",
            step + 1, count, self.far, ceil(1 / exact_rate(self.far)), consequence,
        )  # fmt: skip

    def _named(self, **figures: float | int) -> dict[str, float]:
        """The figures under their names in the log."""
        return {f"anchor_{name}_at_far_{short_far(self.far)}": float(value) for name, value in figures.items()}


def _far_weight(far: Far) -> float:
    """The paper's lambda_1 at a FAR."""
    return float(Fraction(1, 10) / exact_rate(far))


@dataclass(frozen=True, eq=False)
class _Pairs:
    """The pairs of the batch with the stored features of this rank.

    Attributes:
        filled: stored rows that are not empty.
        left: row of the batch in each pair of equal labels, which are excluded from the negatives.
        right: stored row in each of these pairs, as an index into `filled`; ascending.
    """

    stored: Stored
    filled: Int64[Tensor, " filled"]
    left: Int64[Tensor, " pairs"]
    right: Int64[Tensor, " pairs"]
    positives: "_Positives"
    positive_count: int
    negatives: BatchScores

    @classmethod
    def of(cls, batch: GlobalBatch, stored: Stored, copies: Int64[Tensor, " batch"], hints: Hints) -> "_Pairs":
        """All pairs except those of a row with its own copy."""
        filled = (stored.labels != EMPTY).nonzero()[:, 0]
        left, right = same_label(batch.labels, stored.labels[filled])
        positive = (copies[left] != filled[right]) & (batch.labels[left] >= 0)
        positives = _Positives.of(batch, stored, left[positive], filled[right[positive]])
        count = int(total(torch.tensor(len(positives.scores), device=left.device)))
        negatives = BatchPairs(batch.units, batch.labels, stored, hints=hints, world=world()).scores()
        return cls(stored, filled, left, right, positives, count, negatives)

    def threshold_at(self, far: Far, question: str) -> float:
        """The threshold at a FAR; `question` is its name in the hints."""
        self.negatives.pairs.settle([(self.negatives, accepted_impostors(far, self.negatives.total) + 1, question)])
        return threshold_at(self.negatives, far)

    def positives_above(self, threshold: float) -> int:
        """The number of positive pairs of all ranks above the threshold."""
        return int(total((self.positives.scores > threshold).sum()))

    def positives_softly_above(self, batch: int, threshold: float, temperature: float) -> SoftCount:
        """The soft count of this rank's positive pairs above the threshold."""
        pairs = self.positives
        return soft_count_of_listed(pairs.scores, pairs.rows, pairs.left, pairs.right, batch, threshold, temperature)

    def negatives_softly_above(
        self, units: Float32[Tensor, "batch dim"], threshold: float, temperature: float, precision: Precision
    ) -> SoftCount:
        """The soft count of this rank's negative pairs above the threshold."""
        rows, equal_labels = self.stored.rows, (self.left, self.right)
        return soft_count_of_others(units, rows, self.filled, *equal_labels, threshold, temperature, precision)


@dataclass(frozen=True, eq=False)
class _Positives:
    """The positive pairs with the stored features of this rank.

    Attributes:
        left: row of the batch in each pair.
        right: stored row in each pair, as an index into `rows`.
    """

    scores: Float64[Tensor, " pairs"]
    rows: Float32[Tensor, "distinct dim"]
    left: Int64[Tensor, " pairs"]
    right: Int64[Tensor, " pairs"]

    @classmethod
    def of(
        cls, batch: GlobalBatch, stored: Stored, left: Int64[Tensor, " pairs"], right: Int64[Tensor, " pairs"]
    ) -> "_Positives":
        """Score pairs of rows of the batch and stored rows, which may be on another device."""
        distinct, right = right.unique(return_inverse=True)
        rows = stored.rows.index_select(0, distinct.to(stored.rows.device)).to(batch.units)
        return cls(pair_scores(batch.units, left, right, rows), rows, left, right)
