"""Objects of classes that a file names by `class_path` and `init_args`; no code from the file is run."""

from collections.abc import Mapping
from typing import Any, TypeVar

from verisphere.files.definitions import build, complete
from verisphere.files.json_values import shown

T = TypeVar("T")
#: The only class of verisphere that runs code from outside the package.
CALLS = "verisphere.models.callable_network.CallableNetwork"


def build_named(description: Mapping[str, Any], kind: type[T], house: str, what: str, trust: bool) -> T:
    """The object that a description names; an argument that is such a description is built first.

    A file may name, without being trusted, classes of the package `house`, which has a dot at its end. They must derive
    from `kind`.
    """

    def allow(path: str) -> None:
        if not trust and not path.startswith(house):
            raise ValueError(
                f"{shown(path)} {'calls code from outside' if path == CALLS else 'is not part of'} verisphere; "
                "building it runs its code: allow it by --trust-code"
            )

    given = {"class_path": str(description.get("class_path", "")), "init_args": description.get("init_args") or {}}
    completed = complete(kind, given, what, allow)
    try:
        return build(kind, completed, what)
    except (TypeError, ValueError, RuntimeError) as error:  # torch raises RuntimeError for too large a tensor
        reason = " ".join(str(error).split())[:200]
        named, arguments = completed["class_path"], completed.get("init_args", {})
        raise ValueError(f"{what}: {named} with {shown(arguments)} cannot be built: {reason}") from None
