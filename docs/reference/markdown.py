"""Plain text as Markdown."""

import re

MADE = "Written by `make reference` from the code; a test holds it equal to it."

#: Letters that Markdown would take for markup; an underscore inside a word is none.
_MARKUP = re.compile(r"[*<>\[\]|]|(?<![^\W_])_|_(?![^\W_])")


def escaped(text: str) -> str:
    """One line of text that shows as it is written, except for code in backticks and papers, which become links.

    >>> escaped("the first *.png of `a_*`; arXiv:1801.07698")
    'the first \\\\*.png of `a_*`; [arXiv:1801.07698](https://arxiv.org/abs/1801.07698)'
    """
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part if part.startswith("`") else linked(_MARKUP.sub(r"\\\g<0>", part)) for part in parts)


def linked(text: str) -> str:
    """The text with its arXiv numbers as links."""
    return re.sub(r"arXiv:(\d{4}\.\d{4,5})", r"[arXiv:\1](https://arxiv.org/abs/\1)", text)
