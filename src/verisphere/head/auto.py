"""Dense or streamed, by the size of the batch and the number of centers."""

from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor

from verisphere.base.vocabulary import check_whole
from verisphere.head.dense import Dense
from verisphere.head.interface import View, ViewRequest, WholeEngine
from verisphere.head.streamed import Streamed


@dataclass(frozen=True)
class Auto(WholeEngine):
    """Dense while the logits are few, else streamed.

    >>> from verisphere.head import Head
    >>> from verisphere.losses import ArcFace
    >>> Head(ArcFace(), 10, 4, engine=Auto(logits=2**20)).engine.logits
    1048576

    Attributes:
        streamed: the engine for more logits.
        logits: the largest batch x centers that is computed at once.

    Raises:
        TypeError: `streamed` is no `Streamed(...)`, or `logits` is no whole number.
    """

    streamed: Streamed = field(default_factory=Streamed)
    logits: int = 2**22

    def __post_init__(self) -> None:
        if not isinstance(self.streamed, Streamed):
            raise TypeError(f"streamed is {self.streamed!r}; it must be an object: Streamed(...)")
        check_whole("logits", self.logits)

    def view(self, centers: Float[Tensor, "classes subcenters columns"], request: ViewRequest) -> View:
        """The centers for a batch, by either engine."""
        few = len(request.labels) * centers.shape[:2].numel() <= self.logits
        engine = Dense() if few else self.streamed
        return engine.view(centers, request)
