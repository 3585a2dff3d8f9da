"""The optimizer of a recipe: SGD with momentum, or AdamW."""

from dataclasses import dataclass
from math import isfinite
from typing import Literal

import torch
from torch import nn

from verisphere.base.words import check_positive
from verisphere.head.head import Head
from verisphere.head.update import HeadSGD

#: Usual base learning rate of each optimizer.
USUAL_RATES = {"sgd": 0.1, "adamw": 1e-3}
_LARGEST = 1e30  # rate or decay; beyond it float32 overflows before a loss can show it


@dataclass(frozen=True)
class Optimizer:
    """SGD with momentum, or AdamW.

    Attributes:
        name: `sgd` or `adamw`.
        rate: base learning rate; 0.1 is usual for sgd, 1e-3 for adamw, which is refused above 0.02.
        momentum: momentum of sgd; adamw ignores it.
        weight_decay: decay of filters, matrices and class centers; biases and parameters with one number per channel
            (batch norm, PReLU) have none.
    """

    name: Literal["sgd", "adamw"] = "sgd"
    rate: float = USUAL_RATES["sgd"]
    momentum: float = 0.9
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        check_positive("optimizer.rate", self.rate)
        for name in ("rate", "weight_decay"):
            if getattr(self, name) > _LARGEST:
                raise ValueError(f"optimizer.{name} must be at most {_LARGEST:g}, got {getattr(self, name):g}")
        if self.name == "adamw" and self.rate > 0.02:
            raise ValueError(f"optimizer.rate is {self.rate}, which adamw does not survive; 1e-3 is usual")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"optimizer.momentum must lie in [0, 1), got {self.momentum}")
        if not (isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise ValueError(f"optimizer.weight_decay must be a number and not negative, got {self.weight_decay}")

    def build(self, module: nn.Module, head: Head | None = None) -> torch.optim.Optimizer:
        """The optimizer over a module's parameters.

        Args:
            head: the head inside the module, if its gradient may be deferred: sgd then lets an engine that can do so
                update the centers without a gradient of their size.
        """
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        groups = [
            {"params": [weight for weight in parameters if weight.ndim > 1], "weight_decay": self.weight_decay},
            {"params": [weight for weight in parameters if weight.ndim <= 1], "weight_decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        if self.name == "adamw":
            return torch.optim.AdamW(groups, lr=self.rate)
        if head is not None:
            return HeadSGD(groups, head, lr=self.rate, momentum=self.momentum)
        return torch.optim.SGD(groups, lr=self.rate, momentum=self.momentum)
