"""Q-Margin: values by hand, its limits, and an independent sparsemax."""

import copy
import math

import pytest
import torch
from torch.autograd import gradcheck

from loss_rows import numbers
from verisphere.head import Dense, Head, Sampled, Sparse, Streamed
from verisphere.losses import CosFace, QMargin, Rows
from verisphere.losses.q_margin import margin_in_logits, newton_step, normaliser, probability_and_slope

ALPHAS = [1.05, 1.25, 1.5, 1.8, 2.0]


def value_and_gradient(loss: QMargin, *cosines: float) -> tuple[float, list[float]]:
    """The loss of a row whose own class is the first, and its gradient in the logits."""
    row = numbers(*cosines)[None].requires_grad_()
    value = loss.forward(row, torch.tensor([0]))
    value.backward()
    return value.item(), (row.grad[0] / loss.scale).tolist()


def test_values_by_hand():
    # two equal logits: both bases sqrt(1/2), D(p, q) = 2 f(1/2) = 0.2761424, D(e_y, q) = f(0) = 2/3
    value, gradient = value_and_gradient(QMargin(1.5, 0.0, 4.0), 0.3, 0.3)
    assert value == pytest.approx(2 / 3 - 0.2761424)
    assert gradient == pytest.approx([-0.5, 0.5])
    # margin 2 (c = 2), own logit 0.8 above the other: bases 0.6 and 0.8, t = 1.6, t_j = 0.4
    # 1.6 + 2/1.5 (0.216 - 1) + 0.512/1.5
    value, gradient = value_and_gradient(QMargin(1.5, 0.2, 10.0), 0.18, 0.1)
    assert value == pytest.approx(0.896)
    assert gradient == pytest.approx([-0.64, 0.64])


def test_a_class_that_leads_by_more_than_its_margin_costs_nothing():
    # M + 1 / (a - 1) = 2 + 2 logits
    value, gradient = value_and_gradient(QMargin(1.5, 0.2, 10.0), 0.51, 0.1)
    assert (value, gradient) == (0.0, [0.0, 0.0])
    value, gradient = value_and_gradient(QMargin(1.5, 0.2, 10.0), 0.49, 0.1)
    assert value > 0
    assert gradient[0] < 0


def test_the_own_class_has_its_gradient_where_its_probability_is_0():
    # tau is the other logit, 4; t = 4 + 2 - 1 = 5 is beyond c / (a - 1) = 4: 5 - 2/1.5 + 1/1.5
    value, gradient = value_and_gradient(QMargin(1.5, 0.2, 10.0), 0.1, 0.4)
    assert value == pytest.approx(5 - 2 / 3)
    assert gradient == [-1.0, 1.0]


@pytest.mark.parametrize(
    "engine", [Dense(), Streamed(chunk=3), Sampled(0.5, Dense())], ids=["dense", "streamed", "sampled"]
)
def test_the_own_center_has_its_gradient_row_on_every_engine(engine):
    """Embeddings on center 1 that belong to 0, 5 and 7: p_y is 0, and the pull is the whole scale."""
    head = Head(QMargin(1.5, 0.2, 10.0), 10, 10, engine=engine).double()
    head.centers.data = 2 * torch.eye(10, dtype=torch.float64)[:, None]
    row = 3 * torch.eye(10, dtype=torch.float64)[1].expand(4, 10)
    labels = torch.tensor([0, 5, 7, 1])  # with the last one class 1 is in every sample
    head(row, labels).loss.backward()
    expected = torch.zeros(3, 10, dtype=torch.float64)
    expected[:, 1] = -10.0 / 4 / 2  # (p_y - 1) * scale / batch / length of the center, along the embedding
    torch.testing.assert_close(head.centers.grad[labels[:3], 0], expected)


def bisected(others: torch.Tensor, own: torch.Tensor, alpha: float, own_q: float) -> torch.Tensor:
    """The normaliser by bisection of the definition, with q as it is."""

    def total(tau: torch.Tensor) -> torch.Tensor:
        logits = torch.cat([own[:, None], others], dim=1)
        q = torch.ones_like(logits)
        q[:, 0] = own_q
        return (q * (1 + (alpha - 1) * (logits - tau[:, None])).clamp(min=0) ** (1 / (alpha - 1))).sum(1)

    low, high = own.minimum(others.amin(1)) - 1e9, own.maximum(others.amax(1)) + 1 / (alpha - 1)
    for _ in range(200):
        middle = (low + high) / 2
        above = total(middle) > 1
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return low


def divergence(p: torch.Tensor, q: torch.Tensor, alpha: float) -> torch.Tensor:
    """D(p, q) = sum_j q_j f(p_j / q_j), f(u) = (u^a - 1 - a (u - 1)) / (a (a - 1))."""
    u = p / q
    return (q * (u**alpha - 1 - alpha * (u - 1)) / (alpha * (alpha - 1))).sum(1)


def by_definition(logits: torch.Tensor, labels: torch.Tensor, alpha: float, own_q: float) -> torch.Tensor:
    """<p, z> - D(p, q) + D(e_y, q) - z_y, with p from a bisection."""
    row = torch.arange(len(logits))
    own = logits[row, labels]
    is_own = torch.nn.functional.one_hot(labels, logits.shape[1]).bool()
    others = logits[~is_own].reshape(len(logits), -1)
    tau = bisected(others, own, alpha, own_q)
    q = torch.ones_like(logits).masked_fill(is_own, own_q)
    p = q * (1 + (alpha - 1) * (logits - tau[:, None])).clamp(min=0) ** (1 / (alpha - 1))
    return (p * logits).sum(1) - divergence(p, q, alpha) + divergence(is_own.double(), q, alpha) - own


@pytest.mark.parametrize("alpha", [1.1, 1.25, 1.5, 2.0])
@pytest.mark.parametrize("prior", ["separating", "exponential", 0.2])
def test_value_is_that_of_the_definition(alpha, prior):
    generator = torch.Generator().manual_seed(1)
    cosines = torch.rand(9, 6, generator=generator, dtype=torch.float64) - 0.4
    labels = torch.arange(9) % 6
    loss = QMargin(alpha, None if isinstance(prior, float) else 0.25, 8.0, prior)
    own_q = {"separating": (1 + (alpha - 1) * 2) ** (-1 / (alpha - 1)), "exponential": math.exp(-2)}.get(prior, prior)
    expected = by_definition(8.0 * cosines, labels, alpha, own_q)
    for row in range(9):
        value = loss.forward(cosines[row : row + 1], labels[row : row + 1])
        assert value.item() == pytest.approx(expected[row].item(), rel=1e-9, abs=1e-9)


def sparsemax(logits: torch.Tensor) -> torch.Tensor:
    """Martins and Astudillo 2016, algorithm 1: the projection onto the simplex, by sorting."""
    ordered = logits.sort(descending=True).values
    count = torch.arange(1, len(logits) + 1)
    inside = 1 + count * ordered > ordered.cumsum(0)
    size = int(inside.sum())
    return (logits - (ordered[:size].sum() - 1) / size).clamp(min=0)


def test_alpha_2_without_margin_is_sparsemax():
    generator = torch.Generator().manual_seed(2)
    for _ in range(20):
        cosines = torch.rand(9, generator=generator, dtype=torch.float64) - 0.5
        expected = sparsemax(5 * cosines)
        _, gradient = value_and_gradient(QMargin(2.0, 0.0, 5.0), *cosines.tolist())
        torch.testing.assert_close(numbers(*gradient), expected - numbers(1, *[0] * 8))
        # its loss: 1/2 sum over the support of (z_j^2 - tau^2), + 1/2 - z_y
        support = expected > 0
        tau = (5 * cosines - expected)[support][0]
        value, _ = value_and_gradient(QMargin(2.0, 0.0, 5.0), *cosines.tolist())
        by_paper = ((5 * cosines)[support] ** 2 - tau**2).sum() / 2 + 0.5 - 5 * cosines[0]
        assert value == pytest.approx(by_paper.item())


@pytest.mark.parametrize("prior", ["separating", "exponential"])
def test_alpha_towards_1_is_cosface(prior):
    cosines = torch.rand(6, 20, generator=torch.Generator().manual_seed(3), dtype=torch.float64) - 0.4
    labels = torch.arange(6)
    near = QMargin(1 + 1e-7, 0.3, 16.0, prior)
    ours, theirs = cosines.clone().requires_grad_(), cosines.clone().requires_grad_()
    value, cosface = near.forward(ours, labels), CosFace(0.3, 16.0).forward(theirs, labels)
    assert value.item() == pytest.approx(cosface.item(), rel=1e-5)
    value.backward()
    cosface.backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "engine", [Dense(), Streamed(chunk=7), Sampled(1.0, Dense()), Sparse()], ids=lambda engine: type(engine).__name__
)
@pytest.mark.parametrize("prior", ["separating", "exponential"])
@pytest.mark.parametrize("above", [0.03, 1e-3, 1e-5, 1e-8, 1e-12])
def test_float32_is_right_to_its_rounding_however_near_1_alpha_is(engine, prior, above):
    """Against float64, and this one against CosFace."""
    generator = torch.Generator().manual_seed(15)
    centers, rows = torch.randn(200, 1, 8, generator=generator), torch.randn(9, 8, generator=generator)
    found = []
    near = QMargin(1 + above, 0.2, 16.0, prior)
    for loss, run_by, dtype in (
        (near, engine, torch.float32),
        (copy.deepcopy(near), Dense(), torch.float64),
        (CosFace(0.2, 16.0), Dense(), torch.float64),
    ):
        head = Head(loss, 200, 8, engine=run_by).to(dtype)
        head.centers.data = centers.to(dtype)
        given = rows.to(dtype, copy=True).requires_grad_()
        output = head(given, torch.arange(9))
        output.loss.backward()
        found.append([output.per_sample.double(), given.grad.double(), head.centers.grad.double()])
    for single, double, limit in zip(*found, strict=True):
        torch.testing.assert_close(single, double, rtol=0, atol=1e-6 * float(double.abs().max()))
        torch.testing.assert_close(double, limit, rtol=0, atol=max(100 * above, 1e-8) * float(limit.abs().max()))


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("nearest", [1, 64])
def test_gradcheck(alpha, nearest):
    cosines = torch.rand(5, 8, generator=torch.Generator().manual_seed(4), dtype=torch.float64) - 0.4
    loss, labels = QMargin(alpha, 0.2, 6.0, nearest=nearest), torch.arange(5)
    assert gradcheck(lambda given: loss.forward(given, labels), (cosines.requires_grad_(),))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_gradient_is_that_of_a_distribution(alpha):
    cosines = torch.rand(1, 50, generator=torch.Generator().manual_seed(5), dtype=torch.float64) - 0.4
    _, (own, *others) = value_and_gradient(QMargin(alpha, 0.1, 8.0), *cosines[0].tolist())
    assert min(others) >= 0
    assert own + sum(others) == pytest.approx(0, abs=1e-12)
    window = cosines[0, 1:].max().item() - 1 / (alpha - 1) / 8
    support = [cosine for cosine, one in zip(cosines[0, 1:].tolist(), others, strict=True) if one > 0]
    assert 0 < len(support) < 49 or alpha == 1.05
    assert min(support) > window


# The normaliser -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_normaliser_is_the_root(alpha):
    generator = torch.Generator().manual_seed(6)
    others = 30 * torch.randn(200, 30, generator=generator, dtype=torch.float64)
    others[100:] *= 0.02
    own = 30 * torch.randn(200, generator=generator, dtype=torch.float64)
    tau = normaliser(others, own, alpha, 7.0)
    (of_others, _), (of_own, _) = (
        probability_and_slope(tau[:, None] - others, alpha),
        probability_and_slope(tau - (own - 7.0), alpha, 7.0),
    )
    total = of_others.sum(1) + of_own
    torch.testing.assert_close(total, torch.ones_like(total), rtol=1e-12, atol=0)
    root = bisected(others, own, alpha, (1 + (alpha - 1) * 7.0) ** (-1 / (alpha - 1)))
    torch.testing.assert_close(tau, root, rtol=1e-12, atol=1e-11)


def test_the_normaliser_of_equal_logits_by_hand():
    # n (1 + (a - 1)(z - tau))^(1 / (a - 1)) = 1; the own class lies far below
    for alpha in ALPHAS:
        tau = normaliser(torch.full((1, 5000), 2.0), numbers(-1e6).float(), alpha, 0.0)
        assert tau.item() == pytest.approx(2.0 + (1 - 5000 ** (1 - alpha)) / (alpha - 1))
        # at tau = 2 each has probability and slope 1, and one step is enough
        assert newton_step(numbers(5000.0), numbers(5000.0), alpha).item() == pytest.approx(tau.item() - 2.0)


def test_the_normaliser_of_few_is_at_most_that_of_all_and_needs_no_class_outside_the_window():
    others = 6 * torch.randn(40, 60, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    others = others.sort(1, descending=True).values
    own = torch.zeros(40, dtype=torch.float64)
    every = normaliser(others, own, 1.5, 3.0)
    few = normaliser(others[:, :4], own, 1.5, 3.0)
    decided = others[:, 3] <= few - 2.0
    assert 0 < decided.sum() < 40
    assert (few <= every + 1e-12).all()
    torch.testing.assert_close(few[decided], every[decided], rtol=1e-13, atol=1e-13)
    assert (few[~decided] < every[~decided]).any()


def test_the_normaliser_without_another_class_or_a_number():
    assert normaliser(torch.empty(1, 0), numbers(5.0), 1.5, 3.0).item() == 2.0
    assert normaliser(torch.tensor([[-math.inf]]), numbers(5.0), 1.5, 3.0).item() == 2.0
    assert normaliser(torch.tensor([[1.0, 2.0]]), numbers(math.nan), 1.5, 3.0).isnan().item()


def test_beyond_the_nearest_few_passes_are_enough():
    """Hundreds of other classes have a probability; each Newton step is a pass over all classes."""
    cosines = 0.04 * torch.randn(4, 3000, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    labels = torch.zeros(4, dtype=torch.int64)
    others = cosines[:, 1:]
    loss, passes = QMargin(1.1, 0.4, 64.0), []

    def sums(function):
        passes.append(function(others))
        return torch.stack([one.sum(1) for one in passes[-1]])

    nearest = others.topk(64).values
    length = torch.ones(4, dtype=torch.float64)
    (tau,) = loss.context(Rows(cosines[:, 0], length, length[:, None], labels, nearest, sums=sums))
    expected = normaliser(64 * others, 64 * cosines[:, 0], 1.1, 25.6)
    torch.testing.assert_close(tau, expected, rtol=1e-12, atol=0)
    assert (probability_and_slope(tau[:, None] - 64 * others, 1.1)[0] > 0).sum(1).min() > 64
    assert 1 <= len(passes) <= 7


def test_a_row_that_the_nearest_decide_takes_no_further_pass():
    def sums(function):
        raise AssertionError("a pass over all classes")

    length = torch.ones(1, dtype=torch.float64)
    nearest = torch.linspace(0.3, -0.3, 64, dtype=torch.float64)[None]
    rows = Rows(numbers(0.2), length, length[:, None], torch.tensor([0]), nearest, sums=sums)
    (tau,) = QMargin().context(rows)
    assert tau.item() == normaliser(64 * nearest, numbers(12.8), 1.5, 25.6).item()


def test_a_newton_step_from_below_stays_below():
    logits = torch.randn(50, 30, generator=torch.Generator().manual_seed(9), dtype=torch.float64) * 3
    for alpha in ALPHAS:
        root = normaliser(logits, torch.full((50,), -99.0, dtype=torch.float64), alpha, 0.0)
        for below in (1e-3, 0.1, 1.0, 10.0):
            total, slope = (one.sum(1) for one in probability_and_slope((root - below)[:, None] - logits, alpha))
            after = root - below + newton_step(total, slope, alpha)
            assert (after <= root + 1e-9).all()
            assert (after > root - below).all()


# What the margin means ----------------------------------------------------------------------------------------------


def test_margins_in_logits_by_hand():
    assert margin_in_logits(1.5, 25.6, "separating") == 25.6
    assert margin_in_logits(1.5, 2.0, "exponential") == pytest.approx((math.e - 1) / 0.5)
    assert margin_in_logits(2.0, 0.0, 0.25) == pytest.approx(3.0)  # 1 / q - 1
    assert margin_in_logits(1.5, 0.0, 0.25) == pytest.approx(2.0)  # (1 / sqrt(q) - 1) / 0.5
    assert margin_in_logits(1.5, 0.0, 1.0) == margin_in_logits(1.5, 0.0, "exponential") == 0.0


def test_strength_scales_the_margin():
    for loss in (QMargin(), QMargin(prior="exponential", margin=0.02), QMargin(margin=None, prior=0.01)):
        cosines, labels = torch.tensor([[0.5, 0.48, 0.2]]), torch.tensor([0])
        loss.set_strength(0.0)
        without = loss.forward(cosines, labels)
        assert without == QMargin(margin=0.0).forward(cosines, labels)
        loss.set_strength(0.5)
        half = loss.forward(cosines, labels)
        loss.set_strength(1.0)
        assert without < half < loss.forward(cosines, labels)


def test_the_own_probability_by_either_rule_among_100_000_classes():
    """s = 64, m = 0.4, a = 1.5, other cosines as those of random centers in 512 dimensions."""
    others = torch.randn(100_000, generator=torch.Generator().manual_seed(10), dtype=torch.float64) / 512**0.5
    for prior, at, expected in (("exponential", 1.0, 5e-9), ("separating", 0.6, 0.87), ("separating", 0.7, 1.0)):
        cosines = torch.cat([numbers(at), others])[None].requires_grad_()
        QMargin(prior=prior).forward(cosines, torch.tensor([0])).backward()
        assert 1 + cosines.grad[0, 0].item() / 64 == pytest.approx(expected, rel=0.02, abs=1e-9)
        assert (cosines.grad[0, 1:] > 0).sum() < 10


@pytest.mark.parametrize("engine", [Dense(), Streamed(), Sparse(screen="float32")], ids=["dense", "streamed", "sparse"])
def test_a_large_margin_near_softmax_has_a_gradient(engine):
    """The own logit leads by less than its margin of 768 logits; as another class's its term would be infinite."""
    head = Head(QMargin(1.01, 3.0, 256.0), 5, 2, engine=engine)
    head.centers.data = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0], [-1.0, -1.0]])[:, None]
    head.deferred = isinstance(engine, Sparse)
    rows = torch.tensor([[3.0, 1.0]], requires_grad=True)
    head(rows, torch.tensor([0])).loss.backward()
    assert rows.grad.isfinite().all()
    assert rows.grad.abs().max() > 1


def test_float32_is_not_drowned_by_the_classes():
    """N / a would be 133,333 with an ulp of 0.016."""
    others = torch.rand(200_000, generator=torch.Generator().manual_seed(11), dtype=torch.float64) * 0.2 - 0.1
    cosines = torch.cat([numbers(0.45), others])[None]
    label = torch.tensor([0])
    exact = QMargin(1.5, 0.3, 64.0).forward(cosines, label)
    assert QMargin(1.5, 0.3, 64.0).forward(cosines.float(), label).item() == pytest.approx(exact.item(), abs=2e-5)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_others_are_0_up_to_their_window(alpha):
    loss = QMargin(alpha, 0.2, 16.0)
    tau = numbers(3.0, 12.0)
    edge = loss.zero_up_to(tau)
    torch.testing.assert_close(edge, (tau - 1 / (alpha - 1)) / 16)
    for off, positive in ((-1e-9, False), (0.3, True)):
        cosine = (edge[:, None] + off).requires_grad_()
        terms = loss.others(cosine, tau[:, None])
        terms.sum().backward()
        assert ((terms > 0) == positive).all()
        assert ((cosine.grad > 0) == positive).all()


def test_a_sample_of_the_classes_costs_at_most_what_all_cost():
    generator = torch.Generator().manual_seed(12)
    rows, labels = torch.randn(6, 8, generator=generator), torch.arange(6)
    head = Head(QMargin(1.5, 0.2, 16.0), 40, 8, engine=Sampled(0.4, Dense()))
    of_all = head.eval()(rows, labels).per_sample
    of_some = torch.stack([head.train()(rows, labels).per_sample for _ in range(30)])
    assert (of_some <= of_all + 1e-5).all()
    assert (of_some.mean(0) < of_all - 1e-3).any()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"alpha": 1.0}, r"alpha is 1.0; it must be above 1 \(1 is softmax: use CosFace\) and at most 2 \(sparsemax\)"),
        ({"alpha": 2.5}, "alpha is 2.5"),
        ({"alpha": "1.5"}, "alpha is '1.5'; it must be above 1"),
        ({"alpha": None}, "alpha is None; it must be above 1"),
        ({"margin": "0.4"}, "margin is '0.4'; it must be a finite number >= 0"),
        ({"prior": None}, r"prior is None; q of the own class must be in \(0, 1\]"),
        ({"prior": True, "margin": None}, "prior is True; q of the own class must be in"),
        ({"margin": -0.1}, "margin is -0.1; it must be a finite number >= 0"),
        ({"margin": None}, "margin is None; it must be a finite number >= 0"),
        (
            {"margin": 20.0, "prior": "exponential", "alpha": 2.0},
            "margin is 20.0 and prior exponential; the margin in logits is too large for float32",
        ),
        ({"margin": 1.5, "prior": "exponential", "alpha": 2.0}, "margin is 1.5 and prior exponential; the margin in"),
        ({"margin": 1e37}, r"margin is 1e\+37 and prior separating"),
        ({"margin": None, "prior": 1e-308}, "margin is None and prior 1e-308"),
        ({"prior": "uniform"}, "prior"),
        ({"prior": 1.5, "margin": None}, r"prior is 1.5; q of the own class must be in \(0, 1\]"),
        ({"prior": 0.1}, r"prior is the number 0.1, so margin must be null \(None\), not 0.4"),
        ({"nearest": 0}, "nearest is 0; the normaliser needs at least 1 other class"),
        ({"scale": 0.0}, "scale is 0.0"),
    ],
)
def test_refusals(arguments, said, unchecked):
    with pytest.raises(ValueError, match=said):
        QMargin(**arguments)


def test_rows_without_their_nearest_are_refused():
    length = torch.ones(1)
    with pytest.raises(
        ValueError, match=r"rows\.nearest is None; a head for QMargin must fill it with 64 cosines a row"
    ):
        QMargin().context(Rows(length, length, length[:, None], torch.tensor([0])))
