"""A gradient that has not been computed, as the tools of `torch` see it in `.grad`."""

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Any, NoReturn

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from verisphere.base import collectives
from verisphere.head.interface import DeferredGradient


class DeferredTensor(Tensor):
    """What `centers.grad` is while the gradient is deferred: a shape and a type without numbers.

    Three operations work: the norm and the multiplication by one number, of which `torch.nn.utils.clip_grad_norm_`
    consists, and the check and division of `torch.amp.GradScaler`. Norm and check take one pass over the classes each.
    All other operations need the numbers and raise, so that no optimizer or tool skips the centers silently.

    Under `Sharded` the norm is that of the centers of all ranks, and an infinity on one rank counts on all of them:
    every rank must call these operations equally often.

    Attributes:
        visible: whether the backward pass has ended; where `.grad` is None after that, the gradient was dropped.
    """

    gradient: DeferredGradient
    sharded: bool
    visible: bool

    @staticmethod
    def __new__(cls, like: Tensor, gradient: DeferredGradient, sharded: bool) -> "DeferredTensor":
        """An empty tensor; a tensor's attributes are set after it was made."""
        return torch.Tensor._make_wrapper_subclass(cls, like.shape, dtype=like.dtype, device=like.device)

    def __init__(self, like: Tensor, gradient: DeferredGradient, sharded: bool) -> None:
        super().__init__()
        self.gradient, self.sharded, self.visible = gradient, sharded, False

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]  # without a name there
        """Shape and type; there are no numbers to show."""
        return f"DeferredTensor(shape={tuple(self.shape)}, dtype={self.dtype})"

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """The operations that work; all others are passed to `__torch_dispatch__`."""
        # not in `__torch_dispatch__`: there autograd is switched off, which a pass over the classes needs
        if function in _WORKING:
            with torch.no_grad():
                return _WORKING[function](*args, **(kwargs or {}))
        return super().__torch_function__(function, types, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # the superclass has none
        cls,
        function: Any,
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Refuse an operation that needs the numbers."""
        if function is not torch.ops.aten.detach.default:  # as `.data` does
            _refuse(function)
        return args[0]


def computed_gradients(module: nn.Module) -> list[Tensor]:
    """The gradients of a module's parameters, without a deferred one."""
    gradients = (parameter.grad for parameter in module.parameters())
    return [gradient for gradient in gradients if gradient is not None and not isinstance(gradient, DeferredTensor)]


def _refuse(function: object) -> NoReturn:
    raise ValueError(
        f"{function} needs the gradient of the head's centers, which is deferred to HeadSGD.step: step with that "
        "HeadSGD, wrap the backbone alone if DDP asks for it, or set head.deferred = False before the backward pass"
    )


def _of_blocks(tensor: DeferredTensor, reduce: Callable[[Tensor], Tensor]) -> Shaped[Tensor, "blocks"]:
    """One number for each block of the gradient."""
    with torch.autocast(tensor.device.type, enabled=False):
        return torch.stack([reduce(block) for block in tensor.gradient.blocks()])


def _norm(tensor: DeferredTensor, order: float | str = 2.0, *rest: object, **named: Any) -> Float[Tensor, ""]:
    """`torch.linalg.vector_norm` and `Tensor.norm`, over all entries."""
    named = {name: value for name, value in named.items() if value not in (None, False)}  # defaults of Tensor.norm
    order = named.pop("p", order)
    order = 2.0 if order == "fro" else order
    if rest or named or not (isinstance(order, float | int) and order > 0):
        raise ValueError(f"the norm of a deferred gradient takes an order above 0 and nothing else, not {order!r}")
    norms = _of_blocks(tensor, lambda block: torch.linalg.vector_norm(block, order))
    norm = torch.linalg.vector_norm(norms, order)
    if not tensor.sharded:
        return norm
    return collectives.highest(norm) if order == inf else collectives.total(norm**order) ** (1 / order)


def _multiply(tensor: DeferredTensor, factor: Tensor | float) -> DeferredTensor:
    """`Tensor.mul_` by one number."""
    if isinstance(factor, Tensor) and factor.ndim:
        _refuse("mul_ by more than one number")
    tensor.gradient.scale(factor)
    return tensor


def _check_and_unscale(gradients: list[Tensor], found_inf: Tensor, inverse_scale: Tensor) -> None:
    """The work of `GradScaler.unscale_`: set `found_inf` where a gradient is not finite; divide by the scale."""
    computed = [gradient for gradient in gradients if not isinstance(gradient, DeferredTensor)]
    if computed:
        torch._amp_foreach_non_finite_check_and_unscale_(computed, found_inf, inverse_scale)
    for tensor in gradients:
        if isinstance(tensor, DeferredTensor):
            finite = _of_blocks(tensor, lambda block: block.isfinite().all()).all()
            not_finite = (~finite).to(found_inf)
            found_inf.copy_(found_inf.maximum(collectives.highest(not_finite) if tensor.sharded else not_finite))
            tensor.gradient.scale(inverse_scale)


_WORKING: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.linalg.vector_norm: _norm,
    torch.Tensor.norm: _norm,
    torch.Tensor.mul_: _multiply,
    torch._amp_foreach_non_finite_check_and_unscale_: _check_and_unscale,
}
