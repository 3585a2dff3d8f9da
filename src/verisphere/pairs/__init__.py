"""Pair terms: losses and weights that compare embeddings with each other, beside the class-center loss."""

from verisphere.pairs.anchor_face import AnchorFace
from verisphere.pairs.group_labels import GroupLabels
from verisphere.pairs.memory import FeatureQueue, OnlineSet
from verisphere.pairs.pair_term import GlobalBatch, PairOutput, PairTerm, Step, Training
from verisphere.pairs.teacher_distance import TeacherDistance
from verisphere.pairs.threshold_consistency import ThresholdConsistency
from verisphere.pairs.triplet import AngularTriplet

__all__ = [
    "AnchorFace",
    "AngularTriplet",
    "FeatureQueue",
    "GlobalBatch",
    "GroupLabels",
    "OnlineSet",
    "PairOutput",
    "PairTerm",
    "Step",
    "TeacherDistance",
    "ThresholdConsistency",
    "Training",
]
