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

#: Processes that read images: more than any machine's images need, and fewer than would fill its memory.
MOST_WORKERS = 256


@dataclass(frozen=True)
class Batch:
    """Images, and the position of each in the set; `faces.labels[batch.indices]` are their labels."""

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
    """The images at the positions in `order`, batch by batch; the same batches for any number of workers.

    Images stay uint8: they are cheapest to carry between processes, and augmentation is faster on the device. Workers
    end when the iterator does, exhausted or closed.

    Args:
        faces: the set.
        order: positions in the set, repetition allowed.
        batch_size: images a batch; the last one has what is left.
        workers: processes that read ahead; 0 reads in this process.
        drop_last: leave an incomplete last batch out.
        pin: put batches into pinned memory, from which a copy to a CUDA device need not be waited for; pass
            `device.type == "cuda"` of the device that they go to. For any other it only costs a copy.

    Raises:
        ValueError: a position outside the set, a batch size or worker count that makes no sense, or pinning where
            PyTorch sees no CUDA device; at once. While iterating: what reading an image raises, the same whether a
            worker raised it or this process.
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
    """A permutation of `count` positions that depends on seed and epoch alone, so a resumed run continues with it."""
    if seed < 0 or epoch < 0:
        raise ValueError(f"seed is {seed} and epoch {epoch}; allowed is 0 or more")
    return torch.randperm(count, generator=torch.Generator().manual_seed(image_order_seed(seed, epoch)))


def grouped_order(labels: Int64[Tensor, " count"], each: int, seed: int, epoch: int) -> Int64[Tensor, " count"]:
    """A permutation in which images of one identity come `each` at a time; those that are left come fewer at a time.

    Batches are cut from it as from any order: the end of one may part a run, and does once fewer have come.

    >>> labels = torch.tensor([0, 0, 0, 0, 1, 1])
    >>> labels[grouped_order(labels, each=2, seed=0, epoch=0)].view(3, 2).diff().any()  # always two of one person
    tensor(False)

    Args:
        labels: identity of each image.
        each: how many of one identity follow each other.
        seed: with `epoch`, decides alone, so a resumed run continues with it.
        epoch: which pass over the images.
    """
    shuffled = epoch_order(len(labels), seed, epoch)
    if each == 1 or not len(labels):
        return shuffled
    by_identity = shuffled[labels[shuffled].argsort(stable=True)]
    ordered = labels[by_identity]
    inside = torch.arange(len(labels)) - torch.searchsorted(ordered, ordered)
    # numbered anew for each run of `each`: an image begins one where its place in its identity divides
    group = (inside % each == 0).cumsum(0) - 1
    generator = torch.Generator().manual_seed(group_order_seed(seed, epoch))
    places = torch.randperm(int(group[-1]) + 1, generator=generator)
    return by_identity[places[group].argsort(stable=True)]


Read = tuple[Tensor, Tensor]  # images, indices


@dataclass(frozen=True)
class _Failure:
    """An error carried out of a worker as data: DataLoader would fold a worker's traceback into the message."""

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
        # How many workers pay is the caller's decision; where images come over a network it is more than the cores.
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
        # DataLoader's frames would keep its workers alive as long as the error; the message has the worker's traceback.
        raise (error.with_traceback(None) if workers else error) from None
    finally:
        del iterator  # the last reference: its workers end here, not when the garbage collector comes by


def _as_it_is(read: Any) -> Any:
    """In place of DataLoader's collation: a set hands over whole batches."""
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
