"""Functions from outside verisphere that a flag or a file names as `module:function`."""

import hashlib
import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
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


def find_function(function: str, trust: bool, what: str = "function") -> tuple[Callable[..., Any], Path]:
    """A function by its name `module:function`, and the source file of its module."""
    call = named_function(function, what, trust)
    try:
        source = inspect.getsourcefile(importlib.import_module(function.partition(":")[0]))
    except TypeError:  # a module that is part of the interpreter
        source = None
    if source is None:
        raise ValueError(f"{function}: its module has no source file, by which a change could be noticed")
    return call, Path(source)


def source_digest(source: Path) -> str:
    """SHA-256 of a source file, in hexadecimal."""
    return hashlib.sha256(source.read_bytes()).hexdigest()
