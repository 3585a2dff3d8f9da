"""What every class-center loss must hold to, whatever its equation. A new loss adds itself to `LOSSES`."""

import math

import pytest
import torch
import torch.nn.functional as F

from verisphere.head.head import Head
from verisphere.losses.contract import ClassLoss, Rows, compared_rows
from verisphere.losses.margin import ArcFace, CombinedMargin, CosFace, NormFace, SphereFace

BATCH, CLASSES, SIZE = 12, 7, 10

LOSSES = {
    "NormFace": NormFace,
    "SphereFace": SphereFace,
    "CosFace": CosFace,
    "ArcFace": ArcFace,
    "ArcFace, detached": lambda: ArcFace(gradient="detached"),
    "ArcFace, plain": lambda: ArcFace(beyond="plain"),
    "ArcFace, released": lambda: ArcFace(beyond="released"),
    "CM1": lambda: CombinedMargin(1.0, 0.3, 0.2),
    "CM2": lambda: CombinedMargin(0.9, 0.4, 0.15),
}


@pytest.fixture(params=LOSSES.values(), ids=LOSSES.keys())
def loss(request):
    return request.param()


@pytest.fixture(params=[1, 3], ids=["K=1", "K=3"])
def subcenters(request):
    return request.param


def batch(dtype: torch.dtype = torch.float64, classes: int = CLASSES) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    embeddings = 5 * torch.randn(BATCH, SIZE, generator=generator, dtype=torch.float64)
    return embeddings.to(dtype).requires_grad_(), torch.randint(0, classes, (BATCH,), generator=generator)


def head_of(loss: ClassLoss, subcenters: int, classes: int = CLASSES, dtype: torch.dtype = torch.float64) -> Head:
    torch.manual_seed(4)
    return Head(loss, classes, SIZE, subcenters).to(dtype)


def test_equivariant_to_renaming_classes(loss, subcenters):
    embeddings, labels = batch()
    head, renamed = head_of(loss, subcenters), head_of(loss, subcenters)
    order = torch.randperm(CLASSES, generator=torch.Generator().manual_seed(5))  # new class c is the old order[c]
    renamed.centers.data = head.centers.data[order]
    new_name = order.argsort()
    before, after = head(embeddings, labels), renamed(embeddings, new_name[labels])
    torch.testing.assert_close(after.per_sample, before.per_sample)
    before.loss.backward()
    after.loss.backward()
    torch.testing.assert_close(renamed.centers.grad, head.centers.grad[order])


def test_same_for_embeddings_and_centers_of_any_length(loss, subcenters):
    embeddings, labels = batch()
    head = head_of(loss, subcenters)
    before = head(embeddings, labels).per_sample
    head.centers.data *= 3.0
    torch.testing.assert_close(head(embeddings * 0.01, labels).per_sample, before)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("others", ["near", "far"])
def test_finite_where_cosines_are_one_in_float32(loss, subcenters, sign, others):
    """Embeddings exactly on their own center or opposite to it; the other centers with it or opposite."""
    head = head_of(loss, subcenters, dtype=torch.float32)
    direction = torch.randn(SIZE, generator=torch.Generator().manual_seed(6))
    head.centers.data[:] = direction if others == "near" else -direction
    head.centers.data[0] = direction
    embeddings = (sign * 3 * direction).expand(4, SIZE).clone().requires_grad_()
    out = head(embeddings, torch.zeros(4, dtype=torch.int64))
    out.loss.backward()
    for tensor in (out.loss, out.per_sample, embeddings.grad, head.centers.grad):
        assert tensor.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_input_is_computed_in_float32(loss, subcenters, dtype):
    embeddings, labels = batch(dtype)
    head = head_of(loss, subcenters, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        half = head(embeddings, labels)
    full = head(embeddings.detach().float(), labels)
    assert half.loss.dtype == half.per_sample.dtype == torch.float32
    assert torch.equal(half.per_sample, full.per_sample)
    half.loss.backward()
    assert embeddings.grad.dtype == dtype
    assert embeddings.grad.isfinite().all()


def test_one_class_costs_nothing(loss, subcenters):
    embeddings, labels = batch(classes=1)
    head = head_of(loss, subcenters, classes=1)
    out = head(embeddings, labels)
    out.loss.backward()
    assert out.per_sample.tolist() == [0.0] * BATCH
    assert embeddings.grad.abs().max() == 0
    assert head.centers.grad.abs().max() == 0


def test_two_classes_are_finite(loss, subcenters):
    embeddings, labels = batch(torch.float32, classes=2)
    head = head_of(loss, subcenters, classes=2, dtype=torch.float32)
    out = head(embeddings, labels)
    out.loss.backward()
    assert out.loss > 0
    assert embeddings.grad.isfinite().all()
    assert head.centers.grad.isfinite().all()


def test_weights_are_constants_and_divide_by_the_batch(loss, subcenters):
    embeddings, labels = batch()
    head = head_of(loss, subcenters)
    weights = torch.linspace(0, 2, BATCH, dtype=torch.float64).requires_grad_()
    out = head(embeddings, labels, weights)
    torch.testing.assert_close(out.loss, (weights * out.per_sample).sum().detach() / BATCH, check_stride=False)
    torch.testing.assert_close(out.per_sample, head(embeddings, labels).per_sample)
    out.loss.backward()
    assert weights.grad is None
    assert embeddings.grad[0].abs().max() == 0  # its weight is 0


def test_gradients_against_finite_differences(loss, subcenters):
    if getattr(loss, "gradient", "exact") == "detached":
        pytest.skip("a detached gradient differs from finite differences by design")
    embeddings, labels = batch()
    head = head_of(loss, subcenters)
    centers = head.centers.detach().clone().mul_(100).requires_grad_()  # of length 3, so that steps of 1e-6 stay small

    def total(embeddings, centers):
        return torch.func.functional_call(head, {"centers": centers}, (embeddings, labels)).loss

    assert torch.autograd.gradcheck(total, (embeddings, centers), fast_mode=True)


def test_softmax_losses_are_cross_entropy_over_explicit_logits(loss, subcenters):
    embeddings, labels = batch()
    explicit = embeddings.detach().clone().requires_grad_()
    head = head_of(loss, subcenters)
    out = head(embeddings, labels)
    out.loss.backward()

    centers = head.centers.detach().clone().requires_grad_()
    cosine = torch.einsum("bd,nkd->bnk", F.normalize(explicit), F.normalize(centers, dim=-1)).amax(2)
    rows = torch.arange(BATCH)
    own = torch.zeros_like(cosine, dtype=torch.bool)
    own[rows, labels] = True
    logits = torch.where(own, loss.own(cosine[rows, labels])[:, None], loss.scale * cosine)
    entropy = F.cross_entropy(logits, labels, reduction="none")
    entropy.mean().backward()
    torch.testing.assert_close(out.per_sample, entropy.detach())
    torch.testing.assert_close(embeddings.grad, explicit.grad)
    torch.testing.assert_close(head.centers.grad, centers.grad)


def test_unknown_label_is_refused_by_softmax_losses(loss):
    embeddings, labels = batch()
    labels[3] = -1
    with pytest.raises(ValueError, match=r"1 labels are -1 \('no known class'\)"):
        head_of(loss, 1)(embeddings, labels)


def test_others_differentiates_under_func(loss):
    cosine = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4)
    value, vjp = torch.func.vjp(loss.others, cosine)
    (by_func,) = vjp(torch.ones_like(cosine))
    tracked = cosine.clone().requires_grad_()
    loss.others(tracked).sum().backward()
    assert torch.equal(by_func, tracked.grad)
    assert loss.bound() is None or value.max() <= loss.bound()


def test_state_survives_a_round_trip(loss, subcenters):
    embeddings, labels = batch()
    head, again = head_of(loss, subcenters), head_of(loss, subcenters)
    again.centers.data.zero_()
    again.load_state_dict(head.state_dict())
    assert torch.equal(again(embeddings, labels).per_sample, head(embeddings, labels).per_sample)


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan])
def test_strength_outside_its_range_is_refused(loss, share):
    with pytest.raises(ValueError, match=r"must be in \[0, 1\]"):
        loss.set_strength(share)


def test_base_class_is_normface():
    embeddings, labels = batch()
    plain, normface = head_of(ClassLoss(64.0), 1), head_of(NormFace(64.0), 1)
    assert torch.equal(plain(embeddings, labels).per_sample, normface(embeddings, labels).per_sample)
    assert ClassLoss(1.0).bound() is None


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
