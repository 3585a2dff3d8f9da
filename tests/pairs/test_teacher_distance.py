"""The L2 of distillation: values by hand, gradients, the projection, and the same on several ranks."""

import pytest
import torch
from torch.nn.functional import normalize

from processes import run
from verisphere.base.distributed import world
from verisphere.pairs import GlobalBatch, Step, TeacherDistance, Training

ROWS, SIZE, OF_TEACHER = 7, 4, 3


def drawn() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    rows = torch.randn(ROWS, SIZE, generator=generator, dtype=torch.float64)
    teacher = torch.randn(ROWS, OF_TEACHER, generator=generator, dtype=torch.float64)
    return rows, teacher, torch.randint(5, (ROWS,), generator=generator)


def step_of(rows: torch.Tensor, teacher: torch.Tensor | None, labels: torch.Tensor) -> Step:
    return Step(GlobalBatch.of(rows, labels), rows, labels, teacher=teacher)


def prepared(weight: float = 1.0, projection: bool = True, teacher_size: int | None = OF_TEACHER) -> TeacherDistance:
    torch.manual_seed(0)
    term = TeacherDistance(weight, projection)
    term.prepare(Training(5, SIZE, ROWS, teacher_size=teacher_size))
    return term.double()


def test_a_value_by_hand():
    term = prepared(weight=0.5, projection=False, teacher_size=SIZE)
    rows = torch.tensor([[2.0, 0.0, 0.0, 0.0], [0.0, 3.0, 0.0, 0.0]])
    teacher = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 5.0, 0.0]])  # the same direction, and a right angle
    given = term(step_of(rows, teacher, torch.tensor([0, 1])))
    assert given.loss.item() == pytest.approx(0.5 * (0.0 + 2.0) / 2)
    assert given.figures == {"teacher_distance": pytest.approx(1.0)}


def test_gradcheck():
    rows, teacher, labels = drawn()
    term = prepared(weight=0.7)

    def value(rows: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(term, {"project.weight": matrix}, (step_of(rows, teacher, labels),)).loss

    assert torch.autograd.gradcheck(value, (rows.requires_grad_(), term.project.weight.detach().requires_grad_()))


def on_ranks() -> dict[str, float]:
    """The largest difference of this rank's part from one process."""
    rows, teacher, labels = drawn()
    term = prepared()
    alone = rows.clone().requires_grad_()
    matrix = term.project.weight.detach().clone().requires_grad_()
    wanted = (normalize(alone @ matrix.T, dim=1) - normalize(teacher, dim=1)).square().sum(1).mean()
    wanted.backward()
    sizes = {2: [5, 2], 3: [1, 4, 2]}[world().size]
    first = sum(sizes[: world().rank])
    mine = slice(first, first + sizes[world().rank])
    own = rows[mine].clone().requires_grad_()
    loss = term(step_of(own, teacher[mine], labels[mine])).loss
    loss.backward()
    return {
        "loss": abs(loss.item() - wanted.item()),
        "rows": (own.grad - alone.grad[mine]).abs().max().item(),
        "projection": (term.project.weight.grad - matrix.grad).abs().max().item(),
    }


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_have_value_and_gradients_of_one(ranks):
    for found in run(on_ranks, ranks):
        assert max(found.values()) < 1e-7, found  # unit rows of a batch are rounded to float32 for all terms


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="weight is -1"):
        TeacherDistance(-1.0)
    with pytest.raises(
        ValueError, match="the training has no teacher; name one in distill.teachers".replace(".", r"\.")
    ):
        prepared(teacher_size=None)
    with pytest.raises(
        ValueError, match="student's embeddings have 4 numbers and the teacher's 3; that needs a projec"
    ):
        prepared(projection=False)
    rows, _, labels = drawn()
    with pytest.raises(ValueError, match="no embeddings of a teacher"):
        prepared()(step_of(rows, None, labels))
