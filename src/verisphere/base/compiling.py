"""torch.compile where a compiler works, eager execution elsewhere."""

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

log = logging.getLogger(__name__)

#: Every loss, precision and chunk size is compiled separately; torch gives up after 8 of them by default.
_MANY = {"recompile_limit": 64} if "recompile_limit" in inspect.signature(torch.compile).parameters else {}

#: Modules that define the errors of tracing and compiling.
_COMPILER = ("torch._dynamo", "torch._inductor", "torch._functorch", "triton")


@functools.cache
def compiler_works(device: str) -> bool:
    """Whether torch.compile works for a type of device; tried once, on a tiny function, with one warning."""
    try:
        doubled = torch.compile(_probe)(torch.ones(8, device=device))
        return bool((doubled == 3).all())
    except Exception as error:  # every failure of a compiler has the same consequence: run eager
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        log.warning("compiling is not possible here (%s); everything runs eager", reason)
        return False


def _probe(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def compiled(module: nn.Module, device: torch.device) -> Callable[..., Any]:
    """The module compiled for fixed shapes, or the module itself where no compiler works.

    Module and parameters are unchanged, and calling the module directly remains eager.
    """
    return torch.compile(module.forward, dynamic=False) if compiler_works(device.type) else module.__call__


@functools.cache
def fused(function: Callable[..., Any], device: str, loss: type | None = None) -> Callable[..., Any]:
    """The function compiled for fixed shapes; the function itself where no compiler works for this type of device.

    Where the compiler fails on the arguments, such as a loss that it cannot trace, a warning says so once and the
    function runs eager from then on, for this type of loss. Any other error comes from the function itself, which may
    have changed its tensors by then: it is not run again.
    The only side effects of the function may be in-place changes of tensors.
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
                result = function(*arguments)  # an error of the function itself is raised again here
                given_up.append(error)
                reason = (str(error).splitlines() or [type(error).__name__])[0]
                of_loss = f" of {loss.__name__}" if loss else ""
                log.warning("%s%s could not be compiled (%s); it runs eager", function.__qualname__, of_loss, reason)
                return result
        return function(*arguments)

    return run


def left_eager(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which stays eager inside a model that the user compiles: the graph breaks at it.

    The compiler is not imported before something is compiled; `torch.compiler.disable` alone would import it at once.
    """

    @functools.wraps(function)
    def run(*arguments: Any, **named: Any) -> Any:
        if not torch.compiler.is_compiling():
            return function(*arguments, **named)
        disabled = getattr(
            function, "_disabled", None
        )  # an attribute, since the tracer does not follow closures' writes
        if disabled is None:
            disabled = torch.compiler.disable(function)
            function._disabled = disabled  # type: ignore[attr-defined]
        return disabled(*arguments, **named)

    return run


def _of_compiler(error: Exception) -> bool:
    return any(kind.__module__.startswith(_COMPILER) for kind in type(error).__mro__)
