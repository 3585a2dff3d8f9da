"""verisphere: face recognition trained, measured and shipped at one threshold.

The names here load on first use, so that the command line starts quickly.

>>> import verisphere
>>> point = verisphere.operating_point(genuine=[0.9, 0.8, 0.3], impostor=[0.5, 0.4, 0.2, 0.1], far="0.25")
>>> point.threshold, point.tar
(0.4, 0.6666666666666666)
"""

import importlib
import sys
from types import ModuleType
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
    from verisphere.ship.calls import adopt, identify, train, verify

__version__ = "0.3.0"
__all__ = [
    "Embeddings",
    "Head",
    "OperatingPoint",
    "__version__",
    "adopt",
    "backbones",
    "calibrate",
    "decide",
    "evaluate",
    "identify",
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
    "train",
    "verify",
]

# The module of each name; a name that is not here is a room, loaded as a module.
_HOME = {
    "Embeddings": "verisphere.base.vocabulary",
    "Head": "verisphere.head",
    "OperatingPoint": "verisphere.base.vocabulary",
    "adopt": "verisphere.ship.calls",
    "calibrate": "verisphere.ship.arrays",
    "evaluate": "verisphere.measure.arrays",
    "identify": "verisphere.ship.calls",
    "load": "verisphere.models.folder",
    "one_threshold": "verisphere.decide",
    "operating_point": "verisphere.decide",
    "plot_det": "verisphere.measure.plots",
    "plot_roc": "verisphere.measure.plots",
    "plot_scores": "verisphere.measure.plots",
    "train": "verisphere.ship.calls",
    "verify": "verisphere.ship.calls",
}
_CALLED = ("train",)  # rooms that have the name of a function


class _Room(ModuleType):
    """A room that has the name of a function of `_HOME`: `verisphere.train(...)` calls the function."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        name = self.__name__.rpartition(".")[2]
        return getattr(importlib.import_module(_HOME[name]), name)(*arguments, **options)


class _House(ModuleType):
    """This module; a room of it that was imported can be called where a function has its name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _CALLED:
            value.__class__ = _Room
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _House


def __getattr__(name: str) -> Any:
    if name in _HOME and name not in _CALLED:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in __all__:
        return importlib.import_module(f"verisphere.{name}")
    raise AttributeError(f"module 'verisphere' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
