"""Batches: their order, errors from workers, and workers that end."""

import multiprocessing
import os
from collections.abc import Sequence

import pytest
import torch
from jaxtyping import UInt8
from torch import Tensor

from verisphere.base.seeds import image_order_seed
from verisphere.images.faces import Faces
from verisphere.images.loader import (
    Batch,
    UnreadableImages,
    batches,
    buffered_order,
    epoch_order,
    grouped_order,
)


class Numbered(Faces):
    """Images of four pixels that hold their position, the process that made them and its threads."""

    def __init__(self, count: int = 23, broken: int = -1, error: Exception | None = None) -> None:
        self.names = tuple(f"{index}.jpg" for index in range(count))
        self.identities = tuple(str(index % 5) for index in range(count))
        self.broken, self.error = broken, error or ValueError(f"{broken}.jpg: not an image that can be decoded (x)")
        self.home = os.getpid()

    def images(self, indices: Sequence[int]) -> UInt8[Tensor, "batch 3 height width"]:
        if self.broken in indices:
            raise self.error
        images = torch.zeros(len(indices), 3, 1, 2, dtype=torch.uint8)
        images[:, 0, 0, 0] = torch.tensor(indices)
        images[:, 1] = os.getpid() != self.home
        images[:, 2] = torch.get_num_threads()
        return images


@pytest.fixture(autouse=True)
def _no_worker_is_left():
    yield
    for child in multiprocessing.active_children():
        child.join(timeout=300)
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("drop_last", [False, True])
def test_the_same_batches_for_any_number_of_workers(workers: int, drop_last: bool):
    order = epoch_order(23, seed=0, epoch=0)
    read = list(batches(Numbered(), order, 4, workers, drop_last))
    assert [len(batch.images) for batch in read] == [4] * 5 + [3] * (not drop_last)
    seen = torch.cat([batch.indices for batch in read])
    assert torch.equal(seen, order[: len(seen)])
    assert all(torch.equal(batch.images[:, 0, 0, 0].long(), batch.indices) for batch in read)
    assert all(bool(batch.images[:, 1].all()) == (workers > 0) for batch in read)


def test_a_worker_has_one_thread():
    assert next(iter(batches(Numbered(), torch.arange(4), 4, workers=1))).images[:, 2].eq(1).all()


@pytest.mark.parametrize("workers", [0, 1])
def test_nothing_is_pinned_unless_asked_for(workers: int, monkeypatch: pytest.MonkeyPatch):
    asked = []
    loader = torch.utils.data.DataLoader
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # a CUDA machine, working on its CPU
    monkeypatch.setattr(
        "verisphere.images.loader.DataLoader",
        lambda *given, **options: (asked.append(options["pin_memory"]), loader(*given, **options))[1],
    )
    assert len(list(batches(Numbered(), torch.arange(8), 4, workers))) == 2
    assert asked == [False]


def test_pinning_needs_a_device(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="pin is True, but PyTorch sees no CUDA device"):
        batches(Numbered(), torch.arange(8), 4, pin=True)


@pytest.mark.cuda
@pytest.mark.parametrize("workers", [0, 1])
def test_batches_are_pinned_when_asked_for(workers: int):
    for batch in batches(Numbered(), torch.arange(8), 4, workers, pin=True):
        assert batch.images.is_pinned()
        assert torch.equal(batch.images[:, 0, 0, 0].long(), batch.indices)


def test_positions_may_repeat_and_may_be_none():
    assert next(batches(Numbered(), torch.tensor([7, 7, 1]), 4)).indices.tolist() == [7, 7, 1]
    assert list(batches(Numbered(), torch.arange(0), 4)) == []
    assert list(batches(Numbered(), torch.arange(3), 4, drop_last=True)) == []


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_arrives_as_it_was_raised_behind_the_batches_before_it(workers: int):
    read: list[Batch] = []
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole message is compared below
        read.extend(batches(Numbered(broken=9), torch.arange(23), 4, workers))
    assert str(caught.value) == "9.jpg: not an image that can be decoded (x)"
    with pytest.raises(FileNotFoundError, match="No such file or directory: 'a'"):
        list(batches(Numbered(broken=0, error=FileNotFoundError(2, "No such file or directory", "a")),
                     torch.arange(4), 4, workers))  # fmt: skip


@pytest.mark.parametrize("workers", [0, 2])
def test_a_fault_of_ours_keeps_its_traceback(workers: int):
    with pytest.raises(ZeroDivisionError):
        list(batches(Numbered(broken=0, error=ZeroDivisionError("division by zero")), torch.arange(4), 4, workers))


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_end_when_the_reader_stops_early(workers: int):
    iterator = batches(Numbered(5000), torch.arange(5000), 2, workers)
    next(iterator)
    assert len(multiprocessing.active_children()) == workers
    iterator.close()
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(
    ("order", "batch_size", "workers", "message"),
    [
        ([0, 23], 4, 0, "order reaches from 0 to 23 but the set has 23 images; was it made for another set"),
        ([-1, 2], 4, 0, "order reaches from -1 to 2"),
        ([0, 1], 0, 0, "batch_size is 0"),
        ([0, 1], 1, -1, "workers is -1"),
    ],
)
def test_wrong_arguments_are_refused_at_the_call(order: list[int], batch_size: int, workers: int, message: str):
    with pytest.raises(ValueError, match=message):
        batches(Numbered(), torch.tensor(order), batch_size, workers)


def test_the_order_of_an_epoch():
    order = epoch_order(100, seed=1, epoch=2)
    assert sorted(order.tolist()) == list(range(100))
    assert torch.equal(order, epoch_order(100, seed=1, epoch=2))
    others = [epoch_order(100, *pair) for pair in ((1, 3), (2, 2), (2, 1), (3, 0), (0, 3))]
    assert not any(torch.equal(order, other) for other in others)
    assert epoch_order(0, 0, 0).tolist() == []
    with pytest.raises(ValueError, match="seed is -1 and epoch 0"):
        epoch_order(3, -1, 0)


def test_images_of_one_person_follow_each_other():
    counts = {0: 7, 1: 1, 2: 4, 3: 2, -1: 5}
    labels = torch.tensor([label for label, count in counts.items() for _ in range(count)])
    for each in (2, 3, 4, 100):
        order = grouped_order(labels, each, seed=1, epoch=2)
        assert sorted(order.tolist()) == list(range(len(labels)))
        # one neighbour of the same person less than images, for each group
        together = int((labels[order][1:] == labels[order][:-1]).sum())
        groups = sum(-(-count // each) for count in counts.values())
        assert together >= len(labels) - groups
    assert torch.equal(grouped_order(labels, 1, seed=1, epoch=2), epoch_order(len(labels), seed=1, epoch=2))


def test_a_batch_of_whole_groups_holds_as_many_of_each_person():
    labels = torch.arange(40) % 10  # four images each
    for epoch in range(3):
        for batch in labels[grouped_order(labels, 2, seed=0, epoch=epoch)].split(8):
            assert batch.bincount().remainder(2).eq(0).all()
            assert len(batch.unique()) >= 2


def test_the_order_in_groups_depends_on_seed_and_epoch_alone():
    labels = torch.arange(60) % 12
    order = grouped_order(labels, 2, seed=1, epoch=2)
    assert torch.equal(order, grouped_order(labels, 2, seed=1, epoch=2))
    for seed, epoch in ((1, 3), (2, 2), (2, 1), (0, 3)):
        other = grouped_order(labels, 2, seed, epoch)
        assert not torch.equal(order, other)
        assert not torch.equal(labels[order], labels[other])  # who comes when, and not just which of their images
    # pairs of a person's images are others in another epoch
    partners = {frozenset(pair) for pair in order.view(-1, 2).tolist()}
    assert partners != {frozenset(pair) for pair in grouped_order(labels, 2, 1, 3).view(-1, 2).tolist()}


def test_the_order_of_groups_hangs_on_seed_and_epoch_alone_and_not_on_the_first_image():
    labels = torch.arange(3).repeat_interleave(4)
    orders = {
        (seed, epoch): tuple(labels[grouped_order(labels, 4, seed, epoch)][::4].tolist())
        for seed in range(20)
        for epoch in range(3)
    }
    firsts: dict[int, set[tuple[int, ...]]] = {}
    for (seed, epoch), order in orders.items():
        firsts.setdefault(int(epoch_order(12, seed, epoch)[0]), set()).add(order)
    assert max(map(len, firsts.values())) > 1


def test_no_images_have_an_order():
    assert grouped_order(torch.empty(0, dtype=torch.int64), 2, 0, 0).tolist() == []


# --- the order of a shuffle buffer ---


def streamed(count: int, buffer: int, places: list[int], rest: list[int]) -> list[int]:
    """What a shuffle buffer gives out, image by image, where these places are drawn."""
    held, given = list(range(buffer)), []
    for image, place in enumerate(places, start=buffer):
        given.append(held[place])
        held[place] = image
    return given + [held[place] for place in rest]


@pytest.mark.parametrize(("count", "buffer"), [(12, 3), (100, 1), (100, 7), (200, 199)])
def test_the_order_is_that_of_a_buffer_that_is_filled_and_emptied(count: int, buffer: int):
    generator = torch.Generator().manual_seed(image_order_seed(4, 5))
    places = torch.randint(buffer, (count - buffer,), generator=generator).tolist()
    expected = streamed(count, buffer, places, torch.randperm(buffer, generator=generator).tolist())
    assert buffered_order(count, buffer, seed=4, epoch=5).tolist() == expected


def test_a_buffer_mixes_within_its_window_and_each_epoch_anew():
    order = buffered_order(10_000, 100, seed=0, epoch=0)
    assert torch.equal(order.sort().values, torch.arange(10_000))
    ahead = order - torch.arange(10_000)
    assert int(ahead.max()) < 100  # an image is not given out before the buffer has reached it
    assert float((ahead < -1000).double().mean()) < 1e-3  # and stays longer than ten buffers with probability e^-10
    assert not torch.equal(order, buffered_order(10_000, 100, seed=0, epoch=1))
    assert torch.equal(buffered_order(50, 50, 1, 2), epoch_order(50, 1, 2))
    assert buffered_order(10, 1, 0, 0).tolist() == list(range(10))
    with pytest.raises(ValueError, match="buffer is 0"):
        buffered_order(10, 0, 0, 0)


# --- images that cannot be read ---


class Holes(Numbered):
    """Some images cannot be read."""

    def __init__(self, holes: Sequence[int], count: int = 23) -> None:
        super().__init__(count)
        self.holes = frozenset(holes)

    def images(self, indices: Sequence[int]) -> UInt8[Tensor, "batch 3 height width"]:
        if first := [index for index in indices if index in self.holes]:
            raise ValueError(f"{first[0]}.jpg: not an image")
        return super().images(indices)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_next_readable_image_takes_the_place_under_its_own_position(workers: int):
    faces, order = Holes([3, 4, 22]), torch.tensor([0, 3, 9, 22, 4, 5])
    read = list(batches(faces, order, 3, workers, max_unreadable=5))
    assert torch.cat([batch.indices for batch in read]).tolist() == [0, 5, 9, 0, 5, 5]
    assert all(torch.equal(batch.images[:, 0, 0, 0].long(), batch.indices) for batch in read)
    skipped = [[(image.index, image.reason) for image in batch.unreadable] for batch in read]
    assert skipped == [[(3, "3.jpg: not an image"), (4, "4.jpg: not an image")],
                       [(22, "22.jpg: not an image"), (4, "4.jpg: not an image")]]  # fmt: skip


def test_no_more_images_in_a_row_are_passed_over_than_may_be_unreadable():
    assert next(batches(Holes(range(3)), torch.arange(1), 1, max_unreadable=3)).indices.tolist() == [3]
    with pytest.raises(ValueError, match=r"2\.jpg: not an image"):
        next(batches(Holes(range(3)), torch.arange(1), 1, max_unreadable=2))


def test_unreadable_images_are_counted_once_and_limited(caplog: pytest.LogCaptureFixture):
    faces, unreadable = Holes([3, 4, 7]), UnreadableImages(3, before=[7])
    for _ in range(2):
        for batch in batches(faces, torch.arange(8), 4, max_unreadable=3):
            unreadable.count(batch)
    assert unreadable.positions == {3, 4, 7}
    logged = [record.getMessage() for record in caplog.records]
    assert logged == ["skipped, 2 of at most 3: 3.jpg: not an image", "skipped, 3 of at most 3: 4.jpg: not an image"]
    batch = next(batches(faces, torch.arange(8), 8, max_unreadable=2))
    with pytest.raises(ValueError, match=r"4\.jpg: not an image; 3 images cannot be read, more than max_unreadable 2"):
        UnreadableImages(2, before=[7]).count(batch)
