"""Batches of images in a given order, decoded by worker processes."""

import logging
import signal
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int64, UInt8
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from verisphere.base.seeds import group_order_seed, image_order_seed
from verisphere.images.faces import Faces

log = logging.getLogger(__name__)

#: Most processes that read images: more than any machine needs, and fewer than would fill its memory.
MOST_WORKERS = 256


@dataclass(frozen=True)
class Unreadable:
    """An image that could not be read: its position in the set, and the reason, which names file and record."""

    index: int
    reason: str


@dataclass(frozen=True)
class Batch:
    """Images, and the position of each in the set; `faces.labels[batch.indices]` are their labels.

    An image that replaces an unreadable one is in `indices` under its own position, so it has its own label; the
    unreadable ones are listed in `unreadable`.

    >>> from verisphere.images import InMemory
    >>> pixels = torch.zeros(4, 3, 112, 112, dtype=torch.uint8)
    >>> faces = InMemory(pixels, ("a/1", "a/2", "b/1", "c/1"), ("a", "a", "b", "c"))
    >>> batch = next(batches(faces, torch.arange(4), batch_size=3))
    >>> batch.images.shape, faces.labels[batch.indices].tolist()
    (torch.Size([3, 3, 112, 112]), [0, 0, 1])
    """

    images: UInt8[Tensor, "batch 3 height width"]
    indices: Int64[Tensor, " batch"]
    unreadable: tuple[Unreadable, ...] = ()


def batches(
    faces: Faces,
    order: Int64[Tensor, " n"],
    batch_size: int,
    workers: int = 0,
    drop_last: bool = False,
    pin: bool = False,
    max_unreadable: int = 0,
) -> Iterator[Batch]:
    """The images at the positions in `order`, in batches that do not depend on the number of workers.

    Images stay uint8, which is the cheapest to transfer between processes; augmentation is faster on the device. The
    workers end when the iterator is exhausted or closed.

    >>> from verisphere.images import InMemory
    >>> pixels = torch.zeros(4, 3, 112, 112, dtype=torch.uint8)
    >>> faces = InMemory(pixels, ("a/1", "a/2", "b/1", "c/1"), ("a", "a", "b", "c"))
    >>> [batch.indices.tolist() for batch in batches(faces, torch.tensor([3, 0, 2, 1]), batch_size=3)]
    [[3, 0, 2], [1]]

    Args:
        faces: the set.
        order: positions in the set; repetition is allowed.
        batch_size: images in a batch; the last batch has the remaining ones.
        workers: processes that read ahead; 0 reads in this process.
        drop_last: skip an incomplete last batch.
        pin: put batches into pinned memory, so that a copy to a CUDA device is asynchronous; pass
            `device.type == "cuda"` of the target device. For any other device it only costs a copy.
        max_unreadable: above 0, an image that cannot be read is replaced by the next one of the set that can, and
            listed in the batch; up to this many consecutive unreadable images are skipped. The caller limits their
            total by `UnreadableImages`.

    Raises:
        ValueError: immediately, for a position outside the set, a batch size below 1, a negative number of workers, or
            pinning without a CUDA device; while iterating, for an image that cannot be read, with the same message
            whether a worker or this process read it.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}; allowed is 1 or more")
    if workers < 0:
        raise ValueError(f"workers is {workers}; allowed is 0 (read in this process) or more")
    if len(order) and (int(order.min()) < 0 or int(order.max()) >= len(faces)):
        raise ValueError(
            f"order reaches from {int(order.min())} to {int(order.max())} but the set has {len(faces)} images; "
            "was it made for another set?"
        )
    if pin and not torch.cuda.is_available():
        raise ValueError("pin is True, but PyTorch sees no CUDA device here that pinned memory could be copied to")
    return _batches(_Reader(faces, max_unreadable), order, batch_size, workers, drop_last, pin)


class UnreadableImages:
    """The images of a set that could not be read so far, and before a checkpoint; more than allowed are an error."""

    def __init__(self, allowed: int, before: Iterable[int] = ()) -> None:
        self.allowed = allowed
        self.positions = set(before)

    def count(self, batch: Batch) -> None:
        """Count and log the unreadable images of a batch."""
        for image in batch.unreadable:
            if image.index in self.positions:
                continue
            self.positions.add(image.index)
            if len(self.positions) > self.allowed:
                raise ValueError(
                    f"{image.reason}; {len(self.positions)} images cannot be read, more than max_unreadable "
                    f"{self.allowed} allows"
                )
            log.warning("skipped, %d of at most %d: %s", len(self.positions), self.allowed, image.reason)


def epoch_order(count: int, seed: int, epoch: int) -> Int64[Tensor, " count"]:
    """A permutation of `count` positions that depends on seed and epoch alone, so that a resumed run continues it.

    >>> epoch_order(5, seed=0, epoch=0).tolist(), epoch_order(5, seed=0, epoch=1).tolist()
    ([2, 1, 0, 3, 4], [1, 4, 0, 3, 2])
    """
    if seed < 0 or epoch < 0:
        raise ValueError(f"seed is {seed} and epoch {epoch}; allowed is 0 or more")
    return torch.randperm(count, generator=torch.Generator().manual_seed(image_order_seed(seed, epoch)))


def buffered_order(count: int, buffer: int, seed: int, epoch: int) -> Int64[Tensor, " count"]:
    """The order in which a shuffle buffer returns `count` images that are read one after another.

    The buffer is filled with the first `buffer` images; then a place of it is drawn, its image is returned, and the
    next one is read into that place; at the end the rest is returned in random order. The order depends on seed and
    epoch alone, so every number of workers and ranks, and a resumed run, follow the same one.

    >>> buffered_order(12, buffer=3, seed=0, epoch=0).tolist()
    [1, 0, 4, 5, 6, 2, 8, 7, 3, 11, 10, 9]
    """
    if buffer < 1:
        raise ValueError(f"buffer is {buffer}; a shuffle buffer holds at least 1 image")
    if buffer >= count:
        return epoch_order(count, seed, epoch)
    generator = torch.Generator().manual_seed(image_order_seed(seed, epoch))
    places = torch.randint(buffer, (count - buffer,), generator=generator)  # the place that each draw empties
    last = torch.randperm(buffer, generator=generator)
    # A draw returns the image that the previous draw from the same place has left there. The places are in the buffer
    # first.
    emptied = torch.cat([torch.arange(buffer), places, last])
    by_place = emptied.argsort(stable=True)  # times of filling and emptying, place by place
    image_at = torch.empty_like(emptied)
    image_at[by_place[1:]] = by_place[:-1]  # image `time` takes the place that the draw of that time has freed
    return image_at[buffer:]


def grouped_order(labels: Int64[Tensor, " count"], each: int, seed: int, epoch: int) -> Int64[Tensor, " count"]:
    """A permutation in which `each` images of one identity follow each other; the remaining images form shorter groups.

    Batches are cut from it as from any order, so the end of a batch can divide a group.

    >>> labels = torch.tensor([0, 0, 0, 0, 1, 1])
    >>> labels[grouped_order(labels, each=2, seed=0, epoch=0)].view(3, 2).diff().any()  # two images of one person each
    tensor(False)

    Args:
        labels: identity of each image.
        each: images of one identity in a group.
        seed: the order depends on `seed` and `epoch` alone, so that a resumed run continues it.
        epoch: number of the pass over the images.
    """
    shuffled = epoch_order(len(labels), seed, epoch)
    if each == 1 or not len(labels):
        return shuffled
    by_identity = shuffled[labels[shuffled].argsort(stable=True)]
    ordered = labels[by_identity]
    inside = torch.arange(len(labels)) - torch.searchsorted(ordered, ordered)
    # an image begins a group where its place within its identity is a multiple of `each`
    group = (inside % each == 0).cumsum(0) - 1
    generator = torch.Generator().manual_seed(group_order_seed(seed, epoch))
    places = torch.randperm(int(group[-1]) + 1, generator=generator)
    return by_identity[places[group].argsort(stable=True)]


Read = tuple[Tensor, Tensor, tuple[Unreadable, ...]]  # the fields of a batch; DataLoader pins tensors in tuples


@dataclass(frozen=True)
class _Failure:
    """An error that a worker returns as data: DataLoader would insert the traceback of the worker into the message."""

    error: ValueError | OSError


class _Reader(Dataset[Read]):
    def __init__(self, faces: Faces, max_unreadable: int) -> None:
        self.faces, self.max_unreadable = faces, max_unreadable

    def __getitems__(self, indices: list[int]) -> Read | _Failure:
        try:
            return self.faces.images(indices), torch.tensor(indices, dtype=torch.int64), ()
        except (ValueError, OSError) as error:
            if not self.max_unreadable:
                return _Failure(error)
        try:
            return self._passing_over(indices)
        except (ValueError, OSError) as error:
            return _Failure(error)

    def _passing_over(self, indices: list[int]) -> Read:
        """The batch, with each unreadable image replaced by the next readable image of the set."""
        images, positions = [], []
        unreadable: dict[int, Unreadable] = {}
        for index in indices:
            for tries in range(self.max_unreadable + 1):
                position = (index + tries) % len(self.faces)
                try:
                    images.append(self.faces.images([position]))
                except (ValueError, OSError) as error:
                    unreadable[position] = Unreadable(position, str(error))
                    if tries == self.max_unreadable:
                        raise
                else:
                    positions.append(position)
                    break
        return torch.cat(images), torch.tensor(positions, dtype=torch.int64), tuple(unreadable.values())


class _Chunks(Sampler[list[int]]):
    """The positions of each batch, made on request: for a set of many millions, all together would fill the memory."""

    def __init__(self, order: Int64[Tensor, " n"], batch_size: int, drop_last: bool) -> None:
        self.order, self.batch_size = order, batch_size
        self.count = len(order) // batch_size if drop_last else -(-len(order) // batch_size)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[list[int]]:
        for number in range(self.count):
            yield self.order[number * self.batch_size : (number + 1) * self.batch_size].tolist()


def _batches(
    reader: _Reader, order: Int64[Tensor, " n"], batch_size: int, workers: int, drop_last: bool, pin: bool
) -> Iterator[Batch]:
    with warnings.catch_warnings():
        # The number of workers is the caller's decision; for images from a network file system it can exceed the cores.
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        loader = DataLoader(
            reader,
            batch_sampler=_Chunks(order, batch_size, drop_last),
            num_workers=workers,
            collate_fn=_as_it_is,
            worker_init_fn=_start_worker,
            pin_memory=pin,
        )
        iterator = iter(loader)
    try:
        for read in iterator:
            if isinstance(read, _Failure):
                raise read.error
            yield Batch(*read)
    except Exception as error:
        # The frames of DataLoader would keep its workers alive as long as the error; the message has their traceback.
        raise (error.with_traceback(None) if workers else error) from None
    finally:
        del iterator  # the last reference: its workers end here, not at the next garbage collection


def _as_it_is(read: Any) -> Any:
    """Replaces the collation of DataLoader, since a set returns whole batches."""
    return read


def _start_worker(_: int) -> None:
    torch.set_num_threads(1)  # the processes are the parallelism
    # Ctrl-C, a terminal's SIGHUP and a scheduler's SIGTERM reach all processes of a group; the main one finishes its
    # step with what the workers have read, and then ends them itself: by the second SIGTERM that each of them sees.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _spare_once)


def _spare_once(number: int, frame: object) -> None:
    signal.signal(number, signal.SIG_DFL)
