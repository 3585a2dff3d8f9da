"""All pairs of a batch with stored rows: exact answers to questions of order, in a few megabytes, many times a minute.

As for all pairs of a set (`all_pairs`), products of low precision screen, and pairs that could matter are scored
exactly. Three things differ: the stored rows stay in place, with gaps among them; the rows of the batch form groups;
and since the same question is asked every step, the last answer says where to look (`Hints`). No answer depends on it.
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

from verisphere.base.collectives import total
from verisphere.base.device import full_float32
from verisphere.base.distributed import ALONE, World
from verisphere.base.vocabulary import Precision
from verisphere.base.work import gathered_arrays, ranges
from verisphere.score.exact.screen import (
    Keys,
    Rounded,
    Screen,
    exact_int8,
    product_type,
    products,
    rounded,
    rounded_known,
)
from verisphere.score.exact.tiles import Patch, scan_tiles
from verisphere.score.exact.windows import Window, gap, window_at, window_of
from verisphere.score.pairs import pair_scores, rough_error, rough_scores
from verisphere.score.stored import EMPTY, SharedLabels, Stored, shared_labels

TILE_ROWS = 1 << 10  # rows of a batch in a tile
#: Pairs of a tile: on a CPU its bfloat16 products take 9 MB; a GPU is given enough work for the host to keep up.
TILE_PAIRS = {"cpu": 9 << 19, "cuda": 1 << 26}
ROWS_CONVERTED = 1 << 12  # stored rows converted at once: 8 MB of 512 numbers
GATHERED_PAIRS = {"cpu": 1 << 9, "cuda": 1 << 16}  # pairs gathered at once
LISTED_ONE_IN = 8  # pairs of one label are listed unless one of so many is such a pair


def tile_size(precision: Precision, stored: torch.dtype, device: str) -> int:
    """How many pairs a tile has: on a CPU fewer where products take more room, or stored rows are copied for them."""
    most = TILE_PAIRS[device]
    if device != "cpu" or (precision == "bfloat16" and stored == torch.bfloat16):
        return most
    return most // (2 if precision == "bfloat16" else 4)


class BatchTiles:
    """The pairs in tiles: some rows of the batch, in the order of their groups, by a run of stored rows."""

    def __init__(
        self,
        units: Float32[Tensor, "batch dim"],
        labels: Int64[Tensor, " batch"],
        groups: Int64[np.ndarray, " batch"],
        stored: Stored,
        met: SharedLabels,
        precision: Precision,
        keys: int,
    ) -> None:
        self.units, self.labels, self.groups, self.stored, self.shared = units, labels, groups, stored, met
        self.precision = precision
        blocks = ranges(len(units), TILE_ROWS)
        self.left = {rows: rounded(units[rows.start : rows.stop], precision, rows.start) for rows in blocks}
        self.columns = max(keys // max(min(len(units), TILE_ROWS), 1), 64)
        starts = range(0, len(met.places), self.columns)
        corners = [(rows, column) for rows in blocks for column in starts]
        # a fixed shuffle: the first tiles then predict the rest, in whatever order rows were stored
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
        if self._room is None:  # for the largest tile: memory that numpy has viewed cannot be resized
            size = min(len(self.units), TILE_ROWS) * self.columns
            self._room = left.rows.new_empty(size, dtype=product_type(left.rows.dtype))
        screen = Screen(left, right, room=self._room, tried=self._tried)
        self._tried = True
        return screen

    def _rounded(self, first: int) -> Rounded:
        rows = self._rows(self.shared.places[first : first + self.columns]).to(self.units.device, non_blocking=True)
        if self.precision == "int8" and self._unit is None:
            peak = float(rows.float().abs().max())
            self._unit = 0.94 * peak / 127 if peak else 1.0
        if self.precision == "bfloat16" and rows.dtype != torch.bfloat16 and self._copy is None:
            self._copy = rows.new_empty(self.columns, rows.shape[1], dtype=torch.bfloat16)
        return rounded_known(rows, self.stored.longest, self.precision, self._unit, self._copy)

    def _rows(self, places: Int64[np.ndarray, " some"]) -> Shaped[Tensor, "some dim"]:
        """Stored rows at these places: a view, or a copy if there are gaps between them."""
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
        """Mark the pairs that are no impostor pairs."""
        if self.shared.many(first, last) <= keys.numel() // LISTED_ONE_IN:
            left, right = self.shared.listed(first, last, rows)
            keys.view(-1)[torch.from_numpy(left * keys.shape[1] + right).to(keys.device)] = 0
            return
        places = torch.from_numpy(self.shared.places[first:last])
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
        device = self.units.device.type
        if device != "cpu" or len(left) <= highest - lowest:  # so few pairs that only their own rows are converted
            at_once = GATHERED_PAIRS[device]
            pairs = scores.split(at_once), left.split(at_once), self._places(right).split(at_once)
            for part, a, b in zip(*pairs, strict=True):
                some = self.stored.rows.index_select(0, b).to(self.units)
                torch.sum(self.units.index_select(0, a).mul_(some), 1, out=part)
            return scores
        for first in range(lowest, highest + 1, ROWS_CONVERTED):
            rows = self._rows(self.shared.places[first : min(first + ROWS_CONVERTED, highest + 1)]).to(self.units)
            some = ((right >= first) & (right < first + ROWS_CONVERTED)).nonzero()[:, 0]
            scores[some] = rough_scores(self.units, left[some], right[some] - first, rows)
        return scores

    def _places(self, right: Int64[Tensor, " pairs"]) -> Int64[Tensor, " pairs"]:
        """Where the rows of these numbers are stored."""
        if len(self.shared.places) == len(self.stored):
            return right.to(self.stored.rows.device)
        return torch.from_numpy(self.shared.places[right.cpu().numpy()]).to(self.stored.rows.device)


@cache
def fastest(device: str, dim: int, stored: torch.dtype | None) -> Precision:
    """The type whose products, with the rounding of stored rows to it, take this machine the least time.

    int8 is offered for rows that are rounded once and kept (`stored` is None), where its products are exact: rounding
    stored rows each time costs most of what its products gain, and 200 MB.
    """
    if device != "cpu":
        return "bfloat16"
    rows = torch.nn.functional.normalize(torch.randn(4096, dim, generator=torch.Generator().manual_seed(0)), dim=1)
    units, rows = rows[:256].contiguous(), rows.to(stored or torch.float32)
    kinds: tuple[Precision, ...] = "bfloat16", "float32"
    if stored is None and exact_int8(dim):
        kinds = "int8", *kinds

    def seconds(precision: Precision) -> float:
        left, kept = (rounded_known(some, 1.005, precision, 1 / 127) for some in (units, rows))
        room = products(left.rows, kept.rows)

        def once() -> float:
            before = time.perf_counter()
            right = rounded_known(rows, 1.005, precision, 1 / 127) if stored else kept
            products(left.rows, right.rows, room)
            return time.perf_counter() - before

        return min(once() for _ in range(3))

    return min(kinds, key=seconds)


TILES_BEFORE_NARROWING = 16  # tiles scanned before windows are narrowed
SAMPLED_SCORES = 1 << 20  # scores of a sample, where no hint says where to look
THRESHOLD_MOVE = 0.02  # how far a threshold is expected to move between steps, where no move was seen yet
MOVE_BY_FALL = 1.5, 0.08  # the same, and its lower limit, as shares of the fall of score over which ranks grow e-fold


@dataclass(eq=False)
class Hints:
    """The last answers and how far they move between steps; answers are exact whatever the hints say.

    More than one pass a step over the stored rows shows that hints were wrong.
    """

    known: dict[tuple[tuple[int, ...], str], tuple[float, float]] = field(default_factory=dict)
    passes: int = 0

    def stretch(self, groups: tuple[int, ...], question: str) -> tuple[float, float] | None:
        """Where to look; None without an earlier answer."""
        last = self.known.get((groups, question))
        return None if last is None else (last[0] - last[1], last[0] + last[1])

    def learn(self, groups: tuple[int, ...], question: str, answer: float, fall: float = THRESHOLD_MOVE) -> None:
        """Record an answer.

        An answer that is not finite removes the hint; `fall` is the fall of score, near the answer, over which ranks
        grow e-fold.
        """
        before = self.known.pop((groups, question), None)
        if not math.isfinite(answer):
            return
        first, least = (share * fall for share in MOVE_BY_FALL)
        slack = min(THRESHOLD_MOVE, first)
        if before is not None and math.isfinite(before[0]):
            slack = max(3 * abs(answer - before[0]), min(0.7 * before[1], slack), least)
        self.known[groups, question] = answer, slack


class BatchPairs:
    """All pairs of a batch's rows with stored rows, except pairs of one identity."""

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
        """Order the rows; pairs are compared when a question is asked.

        `units` have length 1; a label may be `NO_CLASS`, and without `groups` all rows are in group 0. The search
        begins at `hints`, which are updated with the answers. The ranks of `world` each hold a shard of the stored rows
        and the same batch; all must ask the same questions, and get the same answers. Neither `precision`, the type of
        the products that screen (None chooses the fastest), nor `keys`, most pairs of a tile, changes an answer;
        without `keys` a tile stays within 64 MB on a CPU, and takes up to 1 GB on a GPU.
        """
        if len(units) != len(labels) or (groups is not None and len(groups) != len(labels)):
            given = f"{len(labels)} labels" + ("" if groups is None else f" and {len(groups)} groups")
            raise ValueError(f"{len(units)} rows came with {given}; each takes one")
        groups = torch.zeros_like(labels) if groups is None else groups
        self.group_count = int(groups.max()) + 1 if len(groups) else 1
        order = groups.argsort(stable=True)
        self.units, self.labels = units[order].contiguous(), labels[order]
        self.groups = groups[order].cpu().numpy()
        self.stored, self.world, self.hints = stored, world, Hints() if hints is None else hints
        self._shared = shared_labels(self.labels, stored.labels)
        self.precision = precision or fastest(units.device.type, units.shape[1], stored.rows.dtype)
        self.keys = tile_size(self.precision, stored.rows.dtype, units.device.type) if keys is None else keys
        self.totals = self._totals()
        self._windows: list[Window] = []
        self._tiles: BatchTiles | None = None
        self._sampled: dict[int, np.ndarray] | None = None

    def scores(self, groups: Iterable[int] | None = None) -> "BatchScores":
        """The impostor scores of some groups together, None of all, which answer questions of order."""
        chosen = range(self.group_count) if groups is None else groups
        return BatchScores(self, frozenset(chosen))

    def settle(self, asked: Sequence[tuple["BatchScores", int, str]]) -> None:
        """Find the scores at these ranks, by one pass over the stored rows if the hints are right.

        A question is some scores, a rank among them (1 is the largest), and its name in the hints.
        """
        tries: dict[tuple[tuple[int, ...], int], int] = {}
        wanted = {
            (tuple(sorted(scores.groups)), rank): question
            for scores, rank, question in asked
            if 1 <= rank <= scores.total
        }
        while True:
            missing = [key for key in wanted if window_of(self._windows, key[1], frozenset(key[0])) is None]
            if not missing:
                break
            self._fill([self._window(groups, rank, wanted[groups, rank], tries) for groups, rank in missing])
        for (groups, rank), question in wanted.items():
            window = window_of(self._windows, rank, frozenset(groups))
            assert window is not None
            self.hints.learn(groups, question, *_answer(window, rank, frozenset(groups)))

    def count(self, threshold: float, groups: frozenset[int]) -> int:
        """Number of scores of some groups greater than a threshold."""
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
        """Number of impostor pairs of each group, over all ranks."""
        impostors = len(self._shared.places) - self._shared.alike()
        pairs = np.bincount(self.groups, impostors, self.group_count).astype(np.int64)  # float64 counts to 2^53
        counted = torch.from_numpy(pairs).to(self.units.device)
        return (total(counted) if self.world.size > 1 else counted).tolist()

    def _window(
        self, groups: tuple[int, ...], rank: int, question: str, tries: dict[tuple[tuple[int, ...], int], int]
    ) -> Window:
        """Where to look for a rank: at the last answer, then where a sample predicts it, then in the whole gap."""
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
        # tiles also count genuine pairs, which are few, or evenly spread
        return Window(
            low, high, groups, (rank,), max(sum(self.totals[group] for group in groups), 1), 8.0 ** max(tried - 1, 0)
        )

    def _sample_says(self, rank: int, groups: tuple[int, ...]) -> tuple[float, float]:
        """Scores between which a sample of the pairs predicts the rank."""
        if self._sampled is None:
            self._sampled = self._sample()
        score = np.concatenate([self._sampled[group] for group in groups])
        pairs = sum(self.totals[group] for group in groups)
        if not len(score) or not pairs:
            return -math.inf, math.inf
        score.sort()
        score, weight = score[::-1], pairs / len(score)  # descending
        # the sample's pairs share rows: half of the rank on either side, and the chance variation of few pairs
        margin = weight * (8 + 6 * math.sqrt(rank / weight)) + rank / 2
        first, last = math.floor((rank - margin) / weight), math.ceil((rank + margin) / weight)
        return (-math.inf if last >= len(score) else float(score[last])), (
            math.inf if first < 1 else float(score[first - 1])
        )

    def _sample(self) -> dict[int, np.ndarray]:
        """Impostor scores of the batch with some stored rows of all ranks, by group, in float32."""
        used = (self.stored.labels != EMPTY).nonzero()[:, 0]
        most = max(SAMPLED_SCORES // max(len(self.units), 1) // self.world.size, 1)
        sampled = used[:: max(len(used) // most, 1)]
        rows = self.stored.rows.index_select(0, sampled).to(self.units)
        with full_float32():
            product = self.units @ rows.T
        apart = self.labels[:, None] != self.stored.labels.index_select(0, sampled)[None, :].to(self.labels.device)
        by_group = {}
        for group in range(self.group_count):
            mine = torch.from_numpy(self.groups == group).to(product.device)
            scores = product[mine][apart[mine]].cpu().numpy()
            by_group[group] = np.concatenate(gathered_arrays(scores)) if self.world.size > 1 else scores
        return by_group

    def _fill(self, windows: Sequence[Window]) -> None:
        """Fill windows by one pass over the stored rows; each rank scans its own shard."""
        tiles, wanted = self._ready(), list(windows)
        self.hints.passes += 1
        for numbers in ranges(len(tiles), TILES_BEFORE_NARROWING):
            stretches = [window.stretch for window in wanted]
            for window, stretch, part in zip(wanted, stretches, scan_tiles(tiles, numbers, stretches), strict=True):
                window.add(part, stretch)
                window.narrow()
        if self.world.size > 1:
            joined = map(_joined, wanted)
            wanted = [window for window in joined if window is not None]
        for window in wanted:
            window.finish()
        self._windows += wanted

    def _ready(self) -> "BatchTiles":
        if self._tiles is None:
            self._tiles = BatchTiles(
                self.units, self.labels, self.groups, self.stored, self._shared, self.precision, self.keys
            )
        return self._tiles


def _joined(window: Window) -> Window | None:
    """One window of all pairs, of those that the ranks have filled with their shares; None if they share no scores."""
    state, joined = window.state(), list[Window | None]()
    of_ranks = {name: gathered_arrays(array) for name, array in state.items() if array.ndim}
    for rank in range(len(of_ranks["ends"])):
        other = Window.from_state(state | {name: arrays[rank] for name, arrays in of_ranks.items()})
        joined = [joined[0] and joined[0].merged(other) if joined else other]
    return joined[0]


def _answer(window: Window, rank: int, groups: frozenset[int]) -> tuple[float, float]:
    """The score of a rank, and the fall of score there over which ranks grow e-fold, estimated from the window."""
    above, inside = window.around(groups)
    score, further = window.ranked(rank, groups), min(rank + rank // 2 + 8, above + inside)
    fall = score - window.ranked(further, groups)
    return score, fall / math.log(further / rank) if fall else THRESHOLD_MOVE


class BatchScores:
    """The impostor scores of some groups of `BatchPairs`, answering questions of order."""

    def __init__(self, pairs: BatchPairs, groups: frozenset[int]) -> None:
        self.pairs, self.groups = pairs, groups

    @property
    def total(self) -> int:
        """Number of scores."""
        return sum(self.pairs.totals[group] for group in self.groups)

    def ranked(self, rank: int) -> float:
        """The rank-th largest score."""
        assert 1 <= rank <= self.total, (rank, self.total)
        return self.pairs.ranked(rank, self.groups)

    def above(self, threshold: float) -> int:
        """Number of scores strictly greater than the threshold."""
        if math.isinf(threshold) or not self.total:
            return self.total if threshold < 0 else 0
        return self.pairs.count(threshold, self.groups)
