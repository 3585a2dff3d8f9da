"""A screen of the class centers: their directions rounded to a fast type, and which of them may be near a row.

The product of a rounded row and a rounded center differs from their cosine by at most what rounding has taken from
either (Cauchy and Schwarz), by what the center's direction has turned since it was rounded, and by the summing. So one
product of low precision, with these bounds, finds every center whose cosine can reach a floor.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Float, Float32, Int64, Shaped
from torch import Tensor

from verisphere.base.device import full_float32
from verisphere.head.chunk import inverse_length
from verisphere.score.exact.screen import as_product, exact_int8, int8_unit, product_type, products, true_places

#: Numbers of centers that are brought up, measured or rounded at once, by device.
AT_ONCE = {"cpu": 2**18, "cuda": 2**25}
#: Largest number of a chunk's products, by device.
PRODUCTS = {"cpu": 2**20, "cuda": 2**27}
RUN = 64  # products whose maximum is compared before they are
RAISED_AFTER = 3.0  # the floors rise when the part of the centers that has been seen has grown by this
SAMPLED = 4096  # centers that tell the error of most
_NOTHING = -(2**30)  # a product that marks the own class, or no class
_WHOLE = {2: torch.int16, 4: torch.int32, 8: torch.int64}


class Near(NamedTuple):
    """Pairs of a row and a center, of which each class has K, whose cosine may reach the row's floor; its bound."""

    row: Int64[Tensor, " pairs"]
    center: Int64[Tensor, " pairs"]
    at_most: Float32[Tensor, " pairs"]


class Undecided(Exception):
    """The screen leaves too many pairs open to be worth their exact products."""


class CenterScreen:
    """The directions of all centers in a fast type, and how far each may be from what it stands for.

    For float32 and float64 products the screen consists of the stored centers themselves and one over their lengths.
    The type of the products is int8, bfloat16, or that of the centers.
    """

    def __init__(self, centers: Float[Tensor, "classes subcenters columns"], dtype: torch.dtype) -> None:
        if dtype == torch.int8 and not (centers.device.type == "cpu" and exact_int8(centers.shape[2])):
            raise ValueError(
                f"products in int8 are not exact on this {centers.device.type}; choose another type for the screen"
            )
        self._centers, self._dtype, self._unit = centers.detach(), dtype, 1.0
        self._scale = torch.zeros_like(self._centers[..., 0])  # one over the length of each center
        self._lost = torch.zeros_like(self._scale, dtype=torch.float32)
        self._rounded: Tensor | None = None
        if dtype in (torch.int8, torch.bfloat16):
            self._rounded = torch.zeros_like(self._centers, dtype=dtype)
        if dtype == torch.int8:
            some = self._centers.flatten(0, 1)[:: max(self._scale.numel() // 1024, 1)]
            self._unit = int8_unit((some * inverse_length(some)[:, None]).float())
        self._room = torch.empty(0, dtype=product_type(dtype), device=centers.device)
        self.renew()

    def renew(self, classes: Int64[Tensor, " some"] | None = None) -> None:
        """Round the stored centers of these classes, or of all."""
        for some in parts(self._centers, classes):
            stored = self._centers.index_select(0, some)
            scale = self._scale[some] = inverse_length(stored.flatten(0, 1)).view(stored.shape[:2])
            rounded, lost = rounded_rows((stored * scale[..., None]).float(), self._dtype, self._unit)
            self._lost[some] = lost.masked_fill(scale > 1e12, torch.inf)  # it may be 0 once its late steps are made
            if self._rounded is not None:
                self._rounded[some] = rounded

    def near(
        self,
        query: Float[Tensor, "batch columns"],
        labels: Int64[Tensor, "batch"],
        turned: Float32[Tensor, "classes subcenters"],
        floor: Callable[[Int64[Tensor, "batch"]], Float[Tensor, "batch"]],
        most: int,
    ) -> Near:
        """Every pair of a row and a center of another class whose cosine may be above the row's floor.

        Rows have length 1. `turned` is how far each direction may be from that of the stored center; `floor` gives a
        lower bound of each row's floor, by the number of a center near it, -1 where none is known.
        Raises `Undecided` where more pairs than `most` remain open, or a bound is not finite.
        """
        off = (self._lost + turned).flatten()
        left, unit, lost = self._operand(query)
        # |x w - x'w'| <= |x - x'| |w| + |x'| |w - w'|; two roundings a term in the sum of the product, and its own
        summing = 4 * query.shape[1] * torch.finfo(torch.promote_types(self._dtype, torch.float32)).eps
        fixed = lost + summing + (2.0**-7 if self._dtype == torch.bfloat16 else 2.0**-21)
        longest = 1.0 + lost
        if not fixed + longest * float(off.max()) < 0.5:
            raise Undecided(f"the screen may be off by {fixed + longest * float(off.max()):.3g} in cosine")
        batch, per_class, count = len(query), self._centers.shape[1], len(off)
        usual = 1.05 * off[:: max(count // SAMPLED, 1)].median() + 0.001
        error = fixed + longest * float(usual)
        # what the products of the few centers that are off by more are raised by, so that one bound holds for all
        raised = (off - usual).clamp(min=0.0) * (longest / unit)
        raised = raised.ceil().int() if self._dtype == torch.int8 else raised.to(self._room.dtype)
        raised = torch.nn.functional.pad(raised, (0, -count % RUN)).view(-1, RUN)
        most_raised = raised.amax(1)
        own = labels[:, None] * per_class + torch.arange(per_class, device=labels.device)  # negative for no class
        floors = cut = query.new_full((batch,), -torch.inf)
        leader, leading = torch.full_like(labels, -1), query.new_zeros(batch)
        found: list[tuple[Tensor, Tensor, Tensor]] = []
        compared = total = 0
        for first, product in self._products(left, own):
            columns, last = product.shape[1] // RUN, first + product.shape[1]
            runs = product.view(-1, RUN)
            higher, most_higher = (each[first // RUN : last // RUN] for each in (raised, most_raised))
            # maxima of whole numbers are several times faster; the bits of negative numbers fall as these rise
            tops = runs.view(_WHOLE[product.element_size()]).amax(1).view(product.dtype).view(batch, columns)
            tops = tops.clamp_(min=0).add_(most_higher)
            if compared and not bool((tops >= cut[:, None]).any()):
                continue  # nor can any of them raise a floor
            highest, best = tops.max(1)
            leads = true_places(highest > leading)
            leading = leading.maximum(highest)
            best = best.index_select(0, leads)
            inside = runs.index_select(0, leads * columns + best) + higher.index_select(0, best)
            value, place = inside.max(1)  # a run may hold the own class alone, whose mark is raised
            leader[leads] = torch.where(value > _NOTHING // 2, first + best * RUN + place, leader[leads])
            if last >= RAISED_AFTER * compared or last >= count:
                floors, compared = floors.maximum(floor(leader)), last
                cut = as_product(floors.double() - error, unit, product.dtype, -1).clamp(min=_NOTHING // 2)
            hit = true_places(tops >= cut[:, None])
            row = torch.div(hit, columns, rounding_mode="floor")
            inside = runs.index_select(0, hit) + higher.index_select(0, hit - row * columns)
            place = true_places(inside >= cut.index_select(0, row)[:, None])
            run = torch.div(place, RUN, rounding_mode="floor")
            row = row.index_select(0, run)
            center = (hit.index_select(0, run) - row * columns) * RUN + place - run * RUN + first
            found.append((row, center, inside.view(-1).index_select(0, place).float()))
            total += len(row)
            if total > most:
                raise Undecided(f"more than {most:,} pairs of a row and a center may be near")
        row, center, value = (torch.cat(column) for column in zip(*found, strict=True))
        at_most = (
            (value - raised.view(-1).index_select(0, center)) * unit + fixed + longest * off.index_select(0, center)
        )
        near = at_most >= floors.index_select(0, row)
        return Near(row[near], center[near], at_most[near])

    def _operand(self, query: Tensor) -> tuple[Tensor, float, float]:
        """The rows in the type of the products, the value of 1 in the products, and what rounding took from a row."""
        if self._rounded is None:
            return query.to(self._dtype), 1.0, 0.0
        unit = int8_unit(query.float()) if self._dtype == torch.int8 else 1.0
        rounded, lost = rounded_rows(query.float(), self._dtype, unit)
        return rounded, unit * self._unit, float(lost.max())

    def _products(self, left: Tensor, own: Tensor) -> Iterator[tuple[int, Tensor]]:
        """The first center of each chunk, and its products with all rows but their own; a multiple of RUN columns."""
        step = max(PRODUCTS.get(left.device.type, PRODUCTS["cuda"]) // (len(left) * RUN), 1) * RUN
        right, scale = (self._centers if self._rounded is None else self._rounded).flatten(0, 1), self._scale.flatten()
        own, order = own.flatten().sort()
        row = torch.div(order, self._centers.shape[1], rounding_mode="floor")
        marks = torch.searchsorted(own, torch.arange(0, len(right) + step, step).to(own)).tolist()
        with full_float32():
            for first, some in zip(range(0, len(right), step), pairwise(marks), strict=True):
                product = products(left, right[first : first + step], self._room)
                if self._rounded is None:
                    product.mul_(scale[first : first + step])
                product[row[slice(*some)], own[slice(*some)] - first] = _NOTHING
                spare = -product.shape[1] % RUN
                yield first, torch.nn.functional.pad(product, (0, spare), value=_NOTHING) if spare else product


def parts(
    centers: Float[Tensor, "classes subcenters columns"], classes: Int64[Tensor, " some"] | None = None
) -> Iterator[Int64[Tensor, " part"]]:
    """These classes, or all, in parts whose centers stay in a cache."""
    every = torch.arange(len(centers), device=centers.device) if classes is None else classes
    numbers = AT_ONCE.get(centers.device.type, AT_ONCE["cuda"])
    yield from every.split(max(numbers // centers.shape[1:].numel(), 1))


def rounded_rows(
    units: Float32[Tensor, "*rows dim"], dtype: torch.dtype, unit: float
) -> tuple[Shaped[Tensor, "*rows dim"], Float32[Tensor, "*rows"]]:
    """Rows in a type, and an upper bound of the length of what each has lost; infinite for a row without direction.

    The rows have length 1, to within rounding; `unit` is the value of 1 in int8.
    """
    rounded = (units / unit).round_().clamp_(-127, 127).to(torch.int8) if dtype == torch.int8 else units.to(dtype)
    lost = torch.linalg.vector_norm(units - rounded.float() * unit, dim=-1)
    straight = (torch.linalg.vector_norm(units, dim=-1) - 1.0).abs() < 1e-4
    # measuring rounds, and so did the direction; a row is as short as 1 less what rounding takes
    return rounded, torch.where(straight, lost * (1 + units.shape[-1] * 2.0**-23) + 1e-6, torch.inf)
