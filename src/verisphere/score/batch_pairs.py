"""All pairs of a batch with stored rows: exact answers to questions of order, in a few megabytes, many times a minute.

As over all pairs of a set (`all_pairs`) products of low precision screen, and what could matter is scored exactly. What
is different: the stored rows stay where and as they are, with gaps among them; rows of the batch form groups; and since
the same question comes every step, the last answer tells where to look (`Hints`), never what the answer is.
"""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64, Shaped
from torch import Tensor

from verisphere.distributed import ALONE, World, total
from verisphere.score.pairs import pair_scores, rough_error, rough_scores
from verisphere.score.screen import (
    Keys,
    Precision,
    Rounded,
    Screen,
    full_float32,
    product_type,
    products,
    rounded,
    rounded_known,
)
from verisphere.score.sweep import of_all
from verisphere.score.tiles import Patch, sift
from verisphere.score.windows import Window, gap, window_at, window_of

#: Label of a place where no row is stored.
EMPTY = -2
#: Label of a row whose person is none of the classes: against another of them nothing is known.
NO_CLASS = -1

ROWS = 1 << 10  # rows of a batch in a tile
KEYS = 9 << 19  # pairs of a tile of bfloat16 products: 9 MB
ROUGH = 1 << 12  # stored rows converted at once: 8 MB of 512 numbers
FEW = 1 << 9  # pairs gathered at once
LABELS = 1 << 16  # labels compared at once
MANY = 8  # pairs of one label are listed unless one of so many is such a pair
RUN = 16  # tiles looked through before windows are narrowed
SAMPLE = 1 << 20  # scores of a sample, where nothing tells where to look
SLACK = 0.02  # about how much a threshold may move from a step to the next, where nothing is known of it
FALL = 1.5, 0.08  # the same, and at least, in parts of the fall of score over which ranks grow e-fold


@dataclass(frozen=True, eq=False)
class Stored:
    """Rows that a batch is compared with, and whose they are.

    Attributes:
        rows: of length about 1, or anything where `labels` is `EMPTY`; bfloat16 or float32.
        labels: identity of each row, `NO_CLASS`, or `EMPTY`.
        longest: no row is longer. A unit row is longer than 1 by rounding only: less than 1.004 in bfloat16.
    """

    rows: Shaped[Tensor, "stored dim"]
    labels: Int64[Tensor, " labels"]
    longest: float = 1.005

    def __post_init__(self) -> None:
        if self.rows.dtype not in (torch.float32, torch.bfloat16):
            raise ValueError(f"stored rows are {self.rows.dtype}; allowed are float32 and bfloat16")
        if len(self.rows) != len(self.labels):
            raise ValueError(f"{len(self.rows)} stored rows came with {len(self.labels)} labels; each takes one")

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(eq=False)
class Hints:
    """Where the answers lay the last time, and how far they move; whatever it says, answers are exact.

    Attributes:
        found: for groups and a number that names the question: the last answer, and how much it may move.
        passes: over the stored rows, in all: more than one a step tells of hints that led astray.
    """

    found: dict[tuple[tuple[int, ...], str], tuple[float, float]] = field(default_factory=dict)
    passes: int = 0

    def stretch(self, groups: tuple[int, ...], question: str) -> tuple[float, float] | None:
        """Where to look, if anything is known."""
        known = self.found.get((groups, question))
        return None if known is None else (known[0] - known[1], known[0] + known[1])

    def learn(self, groups: tuple[int, ...], question: str, answer: float, fall: float = SLACK) -> None:
        """Take an answer in.

        Args:
            groups: that were asked about.
            question: its name.
            answer: a score; one that is not finite tells nothing.
            fall: of score, near the answer, over which ranks grow e-fold.
        """
        before = self.found.pop((groups, question), None)
        if not math.isfinite(answer):
            return
        first, least = (share * fall for share in FALL)
        slack = min(SLACK, first)
        if before is not None and math.isfinite(before[0]):
            slack = max(3 * abs(answer - before[0]), min(0.7 * before[1], slack), least)
        self.found[groups, question] = answer, slack


class BatchPairs:
    """All pairs of a batch's rows with stored rows, those of one identity left out."""

    def __init__(
        self,
        units: Float32[Tensor, "batch dim"],
        labels: Int64[Tensor, " labels"],
        stored: Stored,
        groups: Int64[Tensor, " groups"] | None = None,
        *,
        hints: Hints | None = None,
        precision: Precision | None = None,
        world: World = ALONE,
        keys: int | None = None,
    ) -> None:
        """Take the rows; pairs are compared when something is asked.

        Args:
            units: the batch's rows of length 1.
            labels: identity of each, or `NO_CLASS`.
            stored: rows that they are compared with; of several processes each has its own part of them.
            groups: number of each row's group, from 0; all are of group 0 without.
            hints: where to look first; it learns from the answers.
            precision: of the products that screen; changes speed, never an answer. The fastest one without.
            world: processes that each have a part of the stored rows and the same batch; all must ask the same
                questions, and get the same answers.
            keys: how many pairs a tile has at most; changes speed and memory. What keeps to 64 MB without.

        Raises:
            ValueError: counts that disagree.
        """
        if len(units) != len(labels) or (groups is not None and len(groups) != len(labels)):
            found = f"{len(labels)} labels" + ("" if groups is None else f" and {len(groups)} groups")
            raise ValueError(f"{len(units)} rows came with {found}; each takes one")
        groups = torch.zeros_like(labels) if groups is None else groups
        self.group_count = int(groups.max()) + 1 if len(groups) else 1
        order = groups.argsort(stable=True)
        self.units, self.labels = units[order].contiguous(), labels[order]
        self.groups = groups[order].cpu().numpy()
        self.stored, self.world, self.hints = stored, world, Hints() if hints is None else hints
        self._met = _met(self.labels, stored.labels)
        self.precision = precision or fastest(units.device.type, units.shape[1], stored.rows.dtype)
        self.keys = _tile(self.precision, stored.rows.dtype) if keys is None else keys
        self.totals = self._totals()
        self._windows: list[Window] = []
        self._tiles: _BatchTiles | None = None
        self._sampled: dict[int, np.ndarray] | None = None

    def scores(self, groups: Iterable[int] | None = None) -> "BatchScores":
        """The impostor scores of some groups' rows together, of all without, as something that answers of order."""
        chosen = range(self.group_count) if groups is None else groups
        return BatchScores(self, frozenset(chosen))

    def settle(self, asked: Sequence[tuple["BatchScores", int, str]]) -> None:
        """Find what these ranks need, by one pass over the stored rows if the hints are good.

        Args:
            asked: scores, a rank in them (1 is the largest), and a name by which the hints know the question. What
                ranks beyond their number need is nothing.
        """
        tries: dict[tuple[tuple[int, ...], int], int] = {}
        wanted = {
            (tuple(sorted(scores.groups)), rank): question
            for scores, rank, question in asked
            if 1 <= rank <= scores.total
        }
        while True:
            missing = [one for one in wanted if window_of(self._windows, one[1], frozenset(one[0])) is None]
            if not missing:
                break
            self._fill([self._window(groups, rank, wanted[groups, rank], tries) for groups, rank in missing])
        for (groups, rank), question in wanted.items():
            window = window_of(self._windows, rank, frozenset(groups))
            assert window is not None
            self.hints.learn(groups, question, *_answer(window, rank, frozenset(groups)))

    def count(self, threshold: float, groups: frozenset[int]) -> int:
        """How many scores of some groups are greater than a threshold."""
        threshold += 0.0
        window = window_at(self._windows, threshold, groups)
        if window is None:
            self._fill([Window(threshold, threshold, tuple(sorted(groups)))])
            window = window_at(self._windows, threshold, groups)
        assert window is not None
        return window.count_above(threshold, groups)

    def ranked(self, rank: int, groups: frozenset[int]) -> float:
        """The rank-th largest score of some groups together."""
        if window_of(self._windows, rank, groups) is None:
            self.settle([(BatchScores(self, groups), rank, str(rank))])
        window = window_of(self._windows, rank, groups)
        assert window is not None
        return window.ranked(rank, groups)

    def _totals(self) -> list[int]:
        """Impostor pairs of each group, of all processes."""
        impostors = len(self._met.places) - self._met.alike()
        pairs = np.bincount(self.groups, impostors, self.group_count).astype(np.int64)  # float64 counts to 2^53
        counted = torch.from_numpy(pairs).to(self.units.device)
        return (total(counted) if self.world.size > 1 else counted).tolist()

    def _window(
        self, groups: tuple[int, ...], rank: int, question: str, tries: dict[tuple[tuple[int, ...], int], int]
    ) -> Window:
        """Where to look for a rank: where it was the last time, then where a sample says, then wherever it can be."""
        low, high = gap(self._windows, rank, frozenset(groups))
        tried = tries.get((groups, rank), 0)
        hinted = self.hints.stretch(groups, question)
        if hinted is None and not tried:
            tried = 1
        if tried < 2:
            expected = hinted if not tried and hinted is not None else self._sample_says(rank, groups)
            if max(low, expected[0]) <= min(high, expected[1]):
                low, high = max(low, expected[0]), min(high, expected[1])
        tries[groups, rank] = tried + 1
        # tiles count genuine pairs, too; they are few, or spread evenly
        return Window(
            low, high, groups, (rank,), max(sum(self.totals[group] for group in groups), 1), 8.0 ** max(tried - 1, 0)
        )

    def _sample_says(self, rank: int, groups: tuple[int, ...]) -> tuple[float, float]:
        """Scores between which a sample of the pairs expects the rank."""
        if self._sampled is None:
            self._sampled = self._sample()
        score = np.concatenate([self._sampled[group] for group in groups])
        everything = sum(self.totals[group] for group in groups)
        if not len(score) or not everything:
            return -math.inf, math.inf
        score.sort()
        score, each = score[::-1], everything / len(score)  # descending
        # the sample's pairs share rows: half more or less than the rank, and what chance does to a few
        margin = each * (8 + 6 * math.sqrt(rank / each)) + rank / 2
        first, last = math.floor((rank - margin) / each), math.ceil((rank + margin) / each)
        return (-math.inf if last >= len(score) else float(score[last])), (
            math.inf if first < 1 else float(score[first - 1])
        )

    def _sample(self) -> dict[int, np.ndarray]:
        """Impostor scores of the batch with some of the stored rows, of all processes, by group; to within rounding."""
        used = (self.stored.labels != EMPTY).nonzero()[:, 0]
        most = max(SAMPLE // max(len(self.units), 1) // self.world.size, 1)
        some = used[:: max(len(used) // most, 1)]
        rows = self.stored.rows.index_select(0, some).to(self.units)
        with full_float32():
            product = self.units @ rows.T
        apart = self.labels[:, None] != self.stored.labels.index_select(0, some)[None, :].to(self.labels.device)
        found = {}
        for group in range(self.group_count):
            mine = torch.from_numpy(self.groups == group).to(product.device)
            scores = product[mine][apart[mine]].cpu().numpy()
            found[group] = np.concatenate(of_all(scores)) if self.world.size > 1 else scores
        return found

    def _fill(self, windows: Sequence[Window]) -> None:
        """Fill windows by one pass over the stored rows, of which every process goes through its own."""
        tiles, wanted = self._ready(), list(windows)
        self.hints.passes += 1
        for start in range(0, len(tiles), RUN):
            stretches = [window.stretch for window in wanted]
            numbers = range(start, min(start + RUN, len(tiles)))
            for window, stretch, found in zip(wanted, stretches, sift(tiles, numbers, stretches), strict=True):
                window.add(found, stretch)
                window.narrow()
        if self.world.size > 1:
            wanted = [one for one in (window.joined(of_all) for window in wanted) if one is not None]
        for window in wanted:
            window.finish()
        self._windows += wanted

    def _ready(self) -> "_BatchTiles":
        if self._tiles is None:
            self._tiles = _BatchTiles(
                self.units, self.labels, self.groups, self.stored, self._met, self.precision, self.keys
            )
        return self._tiles


def _answer(window: Window, rank: int, groups: frozenset[int]) -> tuple[float, float]:
    """The score of a rank, and how much scores fall there while ranks grow e-fold, as far as the window tells."""
    above, inside = window.around(groups)
    score, further = window.ranked(rank, groups), min(rank + rank // 2 + 8, above + inside)
    fall = score - window.ranked(further, groups)
    return score, fall / math.log(further / rank) if fall else SLACK


class BatchScores:
    """Impostor scores of some groups of `BatchPairs`, which answer questions of order."""

    def __init__(self, pairs: BatchPairs, groups: frozenset[int]) -> None:
        self.pairs, self.groups = pairs, groups

    @property
    def total(self) -> int:
        """How many scores there are."""
        return sum(self.pairs.totals[group] for group in self.groups)

    def ranked(self, rank: int) -> float:
        """The rank-th largest score."""
        assert 1 <= rank <= self.total, (rank, self.total)
        return self.pairs.ranked(rank, self.groups)

    def above(self, threshold: float) -> int:
        """How many scores are strictly greater than the threshold."""
        if math.isinf(threshold) or not self.total:
            return self.total if threshold < 0 else 0
        return self.pairs.count(threshold, self.groups)


def same_label(
    batch: Int64[Tensor, " batch"], stored: Int64[Tensor, " stored"]
) -> tuple[Int64[Tensor, " pairs"], Int64[Tensor, " pairs"]]:
    """Rows of all pairs of one identity, by stored row and then by row of the batch; of `NO_CLASS` there are none."""
    order = batch.argsort(stable=True)
    ordered = batch[order]
    stored = stored.to(batch.device)
    first = torch.searchsorted(ordered, stored)
    near = ordered[first.clamp(max=len(ordered) - 1)] if len(ordered) else torch.full_like(stored, EMPTY)
    right = ((near == stored) & (stored >= 0)).nonzero()[:, 0]
    start = first[right]
    count = torch.searchsorted(ordered, stored[right], right=True) - start
    place = torch.arange(int(count.sum()), device=batch.device) - (count.cumsum(0) - count).repeat_interleave(count)
    return order[start.repeat_interleave(count) + place], right.repeat_interleave(count)


@dataclass(frozen=True, eq=False)
class _Met:
    """Which stored rows there are, and which pairs of theirs are no impostor pairs: those with one label.

    Two rows of `NO_CLASS` have one as well: nobody knows whether they are of one person.

    Attributes:
        places: of stored rows that are not `EMPTY`, ascending; their numbers in this list stand for them.
        right: numbers of those whose label a row of the batch has, ascending.
        label: number of that label, among the distinct ones of the batch.
        order: rows of the batch by label.
        count: how many of them have each label.
        start: where in `order` those begin.
    """

    places: Int64[np.ndarray, " filled"]
    right: Int64[np.ndarray, " met"]
    label: Int64[np.ndarray, " met"]
    order: Int64[np.ndarray, " batch"]
    count: Int64[np.ndarray, " labels"]
    start: Int64[np.ndarray, " labels"]

    def alike(self) -> Int64[np.ndarray, " batch"]:
        """How many stored rows have the label of each row of the batch."""
        found = np.empty_like(self.order)
        found[self.order] = np.bincount(self.label, minlength=len(self.count)).repeat(self.count)
        return found

    def listed(
        self, first: int, last: int, rows: range
    ) -> tuple[Int64[np.ndarray, " pairs"], Int64[np.ndarray, " pairs"]]:
        """Pairs with one label of some rows of the batch with the stored ones from `first` to before `last`.

        Both are counted from the first one.
        """
        some = slice(*np.searchsorted(self.right, [first, last]).tolist())
        count, start = self.count[self.label[some]], self.start[self.label[some]]
        place = np.arange(count.sum()) - (count.cumsum() - count).repeat(count)
        left, right = self.order[start.repeat(count) + place] - rows.start, self.right[some].repeat(count) - first
        inside = (left >= 0) & (left < len(rows))
        return left[inside], right[inside]

    def many(self, first: int, last: int) -> int:
        """At most so many pairs are listed."""
        some = slice(*np.searchsorted(self.right, [first, last]).tolist())
        return int(self.count[self.label[some]].sum())


def _met(batch: Int64[Tensor, " batch"], stored: Int64[Tensor, " stored"]) -> _Met:
    """What the labels of a batch and of stored rows have in common."""
    distinct, which, count = batch.unique(return_inverse=True, return_counts=True)
    places = (stored != EMPTY).nonzero()[:, 0]
    label, right = [distinct[:0]], [distinct[:0]]
    for start in range(0, len(places), LABELS):
        labels = stored.index_select(0, places[start : start + LABELS]).to(batch.device)
        number = torch.searchsorted(distinct, labels)
        met = (number < len(distinct)).nonzero()[:, 0]
        met = met[distinct[number[met]] == labels[met]]
        label.append(number[met])
        right.append(met + start)
    first = count.cumsum(0) - count
    parts = places, torch.cat(right), torch.cat(label), which.argsort(stable=True), count, first
    return _Met(*(tensor.cpu().numpy() for tensor in parts))


def _tile(precision: Precision, stored: torch.dtype) -> int:
    """How many pairs a tile has: fewer where products take more room, or stored rows are copied for them."""
    if precision != "bfloat16":
        return KEYS // 4
    return KEYS if stored == torch.bfloat16 else KEYS // 2


class _BatchTiles:
    """The pairs in tiles: some rows of the batch, in the order of their groups, by a run of stored rows."""

    def __init__(
        self,
        units: Float32[Tensor, "batch dim"],
        labels: Int64[Tensor, " batch"],
        groups: Int64[np.ndarray, " batch"],
        stored: Stored,
        met: _Met,
        precision: Precision,
        keys: int,
    ) -> None:
        self.units, self.labels, self.groups, self.stored, self.met = units, labels, groups, stored, met
        self.precision = precision
        blocks = [range(start, min(start + ROWS, len(units))) for start in range(0, len(units), ROWS)]
        self.left = {rows: rounded(units[rows.start : rows.stop], precision, rows.start) for rows in blocks}
        self.columns = max(keys // max(min(len(units), ROWS), 1), 64)
        starts = range(0, len(met.places), self.columns)
        corners = [(rows, column) for rows in blocks for column in starts]
        # a fixed shuffle: what the first tiles say then foretells the rest, whatever order rows were stored in
        self.corners = [corners[number] for number in np.random.default_rng(1).permutation(len(corners))]
        self._room: Tensor | None = None  # of products
        self._copy: Tensor | None = None  # of stored rows, rounded
        self._tried = False
        self._unit: float | None = None

    def __len__(self) -> int:
        return len(self.corners)

    @property
    def rough_error(self) -> float:
        """The most that a score of `rough` is off; rows are a little longer than 1."""
        return rough_error(self.units.shape[1]) * 1.01 * self.stored.longest

    def screen(self, number: int) -> Screen:
        """What the keys of a tile mean."""
        rows, first = self.corners[number]
        left, right = self.left[rows], self._rounded(first)
        if self._room is None:  # for the largest tile: what numpy has looked at can no longer grow
            size = min(len(self.units), ROWS) * self.columns
            self._room = left.rows.new_empty(size, dtype=product_type(left.rows.dtype))
        screen = Screen(left, right, room=self._room, tried=self._tried)
        self._tried = True
        return screen

    def _rounded(self, first: int) -> Rounded:
        rows = self._rows(self.met.places[first : first + self.columns]).to(self.units.device, non_blocking=True)
        if self.precision == "int8" and self._unit is None:
            peak = float(rows.float().abs().max())
            self._unit = 0.94 * peak / 127 if peak else 1.0
        if self.precision == "bfloat16" and rows.dtype != torch.bfloat16 and self._copy is None:
            self._copy = rows.new_empty(self.columns, rows.shape[1], dtype=torch.bfloat16)
        return rounded_known(rows, self.stored.longest, self.precision, self._unit, self._copy)

    def _rows(self, places: Int64[np.ndarray, " some"]) -> Shaped[Tensor, "some dim"]:
        """Stored rows at these places, where they lie, or copied if there are gaps between them."""
        if not len(places):
            return self.stored.rows[:0]
        first, last = int(places[0]), int(places[-1])
        if last - first + 1 == len(places):
            return self.stored.rows[first : last + 1]
        return self.stored.rows.index_select(0, torch.from_numpy(places).to(self.stored.rows.device))

    def patches(self, number: int, screen: Screen, positive: bool = False) -> Iterator[Patch]:
        """The impostor pairs of one tile, by group."""
        rows, first = self.corners[number]
        keys, fine = screen.keys(slice(None), slice(None), positive), screen.fine(positive)
        last = first + keys.shape[1]
        self._leave_out(keys, rows, first, last)
        groups = self.groups[rows.start : rows.stop]
        for group in np.unique(groups).tolist():
            r0, r1 = np.searchsorted(groups, [group, group + 1]).tolist()
            yield Patch(group, keys[r0:r1], rows.start + r0, first, (r1 - r0) * (last - first), fine)

    def _leave_out(self, keys: Keys, rows: range, first: int, last: int) -> None:
        """Mark what is no impostor pair."""
        if self.met.many(first, last) <= keys.numel() // MANY:
            left, right = self.met.listed(first, last, rows)
            keys.view(-1)[torch.from_numpy(left * keys.shape[1] + right).to(keys.device)] = 0
            return
        places = torch.from_numpy(self.met.places[first:last])
        labels = self.stored.labels.index_select(0, places.to(self.stored.labels.device)).to(keys.device)
        keys.masked_fill_(self.labels[rows.start : rows.stop, None] == labels, 0)

    def score(self, left: Int64[Tensor, " pairs"], right: Int64[Tensor, " pairs"]) -> Float64[Tensor, " pairs"]:
        """Exact scores of pairs of rows."""
        places = self._places(right)
        if self.stored.rows.device == self.units.device:
            return pair_scores(self.units, left, places, self.stored.rows)
        places, again = places.unique(return_inverse=True)
        some = self.stored.rows.index_select(0, places).to(self.units.device)
        return pair_scores(self.units, left, again.to(left.device), some)

    def rough(self, left: Int64[Tensor, " pairs"], right: Int64[Tensor, " pairs"]) -> Float32[Tensor, " pairs"]:
        """Scores in float32 of pairs of rows of one tile, the left ones ascending."""
        if not len(left):
            return self.units.new_empty(0)
        lowest, highest = (int(end) for end in right.aminmax())
        scores = self.units.new_empty(len(left))
        if len(left) <= highest - lowest:  # so few that only their rows are worth a conversion
            for part, a, b in zip(scores.split(FEW), left.split(FEW), self._places(right).split(FEW), strict=True):
                some = self.stored.rows.index_select(0, b).to(self.units)
                torch.sum(self.units.index_select(0, a).mul_(some), 1, out=part)
            return scores
        for first in range(lowest, highest + 1, ROUGH):
            rows = self._rows(self.met.places[first : min(first + ROUGH, highest + 1)]).to(self.units)
            some = ((right >= first) & (right < first + ROUGH)).nonzero()[:, 0]
            scores[some] = rough_scores(self.units, left[some], right[some] - first, rows)
        return scores

    def _places(self, right: Int64[Tensor, " pairs"]) -> Int64[Tensor, " pairs"]:
        """Where the rows of these numbers are stored."""
        if len(self.met.places) == len(self.stored):
            return right.to(self.stored.rows.device)
        return torch.from_numpy(self.met.places[right.cpu().numpy()]).to(self.stored.rows.device)


@cache
def fastest(device: str, dim: int, stored: torch.dtype) -> Precision:
    """The type whose products, with the rounding of stored rows to it, take this machine the least time.

    int8 is left out: rounding the stored rows each time costs most of what its products gain, and 200 MB.
    """
    if device != "cpu":
        return "bfloat16"
    rows = torch.nn.functional.normalize(torch.randn(4096, dim, generator=torch.Generator().manual_seed(0)), dim=1)
    units, rows = rows[:256].contiguous(), rows.to(stored)
    kinds: tuple[Precision, ...] = "bfloat16", "float32"

    def seconds(precision: Precision) -> float:
        left, room = rounded(units, precision), torch.empty(0, dtype=product_type(getattr(torch, precision)))

        def once() -> float:
            before = time.perf_counter()
            products(left.rows, rounded_known(rows, 1.005, precision, 1 / 127).rows, room)
            return time.perf_counter() - before

        return min(once() for _ in range(3))

    return min(kinds, key=seconds)
