"""A training that is asked to end while a step is under way, as a person or a scheduler would ask."""

import os
import signal
from collections.abc import Iterable, Iterator
from typing import Any


class Interrupting:
    """A `Progress` that sends this process a signal once so many steps are done."""

    def __init__(self, after: int, number: int = signal.SIGTERM) -> None:
        self.after, self.number = after, number

    def __call__(
        self, items: Iterable[Any], description: str, total: int | None = None, done: int = 0
    ) -> Iterator[Any]:
        for position, item in enumerate(items):
            if description == "training" and position == self.after:
                os.kill(os.getpid(), self.number)
            yield item
