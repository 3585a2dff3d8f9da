"""The table of losses that every suite runs over: a factory for each option, with what its attributes do not tell.

A new loss or option is a line in `EXAMPLES`, and reaches every suite by it: the contract of a loss, engine against
engine, samples of the classes, several processes, what a dry run says. `tests/test_loss_examples.py` fails if an
exported loss has no line or a suite leaves a line out.

The suites ask each question of all examples once. Combinations of precision, chunks, sub-centers and processes are
asked of one example of each kind, where a kind is what an engine can see of a loss (`Kind`); it is the first in the
table, so a table has the example first that shows most.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, islice
from typing import Literal

import pytest
import torch

from verisphere.head.passes import known_shift
from verisphere.losses import (
    AMLFS,
    CIFP,
    CM1,
    CM2,
    COCO,
    AdaFace,
    AMSoftmax,
    ArcFace,
    ArcSoftmax,
    ASoftmax,
    Circle,
    ClassLoss,
    CombinedMargin,
    CosFace,
    CurricularFace,
    DomainMargins,
    ElasticFace,
    Inter,
    Intra,
    MagFace,
    MVSoftmax,
    NoiseResistant,
    NoiseTolerant,
    NormFace,
    Rows,
    SearchSoftmax,
    Softmax,
    SphereFace,
    SphereFace2,
    SphereFaceR,
    VSoftmax,
    WeightedSum,
)
from verisphere.losses.sphereface2 import table_2


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


EXAMPLES: dict[str, Example] = {
    "Softmax": Example(Softmax, length_matters=True),
    "Softmax, no bias": Example(lambda: Softmax(bias=False), length_matters=True),
    "ArcFace": Example(ArcFace),
    "ArcFace, detached": Example(lambda: ArcFace(gradient="detached"), made_gradient=True),
    "ArcFace, plain": Example(lambda: ArcFace(beyond="plain")),
    "ArcFace, released": Example(lambda: ArcFace(beyond="released")),
    "ArcFace, t=3": Example(lambda: ArcFace(t=3.0)),
    "ArcFace, t=1.5, detached": Example(lambda: ArcFace(t=1.5, gradient="detached"), made_gradient=True),
    "NormFace": Example(NormFace),
    "COCO": Example(COCO),
    "SphereFace": Example(SphereFace),
    "CosFace": Example(CosFace),
    "CosFace, t=3": Example(lambda: CosFace(t=3.0)),
    "CM1": Example(CM1),
    "CM2": Example(CM2),
    "CM2, t=2": Example(lambda: CombinedMargin(0.9, 0.4, 0.15, t=2.0)),
    "AMSoftmax": Example(AMSoftmax),
    "ArcSoftmax": Example(ArcSoftmax),
    "ASoftmax": Example(ASoftmax, length_matters=True, stateful=True),
    "ASoftmax, at its end": Example(lambda: ASoftmax(start=5.0), length_matters=True, stateful=True),
    "ASoftmax, loss search": Example(lambda: ASoftmax(margin=3.0, scale=32.0, start=10.0), stateful=True),
    "ASoftmax, bare, detached": Example(
        lambda: ASoftmax(margin=3.0, scale=32.0, start=0.0, end=0.0, gradient="detached"),
        stateful=True,
        made_gradient=True,
    ),
    "SphereFaceR": Example(SphereFaceR, made_gradient=True),
    "SphereFaceR, exact": Example(lambda: SphereFaceR(gradient="exact")),
    "VSoftmax": Example(VSoftmax, alone="something"),
    "VSoftmax, batch": Example(lambda: VSoftmax(virtual="batch"), alone="something"),
    "CIFP": Example(lambda: CIFP(nearest=4), made_gradient=True),
    "CIFP, released": Example(lambda: CIFP(threshold="released"), made_gradient=True),
    "CIFP, counted": Example(lambda: CIFP(far="0.3", alpha=0.1, penalty="counted")),
    "Intra": Example(Intra, alone="something"),
    "Inter": Example(Inter),
    "ArcFace + intra + inter": Example(lambda: WeightedSum([ArcFace(), Intra(), Inter()]), alone="something"),
    "NormFace + inter": Example(lambda: WeightedSum([NormFace(20.0), Inter()], [1.0, 0.5])),
    "SphereFace2": Example(SphereFace2, alone="refused"),
    "SphereFace2, released": Example(
        lambda: SphereFace2(gradient="released", scale=40.0, loss_weight=50.0), alone="refused", made_gradient=True
    ),
    "SphereFace2, two margins, no bias": Example(
        lambda: SphereFace2(margin=0.3, negative_margin=0.1, bias=False, t=1.0), alone="refused"
    ),
    "SphereFace2, balanced": Example(lambda: SphereFace2(balance="balanced", t=2.0), alone="refused"),
    "SphereFace2, t below 1": Example(lambda: SphereFace2(t=0.3), alone="refused"),
    "SphereFace2, A": Example(lambda: SphereFace2("A"), alone="refused", made_gradient=True),
    "SphereFace2, A, released": Example(
        lambda: SphereFace2("A", gradient="released"), alone="refused", made_gradient=True
    ),
    "SphereFace2, M": Example(lambda: SphereFace2("M"), alone="refused", made_gradient=True),
    "SphereFace2, M, released": Example(
        lambda: SphereFace2("M", gradient="released"), alone="refused", made_gradient=True
    ),
    "SphereFace2, naive": Example(lambda: table_2("naive"), alone="refused"),
    "SearchSoftmax": Example(SearchSoftmax),
    "SearchSoftmax, a > 0": Example(lambda: SearchSoftmax(0.5)),
    "AMLFS": Example(lambda: AMLFS((0.5, 0.8, 1.0, 0.9), (0.1, 0.0, -0.15, 0.05)), alone="something"),
    "AMLFS, through the origin": Example(lambda: AMLFS((0.6, 0.8, 0.9), (0.0, 0.0, 0.0)), alone="something"),
    "CurricularFace": Example(CurricularFace, stateful=True),
    "CurricularFace, detached": Example(lambda: CurricularFace(gradient="detached"), stateful=True, made_gradient=True),
    "MVSoftmax, Arc": Example(MVSoftmax),
    "MVSoftmax, Arc, fixed": Example(lambda: MVSoftmax(weighting="fixed")),
    "MVSoftmax, AM": Example(lambda: MVSoftmax("AM")),
    "MVSoftmax, AM, fixed": Example(lambda: MVSoftmax("AM", weighting="fixed", emphasis=0.3)),
    # the statistics follow the batch, so that qualities spread
    "AdaFace, quick": Example(lambda: AdaFace(rate=0.5), length_matters=True, stateful=True, made_gradient=True),
    "AdaFace": Example(AdaFace, length_matters=True, stateful=True, made_gradient=True),
    "MagFace": Example(MagFace, length_matters=True, alone="something"),
    "NoiseTolerant, weighing": Example(lambda: weighing(NoiseTolerant(window=1)), stateful=True),
    "NoiseTolerant": Example(NoiseTolerant, stateful=True),
    "NoiseTolerant, loss, weighing": Example(lambda: weighing(NoiseTolerant(weighted="loss", window=2)), stateful=True),
    "NoiseResistant": Example(NoiseResistant),
    "NoiseResistant, Cos": Example(lambda: NoiseResistant(m2=0.0, m3=0.35, beta=0.6)),
    "Circle": Example(Circle, made_gradient=True, apart=True),
    "DomainMargins": Example(lambda: InTurn({"day": 0.1, "dusk": 0.35, "night": 0.2}), alike=False),
    "DomainMargins, angle": Example(lambda: InTurn({"day": 0.5, "night": 0.3}, "angle"), alike=False),
    "ElasticFace, plus": Example(lambda: ElasticFace(plus=True)),
    "ElasticFace": Example(ElasticFace),
    "ElasticFace, Cos": Example(lambda: ElasticFace("Cos")),
    # some margins end at 0
    "ElasticFace, Cos, plus, wide": Example(lambda: ElasticFace("Cos", deviation=0.3, plus=True)),
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
