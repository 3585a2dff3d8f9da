"""Examples of the losses of SphereFace2, loss search and adaptive margins, for the contract suite and the engines."""

from collections.abc import Callable

from verisphere.losses.adaface import AdaFace
from verisphere.losses.am_lfs import AMLFS
from verisphere.losses.circle import Circle
from verisphere.losses.class_loss import ClassLoss
from verisphere.losses.curricular import CurricularFace
from verisphere.losses.elastic_face import ElasticFace
from verisphere.losses.magface import MagFace
from verisphere.losses.mv_softmax import MVSoftmax
from verisphere.losses.search_softmax import SearchSoftmax
from verisphere.losses.sphereface2 import SphereFace2, table_2

EXAMPLES: dict[str, Callable[[], ClassLoss]] = {
    "SphereFace2": SphereFace2,
    "SphereFace2, released": lambda: SphereFace2(gradient="released", scale=40.0, loss_weight=50.0),
    "SphereFace2, two margins, no bias": lambda: SphereFace2(margin=0.3, negative_margin=0.1, bias=False, t=1.0),
    "SphereFace2, balanced": lambda: SphereFace2(balance="balanced", t=2.0),
    "SphereFace2, t below 1": lambda: SphereFace2(t=0.3),
    "SphereFace2, A": lambda: SphereFace2("A"),
    "SphereFace2, A, released": lambda: SphereFace2("A", gradient="released"),
    "SphereFace2, M": lambda: SphereFace2("M"),
    "SphereFace2, M, released": lambda: SphereFace2("M", gradient="released"),
    "SphereFace2, naive": lambda: table_2("naive"),
    "SearchSoftmax": SearchSoftmax,
    "SearchSoftmax, a > 0": lambda: SearchSoftmax(0.5),
    "AMLFS": lambda: AMLFS((0.5, 0.8, 1.0, 0.9), (0.1, 0.0, -0.15, 0.05)),
    "AMLFS, through the origin": lambda: AMLFS((0.6, 0.8, 0.9), (0.0, 0.0, 0.0)),
    "CurricularFace": CurricularFace,
    "CurricularFace, detached": lambda: CurricularFace(gradient="detached"),
    "MVSoftmax, Arc": MVSoftmax,
    "MVSoftmax, Arc, fixed": lambda: MVSoftmax(weighting="fixed"),
    "MVSoftmax, AM": lambda: MVSoftmax("AM"),
    "MVSoftmax, AM, fixed": lambda: MVSoftmax("AM", weighting="fixed", emphasis=0.3),
    "AdaFace": AdaFace,
    "AdaFace, quick": lambda: AdaFace(rate=0.5),  # the statistics follow the batch, so that qualities spread
    "MagFace": MagFace,
    "Circle": Circle,
    "ElasticFace": ElasticFace,
    "ElasticFace, Cos": lambda: ElasticFace("Cos"),
    "ElasticFace, plus": lambda: ElasticFace(plus=True),
    "ElasticFace, Cos, plus, wide": lambda: ElasticFace("Cos", deviation=0.3, plus=True),  # some margins end at 0
}
