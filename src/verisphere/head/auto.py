"""Dense, sparse or streamed, by the loss, the size of the batch and the number of centers."""

from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor

from verisphere.base.vocabulary import check_whole
from verisphere.head.dense import Dense
from verisphere.head.interface import View, ViewRequest, WholeEngine
from verisphere.head.sparse import Sparse, why_not_sparse
from verisphere.head.streamed import Streamed

#: On a CPU the sparse engine is faster than the dense one from about so many logits on.
SPARSE_LOGITS = 2**20


@dataclass(frozen=True)
class Auto(WholeEngine):
    """Dense while the logits are few, else streamed; sparse instead where the loss and the optimizer allow it.

    The engine `Sparse` needs a loss such as `QMargin` and `HeadSGD`. It streams what it cannot decide.

    >>> from verisphere.head import Head
    >>> from verisphere.losses import ArcFace
    >>> Head(ArcFace(), 10, 4, engine=Auto(logits=2**20)).engine.logits
    1048576

    Attributes:
        streamed: the engine for more logits.
        logits: the largest batch x centers that is computed at once; on a CPU at most 2^20 where `Sparse` is allowed.

    Raises:
        TypeError: `streamed` is no `Streamed(...)`, or `logits` is no whole number.
    """

    streamed: Streamed = field(default_factory=Streamed)
    logits: int = 2**22
    _sparse: Sparse = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_sparse", Sparse(self.streamed))  # which refuses another object
        check_whole("logits", self.logits)

    def forget(self, loading: bool = False) -> None:
        """Make the steps that the sparse engine has left out for some centers."""
        self._sparse.forget(loading)

    def dense_before_sparse(self, device: str) -> int:
        """The largest batch x centers that is computed at once where the sparse engine is allowed."""
        return min(self.logits, SPARSE_LOGITS) if device == "cpu" else self.logits

    def view(self, centers: Float[Tensor, "classes subcenters columns"], request: ViewRequest) -> View:
        """The centers for a batch, by one of the engines."""
        # one rank that defers its gradient and one that does not would wait for each other, as where it is clipped
        logits = len(request.labels) * max(request.most_held, len(centers)) * centers.shape[1]
        many, few = logits > self.dense_before_sparse(centers.device.type), logits <= self.logits
        fused = request.defer is not None and request.class_weights is None and many
        if fused and why_not_sparse(request.loss, request.subcenters) is None:
            return self._sparse.view(centers, request)
        self._sparse._kept.late.bring_up()
        return (Dense() if few else self.streamed).view(centers, request)
