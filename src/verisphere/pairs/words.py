"""Arguments of pair terms that are one of a few words."""

from typing import Any, get_args


def check_word(name: str, word: object, allowed: Any) -> None:
    """Refuse a word that is none of those that a `Literal` allows.

    Raises:
        ValueError: it is none of them; names the argument, the word and what is allowed.
    """
    if word not in get_args(allowed):
        raise ValueError(f"{name} is {word!r}; allowed are {', '.join(get_args(allowed))}")
