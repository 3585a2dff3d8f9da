"""All pairs of a batch with stored rows: exact answers to questions of order, in a few megabytes, many times a minute.

As for all pairs of a set (`all_pairs`), products of low precision screen, and pairs that could matter are scored
exactly. Three things differ: the stored rows stay in place, with gaps among them; the rows of the batch form groups;
and since the same question is asked every step, the last answer says where to look (`Hints`). No answer depends on it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from verisphere.base.collectives import total
from verisphere.base.device import full_float32
from verisphere.base.distributed import ALONE, World
from verisphere.base.vocabulary import Precision
from verisphere.base.work import gathered_arrays, ranges
from verisphere.score.batch_tiles import BatchTiles, fastest, tile_size
from verisphere.score.exact.tiles import scan_tiles
from verisphere.score.exact.windows import Window, gap, window_at, window_of
from verisphere.score.stored import EMPTY, Stored, shared_labels

TILES_BEFORE_NARROWING = 16  # tiles scanned before windows are narrowed
SAMPLED_SCORES = 1 << 20  # scores of a sample, where no hint says where to look
THRESHOLD_MOVE = 0.02  # how far a threshold is expected to move between steps, where no move was seen yet
MOVE_BY_FALL = 1.5, 0.08  # the same, and its lower limit, as shares of the fall of score over which ranks grow e-fold


@dataclass(eq=False)
class Hints:
    """The last answers and how far they move between steps; answers are exact whatever the hints say.

    They are known by groups and the name of a question. More than one pass a step over the stored rows shows that hints
    were wrong.
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

        A question is some scores, a rank among them (1 is the largest), and its name in the hints. Ranks beyond the
        number of scores are ignored.
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
