"""NT, the noise-tolerant paradigm: each row is weighted by its own cosine (Hu et al. 2019, CVPR).

With noisy labels the own cosines of a training form two peaks: wrong labels on the left, right ones on the right. A
histogram over the last batches gives the ends of the distribution and its peaks, and they give each row a weight. At
first all rows have equal weight; when the right end of the distribution passes 0.5, rows with a high cosine have the
largest weight, and at the end rows near the right peak, whose labels are right and which are still hard.

The equations are those of the released code (huangyangyu/NoiseFace). Where that code would divide by 0, because a peak
lies at an end of the distribution, the distance is one bin here. A step whose two ends coincide has no gradient there;
here it changes nothing, and its rows are weighted by the previous estimate.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from verisphere.base.vocabulary import NO_CLASS, check_word
from verisphere.losses.class_loss import Rows
from verisphere.losses.margin import Beyond, CombinedMargin, Gradient

Weighted = Literal["logits", "loss"]

#: Width of a bin is 2 / BINS of a cosine. The bins are numbered from 0 (cosine -1) to BINS (cosine 1).
BINS = 200

#: One over the share of the rows beyond each end of the distribution: 0.5 %.
TAIL = 200

#: The normal distribution has 99 % of its mass within so many standard deviations.
DEVIATIONS = 2.576

#: A peak is higher than the counts so many bins away on both sides by more than these counts.
LEADS = {2: 0, 3: 1, 4: 2, 5: 3}


def bin_of(cosine: Float[Tensor, "batch"]) -> Int64[Tensor, "batch"]:
    """Number of the bin that contains each cosine: floor(100 * (cosine + 1)), in [0, 200].

    >>> bin_of(torch.tensor([-1.0, 0.0, 0.5, 1.0]))
    tensor([  0, 100, 150, 200])
    """
    return (BINS * (cosine + 1.0) / 2.0).long().clamp(0, BINS)


def end_points(counts: Int64[Tensor, "bins"]) -> tuple[Int64[Tensor, "4"], Bool[Tensor, ""]]:
    """The left end, left peak, right peak and right end of a distribution as bins, and whether the ends lie apart.

    The counts are first averaged over five bins; the two bins at either border become 0. The left end is the first bin
    up to which at least 0.5 % of the mass lies, the right end the last bin up to which at most 99.5 % does. A local
    peak is as high as its two neighbours and higher than the bins two to five steps away, by more than `LEADS`. The
    highest bin is the right peak if it lies in the right half between the ends; the left peak is then the first local
    peak, or the middle if that is further left. Otherwise the highest bin is the left peak, and the right peak is the
    last local peak, or the middle if that is further right.
    The counts are those of `BINS` + 1 bins.
    """
    counts = counts.long()
    five = F.pad(counts.unfold(0, 5, 1).sum(1), (2, 2))  # integers: five times the average
    up_to, total = five.cumsum(0), five.sum()
    bins = torch.arange(len(five), device=five.device)
    left = (TAIL * up_to < total).sum()
    right = (TAIL * up_to <= (TAIL - 1) * total).sum() - 1
    middle, top = (left + right) // 2, five.argmax()

    padded = F.pad(five, (5, 5))  # bins whose neighbours are padding are excluded below
    around = {
        step: (padded[5 - step : 5 - step + len(five)], padded[5 + step : 5 + step + len(five)]) for step in range(1, 6)
    }
    is_peak = (bins >= left.clamp(min=5)) & (bins <= right.clamp(max=BINS - 5))
    for neighbour in around[1]:
        is_peak &= five >= neighbour
    for step, lead in LEADS.items():
        for neighbour in around[step]:
            is_peak &= five > neighbour + 5 * lead
    is_peak &= ~F.pad(is_peak[:-1], (1, 0))  # of two equal neighbours the first
    none = ~is_peak.any()
    first = torch.where(none, top, is_peak.long().argmax())
    last = torch.where(none, top, BINS - is_peak.flip(0).long().argmax())

    in_left_half = top < middle
    left_peak = torch.where(in_left_half, top, torch.minimum(first, middle))
    right_peak = torch.where(in_left_half, torch.maximum(last, middle), top)
    return torch.stack([left, left_peak, right_peak, right]), (total > 0) & (left < right)


def share_of_ends(right: Float[Tensor, ""]) -> Float[Tensor, ""]:
    """h, the share of the first and last weight by the right end's cosine: near 1 at 0 and 1, near 0 at 0.5.

    h = 2 - 1 / (1 + exp(5 - 20 r)) - 1 / (1 + exp(20 r - 15)), with r the cosine clipped to [0, 1].
    """
    cosine = right.clamp(0.0, 1.0)
    return 2.0 - (20.0 * cosine - 5.0).sigmoid() - (15.0 - 20.0 * cosine).sigmoid()


def row_weights(bins: Int64[Tensor, "batch"], points: Int64[Tensor, "4"]) -> Float[Tensor, "batch"]:
    """Weight of each row in [0, 1], from the bin of its cosine and the bins of `end_points`.

    w = h [r < 0.5] + (1 - h) w2 + h [r > 0.5] w3, where r is the cosine of the right end and h is `share_of_ends`.
    w2 = softplus(10 z) / softplus(10), at most 1, with z from 0 at the left peak to 1 at the right end. w3 is a bell
    about the right peak, exp(-(c - right peak)^2 / (2 a^2)), whose a is the distance to the right end for rows to the
    right of the peak, else that to the left end, over `DEVIATIONS`. Both distances, and that of z, are at least a bin.
    """
    at, (left, left_peak, right_peak, right) = bins.double(), points.double()
    line = (at - left_peak) / (right - left_peak).clamp(min=1.0)
    high = (F.softplus(10.0 * line) / F.softplus(at.new_tensor(10.0))).clamp(max=1.0)
    deviation = torch.where(at > right_peak, right - right_peak, right_peak - left).clamp(min=1.0) / DEVIATIONS
    bell = (-0.5 * ((at - right_peak) / deviation).square()).exp()
    reach = 2.0 * right / BINS - 1.0
    share = share_of_ends(reach)
    return share * (reach < 0.5) + (1.0 - share) * high + share * (reach > 0.5) * bell


class NoiseTolerant(CombinedMargin):
    """ArcFace's combined margin with a weight on each row by its own cosine: `row_weights`.

    The histogram counts the own cosines, without margin, of the last `window` global batches. Until it has seen as many
    batches every weight is 1. From then on each batch moves the four stored bins by at most one toward the estimate of
    `end_points`, and the weights follow from the stored bins. No gradient flows through a weight.

    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> NoiseTolerant().forward(cosines, labels)  # no batch was seen yet: ArcFace
    tensor(8.8451)

    Args:
        m1: factor on the angle, > 0.
        m2: added to the angle, radians, 0 <= m2 < pi.
        m3: subtracted from the cosine, >= 0.
        scale: factor from cosine to logit; 32 in the released code.
        weighted: the quantity that a row's weight multiplies: all of its "logits" (the authors' second method, the
            better one in all of their comparisons), or its "loss" (their first).
        window: number of batches in the histogram, >= 1; 1,000 in the released code.
        gradient: gradient of the own logit, see `CombinedMargin`.
        beyond: the rule for the own logit past theta + margin = pi, see `combined_margin`.

    The buffers are `counts`, a row of `BINS` + 1 numbers for each batch of the window, `batches`, the number of batches
    so far, and `points`, the four bins, -1 before the first estimate. All are integers, so every rank has the same and
    a resumed training continues to the bit. A batch with a cosine that is not finite does not count. `set_strength`
    scales the margins, not the weights.

    Raises:
        ValueError: a number outside its range or an unknown name.
    """

    counts: Tensor
    batches: Tensor
    points: Tensor

    def __init__(
        self,
        m1: float = 1.0,
        m2: float = 0.5,
        m3: float = 0.0,
        scale: float = 32.0,
        weighted: Weighted = "logits",
        window: int = 1000,
        gradient: Gradient = "exact",
        beyond: Beyond = "monotone",
    ) -> None:
        super().__init__(m1, m2, m3, scale, gradient, beyond)
        check_word("weighted", weighted, Weighted)
        if window < 1:
            raise ValueError(f"window is {window}; the histogram takes at least 1 batch (1000 in the released code)")
        self.weighted, self.window = weighted, window
        self.register_buffer("counts", torch.zeros(window, BINS + 1, dtype=torch.int32))
        self.register_buffer("batches", torch.zeros((), dtype=torch.int64))
        self.register_buffer("points", torch.full((4,), -1))

    def observe(self, rows: Rows) -> None:
        """Count the batch in place of the oldest one of the window, and move the four bins."""
        usable = rows.own.isfinite().all()  # tensors throughout: nothing waits for the device
        is_here = bin_of(rows.own)[:, None] == torch.arange(BINS + 1, device=rows.own.device)
        batch = (is_here & (rows.labels != NO_CLASS)[:, None]).sum(0)
        oldest = (self.batches % self.window)[None]
        self.counts[oldest] = torch.where(usable, batch.to(self.counts), self.counts[oldest])
        self.batches += usable

        estimate, apart = end_points(self.counts.sum(0))
        toward = torch.where(self.points < 0, estimate, self.points + (estimate - self.points).sign())
        self.points.copy_(torch.where(usable & apart & (self.batches >= self.window), toward, self.points))

    def context(self, rows: Rows) -> tuple[Float[Tensor, "..."], ...]:
        """The weight of each row."""
        weights = row_weights(bin_of(rows.own.detach()), self.points)
        return (torch.where(self.points[0] < 0, 1.0, weights).to(rows.own),)

    def own(self, cosine: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """scale * cos(m1 * theta + m2) - m3, times the weight where logits are weighted."""
        logit = super().own(cosine)
        return context[0] * logit if self.weighted == "logits" else logit

    def others(
        self, cosine: Float[Tensor, "batch classes"], *context: Float[Tensor, "batch 1"]
    ) -> Float[Tensor, "batch classes"]:
        """scale * cosine, times the weight where logits are weighted."""
        logit = super().others(cosine)
        return context[0] * logit if self.weighted == "logits" else logit

    def finish(
        self, own: Float[Tensor, "batch"], rest: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]
    ) -> Float[Tensor, "batch"]:
        """Softmax cross entropy, times the weight where the loss is weighted."""
        loss = super().finish(own, rest)
        return context[0] * loss if self.weighted == "loss" else loss
