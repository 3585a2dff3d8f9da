"""torch.compile where there is a compiler, eager execution where there is none."""

import functools
import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

log = logging.getLogger(__name__)


@functools.cache
def compiler_works(device: str) -> bool:
    """Whether torch.compile can build code for this kind of device; tried once, on a tiny function, and said once.

    Args:
        device: its type, such as cpu or cuda.
    """
    try:
        doubled = torch.compile(_probe)(torch.ones(8, device=device))
        return bool((doubled == 3).all())
    except Exception as error:  # every failure of a compiler means the same: run eager
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        log.warning("compiling is not possible here (%s); everything runs eager", reason)
        return False


def _probe(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def compiled(module: nn.Module, device: torch.device) -> Callable[..., Any]:
    """What calls the module: compiled for fixed shapes, or the module itself where no compiler works.

    The module and its parameters stay what they were, and calling it directly stays eager.
    """
    return torch.compile(module.forward, dynamic=False) if compiler_works(device.type) else module.__call__
