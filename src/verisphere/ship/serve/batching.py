"""Requests that wait form a batch: while the network embeds some faces, those that arrive wait for the next batch."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

Embed = Callable[[Sequence[np.ndarray]], np.ndarray]


class Batches:
    """A function of a batch of at most so many faces, called with single ones; one thread carries it out."""

    def __init__(self, embed: Embed, most: int) -> None:
        self._embed, self._most = embed, most
        self._waiting: list[tuple[np.ndarray, asyncio.Future[np.ndarray]]] = []
        self._thread = ThreadPoolExecutor(1)
        self._work: asyncio.Task[None] | None = None

    async def __call__(self, face: np.ndarray) -> np.ndarray:
        """The embedding of a face; faces of requests that were given up meanwhile are not embedded."""
        result = asyncio.get_running_loop().create_future()
        self._waiting.append((face, result))
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._until_none_waits())
        return await result

    async def _until_none_waits(self) -> None:
        loop = asyncio.get_running_loop()
        while wanted := [(face, result) for face, result in self._waiting if not result.done()]:
            batch, self._waiting = wanted[: self._most], wanted[self._most :]
            done = loop.run_in_executor(self._thread, self._embed, [face for face, _ in batch])
            (rows,) = await asyncio.gather(done, return_exceptions=True)
            for place, (_, result) in enumerate(batch):
                if result.done():
                    continue
                if isinstance(rows, BaseException):
                    result.set_exception(rows)
                else:
                    result.set_result(rows[place])
