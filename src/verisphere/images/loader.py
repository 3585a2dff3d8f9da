"""Batches of images in a given order, decoded by worker processes."""

import signal
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int64, UInt8
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from verisphere.images.faces import Faces
from verisphere.seeds import group_order_seed, image_order_seed

#: Most processes that read images: more than any machine needs, and fewer than would fill its memory.
MOST_WORKERS = 256


@dataclass(frozen=True)
class Batch:
    """Images, and the position of each in the set; `faces.labels[batch.indices]` are their labels.

    >>> from verisphere.images import InMemory
    >>> pixels = torch.zeros(4, 3, 112, 112, dtype=torch.uint8)
    >>> faces = InMemory(pixels, ("a/1", "a/2", "b/1", "c/1"), ("a", "a", "b", "c"))
    >>> batch = next(batches(faces, torch.arange(4), batch_size=3))
    >>> batch.images.shape, faces.labels[batch.indices].tolist()
    (torch.Size([3, 3, 112, 112]), [0, 0, 1])
    """

    images: UInt8[Tensor, "batch 3 height width"]
    indices: Int64[Tensor, " batch"]


def batches(
    faces: Faces,
    order: Int64[Tensor, " n"],
    batch_size: int,
    workers: int = 0,
    drop_last: bool = False,
    pin: bool = False,
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
    return _batches(faces, order, batch_size, workers, drop_last, pin)


def epoch_order(count: int, seed: int, epoch: int) -> Int64[Tensor, " count"]:
    """A permutation of `count` positions that depends on seed and epoch alone, so that a resumed run continues it.

    >>> epoch_order(5, seed=0, epoch=0).tolist(), epoch_order(5, seed=0, epoch=1).tolist()
    ([2, 1, 0, 3, 4], [1, 4, 0, 3, 2])
    """
    if seed < 0 or epoch < 0:
        raise ValueError(f"seed is {seed} and epoch {epoch}; allowed is 0 or more")
    return torch.randperm(count, generator=torch.Generator().manual_seed(image_order_seed(seed, epoch)))


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


Read = tuple[Tensor, Tensor]  # images, indices


@dataclass(frozen=True)
class _Failure:
    """An error that a worker returns as data: DataLoader would insert the traceback of the worker into the message."""

    error: ValueError | OSError


class _Reader(Dataset[Read]):
    def __init__(self, faces: Faces) -> None:
        self.faces = faces

    def __getitems__(self, indices: list[int]) -> Read | _Failure:
        try:
            return self.faces.images(indices), torch.tensor(indices, dtype=torch.int64)
        except (ValueError, OSError) as error:
            return _Failure(error)


def _batches(
    faces: Faces, order: Int64[Tensor, " n"], batch_size: int, workers: int, drop_last: bool, pin: bool
) -> Iterator[Batch]:
    chunks = [chunk.tolist() for chunk in order.split(batch_size) if len(chunk) == batch_size or not drop_last]
    with warnings.catch_warnings():
        # The number of workers is the caller's decision; for images from a network file system it can exceed the cores.
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        loader = DataLoader(
            _Reader(faces),
            batch_sampler=[chunk for chunk in chunks if chunk],
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
            images, indices = read
            yield Batch(images, indices)
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
