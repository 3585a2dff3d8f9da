"""SGD for a training in which the head updates its class centers, chunk by chunk, without their gradient."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from verisphere.head.checks import check_ranks
from verisphere.head.head import Head
from verisphere.head.interface import SGDStep


class HeadSGD(torch.optim.SGD):
    """`torch.optim.SGD` for all parameters but the head's centers, which the head updates likewise.

    Where the engine defers the centers' gradient, as the streamed one does, that saves the N x d gradient and the
    passes over it; where it does not, as `Auto` for few logits, the centers have a gradient and are updated like the
    others. State and results are those of `torch.optim.SGD`, results to within rounding, so a training may continue
    with either from a checkpoint of the other.

    `torch.nn.utils.clip_grad_norm_` and `torch.amp.GradScaler` reach a deferred gradient, each by one more pass over
    the classes; see `DeferredTensor`. It cannot be used where gradients accumulate over several backward passes, or
    reach the centers by another term of the loss: use `torch.optim.SGD` and `head.deferred = False` there.

    >>> from verisphere.losses import ArcFace
    >>> head = Head(ArcFace(), classes=10, size=4)
    >>> optimizer = HeadSGD(head.parameters(), head, lr=0.1, momentum=0.9)
    >>> head(torch.randn(2, 4), torch.tensor([3, 7])).loss.backward()
    >>> optimizer.step()
    >>> optimizer.zero_grad()

    Args:
        params: parameters or groups, the head's centers among them.
        head: the head with these centers; it is set to defer their gradient.
        lr: learning rate.
        momentum: share of the momentum buffer that stays.
        weight_decay: weight decay of groups that state none.
        nesterov: whether to look ahead along the momentum.

    Raises:
        ValueError: the head's centers are not among the parameters, their group has a dampening or maximizes, or
            several ranks hold all classes, as under DDP: give the head `Sharded`, and DDP the backbone alone.
    """

    def __init__(
        self,
        params: Iterable[Any],
        head: Head,
        lr: float = 0.1,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        if not isinstance(head, Head):
            raise TypeError(f"head is {type(head).__name__}; HeadSGD takes the parameters, and then a verisphere.Head")
        super().__init__(params, lr=lr, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov)
        self.head = head
        self._group()
        check_ranks(head.held, head.classes)
        head.deferred = True

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update every parameter that has a gradient or a deferred one.

        Raises:
            ValueError: see `Head.check_step`; nothing has changed then.
        """
        result = None
        if closure is not None:
            with torch.enable_grad():
                result = closure()
        group, centers = self._group(), self.head.stored
        gradient = self.head.take_deferred()
        super().step()
        if gradient is None:
            return result
        buffer: Tensor | None = None
        if group["momentum"]:
            buffer = self.state[centers].get("momentum_buffer")
            if buffer is None:
                buffer = self.state[centers]["momentum_buffer"] = torch.zeros_like(centers)
        step = SGDStep(float(group["lr"]), group["momentum"], group["weight_decay"], group["nesterov"])
        with torch.autocast(centers.device.type, enabled=False):
            gradient.apply(step, buffer)
        return result

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop every gradient, the deferred one too."""
        self.head.drop_deferred()
        self.head.stored.grad = None  # zeros would be a gradient beside the deferred one
        super().zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """The state of all steps, also of those that some centers lacked."""
        self.head.bring_up()
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take another state, after the steps that belong to this one."""
        self.head.bring_up()
        super().load_state_dict(state_dict)

    def __getstate__(self) -> dict[str, Any]:
        """The state of a copy; torch's own keeps a fixed list of names."""
        self.head.bring_up()
        return {**super().__getstate__(), "head": self.head}

    def _group(self) -> dict[str, Any]:
        for group in self.param_groups:
            if any(parameter is self.head.stored for parameter in group["params"]):
                if group["dampening"] or group["maximize"]:
                    raise ValueError(
                        f"the group of the head's centers has dampening {group['dampening']} and maximize "
                        f"{group['maximize']}; a head supports neither: use torch.optim.SGD"
                    )
                return group
        raise ValueError("the head's centers are not among the parameters; was the optimizer built before the head?")
