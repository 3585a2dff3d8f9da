"""verisphere: face recognition trained, measured and shipped at one threshold.

The names here load on first use, so that the command line starts quickly.

>>> import verisphere
>>> point = verisphere.operating_point(genuine=[0.9, 0.8, 0.3], impostor=[0.5, 0.4, 0.2, 0.1], far="0.25")
>>> point.threshold, point.tar
(0.4, 0.6666666666666666)
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from verisphere import backbones, decide, images, losses, pairs, score
    from verisphere.base.vocabulary import Embeddings, OperatingPoint
    from verisphere.decide import one_threshold, operating_point
    from verisphere.head import Head
    from verisphere.measure.arrays import evaluate
    from verisphere.measure.plots import plot_det, plot_roc, plot_scores
    from verisphere.models.folder import load
    from verisphere.ship.arrays import calibrate

__version__ = "0.2.0"
__all__ = [
    "Embeddings",
    "Head",
    "OperatingPoint",
    "__version__",
    "backbones",
    "calibrate",
    "decide",
    "evaluate",
    "images",
    "load",
    "losses",
    "one_threshold",
    "operating_point",
    "pairs",
    "plot_det",
    "plot_roc",
    "plot_scores",
    "score",
]

# The module of each name; a name that is not here is a room, loaded as a module.
_HOME = {
    "Embeddings": "verisphere.base.vocabulary",
    "Head": "verisphere.head",
    "OperatingPoint": "verisphere.base.vocabulary",
    "calibrate": "verisphere.ship.arrays",
    "evaluate": "verisphere.measure.arrays",
    "load": "verisphere.models.folder",
    "one_threshold": "verisphere.decide",
    "operating_point": "verisphere.decide",
    "plot_det": "verisphere.measure.plots",
    "plot_roc": "verisphere.measure.plots",
    "plot_scores": "verisphere.measure.plots",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in __all__:
        return importlib.import_module(f"verisphere.{name}")
    raise AttributeError(f"module 'verisphere' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
