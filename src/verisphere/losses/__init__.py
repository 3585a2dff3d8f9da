"""Class-center losses: functions of an embedding's own-class cosine and of its cosines to the other classes."""

from verisphere.losses.a_softmax import ASoftmax
from verisphere.losses.adaface import AdaFace
from verisphere.losses.am_lfs import AMLFS
from verisphere.losses.auxiliary import Inter, Intra, WeightedSum
from verisphere.losses.cifp import CIFP
from verisphere.losses.circle import Circle
from verisphere.losses.class_loss import ClassLoss, Rows
from verisphere.losses.coco import COCO
from verisphere.losses.curricular import CurricularFace
from verisphere.losses.domain_margins import DomainMargins
from verisphere.losses.elastic_face import ElasticFace
from verisphere.losses.magface import MagFace
from verisphere.losses.margin import (
    CM1,
    CM2,
    AMSoftmax,
    ArcFace,
    ArcSoftmax,
    CombinedMargin,
    CosFace,
    NormFace,
    SphereFace,
)
from verisphere.losses.mv_softmax import MVSoftmax
from verisphere.losses.noise_resistant import NoiseResistant
from verisphere.losses.noise_tolerant import NoiseTolerant
from verisphere.losses.q_margin import QMargin
from verisphere.losses.search_softmax import SearchSoftmax
from verisphere.losses.similarity_kl import SimilarityKL
from verisphere.losses.softmax import Softmax
from verisphere.losses.sphereface2 import SphereFace2
from verisphere.losses.sphereface_r import SphereFaceR
from verisphere.losses.v_softmax import VSoftmax

__all__ = [
    "AMLFS",
    "CIFP",
    "CM1",
    "CM2",
    "COCO",
    "AMSoftmax",
    "ASoftmax",
    "AdaFace",
    "ArcFace",
    "ArcSoftmax",
    "Circle",
    "ClassLoss",
    "CombinedMargin",
    "CosFace",
    "CurricularFace",
    "DomainMargins",
    "ElasticFace",
    "Inter",
    "Intra",
    "MVSoftmax",
    "MagFace",
    "NoiseResistant",
    "NoiseTolerant",
    "NormFace",
    "QMargin",
    "Rows",
    "SearchSoftmax",
    "SimilarityKL",
    "Softmax",
    "SphereFace",
    "SphereFace2",
    "SphereFaceR",
    "VSoftmax",
    "WeightedSum",
]
