"""Arguments of pair terms: one of a few words, or a count."""

from typing import Any, get_args


def check_word(name: str, word: object, allowed: Any) -> None:
    """Refuse a word that is none of those that a `Literal` allows.

    Raises:
        ValueError: it is none of them; names the argument, the word and what is allowed.
    """
    if word not in get_args(allowed):
        raise ValueError(f"{name} is {word!r}; allowed are {', '.join(get_args(allowed))}")


def check_count(name: str, count: int, least: int = 1, most: int = 10**6) -> None:
    """Refuse a count out of range; the upper end is beyond any use, and below what overflows the size of a tensor.

    Raises:
        ValueError: names the argument, the count and what is allowed.
    """
    if count < least:
        raise ValueError(f"{name} is {count}; it must be at least {least}")
    if count > most:
        raise ValueError(f"{name} is {count:,}; it must be at most {most:,}")
