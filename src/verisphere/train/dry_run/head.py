"""Memory and work of a head in one step on one rank, from the recipe and the number of classes."""

from collections.abc import Iterator
from math import ceil

from verisphere.head import Auto, Streamed, SubCenters
from verisphere.head.passes import chunk_size
from verisphere.head.sampled import sample_size
from verisphere.head.sparse import why_not_sparse
from verisphere.head.streamed import CHUNK_ELEMENTS
from verisphere.losses.class_loss import ClassLoss
from verisphere.score.batch_tiles import fastest
from verisphere.train.dry_run.measured import DenseCost
from verisphere.train.recipe import Recipe

FLOAT = 4
#: Bytes for each product of a chunk while a loss works on it, and for each number of the chunk's centers.
_PER_PRODUCT, _PER_CENTER_NUMBER = 24, 10
#: Bytes that the sparse engine knows of a center: its length, momentum, rounding, and step, and how far it has turned.
_KNOWN_OF_A_CENTER = 32


def states(recipe: Recipe) -> int:
    """The number of values that the optimizer keeps for each weight."""
    return 2 if recipe.optimizer.name == "adamw" else int(recipe.optimizer.momentum > 0)


class HeadWork:
    """The head of one rank, with the classes that the rank holds, for one part of the global batch.

    Attributes:
        engine: the name of the engine: dense, streamed, sparse, or sampled.
        seen: number of classes that a step compares with.
        batch: rows of the largest part of the global batch.
        columns: number of entries of a center.
        deferred: whether the head updates its centers itself, without their gradient.
    """

    def __init__(self, recipe: Recipe, held: int, device: str, teacher_size: int = 0) -> None:
        self.recipe, self.held, self.teacher_size = recipe, held, teacher_size
        self.batch = ceil(recipe.batch_size / recipe.accumulate)
        self.columns = recipe.backbone.embedding_size + recipe.loss.class_bias
        sampled = recipe.engine == "sampled"
        self.seen = sample_size(recipe.sample_rate, held, min(self.batch, held)) if sampled else held
        fused = recipe.optimizer.name == "sgd" and recipe.accumulate == 1
        centers = SubCenters(recipe.subcenters, recipe.pooling, recipe.temperature, recipe.pull_together)
        many = recipe.engine == "auto" and self.products > Auto().dense_before_sparse(device)
        sparse = fused and (recipe.engine == "sparse" or many) and why_not_sparse(recipe.loss, centers) is None
        few = recipe.engine == "auto" and self.products <= Auto().logits and not sparse
        self.dense = recipe.engine == "dense" or few
        self.engine = "sampled" if sampled else "sparse" if sparse else "dense" if self.dense else "streamed"
        self.deferred = fused and (sampled or not self.dense)
        self._device, self._elements = device, CHUNK_ELEMENTS.get(device, CHUNK_ELEMENTS["cuda"])

    @property
    def row(self) -> int:
        """Bytes of a class's centers."""
        return self.recipe.subcenters * self.columns * FLOAT

    @property
    def centers(self) -> int:
        """Bytes of the centers of the held classes."""
        return self.held * self.row

    @property
    def center_gradient(self) -> int:
        """Bytes of the centers' gradient: 0 if it is deferred; with several parts, one gradient beside their sum."""
        return 0 if self.deferred else self.centers * (1 if self.recipe.accumulate == 1 else 2)

    @property
    def update(self) -> int:
        """Bytes of a copy of the gradient with the weight decay, or of AdamW's denominator and step."""
        return 0 if self.deferred else self.centers * (2 if self.recipe.optimizer.name == "adamw" else 1)

    @property
    def sampled(self) -> int:
        """Bytes of the drawn classes' centers, of their gradient if computed, and of their momentum in the update."""
        return (1 + self.dense + states(self.recipe)) * self.seen * self.row if self.engine == "sampled" else 0

    @property
    def screen(self) -> int:
        """Bytes of the sparse engine's screen, and of what it knows of each center; a screen in float32 has no copy."""
        if self.engine != "sparse":
            return 0
        number = {"int8": 1, "bfloat16": 2, "float32": 0}[fastest(self._device, self.columns, None)]
        return self.held * self.recipe.subcenters * (number * self.columns + _KNOWN_OF_A_CENTER)

    @property
    def products(self) -> int:
        """Number of pairs of a row and a center, in one part of the batch."""
        return self.batch * self.seen * self.recipe.subcenters

    @property
    def one_pass(self) -> bool:
        """Whether the streamed engine's first pass computes the centers' gradient; a deferred one is computed later."""
        return self.recipe.loss.one_pass(self.recipe.pull_together) and not self.deferred

    @property
    def terms(self) -> Iterator[tuple[ClassLoss, bool]]:
        """The losses that compare with other centers, and whether exponentials are kept, as by `StreamedView.rest`."""
        budget = Streamed().keep_bytes
        for _, loss in self.recipe.loss.terms:
            if loss.query == "none":
                continue
            bfloat16 = self.recipe.head_precision == "bfloat16" and not loss.exact_products
            keeps = bfloat16 and not self.one_pass and 2 * self.products <= budget
            keeps = keeps and not self.dense
            budget -= 2 * self.products * keeps
            yield loss, keeps

    @property
    def kept(self) -> int:
        """Bytes of the exponentials that are kept for the second pass."""
        return sum(2 * self.products for _, keeps in self.terms if keeps)

    def logits(self, cost: DenseCost) -> int:
        """Bytes that dense autograd keeps, and those of its backward: two numbers a product, a copy of the centers."""
        saved = cost.saved(self.batch, self.seen)
        return saved + 2 * FLOAT * self.products + self.seen * self.row

    @property
    def chunks(self) -> int:
        """Bytes of one chunk of classes while it is processed, and of the lengths of all centers."""
        if self.dense:
            return 0
        most = max(self._elements // (self.recipe.subcenters * max(self.batch, self.columns)), 64)
        centers = chunk_size(self.seen, most, self._device) * self.recipe.subcenters
        lengths = self.seen * self.recipe.subcenters * FLOAT
        return centers * (self.batch * _PER_PRODUCT + self.columns * _PER_CENTER_NUMBER) + lengths

    @property
    def rows(self) -> int:
        """Bytes of embeddings, unit rows, own centers, unit own centers, and the gradients of all of them."""
        return self.batch * self.columns * FLOAT * (4 + 4 * self.recipe.subcenters)

    @property
    def flops(self) -> int:
        """Floating-point operations of a step's products, a multiplication and its addition counting as two.

        3 products for each row and center, and a fourth if the streamed engine computes them again in its second pass;
        more for a loss that looks for the nearest centers or has a teacher."""
        each = 2 * self.products * self.columns
        if self.engine == "sparse":  # the screened product; those of the few classes that remain are not counted
            return each * self.recipe.accumulate
        count = of_teacher = 0
        for loss, keeps in self.terms:
            again = not (keeps or self.one_pass or self.dense)
            count += 3 + again + loss.teacher  # a teacher's normaliser takes a pass of its own
            count += loss.nearest > 0
            of_teacher += loss.teacher * (2 + again)
        with_teacher = 2 * self.batch * self.seen * self.teacher_size
        return (count * each + of_teacher * with_teacher) * self.recipe.accumulate
