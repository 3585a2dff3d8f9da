"""verisphere: face recognition trained, measured and shipped at one threshold.

The names here load on first use, so that the command line starts quickly.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from verisphere import losses
    from verisphere.decide import one_threshold, operating_point
    from verisphere.head import Head
    from verisphere.models.folder import load
    from verisphere.vocabulary import Embeddings, OperatingPoint

__version__ = "0.1.0"
__all__ = ["Embeddings", "Head", "OperatingPoint", "load", "losses", "one_threshold", "operating_point"]

_HOME = {
    "Embeddings": "verisphere.vocabulary",
    "Head": "verisphere.head",
    "OperatingPoint": "verisphere.vocabulary",
    "load": "verisphere.models.folder",
    "one_threshold": "verisphere.decide",
    "operating_point": "verisphere.decide",
}


def __getattr__(name: str) -> Any:
    if name == "losses":
        return importlib.import_module("verisphere.losses")
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'verisphere' has no attribute {name!r}")
