"""The L2 of distillation: how far the embeddings of a student lie from those of its teacher (ArcFace, section 4.4)."""

from math import isfinite

from torch import nn

from verisphere.pairs.pair_term import PairOutput, PairTerm, Step, Training
from verisphere.score.cosine import unit


class TeacherDistance(PairTerm):
    """weight * the squared Euclidean distance between the unit embeddings of student and teacher, mean over the batch.

    ArcFace (arXiv:1801.07698, section 4.4) adds a "l2 regression loss" between the features with weight 1, and does not
    write whether they are of unit length; here both are scaled to length 1, for only the direction of an embedding
    is used. The value is 2 - 2 * the cosine, from 0 to 4 before the weight. Its mean is logged as `teacher_distance`.

    A recipe adds this term by `distill.l2`.

    >>> import torch
    >>> from verisphere.pairs import GlobalBatch, Step
    >>> rows, labels = torch.tensor([[2.0, 0.0]]), torch.tensor([0])
    >>> TeacherDistance()(Step(GlobalBatch.of(rows, labels), rows, labels, teacher=torch.tensor([[0.0, 3.0]]))).loss
    tensor(2.)

    Args:
        weight: factor on the distance, not negative.
        projection: whether the student's embeddings pass through a learned matrix first, which embeddings of another
            size need. The matrix is a part of the training's checkpoints, and not of the model.

    Raises:
        ValueError: the weight is negative or not finite.
    """

    def __init__(self, weight: float = 1.0, projection: bool = False) -> None:
        super().__init__()
        if not (isfinite(weight) and weight >= 0):
            raise ValueError(f"weight is {weight}; it must be a number and not negative")
        self.weight, self.projection = weight, projection
        self.project: nn.Module | None = None

    def prepare(self, training: Training) -> None:
        """Make the projection.

        Raises:
            ValueError: the training has no teacher, or its embeddings have another size and there is no projection.
        """
        if training.teacher_size is None:
            raise ValueError("TeacherDistance: the training has no teacher; name one in distill.teachers")
        if self.projection:
            self.project = nn.Linear(training.embedding_size, training.teacher_size, bias=False)
        elif training.teacher_size != training.embedding_size:
            raise ValueError(
                f"TeacherDistance: the student's embeddings have {training.embedding_size} numbers and the teacher's "
                f"{training.teacher_size}; that needs a projection"
            )

    def forward(self, step: Step) -> PairOutput:
        """The distance over the global batch, and its gradient in this rank's rows and in the projection.

        Raises:
            ValueError: the step has no embeddings of a teacher.
        """
        if step.teacher is None:
            raise ValueError("TeacherDistance: the step has no embeddings of a teacher")
        students = step.batch.gather_with_gradient(step.embeddings)
        if self.project is not None:
            students = self.project(students)
        teachers = unit(step.batch.gather(step.teacher).to(students))
        distance = (unit(students) - teachers).square().sum(1).mean()
        return PairOutput(loss=self.weight * distance, figures={"teacher_distance": float(distance.detach())})
