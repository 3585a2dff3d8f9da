"""The teacher of a head whose loss compares with one: its class centers, and what is refused."""

from dataclasses import dataclass

from jaxtyping import Float, Shaped
from torch import Tensor

from verisphere.losses.class_loss import ClassLoss
from verisphere.score.cosine import unit


@dataclass(frozen=True, eq=False)
class Teacher:
    """What a teacher says of a batch: its embeddings and class centers, by which its similarities are computed.

    Attributes:
        rows: embeddings of the global batch, each of length 1, without gradient.
        centers: a center of length 1 for each class that the engine holds.
    """

    rows: Float[Tensor, "batch teacher_dim"]
    centers: Float[Tensor, "classes teacher_dim"]


def unit_centers(centers: Float[Tensor, "*centers"], held: range, like: Tensor) -> Float[Tensor, "held teacher_dim"]:
    """The directions of a teacher's class centers that a rank holds, of the type and on the device of `like`."""
    if centers.ndim != 2 or len(centers) != len(held):
        raise ValueError(
            f"centers have shape {tuple(centers.shape)}; a teacher has one center for each of the {len(held)} classes "
            "held here"
        )
    directions = unit(centers.detach().to(like))
    without = (~((directions * directions).sum(1) > 0.5)).nonzero()[:, 0]
    if len(without):
        raise ValueError(
            f"{len(without)} of the teacher's centers are not finite or of length 0, the first is that of class "
            f"{held[int(without[0])]}"
        )
    return directions


def check_teacher(
    loss: ClassLoss,
    centers: Shaped[Tensor, "held teacher_dim"] | None,
    rows: Shaped[Tensor, "*teacher"] | None,
    batch: int,
) -> None:
    """Refuse a batch without the teacher that a loss compares with, or with one that no loss reads."""
    scales = {term.scale for _, term in loss.terms if term.teacher}
    name = type(loss).__name__
    if not scales:
        if rows is not None:
            raise ValueError(f"teacher was given, but {name} compares with none; SimilarityKL does")
        return
    if len(scales) > 1:
        raise ValueError(f"terms of {name} compare with the teacher at the scales {sorted(scales)}; give them one")
    if centers is None or rows is None:
        lacking = "head.set_teacher(centers)" if centers is None else "head(embeddings, labels, teacher=...)"
        raise ValueError(f"{name} compares with a teacher, of which something is missing: call {lacking}")
    if rows.shape != (batch, centers.shape[1]):
        raise ValueError(
            f"teacher has shape {tuple(rows.shape)}; {batch} rows of a teacher with centers of {centers.shape[1]} "
            f"numbers have ({batch}, {centers.shape[1]})"
        )
