"""Columns of text that take little memory: the names, identities and domains of the images of a large set."""

import heapq
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from typing import Any, SupportsIndex, overload

import numpy as np
from jaxtyping import Int, Int64, UInt8

from verisphere.base.identity import spellings
from verisphere.base.mapped import Growing
from verisphere.base.words import Names
from verisphere.files.json_values import shown

_AT_ONCE = 1 << 12  # rows that are converted to objects of Python at a time
_SORTED_AT_ONCE = 1 << 18

Positions = Sequence[int] | Int[np.ndarray, " taken"]


class Column(Sequence[str]):
    """A sequence of texts, made on request from arrays; equal to any sequence of the same texts."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of texts."""

    @abstractmethod
    def _texts(self, start: int, stop: int) -> list[str]:
        """The texts from `start` up to `stop`, which both lie in the column."""

    @abstractmethod
    def take(self, positions: Positions) -> "Column":
        """The column of the texts at these positions."""

    @overload
    def __getitem__(self, index: SupportsIndex) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(self.take(range(*index.indices(len(self)))))
        place = range(len(self))[index]
        return self._texts(place, place + 1)[0]

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _AT_ONCE):
            yield from self._texts(start, min(start + _AT_ONCE, len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        more = ", ..." if len(self) > 3 else ""
        return f"{type(self).__name__}({', '.join(map(repr, self[:3]))}{more}; {len(self):,} in all)"


class Numbers(Column):
    """Whole numbers as text.

    >>> Numbers(np.array([7, 12]))
    Numbers('7', '12'; 2 in all)
    """

    def __init__(self, numbers: Int[np.ndarray, " rows"]) -> None:
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def _texts(self, start: int, stop: int) -> list[str]:
        return list(map(str, self.numbers[start:stop].tolist()))

    def take(self, positions: Positions) -> "Numbers":
        """The column of the numbers at these positions."""
        return Numbers(self.numbers[np.asarray(positions, np.int64)])


class Letters(Column):
    """An array of NumPy's text, which is held unchanged.

    >>> Letters(np.array(["Ann/1.jpg", "Ben/1.jpg"])).take([1])
    Letters('Ben/1.jpg'; 1 in all)
    """

    def __init__(self, texts: np.ndarray) -> None:
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    def _texts(self, start: int, stop: int) -> list[str]:
        return self.texts[start:stop].tolist()

    def take(self, positions: Positions) -> "Letters":
        """The column of the texts at these positions."""
        return Letters(self.texts[np.asarray(positions, np.int64)])


class Texts(Column):
    """Texts, stored as one run of UTF-8 and the position at which each text ends.

    >>> names = Texts.of(["Ann/1.jpg", "Bé/1.jpg"])
    >>> names[1], names.take([1]) == ("Bé/1.jpg",)
    ('Bé/1.jpg', True)
    """

    def __init__(self, utf8: UInt8[np.ndarray, " bytes"], ends: Int64[np.ndarray, " rows"]) -> None:
        self.utf8, self.ends = utf8, ends

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Texts":
        """The column of these texts."""
        if isinstance(texts, Texts):
            return texts
        growing = GrowingTexts()
        for text in texts:
            growing.append(text)
        return growing.texts()

    def __len__(self) -> int:
        return len(self.ends)

    def _texts(self, start: int, stop: int) -> list[str]:
        ends = [int(self.ends[start - 1]) if start else 0, *self.ends[start:stop].tolist()]
        utf8 = self.utf8[ends[0] : ends[-1]].tobytes()
        return [utf8[begin - ends[0] : end - ends[0]].decode() for begin, end in pairwise(ends)]

    def take(self, positions: Positions) -> "Texts":
        """The column of the texts at these positions, copied byte by byte without an object for each."""
        taken = GrowingTexts()
        for begin in range(0, len(positions), _AT_ONCE):
            rows = np.asarray(positions[begin : begin + _AT_ONCE], np.int64)
            first = (rows == 0) | (rows == -len(self))
            starts = np.where(first, 0, self.ends[np.where(first, 0, rows - 1)])  # of these alone: a batch takes few
            sizes = self.ends[rows] - starts
            ends = np.cumsum(sizes)
            letters = np.repeat(starts - (ends - sizes), sizes) + np.arange(sizes.sum())
            taken.extend(Texts(self.utf8[letters], ends))
        return taken.texts()


class GrowingTexts:
    """Texts that are appended one after another."""

    def __init__(self) -> None:
        self.utf8, self.ends = Growing("B"), Growing("q")

    def __len__(self) -> int:
        return len(self.ends)

    def append(self, text: str) -> None:
        """Append a text."""
        self.utf8.extend(text.encode())
        self.ends.append(len(self.utf8))

    def extend(self, texts: Texts) -> None:
        """Append some texts."""
        self.ends.extend(len(self.utf8) + texts.ends)
        self.utf8.extend(texts.utf8)

    def texts(self) -> Texts:
        """The column of all texts; nothing is appended afterwards."""
        return Texts(self.utf8.array(), self.ends.array())


class Coded(Column):
    """Texts with many repetitions: `values` has each text once, and `codes` the position of each row's text in it.

    >>> people = Coded(("Ann", "Ben"), np.array([0, 0, 1]))
    >>> list(people), people.take([2, 0])
    (['Ann', 'Ann', 'Ben'], Coded('Ben', 'Ann'; 2 in all))
    """

    def __init__(self, values: Sequence[str], codes: Int[np.ndarray, " rows"]) -> None:
        self.values, self.codes = values, codes

    def __len__(self) -> int:
        return len(self.codes)

    def _texts(self, start: int, stop: int) -> list[str]:
        if stop - start == 1:
            return [self.values[int(self.codes[start])]]
        return list(take(self.values, self.codes[start:stop]))

    def take(self, positions: Positions) -> "Coded":
        """The column of the texts at these positions; `values` keeps texts that no row uses."""
        return Coded(self.values, self.codes[np.asarray(positions, np.int64)])

    def counts(self) -> Int64[np.ndarray, " values"]:
        """Number of rows of each value."""
        return np.bincount(self.codes, minlength=len(self.values))

    def present(self) -> Sequence[str]:
        """The values that occur in a row; a column taken from a longer one can have further values.

        >>> Coded(("Ann", "Ben"), np.array([1, 1])).present()
        ('Ben',)
        """
        return take(self.values, np.flatnonzero(self.counts()))

    def renamed(self, new: Mapping[str, str]) -> "Coded":
        """The column with new texts for some.

        >>> Coded(("Ann", "ann", "Ben"), np.array([0, 1, 2])).renamed({"ann": "Ann"}).codes.tolist()
        [0, 0, 1]
        """
        merged = coded(new.get(value, value) for value in self.values)
        return Coded(merged.values, merged.codes[self.codes])


def coded(texts: Iterable[str]) -> Coded:
    """Texts as a column of codes, with values in the order in which they appear.

    >>> list(coded(["b", "a", "b"]).values)
    ['b', 'a']
    """
    if isinstance(texts, Coded):
        return texts
    runs, hashes, lengths, codes = GrowingTexts(), Growing("q"), Growing("q"), Growing("q")
    for text, run in groupby(texts):  # a text often follows itself
        runs.append(text)
        hashes.append(hash(text))
        lengths.append(sum(1 for _ in run))
    values, code_of_run = _distinct(runs.texts(), hashes.array())
    lengths_of_runs = lengths.array()
    for begin in range(0, len(runs), _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        codes.extend(np.repeat(code_of_run[part], lengths_of_runs[part]))
    return Coded(values, codes.array())


def _distinct(texts: Texts, hashes: Int64[np.ndarray, " texts"]) -> tuple[Texts, Int64[np.ndarray, " texts"]]:
    """Each text once, in the order in which they appear, and the position of each among them."""
    _, first, number = np.unique(hashes, return_index=True, return_inverse=True)
    if len(first) == len(texts):
        return texts, np.arange(len(texts))
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    values, codes = texts.take(first[order]), place[number]
    if values.take(codes) == texts:
        return values, codes
    known: dict[str, int] = {}  # two texts have one hash
    codes = np.fromiter((known.setdefault(text, len(known)) for text in texts), np.int64)
    return Texts.of(known), codes


def sorted_positions(texts: Texts, key: Callable[[str], str]) -> Int64[np.ndarray, " texts"]:
    """The positions of texts in the order of a key; few of them are objects of Python at a time.

    >>> sorted_positions(Texts.of(["b", "c", "a"]), str).tolist()
    [2, 0, 1]
    """
    runs = []
    for begin in range(0, len(texts), _SORTED_AT_ONCE):
        keys = [key(text) for text in texts[begin : begin + _SORTED_AT_ONCE]]
        runs.append(begin + np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64))
    if len(runs) < 2:
        return np.concatenate([np.empty(0, np.int64), *runs])
    merged = heapq.merge(*(zip(map(key, texts.take(run)), run, strict=True) for run in runs))
    return np.fromiter((position for _, position in merged), np.int64, len(texts))


def spelled_once(identities: Sequence[str], names: Sequence[str], how: Names | None) -> Sequence[str]:
    """Identities in which each person has one spelling; see `verisphere.base.identity.spellings`.

    >>> spelled_once(("Ann", "ann", "Ann"), ("1.jpg", "2.jpg", "3.jpg"), "merge")
    Coded('Ann', 'Ann', 'Ann'; 3 in all)
    """
    return spelled_alike([identities], names, how)[0]


def spelled_alike(columns: Sequence[Sequence[str]], names: Sequence[str], how: Names | None) -> list[Sequence[str]]:
    """Columns, such as the identities and the true ones of the same images, in which each person has one spelling."""
    if all(isinstance(column, Numbers) for column in columns):
        return [*columns]  # no two numbers are one name
    of_codes = [coded(column) for column in columns]
    present = dict.fromkeys(chain.from_iterable(column.present() for column in of_codes))
    new = spellings(present, _Together(columns), lambda row: shown(names[row % len(names)], 200), how, columns)
    return [column.renamed(new) for column in of_codes] if new else [*columns]


@dataclass(frozen=True)
class _Together:
    """Columns one after the other."""

    columns: Sequence[Sequence[str]]

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self.columns)


def take(texts: Sequence[Any], positions: Positions) -> Sequence[Any]:
    """The texts, or bytes, at these positions: a column if `texts` is a `Column`, else a tuple."""
    if isinstance(texts, Column):
        return texts.take(positions)
    chosen: Any = positions.tolist() if isinstance(positions, np.ndarray) else positions
    return tuple(texts[position] for position in chosen)
