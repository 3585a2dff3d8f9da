"""Functions from outside verisphere that a flag or a file names as `module:function`."""

import importlib
from collections.abc import Callable
from typing import Any

from verisphere.files.json_values import shown


def named_function(path: str, what: str, trust: bool) -> Callable[..., Any]:
    """The function that `module:function` names; its module is imported, which runs the code of the module.

    The module is found as `python -c "import module"` finds it, including in the folders of PYTHONPATH.
    """
    if not trust:
        raise ValueError(
            f"{what} {shown(path)} is not part of verisphere; loading it runs its code: allow it by --trust-code"
        )
    module, _, name = path.partition(":")
    if not (name.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        raise ValueError(f"{what} {shown(path)} is no module:function, such as people.faces:find")
    try:
        function = getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as error:  # importing the module runs its code, which may raise anything
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        hint = "; is its folder on PYTHONPATH?" if isinstance(error, ModuleNotFoundError) else ""
        raise ValueError(f"{what} {shown(path)} cannot be loaded: {reason}{hint}") from None
    if not callable(function):
        raise ValueError(f"{what} {shown(path)} is {shown(function)}, which cannot be called")
    return function
