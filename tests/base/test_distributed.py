"""Several processes: who is who, what they tell each other, and what becomes of the rest when one fails."""

import atexit
import gc
import sys
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from math import inf, nan
from socket import socket

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from processes import WorkerFailed, run, threads
from verisphere.base import collectives, distributed
from verisphere.base.collectives import (
    counted,
    counts,
    gathered,
    gathered_with_gradient,
    highest,
    scale_gradient,
    to_partial,
    to_replicated,
    total,
)
from verisphere.base.distributed import World, joined, launched, world

# One process ----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 1000), st.integers(1, 20))
def test_shares_follow_one_another_and_differ_by_one_at_most(count, size):
    shares = [World(size=size).share(count, rank) for rank in range(size)]
    assert [one for share in shares for one in share] == list(range(count))
    sizes = [len(share) for share in shares]
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) - min(sizes) <= 1
    assert [World(rank, size).share(count) for rank in range(size)] == shares


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: World(2, 2), r"rank is 2 of 2 processes; it must be in \[0, 2\)"),
        (lambda: World(-1, 2), "rank is -1 of 2 processes"),
        (lambda: World(0, 0), "rank is 0 of 0 processes"),
        (lambda: World(local_rank=-1), "local_rank is -1; it must not be negative"),
    ],
)
def test_worlds_that_cannot_be(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_alone_everything_is_as_it_was_given():
    rows = torch.randn(3, 2, requires_grad=True)
    with counted() as traffic:
        for same in (gathered_with_gradient(rows, [3]), to_replicated(rows), to_partial(rows), scale_gradient(rows)):
            assert same is rows
        for same in (gathered(rows), total(rows), highest(rows)):
            assert torch.equal(same, rows)
            assert not same.requires_grad
        assert counts(7) == [7]
    assert traffic.calls == []
    assert traffic.payload == 0
    assert world() == World()
    assert world().first


def test_counts_within_counts_end_with_their_own():
    with counted() as outer:
        with counted() as inner:
            pass
        assert collectives._counting == [outer]
        assert outer is not inner


@pytest.fixture
def launcher(monkeypatch):
    """What torchrun would say to the second of two."""
    for name, value in {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29999"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    return monkeypatch


@pytest.mark.parametrize("size", [None, "", "1"])
def test_without_a_launcher_one_is_alone(monkeypatch, size):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    if size is not None:
        monkeypatch.setenv("WORLD_SIZE", size)
    assert not launched()
    with joined() as here:
        assert here == World()
        assert not dist.is_initialized()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"RANK": ""}, "WORLD_SIZE is 2 but RANK is not set: start the processes with torchrun"),
        ({"RANK": "", "MASTER_PORT": ""}, "WORLD_SIZE is 2 but RANK, MASTER_PORT are not set"),
        ({"RANK": "2"}, "RANK is 2 and WORLD_SIZE 2; ranks count from 0"),
        ({"RANK": "first"}, "RANK is 'first' in the environment; it must be a whole number"),
        ({"WORLD_SIZE": "2.0"}, "WORLD_SIZE is '2.0' in the environment; it must be a whole number"),
        ({"MASTER_PORT": "abc"}, "MASTER_PORT is 'abc' in the environment; it must be a whole number"),
        ({"MASTER_PORT": "99999"}, "MASTER_PORT is 99999 in the environment; allowed are ports from 1 to 65535"),
    ],
)
def test_what_no_launcher_says(launcher, change, message):
    for name, value in change.items():
        launcher.setenv(name, value)
    assert launched()
    with pytest.raises(ValueError, match=message), joined():
        pass


@pytest.mark.parametrize("patience", [0.0, -1.0, 1e300, inf, nan])
def test_patience_is_a_time(launcher, patience):
    with (
        pytest.raises(ValueError, match=r"patience is .*; it must be a positive number of seconds"),
        joined(False, patience),
    ):
        pass


def test_a_gpu_for_each(launcher):
    launcher.setattr(torch.cuda, "device_count", lambda: 1)
    with (
        pytest.raises(ValueError, match="process 1 of this machine has no GPU of its own: PyTorch sees 1"),
        joined(True),
    ):
        pass


def test_nobody_to_meet(launcher):
    launcher.setenv("RANK", "0")
    with socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
    launcher.setenv("MASTER_PORT", port)
    with (
        pytest.raises(ConnectionError, match=rf"^process 0 of 2 has not met the others at 127.0.0.1:{port}: [^\n]*$"),
        joined(patience=1.0),
    ):
        pass
    assert not dist.is_initialized()


# Several --------------------------------------------------------------------------------------------------------------


def exchanges() -> list[list]:
    """All at once; each process checks what it gets, and gives back what it has told."""
    here = world()
    size, rank = here.size, here.rank
    assert dist.is_initialized()
    assert here == World(rank, size, rank)
    assert here.first == (rank == 0)
    everyone = torch.arange(size, dtype=torch.float64)
    with counted() as traffic:
        mine = torch.full((2, 3), float(rank), dtype=torch.float64, requires_grad=True)
        assert total(mine).tolist() == [[float(everyone.sum())] * 3] * 2
        assert highest(mine).tolist() == [[size - 1.0] * 3] * 2
        assert not total(mine).requires_grad
        assert mine.tolist() == [[rank] * 3] * 2  # as it was
        assert counts(10 * rank) == [10 * one for one in range(size)]
        assert torch.equal(gathered(mine), everyone.repeat_interleave(2)[:, None].expand(-1, 3))
        # Uneven, some with none; of every kind that is sent, and not contiguous.
        sizes = [(rank * 2) % 3 for rank in range(size)]
        for dtype in (torch.int64, torch.float32, torch.bfloat16, torch.bool):
            rows = torch.full((3, sizes[rank]), rank + 1).to(dtype).T
            expected = torch.cat([torch.full((one, 3), number + 1).to(dtype) for number, one in enumerate(sizes)])
            found = gathered(rows, sizes)
            assert found.dtype == dtype
            assert torch.equal(found, expected)
        assert gathered(torch.ones(0, 3), [0] * size).shape == (0, 3)
    return [[call.kind, call.payload] for call in traffic.calls]


def gradients() -> None:
    """A loss of what is gathered, summed and entered, against plain autograd over the numbers of all."""
    size, rank = world().size, world().rank
    sizes = [3, 0, 2][:size]
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randn(one, 2, dtype=torch.float64, generator=generator) for one in sizes]
    own = [torch.randn(sum(sizes), 2, dtype=torch.float64, generator=generator) for _ in range(size)]  # of each process
    bias = torch.randn((), dtype=torch.float64, generator=generator)

    def loss_of(everyones, again, parts, entered):
        """Partial terms, one a process, and a factor that all compute alike."""
        partial = [(everyones * one).sum(1).sin() * entered for one in parts]
        return partial, again.square().sum(1) * bias_alike.cos()

    whole = [one.clone().requires_grad_() for one in rows]
    parts = [one.clone().requires_grad_() for one in own]
    bias_alike = bias.clone().requires_grad_()
    partial, alike = loss_of(torch.cat(whole), torch.cat(whole), parts, bias_alike)
    (torch.stack(partial).sum(0) * alike).sum().backward()
    expected = whole[rank].grad, parts[rank].grad, bias_alike.grad

    mine, part = rows[rank].clone().requires_grad_(), own[rank].clone().requires_grad_()
    bias_alike = bias.clone().requires_grad_()
    with counted() as traffic:
        everyones = gathered_with_gradient(mine, sizes)
        (partial,), alike = loss_of(everyones, scale_gradient(everyones), [part], to_partial(bias_alike))
        loss = (to_replicated(partial) * alike).sum()
        (first,) = torch.autograd.grad(loss, mine, create_graph=True)
        with pytest.raises(RuntimeError, match="differentiate twice"):
            first.sum().backward()
        traffic.calls.clear()
        loss.backward()
    for found, one in zip((mine.grad, part.grad, bias_alike.grad), expected, strict=True):
        torch.testing.assert_close(found, one, rtol=1e-12, atol=1e-12)
    assert [call.kind for call in traffic.calls] == ["sum", "scatter"]  # in the forward's order, reversed


def several() -> list[list]:
    gradients()
    return exchanges()


@pytest.mark.parametrize("size", [2, 3])
def test_what_they_tell_each_other(size):
    sent = [
        *(["sum", 48], ["maximum", 48], ["sum", 48], ["gather", 8], ["gather", 48]),
        *(["gather", 2 * 3 * one] for one in (8, 4, 2, 1)),
        ["gather", 0],
    ]
    assert run(several, size) == [sent] * size


def one_fails() -> None:
    total(torch.ones(3))  # so that no rank still waits to be connected with one that has gone
    if world().rank == 1:
        raise ValueError("no luck")
    total(torch.ones(3))


def one_dies() -> None:
    total(torch.ones(3))
    if world().rank == 1:
        import os

        os.kill(os.getpid(), 9)
    total(torch.ones(3))


def compiles_and_wraps() -> list[str]:
    """What imports much of torch.distributed while there is a group."""
    row = torch.ones(3)
    torch.compile(lambda row: row + 1, backend="eager")(row)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(row).sum().backward()
    optimizer.step()
    return [name for name in threads() if "gloo" in name]


def test_nothing_of_the_group_outlives_it():
    """`run` looks at the end of each process whether it has threads of gloo."""
    assert all(run(compiles_and_wraps, 2))


def leaves_tensors_to_the_group() -> None:
    """A model in DDP, in a cycle; at the end the group's threads need the interpreter's lock to free their tensors."""
    sys.setswitchinterval(50)  # seconds: nobody is made to hand the lock over
    gc.disable()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    model.itself = model
    models = [model]

    def at_the_end() -> None:
        group = models.pop().process_group
        for _ in range(30):
            group.allgather([[torch.empty(1) for _ in range(group.size())]], [torch.ones(1)])
        started = time.perf_counter()
        while time.perf_counter() - started < 0.2:
            pass

    atexit.register(at_the_end)  # before what `joined` has registered


def test_the_group_ends_while_its_threads_wait_for_the_interpreter():
    assert run(leaves_tensors_to_the_group, 2) == [None, None]


def test_what_an_uncaught_error_holds_is_let_go_at_the_end(monkeypatch):
    model = torch.nn.Linear(1, 1)
    gone = weakref.ref(model)
    error = ValueError("no luck")
    error.model, error.itself = model, error  # as its frames have it, in a cycle
    monkeypatch.setattr(sys, "last_value", None, raising=False)  # taken back at the end of the test
    sys.last_value = error
    del model, error
    assert gone() is not None
    distributed._let_go()
    assert gone() is None


@pytest.mark.parametrize("worker", [one_fails, one_dies])
def test_when_one_fails_the_others_end_by_themselves(worker):
    with pytest.raises(WorkerFailed, match="did not end well") as failed:
        run(worker, 3)
    assert failed.value.killed == []
    assert sorted(failed.value.texts) == [0, 1, 2]
    if worker is one_fails:
        assert failed.value.texts[1].endswith("ValueError: no luck")
    for rank in (0, 2):
        assert "RuntimeError" in failed.value.texts[rank]


def one_is_late() -> None:
    if world().rank == 1:
        time.sleep(600)
    total(torch.ones(3))


def test_patience_ends():
    with pytest.raises(WorkerFailed) as failed:
        run(one_is_late, 2, patience=3.0, grace=0.5)
    assert failed.value.killed == [1]  # it sleeps on
    assert "RuntimeError" in failed.value.texts[0]


def started(port: int, size: int, late: int | None = None, patience: float = 30.0) -> list[dist.Store]:
    """What the ranks of a start find in the store of a launcher; one of them comes last."""

    def rank(number: int) -> dist.Store:
        time.sleep(0.2 * (number == late))
        store = dist.TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
        found = distributed._of_this_start(store, number, size, patience)
        found.set(f"address/{number}", f"of {number}")
        return found

    with ThreadPoolExecutor(size) as pool:
        return [*pool.map(rank, range(size))]


@pytest.mark.parametrize("late", [0, 1, 2])
def test_ranks_that_are_started_again_know_nothing_of_those_before(late: int):
    """Whoever comes last, and however many there were before; torchrun keeps the store of its first start."""
    launcher = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    for size in (3, 4, 3):
        before = started(launcher.port, size)
        again = started(launcher.port, 3, late)
        for other in again:
            other.set("place", "here")
            assert again[0].get("place") == b"here"
            assert other.get("address/2") == b"of 2"
            other.delete_key("place")
        assert not before[0].check(["place"])
        again[0].delete_key("address/1")
        assert before[0].check(["address/1"])


def test_a_rank_that_never_comes_is_not_waited_for_longer_than_patience():
    launcher = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    started(launcher.port, 2)
    with pytest.raises(dist.DistStoreError, match=r"not all of 2 ranks were there in 0\.5 s"):
        distributed._of_this_start(launcher, 0, 2, 0.5)  # whose peer's word is that of the start before


def never() -> None:
    time.sleep(600)


def test_no_worker_outlives_its_time():
    with pytest.raises(WorkerFailed, match=r"\[0, 1\] after") as failed:
        run(never, 2, timeout=1.0)
    assert failed.value.killed == [0, 1]
