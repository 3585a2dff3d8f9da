"""An extension of griffe: docstrings as this project writes them, in the form that its parser reads.

Examples become blocks of code, which Markdown would take for quotations. Several arguments may share a line
(`height, width: ...`): each gets one of its own.
"""

import re
from typing import Any

import griffe

#: An example: a prompt, and all lines up to an empty one.
_EXAMPLE = re.compile(r"(?m)^(?P<indent> *)>>> .*(?:\n(?! *$).*)*")
#: Several arguments of one meaning, which may go on below.
_SHARED = re.compile(r"(?m)^ {4}(\w+(?:, \w+)+): (.*(?:\n {8}.*)*)")


def fenced(docstring: str) -> str:
    """A docstring with a fence around each example.

    >>> fenced("One.\\n\\n>>> 1 + 1\\n2\\n\\nTwo.").splitlines()
    ['One.', '', '```pycon', '>>> 1 + 1', '2', '```', '', 'Two.']
    """
    return _EXAMPLE.sub(lambda example: f"{example['indent']}```pycon\n{example[0]}\n{example['indent']}```", docstring)


def apart(docstring: str) -> str:
    """A docstring with a line for each argument.

    >>> apart("One.\\n\\nArgs:\\n    height, width: pixels.\\n    seed: any.").splitlines()[2:]
    ['Args:', '    height: pixels.', '    width: pixels.', '    seed: any.']
    """
    return _SHARED.sub(
        lambda shared: "\n".join(f"    {name}: {shared[2]}" for name in shared[1].split(", ")), docstring
    )


class Doctests(griffe.Extension):
    """Fences the examples of every docstring, and parts the arguments that share a line."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(apart(obj.docstring.value))
