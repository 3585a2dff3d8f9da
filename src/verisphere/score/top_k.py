"""Each probe's best gallery rows, exactly and in bounded memory.

Products of a lower precision screen the pairs: a product differs from the exact score by at most a known bound
(`Screen`). The k-th best product of a probe so far, less the bound, is a floor below which its k best scores cannot
lie; a pair is a candidate only if its product reaches the floor within the bound. The remaining candidates are scored
as `pair_scores` does, so block size, precision and threads cannot change an answer. Memory is one tile of products and
a few times k candidates a probe, for some thousand probes at a time.

The people whose best rows are nearest to a probe (`best_people`) need no screen: a product in float32 differs from the
score by at most `rough_error`, so that a row whose product lies more than twice that below the k-th best person's
cannot be among the answers; the others are scored as `pair_scores` does.
"""

import itertools
import warnings
from collections.abc import Iterable, Iterator

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int64
from torch import Tensor

from verisphere.base.device import full_float32
from verisphere.base.vocabulary import Precision, Progress, check_word, quietly
from verisphere.base.words import check_at_least
from verisphere.base.work import Arrays, divided, ranges, results
from verisphere.score.exact.limits import LEAST_PIECES, PAIRS_A_PIECE
from verisphere.score.exact.screen import Screen, as_product, product_type, products, rounded, true_places
from verisphere.score.pairs import COLUMNS_SUMMED, pair_scores, rough_error

BLOCK_ROWS = {"cpu": 1 << 11}  # gallery rows at a time, by kind of device
TILE_PRODUCTS = {"cpu": 1 << 22}  # products at a time: 8 MB of bfloat16, which a CPU's last cache holds
GPU_BLOCK_ROWS, GPU_TILE_PRODUCTS = 1 << 16, 1 << 27
RUN_PRODUCTS = 64  # products whose maximum is compared before they are; maxima of shorter runs are not vectorised
PROBES_TOGETHER = 8192  # probes compared together, so that rounding the gallery costs little beside the products
LEAST_PROBES = 512  # compared together, however large k is
LEAST_GALLERY_ROWS = 1 << 12  # of a piece of work: fewer gain little from the floor
CANDIDATES_HELD = 1 << 23  # candidates held at a time, of all probes
NUMBERS_MULTIPLIED = 1 << 17  # numbers multiplied at once when candidates are scored: they stay in a core's cache
FLOOR_RISES_AFTER_GROWTH = 1.5  # the floor rises when the part of the gallery that has been seen has grown by this
NO_PAIR = -1e4  # product that marks a missing pair, far below every cosine and every product of coarsely rounded rows
_STORED = 2.0**-23  # more than the change of a product or a score when it is stored as float32


def top_k(
    probes: Float32[Tensor, "probes dim"],
    gallery: Float32[Tensor, "gallery columns"] | Float32[np.ndarray, "gallery columns"],
    k: int,
    precision: Precision = "bfloat16",
    exclude: tuple[Int64[Tensor, " numbers"], Int64[Tensor, " others"]] | None = None,
    block: int | None = None,
    progress: Progress = quietly,
) -> tuple[Float64[Tensor, "probes k"], Int64[Tensor, "probes k"]]:
    """The k highest scores of each probe, descending, and the gallery rows that have them.

    Of equal scores the lower row comes first. Where exclusion leaves a probe fewer than k rows, the rest has score
    minus infinity and row -1.

    >>> units = torch.eye(3)
    >>> scores, rows = top_k(units[:1], units, k=2)
    >>> scores.tolist(), rows.tolist()
    ([[1.0, 0.0]], [[0, 1]])

    Args:
        probes: rows of length 1, from `unit_rows`; the answer lies on their device.
        gallery: rows of length 1; a memory-mapped array is read block by block, on whatever device the probes are.
        k: number of rows for each probe.
        precision: type of the screening products; changes speed, never the answer.
        exclude: a number for each probe and for each gallery row; pairs of equal numbers are excluded. Numbers of
            people, or of rows where the gallery contains the probes.
        block: gallery rows at a time; None suits the device. Changes speed and memory, never the answer.
        progress: reports the progress over blocks.

    Raises:
        ValueError: k, block or precision is out of range; the sizes do not agree; a row does not have length 1.
    """
    rows = as_tensor(gallery)
    block = BLOCK_ROWS.get(probes.device.type, GPU_BLOCK_ROWS) if block is None else block
    _check(probes, rows, k, precision, exclude, block)
    scores = torch.empty(len(probes), k, dtype=torch.float64, device=probes.device)
    found = torch.empty(len(probes), k, dtype=torch.int64, device=probes.device)
    together = min(PROBES_TOGETHER, max(CANDIDATES_HELD // (4 * k + RUN_PRODUCTS), LEAST_PROBES))
    height = _gallery_rows(len(probes), len(rows), together) if divided() else len(rows)
    pieces = [*itertools.product(ranges(len(probes), together), ranges(len(rows), height))]
    title, blocks = f"searching {len(rows):,} rows", len(pieces) * -(-len(rows) // block)
    outside, inside = (progress, quietly) if divided() else (quietly, progress)

    def compute(chosen: Iterable[tuple[range, range]]) -> Iterator[Arrays]:
        steps = ((part, column, start) for part, column in chosen for start in range(0, len(column), block))
        for part, column, start in inside(steps, title, blocks):
            there, shown = slice(column.start, column.stop), slice(part.start, part.stop)
            with full_float32():
                if start == 0:
                    apart = exclude and (exclude[0][shown], exclude[1][there])
                    best = _Best(probes[shown], rows[there], k, precision, apart)
                best.take(start, rows[there][start : start + block])
                if start + block >= len(column):
                    score, row = best.result()
                    row[row >= 0] += column.start
                    yield {"scores": score.cpu().numpy(), "rows": row.cpu().numpy()}

    def about() -> list[object]:
        return [probes, rows, k, probes.device.type, *(exclude or ())]

    for (part, column), piece in zip(pieces, results("nearest", about, pieces, compute, outside, title), strict=True):
        shown, more = slice(part.start, part.stop), [torch.from_numpy(piece[name]) for name in ("scores", "rows")]
        if column.start:  # of equal scores the lower row comes first, which the earlier columns have
            more = [torch.cat([kept[shown].cpu(), new], 1) for kept, new in zip((scores, found), more, strict=True)]
            order = _descending(more[0])[:, :k]
            more = [both.gather(1, order) for both in more]
        scores[shown], found[shown] = (new.to(probes.device) for new in more)
    return scores, found


def _gallery_rows(probes: int, rows: int, together: int) -> int:
    """The gallery rows of a piece of work; the whole gallery where its pieces are enough or small."""
    height = max(PAIRS_A_PIECE // min(together, probes or 1), LEAST_GALLERY_ROWS)
    while height > LEAST_GALLERY_ROWS and -(-probes // together) * -(-rows // height) < LEAST_PIECES:
        height //= 2
    return min(max(height, LEAST_GALLERY_ROWS), rows)


def as_tensor(rows: Float32[Tensor, "rows dim"] | Float32[np.ndarray, "rows dim"]) -> Float32[Tensor, "rows dim"]:
    """The rows as a tensor that shares their memory; one of a read-only array must not be written to."""
    if isinstance(rows, Tensor):
        return rows
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(np.asarray(rows))


class _Best:
    """Probes with their candidates: the gallery rows so far that may be among the k best, always ascending."""

    def __init__(
        self,
        probes: Float32[Tensor, "probes dim"],
        gallery: Float32[Tensor, "gallery dim"],
        k: int,
        precision: Precision,
        exclude: tuple[Int64[Tensor, " probes"], Int64[Tensor, " gallery"]] | None,
    ) -> None:
        self.probes, self.gallery, self.k, self.precision, self.exclude = probes, gallery, k, precision, exclude
        self.rounded = rounded(probes, precision)
        count, device = len(probes), probes.device
        self.width = 4 * k + RUN_PRODUCTS
        self.value = torch.full((count, self.width), NO_PAIR, device=device)
        self.row = torch.full((count, self.width), -1, dtype=torch.int64, device=device)
        self.fill = torch.zeros(count, dtype=torch.int64, device=device)
        self.floor = torch.full((count,), 2 * NO_PAIR, dtype=torch.float64, device=device)
        self.error = 0.0  # no product or kept value is further from its score, but for `shortened`
        # bfloat16 products leave a CPU as bfloat16, rounded by up to this part of themselves
        self.shortened = 2.0**-8 if precision == "bfloat16" and device.type == "cpu" else 0.0
        self.unit = 1.0  # of the current products
        self.seen = self.raised = 0  # gallery rows, in all and when the floor was raised last
        self.memory: Tensor | None = None

    def take(self, first: int, rows: Float32[Tensor, "block dim"]) -> None:
        side = rounded(rows.to(self.probes.device), self.precision, first)
        self.error = max(self.error, Screen(self.rounded, side).error + _STORED)
        spare = -len(rows) % RUN_PRODUCTS
        columns = torch.cat([side.rows, side.rows.new_zeros(spare, side.rows.shape[1])]) if spare else side.rows
        tile = TILE_PRODUCTS.get(self.probes.device.type, GPU_TILE_PRODUCTS)
        if self.memory is None:
            self.memory = columns.new_empty(0, dtype=product_type(columns.dtype))
        self.unit = self.rounded.unit * side.unit
        height = max(tile // len(columns), 1)
        self.seen += len(rows)
        rise = self.seen >= FLOOR_RISES_AFTER_GROWTH * self.raised
        for start in range(0, len(self.probes), height):
            part = slice(start, min(start + height, len(self.probes)))
            found = products(self.rounded.rows[part], columns, self.memory)
            found[:, len(rows) :] = self._nothing(found.dtype)
            if first == 0:
                self._first_floor(part, found, len(rows))
            self._add(part, *self._reaching(part, found, first))
            if rise:
                self._raise_floor(part, self.value[part])
        if rise:
            self.raised = self.seen

    def result(self) -> tuple[Float64[Tensor, "probes k"], Int64[Tensor, "probes k"]]:
        """The k best rows, once the whole gallery was added."""
        everything = slice(0, len(self.probes))
        self._raise_floor(everything, self.value)
        self._drop(everything)
        near = self.row[:, : max(int(self.fill.max()), self.k)]
        some = near.clamp(min=0)
        scores = torch.empty(near.shape, dtype=torch.float64, device=near.device)
        for part, width in _alike(self.fill, max(NUMBERS_MULTIPLIED // self.probes.shape[1], 1)):
            scores[part, :width] = _score(self.probes[part], self.gallery, some[part, :width])
        scores.masked_fill_(near < 0, -torch.inf)
        order = _descending(scores)[:, : self.k]
        return scores.gather(1, order), near.gather(1, order)

    def _first_floor(self, part: slice, products: Tensor, columns: int) -> None:
        """The floor from the first rows: at least k of them reach the k-th highest maximum of disjoint groups."""
        if self.exclude is not None:
            same = self.exclude[0][part, None] == self.exclude[1][None, :columns]
            products[:, :columns][same] = self._nothing(products.dtype)
        size = 1
        while products.shape[1] % (2 * size) == 0 and products.shape[1] // (2 * size) >= 4 * self.k:
            size *= 2
        best = products.view(len(products), size, -1).amax(1)
        if best.shape[1] >= self.k:
            self._raise_floor(part, best.float() * self.unit)

    def _nothing(self, dtype: torch.dtype) -> int | float:
        return as_product(torch.tensor(NO_PAIR, dtype=torch.float64), self.unit, dtype, -1).item()

    def _reaching(
        self, part: slice, products: Tensor, first: int
    ) -> tuple[Int64[Tensor, " found"], Int64[Tensor, " found"], Float32[Tensor, " found"]]:
        """Probes, gallery rows and products of the pairs that reach their probe's floor, within the error."""
        cut = (self.floor[part] - self.error).clamp(min=NO_PAIR / 2)
        cut = as_product(cut, self.unit, products.dtype, -1)
        # Maxima of integers are several times faster, and the bits of floating-point numbers above 0 rise with them.
        # A floor of 0 or less lets all runs of those through here.
        whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[products.element_size()]
        if products.dtype == torch.int32:
            least = cut.clamp_(min=self._nothing(products.dtype) + 1)
        else:
            least = torch.where(cut > 0, cut.view(whole), torch.iinfo(whole).min)
        runs = products.view(-1, RUN_PRODUCTS)
        columns = products.shape[1] // RUN_PRODUCTS
        hit = true_places(runs.view(whole).amax(1).view(-1, columns) >= least[:, None])
        probe = torch.div(hit, columns, rounding_mode="floor")
        inside = runs.index_select(0, hit)
        place = true_places(inside.view(whole) >= least.index_select(0, probe)[:, None])
        run = torch.div(place, RUN_PRODUCTS, rounding_mode="floor")
        value, probe = inside.view(-1).index_select(0, place), probe.index_select(0, run)
        row = (hit.index_select(0, run) - probe * columns) * RUN_PRODUCTS + place - run * RUN_PRODUCTS + first
        kept = value >= cut.index_select(0, probe)
        probe += part.start
        if self.exclude is not None:
            kept &= self.exclude[0][probe] != self.exclude[1][row.clamp(max=len(self.gallery) - 1)]
        found = probe, row, value.float() * self.unit
        return found if bool(kept.all()) else (found[0][kept], found[1][kept], found[2][kept])

    def _add(
        self,
        part: slice,
        probe: Int64[Tensor, " found"],
        row: Int64[Tensor, " found"],
        value: Float32[Tensor, " found"],
    ) -> None:
        """Store the candidates of these probes, probes ascending."""
        more = torch.bincount(probe - part.start, minlength=part.stop - part.start)
        if bool((self.fill[part] + more > self.width).any()):
            self._raise_floor(part, self.value[part])
            self._drop(part)
            full = self.fill[part] + more > self.width
            for number in (true_places(full) + part.start).tolist():
                mine = probe == number
                self._settle(number, row[mine])
            fits = ~full[probe - part.start]
            probe, row, value, more = probe[fits], row[fits], value[fits], more.masked_fill(full, 0)
        # a probe's first free place, less how many were found for the probes before it
        free = torch.arange(part.start, part.stop, device=probe.device) * self.width + self.fill[part]
        free -= more.cumsum(0) - more
        place = free.index_select(0, probe - part.start) + torch.arange(len(probe), device=probe.device)
        self.value.view(-1).scatter_(0, place, value)
        self.row.view(-1).scatter_(0, place, row)
        self.fill[part] += more

    def _raise_floor(self, part: slice, values: Float32[Tensor, "part values"]) -> None:
        """Raise the floor of these probes to the lowest score that their k-th highest value can stand for."""
        count = values.shape[1]
        if values.device.type == "cpu":  # numpy's partition is vectorised
            high = torch.from_numpy(np.partition(values.numpy(), count - self.k, axis=1)[:, count - self.k])
        else:
            high = values.topk(self.k, sorted=False).values.amin(1)
        lowest = high.double() - high.double().abs() * self.shortened - self.error
        self.floor[part] = torch.maximum(self.floor[part], lowest)

    def _drop(self, part: slice) -> None:
        cut = self.floor[part] - self.error
        cut -= cut.abs() * self.shortened
        kept = (self.value[part] >= cut[:, None]) & (self.row[part] >= 0)
        place = true_places(kept)
        value, row = self.value[part].reshape(-1)[place], self.row[part].reshape(-1)[place]
        self.value[part], self.row[part], self.fill[part] = NO_PAIR, -1, 0
        self._add(part, torch.div(place, self.width, rounding_mode="floor") + part.start, row, value)

    def _settle(self, number: int, more: Int64[Tensor, " more"]) -> None:
        """Reduce one probe's candidates and these, which exceed the memory for them, to the k best by exact score."""
        near = torch.cat([self.row[number, : int(self.fill[number])], more])
        exact = _score(self.probes[number : number + 1], self.gallery, near[None])[0]
        kept = _descending(exact[None])[0, : self.k].sort().values  # back to ascending rows
        self.value[number], self.row[number], self.fill[number] = NO_PAIR, -1, len(kept)
        self.value[number, : len(kept)], self.row[number, : len(kept)] = exact[kept].float(), near[kept]


def _score(
    probes: Float32[Tensor, "probes dim"], gallery: Float32[Tensor, "gallery dim"], rows: Int64[Tensor, "probes near"]
) -> Float64[Tensor, "probes near"]:
    """Scores of each probe with its own gallery rows, equal to those of `pair_scores`.

    On a CPU a probe's row is multiplied with all of its gallery rows at once, several times faster than pair by pair.
    """
    if probes.device.type != "cpu":
        left = torch.arange(len(probes), device=probes.device).repeat_interleave(rows.shape[1])
        near = gallery[rows.flatten().to(gallery.device)].to(probes.device)
        return pair_scores(probes, left, torch.arange(len(left), device=probes.device), near).view(rows.shape)
    scores = torch.zeros(rows.shape, dtype=torch.float64)
    own = probes.double()[:, None]
    step = max(NUMBERS_MULTIPLIED // probes.shape[1], 1)
    for start in range(0, rows.shape[1], step):
        part, score = rows[:, start : start + step], scores[:, start : start + step]
        near = gallery.index_select(0, part.flatten()).double().view(*part.shape, own.shape[-1]).mul_(own)
        for column in range(0, own.shape[-1], COLUMNS_SUMMED):
            score += near[..., column : column + COLUMNS_SUMMED].sum(-1)
    return scores


def _descending(scores: Float64[Tensor, "probes near"]) -> Int64[Tensor, "probes near"]:
    """The stable order of descending scores."""
    if scores.device.type == "cpu":
        return torch.from_numpy(np.argsort(-scores.numpy(), axis=1, kind="stable"))
    return scores.sort(dim=1, descending=True, stable=True).indices


def _alike(fill: Int64[Tensor, " probes"], most: int) -> Iterator[tuple[slice, int]]:
    """Runs of probes with the largest number of candidates in each, whose product is at most `most` or of one probe."""
    start, widest = 0, 0
    counts = fill.tolist()
    for number, count in enumerate(counts):
        if number > start and max(widest, count) * (number - start + 1) > most:
            yield slice(start, number), widest
            start, widest = number, 0
        widest = max(widest, count)
    if counts:
        yield slice(start, len(counts)), widest


def _check(
    probes: Float32[Tensor, "probes dim"],
    gallery: Float32[Tensor, "gallery columns"],
    k: int,
    precision: Precision,
    exclude: tuple[Tensor, Tensor] | None,
    block: int,
) -> None:
    if probes.shape[1] != gallery.shape[1]:
        raise ValueError(f"probes have {probes.shape[1]} numbers a row but the gallery has {gallery.shape[1]}")
    if not 1 <= k <= len(gallery):
        raise ValueError(f"k must lie between 1 and the {len(gallery)} rows of the gallery, got {k}")
    check_word("precision", precision, Precision)
    check_at_least("block", block)
    sizes = len(probes), len(gallery)
    if exclude is not None and (len(exclude[0]), len(exclude[1])) != sizes:
        raise ValueError(
            f"exclude has {len(exclude[0])} and {len(exclude[1])} numbers for {sizes[0]} probes and {sizes[1]} rows"
        )


_BLOCK = 1 << 14  # rows of a product, of which only the maxima of runs are kept
_RUN = 16  # rows whose maximum is compared before they are
_NUMBERS = 1 << 26  # float32 maxima, or products, at a time, for so many probes as this allows, and one at least


def best_people(
    probes: Float32[Tensor, "probes dim"],
    rows: Float32[Tensor, "rows dim"] | Float32[np.ndarray, "rows dim"],
    person: Int64[np.ndarray, " rows"],
    count: int,
    progress: Progress = quietly,
) -> tuple[Float64[np.ndarray, "probes count"], Int64[np.ndarray, "probes count"]]:
    """The highest score of each of a probe's `count` best people, descending, and the row that has it.

    Of equal scores the lower row comes first. Where there are fewer people, the rest has score minus infinity and row
    -1. All rows have length 1, and those of a memory-mapped file are not copied. Rows of a negative person are not
    compared.

    >>> rows = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    >>> best_people(torch.eye(2), rows, np.array([7, 7, 9]), 2)[1].tolist()
    [[0, 2], [2, 1]]
    """
    gallery = as_tensor(rows)
    scores, nearest = np.full((len(probes), count), -np.inf), np.full((len(probes), count), -1, np.int64)
    gone = torch.from_numpy(person < 0)
    runs = -(-len(gallery) // _RUN)
    step = max(_NUMBERS // max(runs, min(len(gallery), _BLOCK), 1), 1)
    starts = range(0, 0 if gone.all() else len(probes), step)
    for start in progress(starts, "searching the gallery", len(starts)):
        part = probes[start : start + step]
        highest = torch.empty(runs, len(part))
        for first in range(0, len(gallery), _BLOCK):
            products = _products(gallery[first : first + _BLOCK], part, gone[first : first + _BLOCK])
            there = highest[first // _RUN : (first + _BLOCK) // _RUN]
            whole = len(products) // _RUN
            torch.amax(products[: whole * _RUN].unflatten(0, (whole, _RUN)), 1, out=there[:whole])
            if whole < len(there):
                torch.amax(products[whole * _RUN :], 0, out=there[whole])
        for place, maxima in enumerate(highest.T.contiguous()):
            near = _candidates(part[place : place + 1], gallery, gone, maxima, person, count)
            exact = pair_scores(part, torch.full_like(near, place), near, gallery).numpy()
            order = np.lexsort((near.numpy(), -exact))
            first_of = np.sort(np.unique(person[near.numpy()[order]], return_index=True)[1])[:count]
            scores[start + place, : len(first_of)] = exact[order[first_of]]
            nearest[start + place, : len(first_of)] = near.numpy()[order[first_of]]
    return scores, nearest


def _products(
    rows: Float32[Tensor, "rows dim"], probes: Float32[Tensor, "probes dim"], gone: Bool[Tensor, " rows"]
) -> Float32[Tensor, "rows probes"]:
    """Products in float32; minus infinity for rows that are gone."""
    with full_float32():
        products = rows @ probes.T if len(probes) > 1 else (rows @ probes[0])[:, None]
    return products.masked_fill_(gone[:, None], -torch.inf) if gone.any() else products


def _candidates(
    probe: Float32[Tensor, "1 dim"],
    gallery: Float32[Tensor, "rows dim"],
    gone: Bool[Tensor, " rows"],
    maxima: Float32[Tensor, " runs"],
    person: Int64[np.ndarray, " rows"],
    count: int,
) -> Int64[Tensor, " near"]:
    """The rows that may be the best of one of the `count` best people."""

    def reaching(floor: float) -> tuple[Int64[Tensor, " near"], np.ndarray]:
        """Rows whose product is at least so high, and these products."""
        near = ((maxima >= floor).nonzero() * _RUN + torch.arange(_RUN)).flatten()
        near = near[near < len(gallery)]
        rows = gallery if len(near) == len(gallery) else gallery.index_select(0, near)
        products = _products(rows, probe, gone[near])[:, 0]
        high = (products >= floor) & (products > -torch.inf)
        return near[high], products[high].numpy()

    looked_at, error = 2 * count, 2 * rough_error(gallery.shape[1])
    while True:
        floor = float(maxima.topk(min(looked_at, len(maxima))).values[-1])
        near, products = reaching(floor)
        order = np.argsort(-products, kind="stable")
        first = np.sort(np.unique(person[near.numpy()][order], return_index=True)[1])
        if len(first) >= count:
            least = float(products[order[first[count - 1]]]) - error
            return near[products >= least] if least >= floor else reaching(least)[0]
        if looked_at >= len(maxima):
            return reaching(-float(torch.finfo(torch.float32).max))[0]
        looked_at *= 4
