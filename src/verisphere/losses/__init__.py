"""Class-center losses: what happens to the own-class cosine, and what happens to the others."""

from verisphere.losses.contract import ClassLoss, Rows
from verisphere.losses.margin import ArcFace, CombinedMargin, CosFace, NormFace, SphereFace

__all__ = ["ArcFace", "ClassLoss", "CombinedMargin", "CosFace", "NormFace", "Rows", "SphereFace"]
