"""What a head holds and computes in a step on one process: bytes and products, by recipe and number of classes."""

from collections.abc import Iterator
from math import ceil

from verisphere.head import Auto, Streamed
from verisphere.head.sampled import sample_size
from verisphere.head.streamed import CHUNK_ELEMENTS
from verisphere.losses.class_loss import ClassLoss
from verisphere.train.dry_run.measured import DenseCost
from verisphere.train.recipe import Recipe

FLOAT = 4
#: Bytes for each product of a chunk while a loss works on it, and for each number of the chunk's centers.
_PER_PRODUCT, _PER_CENTER_NUMBER = 24, 10


def states(recipe: Recipe) -> int:
    """Numbers that the optimizer keeps for each weight."""
    return 2 if recipe.optimizer.name == "adamw" else int(recipe.optimizer.momentum > 0)


class HeadWork:
    """The head of one process, over the classes that it holds, for one part of the global batch.

    Args:
        recipe: loss, engine, optimizer and batch.
        held: classes.
        device: type of it, cpu or cuda.
        teacher_size: numbers in an embedding of the teacher that the loss compares with.

    Attributes:
        dense: whether the dense engine looks at the classes.
        engine: the name of the engine: dense, streamed, or sampled.
        seen: classes that a step looks at.
        batch: rows of the largest part of the global batch.
        columns: numbers of a center.
        deferred: whether the head updates its centers itself, without their gradient.
    """

    def __init__(self, recipe: Recipe, held: int, device: str, teacher_size: int = 0) -> None:
        self.recipe, self.held, self.teacher_size = recipe, held, teacher_size
        self.batch = ceil(recipe.batch_size / recipe.accumulate)
        self.columns = recipe.backbone.embedding_size + recipe.loss.class_bias
        sampled = recipe.engine == "sampled"
        self.seen = sample_size(recipe.sample_rate, held, min(self.batch, held)) if sampled else held
        few = self.products <= Auto().logits
        self.dense = recipe.engine == "dense" or (recipe.engine == "auto" and few)
        self.engine = "sampled" if sampled else "dense" if self.dense else "streamed"
        self.deferred = recipe.optimizer.name == "sgd" and recipe.accumulate == 1 and (sampled or not self.dense)
        self._elements = CHUNK_ELEMENTS.get(device, CHUNK_ELEMENTS["cuda"])

    @property
    def row(self) -> int:
        """Bytes of a class's centers."""
        return self.recipe.subcenters * self.columns * FLOAT

    @property
    def centers(self) -> int:
        """Bytes of those held."""
        return self.held * self.row

    @property
    def center_gradient(self) -> int:
        """None where the head steps by itself; while parts add up, one beside their sum."""
        return 0 if self.deferred else self.centers * (1 if self.recipe.accumulate == 1 else 2)

    @property
    def update(self) -> int:
        """A copy of the gradient with the weight decay, or AdamW's denominator and step."""
        return 0 if self.deferred else self.centers * (2 if self.recipe.optimizer.name == "adamw" else 1)

    @property
    def sampled(self) -> int:
        """Centers of the classes drawn, their gradient if it is made, and their momentum while it is updated."""
        return (1 + self.dense + states(self.recipe)) * self.seen * self.row if self.engine == "sampled" else 0

    @property
    def products(self) -> int:
        """Rows times centers that a step looks at."""
        return self.batch * self.seen * self.recipe.subcenters

    @property
    def one_pass(self) -> bool:
        """Whether the streamed engine makes the centers' gradient in its first pass; a deferred one is made later."""
        return self.recipe.loss.one_pass(self.recipe.pull_together) and not self.deferred

    @property
    def terms(self) -> Iterator[tuple[ClassLoss, bool]]:
        """The losses that look at other centers, and whether each keeps its exponentials; as a view does."""
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
        """Bytes of the exponentials that wait for the second pass."""
        return sum(2 * self.products for _, keeps in self.terms if keeps)

    def logits(self, cost: DenseCost) -> int:
        """What dense autograd keeps, and two logits and a center beside it in the backward."""
        saved = cost.saved(self.batch, self.seen)
        return saved + 2 * FLOAT * self.products + self.seen * self.row

    @property
    def chunks(self) -> int:
        """What a chunk of classes takes while it is worked on, and the lengths of all centers."""
        if self.dense:
            return 0
        most = max(self._elements // (self.recipe.subcenters * max(self.batch, self.columns)), 64)
        centers = ceil(self.seen / ceil(self.seen / most)) * self.recipe.subcenters
        lengths = self.seen * self.recipe.subcenters * FLOAT
        return centers * (self.batch * _PER_PRODUCT + self.columns * _PER_CENTER_NUMBER) + lengths

    @property
    def rows(self) -> int:
        """Embeddings, unit rows, both their gradients; own centers, unit ones, and their gradients."""
        return self.batch * self.columns * FLOAT * (4 + 4 * self.recipe.subcenters)

    @property
    def flops(self) -> int:
        """Of a step's products: 3 for each row and center, 4 where nothing is kept."""
        each = 2 * self.products * self.columns
        count = of_teacher = 0
        for loss, keeps in self.terms:
            again = not (keeps or self.one_pass or self.dense)
            count += 3 + again + loss.teacher  # a teacher's normaliser takes a pass of its own
            count += loss.nearest > 0
            of_teacher += loss.teacher * (2 + again)
        with_teacher = 2 * self.batch * self.seen * self.teacher_size
        return (count * each + of_teacher * with_teacher) * self.recipe.accumulate
