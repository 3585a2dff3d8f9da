"""SphereFace2: values by hand, the start of its bias, made gradients, and what its settings come down to."""

import math

import pytest
import torch
import torch.nn.functional as F

from loss_rows import cosines, rows_of
from verisphere.head.head import Head
from verisphere.losses.sphereface2 import SphereFace2, bias_start, other_similarity, own_similarity, table_2

KINDS = [("C", 0.4), ("A", 0.5), ("M", 1.7)]
NO_MARGIN = {"C": 0.0, "A": 0.0, "M": 1.0}


def per_row(loss: SphereFace2, own: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """The loss of rows with these own cosines (batch,) and other cosines (batch, classes - 1)."""
    context = [item.to(own.dtype).expand(len(own)) for item in loss.context(rows_of(own))]
    rest = loss.others(others, *(item[:, None] for item in context)).sum(1)
    return loss.finish(loss.own(own, *context), rest, *context)


def softplus(x: float) -> float:
    return math.log1p(math.exp(x)) if x < 0 else x + math.log1p(math.exp(-x))


# ------------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("kind", "margin", "t", "degrees", "expected"),
    [
        ("C", 0.4, 1.0, 60, 0.1),
        ("C", 0.4, 3.0, 60, -0.55625),  # 2 * 0.75**3 - 1 - 0.4
        ("C", 0.4, 0.5, 60, 0.3320508),  # 2 * sqrt(0.75) - 1 - 0.4
        ("A", 0.5, 1.0, 60, 0.0235966),  # cos(1.5471976)
        ("A", 0.5, 3.0, 60, -0.7318817),  # 2 * (1.0235966 / 2)**3 - 1
        ("M", 1.7, 1.0, 60, -0.2079117),  # cos(102 degrees)
        ("M", 1.7, 3.0, 60, -0.8757602),  # 2 * (0.7920883 / 2)**3 - 1
        ("A", 0.5, 3.0, 170, -1.0),  # past 180 degrees: held at -1
        ("M", 1.7, 1.0, 120, -1.0),
    ],
)
@pytest.mark.parametrize("gradient", ["paper", "released"])
def test_own_similarity_by_hand(kind, margin, t, degrees, expected, gradient):
    value = own_similarity(cosines(degrees), kind, margin, t, gradient).item()
    assert value == pytest.approx(expected, abs=5e-8)


def test_loss_by_hand():
    # r 2, lambda 0.7, m 0.1, t 1, b 0.3; own cosine 0.5, the others 0 and -0.5:
    # 0.35 * softplus(-(0.8 + 0.3)) + 0.15 * (softplus(0.2 + 0.3) + softplus(-0.8 + 0.3))
    # = 0.35 * 0.2873353 + 0.15 * (0.9740770 + 0.4740770)
    loss = SphereFace2(margin=0.1, scale=2.0, t=1.0)
    loss.bias.data.fill_(0.3)
    own, others = torch.tensor([0.5]), torch.tensor([[0.0, -0.5]])
    assert per_row(loss, own, others).item() == pytest.approx(0.3177905, abs=2e-7)
    weighted = SphereFace2(margin=0.1, scale=2.0, t=1.0, loss_weight=50.0)
    weighted.bias.data.fill_(0.3)
    assert per_row(weighted, own, others).item() == pytest.approx(15.8895230, abs=1e-5)


def test_nobody_known_is_a_negative_for_every_class():
    # as above, but the class at cosine 0.5 is a negative too: 0.15 * (softplus(1.5) + 0.9740770 + 0.4740770)
    loss = SphereFace2(margin=0.1, scale=2.0, t=1.0)
    head = Head(loss, 3, 2)
    loss.bias.data.fill_(0.3)
    half = math.sqrt(3) / 2
    head.centers.data = torch.tensor([[[0.5, half]], [[0.0, 1.0]], [[-0.5, half]]])
    out = head(torch.tensor([[4.0, 0.0], [4.0, 0.0]]), torch.tensor([0, -1]))
    assert out.per_sample.tolist() == pytest.approx([0.3177905, 0.4724351], abs=2e-7)


def test_two_margins_without_a_bias_are_equation_3():
    # r 2, lambda 0.5, m_p 0.3, m_n 0.1: (softplus(-2 * 0.2) + softplus(2 * 0.35)) / 4
    loss = SphereFace2(margin=0.3, negative_margin=0.1, scale=2.0, balance=0.5, t=1.0, bias=False)
    assert list(loss.parameters()) == []
    expected = (softplus(-0.4) + softplus(0.7)) / 4
    assert per_row(loss, torch.tensor([0.5]), torch.tensor([[0.25]])).item() == pytest.approx(expected, rel=1e-6)


def test_huge_logits_do_not_overflow():
    loss = SphereFace2(scale=1e5)
    own, others = torch.tensor([1.0, -1.0], requires_grad=True), torch.tensor([[1.0], [-1.0]], requires_grad=True)
    out = per_row(loss, own, others)
    out.sum().backward()
    for tensor in (out, own.grad, others.grad, loss.bias.grad):
        assert tensor.isfinite().all()


# ---------------------------------------------------------------------------------------------------- gradients


@pytest.mark.parametrize(("kind", "margin"), KINDS)
def test_slopes_of_the_own_similarity(kind, margin):
    """The paper's slope is that of g without a margin: 3 * 0.75**2 at 60 degrees; the release's is 1."""
    for gradient, slope in (("paper", 1.6875), ("released", 1.0)):
        own = cosines(60).requires_grad_()
        own_similarity(own, kind, margin, 3.0, gradient).backward()
        assert own.grad.item() == pytest.approx(slope)


def test_slopes_of_the_other_similarities():
    for gradient, slope in (("paper", 1.6875), ("released", 1.0)):
        cosine = cosines(60)[None].requires_grad_()
        value = other_similarity(cosine, 3.0, gradient)
        value.sum().backward()
        assert value.item() == pytest.approx(-0.15625)  # 2 * 0.75**3 - 1
        assert cosine.grad.item() == pytest.approx(slope)


@pytest.mark.parametrize("t", [0.3, 0.5, 0.7])
def test_rows_of_table_11_have_finite_gradients_at_opposite_embeddings(t):
    """At cosine -1, where the slope of g is clamped to t * 0.001**(t - 1)."""
    head = Head(SphereFace2(t=t), 3, 2)
    head.centers.data = torch.tensor([[[1.0, 0.0]], [[-1.0, 0.0]], [[0.0, 1.0]]])
    embeddings = torch.tensor([[-3.0, 0.0], [2.0, 0.0]], requires_grad=True)
    head(embeddings, torch.tensor([0, 0])).loss.backward()
    assert embeddings.grad.isfinite().all()
    assert head.centers.grad.isfinite().all()
    cosine = torch.tensor([[-1.0]], requires_grad=True)
    other_similarity(cosine, t).sum().backward()
    assert cosine.grad.item() == pytest.approx(t * 1000 ** (1 - t), rel=1e-5)


# ----------------------------------------------------------------------------------------------- start of the bias


@pytest.mark.parametrize(
    ("own", "other", "ratio", "expected"),
    [
        (0.0, 0.0, 1.0, 0.0),
        (-1.5, -1.5, 1.0, 1.5),  # undoes the common offset
        (-20.0, 4.0, 1.0, 8.0),  # balanced: half way, whatever the gap
        (0.0, 0.0, 1 / 3, -math.log(3)),  # sigmoid(-b) = 3 sigmoid(b)
        (0.0, 0.0, 3.0, math.log(3)),
    ],
)
def test_bias_start_by_hand(own, other, ratio, expected):
    assert bias_start(own, other, ratio) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("classes", [2, 3, 10, 1000, 10**6, 10**8])
@pytest.mark.parametrize("balance", [0.1, 0.5, 0.7, 0.99, "balanced"])
@pytest.mark.parametrize(("kind", "margin"), KINDS)
def test_bias_start_is_flat_at_cosine_zero(kind, margin, balance, classes):
    """dL/db by central differences of the two sides of the loss, which must cancel; an independent derivation."""
    r, t = 40.0, 3.0
    loss = SphereFace2(kind, margin, scale=r, balance=balance, t=t).double()
    loss.prepare(classes)
    share = (classes - 1) / classes if balance == "balanced" else balance
    theta = {"C": math.pi / 2, "A": math.pi / 2 + margin, "M": margin * math.pi / 2}[kind]
    own = r * (2 * ((math.cos(theta) + 1) / 2) ** t - 1 - (margin if kind == "C" else 0.0))
    other = r * (2 * 0.5**t - 1 + (margin if kind == "C" else 0.0))

    def positive(b: float) -> float:
        return share * softplus(-(own + b))

    def negative(b: float) -> float:
        return (1 - share) * (classes - 1) * softplus(other + b)

    b, step = loss.bias.item(), 1e-4
    rising, falling = ((side(b + step) - side(b - step)) / (2 * step) for side in (negative, positive))
    assert rising == pytest.approx(-falling, rel=1e-6)


def test_bias_start_is_continuous_where_its_two_forms_meet():
    around = [bias_start(-12.0, 10.0, 1.0 + step) for step in (-1e-9, 0.0, 1e-9)]
    assert around == pytest.approx([1.0, 1.0, 1.0], abs=1e-4)  # steep there: d b / d ratio is about exp(11) / 2


def test_a_new_head_starts_where_the_bias_is_flat():
    head = Head(SphereFace2(), 5, 6)
    embeddings = torch.zeros(3, 6)  # every cosine 0
    head(embeddings, torch.tensor([0, 1, 4])).loss.backward()
    assert head.loss.bias.grad.item() == pytest.approx(0.0, abs=1e-6)


# -------------------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize("kind", ["C", "A", "M"])
def test_without_margin_and_adjustment_it_is_logistic_regression(kind):
    generator = torch.Generator().manual_seed(0)
    own, others = (2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1 for shape in ((5,), (5, 3)))
    loss = SphereFace2(kind, NO_MARGIN[kind], scale=8.0, balance=0.5, t=1.0).double()
    loss.bias.data.fill_(0.7)
    logits = 8 * torch.cat([own[:, None], others], dim=1) + 0.7
    targets = F.one_hot(torch.zeros(5, dtype=torch.int64), 4).double()
    expected = F.binary_cross_entropy_with_logits(logits, targets, reduction="none").sum(1) / 16
    torch.testing.assert_close(per_row(loss, own, others), expected)


@pytest.mark.parametrize(("kind", "margin"), KINDS)
def test_strength_scales_both_margins(kind, margin):
    own, others = cosines(10, 80, 140), cosines(80, 90, 100, 60, 120, 70).reshape(3, 2)
    for share, reached in ((0.0, NO_MARGIN[kind]), (0.5, (NO_MARGIN[kind] + margin) / 2), (1.0, margin)):
        loss, direct = SphereFace2(kind, margin, t=2.0), SphereFace2(kind, reached, t=2.0)
        loss.set_strength(share)
        for one in (loss, direct):
            one.double().bias.data.fill_(-3.0)
        torch.testing.assert_close(per_row(loss, own, others), per_row(direct, own, others))


def test_balanced_gives_both_sides_the_same_total_weight():
    loss = SphereFace2(balance="balanced")
    with pytest.raises(ValueError, match="call prepare"):
        loss.slope()
    loss.prepare(8)
    positive, negative = loss.shares()
    assert (positive, negative) == (0.875, 0.125)
    assert positive == 7 * negative


def test_rows_of_table_2():
    own, others = cosines(50, 100), cosines(80, 90, 60, 120).reshape(2, 2)
    naive = table_2("naive")
    targets = torch.tensor([[1.0, 0.0, 0.0]] * 2, dtype=torch.float64)
    plain = F.binary_cross_entropy_with_logits(torch.cat([own[:, None], others], 1), targets, reduction="none").sum(1)
    torch.testing.assert_close(per_row(naive, own, others), plain)  # equation 1
    settings = [
        (loss.scale, loss.margin, loss.t, loss.bias is not None, loss.balance)
        for loss in map(table_2, ("naive", "PN", "EH", "AM", "SA"))
    ]
    assert settings == [
        (1.0, 0.0, 1.0, False, 0.5),
        (1.0, 0.0, 1.0, False, "balanced"),
        (30.0, 0.0, 1.0, False, "balanced"),
        (30.0, 0.4, 1.0, True, 0.8),
        (30.0, 0.4, 3.0, True, 0.7),
    ]


def test_defaults_are_the_papers():
    loss = SphereFace2()
    assert (loss.margin, loss.negative_margin, loss.scale, loss.balance, loss.t) == (0.4, 0.4, 30.0, 0.7, 3.0)
    assert (SphereFace2("A").margin, SphereFace2("A").negative_margin) == (0.5, 0.0)
    assert (SphereFace2("M").margin, SphereFace2("M").negative_margin) == (1.7, 0.0)
    assert loss.reduce == "sum"
    assert loss.linear


def test_fewer_than_two_classes_are_refused():
    with pytest.raises(ValueError, match="classes is 1; SphereFace2 compares one class with the others"):
        Head(SphereFace2(), 1, 4)


def test_unknown_row_of_table_2_is_refused():
    bare = getattr(table_2, "__wrapped__", table_2)
    with pytest.raises(ValueError, match="row is 'XX'; allowed are naive, PN, EH, AM, SA"):
        bare("XX")
