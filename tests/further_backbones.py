"""The exported backbones that no entry of a suite names, so that a suite asks every backbone without being edited."""

import inspect
from collections.abc import Callable
from functools import partial

from verisphere import backbones
from verisphere.backbones import Backbone

#: Backbones of which a suite cannot ask everything, and the test that does instead.
APART = {
    "Backbone": "the base class",
    "GraphNetwork": "is made of the operators of a graph: tests/backbones/test_graph_network.py",
    "GroupFace": "is made around another backbone: tests/backbones/test_group_face.py",
    "OnnxNetwork": "is read from a file and not trained: tests/backbones/test_onnx_network.py",
    "Pixels": "learns nothing: tests/backbones/test_pixels.py",
}


def with_further(entries: dict[str, Callable[[], Backbone]], embedding_size: int) -> dict[str, Callable[[], Backbone]]:
    """The entries of a suite, and every exported backbone that no entry begins with, made by its defaults.

    Args:
        entries: factories by the name of a class, which may be followed by `, ` or a blank and words about its options.
        embedding_size: numbers in an embedding of the further ones.
    """
    named = {name.replace(",", " ").split()[0] for name in entries} | set(APART)
    kinds = {name: getattr(backbones, name) for name in backbones.__all__ if name not in named}
    return entries | {
        name: partial(_by_defaults, name, kind, embedding_size)
        for name, kind in kinds.items()
        if isinstance(kind, type) and issubclass(kind, Backbone)
    }


def _by_defaults(name: str, kind: type[Backbone], embedding_size: int) -> Backbone:
    try:
        inspect.signature(kind).bind(embedding_size=embedding_size)
    except TypeError as error:
        raise AssertionError(
            f"{name}(embedding_size={embedding_size}) cannot be made ({error}): give its arguments defaults, or give "
            "it an entry in BACKBONES of tests/backbones/test_backbones.py and of tests/models/test_onnx_file.py; if a "
            "suite cannot ask it at all, give it one in APART of tests/further_backbones.py"
        ) from None
    return kind(embedding_size=embedding_size)
