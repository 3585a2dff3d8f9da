"""Losses of the softmax family as the contract suite and the engine matrix run them: name -> factory."""

from collections.abc import Callable

from verisphere.losses.a_softmax import ASoftmax
from verisphere.losses.auxiliary import Inter, Intra, WeightedSum
from verisphere.losses.cifp import CIFP
from verisphere.losses.class_loss import ClassLoss
from verisphere.losses.coco import COCO
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
from verisphere.losses.softmax import Softmax
from verisphere.losses.sphereface_r import SphereFaceR
from verisphere.losses.v_softmax import VSoftmax

EXAMPLES: dict[str, Callable[[], ClassLoss]] = {
    "Softmax": Softmax,
    "Softmax, no bias": lambda: Softmax(bias=False),
    "NormFace": NormFace,
    "COCO": COCO,
    "SphereFace": SphereFace,
    "CosFace": CosFace,
    "CosFace, t=3": lambda: CosFace(t=3.0),
    "ArcFace": ArcFace,
    "ArcFace, detached": lambda: ArcFace(gradient="detached"),
    "ArcFace, plain": lambda: ArcFace(beyond="plain"),
    "ArcFace, released": lambda: ArcFace(beyond="released"),
    "ArcFace, t=3": lambda: ArcFace(t=3.0),
    "ArcFace, t=1.5, detached": lambda: ArcFace(t=1.5, gradient="detached"),
    "CM1": CM1,
    "CM2": CM2,
    "CM2, t=2": lambda: CombinedMargin(0.9, 0.4, 0.15, t=2.0),
    "AMSoftmax": AMSoftmax,
    "ArcSoftmax": ArcSoftmax,
    "ASoftmax": ASoftmax,
    "ASoftmax, at its end": lambda: ASoftmax(start=5.0),
    "ASoftmax, loss search": lambda: ASoftmax(margin=3.0, scale=32.0, start=10.0),
    "ASoftmax, bare, detached": lambda: ASoftmax(margin=3.0, scale=32.0, start=0.0, end=0.0, gradient="detached"),
    "SphereFaceR": SphereFaceR,
    "SphereFaceR, exact": lambda: SphereFaceR(gradient="exact"),
    "VSoftmax": VSoftmax,
    "VSoftmax, batch": lambda: VSoftmax(virtual="batch"),
    "CIFP": lambda: CIFP(nearest=4),
    "CIFP, released": lambda: CIFP(threshold="released"),
    "CIFP, counted": lambda: CIFP(far="0.3", alpha=0.1, penalty="counted"),
    "Intra": Intra,
    "Inter": Inter,
    "ArcFace + intra + inter": lambda: WeightedSum([ArcFace(), Intra(), Inter()]),
    "NormFace + inter": lambda: WeightedSum([NormFace(20.0), Inter()], [1.0, 0.5]),
}
