"""Requests that wait form a batch: while some are embedded or looked for, those that arrive wait for the next one."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Batches(Generic[Question, Answer]):
    """A function of a batch of at most so many questions, called with single ones; one thread carries it out."""

    def __init__(
        self,
        answers: Callable[[Sequence[Question]], Sequence[Answer]],
        most: int,
        thread: ThreadPoolExecutor | None = None,
    ) -> None:
        self._answers, self._most = answers, most
        self._waiting: list[tuple[Question, asyncio.Future[Answer]]] = []
        self._thread = thread or ThreadPoolExecutor(1)
        self._work: asyncio.Task[None] | None = None

    async def __call__(self, question: Question) -> Answer:
        """The answer to a question; questions of requests that were given up meanwhile are not answered."""
        result = asyncio.get_running_loop().create_future()
        self._waiting.append((question, result))
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._until_none_waits())
        return await result

    async def _until_none_waits(self) -> None:
        loop = asyncio.get_running_loop()
        while wanted := [(question, result) for question, result in self._waiting if not result.done()]:
            batch, self._waiting = wanted[: self._most], wanted[self._most :]
            done = loop.run_in_executor(self._thread, self._answers, [question for question, _ in batch])
            (found,) = await asyncio.gather(done, return_exceptions=True)
            for place, (_, result) in enumerate(batch):
                if result.done():
                    continue
                if isinstance(found, BaseException):
                    result.set_exception(found)
                else:
                    result.set_result(found[place])
