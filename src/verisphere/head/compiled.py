"""Element-wise work as one compiled loop where a compiler is at hand, and eager where none is or where it fails."""

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any

import torch

from verisphere.embed.compiling import compiler_works

log = logging.getLogger(__name__)

#: Every loss, precision and size of a chunk is compiled apart; torch gives up after 8 of them by default.
_MANY = {"recompile_limit": 64} if "recompile_limit" in inspect.signature(torch.compile).parameters else {}


@functools.cache
def fused(function: Callable[..., Any], device: str) -> Callable[..., Any]:
    """The function compiled for fixed shapes; the function itself where no compiler works for this kind of device.

    Should the compiler fail on what the function is given, such as a loss that it cannot read, then that is said once
    and the function runs eager from there on.

    Args:
        function: of tensors, without effects but on tensors that it changes in place.
        device: its type, such as cpu or cuda.
    """
    if not compiler_works(device):
        return function
    compiled = torch.compile(function, dynamic=False, **_MANY)  # type: ignore[call-overload]
    given_up: list[Exception] = []

    def run(*arguments: Any) -> Any:
        if not given_up:
            try:
                return compiled(*arguments)
            except Exception as error:  # of any kind; if it is the function's own, it comes again below
                result = function(*arguments)
                given_up.append(error)
                reason = (str(error).splitlines() or [type(error).__name__])[0]
                log.warning("%s could not be compiled (%s); it runs eager", function.__qualname__, reason)
                return result
        return function(*arguments)

    return run
