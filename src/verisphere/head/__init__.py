"""Class centers, and the engines that run a loss over them."""

from verisphere.head.auto import Auto
from verisphere.head.dense import Dense
from verisphere.head.head import Head, HeadOutput
from verisphere.head.interface import SGDStep
from verisphere.head.sampled import Sampled
from verisphere.head.sharded import Sharded
from verisphere.head.sparse import Sparse
from verisphere.head.streamed import Streamed
from verisphere.head.subcenters import SubCenters
from verisphere.head.update import HeadSGD

__all__ = [
    "Auto",
    "Dense",
    "Head",
    "HeadOutput",
    "HeadSGD",
    "SGDStep",
    "Sampled",
    "Sharded",
    "Sparse",
    "Streamed",
    "SubCenters",
]
