"""Distillation: a network is trained beside teachers, whose embeddings and class centers it follows (ArcFace, 4.5)."""

from verisphere.train.distill.teachers import Distillation

__all__ = ["Distillation"]
