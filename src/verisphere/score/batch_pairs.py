"""All pairs of a batch with stored rows: exact answers to questions of order, in a few megabytes, many times a minute.

As over all pairs of a set (`all_pairs`) products of low precision screen, and what could matter is scored exactly. What
is different: the stored rows stay where and as they are, with gaps among them; rows of the batch form groups; and since
the same question comes every step, the last answer tells where to look (`Hints`), never what the answer is.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from verisphere.collectives import total
from verisphere.distributed import ALONE, World
from verisphere.score.batch_tiles import BatchTiles, fastest, tile_size
from verisphere.score.exact.scan import gathered_arrays
from verisphere.score.exact.screen import full_float32
from verisphere.score.exact.tiles import scan_tiles
from verisphere.score.exact.windows import Window, gap, window_at, window_of
from verisphere.score.stored import EMPTY, Stored, shared_labels
from verisphere.vocabulary import Precision

TILES_BEFORE_NARROWING = 16  # tiles looked through before windows are narrowed
SAMPLED_SCORES = 1 << 20  # scores of a sample, where nothing tells where to look
THRESHOLD_MOVE = 0.02  # about how much a threshold may move from a step to the next, where nothing is known of it
MOVE_BY_FALL = 1.5, 0.08  # the same, and at least, in parts of the fall of score over which ranks grow e-fold


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

    def learn(self, groups: tuple[int, ...], question: str, answer: float, fall: float = THRESHOLD_MOVE) -> None:
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
        first, least = (share * fall for share in MOVE_BY_FALL)
        slack = min(THRESHOLD_MOVE, first)
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
        self._shared = shared_labels(self.labels, stored.labels)
        self.precision = precision or fastest(units.device.type, units.shape[1], stored.rows.dtype)
        self.keys = tile_size(self.precision, stored.rows.dtype) if keys is None else keys
        self.totals = self._totals()
        self._windows: list[Window] = []
        self._tiles: BatchTiles | None = None
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
        impostors = len(self._shared.places) - self._shared.alike()
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
        most = max(SAMPLED_SCORES // max(len(self.units), 1) // self.world.size, 1)
        some = used[:: max(len(used) // most, 1)]
        rows = self.stored.rows.index_select(0, some).to(self.units)
        with full_float32():
            product = self.units @ rows.T
        apart = self.labels[:, None] != self.stored.labels.index_select(0, some)[None, :].to(self.labels.device)
        found = {}
        for group in range(self.group_count):
            mine = torch.from_numpy(self.groups == group).to(product.device)
            scores = product[mine][apart[mine]].cpu().numpy()
            found[group] = np.concatenate(gathered_arrays(scores)) if self.world.size > 1 else scores
        return found

    def _fill(self, windows: Sequence[Window]) -> None:
        """Fill windows by one pass over the stored rows, of which every process goes through its own."""
        tiles, wanted = self._ready(), list(windows)
        self.hints.passes += 1
        for start in range(0, len(tiles), TILES_BEFORE_NARROWING):
            stretches = [window.stretch for window in wanted]
            numbers = range(start, min(start + TILES_BEFORE_NARROWING, len(tiles)))
            for window, stretch, found in zip(wanted, stretches, scan_tiles(tiles, numbers, stretches), strict=True):
                window.add(found, stretch)
                window.narrow()
        if self.world.size > 1:
            wanted = [one for one in (window.joined(gathered_arrays) for window in wanted) if one is not None]
        for window in wanted:
            window.finish()
        self._windows += wanted

    def _ready(self) -> "BatchTiles":
        if self._tiles is None:
            self._tiles = BatchTiles(
                self.units, self.labels, self.groups, self.stored, self._shared, self.precision, self.keys
            )
        return self._tiles


def _answer(window: Window, rank: int, groups: frozenset[int]) -> tuple[float, float]:
    """The score of a rank, and how much scores fall there while ranks grow e-fold, as far as the window tells."""
    above, inside = window.around(groups)
    score, further = window.ranked(rank, groups), min(rank + rank // 2 + 8, above + inside)
    fall = score - window.ranked(further, groups)
    return score, fall / math.log(further / rank) if fall else THRESHOLD_MOVE


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
