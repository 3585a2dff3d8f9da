"""Batch norm with statistics over the images of all ranks (Ioffe and Szegedy 2015, arXiv:1502.03167).

PyTorch's own `SyncBatchNorm` does not support the CPU. Here the means are gathered from all ranks, in both passes.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from verisphere.base.collectives import gathered, total
from verisphere.base.compiling import left_eager
from verisphere.base.distributed import world

_KINDS: tuple[type[_BatchNorm], ...] = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class SyncBatchNorm(_BatchNorm):
    """Batch norm over the images of all ranks in training; with one rank, and in evaluation, that of PyTorch.

    Every rank must call it the same number of times in the same order, with at least one image; the numbers of images
    can differ. A call has two small collectives: 2 C + 1 numbers forward and 2 C numbers backward, with 8 bytes each (C
    channels). Parameters, buffers and their names are those of PyTorch, and the running statistics equal those of one
    process with all the images. Arguments are those of `torch.nn.BatchNorm2d`.
    """

    def forward(self, input: Float[Tensor, "batch channels *place"]) -> Float[Tensor, "batch channels *place"]:  # noqa: A002
        """Normalised images."""
        if not self.training or world().size == 1:
            return super().forward(input)
        return self._together(input)

    # A compiler would take the collectives as a part of the graph of the network.
    @left_eager
    def _together(self, images: Tensor) -> Tensor:
        wide = torch.promote_types(images.dtype, torch.float32)
        weight, bias = self.weight, self.bias
        if weight is None:  # not affine
            weight, bias = images.new_ones(images.shape[1], dtype=wide), None
        normalised, mean, variance, count = _Normalise.apply(images, weight, bias, self.eps)
        if self.running_mean is not None and self.running_var is not None:
            with torch.no_grad():
                pace: float | Tensor = 0.0 if self.momentum is None else self.momentum
                if self.num_batches_tracked is not None:
                    self.num_batches_tracked.add_(1)
                    pace = 1.0 / self.num_batches_tracked if self.momentum is None else self.momentum
                # the running variance is the unbiased one, as in algorithm 2 of the paper
                unbiased = variance * (count / (count - 1))
                for running, seen in ((self.running_mean, mean), (self.running_var, unbiased)):
                    running.add_((seen.to(running) - running) * pace)
        return normalised

    def _check_input_dim(self, input: Tensor) -> None:  # noqa: A002
        if input.ndim < 2:
            raise ValueError(f"batch norm was given {input.ndim} axes; it takes a batch, channels, and places if any")


def synchronised(module: nn.Module) -> nn.Module:
    """The module with every batch norm replaced by a `SyncBatchNorm` with the same parameters and buffers.

    The module is changed in place, and returned because it can be a batch norm itself. The names of parameters stay the
    same, so checkpoints are interchangeable.
    """
    if isinstance(module, _BatchNorm):
        return _exchanged(module)
    for name, child in module.named_children():
        new = synchronised(child)
        if new is not child:
            setattr(module, name, new)
    return module


def _exchanged(norm: _BatchNorm) -> _BatchNorm:
    if type(norm) is SyncBatchNorm:
        return norm
    if type(norm) not in _KINDS:
        raise ValueError(
            f"sync_batch_norm knows PyTorch's BatchNorm1d, 2d and 3d, but the backbone has a {type(norm).__name__}"
        )
    new = SyncBatchNorm(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
    new.weight, new.bias = norm.weight, norm.bias
    for name, buffer in norm.named_buffers(recurse=False):
        setattr(new, name, buffer)
    return new.train(norm.training)


class _Normalise(torch.autograd.Function):
    """(x - mean) / sqrt(variance + eps) * weight + bias, with the mean and the variance over all ranks."""

    @staticmethod
    def forward(
        ctx: Any, images: Tensor, weight: Tensor, bias: Tensor | None, eps: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        axes = [axis for axis in range(images.ndim) if axis != 1]
        wide = images.to(torch.promote_types(images.dtype, torch.float32))
        own_count = images.numel() // images.shape[1]
        variance, mean = torch.var_mean(wide, axes, correction=0)
        # Means and sums of squares about them add up without cancellation (Chan et al. 1979); in float64, because a
        # float32 count is exact only up to 2^24.
        statistics = gathered(
            torch.cat([mean.double(), variance.double(), mean.new_full((1,), own_count).double()])[None]
        )
        means, variances, counts = statistics.tensor_split([len(mean), 2 * len(mean)], dim=1)
        share = counts / counts.sum()  # (processes, 1)
        count = counts.sum()  # a tensor, so that the CPU does not wait for a GPU
        everywhere = (share * means).sum(0)
        spread = (share * (variances + (means - everywhere) ** 2)).sum(0)
        inverse = (spread + eps).rsqrt()
        ctx.axes, ctx.count, ctx.has_bias = axes, count, bias is not None
        ctx.save_for_backward(images, weight, everywhere.to(wide.dtype), inverse.to(wide.dtype))
        shape = [1, -1, *[1] * (images.ndim - 2)]
        gain = (inverse * weight).to(wide.dtype)
        offset = (-everywhere * inverse * weight + (0 if bias is None else bias)).to(wide.dtype)
        normalised = torch.addcmul(offset.view(shape), wide, gain.view(shape)).to(images.dtype)
        ctx.mark_non_differentiable(everywhere, spread, count)
        return normalised, everywhere, spread, count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_normalised: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor | None, None]:
        images, weight, mean, inverse = ctx.saved_tensors
        shape = [1, -1, *[1] * (images.ndim - 2)]
        by_wide = by_normalised.to(mean.dtype)
        standard = (images.to(mean.dtype) - mean.view(shape)) * inverse.view(shape)
        by_bias = by_wide.sum(ctx.axes)
        by_weight = (by_wide * standard).sum(ctx.axes)
        # The local sums are the partial gradients of weight and bias; that of the images needs the sums of all ranks.
        means = total(torch.cat([by_bias.double(), by_weight.double()])) / ctx.count
        of_bias, of_weight = means.to(mean.dtype).tensor_split(2)
        centred = by_wide - of_bias.view(shape) - standard * of_weight.view(shape)
        by_images = (centred * (inverse * weight).to(mean.dtype).view(shape)).to(images.dtype)
        return by_images, by_weight.to(weight.dtype), by_bias.to(weight.dtype) if ctx.has_bias else None, None
