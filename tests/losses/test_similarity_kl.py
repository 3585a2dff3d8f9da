"""The KL divergence between class similarities: values by hand, gradients, and one value on every engine and rank."""

from math import exp, log

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from processes import run
from verisphere.base.distributed import world
from verisphere.head import Auto, Dense, Head, Sampled, Sharded, Streamed, SubCenters
from verisphere.head.update import HeadSGD
from verisphere.losses import ArcFace, SimilarityKL, WeightedSum

CLASSES, SIZE, OF_TEACHER, ROWS, SCALE = 29, 6, 5, 8, 7.0
ENGINES = {
    "dense": Dense(),
    "one chunk": Streamed(),
    "chunks": Streamed(chunk=4),
    "auto": Auto(),
    "all drawn": Sampled(rate=1.0),
}


def drawn() -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Centers of the student and the teacher, embeddings of both, labels."""
    generator = torch.Generator().manual_seed(3)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    labels = torch.randint(CLASSES, (ROWS,), generator=generator)
    return normal(CLASSES, 1, SIZE), normal(CLASSES, OF_TEACHER), normal(ROWS, SIZE), normal(ROWS, OF_TEACHER), labels


def divergence(rows: Tensor, centers: Tensor, of_teacher: Tensor, teacher: Tensor, scale: float = SCALE) -> Tensor:
    """KL(teacher || student) of each row, from matrices."""
    student = (scale * normalize(rows, dim=1) @ normalize(centers, dim=1).T).log_softmax(1)
    wanted = (scale * normalize(of_teacher, dim=1) @ normalize(teacher, dim=1).T).log_softmax(1)
    return (wanted.exp() * (wanted - student)).sum(1)


def head_with(engine: object, loss: object = None) -> Head:
    centers, teacher, *_ = drawn()
    head = Head(SimilarityKL(SCALE) if loss is None else loss, CLASSES, SIZE, engine=engine).double()
    head.centers.data = centers[head.held.start : head.held.stop].clone()
    head.set_teacher(teacher[head.held.start : head.held.stop])
    return head


def test_a_value_by_hand():
    head = Head(SimilarityKL(scale=1.0), classes=2, size=2, engine=Dense())
    head.centers.data = torch.eye(2)[:, None]
    head.set_teacher(torch.eye(2))
    # the student sees the first class at cosine 1, the teacher at 0.6 and the second at 0.8
    loss = head(torch.tensor([[2.0, 0.0]]), torch.tensor([0]), teacher=torch.tensor([[3.0, 4.0]])).loss
    p, q = [exp(0.6), exp(0.8)], [exp(1.0), exp(0.0)]
    p, q = [x / sum(p) for x in p], [x / sum(q) for x in q]
    assert loss.item() == pytest.approx(sum(a * log(a / b) for a, b in zip(p, q, strict=True)), rel=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_has_value_and_gradients_of_the_matrices(engine):
    centers, teacher, rows, of_teacher, labels = drawn()
    rows.requires_grad_()
    centers.requires_grad_()
    weights = torch.linspace(0.5, 2.0, ROWS, dtype=torch.float64)
    expected = divergence(rows, centers[:, 0], of_teacher, teacher)
    (expected * weights).mean().backward()
    head, own = head_with(ENGINES[engine]), rows.detach().clone().requires_grad_()
    output = head(own, labels, weights, of_teacher)
    output.loss.backward()
    torch.testing.assert_close(output.per_sample, expected.detach())
    torch.testing.assert_close(own.grad, rows.grad)
    torch.testing.assert_close(head.centers.grad, centers.grad)


def test_gradcheck():
    centers, _, rows, of_teacher, labels = drawn()
    head = head_with(Streamed(chunk=4))

    def of(rows: Tensor, centers: Tensor) -> Tensor:
        head.centers.data = centers.detach()
        return head(rows, labels, teacher=of_teacher).loss

    assert torch.autograd.gradcheck(lambda rows: of(rows, centers), rows.requires_grad_())


def test_beside_a_margin_loss_it_is_added_with_its_weight():
    _, _, rows, of_teacher, labels = drawn()
    both = head_with(Streamed(chunk=4), WeightedSum([ArcFace(0.3, SCALE), SimilarityKL(SCALE)], [1.0, 0.1]))
    alone, kl = Head(ArcFace(0.3, SCALE), CLASSES, SIZE).double(), head_with(Dense())
    alone.centers.data = both.centers.data
    expected = alone(rows, labels).loss + 0.1 * kl(rows, labels, teacher=of_teacher).loss
    torch.testing.assert_close(both(rows, labels, teacher=of_teacher).loss, expected)


@pytest.mark.parametrize("inner", [Streamed(chunk=4), Dense()], ids=["streamed", "dense"])
def test_over_the_classes_drawn_it_is_that_of_those_classes(inner):
    centers, teacher, rows, of_teacher, labels = drawn()
    head = head_with(Sampled(rate=0.5, inner=inner))
    output = head(rows, labels, teacher=of_teacher)
    output.loss.backward()
    seen = (head.centers.grad != 0).any(2)[:, 0]
    assert 0 < int(seen.sum()) < CLASSES
    expected = divergence(rows, centers[seen, 0], of_teacher, teacher[seen])
    torch.testing.assert_close(output.per_sample, expected)


def test_sub_centers_are_pooled_before():
    _, teacher, rows, of_teacher, labels = drawn()
    values = []
    for engine in (Dense(), Streamed(chunk=4)):
        head = Head(SimilarityKL(SCALE), CLASSES, SIZE, centers=SubCenters(3), engine=engine).double()
        head.centers.data = torch.linspace(-1, 2, head.centers.numel()).sin().double().view(head.centers.shape)
        head.set_teacher(teacher)
        values.append(head(rows, labels, teacher=of_teacher).loss)
        nearest = (normalize(rows, dim=1) @ normalize(head.centers.data, dim=2).flatten(0, 1).T).unflatten(1, (-1, 3))
        student = (SCALE * nearest.amax(2)).log_softmax(1)
        wanted = (SCALE * normalize(of_teacher, dim=1) @ normalize(teacher, dim=1).T).log_softmax(1)
        torch.testing.assert_close(values[-1], (wanted.exp() * (wanted - student)).sum(1).mean())


def test_a_deferred_step_is_that_of_sgd():
    _, _, rows, of_teacher, labels = drawn()
    stepped = []
    for deferred in (True, False):
        head = head_with(Streamed(chunk=4))
        settings = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}
        optimizer = (
            HeadSGD(head.parameters(), head, **settings) if deferred else torch.optim.SGD(head.parameters(), **settings)
        )
        for _ in range(2):
            optimizer.zero_grad()
            head(rows, labels, teacher=of_teacher).loss.backward()
            assert (head.deferred_gradient is not None) == deferred
            optimizer.step()
        stepped.append(head.centers.detach())
    torch.testing.assert_close(*stepped)


def test_products_in_bfloat16_are_near():
    _, _, rows, of_teacher, labels = drawn()
    exact = head_with(Dense())(rows, labels, teacher=of_teacher).loss
    head = head_with(Streamed("bfloat16", chunk=4)).float()
    head.set_teacher(head.teacher)
    near = head(rows.float(), labels, teacher=of_teacher.float()).loss
    near.backward()
    assert near.item() == pytest.approx(exact.item(), rel=0.02)
    assert head.centers.grad.isfinite().all()


# What a process does ------------------------------------------------------------------------------


def on_ranks() -> dict[str, float]:
    """The largest difference of this rank's part from one process, by the inner engine."""
    centers, teacher, rows, of_teacher, labels = drawn()
    rows.requires_grad_()
    centers.requires_grad_()
    divergence(rows, centers[:, 0], of_teacher, teacher).mean().backward()
    sizes = {2: [5, 3], 3: [4, 1, 3]}[world().size]
    first = sum(sizes[: world().rank])
    mine = slice(first, first + sizes[world().rank])
    found = {}
    for name, inner in ENGINES.items():
        head, own = head_with(Sharded(inner)), rows[mine].detach().clone().requires_grad_()
        loss = head(own, labels[mine], teacher=of_teacher[mine]).loss
        loss.backward()
        held = slice(head.held.start, head.held.stop)
        wanted = divergence(rows.detach(), centers[:, 0].detach(), of_teacher, teacher).mean()
        of_rows, of_centers = own.grad - rows.grad[mine], head.centers.grad - centers.grad[held]
        found[name] = max(
            float((loss.detach() - wanted).abs()), float(of_rows.abs().max()), float(of_centers.abs().max())
        )
    return found


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_have_value_and_gradients_of_one(ranks):
    for found in run(on_ranks, ranks):
        assert found.keys() == ENGINES.keys()
        assert max(found.values()) < 1e-12


# Bad input ----------------------------------------------------------------------------------------


def test_bad_input_is_named():
    _, teacher, rows, of_teacher, labels = drawn()
    head = Head(SimilarityKL(SCALE), CLASSES, SIZE).double()
    with pytest.raises(ValueError, match=r"call head\.set_teacher"):
        head(rows, labels, teacher=of_teacher)
    with pytest.raises(ValueError, match=r"one center for each of the 29 classes"):
        head.set_teacher(teacher[:5])
    with pytest.raises(ValueError, match=r"1 of the teacher's centers .* the first is that of class 4"):
        head.set_teacher(teacher.index_fill(0, torch.tensor([4]), 0.0))
    head.set_teacher(teacher)
    with pytest.raises(ValueError, match=r"teacher=\.\.\."):
        head(rows, labels)
    with pytest.raises(ValueError, match=r"have \(8, 5\)"):
        head(rows, labels, teacher=of_teacher[:, :3])
    with pytest.raises(ValueError, match="ArcFace compares with none"):
        Head(ArcFace(), CLASSES, SIZE).double()(rows, labels, teacher=of_teacher)
    with pytest.raises(ValueError, match="compares with a teacher: use a head"):
        SimilarityKL().forward(torch.zeros(1, 2), torch.tensor([0]))
    two = Head(WeightedSum([SimilarityKL(1.0), SimilarityKL(2.0)]), CLASSES, SIZE).double()
    two.set_teacher(teacher)
    with pytest.raises(ValueError, match=r"at the scales \[1.0, 2.0\]"):
        two(rows, labels, teacher=of_teacher)


def test_the_teacher_is_no_part_of_the_state():
    head = head_with(Dense())
    assert "teacher" not in head.state_dict()
    assert head.float().teacher.dtype == torch.float32
