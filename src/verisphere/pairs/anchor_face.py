"""AnchorFace: TAR and FAR at the threshold of a stated FAR, as losses (Liu et al., AAAI 2022, eqs. 4-6, algorithm 1).

The batch's features are compared with the features stored of all identities. The threshold t_A of the anchor FAR over
these negative pairs is found exactly, as evaluation finds it, and both rates around it are made soft (`soft_rates`).
"""

import logging
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from math import ceil, isfinite
from typing import Literal

import torch
from jaxtyping import Float, Float32, Float64, Int64
from torch import Tensor

from verisphere.collectives import total
from verisphere.decide.point import Far, accepted_impostors, exact_rate, far_text, short_far, threshold_at
from verisphere.distributed import world
from verisphere.pairs.memory import EMPTY, OnlineSet, Place, Storage, stored_centers
from verisphere.pairs.pair_term import GlobalBatch, PairOutput, PairTerm, Step, Training
from verisphere.pairs.soft_rates import Precision, SoftCount, soft_count_of_listed, soft_count_of_others
from verisphere.score.batch_pairs import BatchPairs, BatchScores, Hints
from verisphere.score.pairs import pair_scores
from verisphere.score.stored import Stored, same_label
from verisphere.vocabulary import check_word

log = logging.getLogger(__name__)

Compare = Literal["set", "centers"]
TooFew = Literal["nearest", "skip"]

_UPWARD = Context(rounding=ROUND_CEILING)


class AnchorFace(PairTerm):
    """lambda_1 * L_f + lambda_2 * L_t at one anchor FAR (eq. 6), beside any class-center loss.

    A step inserts the global batch into an online-updating set, and then compares each row of the batch with all usable
    features of the set, the batch's own included, but never with itself. Stored features and t_A are constants. A row
    whose person is none of the classes is a negative for all.

    Losses are means over the pairs of all processes; that of a rate without a pair is 0. Of a batch that is worked
    through in parts (`accumulate`) each part is inserted and compared by itself.

    Logged, F being the FAR, as 1e-4 however it was written: `anchor_threshold_at_far_F`; `anchor_tar_at_far_F`, the
    exact share of positive pairs above it; `anchor_negatives_at_far_F` and `anchor_positives_at_far_F`, pairs a step;
    `anchor_far_loss_at_far_F` and `anchor_tar_loss_at_far_F`, L_f and L_t, where they have a weight;
    `anchor_too_few_at_far_F`, the share of steps whose negatives were too few; `anchor_set_fill`, the share of the
    set's places whose feature is usable.

    Args:
        far: the anchor, between 0 and 1.
        tar_weight: lambda_2; 0 is the variant without TAR loss.
        far_weight: lambda_1; 0 is the variant without FAR loss, None the paper's: 0.1 / FAR, which is 1e3, 1e4, 1e5 at
            1e-4, 1e-5, 1e-6; of the FAR in force where that is not the anchor. With both weights 0 the figures are
            logged, of whatever is trained.
        temperature: tau, in cosine.
        features_per_identity: K, of the set. With 1 the only place of an identity holds a row's own copy, and positives
            are left to other rows of the batch: docs/operating_point.md shows what that does.
        valid_steps: M, of the set.
        after: epochs during which the class-center loss trains alone while the set fills. The default is the paper's
            20,000 iterations in epochs of its data, of 11,372 batches.
        compare: "set"; or "centers", class centers in its place (variant -FC), which are brought to length 1 in a copy.
        too_few: where the negatives are fewer than 1 / FAR, which is said once: "nearest" takes the threshold of the
            nearest FAR above 0 that can be reached, 1 / negatives; "skip" leaves the term out of such a step. Fewer
            than two negatives have no threshold.
        storage: of the set, see `Memory`.
        place: of the set, see `Memory`.
        precision: of the FAR loss's products; the threshold and the TAR loss are exact in either.
        log_before: whether t_A and TAR are logged while the class-center loss trains alone, too, which takes the time
            of the search.

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
        self.tar_weight, self.far_weight = tar_weight, far_weight
        self.too_few, self.precision, self.log_before = too_few, precision, log_before
        memory = OnlineSet(features_per_identity, valid_steps, storage, place)
        self.memory = memory if compare == "set" else None
        self.copies_centers = compare == "centers"
        self.hints = Hints()  # in no checkpoint: whatever they say, thresholds are exact
        self._warned = False

    def prepare(self, training: Training) -> None:
        """Make room for the set.

        Raises:
            ValueError: the class-center loss would train alone to the end.
        """
        if self.tar_weight or self.far_weight:
            training.check_begins("AnchorFace", self.after)
        if self.memory is not None:
            self.memory.prepare(training.classes, training.embedding_size)

    def held(self) -> dict[str, range]:
        """See `PairTerm.held`."""
        return {} if self.memory is None else {f"memory.{name}": rows for name, rows in self.memory.held().items()}

    def forward(self, step: Step) -> PairOutput:
        """Both losses, once their time has come, and the figures."""
        batch, acts = step.batch, step.epoch >= self.after
        stored, copies = self._compared_with(step)
        figures = {} if self.memory is None else {"anchor_set_fill": self.memory.fill(step.number)}
        if not (acts or self.log_before):
            return PairOutput(figures=figures)
        pairs = _Pairs.of(batch, stored, copies, self.hints)
        positives, negatives = pairs.positive_count, pairs.negatives.total
        far = self._far_in_force(negatives, step.number, acts)
        figures |= self._named(negatives=negatives, positives=positives, too_few=self._are_few(negatives))
        if far is None:
            return PairOutput(figures=figures)
        threshold = pairs.threshold_at(far, "anchor" if far == self.far else "nearest")
        figures |= self._named(threshold=threshold)
        if positives:
            figures |= self._named(tar=pairs.positives_above(threshold) / positives)
        if not acts:
            return PairOutput(figures=figures)
        loss, more = self._loss(batch, pairs, threshold, far)
        return PairOutput(loss, figures=figures | more)

    def _loss(
        self, batch: GlobalBatch, pairs: "_Pairs", threshold: float, far: Far
    ) -> tuple[Float[Tensor, ""] | None, dict[str, float]]:
        """What eq. 6 adds to the class-center loss, and its parts."""
        value, gradient = 0.0, torch.zeros_like(batch.units)
        figures: dict[str, float] = {}
        negatives, positives = pairs.negatives.total, pairs.positive_count
        far_weight = _of_far(far) if self.far_weight is None else self.far_weight
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

    def _compared_with(self, step: Step) -> tuple[Stored, Int64[Tensor, " batch"]]:
        """What the batch is compared with, and where in it each row's own copy lies; -1 where it does not."""
        batch = step.batch
        if self.memory is None:
            assert step.centers is not None, "a training shows its centers"
            return stored_centers(step.centers, step.held.start), torch.full_like(batch.labels, -1)
        copies = self.memory.insert(batch.units, batch.labels, step.number)
        return self.memory.stored(step.number), copies

    def _are_few(self, negatives: int) -> bool:
        """Whether so many negatives are too few for one of them to be accepted at the anchor."""
        return exact_rate(self.far) * negatives < 1

    def _far_in_force(self, negatives: int, step: int, acts: bool) -> Far | None:
        """The FAR that t_A is taken at, which is the anchor if the negatives allow; None for none."""
        if not self._are_few(negatives):
            return self.far
        if not acts:
            return None
        self._warn(negatives, step)
        if self.too_few == "skip" or negatives < 2:
            return None
        return _UPWARD.divide(Decimal(1), Decimal(negatives))  # its last digit is rounded up: one is accepted

    def _warn(self, count: int, step: int) -> None:
        if self._warned:
            return
        self._warned = True
        then = "such steps go without AnchorFace"
        if self.too_few == "nearest":
            then = "such steps take the threshold of the nearest FAR above 0, one in all"
        log.warning(
            "step %d: %d negative pairs are too few for FAR %s, which takes %d; %s",
            step + 1, count, self.far, ceil(1 / exact_rate(self.far)), then,
        )  # fmt: skip

    def _named(self, **figures: float | int) -> dict[str, float]:
        """Figures by the names that the log has."""
        return {f"anchor_{name}_at_far_{short_far(self.far)}": float(value) for name, value in figures.items()}


def _of_far(far: Far) -> float:
    """The paper's lambda_1 at a FAR."""
    return float(Fraction(1, 10) / exact_rate(far))


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Pairs of the batch with what this process stores.

    Attributes:
        stored: what the batch is compared with.
        filled: the stored rows that there are.
        left: row of the batch, of each pair of one label, which is not negative.
        right: stored row by its place in `filled`, ascending.
        positives: positive pairs.
        positive_count: how many there are, of all processes.
        negatives: scores of the negative pairs, of all processes.
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
        """All pairs but those of a row with its own copy."""
        filled = (stored.labels != EMPTY).nonzero()[:, 0]
        left, right = same_label(batch.labels, stored.labels[filled])
        chosen = (copies[left] != filled[right]) & (batch.labels[left] >= 0)
        positives = _Positives.of(batch, stored, left[chosen], filled[right[chosen]])
        count = int(total(torch.tensor(len(positives.scores), device=left.device)))
        negatives = BatchPairs(batch.units, batch.labels, stored, hints=hints, world=world()).scores()
        return cls(stored, filled, left, right, positives, count, negatives)

    def threshold_at(self, far: Far, question: str) -> float:
        """The threshold of a FAR; `question` is its name in the hints."""
        self.negatives.pairs.settle([(self.negatives, accepted_impostors(far, self.negatives.total) + 1, question)])
        return threshold_at(self.negatives, far)

    def positives_above(self, threshold: float) -> int:
        """How many positive pairs pass, of all processes."""
        return int(total((self.positives.scores > threshold).sum()))

    def positives_softly_above(self, batch: int, threshold: float, temperature: float) -> SoftCount:
        """How many of this process's positive pairs pass, softly."""
        found = self.positives
        return soft_count_of_listed(found.scores, found.rows, found.left, found.right, batch, threshold, temperature)

    def negatives_softly_above(
        self, units: Float32[Tensor, "batch dim"], threshold: float, temperature: float, precision: Precision
    ) -> SoftCount:
        """How many of this process's negative pairs pass, softly."""
        rows, same = self.stored.rows, (self.left, self.right)
        return soft_count_of_others(units, rows, self.filled, *same, threshold, temperature, precision)


@dataclass(frozen=True, eq=False)
class _Positives:
    """Positive pairs with the rows that this process stores.

    Attributes:
        scores: exact.
        rows: the stored rows among them, in float32.
        left: row of the batch, of each pair.
        right: which of `rows`.
    """

    scores: Float64[Tensor, " pairs"]
    rows: Float32[Tensor, "met dim"]
    left: Int64[Tensor, " pairs"]
    right: Int64[Tensor, " pairs"]

    @classmethod
    def of(
        cls, batch: GlobalBatch, stored: Stored, left: Int64[Tensor, " pairs"], right: Int64[Tensor, " pairs"]
    ) -> "_Positives":
        """Pairs of rows of the batch and stored ones, which may lie on another device."""
        met, right = right.unique(return_inverse=True)
        rows = stored.rows.index_select(0, met.to(stored.rows.device)).to(batch.units)
        return cls(pair_scores(batch.units, left, right, rows), rows, left, right)
