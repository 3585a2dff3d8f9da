"""Every two rows compared once, in bounded memory, with exact answers.

A matrix product in float64 screens the pairs: its score differs from the exact one (`pair_scores`) by a rounding error
whose bound is known. A first pass counts screened scores on a fine grid. Any question about order - the rank-th
largest score, the number of scores above a threshold - is then settled by a second pass over the few grid cells that
the answer can lie in: pairs in them are scored exactly, pairs elsewhere are certain to lie above or below. Questions
asked together share one pass. Memory is one block of pairs, the grid, and the pairs of the opened cells.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int64
from torch import Tensor

from verisphere.score.pairs import pair_scores
from verisphere.vocabulary import Progress, quietly

BLOCK = 1024  # rows a side: a block of float64 scores is 8 MB
CELLS = 1 << 20  # grid cells, all groups of pairs together
COARSE = 1 << 12  # even steps of score, each of which has cells by how many pairs fall into it
HELD = 1 << 20  # exact scores held before equal ones are merged


@dataclass(frozen=True)
class Group:
    """A kind of pair: its domain (None: across domains) and whether it shows one person."""

    domain: int | None
    genuine: bool


@dataclass(frozen=True, eq=False)
class Block:
    """Screened pairs of two runs of rows; pairs are numbered row by row."""

    first_row: int
    first_column: int
    columns: int
    pairs: Int64[Tensor, " pairs"] | None  # numbers of the pairs, where not all are meant
    group: Int64[Tensor, " pairs"]
    screened: Float64[Tensor, " pairs"]

    def rows(self, chosen: Bool[Tensor, " pairs"]) -> tuple[Int64[Tensor, " chosen"], Int64[Tensor, " chosen"]]:
        """The two rows of each chosen pair."""
        number = chosen.nonzero()[:, 0] if self.pairs is None else self.pairs[chosen]
        return self.first_row + number // self.columns, self.first_column + number % self.columns


@dataclass(frozen=True, eq=False)
class Exact:
    """Exact scores of pairs in opened cells, by cell and score ascending, with how often each occurs."""

    cell: Int64[np.ndarray, " scores"]
    score: Float64[np.ndarray, " scores"]
    count: Int64[np.ndarray, " scores"]

    def between(self, first: int, last: int) -> "Exact":
        """Those of the cells first <= cell < last."""
        part = slice(*np.searchsorted(self.cell, [first, last]))
        return Exact(self.cell[part], self.score[part], self.count[part])


@dataclass(frozen=True, eq=False)
class Grid:
    """Cells of score, finer where scores are dense; a score's cell never falls as the score rises.

    Attributes:
        low: where the first cell begins; what lies beyond the ends falls into the outermost cells.
        steps_per_score: even steps in a unit of score.
        first: number of the first cell of each step.
        inside: number of cells in each step.
    """

    low: float
    steps_per_score: float
    first: Int64[Tensor, " steps"]
    inside: Int64[Tensor, " steps"]

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return int(self.first[-1] + self.inside[-1])

    @property
    def edges(self) -> Float64[Tensor, " edges"]:
        """Where each cell begins, and last where the last one ends."""
        step = torch.repeat_interleave(torch.arange(len(self.inside)), self.inside)
        part = (torch.arange(self.cells) - self.first[step]).double() / self.inside[step]
        return torch.cat([step + part, part.new_tensor([len(self.inside)])]) / self.steps_per_score + self.low

    def cell(self, scores: Float64[Tensor, " pairs"]) -> Int64[Tensor, " pairs"]:
        """The cell of each score."""
        place = scores.sub(self.low).mul_(self.steps_per_score).clamp_(0, len(self.first) - 1e-9)
        step = place.long()
        return place.sub_(step).mul_(self.inside[step]).long().add_(self.first[step])


def _grid_for(units: Float32[Tensor, "rows dim"], cells: int, narrowest: float) -> Grid:
    """A grid of about this many cells, none narrower than `narrowest`, from the scores of a sample of rows.

    Half of the cells are spread evenly, half by where the sample's scores lie: a model whose scores nearly all agree
    still has them spread over many cells, whatever a few strange images score.
    """
    rows = torch.linspace(0, len(units) - 1, min(len(units), 512)).long()
    sample = units[rows].double()
    seen = (sample @ sample.T)[~torch.eye(len(rows), dtype=torch.bool)]
    low, high = (float(seen.min()), float(seen.max())) if len(seen) else (-1.0, 1.0)
    width = max((high - low) / COARSE, narrowest)
    place = seen.sub(low).div_(width).clamp_(0, COARSE - 1).long()
    share = torch.bincount(place, minlength=COARSE).double() / max(len(seen), 1)
    inside = (cells * (share + 1 / COARSE) / 2).long().clamp(1, max(int(width / narrowest), 1))
    return Grid(low, 1 / width, inside.cumsum(0) - inside, inside)


class AllPairs:
    """All pairs of rows, grouped by domain and by whether they show one person.

    Pairs of two domains form a group of their own. Without domains every pair belongs to domain 0.
    """

    def __init__(
        self,
        units: Float32[Tensor, "rows dim"],
        people: Int64[Tensor, " rows"],
        domains: Int64[Tensor, " rows"] | None = None,
        progress: Progress = quietly,
        block: int = BLOCK,
    ) -> None:
        """Count the pairs on the grid, in one pass.

        Args:
            units: rows of length 1, from `unit_rows`.
            people: number of each row's person.
            domains: number of each row's domain, from 0.
            progress: shown for each pass over the pairs.
            block: rows a side of a block; changes speed and memory, never an answer.
        """
        self.units, self.people, self.progress, self.block = units, people, progress, block
        self.domains = torch.zeros_like(people) if domains is None else domains
        self.domain_count = int(self.domains.max()) + 1 if len(people) else 1
        self.groups = 2 * (self.domain_count + 1)
        # Twice the rounding error of a float64 dot product of unit rows: the screen's, and the exact sum's own.
        self.error = 4 * units.shape[1] * 2.0**-53
        self.grid = _grid_for(units, max(CELLS // self.groups, 2 * COARSE), 1024 * self.error)
        self.cells = self.grid.cells
        counts = torch.zeros(self.groups * self.cells, dtype=torch.int64)
        for part in self._blocks("counting pairs"):
            counts += torch.bincount(
                part.group * self.cells + self.grid.cell(part.screened), minlength=self.groups * self.cells
            )
        # reaching[g, c]: pairs of group g in cell c or a higher one; a last column of zeros for 'above every cell'
        reaching = counts.view(self.groups, self.cells).flip(1).cumsum(1).flip(1)
        self.reaching = torch.cat([reaching, reaching.new_zeros(self.groups, 1)], 1)
        self.opened = torch.zeros(self.cells, dtype=torch.bool)
        nothing = np.empty(0, np.int64)
        self.exact = {group: Exact(nothing, np.empty(0), nothing) for group in range(self.groups)}

    def scores(self, groups: Iterable[Group]) -> "StreamedScores":
        """The scores of some groups together, as something that answers questions of order."""
        return StreamedScores(self, sorted({self._number(group) for group in groups}))

    def cell_of(self, score: float) -> int:
        """The grid cell of one score."""
        return int(self.grid.cell(torch.tensor([score], dtype=torch.float64)))

    def open(self, cells: Iterable[int]) -> None:
        """Score exactly every pair in these cells and their neighbours, in one pass.

        A cell is at least 1024 times as wide as the screen's error, so a score that belongs into a cell was screened
        into it or into a neighbour.
        """
        closed = [cell for cell in cells if not self.opened[max(cell - 1, 0) : cell + 2].all()]
        if not closed:
            return
        wanted = torch.zeros_like(self.opened)
        for cell in closed:
            wanted[max(cell - 1, 0) : cell + 2] = True
        wanted &= ~self.opened
        # Kept in arrays made beforehand: small pieces held between large passing blocks would tear the heap apart.
        held = np.empty(HELD, dtype=[("group", np.int64), ("cell", np.int64), ("score", np.float64)])
        used = 0
        for part in self._blocks("scoring close pairs exactly"):
            screened = self.grid.cell(part.screened)
            chosen = wanted[screened]
            if not chosen.any():
                continue
            score = pair_scores(self.units, *part.rows(chosen)).numpy()
            columns = {"group": part.group[chosen].numpy(), "cell": screened[chosen].numpy(), "score": score}
            for start in range(0, len(score), HELD):
                count = min(len(score) - start, HELD)
                if used + count > HELD:
                    self._merge(held[:used])
                    used = 0
                for name, values in columns.items():
                    held[name][used : used + count] = values[start : start + count]
                used += count
        self._merge(held[:used])
        self.opened |= wanted

    def highest(self, count: int, genuine: bool) -> tuple[Float64[Tensor, " pairs"], Int64[Tensor, "pairs 2"]]:
        """The `count` highest scores, of all domains and across them, descending, and the rows of each pair.

        Holds all of them in memory. Where the last score is shared, which of its pairs are given is not defined.
        """
        groups = [group for group in range(self.groups) if group % 2 == genuine]
        reaching = self.reaching[groups].sum(0)
        cell = max(int((reaching >= count).nonzero()[-1]) - 1, 0) if count < int(reaching[0]) else 0
        scores, rows = [], []
        for block in self._blocks("collecting the highest scores"):
            chosen = (self.grid.cell(block.screened) >= cell) & (block.group % 2 == genuine)
            left, right = block.rows(chosen)
            scores.append(pair_scores(self.units, left, right))
            rows.append(torch.stack([left, right], 1))
        order = torch.cat(scores).argsort(descending=True)[:count]
        return torch.cat(scores)[order], torch.cat(rows)[order]

    def _number(self, group: Group) -> int:
        return 2 * (self.domain_count if group.domain is None else group.domain) + group.genuine

    def _blocks(self, description: str) -> Iterator[Block]:
        starts = range(0, len(self.units), self.block)
        corners = [(a, b) for a in starts for b in starts if a <= b]
        for a, b in self.progress(corners, description, len(corners)):
            left, right = slice(a, a + self.block), slice(b, b + self.block)
            screened = self.units[left].double() @ self.units[right].double().T  # (left, right)
            same = self.people[left, None] == self.people[None, right]
            home, away = self.domains[left, None], self.domains[None, right]
            group = (2 * torch.where(home == away, home, self.domain_count)).add_(same).flatten()
            pairs = None
            if a == b:  # each pair once, no row with itself
                pairs = torch.ones_like(screened, dtype=torch.bool).triu(1).flatten().nonzero()[:, 0]
                group = group[pairs]
            flat = screened.flatten()
            yield Block(a, b, screened.shape[1], pairs, group, flat if pairs is None else flat[pairs])

    def _merge(self, found: np.ndarray) -> None:
        """Take exact scores in, equal ones of a cell as one with a count: a million ties take no more room than one."""
        for group in np.unique(found["group"]).tolist():
            new = found[found["group"] == group]
            known = self.exact[group]
            cell = np.concatenate([known.cell, new["cell"]])
            score = np.concatenate([known.score, new["score"]])
            count = np.concatenate([known.count, np.ones(len(new), np.int64)])
            order = np.lexsort((score, cell))
            cell, score, count = cell[order], score[order], count[order]
            first = np.flatnonzero(np.r_[True, (np.diff(cell) != 0) | (np.diff(score) != 0)])
            self.exact[group] = Exact(cell[first], score[first], np.add.reduceat(count, first))


class StreamedScores:
    """The scores of some groups of `AllPairs`, which answer questions of order without being held in memory."""

    def __init__(self, pairs: AllPairs, groups: Sequence[int]) -> None:
        """Scores of these group numbers of a sweep."""
        self.pairs, self.groups = pairs, list(groups)
        self.reaching = pairs.reaching[self.groups].sum(0)  # (cells + 1,)
        self.rising = self.reaching.flip(0)

    @property
    def total(self) -> int:
        """How many scores there are."""
        return int(self.reaching[0])

    def ranked(self, rank: int) -> float:
        """The rank-th largest score."""
        assert 1 <= rank <= self.total, (rank, self.total)
        cell = self.cell_of_rank(rank)
        values, counts, certain = self._near(cell)
        at_least = certain + counts[::-1].cumsum()[::-1]  # scores at or above each value
        return float(values[np.flatnonzero(at_least >= rank)[-1]]) + 0.0

    def above(self, threshold: float) -> int:
        """How many scores are strictly greater than the threshold."""
        if np.isinf(threshold):
            return self.total if threshold < 0 else 0
        values, counts, certain = self._near(self.pairs.cell_of(threshold))
        return certain + int(counts[values > threshold].sum())

    def near(self, rank: int) -> float:
        """The rank-th largest score to within a cell, without a pass: the middle of its cell."""
        cell = self.cell_of_rank(rank)
        return float(self.pairs.grid.edges[cell : cell + 2].mean())

    def histogram(self, edges: Float64[np.ndarray, " edges"]) -> Int64[np.ndarray, " bins"]:
        """How many scores lie between neighbouring edges, to within a cell, without a pass.

        A cell counts where its middle lies. Scores that lie beyond the grid count in its outermost cell.
        """
        counts = -self.reaching.diff()
        cells = self.pairs.grid.edges
        middle = (cells[:-1] + cells[1:]) / 2
        return np.histogram(middle.numpy(), edges, weights=counts.numpy())[0].round().astype(np.int64)

    def cell_of_rank(self, rank: int) -> int:
        """The grid cell into which the rank-th largest score was screened; open it to have the score itself."""
        return len(self.rising) - int(torch.searchsorted(self.rising, rank)) - 1

    def _near(self, cell: int) -> tuple[np.ndarray, np.ndarray, int]:
        """Exact scores around a cell, ascending, with how often each occurs; and how many scores lie above them all."""
        self.pairs.open([cell])
        first, last = max(cell - 1, 0), min(cell + 2, self.pairs.cells)
        near = [self.pairs.exact[group].between(first, last) for group in self.groups]
        score = np.concatenate([part.score for part in near])
        order = score.argsort()
        count = np.concatenate([part.count for part in near])[order]
        assert int(self.reaching[first] - self.reaching[last]) == count.sum(), "an opened cell is not complete"
        return score[order], count, int(self.reaching[last])
