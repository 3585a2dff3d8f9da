"""The terms that an inversion minimises (ArcFace, Deng et al. 2021, arXiv:1801.07698v4, section 3.3, eq. 8).

The paper does not state whether the norms of the batch-norm term are squared, nor whether total variation and L2 are
sums or means. Here the norms are not squared and are added over the layers, as in the paper's formula; total variation
and L2 are means over the values, so that their weights do not depend on the size of the images.
"""

from types import TracebackType

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class BatchNormStatistics:
    """The distance of the statistics of a batch from those that the batch norms of a network have stored.

    Inside the context the inputs of every batch norm are recorded; `distance` takes those of the last forward: the sum
    over the layers of |mean - running mean|_2 + |std - running std|_2, with the norms over the channels and std =
    sqrt(variance + eps), the variance being the biased one and eps that of the layer. The network must be in evaluation
    mode, so that the batch does not change the stored statistics.

    >>> network = nn.BatchNorm2d(1).eval()  # running mean 0, running variance 1
    >>> with BatchNormStatistics(network) as statistics:
    ...     _ = network(torch.tensor([3.0, 5.0]).reshape(2, 1, 1, 1))
    ...     distance = statistics.distance()
    >>> round(distance.item(), 4)  # |4 - 0| + |1 - 1|
    4.0
    """

    def __init__(self, network: nn.Module) -> None:
        self._layers = [
            layer for layer in network.modules() if isinstance(layer, _BatchNorm) and layer.running_mean is not None
        ]
        if not self._layers:
            raise ValueError(
                f"{type(network).__name__} has no batch norm with running statistics, so there is nothing that images "
                "could be drawn to; set the weight of the batch-norm term to 0"
            )
        self._inputs: list[tuple[_BatchNorm, Tensor]] = []
        self._hooks: list[torch.utils.hooks.RemovableHandle] = []

    def __len__(self) -> int:
        """Number of batch norms."""
        return len(self._layers)

    def __enter__(self) -> "BatchNormStatistics":
        self._hooks = [layer.register_forward_hook(self._record) for layer in self._layers]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for hook in self._hooks:
            hook.remove()
        self._inputs.clear()

    def _record(self, layer: nn.Module, inputs: tuple[Tensor, ...], result: Tensor) -> None:
        assert isinstance(layer, _BatchNorm)
        self._inputs.append((layer, inputs[0]))

    def distance(self) -> Float[Tensor, ""]:
        """The distance of the batch of the last forward, whose statistics are then discarded."""
        if not self._inputs:
            raise ValueError("no batch was put through the network since the last distance")
        recorded, self._inputs = self._inputs, []
        return torch.stack([_distance(layer, values) for layer, values in recorded]).sum()


def _distance(layer: _BatchNorm, values: Float[Tensor, "batch channels *place"]) -> Float[Tensor, ""]:
    assert layer.running_mean is not None
    assert layer.running_var is not None
    axes = [axis for axis in range(values.dim()) if axis != 1]
    variance, mean = torch.var_mean(values, dim=axes, unbiased=False)
    std, running = (variance + layer.eps).sqrt(), (layer.running_var + layer.eps).sqrt()
    return torch.linalg.vector_norm(mean - layer.running_mean) + torch.linalg.vector_norm(std - running)


def total_variation(images: Float[Tensor, "batch channels height width"]) -> Float[Tensor, ""]:
    """Mean absolute difference of vertical neighbours, plus that of horizontal ones.

    >>> total_variation(torch.tensor([[0.0, 1.0], [0.0, 3.0]])[None, None])  # (0 + 2) / 2 + (1 + 3) / 2
    tensor(3.)
    """
    return images.diff(dim=2).abs().mean() + images.diff(dim=3).abs().mean()


def energy(images: Float[Tensor, "batch channels height width"]) -> Float[Tensor, ""]:
    """Mean of the squared values: the L2 term.

    >>> energy(torch.tensor([[1.0, 3.0]])[None, None])
    tensor(5.)
    """
    return images.square().mean()


def toward_embeddings(embeddings: Float[Tensor, "batch dim"], targets: Float[Tensor, "batch dim"]) -> Float[Tensor, ""]:
    """Mean Euclidean distance between unit embeddings: the identity term of an open-set inversion.

    Both are scaled to length 1. The distance of equal embeddings has gradient 0.

    >>> toward_embeddings(torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 5.0]]))
    tensor(1.4142)
    """
    ours, theirs = (nn.functional.normalize(rows, dim=1) for rows in (embeddings, targets))
    return torch.linalg.vector_norm(ours - theirs, dim=1).mean()
