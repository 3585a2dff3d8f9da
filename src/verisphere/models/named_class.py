"""Objects of classes that a file names by `class_path` and `init_args`; no code from the file is run."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_type_hints

from verisphere.files.class_paths import name_present_module
from verisphere.files.json_values import as_kind, shown

T = TypeVar("T")
#: The only class of verisphere that runs code from outside the package.
CALLS = "verisphere.models.callable_network.CallableNetwork"


def names_class(value: Any) -> bool:
    """Whether plain data names a class."""
    return isinstance(value, dict) and "class_path" in value


def build_named(description: Mapping[str, Any], kind: type[T], house: str, what: str, trust: bool) -> T:
    """The object that a description names; an argument that is such a description is built first.

    Args:
        description: `class_path` and `init_args`, with current class paths.
        kind: the class that the named one must derive from.
        house: package, with a dot at its end, whose classes a file may name without being trusted.
        what: name of the object in an error.
        trust: also import classes from elsewhere, which runs their module's code.
    """
    path, arguments = str(description.get("class_path", "")), description.get("init_args") or {}
    if not path.startswith(house) and not trust:
        raise ValueError(
            f"{what} {shown(path)} {'calls code from outside' if path == CALLS else 'is not part of'} verisphere; "
            "building it runs its code: allow it by --trust-code"
        )
    module, _, name = path.rpartition(".")
    try:
        named = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{what} {shown(path)} cannot be found: {name_present_module(str(error))}") from None
    # Checked before the call: a file must not be able to call everything that one of our modules imports.
    if not (isinstance(named, type) and issubclass(named, kind)):
        raise ValueError(f"{shown(path)} is not a {what}")
    try:
        given = {name: _built(value, kind, house, what, trust) for name, value in dict(**arguments).items()}
        if path.startswith(house):
            given = _of_their_kinds(named, kind, given)
        build: Callable[..., T] = named
        return build(**given)
    except (TypeError, ValueError, RuntimeError) as error:  # torch raises RuntimeError for too large a tensor
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"{what} {shown(path)} with {shown(arguments)} cannot be built: {reason}") from None


def _built(value: Any, kind: type[T], house: str, what: str, trust: bool) -> Any:
    """An argument, or the object that it describes; in a list each entry, such as the losses of a weighted sum."""
    if isinstance(value, list):
        return [_built(entry, kind, house, what, trust) for entry in value]
    return build_named(value, kind, house, what, trust) if names_class(value) else value


def _of_their_kinds(named: type, kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the kinds that the constructor of one of our classes declares."""
    hints, known = get_type_hints(named.__init__), inspect.signature(named).parameters  # type: ignore[misc]
    return {
        name: value if _is_built(value, kind) or name not in known else as_kind(hints[name], value, name)
        for name, value in given.items()
    }


def _is_built(value: Any, kind: type) -> bool:
    """Whether a value is an object built from a description, or a list of such objects."""
    return isinstance(value, kind) or (isinstance(value, list) and any(isinstance(entry, kind) for entry in value))
