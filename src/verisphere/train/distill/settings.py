"""What a recipe says of its teachers (ArcFace, arXiv:1801.07698, section 4.4 and table 9)."""

from dataclasses import dataclass, field
from math import isfinite
from typing import Literal

Centers = Literal["auto", "own", "means"]
Images = Literal["same", "plain"]


@dataclass(frozen=True)
class Distillation:
    """The teachers of a training, and how it follows them; without teachers nothing is distilled.

    The paper adds an L2 regression between the embeddings with weight 1 and a KL divergence between the class-wise
    similarities with weight 0.1 to ArcFace. It writes neither whether the embeddings have unit length, nor direction
    and scale of the divergence. Here the L2 is the squared Euclidean distance of unit embeddings, mean over the
    batch, and the divergence KL(teacher || student).

    Attributes:
        teachers: folders of runs, checkpoints, exported or adopted models, or embeddings files (.npz) that name every
            training image; of several, the mean of their unit embeddings is followed.
        l2: weight of the squared distance between the unit embeddings of student and teacher.
        kl: weight of the divergence between their softmaxes over the classes; the loss must compare cosines.
        scale: factor from cosine to logit in that softmax, for teacher and student alike.
        centers: class centers of the teacher: own, those that it was trained with, matched by the names of the people;
            means, the mean of its unit embeddings of each person's training images; auto, its own where it has one
            center for everybody, else means.
        start_centers: whether the student's class centers start as the teacher's.
        projection: whether the student's embeddings pass through a learned matrix before the L2, which embeddings of
            another size need; it is not a part of the model.
        images: what the teacher sees: same, the image as the student does, augmented; or plain, the image as it is. Of
            plain images, and of images that are at most flipped, its embeddings are computed once and kept.
        cache: folder in which these embeddings are kept, so that other trainings with this teacher and these images use
            them; null keeps them in the folder of the run.
        trust_code: whether teachers may have a network from outside verisphere, whose code is then run.
    """

    teachers: list[str] = field(default_factory=list)
    l2: float = 1.0
    kl: float = 0.1
    scale: float = 64.0
    centers: Centers = "auto"
    start_centers: bool = False
    projection: bool = False
    images: Images = "same"
    cache: str | None = None
    trust_code: bool = False

    def __post_init__(self) -> None:
        for name in ("l2", "kl"):
            if not (isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise ValueError(f"distill.{name} is {getattr(self, name)}; a weight is a number and not negative")
        if not (isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"distill.scale is {self.scale}; it must be a positive number (64 is usual)")
        if self.teachers and not (self.l2 or self.kl or self.start_centers):
            raise ValueError(
                "distill has teachers, but l2 and kl are 0 and start_centers is false: nothing is distilled"
            )
        if self.projection and not self.l2:
            raise ValueError("distill.projection is for the L2, whose weight distill.l2 is 0")

    @property
    def needs_centers(self) -> bool:
        """Whether the teacher's class centers are used."""
        return bool(self.teachers) and (self.kl > 0 or self.start_centers)
