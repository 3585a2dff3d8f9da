"""Checks of arguments: one of the words of a `Literal`, or a count within limits."""

from typing import Any, get_args


def check_word(name: str, word: object, allowed: Any) -> None:
    """Refuse a word that a `Literal` does not allow.

    Raises:
        ValueError: names the argument, the word and what is allowed.
    """
    if word not in get_args(allowed):
        raise ValueError(f"{name} is {word!r}; allowed are {', '.join(get_args(allowed))}")


def check_count(name: str, count: int, least: int = 1, most: int = 10**6) -> None:
    """Refuse a count out of range; the default maximum is beyond any use, and below what overflows a tensor's size.

    Raises:
        ValueError: names the argument, the count and what is allowed.
    """
    if count < least:
        raise ValueError(f"{name} is {count}; it must be at least {least}")
    if count > most:
        raise ValueError(f"{name} is {count:,}; it must be at most {most:,}")
