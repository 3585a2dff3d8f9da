"""Functions from outside verisphere that a flag or a file names as `module:function`."""

import hashlib
import importlib
import inspect
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from verisphere.files.json_values import shown


def named_function(path: str, what: str, trust: bool) -> Callable[..., Any]:
    """The function that `module:function` names; its module is imported, which runs the code of the module."""
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


def find_function(function: str, trust: bool, what: str = "function") -> tuple[Callable[..., Any], Path, str]:
    """A function by its name `module:function`, the source file of its module, and the SHA-256 of its code.

    The code is every .py file of the package that the module lies in, or the module's one file, and the file that
    defines the function. Other modules, compiled code and files that the function reads do not count.
    """
    call = named_function(function, what, trust)
    name = function.partition(":")[0]
    source, package = _source(importlib.import_module(name)), importlib.import_module(name.partition(".")[0])
    if source is None:
        raise ValueError(f"{function}: its module has no source file, by which a change could be noticed")
    folders = dict.fromkeys(map(os.path.realpath, getattr(package, "__path__", ())))  # which may name a folder twice
    files = [named for top in folders for named in _python_files(Path(top))]
    inside = {file.resolve() for _, file in files}
    defined = call
    while isinstance(defined, partial):
        defined = defined.func
    defined = inspect.unwrap(defined)
    outside = dict.fromkeys((source, _source(defined) or _source(type(defined))))
    files += [(f"../{file.name}", file) for file in outside if file is not None and file not in inside]
    files.sort(key=lambda named: named[0])  # files of one title stay in order
    digests = [(title, hashlib.sha256(file.read_bytes()).hexdigest()) for title, file in files]
    if len(digests) == 1:
        return call, source, digests[0][1]
    return call, source, hashlib.sha256(repr(digests).encode()).hexdigest()


def _python_files(top: Path) -> Iterator[tuple[str, Path]]:
    """The .py files of a folder, each with its path inside; linked folders too, but none that leads back to itself."""
    for place, folders, names in os.walk(top, followlinks=True):
        above = [Path(place), *Path(place).parents]
        if os.path.realpath(place) in [os.path.realpath(folder) for folder in above[1 : above.index(top) + 1]]:
            folders.clear()
            continue
        for file in (Path(place, name) for name in names if name.endswith(".py")):
            if file.is_file():
                yield str(file.relative_to(top)), file


def _source(thing: object) -> Path | None:
    """The source file of a module, function, method or class; None for other objects and built-in ones."""
    try:
        file = inspect.getsourcefile(thing)  # type: ignore[arg-type]  # TypeError where it takes none
    except (TypeError, OSError):
        return None
    return Path(file).resolve() if file is not None and Path(file).is_file() else None
