"""What every class-center loss must hold to, whatever its equation; `loss_examples` has the losses."""

import copy
import math
import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from loss_examples import of_all, of_kinds
from verisphere.head.head import Head
from verisphere.head.passes import SAFE_BOUND
from verisphere.head.subcenters import SubCenters
from verisphere.losses.class_loss import ClassLoss, Rows, compared_rows
from verisphere.losses.margin import NormFace

BATCH, CLASSES, SIZE = 12, 7, 10


@pytest.fixture
def loss(example) -> ClassLoss:
    return example.make()


def batch(dtype: torch.dtype = torch.float64, classes: int = CLASSES) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    embeddings = 5 * torch.randn(BATCH, SIZE, generator=generator, dtype=torch.float64)
    return embeddings.to(dtype).requires_grad_(), torch.randint(0, classes, (BATCH,), generator=generator)


def head_of(loss: ClassLoss, subcenters: int = 1, classes: int = CLASSES, dtype: torch.dtype = torch.float64) -> Head:
    torch.manual_seed(4)
    return Head(loss, classes, SIZE, centers=SubCenters(subcenters)).to(dtype)


def rows_at(cosine: torch.Tensor) -> Rows:
    """Rows with these own cosines; lengths about 20, directions, other cosines and noise that mean nothing."""
    generator = torch.Generator().manual_seed(7)
    embeddings = 6 * torch.randn(len(cosine), SIZE, generator=generator, dtype=torch.float64).to(cosine.dtype)
    length = embeddings.norm(dim=1)
    nearest = torch.linspace(0.8, -0.4, 3, dtype=cosine.dtype).expand(len(cosine), 3)
    noise = torch.randn(len(cosine), 2, generator=generator, dtype=torch.float64).to(cosine.dtype)
    return Rows(cosine, length, embeddings / length[:, None], torch.arange(len(cosine)) % CLASSES, nearest, noise)


def context_of(loss: ClassLoss, rows: Rows) -> tuple[torch.Tensor, ...]:
    return tuple(item.to(rows.own).expand(len(rows.own)) for item in loss.context(rows))


def columns(context: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(item[:, None] for item in context)


# ------------------------------------------------------------------------------------------------- with a head


@of_all(lambda example: example.alike)
def test_equivariant_to_renaming_classes(loss):
    embeddings, labels = batch()
    head = head_of(loss, 3).eval()
    renamed = copy.deepcopy(head)
    order = torch.randperm(CLASSES, generator=torch.Generator().manual_seed(5))  # new class c is the old order[c]
    renamed.centers.data = head.centers.data[order]
    new_name = order.argsort()
    before, after = head(embeddings, labels), renamed(embeddings, new_name[labels])
    torch.testing.assert_close(after.per_sample, before.per_sample)
    before.loss.backward()
    after.loss.backward()
    torch.testing.assert_close(renamed.centers.grad, head.centers.grad[order])


@of_all()
def test_lengths_matter_only_where_they_are_said_to(example, loss):
    embeddings, labels = batch()
    head = head_of(loss).eval()
    before = head(embeddings, labels).per_sample
    same = torch.allclose(head(embeddings * 0.01, labels).per_sample, before)
    assert same != example.length_matters
    if loss.similarity == "cosine":
        head.centers.data *= 3.0
        torch.testing.assert_close(head(embeddings, labels).per_sample, before)


@of_kinds()
@pytest.mark.parametrize(("sign", "others"), [(1.0, "near"), (-1.0, "far")])  # all cosines 1, own ones -1 alone
def test_finite_where_cosines_are_one_in_float32(loss, sign, others):
    """Embeddings exactly on their own center or opposite to it; the other centers with it or opposite.

    `test_finite_at_the_ends_and_slightly_beyond` asks the methods of every example.
    """
    head = head_of(loss, 3, dtype=torch.float32)
    direction = torch.zeros(head.centers.shape[-1])
    direction[:SIZE] = torch.randn(SIZE, generator=torch.Generator().manual_seed(6))
    head.centers.data[:] = direction if others == "near" else -direction
    head.centers.data[0] = direction
    embeddings = (sign * 3 * direction[:SIZE]).expand(4, SIZE).clone().requires_grad_()
    out = head(embeddings, torch.zeros(4, dtype=torch.int64))
    out.loss.backward()
    for tensor in (out.loss, out.per_sample, head.centers.grad, *gradients_of(loss, embeddings)):
        assert tensor.isfinite().all()


def gradients_of(loss: ClassLoss, embeddings: torch.Tensor) -> list[torch.Tensor]:
    """Gradients of the embeddings (a matter between centers gives them none) and of the loss's own parameters."""
    leaves = [embeddings, *loss.parameters()]
    assert embeddings.grad is not None or loss.query == "own_center"
    return [leaf.grad for leaf in leaves if leaf.grad is not None]


@of_kinds()
def test_half_input_is_computed_in_float32(loss):
    for dtype in (torch.float16, torch.bfloat16):
        check_half_input(loss, dtype)


def check_half_input(loss: ClassLoss, dtype: torch.dtype) -> None:
    embeddings, labels = batch(dtype)
    head = head_of(loss, dtype=torch.float32).eval()
    with torch.autocast("cpu", torch.bfloat16):
        half = head(embeddings, labels)
    full = head(embeddings.detach().float(), labels)
    assert half.loss.dtype == half.per_sample.dtype == torch.float32
    assert torch.equal(half.per_sample, full.per_sample)
    half.loss.backward()
    for gradient in gradients_of(loss, embeddings):
        assert gradient.isfinite().all()


@of_all()
def test_one_class_costs_nothing_unless_said_so(example, loss):
    if example.alone == "refused":
        with pytest.raises(ValueError, match="class"):
            head_of(loss, classes=1)
        return
    embeddings, labels = batch(classes=1)
    head = head_of(loss, classes=1)
    out = head(embeddings, labels)
    out.loss.backward()
    gradients = [head.centers.grad, *gradients_of(loss, embeddings)]
    if example.alone == "something":
        assert out.per_sample.min() > 0
        assert all(gradient.isfinite().all() for gradient in gradients)
        return
    assert out.per_sample.tolist() == [0.0] * BATCH
    assert all(gradient.abs().max() == 0 for gradient in gradients)


@of_kinds()
def test_weights_are_constants_and_divide_by_the_batch(loss):
    embeddings, labels = batch()
    head = head_of(loss).eval()
    weights = torch.linspace(0, 2, BATCH, dtype=torch.float64).requires_grad_()
    out = head(embeddings, labels, weights)
    torch.testing.assert_close(out.loss, (weights * out.per_sample).sum().detach() / BATCH, check_stride=False)
    torch.testing.assert_close(out.per_sample, head(embeddings, labels).per_sample)
    out.loss.backward()
    assert weights.grad is None


@of_all()
def test_gradients_against_finite_differences_unless_they_are_made(example, loss):
    embeddings, labels = batch()
    head = head_of(loss, 3).eval()
    centers = head.centers.detach().clone().mul_(100).requires_grad_()  # of length 3, so that steps of 1e-6 stay small

    names = ["centers", *(f"loss.{name}" for name, _ in loss.named_parameters())]
    parameters = [centers, *(one.detach().clone().requires_grad_() for one in loss.parameters())]

    def total(embeddings, *parameters):
        changed = dict(
            zip(names, parameters, strict=False)
        )  # those that were learned stay where only centers are given
        return torch.func.functional_call(head, changed, (embeddings, labels)).loss

    if not example.made_gradient:
        assert torch.autograd.gradcheck(total, (embeddings, *parameters), fast_mode=True)
        return
    total(embeddings, centers).backward()  # gradcheck would take long to say by how much it is off
    leaves = embeddings, centers
    ways = [F.normalize(leaf.grad) + F.normalize(leaf.detach()) for leaf in leaves]  # a length may be a constant
    up, down = (
        total(*(leaf.detach() + step * way for leaf, way in zip(leaves, ways, strict=True))) for step in (1e-6, -1e-6)
    )
    slope = sum((leaf.grad * way).sum() for leaf, way in zip(leaves, ways, strict=True))
    assert abs((up - down) / 2e-6 / slope - 1) > 1e-6  # one that is right is off by some 1e-10


@of_all(lambda example: example.is_softmax and not example.kinds[0].own_finish)
def test_softmax_losses_are_cross_entropy_over_explicit_logits(loss):
    embeddings, labels = batch()
    explicit = embeddings.detach().clone().requires_grad_()
    head = head_of(loss, 3).eval()
    out = head(embeddings, labels)
    out.loss.backward()

    centers = head.centers.detach().clone().requires_grad_()
    query = compared_rows(explicit, loss.similarity)
    if loss.class_bias:
        query = torch.cat([query, torch.ones(BATCH, 1, dtype=torch.float64)], dim=1)
    cosine = torch.einsum("bd,nkd->bnk", query, compared_rows(centers, loss.similarity)).amax(2)
    own_cosine = cosine[torch.arange(BATCH), labels]
    is_own = F.one_hot(labels, CLASSES).bool()
    nearest = cosine.detach().masked_fill(is_own, -math.inf).sort(descending=True).values
    rows = Rows(
        own_cosine, explicit.norm(dim=1), F.normalize(explicit), labels, nearest[:, : min(loss.nearest, CLASSES - 1)]
    )
    context = context_of(loss, rows)
    logits = torch.where(is_own, loss.own(own_cosine, *context)[:, None], loss.others(cosine, *columns(context)))
    entropy = F.cross_entropy(logits, labels, reduction="none")
    entropy.mean().backward()
    torch.testing.assert_close(out.per_sample, entropy.detach())
    torch.testing.assert_close(embeddings.grad, explicit.grad)
    torch.testing.assert_close(head.centers.grad, centers.grad)


@of_kinds()
def test_unknown_label_is_refused_by_softmax_losses_and_taken_by_sums(example, loss):
    embeddings, labels = batch()
    labels[3] = -1
    head = head_of(loss)
    if example.accepts_nobody:
        assert head(embeddings, labels).per_sample.isfinite().all()
        return
    with pytest.raises(ValueError, match=r"1 labels are -1 \('no known class'\)"):
        head(embeddings, labels)


@of_all()
def test_state_survives_a_round_trip(example, loss):
    embeddings, labels = batch()
    head, again = head_of(loss), head_of(example.make())
    for scale in (1.0, 2.0, 3.0):
        head(scale * embeddings, labels)  # in training: slow state moves
    again.centers.data.zero_()
    again.load_state_dict(head.state_dict())
    assert torch.equal(again.eval()(embeddings, labels).per_sample, head.eval()(embeddings, labels).per_sample)


@of_all()
def test_evaluation_leaves_the_state_alone(loss):
    embeddings, labels = batch()
    head = head_of(loss).eval()
    before = {key: value.clone() for key, value in head.state_dict().items()}
    head(embeddings, labels)
    assert all(torch.equal(value, before[key]) for key, value in head.state_dict().items())


@of_all()
def test_training_moves_the_state_of_those_that_have_one(example, loss):
    embeddings, labels = batch()
    before = {key: value.clone() for key, value in loss.state_dict().items()}
    head_of(loss)(embeddings, labels)
    moved = any(not torch.equal(value, before[key]) for key, value in loss.state_dict().items() if key != "bias")
    assert moved == example.stateful


def losses_by_rank(make: Callable[[], ClassLoss]) -> list[torch.Tensor]:
    """The losses of a global batch in training as each of three ranks computes them.

    Ranks differ in the state of PyTorch's global generator; Python's and NumPy's move on from one to the next here.
    tests/head/test_sharded.py asks real processes.
    """
    embeddings, labels = batch()
    found = []
    for rank in range(3):
        head = head_of(make(), 1)
        torch.manual_seed(rank)
        found.append(torch.stack([head(embeddings, labels).per_sample for _ in range(2)]))
    return found


@of_all()
def test_every_rank_computes_the_same_losses(example):
    first, *others = losses_by_rank(example.make)
    assert all(torch.equal(other, first) for other in others)


@of_kinds()
def test_a_loss_that_asks_for_noise_uses_it_in_training_alone(loss):
    embeddings, labels = batch()
    head = head_of(loss)
    asks = any(term.noise for _, term in loss.terms)
    assert asks == (head.noise is not None) == ("noise.rows" in head.state_dict())
    if not asks:
        return
    first, second = (head(embeddings, labels).per_sample for _ in range(2))
    assert not torch.equal(first, second)
    head.noise.rows.zero_()  # the same rows again
    assert torch.equal(head(embeddings, labels).per_sample, first)
    head.eval()
    assert torch.equal(head(embeddings, labels).per_sample, head(embeddings, labels).per_sample)
    assert head.noise.rows.item() == BATCH


# ------------------------------------------------------------------------------------------ the methods alone


@pytest.fixture
def prepared(loss):
    loss.prepare(CLASSES)
    return loss


@of_all(lambda example: example.is_single)
def test_finite_at_the_ends_and_slightly_beyond(prepared):
    for dtype in (torch.float32, torch.float64):
        check_finite_at_the_ends(prepared, dtype)


def check_finite_at_the_ends(prepared: ClassLoss, dtype: torch.dtype) -> None:
    ends = torch.tensor([1.0, 1.0 + 3e-7, 1.0 - 1e-7, -1.0, -1.0 - 3e-7, -1.0 + 1e-7], dtype=dtype)
    own_cosine, cosine = ends.clone().requires_grad_(), ends.repeat(6, 1).requires_grad_()
    context = context_of(prepared, rows_at(own_cosine))
    own, others = prepared.own(own_cosine, *context), prepared.others(cosine, *columns(context))
    rest = others.sum(1) if prepared.reduce == "sum" else others.logsumexp(1)
    loss = prepared.finish(own, rest, *context)
    loss.sum().backward()
    for tensor in (own, others, loss, own_cosine.grad, cosine.grad):
        if tensor is not None:  # a term may leave the own cosine or the others out
            assert tensor.isfinite().all()


@of_all(lambda example: example.is_single)
def test_others_is_elementwise_and_pure_and_differentiates_under_func(prepared):
    cosine = torch.linspace(-1, 1, 6 * 9, dtype=torch.float64).reshape(6, 9)
    kept = cosine.clone()
    context = columns(context_of(prepared, rows_at(torch.linspace(-0.9, 0.9, 6, dtype=torch.float64))))
    whole, vjp = torch.func.vjp(lambda c: prepared.others(c, *context), cosine)
    torch.testing.assert_close(prepared.others(cosine[:, 3:7], *context), whole[:, 3:7], rtol=1e-14, atol=0)
    rows = torch.tensor([4, 1])
    torch.testing.assert_close(
        prepared.others(cosine[rows], *(item[rows] for item in context)), whole[rows], rtol=1e-14, atol=0
    )
    assert torch.equal(cosine, kept)
    (by_func,) = vjp(torch.ones_like(cosine))
    tracked = cosine.clone().requires_grad_()
    prepared.others(tracked, *context).sum().backward()
    assert torch.equal(by_func, tracked.grad)


@of_all(lambda example: example.is_single and example.loss.bound() is not None)
def test_bound_is_one_and_nothing_is_lost_below(prepared):
    """Below -64 an engine that fixes its shift by the bound would lose logits."""
    cosine = torch.linspace(-1, 1, 2001, dtype=torch.float64).expand(8, -1)
    rows = rows_at(torch.linspace(-1, 1, 8, dtype=torch.float64))
    for share in (0.0, 0.5, 1.0):
        prepared.set_strength(share)
        context = columns(context_of(prepared, rows))
        terms = prepared.others(cosine, *context)
        assert terms.max() <= prepared.bound() * (1 + 1e-12)
        assert terms.min() >= -SAFE_BOUND or prepared.reduce == "sum" or prepared.bound() > SAFE_BOUND


@of_all(lambda example: example.is_softmax and not example.apart)
def test_without_its_margin_a_softmax_loss_treats_all_classes_alike(loss):
    loss.prepare(CLASSES)
    cosine = torch.linspace(-1, 1, 101, dtype=torch.float64)
    rows = rows_at(cosine)
    whole = loss.own(cosine, *context_of(loss, rows))
    loss.set_strength(0.0)
    context = context_of(loss, rows)
    own, other = loss.own(cosine, *context), loss.others(cosine[:, None], *columns(context))[:, 0]
    torch.testing.assert_close(own, other, rtol=0, atol=1e-12)
    loss.set_strength(1.0)
    assert torch.equal(loss.own(cosine, *context_of(loss, rows)), whole)


@of_kinds()
def test_strength_outside_its_range_is_refused(loss):
    for share in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match=r"must be in \[0, 1\]"):
            loss.set_strength(share)


@of_all(lambda example: example.loss.linear)
def test_a_linear_loss_knows_its_slope(prepared):
    rows = rows_at(torch.linspace(-0.9, 0.9, 6, dtype=torch.float64))
    context = context_of(prepared, rows)
    own, rest = prepared.own(rows.own, *context), torch.linspace(0, 5, 6, dtype=torch.float64)
    rise = prepared.finish(own, rest + 2, *context) - prepared.finish(own, rest, *context)
    torch.testing.assert_close(rise, torch.full((6,), 2 * prepared.slope(), dtype=torch.float64))


# ------------------------------------------------------------------------------------------- the contract itself


def test_base_class_is_normface():
    embeddings, labels = batch()
    plain, normface = head_of(ClassLoss(64.0), 1), head_of(NormFace(64.0), 1)
    assert torch.equal(plain(embeddings, labels).per_sample, normface(embeddings, labels).per_sample)
    assert ClassLoss(1.0).bound() is None
    assert plain.loss.terms == ((1.0, plain.loss),)


def test_finish_by_hand():
    # own logit log 3 against two others at 0: softmax 3 / 5, loss log(5 / 3)
    out = ClassLoss(1.0).finish(torch.tensor([math.log(3.0)]), torch.tensor([math.log(2.0)]))
    assert out.item() == pytest.approx(math.log(5 / 3))


def test_compared_rows():
    rows = torch.tensor([[3.0, 4.0]])
    assert compared_rows(rows, "cosine").tolist() == [pytest.approx([0.6, 0.8])]
    assert compared_rows(rows, "product") is rows


def test_rows_are_frozen():
    rows = Rows(torch.ones(2), torch.ones(2), torch.ones(2, 3), torch.zeros(2, dtype=torch.int64))
    with pytest.raises(AttributeError):
        rows.own = torch.zeros(2)


@of_kinds()
def test_a_loss_that_is_called_without_a_head_says_what_to_do(example):
    loss = example.make()
    name = type(loss).__name__
    said = (
        f"{name} has no class centers, so it cannot be called: write head = verisphere.Head({name}(...), classes, "
        "size) and call head(embeddings, labels); loss.forward(cosines, labels) takes cosines to every class"
    )
    with pytest.raises(TypeError, match=f"^{re.escape(said)}$"):
        loss(torch.zeros(2, SIZE), torch.zeros(2, dtype=torch.int64))
