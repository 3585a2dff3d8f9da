"""NT: the histogram, its ends and peaks, and the three weights by hand; state that resumes to the bit."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from loss_rows import rows_of
from verisphere.losses.class_loss import Rows
from verisphere.losses.margin import ArcFace
from verisphere.losses.noise_tolerant import BINS, NoiseTolerant, bin_of, end_points, row_weights, share_of_ends

#: Two heaps, the right one the higher. The sums over five bins are 10 30 40 40 40 30 10 from bin 87, and twice as much
#: from bin 147; together 600. Half a percent is 3, so the left end is 87; up to bin 152 lie 580 and up to 153 all 600,
#: which is more than 597, so the right end is 152. The highest bin is the first of 80s, 149, beyond the middle 119.
HEAPS = {89: 10, 90: 20, 91: 10, 149: 20, 150: 40, 151: 20}
HEAPS_POINTS = [87, 90, 149, 152]


def counted(rows: dict[int, int]) -> torch.Tensor:
    counts = torch.zeros(BINS + 1, dtype=torch.int64)
    for number, count in rows.items():
        counts[number] = count
    return counts


def batch(rows: dict[int, int], moved: int = 0) -> Rows:
    """Rows whose own cosines are the middles of these bins."""
    bins = torch.tensor([number + moved for number, count in rows.items() for _ in range(count)])
    return rows_of((bins + 0.5) / 100 - 1)


def test_bins_by_hand():
    assert bin_of(torch.tensor([-1.1, -1.0, -0.995, 0.0, 0.333, 0.999, 1.0, 1.1])).tolist() == [
        0,
        0,
        0,
        100,
        133,
        199,
        200,
        200,
    ]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        # the left heap's peak is the first: 40 is as high as its neighbours, above 30, 10, 0 and 0
        (HEAPS, HEAPS_POINTS),
        # the left heap the higher: it has the highest bin, 89, and the right peak is the last local one
        ({89: 20, 90: 40, 91: 20, 149: 10, 150: 20, 151: 10}, [87, 89, 150, 152]),
        # sums 1 3 4 4 4 3 1: 4 is not above 1 + 5 three steps away, so the first peak is 150, right of the middle 120
        ({89: 1, 90: 2, 91: 1, 149: 20, 150: 40, 151: 20}, [88, 120, 149, 152]),
        # five equal sums have no peak; 30 and 70 rows: 151 is the last bin with at most 497.5 of 500 up to it
        ({90: 30, 150: 70}, [88, 119, 148, 151]),
        # sums 10 30 50 60 60 50 30 10 from 147: of two equal bins the first; the left heap's sums are 40 120 160 ...
        ({89: 40, 90: 80, 91: 40, 149: 10, 150: 20, 151: 20, 152: 10}, [87, 89, 150, 153]),
        # a heap about bin 4 or 196 has no local peak, five bins from the border being the first that can be one: the
        # peak is the middle, (2 + 152) / 2 and (47 + 197) / 2
        ({3: 10, 4: 20, 5: 10, 149: 20, 150: 40, 151: 20}, [2, 77, 149, 152]),
        ({49: 20, 50: 40, 51: 20, 195: 10, 196: 20, 197: 10}, [47, 49, 122, 197]),
    ],
)
def test_ends_and_peaks_by_hand(rows, expected):
    points, apart = end_points(counted(rows))
    assert (points.tolist(), apart.item()) == (expected, True)


# no row; one bin at the border: 198 and 197; one beside it, whose sums are in the bins 197 and 198: 197 and 197
@pytest.mark.parametrize("rows", [{}, {200: 50}, {199: 50}])
def test_ends_that_do_not_lie_apart(rows):
    assert not end_points(counted(rows))[1]


def test_share_of_the_ends_by_hand():
    # 2 - 1 / (1 + e^5) - 1 / (1 + e^-15) = 2 - 0.0066929 - 0.9999997, and 2 - 2 / (1 + e^-5) = 2 - 1.9866143
    values = [share_of_ends(torch.tensor(cosine)).item() for cosine in (-0.3, 0.0, 0.5, 1.0)]
    assert values == pytest.approx([0.9933074, 0.9933074, 0.0133857, 0.9933074], abs=1e-6)


def weights(bins: list[int], points: list[int]) -> list[float]:
    return row_weights(torch.tensor(bins), torch.tensor(points)).tolist()


def test_weights_by_hand_before_half():
    # right end 140: cosine 0.4, h = 2 - 0.9525741 - 0.9990889 = 0.0483370. Left peak 80: bin 110 has z = 0.5 and
    # w2 = 5.0067153 / 10.0000454 = 0.5006693; bin 140 has w2 = 1; bin 80 has log(2) / 10.0000454 = 0.0693144
    expected = [0.048337 + 0.951663 * w2 for w2 in (0.0693144, 0.5006693, 1.0, 1.0)]
    assert weights([80, 110, 140, 170], [50, 80, 120, 140]) == pytest.approx(expected, abs=1e-6)


def test_weights_by_hand_past_half():
    # right end 190: cosine 0.9, h = 2 - 0.9999977 - 0.0474259 = 0.9525764. Left peak 120.
    # bin 160: z = 40 / 70, w2 = log(1 + e^5.7142857) / 10.0000454 = 0.5717577; a = 80 / 2.576 = 31.0559, bell
    # exp(-(20 / 31.0559)^2 / 2) = 0.8127201. bin 180: z = 60 / 70, w2 = 0.8571436; bell 1. bin 185: z = 65 / 70,
    # w2 = 0.9285672; a = 10 / 2.576 = 3.8819876, bell exp(-(5 / 3.8819876)^2 / 2) = 0.4362796
    pairs = [(0.5717577, 0.8127201), (0.8571436, 1.0), (0.9285672, 0.4362796)]
    expected = [0.0474236 * w2 + 0.9525764 * bell for w2, bell in pairs]
    assert weights([160, 180, 185], [100, 120, 180, 190]) == pytest.approx(expected, abs=1e-6)


def test_weights_by_hand_around_half():
    # right end 150: cosine 0.5, where h = 0.0133857 and neither the first nor the last weight counts. 145: cosine 0.45,
    # h = 2 - 0.9820138 - 0.9975274 = 0.0204588 of a first weight of 1; 155: as much of the last, and the bell of bin
    # 155 is exp(-(5 * 2.576 / 5)^2 / 2) = 0.0362292. In all of them w2 of the right end is 1
    assert weights([150], [100, 120, 145, 150]) == pytest.approx([1 - 0.0133857], abs=1e-6)
    assert weights([145], [100, 120, 140, 145]) == pytest.approx([1.0], abs=1e-6)
    assert weights([155], [100, 120, 150, 155]) == pytest.approx([0.9795412 + 0.0204588 * 0.0362292], abs=1e-6)


@pytest.mark.parametrize("points", [[100, 150, 150, 150], [150, 150, 150, 150], [150, 151, 149, 150]])
def test_no_distance_is_less_than_a_bin(points):
    """Where the released code divides by 0, or by less."""
    values = row_weights(torch.arange(BINS + 1), torch.tensor(points))
    assert values.isfinite().all()
    assert values.min() >= 0
    assert values.max() <= 1


def test_the_defaults_are_those_of_the_released_code():
    loss = NoiseTolerant()
    assert (loss.scale, loss.window, loss.weighted) == (32.0, 1000, "logits")


def test_nothing_happens_before_the_window_is_full():
    loss, own = NoiseTolerant(window=3), torch.tensor([0.1, 0.6])
    for _ in range(2):
        loss.observe(batch(HEAPS))
        assert loss.points.tolist() == [-1] * 4
        assert loss.context(rows_of(own))[0].tolist() == [1.0, 1.0]
    loss.observe(batch(HEAPS))
    assert loss.points.tolist() == HEAPS_POINTS
    assert loss.context(rows_of(own))[0].tolist() == pytest.approx(weights([110, 160], HEAPS_POINTS))


def test_points_move_by_one_bin():
    loss = NoiseTolerant(window=1)
    loss.observe(batch(HEAPS))
    loss.observe(batch(HEAPS, moved=10))
    assert loss.points.tolist() == [88, 91, 150, 153]
    loss.observe(batch(HEAPS, moved=-1))  # toward 86, 89, 148 and 151
    assert loss.points.tolist() == HEAPS_POINTS


def test_window_forgets_the_oldest_batch():
    loss = NoiseTolerant(window=2)
    for number in (10, 20, 30):
        loss.observe(batch({number: 4}))
    assert loss.batches.item() == 3
    assert loss.counts.sum(0).nonzero()[:, 0].tolist() == [20, 30]


def test_rows_without_a_class_do_not_count():
    loss, rows = NoiseTolerant(window=1), batch({10: 2, 20: 1})
    loss.observe(Rows(rows.own, rows.length, rows.unit, torch.tensor([0, -1, -1])))
    assert loss.counts.sum(0).nonzero()[:, 0].tolist() == [10]


def test_a_batch_that_diverged_changes_nothing():
    loss = NoiseTolerant(window=2)
    loss.observe(batch(HEAPS))
    before = {name: value.clone() for name, value in loss.state_dict().items()}
    loss.observe(rows_of(torch.tensor([0.5, math.nan])))
    assert all(torch.equal(value, before[name]) for name, value in loss.state_dict().items())


def test_a_batch_whose_ends_are_not_apart_leaves_the_points():
    loss = NoiseTolerant(window=1)
    loss.observe(batch({200: 5}))
    assert loss.points.tolist() == [-1] * 4
    loss.observe(batch(HEAPS))
    loss.observe(batch({200: 5}))
    assert loss.points.tolist() == HEAPS_POINTS


def weighed(weighted: str) -> NoiseTolerant:
    loss = NoiseTolerant(scale=2.0, weighted=weighted, window=1)
    loss.observe(batch(HEAPS))
    return loss


def test_logits_by_hand():
    # own 60 degrees and 0.5 radians: 2 * 0.0235966; others 2 * 0.3 and 2 * -0.2; all times the weight w of bin 150
    cosines, labels = torch.tensor([[0.5, 0.3, -0.2]], dtype=torch.float64), torch.tensor([0])
    (w,) = weights([150], HEAPS_POINTS)
    assert 0.1 < w < 0.99
    expected = math.log(1 + (math.exp(0.6 * w) + math.exp(-0.4 * w)) / math.exp(0.0471932 * w))
    assert weighed("logits").forward(cosines, labels).item() == pytest.approx(expected, rel=1e-6)
    plain = math.log(1 + (math.exp(0.6) + math.exp(-0.4)) / math.exp(0.0471932))
    assert weighed("loss").forward(cosines, labels).item() == pytest.approx(w * plain, rel=1e-6)


@pytest.mark.parametrize("weighted", ["logits", "loss"])
def test_gradcheck_with_a_constant_weight(weighted):
    """The weight is a step function of the own cosine, so it has no slope within a bin."""
    loss, labels = weighed(weighted), torch.tensor([0, 1])
    cosines = torch.tensor([[0.475, 0.3, -0.2], [0.6, -0.115, 0.1]], dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda c: loss.forward(c, labels), cosines)


@pytest.mark.parametrize("weighted", ["logits", "loss"])
def test_before_its_first_estimate_it_is_arcface(weighted):
    cosines, labels = torch.tensor([[0.5, 0.3, -0.2]]), torch.tensor([0])
    assert torch.equal(
        NoiseTolerant(weighted=weighted).forward(cosines, labels), ArcFace(0.5, 32.0).forward(cosines, labels)
    )
