"""The recent rate of long work: the load of a machine changes, and the first step may take half a minute."""

from collections import deque

_WINDOW = 60.0  # seconds that count
_FEWEST = 3  # items that count, however long they take
_STEP = 0.5  # seconds between two records: a million quick items do not need a million records


class RecentRate:
    """Items per second over the last minute, or over the last three items if these took longer.

    Times are in seconds; `now` is the time at which the work begins.

    >>> recent = RecentRate(now=0.0)
    >>> for second in (1.0, 2.0, 3.0): recent.add(second)
    >>> recent.per_second(3.0), recent.seconds_left(6, 3.0)
    (1.0, 6.0)
    """

    def __init__(self, now: float) -> None:
        self.count = 0
        self._last = self._began = now
        self._marks = deque([(now, 0)])

    def add(self, now: float, items: int = 1) -> None:
        """Count items that are complete at this time."""
        self.count, self._last = self.count + items, now
        if now - self._marks[-1][0] >= _STEP:
            self._marks.append((now, self.count))
        while len(self._marks) > 1 and self._marks[1][0] <= now - _WINDOW and self.count - self._marks[1][1] >= _FEWEST:
            self._marks.popleft()

    def per_second(self, now: float) -> float | None:
        """The rate, which falls while an item takes longer than those before; None before the first item."""
        since, before = self._marks[0]
        items = self.count - before
        # The current item counts from the moment at which it takes longer than the mean of the items before.
        seconds = max(self._last - since, (now - since) * items / (items + 1))
        return items / seconds if seconds > 0 else None

    def seconds_left(self, items: int, now: float) -> float | None:
        """Seconds that this number of items takes at this rate, with the current item; None before the first item."""
        rate = self.per_second(now)
        if not rate or not items:
            return None if items else 0.0
        return (items - 1) / rate + max(1 / rate - (now - self._last), 0.0)

    def overall(self, now: float) -> float | None:
        """Items per second since the work began; None before the first item."""
        return self.count / (now - self._began) if self.count and now > self._began else None
