"""All pairs of a set, or of probes and a gallery: exact answers in bounded memory.

Products of low precision screen the pairs; only pairs whose score could matter to the questions are scored exactly. So
every answer is the integer or the score that sorting all exact scores would give, for any screen, block size, order of
rows and number of processes. Questions that are asked together share one pass over the pairs.
"""

import itertools
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

from verisphere.base.device import full_float32
from verisphere.base.vocabulary import PRECISIONS, Precision, Progress, quietly
from verisphere.base.words import check_at_least
from verisphere.base.work import Arrays, divided, ranges, results
from verisphere.score.exact.limits import DENSE_RUNS, FEW_PAIRS, RUN_KEYS, TILE_ROWS
from verisphere.score.exact.scan import Scan, Tiling
from verisphere.score.exact.score_sample import ScoreSample
from verisphere.score.exact.screen import Screen, exact_int8, products, rounded
from verisphere.score.exact.tiles import open_pairs, side_of
from verisphere.score.exact.windows import Window, gap, window_at, window_of
from verisphere.score.genuine import genuine_count, genuine_pairs
from verisphere.score.pairs import pair_scores, rough_error

_RANKS_TO_A_WINDOW = 16  # ranks at most this far apart share a window
# Approximate seconds on one core of a CPU of 2023; only their ratios to each other and to a product matter.
_SECONDS_EXACT = 8e-7  # a pair scored exactly
_SECONDS_FLOAT32 = 1.5e-7  # a pair selected and scored in float32
_SECONDS_IN_HIT_RUN = 2e-9  # a pair of a run with a wanted key
_SECONDS_KEY_BY_KEY = 4e-9  # a pair where nearly all runs have a wanted key


@dataclass(frozen=True)
class Group:
    """A kind of pair: its domain (None: across domains) and whether it shows one person.

    >>> Group(domain=None, genuine=False)  # impostor pairs across domains
    Group(domain=None, genuine=False)
    """

    domain: int | None
    genuine: bool


class AllPairs:
    """All pairs of rows, grouped by domain and by whether they show one person.

    Pairs of two domains form a group of their own. Without domains every pair belongs to domain 0. Genuine scores are
    held in memory, 8 bytes each, as soon as one is asked for; impostor scores never are.

    >>> from verisphere.score import unit_rows
    >>> units = unit_rows(np.array([[3.0, 4.0], [4.0, 3.0], [0.0, 1.0]], np.float32))
    >>> pairs = AllPairs(units, torch.tensor([0, 0, 1]))
    >>> impostor = pairs.scores([Group(0, genuine=False)])
    >>> impostor.total, round(impostor.ranked(1), 6)
    (2, 0.8)
    """

    def __init__(
        self,
        units: Float32[Tensor, "rows dim"],
        people: Int64[Tensor, " rows"],
        domains: Int64[Tensor, " rows"] | None = None,
        progress: Progress = quietly,
        *,
        gallery: tuple[Float32[Tensor, "others dim"], Int64[Tensor, " others"]] | None = None,
        block: int | None = None,
        precision: Precision | None = None,
        processes: int = 1,
    ) -> None:
        """Order the rows; pairs are compared when a question is asked.

        Args:
            units: rows of length 1, from `unit_rows`.
            gallery: rows and people of another set; each row is then paired with each row of this set instead.
        """
        if gallery is not None and domains is not None:
            raise ValueError("probes and a gallery have no domains")
        check_at_least("processes", processes)
        if processes > 1 and units.device.type != "cpu":
            raise ValueError(f"{processes} processes share the CPU's work; on {units.device} one does it all")
        self.units, self.progress, self.processes = units, progress, processes
        self.block, self.precision = block or TILE_ROWS[units.device.type], precision
        person = people.cpu().numpy()
        domain = np.zeros(len(person), np.int64) if domains is None else domains.cpu().numpy()
        self.left, self.right, self.others = side_of(units, person, domain), None, units
        self.people: tuple[Int64[np.ndarray, " rows"], Int64[np.ndarray, " others"] | None] = person, None
        if gallery is not None:
            self.others, others = gallery[0], gallery[1].cpu().numpy()
            self.people = person, others
            self.right = side_of(self.others, others, np.zeros(len(others), np.int64))
        self.domains = torch.from_numpy(domain)
        self.domain_count = int(domain.max()) + 1 if len(domain) else 1
        self.across = self.domain_count
        self.totals = self._totals()
        self.sample = ScoreSample(self.left, self.right, self.across, self.totals[False])
        self._scan: Scan | None = None
        self._genuine: dict[int, Float64[np.ndarray, " scores"]] | None = None

    def scores(self, groups: Iterable[Group]) -> "StreamedScores":
        """The scores of some groups together, which answer questions of order.

        Raises:
            ValueError: genuine and impostor groups together.
        """
        chosen = set(groups)
        kinds = {group.genuine for group in chosen}
        if len(kinds) > 1:
            raise ValueError("genuine and impostor pairs cannot be asked for together")
        numbers = {self.across if group.domain is None else group.domain for group in chosen}
        return StreamedScores(self, frozenset(numbers), kinds == {True})

    def settle(
        self,
        ranks: Iterable[tuple["StreamedScores", int]] = (),
        thresholds: Iterable[tuple["StreamedScores", float]] = (),
    ) -> None:
        """Find the scores at these ranks and the counts above these thresholds, usually by one pass over the pairs.

        Further passes follow if the sample of the pairs predicted a wrong place for a rank, or if the windows of all
        ranks together would hold too many scores.

        Args:
            ranks: scores and a rank among them; 1 is the largest.
            thresholds: scores and a threshold above which they are counted.
        """
        asked = {(tuple(sorted(scores.groups)), rank) for scores, rank in ranks if not scores.genuine}
        cuts = {(scores.groups, threshold + 0.0) for scores, threshold in thresholds if not scores.genuine}
        tries = Counter((window.groups, rank) for window in self._windows for rank in window.ranks)
        while True:
            counted: dict[float, set[int]] = {}  # one window for all groups of pairs that are asked for a threshold
            for groups, threshold in cuts:
                if math.isfinite(threshold) and self.window_at(threshold, groups) is None:
                    counted.setdefault(threshold, set()).update(groups)
            counts = [Window(at, at, tuple(sorted(members))) for at, members in sorted(counted.items())]
            missing = [(group, rank) for group, rank in asked if self.window_of(rank, frozenset(group)) is None]
            windows = self._at_once([*counts, *self._around(missing, tries)])
            if not windows:
                return
            self._ready([(window.low, window.high) for window in windows]).fill(windows)
            tries.update((window.groups, rank) for window in windows for rank in window.ranks)

    def highest(self, count: int, genuine: bool) -> tuple[Float64[Tensor, " pairs"], Int64[Tensor, "pairs 2"]]:
        """The `count` highest scores, within all domains and across them, descending, and the rows of each pair.

        Holds all of them in memory. Which pairs of the last score are returned, if several have it, is not defined.
        """
        everything = StreamedScores(self, frozenset(range(self.across + 1)), genuine)
        count = min(count, everything.total)
        parts: list[tuple[Tensor, Tensor]] = []
        if count and genuine:
            for left, right in self._genuine_pairs():
                rows = torch.from_numpy(np.stack([left, right], 1))
                parts.append((self._scored(rows), rows))
        elif count:
            parts = list(self.at_least(everything.ranked(count)))
        if not parts:
            return torch.empty(0, dtype=torch.float64), torch.empty(0, 2, dtype=torch.int64)
        scores, rows = torch.cat([part for part, _ in parts]), torch.cat([part for _, part in parts])
        order = scores.argsort(descending=True, stable=True)[:count]
        rows = rows[order] if self.right is not None else rows[order].sort(1).values
        return scores[order], rows

    def at_least(
        self, least: float, most: int | None = None
    ) -> Iterator[tuple[Float64[Tensor, " pairs"], Int64[Tensor, "pairs 2"]]]:
        """Impostor pairs with this score or a higher one, and their rows, unordered; more than `most` are refused."""

        def check(count: int) -> None:
            if count > (count if most is None else most):
                raise ValueError(f"more than {most:,} pairs score {least:g} or more; ask for a higher threshold")

        scan = self._ready([(least, math.inf)])
        pieces = scan.pieces() if divided() else ranges(len(scan.tiles), 1)

        def near(tiles: range) -> Arrays:
            found = [(np.empty(0), np.empty((0, 2), np.int64))]
            for tile in tiles:
                found += self._near(scan, tile, least)
                check(sum(len(scores) for scores, _ in found))
            scores, rows = zip(*found, strict=True)
            return {"scores": np.concatenate(scores), "rows": np.concatenate(rows)}

        about, count = lambda: [*scan.tiling.about(), float(least).hex(), most], 0
        for part in results("near", about, pieces, partial(map, near), self.progress, "collecting the highest scores"):
            check(count := count + len(part["scores"]))
            yield torch.from_numpy(part["scores"]), torch.from_numpy(part["rows"])

    def _near(self, scan: Scan, tile: int, least: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Scores and rows of the impostor pairs of a tile with this score or a higher one."""
        sides = self.left, self.left if self.right is None else self.right
        with full_float32():
            screen = scan.tiles.screen(tile)
            ((lowest, highest),) = screen.bands([(least, math.inf)])
            shift = screen.shift(lowest)
            for patch in scan.tiles.patches(tile, screen, shift > 0):
                near = open_pairs(patch, [(lowest - shift, highest - shift)])
                score = scan.tiles.score(near.left, near.right)
                chosen = (score >= least).nonzero()[:, 0]
                places = (row[chosen].cpu().numpy() for row in (near.left, near.right))
                rows = [side.origin[place] for side, place in zip(sides, places, strict=True)]
                yield (score[chosen].cpu() + 0.0).numpy(), np.stack(rows, 1)

    # -- genuine pairs ---------------------------------------------------------------------------------------------

    def genuine_scores(self, groups: frozenset[int]) -> Float64[np.ndarray, " scores"]:
        """All genuine scores of some groups, ascending."""
        if self._genuine is None:
            parts: dict[int, list[np.ndarray]] = {group: [] for group in range(self.across + 1)}
            for left, right in self._genuine_pairs():
                score = self._scored(torch.from_numpy(np.stack([left, right], 1))).numpy() + 0.0
                domain = self.domains.numpy()[left]
                if self.right is None:
                    domain = np.where(domain == self.domains.numpy()[right], domain, self.across)
                group = domain
                for number in np.unique(group).tolist():
                    parts[number].append(score[group == number])
            self._genuine = {group: np.sort(np.concatenate([np.empty(0), *scores])) for group, scores in parts.items()}
        if len(groups) == 1:
            return self._genuine[next(iter(groups))]
        return np.sort(np.concatenate([np.empty(0), *(self._genuine[group] for group in sorted(groups))]))

    def _genuine_pairs(self) -> Iterable[tuple[Int64[np.ndarray, " pairs"], Int64[np.ndarray, " pairs"]]]:
        return self.progress(genuine_pairs(*self.people), "scoring genuine pairs")

    def _scored(self, rows: Int64[Tensor, "pairs 2"]) -> Float64[Tensor, " pairs"]:
        left, right = (rows[:, side].contiguous().to(self.units.device) for side in (0, 1))
        return pair_scores(self.units, left, right, self.others).cpu()

    # -- impostor pairs --------------------------------------------------------------------------------------------

    def _totals(self) -> dict[bool, dict[int, int]]:
        """Genuine (True) and impostor pairs of each group."""
        people, others = self.people
        pairs, genuine = [0] * (self.across + 1), [0] * (self.across + 1)
        if others is not None:
            pairs[0], genuine[0] = len(people) * len(others), genuine_count(people, others)
        else:
            ends = np.searchsorted(self.left.domains, np.arange(self.across + 1))
            for group, (first, last) in enumerate(itertools.pairwise(ends.tolist())):
                pairs[group] = (last - first) * (last - first - 1) // 2
                genuine[group] = genuine_count(self.left.people[first:last])
            pairs[-1] = len(people) * (len(people) - 1) // 2 - sum(pairs)
            genuine[-1] = genuine_count(people) - sum(genuine)
        return {True: dict(enumerate(genuine)), False: {g: pairs[g] - genuine[g] for g in range(self.across + 1)}}

    def window_at(self, threshold: float, groups: frozenset[int]) -> Window | None:
        """A filled window of these groups that holds this threshold."""
        return window_at(self._windows, threshold, groups)

    def window_of(self, rank: int, groups: frozenset[int]) -> Window | None:
        """A filled window that holds this rank of these groups."""
        return window_of(self._windows, rank, groups)

    @property
    def _windows(self) -> Sequence[Window]:
        return () if self._scan is None else self._scan.windows

    def _around(
        self, asked: Iterable[tuple[tuple[int, ...], int]], tries: Mapping[tuple[tuple[int, ...], int], int]
    ) -> list[Window]:
        """Windows that should contain these ranks; after a failed attempt the gap, kept wider each time."""
        windows: list[Window] = []
        for groups, rank in sorted(asked):
            low, high = gap(self._windows, rank, frozenset(groups))
            tried = tries[groups, rank]
            if not tried:
                expected = self.sample.around(rank, groups)
                if max(low, expected[0]) <= min(high, expected[1]):
                    low, high = max(low, expected[0]), min(high, expected[1])
            ranks: tuple[int, ...] = (rank,)
            if windows and windows[-1].groups == groups and rank - windows[-1].ranks[-1] <= _RANKS_TO_A_WINDOW:
                before = windows.pop()
                low, high, ranks = min(low, before.low), max(high, before.high), (*before.ranks, rank)
            total = sum(self.totals[kind][group] for kind in (True, False) for group in groups)
            windows.append(Window(low, high, groups, ranks, total, 8.0**tried))
        return windows

    def _at_once(self, windows: Iterable[Window]) -> list[Window]:
        """As many of these windows, one at least, as hold no more than a tile's scores before they are narrowed."""
        chosen: list[Window] = []
        held: dict[int, float] = defaultdict(float)
        for window in windows:
            seen = self.sample.everything(window.groups)
            inside = (seen >= window.low) & (seen <= window.high) if window.low < window.high else seen[:0]
            share = float(inside.mean()) if len(inside) else 0.0
            if not chosen or all(held[group] + share <= 1 for group in window.groups):
                chosen.append(window)
                for group in window.groups:
                    held[group] += share
        return chosen

    def _ready(self, stretches: Sequence[tuple[float, float]]) -> Scan:
        """The scan, with products of a type that suits these stretches."""
        seen = self.sample.everything(range(self.across + 1))
        lowest, highest = (float(seen.min()), float(seen.max())) if len(seen) else (-1.0, 1.0)
        precision = self.precision or self._cheapest(stretches, seen)
        if self._scan is None or self._scan.tiling.precision != precision:
            rim = (highest - lowest) / 10
            tiling = Tiling(self.left, self.right, self.across, precision, (lowest - rim, highest + rim), self.block)
            self._scan = Scan(tiling, self.progress, self.processes, self._scan)
        return self._scan

    def _cheapest(self, stretches: Sequence[tuple[float, float]], seen: Float64[np.ndarray, " scores"]) -> Precision:
        """The type for which products and close pairs together are expected to take the least time."""
        if len(self.left.units) * len((self.right or self.left).units) <= FEW_PAIRS:
            return "float32"
        sample = self.left.units[: 1 << 10]
        costs: dict[Precision, float] = {}
        for precision in PRECISIONS:
            if precision == "int8" and not (sample.device.type == "cpu" and exact_int8(sample.shape[1])):
                continue
            rows = rounded(sample, precision)
            with full_float32():
                screen = Screen(rows, rows)
                seconds, error = min(_seconds(screen) for _ in range(3)), screen.error
            near, reached = _shares(stretches, seen, error)
            hit = 1 - (1 - reached) ** RUN_KEYS
            close = _SECONDS_FLOAT32 if error > 2 * rough_error(sample.shape[1]) else _SECONDS_EXACT
            costs[precision] = (
                seconds + (_SECONDS_IN_HIT_RUN * hit if hit <= DENSE_RUNS else _SECONDS_KEY_BY_KEY) + close * near
            )
        return min(costs, key=lambda precision: costs[precision])


def _shares(
    stretches: Sequence[tuple[float, float]], seen: Float64[np.ndarray, " scores"], error: float
) -> tuple[float, float]:
    """The share of pairs that a screen with this error leaves open, and the share that scores as high as the lowest.

    A window is taken as a point at its middle, since windows are soon narrowed to little more than one.
    """
    near = np.zeros(len(seen), bool)
    for low, high in stretches:
        if math.isfinite(low) and math.isfinite(high):
            low = high = (low + high) / 2
        near |= (seen >= low - error) & (seen <= high + error)
    if not near.any():
        return 0.0, 0.0
    return float(near.mean()), float((seen >= seen[near].min()).mean())


def _seconds(screen: Screen) -> float:
    """Seconds a pair of the product."""
    left, right = screen.left[:512], screen.right[:512]
    before = time.perf_counter()
    product = products(left, right, screen.room)
    float(product[-1, -1])  # waits for a GPU, which still computes after the call
    return (time.perf_counter() - before) / max(product.numel(), 1)


class StreamedScores:
    """The scores of some groups of `AllPairs`, answering questions of order.

    >>> from verisphere.score import unit_rows
    >>> units = unit_rows(np.array([[3.0, 4.0], [4.0, 3.0], [0.0, 1.0]], np.float32))
    >>> impostor = AllPairs(units, torch.tensor([0, 0, 1])).scores([Group(0, genuine=False)])
    >>> impostor.total, impostor.above(0.7)  # 0.8 and 0.6
    (2, 1)
    """

    def __init__(self, pairs: AllPairs, groups: frozenset[int], genuine: bool) -> None:
        """The scores of the genuine, or of the impostor pairs of the groups with these numbers."""
        self.pairs, self.groups, self.genuine = pairs, groups, genuine
        self._total = sum(pairs.totals[genuine][group] for group in groups)

    @property
    def total(self) -> int:
        """Number of scores."""
        return self._total

    def ranked(self, rank: int) -> float:
        """The rank-th largest score."""
        assert 1 <= rank <= self.total, (rank, self.total)
        if self.genuine:
            return float(self.pairs.genuine_scores(self.groups)[-rank])
        self.pairs.settle(ranks=[(self, rank)])
        window = self.pairs.window_of(rank, self.groups)
        assert window is not None
        return window.ranked(rank, self.groups)

    def above(self, threshold: float) -> int:
        """Number of scores strictly greater than the threshold."""
        if math.isinf(threshold) or not self.total:
            return self.total if threshold < 0 else 0
        if self.genuine:
            scores = self.pairs.genuine_scores(self.groups)
            return len(scores) - int(np.searchsorted(scores, threshold, side="right"))
        self.pairs.settle(thresholds=[(self, threshold)])
        window = self.pairs.window_at(threshold + 0.0, self.groups)
        assert window is not None
        return window.count_above(threshold, self.groups)

    def near(self, rank: int) -> float:
        """An estimate of the rank-th largest score, from a sample of the pairs."""
        if self.genuine:
            return self.ranked(rank)
        return self.pairs.sample.near(rank, sorted(self.groups))

    def histogram(self, edges: Float64[np.ndarray, " edges"]) -> Int64[np.ndarray, " bins"]:
        """The exact number of scores between neighbouring edges; the last bin includes its upper edge."""
        cuts = [*(math.nextafter(float(edge), -math.inf) for edge in edges[:-1]), float(edges[-1])]
        self.pairs.settle(thresholds=[(self, cut) for cut in cuts])
        return -np.diff(np.array([self.above(cut) for cut in cuts], np.int64))
