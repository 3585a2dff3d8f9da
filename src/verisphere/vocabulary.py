"""Words that every part of verisphere shares (filled by the evaluation work)."""

from collections.abc import Iterable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Progress(Protocol):
    """Wraps an iterable and shows how far it has come; library code receives one and never prints by itself."""

    def __call__(self, items: Iterable[T], description: str, total: int | None = None) -> Iterable[T]: ...  # noqa: D102


def quietly(items: Iterable[T], description: str, total: int | None = None) -> Iterable[T]:
    """The silent `Progress`: hands the items on and shows nothing."""
    return items
