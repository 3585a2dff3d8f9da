"""torch.compile where there is a compiler, eager execution where there is none or where it fails."""

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

log = logging.getLogger(__name__)

#: Every loss, precision and size of a chunk is compiled apart; torch gives up after 8 of them by default.
_MANY = {"recompile_limit": 64} if "recompile_limit" in inspect.signature(torch.compile).parameters else {}

#: Where errors of reading a function and of building code for it are defined.
_COMPILER = ("torch._dynamo", "torch._inductor", "torch._functorch", "triton")


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


@functools.cache
def fused(function: Callable[..., Any], device: str, loss: type | None = None) -> Callable[..., Any]:
    """The function compiled for fixed shapes; the function itself where no compiler works for this kind of device.

    Should the compiler fail on what the function is given, such as a loss that it cannot read, then that is said once
    and the function runs eager from there on, for this kind of loss. Any other error is the function's own, which may
    have changed its tensors by then: it is not run again.

    Args:
        function: of tensors, without effects but on tensors that it changes in place.
        device: its type, such as cpu or cuda.
        loss: the kind of loss that it is given, where it is given any.
    """
    if not compiler_works(device):
        return function
    compiled = torch.compile(function, dynamic=False, **_MANY)  # type: ignore[call-overload]  # a setting of newer versions
    given_up: list[Exception] = []

    def run(*arguments: Any) -> Any:
        if not given_up:
            try:
                return compiled(*arguments)
            except Exception as error:
                if not _of_compiler(error):
                    raise
                result = function(*arguments)  # an error of its own that the compiler has met comes again here
                given_up.append(error)
                reason = (str(error).splitlines() or [type(error).__name__])[0]
                of_loss = f" of {loss.__name__}" if loss else ""
                log.warning("%s%s could not be compiled (%s); it runs eager", function.__qualname__, of_loss, reason)
                return result
        return function(*arguments)

    return run


def _of_compiler(error: Exception) -> bool:
    return any(kind.__module__.startswith(_COMPILER) for kind in type(error).__mro__)
