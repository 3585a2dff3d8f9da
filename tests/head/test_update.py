"""SGD by the head: the same steps as torch.optim.SGD makes, without the centers' gradient."""

import copy
import pickle

import pytest
import torch

from verisphere.head.auto import Auto
from verisphere.head.chunk import add_to_momentum, inverse_length, step_by_momentum
from verisphere.head.dense import Dense
from verisphere.head.head import Head
from verisphere.head.interface import SGDStep
from verisphere.head.sampled import Sampled
from verisphere.head.streamed import Streamed
from verisphere.head.subcenters import SubCenters
from verisphere.head.update import HeadSGD
from verisphere.losses.auxiliary import Inter, Intra, WeightedSum
from verisphere.losses.margin import ArcFace
from verisphere.losses.softmax import Softmax
from verisphere.losses.sphereface2 import SphereFace2

CLASSES, SIZE = 11, 6
LOSSES = {
    "ArcFace": ArcFace,
    "SphereFace2": SphereFace2,
    "Softmax": Softmax,
    "sum": lambda: WeightedSum([ArcFace(), Intra(), Inter()]),
    "intra": Intra,
}


def batches(count: int, dtype: torch.dtype = torch.float64):
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        rows = 3 * torch.randn(8, SIZE, generator=generator, dtype=torch.float64)
        yield rows.to(dtype), torch.randint(0, CLASSES, (8,), generator=generator)


def head_of(make=ArcFace, engine=None, subcenters=1, **settings) -> Head:
    torch.manual_seed(1)
    engine = Streamed(chunk=4) if engine is None else engine
    return Head(make(), CLASSES, SIZE, centers=SubCenters(subcenters, **settings), engine=engine).double()


def groups(head: Head) -> list[dict]:
    """As a training has them: weight decay for centers, none for single numbers."""
    single = [one for one in head.parameters() if one.ndim < 2]
    return [{"params": [head.centers], "weight_decay": 0.01}, *([{"params": single}] if single else [])]


def steps(head: Head, optimizer: torch.optim.Optimizer, data) -> None:
    for rows, labels in data:
        optimizer.zero_grad()
        head(rows, labels).loss.backward()
        optimizer.step()


@pytest.mark.parametrize("make", LOSSES.values(), ids=LOSSES.keys())
@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.9, True)])
def test_it_steps_as_sgd_does(make, momentum, nesterov):
    settings = {"subcenters": 2, "pull_together": 0.2}
    plain, fused = head_of(make, Dense(), **settings), head_of(make, **settings)
    reference = torch.optim.SGD(groups(plain), lr=0.5, momentum=momentum, nesterov=nesterov)
    optimizer = HeadSGD(groups(fused), fused, lr=0.5, momentum=momentum, nesterov=nesterov)
    steps(plain, reference, batches(3))
    steps(fused, optimizer, batches(3))
    for one, other in zip(fused.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)
    assert fused.centers.grad is None
    ours, theirs = optimizer.state_dict()["state"], reference.state_dict()["state"]
    assert ours.keys() == theirs.keys()
    if momentum:
        torch.testing.assert_close(ours[0]["momentum_buffer"], theirs[0]["momentum_buffer"], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("fused_first", [True, False])
def test_either_goes_on_from_the_others_checkpoint(fused_first):
    whole = head_of()
    steps(whole, torch.optim.SGD(groups(whole), lr=0.5, momentum=0.9), batches(6))
    head, data = head_of(), list(batches(6))
    first, second = torch.optim.SGD(groups(head), lr=0.5, momentum=0.9), None
    for number, fused in enumerate((fused_first, not fused_first)):
        head.deferred = False
        make = (lambda: HeadSGD(groups(head), head, lr=0.5, momentum=0.9)) if fused else (
            lambda: torch.optim.SGD(groups(head), lr=0.5, momentum=0.9))  # fmt: skip
        second = make()
        if number:
            second.load_state_dict(first.state_dict())
        steps(head, second, data[3 * number : 3 * number + 3])
        first = second
    torch.testing.assert_close(head.centers, whole.centers, rtol=1e-9, atol=1e-12)


def test_a_learning_rate_may_change_between_steps():
    plain, fused = head_of(engine=Dense()), head_of()
    reference = torch.optim.SGD(groups(plain), lr=0.5, momentum=0.9)
    optimizer = HeadSGD(groups(fused), fused, lr=0.5, momentum=0.9)
    for rate, data in zip((0.5, 0.1), batches(2), strict=True):
        for head, one in ((plain, reference), (fused, optimizer)):
            for group in one.param_groups:
                group["lr"] = rate
            steps(head, one, [data])
    torch.testing.assert_close(fused.centers, plain.centers, rtol=1e-9, atol=1e-12)


def test_bfloat16_stays_near():
    plain = head_of(engine=Dense()).float()
    fused = head_of(engine=Streamed("bfloat16", chunk=4)).float()
    before = plain.centers.detach().clone()
    steps(plain, torch.optim.SGD(groups(plain), lr=0.1, momentum=0.9), batches(1, torch.float32))
    steps(fused, HeadSGD(groups(fused), fused, lr=0.1, momentum=0.9), batches(1, torch.float32))
    moved = (plain.centers - before).norm()
    assert (fused.centers - plain.centers).norm() < 0.05 * moved


def test_the_step_of_a_gpu_is_that_of_a_cpu():
    """In one call where a CPU makes two."""
    centers, buffer, by_product = torch.randn(3, 5, 4, dtype=torch.float64)
    inverse = inverse_length(centers)
    momentum, decay, rate = torch.tensor([0.9, 5e-4, 0.1], dtype=torch.float64)
    stepped, expected = centers.clone(), buffer.clone()
    add_to_momentum(expected, by_product, centers, inverse, momentum, decay)
    step_by_momentum(buffer, by_product, stepped, inverse, momentum, decay, rate)
    assert torch.equal(buffer, expected)
    torch.testing.assert_close(stepped, centers - 0.1 * expected)


@pytest.mark.cuda
@pytest.mark.parametrize("nesterov", [False, True])
def test_steps_on_a_gpu_are_those_on_a_cpu(nesterov):
    heads = {device: Head(ArcFace(), 300, 16, engine=Streamed(chunk=128)).to(device) for device in ("cpu", "cuda")}
    heads["cuda"].load_state_dict(heads["cpu"].state_dict())
    embeddings, labels = torch.randn(20, 16), torch.arange(20) * 13
    for device, head in heads.items():
        optimizer = HeadSGD(head.parameters(), head, lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=nesterov)
        for _ in range(3):
            optimizer.zero_grad()
            head(embeddings.to(device), labels.to(device)).loss.backward()
            optimizer.step()
    torch.testing.assert_close(heads["cuda"].centers.cpu(), heads["cpu"].centers, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("engine", [Dense(), Auto()])
def test_an_engine_that_cannot_leaves_it_to_sgd(engine):
    plain, head = head_of(engine=Dense()), head_of(engine=engine)
    steps(plain, torch.optim.SGD(groups(plain), lr=0.5, momentum=0.9), batches(2))
    steps(head, HeadSGD(groups(head), head, lr=0.5, momentum=0.9), batches(2))
    assert head.centers.grad is not None
    torch.testing.assert_close(head.centers, plain.centers)


@pytest.mark.parametrize("engine", [Streamed(chunk=4), Sampled(0.5, Streamed(chunk=4))], ids=["all", "a sample"])
def test_zero_grad_drops_what_waits(engine):
    head = head_of(engine=engine)
    optimizer = HeadSGD(groups(head), head, lr=0.5)
    before = head.centers.detach().clone()
    ((rows, labels),) = batches(1)
    head(rows, labels).loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    assert torch.equal(head.centers, before)


def test_zero_grad_of_the_head_drops_what_waits():
    head = head_of()
    head.deferred = True
    ((rows, labels),) = batches(1)
    for _ in range(2):
        head.zero_grad()
        head(rows, labels).loss.backward()
    assert head.step(SGDStep(0.1))


def test_zeroed_gradients_are_none_for_the_centers():
    """An engine that gave them a gradient before, and then defers."""
    plain, head = head_of(engine=Dense()), head_of(engine=Auto(Streamed(chunk=4), logits=8 * CLASSES))
    reference = torch.optim.SGD(groups(plain), lr=0.5, momentum=0.9)
    optimizer = HeadSGD(groups(head), head, lr=0.5, momentum=0.9)
    ((rows, labels),) = batches(1)
    for data in ((rows, labels), (torch.cat([rows, rows]), labels.repeat(2))):
        for one, stepper in ((plain, reference), (head, optimizer)):
            stepper.zero_grad(set_to_none=False)
            one(*data).loss.backward()
            stepper.step()
    torch.testing.assert_close(head.centers, plain.centers, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))], ids=["copy", "pickle"])
def test_a_copy_goes_on_like_the_first(copied):
    head = head_of()
    optimizer = HeadSGD(groups(head), head, lr=0.5, momentum=0.9)
    first, second = batches(2)
    steps(head, optimizer, [first])
    twin, its = copied((head, optimizer))
    assert its.head is twin
    steps(twin, its, [second])
    assert not torch.equal(twin.centers, head.centers)
    steps(head, optimizer, [second])
    assert torch.equal(twin.centers, head.centers)


@pytest.mark.parametrize("setting", [{"dampening": 0.1}, {"maximize": True}])
def test_what_the_head_does_not_know_is_refused(setting):
    head = head_of()
    group = {"params": [head.centers], **setting}
    with pytest.raises(ValueError, match=r"a head supports neither: use torch\.optim\.SGD"):
        HeadSGD([group], head, lr=0.1, momentum=0.9)
    optimizer = HeadSGD([head.centers], head, lr=0.1, momentum=0.9)
    optimizer.param_groups[0].update(setting)  # as a checkpoint would
    ((rows, labels),) = batches(1)
    before = head.centers.detach().clone()
    head(rows, labels).loss.backward()
    with pytest.raises(ValueError, match="a head supports neither"):
        optimizer.step()
    assert torch.equal(head.centers, before)


@pytest.mark.parametrize("closure", [False, True])
def test_another_term_on_the_centers_is_refused_and_changes_nothing(closure):
    head, linear = head_of(), torch.nn.Linear(SIZE, SIZE).double()
    parameters = [*linear.parameters(), head.centers]
    optimizer = HeadSGD(parameters, head, lr=0.5, momentum=0.9)
    ((rows, labels),) = batches(1)
    before = [one.detach().clone() for one in parameters]

    def both() -> float:
        loss = head(linear(rows), labels).loss + head.centers.square().sum()
        loss.backward()
        return loss.item()

    if not closure:
        both()
    with pytest.raises(ValueError, match="the centers have a gradient beside the deferred one"):
        optimizer.step(both if closure else None)
    assert all(torch.equal(one, other) for one, other in zip(parameters, before, strict=True))
    assert not optimizer.state


def test_a_closure_is_called_once():
    plain, head = head_of(engine=Dense()), head_of()
    ((rows, labels),) = batches(1)
    for one, optimizer in (
        (plain, torch.optim.SGD(groups(plain), lr=0.5)),
        (head, HeadSGD(groups(head), head, lr=0.5)),
    ):
        called = []

        def closure(one=one, called=called) -> float:
            loss = one(rows, labels).loss
            loss.backward()
            called.append(loss.item())
            return loss.item()

        assert [optimizer.step(closure)] == called
    torch.testing.assert_close(head.centers, plain.centers, rtol=1e-9, atol=1e-12)


def test_accumulation_is_refused():
    head = head_of()
    HeadSGD(groups(head), head, lr=0.5)
    ((rows, labels),) = batches(1)
    head(rows, labels).loss.backward()
    with pytest.raises(ValueError, match="a second backward pass came before the step of the first"):
        head(rows, labels).loss.backward()


def test_centers_changed_before_the_step_are_refused():
    head = head_of(SphereFace2)
    optimizer = HeadSGD(groups(head), head, lr=0.5)
    ((rows, labels),) = batches(1)
    head(rows, labels).loss.backward()
    with torch.no_grad():
        head.centers.zero_()
    before = head.loss.bias.item()
    with pytest.raises(ValueError, match="the centers have changed since the backward pass of the deferred gradient"):
        optimizer.step()
    assert head.loss.bias.item() == before


def test_a_buffer_goes_with_a_momentum():
    head = head_of()
    head.deferred = True
    ((rows, labels),) = batches(1)
    head(rows, labels).loss.backward()
    with pytest.raises(ValueError, match=r"momentum is 0\.9 and the buffer absent"):
        head.step(SGDStep(0.1, momentum=0.9))


def test_without_a_backward_there_is_nothing_to_step():
    head = head_of()
    assert not head.step(SGDStep(0.1))


def test_another_heads_parameters_are_refused():
    head, other = head_of(), head_of()
    with pytest.raises(ValueError, match="the head's centers are not among the parameters"):
        HeadSGD(groups(other), head, lr=0.1)
    assert not head.deferred
