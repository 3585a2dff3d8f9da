"""An extension of griffe: the examples of a docstring as blocks of code, which Markdown would take for quotations."""

import re
from typing import Any

import griffe

#: An example: a prompt, and all lines up to an empty one.
_EXAMPLE = re.compile(r"(?m)^(?P<indent> *)>>> .*(?:\n(?! *$).*)*")


def fenced(docstring: str) -> str:
    """A docstring with a fence around each example.

    >>> fenced("One.\\n\\n>>> 1 + 1\\n2\\n\\nTwo.").splitlines()
    ['One.', '', '```pycon', '>>> 1 + 1', '2', '```', '', 'Two.']
    """
    return _EXAMPLE.sub(lambda example: f"{example['indent']}```pycon\n{example[0]}\n{example['indent']}```", docstring)


class Doctests(griffe.Extension):
    """Fences the examples of every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence those of one object."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
