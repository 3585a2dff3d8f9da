"""The sparse engine against the dense one, with its late updates against torch's SGD, and where it falls back."""

import copy
import logging
import re
from functools import partial
from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from processes import run
from verisphere.base.distributed import World, world
from verisphere.head import Auto, Dense, Head, HeadSGD, Sampled, Sharded, Sparse, Streamed, SubCenters, screened
from verisphere.head.sparse import LONGEST_WAIT
from verisphere.losses import ArcFace, QMargin
from verisphere.losses.auxiliary import Intra, WeightedSum
from verisphere.score.exact.screen import exact_int8

CLASSES, SIZE, BATCH = 400, 32, 12
SCREENS = ["float32", "bfloat16", "int8"]
SETTINGS = {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01}


def head_of(engine, make=QMargin, dtype=torch.float64, subcenters=1, classes=CLASSES, **options) -> Head:
    if isinstance(engine, Sparse) and engine.screen == "int8" and not exact_int8(SIZE):
        pytest.skip("products in int8 are not exact on this CPU")
    torch.manual_seed(1)
    centers = SubCenters(subcenters, **options)
    return Head(make(), classes, SIZE, centers=centers, engine=engine).to(dtype)


def batches(count: int, dtype: torch.dtype = torch.float64, classes: int = CLASSES):
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        rows = 3 * torch.randn(BATCH, SIZE, generator=generator, dtype=torch.float64)
        yield rows.to(dtype), torch.randint(0, classes, (BATCH,), generator=generator)


def steps(head: Head, optimizer: torch.optim.Optimizer, data) -> list[Tensor]:
    """Losses and gradients in the rows, and then the centers, after some steps."""
    found = []
    for rows, labels in data:
        optimizer.zero_grad()
        rows = rows.to(head.stored.device, copy=True).requires_grad_()
        output = head(rows, labels.to(rows.device))
        output.loss.backward()
        optimizer.step()
        found += [output.loss.detach(), output.per_sample, rows.grad]
    return [one.cpu() for one in (*found, head.centers.detach().clone())]


def compare(ours: list[Tensor], theirs: list[Tensor], tolerance: float) -> None:
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance * float(other.abs().max()))


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("alpha", [1.25, 1.5, 2.0])
@pytest.mark.parametrize("subcenters", [1, 3])
def test_losses_gradients_and_steps_are_those_of_all_classes(screen, alpha, subcenters):
    def make():
        return QMargin(alpha)

    dense, sparse = (
        head_of(Dense(), make, subcenters=subcenters),
        head_of(Sparse(screen=screen), make, subcenters=subcenters),
    )
    reference = torch.optim.SGD(dense.parameters(), **SETTINGS)
    optimizer = HeadSGD(sparse.parameters(), sparse, **SETTINGS)
    compare(steps(sparse, optimizer, batches(8)), steps(dense, reference, batches(8)), 1e-10)
    assert sparse.engine.streamed_steps == 0
    ours, theirs = (one.state_dict()["state"][0]["momentum_buffer"] for one in (optimizer, reference))
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("screen", SCREENS)
def test_float32_is_as_near_as_the_streamed_engine(screen):
    double, sparse = head_of(Dense()), head_of(Sparse(screen=screen), dtype=torch.float32)
    data = [(rows.float().double(), labels) for rows, labels in batches(4)]
    expected = steps(double, torch.optim.SGD(double.parameters(), **SETTINGS), data)
    single = [(rows.float(), labels) for rows, labels in data]
    found = steps(sparse, HeadSGD(sparse.parameters(), sparse, **SETTINGS), single)
    compare([one.double() for one in found], expected, 2e-5)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("nesterov", [False, True])
def test_a_rate_may_change_and_centers_may_be_read_at_any_time(momentum, nesterov):
    if nesterov and not momentum:
        pytest.skip("Nesterov needs momentum")
    settings = {"lr": 0.1, "momentum": momentum, "nesterov": nesterov, "weight_decay": 0.02}
    dense, sparse = head_of(Dense()), head_of(Sparse())
    pairs = [
        (dense, torch.optim.SGD(dense.parameters(), **settings)),
        (sparse, HeadSGD(sparse.parameters(), sparse, **settings)),
    ]
    for number, data in enumerate(batches(25)):
        for head, optimizer in pairs:
            optimizer.param_groups[0]["lr"] = 0.1 * 0.8**number
            steps(head, optimizer, [data]) if number % 10 == 4 else one_step(head, optimizer, *data)
    compare([sparse.centers.detach()], [dense.centers.detach()], 1e-10)
    assert sparse.engine.streamed_steps == 0


def one_step(head: Head, optimizer: torch.optim.Optimizer, rows: Tensor, labels: Tensor) -> None:
    """A step, without a look at the centers."""
    optimizer.zero_grad()
    head(rows, labels).loss.backward()
    optimizer.step()


def test_few_centers_are_written():
    head = head_of(Sparse())
    optimizer = HeadSGD(head.parameters(), head, **SETTINGS)
    before = head.centers.detach().clone()
    for data in batches(2):
        one_step(head, optimizer, *data)
    moved = (head.stored.detach() != before).any(2).any(1)
    assert 12 < int(moved.sum()) < CLASSES // 2
    assert bool((head.centers.detach() != before).any(2).any(1).all())  # the decay moves all


def test_an_own_class_without_probability_has_its_gradient():
    """Far from the row, where p is 0; its row of the gradient is that of p - 1."""
    head = head_of(Sparse(), lambda: QMargin(2.0, 0.5))
    rows = -head.centers.detach()[:BATCH, 0] * 10
    rows.requires_grad_()
    gradient = {}
    for engine in (Sparse(), Dense()):
        other = head_of(engine, lambda: QMargin(2.0, 0.5))
        rows.grad = None
        other.train().deferred = isinstance(engine, Sparse)
        other(rows, torch.arange(BATCH)).loss.backward()
        blocks = torch.cat(list(other.centers.grad.gradient.blocks())) if other.deferred else other.centers.grad[:, 0]
        gradient[type(engine).__name__] = rows.grad.clone(), blocks
    ours, theirs = gradient["Sparse"], gradient["Dense"]
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-10, atol=1e-14)
    assert (theirs[1][:BATCH].norm(dim=1) > 0).all()
    torch.testing.assert_close(ours[1].norm(), theirs[1].norm(), rtol=1e-10, atol=0)


def test_weights_and_a_term_beside_are_those_of_the_dense_engine():
    def make():
        return WeightedSum([QMargin(), Intra()], [1.0, 0.3])

    ((rows, labels),) = batches(1)
    weights = torch.rand(BATCH, dtype=torch.float64)
    found = []
    for engine in (Sparse(), Dense()):
        head = head_of(engine, make)
        head.deferred = isinstance(engine, Sparse)
        found.append(head(rows, labels, weights))
    assert head_of(Sparse(), make).engine.streamed_steps == 0
    torch.testing.assert_close(found[0].loss, found[1].loss, rtol=1e-10, atol=0)
    torch.testing.assert_close(found[0].per_sample, found[1].per_sample, rtol=1e-10, atol=0)


def test_centers_that_are_nearly_equal_are_streamed(caplog):
    """Counted, said, and tried again after ever more steps."""
    caplog.set_level(logging.WARNING)
    dense, sparse = head_of(Dense(), classes=40_000), head_of(Sparse(), classes=40_000)
    with torch.no_grad():
        for head in (dense, sparse):
            head.centers.mul_(1e-4).add_(0.1)
    made = [head_and_sgd(dense), head_and_sgd(sparse)]
    found = [steps(head, optimizer, batches(2, classes=40_000)) for head, optimizer in made]
    compare(found[1], found[0], 1e-9)
    assert sparse.engine.streamed_steps == 2
    assert len(caplog.messages) == 1
    assert "the streamed engine computes a step" in caplog.text


def head_and_sgd(head: Head) -> tuple[Head, torch.optim.Optimizer]:
    sparse = isinstance(head.engine, Sparse)
    return head, HeadSGD(head.parameters(), head, **SETTINGS) if sparse else torch.optim.SGD(
        head.parameters(), **SETTINGS
    )


def test_waiting_grows_and_ends(caplog):
    """And is said whenever about twice as many steps were streamed, whatever else was streamed."""
    kept, tried = Sparse()._kept, []
    for step in range(400):
        kept.steps += 1
        if kept.steps > kept.streams_to:
            tried.append(step)
            kept.undecided("a test")
        kept.stream(None)
    waits = [second - first - 1 for first, second in pairwise(tried)]
    assert waits[:4] == [1, 3, 7, 15]
    assert max(waits) == LONGEST_WAIT
    said = [int(re.search(r"\((\d+) so far\)", message)[1]) for message in caplog.messages]
    assert said == [1, 3, 7, 15, 31, 63, 127, 255]
    kept.wait = 0
    kept.undecided("again")
    assert kept.streams_to == kept.steps + 1


@pytest.mark.parametrize("screen", SCREENS)
def test_centers_without_a_direction_to_screen_are_streamed(screen):
    """One with an infinity, of which no engine has a loss, one of zeros, and centers in half precision."""
    ((rows, labels),) = batches(1, torch.float32)
    for stored, dtype in ((torch.inf, torch.float32), (0.0, torch.float32), (1.0, torch.float16)):
        dense, sparse = head_of(Dense(), dtype=dtype), head_of(Sparse(screen=screen), dtype=dtype)
        for head in (dense, sparse):
            head.centers.data[int(labels.max()) - 1, 0, :5] *= stored
        with torch.no_grad():
            found, expected = sparse(rows, labels).loss, dense(rows, labels).loss
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=0, equal_nan=True)
        assert sparse.engine.streamed_steps == (dtype == torch.float16 or stored == torch.inf)


@pytest.mark.parametrize("screen", ["float32", "bfloat16"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_batch_without_a_finite_embedding_is_streamed(screen: str, value: float):
    sparse = head_of(Sparse(screen=screen), dtype=torch.float32)
    with torch.no_grad():
        assert torch.isnan(sparse(torch.full((4, SIZE), value), torch.arange(4)).loss)
    assert sparse.engine.streamed_steps == 1


class Largest(TorchDispatchMode):
    """Records the number of entries of the largest tensor that is made."""

    entries = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        if isinstance(made, Tensor) and made.layout == torch.strided:
            self.entries = max(self.entries, made.numel())
        return made


def test_a_step_holds_no_table_of_all_rows_and_all_classes_that_have_a_gradient(monkeypatch):
    monkeypatch.setitem(screened.PRODUCTS, "cpu", 2**17)
    head = head_of(Sparse(screen="float32"), classes=8000)
    optimizer = HeadSGD(head.parameters(), head, **SETTINGS)
    rows, labels = torch.randn(500, SIZE, dtype=torch.float64), torch.arange(500)
    with Largest() as largest:
        head(rows.requires_grad_(), labels).loss.backward()
    having = sum(len(block) for block in head.stored.grad.gradient.blocks())
    optimizer.step()
    assert head.engine.streamed_steps == 0
    assert largest.entries <= head.stored.numel() < having * len(rows) // 2


def test_a_row_with_a_gradient_in_all_classes_is_streamed(monkeypatch, caplog):
    """A row of zeros, in a table whose limit it passes or fits exactly."""
    dense, ((rows, labels),) = head_of(Dense()), batches(1)
    rows[3] = 0.0
    for limit, streamed in ((BATCH * CLASSES - 1, 1), (BATCH * CLASSES, 0)):
        monkeypatch.setattr("verisphere.head.sparse.TABLE", limit)
        head = head_of(Sparse(screen="float32"))
        with torch.no_grad():
            torch.testing.assert_close(head(rows, labels).loss, dense(rows, labels).loss, rtol=1e-12, atol=0)
        assert head.engine.streamed_steps == streamed
    assert caplog.text.count("a row has a gradient in many classes") == 1


def test_gradients_that_add_up_are_streamed(caplog):
    dense, sparse = head_of(Dense()), head_of(Sparse())
    for head in (dense, sparse):
        optimizer = torch.optim.SGD(head.parameters(), **SETTINGS)
        optimizer.zero_grad()
        for rows, labels in batches(2):
            head(rows, labels).loss.backward()
        optimizer.step()
    torch.testing.assert_close(sparse.centers, dense.centers, rtol=1e-10, atol=1e-13)
    assert sparse.engine.streamed_steps == 2
    assert caplog.messages == [
        "the streamed engine computes a step for the sparse one (1 so far): the gradient of all centers has to exist, "
        "which HeadSGD with one backward pass does not need"
    ]


@pytest.mark.parametrize("first", ["screen", "gradient"])
def test_each_reason_is_counted_and_said_by_itself(first, caplog, monkeypatch):
    """Three steps for the one reason and then seven for the other; none hides that the other one begins."""
    monkeypatch.setattr("verisphere.head.sparse.TABLE", 1)
    head, ((rows, labels),) = head_of(Sparse()), batches(1)
    for number in range(10):
        head.deferred = (number < 3) == (first == "screen")
        head(rows, labels).loss.backward()
        head.zero_grad()
    assert head.engine.streamed_steps == 10
    said = [re.search(r"\((\d+) so far\): (\w+ \w+)", message).groups() for message in caplog.messages]
    words = ("a row", "the gradient") if first == "screen" else ("the gradient", "a row")
    assert said == [(count, words[0]) for count in "13"] + [(count, words[1]) for count in "137"]


def test_without_a_gradient_nothing_is_streamed():
    dense, sparse = head_of(Dense()).eval(), head_of(Sparse()).eval()
    ((rows, labels),) = batches(1)
    with torch.no_grad():
        torch.testing.assert_close(sparse(rows, labels).loss, dense(rows, labels).loss, rtol=1e-12, atol=0)
    assert (sparse.engine._kept.steps, sparse.engine.streamed_steps) == (1, 0)


def test_clipping_and_scaling_reach_the_gradient():
    streamed, sparse = head_of(Streamed()), head_of(Sparse())
    norms = []
    for head in (streamed, sparse):
        optimizer = HeadSGD(head.parameters(), head, **SETTINGS)
        scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
        for number, (rows, labels) in enumerate(batches(3)):
            optimizer.zero_grad()
            loss = head(rows, labels).loss
            scaler.scale(loss * (torch.inf if number == 1 else 1.0)).backward()
            scaler.unscale_(optimizer)
            if number != 1:
                norms.append(torch.nn.utils.clip_grad_norm_(head.parameters(), 0.5, foreach=False))
            scaler.step(optimizer)
            scaler.update()
    torch.testing.assert_close(norms[:2], norms[2:], rtol=1e-9, atol=0)
    torch.testing.assert_close(sparse.centers, streamed.centers, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("first_sparse", [True, False])
def test_checkpoints_are_those_of_the_other_engines(first_sparse):
    whole = head_of(Streamed())
    expected = steps(whole, HeadSGD(whole.parameters(), whole, **SETTINGS), batches(8))
    data, state = list(batches(8)), None
    for number, sparse in enumerate((first_sparse, not first_sparse)):
        head = head_of(Sparse() if sparse else Streamed())
        optimizer = HeadSGD(head.parameters(), head, **SETTINGS)
        if state is not None:
            head.load_state_dict(state[0])
            optimizer.load_state_dict(state[1])
        for rows, labels in data[4 * number : 4 * number + 4]:
            one_step(head, optimizer, rows, labels)
        state = copy.deepcopy((head.state_dict(), optimizer.state_dict()))
    torch.testing.assert_close(state[0]["centers"], expected[-1], rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("way", ["deepcopy", "to", "load"])
def test_late_steps_are_made_before_a_head_is_copied_moved_or_loaded(way):
    """Two steps, and then two of the result; against a head that was read after each."""
    data, heads = list(batches(4)), [head_of(Sparse()), head_of(Sparse())]
    for number, head in enumerate(heads):
        optimizer = HeadSGD(head.parameters(), head, **SETTINGS)
        for rows, labels in data[:2]:
            one_step(head, optimizer, rows, labels)
            if number:
                _ = head.centers
        if way == "deepcopy":
            head, optimizer = copy.deepcopy((head, optimizer))
        elif way == "to":
            head.to(torch.float32).to(torch.float64)
        else:
            other = head_of(Sparse())
            state = copy.deepcopy((other.state_dict(), optimizer.state_dict()))
            head.load_state_dict(state[0])
            optimizer.load_state_dict(state[1])
        for rows, labels in data[2:]:
            one_step(head, optimizer, rows, labels)
        heads[number] = head
    torch.testing.assert_close(heads[0].centers, heads[1].centers, rtol=1e-6 if way == "to" else 1e-12, atol=1e-8)


def test_another_engine_that_takes_its_place_sees_all_steps():
    dense, head = head_of(Dense()), head_of(Sparse())
    made = [head_and_sgd(dense), head_and_sgd(head)]
    for number, (rows, labels) in enumerate(batches(6)):
        if number == 3:
            head.engine = Streamed()
        for one, optimizer in made:
            one_step(one, optimizer, rows, labels)
    compare([head.centers.detach()], [dense.centers.detach()], 1e-10)


def test_no_other_engine_takes_its_place_between_a_backward_pass_and_its_step():
    head, ((rows, labels),) = head_of(Sparse()), batches(1)
    optimizer = HeadSGD(head.parameters(), head, **SETTINGS)
    head(rows, labels).loss.backward()
    with pytest.raises(ValueError, match="step first"):
        head.engine = Streamed()
    optimizer.step()
    head.engine = Streamed()


@pytest.mark.parametrize(
    "engine", [Sparse(), Auto(logits=1), Sharded(Sparse())], ids=lambda engine: type(engine).__name__
)
def test_one_engine_that_takes_the_place_in_two_heads_is_copied(engine):
    """A look at the one between backward pass and step of the other, whose step is for its own centers."""
    heads = [head_of(Dense()), head_of(Streamed())]
    for head in heads:
        head.engine, head.deferred = engine, True
    before, ((rows, labels),) = [head.centers.detach().clone() for head in heads], batches(1)
    optimizer = HeadSGD(heads[0].parameters(), heads[0], **SETTINGS)
    heads[0](rows, labels).loss.backward()
    with torch.no_grad():
        heads[1](rows, labels)
    optimizer.step()
    changed = [bool((head.centers != old).any()) for head, old in zip(heads, before, strict=True)]
    assert changed == [True, False]


def test_an_engine_with_a_random_state_may_take_a_place_and_come_back():
    """Its state is the head's, in a checkpoint and in evaluation mode, and goes on when it is set again."""
    head, ((rows, labels),) = head_of(Dense()), batches(1)
    head.engine = Sampled(0.5)
    head(rows, labels)
    assert head.state_dict()["draws.state"].tolist() == [0, 1]
    engine, head.engine = head.engine, Dense()
    assert "draws.state" not in head.state_dict()
    head.eval().engine = engine
    head(rows, labels)
    assert head.state_dict()["draws.state"].tolist() == [0, 1]


def test_an_engine_that_holds_other_classes_is_refused():
    head = head_of(Streamed())
    with pytest.raises(ValueError, match=r"holds the classes range\(0, 200\), of which the head has range\(0, 400\)"):
        head.engine = Sharded(Sparse(), World(0, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("momentum", [0.0, 0.1])
def test_centers_that_decay_to_a_millionth_are_as_near_as_those_of_torch(dtype, momentum):
    """Their change alone would leave no digit of the late ones, and 0 in the end."""
    settings, found = {"lr": 0.5, "momentum": momentum, "weight_decay": 0.6}, []
    for engine, of_type in ((Dense(), torch.float64), (Dense(), dtype), (Sparse(screen="float32"), dtype)):
        head = head_of(engine, dtype=of_type)
        make = partial(HeadSGD, head=head) if isinstance(engine, Sparse) else torch.optim.SGD
        optimizer = make(head.parameters(), **settings)
        rows, labels = torch.ones(3, SIZE, dtype=of_type), torch.arange(3)
        for _ in range(40):
            optimizer.zero_grad()
            head(rows, labels, torch.zeros(3, dtype=of_type)).loss.backward()
            optimizer.step()
        centers = head.centers.detach()[3:, 0].double()
        buffer = optimizer.state[head.stored].get("momentum_buffer", head.stored).detach()[3:, 0].double()
        found.append((centers, buffer))
    assert head.engine.streamed_steps == 0
    for exact, dense, late in zip(*found, strict=True):
        off, of_dense = (((one - exact).norm(dim=1) / exact.norm(dim=1)).max() for one in (late, dense))
        assert off < max(2 * of_dense, 1e-13)


def test_a_center_that_is_0_once_its_late_steps_are_made_is_streamed():
    """As stored the others point away from the rows; as 0 they have the cosine 0, as the long own centers have."""
    found = []
    for engine in (Dense(), Sparse(screen="float32")):
        head = head_of(engine, dtype=torch.float32)
        with torch.no_grad():
            head.centers.copy_(torch.full((SIZE,), -0.1))
            head.centers[:3] = 1e10 * torch.tensor([1.0, -1.0]).repeat(SIZE // 2)
        settings = {"lr": 1.0, "weight_decay": 0.75}
        make = partial(HeadSGD, head=head) if isinstance(engine, Sparse) else torch.optim.SGD
        optimizer = make(head.parameters(), **settings)
        for _ in range(45):
            optimizer.zero_grad()
            output = head(torch.ones(3, SIZE), torch.arange(3), torch.zeros(3))
            output.loss.backward()
            optimizer.step()
            found.append(output.per_sample)
    dense, sparse = found[:45], found[45:]
    assert dense[44].min() > dense[20].max() + 0.5
    compare(sparse, dense, 1e-5)
    assert 0 < head.engine.streamed_steps < 30


@pytest.mark.parametrize("screen", SCREENS)
def test_decay_may_turn_all_centers_round(screen):
    dense, head = head_of(Dense()), head_of(Sparse(screen=screen))
    sgd = torch.optim.SGD(dense.parameters(), lr=1.0, weight_decay=1.5)
    made = [(dense, sgd), (head, HeadSGD(head.parameters(), head, lr=1.0, weight_decay=1.5))]
    data = list(batches(3))
    compare(*[steps(one, optimizer, data) for one, optimizer in reversed(made)], 1e-9)
    assert head.engine.streamed_steps == 0


def test_a_change_of_the_centers_is_noticed():
    head, dense = head_of(Sparse()), head_of(Dense())
    optimizer = HeadSGD(head.parameters(), head, **SETTINGS)
    (first, second) = batches(2)
    one_step(head, optimizer, *first)
    head.centers.data.copy_(dense.centers.data.flip(0))
    dense.centers.data.copy_(dense.centers.data.flip(0))
    torch.testing.assert_close(head(*second).loss, dense(*second).loss, rtol=1e-12, atol=0)
    optimizer.zero_grad()
    head(*first).loss.backward()
    head.centers.data[5:] = dense.centers.data.flip(0)[5:]  # between the backward pass and the step
    optimizer.step()
    dense.load_state_dict(head.state_dict())
    torch.testing.assert_close(head(*second).loss, dense(*second).loss, rtol=1e-12, atol=0)
    one_step(head, optimizer, *first)
    with torch.no_grad():
        next(head.parameters()).mul_(2.0)
    with pytest.raises(ValueError, match=r"change `head\.centers`"):
        head(*second)


def test_a_change_of_late_rows_is_refused_by_whoever_reads_them():
    head = head_of(Sparse())
    optimizer = HeadSGD(head.parameters(), head, **SETTINGS)
    first, second = batches(2)
    one_step(head, optimizer, *first)
    with torch.no_grad():
        next(head.parameters()).mul_(2.0)
    with pytest.raises(ValueError, match=r"change `head\.centers`"):
        head.state_dict()
    head = head_of(Sparse())
    optimizer = HeadSGD(head.parameters(), head, **SETTINGS)
    one_step(head, optimizer, *first)
    optimizer.state[head.stored]["momentum_buffer"].zero_()
    with pytest.raises(ValueError, match="or their momentum were changed"):
        _ = head.centers
    with pytest.raises(ValueError, match="or their momentum were changed"):
        one_step(head, optimizer, *second)


@pytest.mark.parametrize("changed", ["centers", "momentum"])
def test_a_checkpoint_brings_a_head_back_whose_late_rows_were_changed(changed):
    """As the error says: that of the head, then that of the optimizer; the steps after it are those of another head."""
    first, second = batches(2)
    head, other = head_of(Sparse()), head_of(Sparse())
    optimizer, others = (HeadSGD(one.parameters(), one, **SETTINGS) for one in (head, other))
    for one, sgd in ((head, optimizer), (other, others)):
        one_step(one, sgd, *first)
    state = copy.deepcopy((other.state_dict(), others.state_dict()))
    with torch.no_grad():
        (head.stored if changed == "centers" else optimizer.state[head.stored]["momentum_buffer"]).mul_(0.9)
    with pytest.raises(ValueError, match="load a checkpoint, first of the head and then of the optimizer"):
        optimizer.load_state_dict(state[1])
    with pytest.raises(ValueError, match="load a checkpoint"):
        head.load_state_dict({}, strict=False)
    head.load_state_dict(state[0])
    optimizer.load_state_dict(state[1])
    for one, sgd in ((head, optimizer), (other, others)):
        one_step(one, sgd, *second)
    torch.testing.assert_close(head.centers, other.centers, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("first", [True, False])
def test_a_head_that_was_used_in_inference_mode_trains(first: bool):
    heads = head_of(Sparse()), head_of(Dense())
    data = list(batches(3))
    losses = []
    for head in heads:
        optimizer = HeadSGD(head.parameters(), head, **SETTINGS)
        if not first:
            one_step(head, optimizer, *data[0])
        head.state_dict()
        with torch.inference_mode():
            head(*data[1])
        one_step(head, optimizer, *data[2])
        losses.append(head(*data[1]).loss)
    torch.testing.assert_close(*losses, rtol=1e-10, atol=0)


def test_a_loss_with_gradients_everywhere_is_refused():
    ((rows, labels),) = batches(1)
    with pytest.raises(ValueError, match="the engine is Sparse, but ArcFace has no bound"):
        head_of(Sparse(), ArcFace)(rows, labels)
    with pytest.raises(ValueError, match="Intra has no bound"):
        head_of(Sparse(), Intra)(rows, labels)
    with pytest.raises(ValueError, match=r"pull_together is 0\.1"):
        head_of(Sparse(), subcenters=2, pull_together=0.1)(rows, labels)
    with pytest.raises(ValueError, match="pooling 'softmax'"):
        head_of(Sparse(), subcenters=2, pooling="softmax")(rows, labels)
    with pytest.raises(TypeError, match="streamed"):
        Sparse(streamed=Dense())
    with pytest.raises((TypeError, ValueError), match="'int4'"):  # the type checks of a full run refuse it first
        Sparse(screen="int4")


def test_auto_takes_it_for_many_logits_of_such_a_loss():
    """Small batches between large ones are dense; ArcFace and torch's SGD get other engines."""
    dense, auto = head_of(Dense()), head_of(Auto(logits=BATCH * CLASSES - 1))
    pairs = [
        (dense, torch.optim.SGD(dense.parameters(), **SETTINGS)),
        (auto, HeadSGD(auto.parameters(), auto, **SETTINGS)),
    ]
    for number, (rows, labels) in enumerate(batches(9)):
        few = slice(0, 3 if number % 3 == 2 else BATCH)
        for head, optimizer in pairs:
            one_step(head, optimizer, rows[few], labels[few])
    compare([auto.centers.detach()], [dense.centers.detach()], 1e-10)
    assert (auto.engine._sparse._kept.steps, auto.engine._sparse.streamed_steps) == (6, 0)
    for make, deferred in ((ArcFace, True), (QMargin, False)):
        other = head_of(Auto(logits=1), make)
        other.deferred = deferred
        other(rows, labels).loss.backward()
        assert other.engine._sparse._kept.steps == 0


@pytest.mark.parametrize("fewer", [0, 1])
def test_auto_takes_it_for_fewer_logits_than_the_streamed_engine(fewer, monkeypatch):
    monkeypatch.setattr("verisphere.head.auto.SPARSE_LOGITS", BATCH * CLASSES - fewer)
    auto = head_of(Auto())
    rows, labels = next(iter(batches(1)))
    one_step(auto, HeadSGD(auto.parameters(), auto, **SETTINGS), rows, labels)
    assert auto.engine._sparse._kept.steps == fewer
    assert Auto().dense_before_sparse("cuda") == Auto().logits


def test_inside_a_sample_it_streams(caplog):
    head, other = head_of(Sampled(0.5, Sparse())), head_of(Sampled(0.5, Streamed()))
    ((rows, labels),) = batches(1)
    torch.testing.assert_close(head(rows, labels).loss, other(rows, labels).loss, rtol=1e-12, atol=0)
    for _ in range(4):
        head(rows, labels)
    said = [re.search(r"\((\d+) so far\): Sampled weighs the classes", message)[1] for message in caplog.messages]
    assert said == ["1", "3"]


@pytest.mark.parametrize("last", [BATCH, 350])
def test_a_sample_of_all_classes_is_late_and_no_reader_sees_it(last):
    """With 350 of 400 classes in the batch all are drawn; with twelve a half of them, after some were left late."""
    found = []
    for engine in (Sparse(), Streamed()):
        head = head_of(Sampled(0.5, engine))
        optimizer = HeadSGD(head.parameters(), head, **SETTINGS)
        for rows in torch.randn(5, 350, SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(0)):
            one_step(head, optimizer, rows, torch.arange(350))
        one_step(head, optimizer, rows[:last], torch.arange(last))
        if isinstance(engine, Sparse):
            assert head.engine.inner.streamed_steps == (last == BATCH)
        state = optimizer.state_dict()["state"][0]["momentum_buffer"]
        found.append([head.state_dict()["centers"].clone(), state.clone()])
    compare(*found, 1e-10)


# Several ranks ---------------------------------------------------------------------------------------------


def trained_by_ranks(engine: Sparse | Streamed) -> tuple[list[Tensor], Head]:
    torch.manual_seed(1)
    head = Head(QMargin(), CLASSES, SIZE, engine=Sharded(engine)).double()
    optimizer = HeadSGD(head.parameters(), head, **SETTINGS)
    share = world().share(BATCH)
    data = [(rows[share.start : share.stop], labels[share.start : share.stop]) for rows, labels in batches(6)]
    return steps(head, optimizer, data), head


def both_engines() -> tuple[float, int]:
    (ours, head), (theirs, _) = trained_by_ranks(Sparse()), trained_by_ranks(Streamed())
    off = max(float(((one - other).abs() / other.abs().max()).max()) for one, other in zip(ours, theirs, strict=True))
    return off, head.engine.inner.streamed_steps


def test_several_ranks_find_what_one_finds():
    for off, streamed in run(both_engines, 2):
        assert off < 1e-10
        assert streamed == 0


@pytest.mark.cuda
@pytest.mark.parametrize("screen", ["auto", "float32"])
def test_on_a_gpu_it_is_as_on_a_cpu(screen):
    cpu, gpu = head_of(Streamed(), dtype=torch.float32), head_of(Sparse(screen=screen), dtype=torch.float32).to("cuda")
    found = [
        steps(head, HeadSGD(head.parameters(), head, **SETTINGS), batches(6, torch.float32)) for head in (gpu, cpu)
    ]
    compare(*found, 1e-4)
    assert gpu.engine.streamed_steps == 0
