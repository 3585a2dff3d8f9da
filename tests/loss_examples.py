"""The losses that every suite runs over: a factory for each option, with what its attributes do not tell.

A new loss or option is a line in the `examples` of an entry in src/verisphere/recipes/losses.yaml, and reaches every
suite by it: the contract of a loss, engine against engine, samples of the classes, several processes, what a dry run
says. `tests/test_loss_examples.py` fails if an exported loss has no line or a suite leaves a line out.

The suites ask each question of all examples once. Combinations of precision, chunks, sub-centers and processes are
asked of one example of each kind, where a kind is what an engine can see of a loss (`Kind`); it is the first in the
table, so a table has the example first that shows most.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import cycle, islice
from typing import Any, Literal

import pytest
import torch

from verisphere.files.definitions import build, complete
from verisphere.files.documents import read_yaml_file
from verisphere.files.packaged_recipes import LOSSES
from verisphere.head.passes import known_shift
from verisphere.losses import ClassLoss, DomainMargins, NoiseTolerant, Rows


@dataclass(frozen=True)
class Kind:
    """What an engine can see of a loss; losses of one kind differ in element-wise functions alone.

    Attributes:
        reduce, similarity, class_bias, query, linear, exact_products: as of the loss.
        nearest, noise: whether the loss asks for them.
        known_shift: whether its logits have a bound that spares the running maximum.
        observes: whether it has slow state.
        own_finish: whether it is more than a softmax cross entropy.
        context: shape of each item of the context, and whether it carries gradient.
    """

    reduce: str
    similarity: str
    class_bias: bool
    query: str
    linear: bool
    exact_products: bool
    nearest: bool
    noise: bool
    known_shift: bool
    observes: bool
    own_finish: bool
    context: tuple[tuple[int, bool], ...]


def kinds_of(loss: ClassLoss) -> tuple[Kind, ...]:
    """The kind of each term."""
    loss.prepare(7)
    four = torch.linspace(-0.5, 0.5, 4)[:, None].expand(4, 5)
    length = torch.linspace(10.0, 20.0, 4).requires_grad_()
    rows = Rows(four[:, 0], length, torch.eye(4), torch.arange(4), nearest=four, noise=four)
    return tuple(
        Kind(
            reduce=term.reduce,
            similarity=term.similarity,
            class_bias=term.class_bias,
            query=term.query,
            linear=term.linear,
            exact_products=term.exact_products,
            nearest=term.nearest > 0,
            noise=term.noise > 0,
            known_shift=known_shift(term, 7) is not None,
            observes=type(term).observe is not ClassLoss.observe,
            own_finish=type(term).finish is not ClassLoss.finish,
            context=tuple((item.ndim, item.requires_grad) for item in term.context(rows)),
        )
        for _, term in loss.terms
    )


def weighing(loss: NoiseTolerant) -> NoiseTolerant:
    """The loss after batches whose cosines spread from -0.4 to 0.7, so that its weights are no longer 1."""
    own = torch.linspace(-0.4, 0.7, 500)
    rows = Rows(own, torch.ones_like(own), torch.ones(len(own), 2), torch.zeros(len(own), dtype=torch.int64))
    for _ in range(loss.window):
        loss.observe(rows)
    return loss


class InTurn(DomainMargins):
    """Margins of domains in which the classes lie in turn, as many as a suite has."""

    def prepare(self, classes: int) -> None:
        self.prepare_domains(tuple(islice(cycle(self.class_domains), classes)))
        super().prepare(classes)

    def prepare_domains(self, domains: Sequence[str] | None) -> None:
        self.classes = 0  # a suite prepares a loss for several numbers of classes
        super().prepare_domains(domains)


@dataclass(frozen=True)
class Example:
    """A loss with some options, and what a suite must know of it that no attribute of the loss tells.

    Attributes:
        make: builds it anew.
        length_matters: the length of an embedding takes part in the loss.
        alone: what a single class costs: "nothing"; "something", since there is more in the loss than the contest with
            the other classes; or it is "refused".
        stateful: its state moves at every batch in training.
        made_gradient: some of its gradient is made and not derived, by design: finite differences disagree.
        alike: it treats all classes alike, whatever their numbers.
        apart: without its margin it still treats the own class apart from the others.
    """

    make: Callable[[], ClassLoss]
    length_matters: bool = False
    alone: Literal["nothing", "something", "refused"] = "nothing"
    stateful: bool = False
    made_gradient: bool = False
    alike: bool = True
    apart: bool = False

    @cached_property
    def loss(self) -> ClassLoss:
        """One to ask for its attributes; a test makes its own."""
        return self.make()

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """The kind of each term."""
        return kinds_of(self.make())

    @property
    def is_single(self) -> bool:
        """Whether it has methods of its own: the terms of a sum stand among the examples."""
        return len(self.loss.terms) == 1

    @property
    def is_softmax(self) -> bool:
        """Whether it is a softmax, and no sum of losses."""
        return self.loss.reduce == "logsumexp" and self.is_single

    @property
    def accepts_nobody(self) -> bool:
        """Whether it accepts rows labelled -1."""
        return self.loss.reduce == "sum" and self.loss.query != "own_center"


#: What stands for a class of the house where the suites need more of it than a recipe says.
_STANDS_IN = {"DomainMargins": "loss_examples.InTurn"}


def _make(name: str, init_args: dict[str, Any], after_batches: bool) -> ClassLoss:
    named = {"class_path": _STANDS_IN.get(name, f"verisphere.losses.{name}"), "init_args": init_args}
    loss = build(ClassLoss, complete(ClassLoss, named, name))
    return weighing(loss) if after_batches else loss


def _example(name: str, init_args: dict[str, Any] | None = None, after_batches: bool = False, **told: Any) -> Example:
    return Example(partial(_make, name, init_args or {}, after_batches), **told)


#: The entries of the table of losses.
TABLE: dict[str, dict[str, Any]] = read_yaml_file(LOSSES)

EXAMPLES: dict[str, Example] = {
    example: _example(name, **told)
    for name, entry in TABLE.items()
    for example, told in entry.get("examples", {}).items()
}


def first_of_each_kind(examples: dict[str, Example]) -> dict[str, Example]:
    """One example of each kind, the first in the table."""
    first: dict[tuple[Kind, ...], str] = {}
    for name, example in examples.items():
        first.setdefault(example.kinds, name)
    return {name: examples[name] for name in first.values()}


#: One of each kind, where all of them would only take longer.
KINDS = first_of_each_kind(EXAMPLES)


def of_all(holds: Callable[[Example], bool] = lambda example: True) -> pytest.MarkDecorator:
    """Runs a test for every example that a statement is about, instead of skipping the rest one by one."""
    return _of({name: example for name, example in EXAMPLES.items() if holds(example)})


def of_kinds(holds: Callable[[Example], bool] = lambda example: True) -> pytest.MarkDecorator:
    """Runs a test for one example of each kind that a statement is about."""
    return _of({name: example for name, example in KINDS.items() if holds(example)})


def _of(examples: dict[str, Example]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("example", examples.values(), ids=examples.keys())


def asked(test: Callable[..., None]) -> Iterable[Example]:
    """The examples that a test runs for."""
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize" and mark.args[0] == "example":
            yield from mark.args[1]
