"""Losses on the sharded engine against one process: all by two processes, one of each kind by three, unequal shares."""

import copy
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from loss_examples import EXAMPLES, KINDS, Example, of_kinds
from processes import run
from verisphere.base.collectives import counted, gathered
from verisphere.base.distributed import World, world
from verisphere.head.auto import Auto
from verisphere.head.dense import Dense
from verisphere.head.head import Head
from verisphere.head.interface import ViewRequest
from verisphere.head.sampled import Sampled
from verisphere.head.sharded import Sharded
from verisphere.head.streamed import Streamed, StreamedView
from verisphere.head.subcenters import SubCenters
from verisphere.head.update import HeadSGD
from verisphere.losses.auxiliary import Inter, Intra, WeightedSum
from verisphere.losses.cifp import CIFP
from verisphere.losses.class_loss import ClassLoss, Rows
from verisphere.losses.magface import MagFace
from verisphere.losses.margin import ArcFace
from verisphere.losses.softmax import Softmax
from verisphere.losses.sphereface2 import SphereFace2


def beside(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ENGINES = beside("test_engines")
Case, differences = ENGINES.Case, ENGINES.differences
#: Rows of each process, of the six of a case.
ROWS = {1: [6], 2: [4, 2], 3: [1, 3, 2]}


def share_of(case, rows: list[int]) -> slice:
    first = sum(rows[: world().rank])
    return slice(first, first + rows[world().rank])


def here(case, inner, rows: list[int] | None = None, weighted: bool = True) -> dict[str, Tensor]:
    """What `Case.run` gives, of this process's rows and classes."""
    mine = share_of(case, rows or ROWS[world().size])
    head = case.head(Sharded(inner))
    head.centers.data = case.centers[head.held.start : head.held.stop].to(case.dtype)
    embeddings = case.embeddings[mine].to(case.dtype, copy=True)
    if len(embeddings):  # one without a row has nothing that asks for a gradient
        embeddings.requires_grad_()
    out = head(embeddings, case.labels[mine], case.weights[mine].to(case.dtype) if weighted else None)
    out.loss.backward()
    found = {"loss": out.loss.detach(), "per_sample": out.per_sample}
    gradients = {"embeddings": embeddings.grad, **{name: one.grad for name, one in head.named_parameters()}}
    found |= {f"gradient of {name}": one for name, one in gradients.items() if one is not None}
    return found | {f"state {name}": one for name, one in head.loss.named_buffers()}


def alone(case, rows: list[int] | None = None) -> dict[str, Tensor]:
    """The same of one process, restricted to what is this one's; nothing is told to another."""
    mine, held = share_of(case, rows or ROWS[world().size]), world().share(case.classes)
    with counted() as traffic:
        found = case.run(Dense())
    assert not traffic.calls
    head = case.head(Dense())
    head.centers.data = case.centers.to(case.dtype)
    head(case.embeddings.to(case.dtype), case.labels)
    found |= {f"state {name}": one for name, one in head.loss.named_buffers()}
    parts = {"per_sample": mine, "gradient of embeddings": mine, "gradient of centers": slice(held.start, held.stop)}
    return {name: one[parts.get(name, ...)] for name, one in found.items()}


def worst(found: dict[str, Tensor], expected: dict[str, Tensor], floor: float = 1e-6) -> float:
    assert found.keys() <= expected.keys(), found.keys() - expected.keys()
    return max(differences(found, expected, floor).values())


# What a process does; each returns its largest relative differences by the name of the case --------------


def examples() -> dict[str, Example]:
    """All by two processes, which find what depends on the loss; one of each kind by three."""
    return EXAMPLES if world().size == 2 else KINDS


def every_loss_in_float64() -> dict[str, float]:
    found = {}
    for name, example in examples().items():
        for subcenters, inner in ((3, Streamed(chunk=5)), (1, Dense())):
            if subcenters == 3 or (name in KINDS and world().size == 2):
                case = Case(example.make, subcenters)
                found[f"{name}, K = {subcenters}"] = worst(here(case, inner), alone(case))
    assert {name.partition(", K = ")[0] for name in found} == set(examples())
    return found


def in_bfloat16() -> dict[str, dict[str, float]]:
    """By name: losses, gradients, and between derivatives that are kept and made again."""
    found = {}
    for name, example in KINDS.items():
        case = Case(example.make, 3, size=64, dtype=torch.float32)
        expected = alone(case)
        kept, again = (here(case, Streamed("bfloat16", chunk=5, keep_bytes=keep)) for keep in (2**30, 0))
        each = differences(kept, expected)
        found[name] = {
            "value": max(one for what, one in each.items() if "gradient" not in what),
            "gradient": max(one for what, one in each.items() if "gradient" in what),
            "again": worst(again, kept),
        }
    return found


def pooled_and_pulled_together() -> dict[str, float]:
    settings = {"pooling": "softmax", "temperature": 0.5, "pull_together": 2.0}
    found = {}
    for name, example in KINDS.items():
        case = Case(example.make, 3, classes=5, settings=settings)
        expected = alone(case)
        for inner in (Dense(), Streamed(chunk=2)):
            found[f"{name}, {type(inner).__name__}"] = worst(here(case, inner), expected)
    return found


def a_class_each() -> dict[str, float]:
    """Where a row's own class is all that its process has, there is no other."""
    found = {}
    for name, example in KINDS.items():
        case = Case(example.make, 3, classes=world().size)
        expected = alone(case)
        for inner in (Dense(), Streamed(chunk=1)):
            found[f"{name}, {type(inner).__name__}"] = worst(here(case, inner), expected)
    return found


def some_have_no_row() -> dict[str, float]:
    size = world().size
    found = {}
    for name, example in KINDS.items():
        case = Case(example.make, 1)
        for rank in (0, 1) if size == 2 else (1,):  # of three, the ranks before and after have none
            rows = [6 * (one == rank) for one in range(size)]
            found[f"{name}, all at {rank}"] = worst(here(case, Streamed(chunk=5), rows), alone(case, rows))
    return found


def groups(head: Head) -> list[dict]:
    single = [one for name, one in head.named_parameters() if name != "centers"]
    return [{"params": [head.centers], "weight_decay": 0.01}, *([{"params": single}] if single else [])]


def trained(head: Head, fused: bool, rows_of, steps: int = 3) -> dict[str, Tensor]:
    """Centers, momentum, whatever the loss has learned and the losses, after some steps."""
    settings = {"lr": 0.1, "momentum": 0.9, "nesterov": True}
    optimizer = HeadSGD(groups(head), head, **settings) if fused else torch.optim.SGD(groups(head), **settings)
    generator = torch.Generator().manual_seed(0)
    losses = []
    for step in range(steps):
        rows = 3 * torch.randn(7, head.size, generator=generator, dtype=torch.float64)
        labels = torch.randint(0, head.classes, (7,), generator=generator)
        head.loss.set_strength(0.5 + step / 8)
        mine = rows_of(step)
        optimizer.zero_grad()
        loss = head(rows[mine], labels[mine]).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    momentum = optimizer.state[head.centers]["momentum_buffer"]
    assert momentum.shape == head.centers.shape
    return {**head.state_dict(), "momentum": momentum, "losses": torch.stack(losses)}


def several_steps() -> dict[str, float]:
    size, rank = world().size, world().rank
    found = {}
    for name, example in KINDS.items():
        torch.manual_seed(3)
        whole = Head(example.make(), 11, 6, centers=SubCenters(2, pull_together=0.2), engine=Dense()).double()
        expected = trained(copy.deepcopy(whole), False, lambda step: slice(None))
        held = world().share(11)
        for key in ("centers", "momentum"):
            expected[key] = expected[key][held.start : held.stop]
        for kind, inner, fused in (
            *([("SGD, dense", Dense(), False)] if size == 2 else []),
            ("HeadSGD, streamed", Streamed(chunk=4), True),
        ):
            torch.manual_seed(3)
            head = Head(example.make(), 11, 6, centers=SubCenters(2, pull_together=0.2), engine=Sharded(inner)).double()
            assert torch.equal(head.centers, whole.centers[held.start : held.stop])
            after = trained(head, fused, lambda step: slice(*_cut(7, size, rank, step)))
            found[f"{name}, {kind}"] = worst(after, expected)
            for key, one in after.items():  # what every process has is the same to the bit
                if key not in ("centers", "momentum"):
                    each = gathered(one[None])
                    assert torch.equal(each, each[:1].expand_as(each)), (name, kind, key)
    return found


def _cut(count: int, size: int, rank: int, step: int) -> tuple[int, int]:
    """Shares that differ from step to step."""
    ends = [0, *sorted((1 + 2 * step * other + other) % count for other in range(1, size)), count]
    return ends[rank], ends[rank + 1]


def fresh_centers() -> dict[str, bool]:
    """Of a head that draws in several blocks."""
    import verisphere.head.head as module

    module._DRAWN_AT_ONCE = 64
    found = {}
    for classes, size, subcenters, make in ((101, 8, 1, ArcFace), (50, 5, 3, ArcFace), (70, 4, 2, Softmax)):
        torch.manual_seed(8)
        whole = Head(make(), classes, size, centers=SubCenters(subcenters))
        after = torch.rand(3)
        torch.manual_seed(8)
        head = Head(make(), classes, size, centers=SubCenters(subcenters), engine=Sharded(Dense()))
        same = torch.equal(head.centers, whole.centers[head.held.start : head.held.stop])
        found[f"{classes} x {subcenters} x {size}"] = same and torch.equal(torch.rand(3), after)
    return found


class DrawsForItself(ClassLoss):
    """A random margin for each row, from PyTorch's global generator."""

    def __init__(self) -> None:
        super().__init__(64.0)

    def context(self, rows: Rows) -> tuple[Tensor, ...]:
        return (0.5 + 0.05 * torch.randn_like(rows.own),)

    def own(self, cosine: Tensor, *context: Tensor) -> Tensor:
        return self.scale * (cosine - context[0])


def between_ranks() -> dict[str, float]:
    """How far the loss of this rank is from the first rank's, over two steps, where global generators differ."""
    engines = {"dense": Dense(), "streamed": Streamed(chunk=5), "sampled": Sampled(0.6, Dense(), seed=3)}
    found = {}
    for name, example in {**EXAMPLES, "draws for itself": Example(DrawsForItself)}.items():
        case = Case(example.make)
        mine = share_of(case, ROWS[world().size])
        for kind, inner in engines.items():
            if kind != "dense" and name in EXAMPLES and name not in KINDS:
                continue
            head = Head(case.make(), case.classes, case.size, engine=Sharded(inner), seed=5).double()
            head.centers.data = case.centers[head.held.start : head.held.stop]
            torch.manual_seed(world().rank)
            losses = [head(case.embeddings[mine], case.labels[mine]).loss.detach() for _ in range(2)]
            each = gathered(torch.stack(losses)[None])  # (rank, step)
            found[f"{name}, {kind}"] = float((each[world().rank] - each[0]).abs().max())
    return found


def traffic() -> dict[str, list[list]]:
    """Kind and bytes of each exchange, forward and backward, by loss; and of a forward without gradient."""
    case = Case(ArcFace, dtype=torch.float32)
    mine = share_of(case, ROWS[world().size])
    found = {}
    for name, make, settings in (
        ("SphereFace2", SphereFace2, {}),
        ("SphereFace2 without bias", lambda: SphereFace2(bias=False), {}),
        ("ArcFace", ArcFace, {}),
        ("Softmax", Softmax, {}),
        ("Intra", Intra, {}),
        ("sum", lambda: WeightedSum([ArcFace(), Inter()]), {"pull_together": 1.0}),
        ("CIFP", lambda: CIFP(nearest=4), {}),
        ("MagFace", MagFace, {}),
    ):
        for inner in (Dense(), Streamed(chunk=5)):
            head = Head(make(), case.classes, case.size, centers=SubCenters(**settings), engine=Sharded(inner))
            embeddings = case.embeddings[mine].float().requires_grad_()
            weights = case.weights[mine].float() if name == "sum" else None
            with counted() as calls:
                head(embeddings, case.labels[mine], weights).loss.backward()
            told = [[call.kind, call.payload] for call in calls.calls]
            assert found.setdefault(name, told) == told, (name, inner)
            with counted() as calls, torch.no_grad():
                head(embeddings, case.labels[mine])
            found[f"{name}, no gradient"] = [[call.kind, call.payload] for call in calls.calls]
    return found


def refusals() -> dict[str, str]:
    first = world().first
    case = Case(ArcFace, dtype=torch.float32)
    mine = share_of(case, ROWS[world().size])
    rows, labels, weights = case.embeddings[mine].float(), case.labels[mine], case.weights[mine].float()
    head = Head(ArcFace(), case.classes, case.size, engine=Sharded(Dense()))
    elsewhere = Head(ArcFace(), case.classes, case.size, engine=Sharded(Dense(), World(0, 5)))
    found = {}
    for name, call in {
        "weights": lambda: head(rows, labels, weights if first else None),
        "label": lambda: head(rows, labels + 50 if first else labels),
        "nobody": lambda: head(rows, labels.clamp(max=-1) if first else labels),
        "empty": lambda: head(rows[:0], labels[:0]),
        "world": lambda: elsewhere(rows, labels),
        "classes": lambda: Head(ArcFace(), world().size - 1, 4, engine=Sharded(Dense())),
    }.items():
        try:
            call()
        except ValueError as error:
            found[name] = str(error)
    embeddings = rows.double().requires_grad_()
    loss = head.double()(embeddings, labels).loss
    (gradient,) = torch.autograd.grad(loss, embeddings, create_graph=True)
    try:
        gradient.sum().backward()
    except RuntimeError as error:
        found["twice"] = str(error)
    return found


#: Those whose differences from one process are rounding in float64.
IN_FLOAT64 = (
    every_loss_in_float64,
    pooled_and_pulled_together,
    a_class_each,
    some_have_no_row,
    several_steps,
)
PARTS = (*IN_FLOAT64, in_bfloat16, fresh_centers, between_ranks, traffic, refusals)


#: What a third rank can hardly change: these are left to two.
BY_TWO = (in_bfloat16, pooled_and_pulled_together, a_class_each, between_ranks)


def everything() -> dict[str, dict]:
    return {part.__name__: part() for part in PARTS if world().size == 2 or part not in BY_TWO}


# What the test run makes of it ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_two() -> list[dict[str, dict]]:
    """Of each of two processes. Takes over 5 s: every loss on every engine, in one start of the ranks."""
    return run(everything, 2, timeout=500)


@pytest.fixture(scope="module")
def of_three() -> list[dict[str, dict]]:
    """Of each of three processes."""
    return run(everything, 3, timeout=500)


@pytest.fixture(params=["of_two", "of_three"])
def found(request: pytest.FixtureRequest) -> list[dict[str, dict]]:
    """Of each process, of either number of them."""
    return request.getfixturevalue(request.param)


def test_as_one_process(found):
    parts = [part.__name__ for part in IN_FLOAT64 if len(found) == 2 or part not in BY_TWO]
    assert len(parts) >= 3
    for rank, of_process in enumerate(found):
        for part in parts:
            differences = of_process[part]
            assert len(differences) >= sum(example.alike for example in KINDS.values()), part
            assert not {name: one for name, one in differences.items() if not one < 1e-10}, (part, f"process {rank}")


def test_in_half_precision(of_two):
    for of_process in of_two:
        for name, one in of_process["in_bfloat16"].items():
            assert one["value"] < 2e-2, name
            assert one["gradient"] < 5e-2, name
            assert one["again"] < 1e-6, name


def test_fresh_centers_are_those_of_one_process(found):
    for of_process in found:
        assert all(of_process["fresh_centers"].values())


def test_every_rank_computes_the_same_loss_to_the_bit(of_two):
    for of_process in of_two:
        apart = of_process["between_ranks"]
        assert {name.rpartition(", ")[0] for name in apart} > set(EXAMPLES)
        assert {name for name, one in apart.items() if one and not name.startswith("draws for itself")} == set()


def test_a_loss_that_draws_for_itself_is_found_out(of_two):
    apart = of_two[1]["between_ranks"]
    assert all(apart[f"draws for itself, {kind}"] > 1e-3 for kind in ("dense", "streamed", "sampled"))


def test_exchanges_are_those_that_the_docstring_counts(found):
    processes = len(found)
    most, columns, rows = max(ROWS[processes]), 8, 6
    sent = [["gather", 8], ["gather", 4 * most * columns], ["gather", 8 * most]]
    vector, own_centers, scalar = ["sum", 4 * rows], ["sum", 4 * rows * columns], ["sum", 4]
    back = ["scatter", 4 * processes * most * columns]
    forward = {
        "SphereFace2": [*sent, vector],
        "SphereFace2 without bias": [*sent, vector],
        "ArcFace": [*sent, vector, vector],
        "Softmax": [*sent, vector, ["maximum", 4 * rows], vector],
        "Intra": [*sent, vector],
        "sum": [*sent, vector, own_centers, vector, vector, scalar],
        "CIFP": [*sent, vector, ["gather", 4 * rows * 4], vector],
        "MagFace": [*sent, vector, vector],
    }
    backward = {
        "SphereFace2": [scalar, back],  # its bias
        "sum": [own_centers, back],
        "MagFace": [vector, back],  # the length
    }
    for of_process in found:
        told = of_process["traffic"]
        for name, calls in forward.items():
            assert told[f"{name}, no gradient"] == calls, name
            if name == "sum":
                calls = [*calls[:3], ["gather", 4 * most], *calls[3:]]  # it came with weights
            assert told[name] == calls + backward.get(name, [back]), name


def test_what_is_refused(found):
    processes = len(found)
    expected = {
        "weights": rf"^1 of {processes} processes gave weights; all must, or none$",
        "label": r"^labels reach \d+ but the head has 13 classes; ",
        "nobody": rf"^{ROWS[processes][0]} labels are -1 \('no known class'\), but ArcFace ",
        "empty": r"^the batch is empty",
        "world": r"^the engine was made for World\(rank=0, size=5, .* create it inside the process group that uses it",
        "classes": rf"^classes is {processes - 1} for {processes} processes; each must hold at least one: start fewer$",
        "twice": "^trying to differentiate twice",
    }
    for of_process in found:
        for name, pattern in expected.items():
            assert re.search(pattern, of_process["refusals"][name]), name
            assert "\n" not in of_process["refusals"][name]


@of_kinds()
def test_one_process_tells_nobody(example):
    case = Case(example.make, 3)
    with counted() as calls:
        differing = differences(case.run(Sharded(Streamed(chunk=5))), case.run(Dense()))
    assert not calls.calls
    assert max(differing.values()) < 1e-10


def test_shares_can_be_planned_for_other_processes():
    engine = Sharded(Dense(), World(1, 3))
    assert engine.held(13) == range(5, 9)
    assert Head(ArcFace(), 13, 4, engine=engine).centers.shape == (4, 1, 4)
    with pytest.raises(ValueError, match="create it inside the process group that uses it"):
        Head(ArcFace(), 13, 4, engine=engine)(torch.ones(2, 4), torch.tensor([0, 1]))


@pytest.mark.parametrize("classes", [9, 10])
def test_all_ranks_choose_an_engine_by_the_share_of_the_largest(classes):
    """Where one deferred its gradient and another did not, they waited for each other as the gradient was clipped."""
    labels, rows = torch.zeros(4, dtype=torch.int64), torch.ones(4, 3)
    chosen = []
    for rank in range(2):
        engine = Sharded(Auto(logits=4 * 4), World(rank, 2)).for_classes(classes)
        request = ViewRequest(
            labels, SubCenters(), "cosine", torch.float32, ArcFace(), rows, defer=lambda gradient: None
        )
        held = torch.ones(len(World(rank, 2).share(classes)), 1, 3)
        chosen.append(type(engine.view(held, request).partial))
    assert chosen == [StreamedView] * 2
