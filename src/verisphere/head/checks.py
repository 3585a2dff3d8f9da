"""The checks of a head.

Rows and labels must fit, a loss with state must belong to no other head, replicated centers must not diverge between
ranks, and sharded centers must not be in DDP.
"""

from itertools import chain
from weakref import WeakKeyDictionary, ref

import torch
from jaxtyping import Int64, Shaped
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from verisphere.distributed import world
from verisphere.losses.class_loss import ClassLoss
from verisphere.vocabulary import NO_CLASS

#: The head that each loss was prepared for.
_head_of: WeakKeyDictionary[ClassLoss, "ref[nn.Module]"] = WeakKeyDictionary()


def prepare(loss: ClassLoss, head: nn.Module, classes: int) -> None:
    """Prepare a loss for a head, unless it has state and belongs to another head that is still in use.

    A second head would reset the state to its initial value, and both would train it.

    Raises:
        ValueError: another head has the loss, or the loss refuses this number of classes.
    """
    parts = {loss, *(term for _, term in loss.terms)}
    for part in parts:
        other = _head_of.get(part)
        stateful = next(chain(part.parameters(), part.buffers()), None) is not None
        if stateful and other is not None and other() is not None:
            raise ValueError(
                f"this {type(part).__name__} belongs to another head, and a second head would reset what it has "
                "learned: make a loss for each head, or give this one copy.deepcopy(loss)"
            )
    loss.prepare(classes)
    for part in parts:
        _head_of[part] = ref(head)


def check_rows(
    embeddings: Shaped[Tensor, "*rows"],
    labels: Shaped[Tensor, "*labelled"],
    weights: Shaped[Tensor, "*weighted"] | None,
    size: int,
) -> None:
    """Refuse a batch whose tensors do not fit one another or a head for embeddings of `size` numbers.

    Raises:
        ValueError: shapes that do not fit.
        TypeError: labels that are not integers, or embeddings that are not floating-point numbers.
    """
    for name, tensor in (("embeddings", embeddings), ("labels", labels)):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name} have the type {type(tensor).__name__}; a head takes tensors")
    if embeddings.ndim != 2:
        raise ValueError(f"embeddings have shape {tuple(embeddings.shape)}; a head takes (batch, {size})")
    if not embeddings.is_floating_point():
        raise TypeError(f"embeddings are {embeddings.dtype}; a head takes floating-point numbers")
    if labels.ndim != 1:
        raise ValueError(
            f"labels have shape {tuple(labels.shape)}; a head takes one class number for each of {len(embeddings)} "
            f"rows, shape ({len(embeddings)},)"
        )
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise TypeError(f"labels are {labels.dtype}; a head takes class numbers, which are integers")
    if len(embeddings) != len(labels):
        raise ValueError(f"{len(embeddings)} embeddings came with {len(labels)} labels; each row takes one")
    if embeddings.shape[1] != size:
        raise ValueError(
            f"embeddings have {embeddings.shape[1]} columns but the head was built for {size}; "
            "does its size match the backbone's?"
        )
    if weights is not None and weights.shape != labels.shape:
        raise ValueError(f"weights have shape {tuple(weights.shape)}; a batch of {len(labels)} takes one a row")


def check_labels(labels: Int64[Tensor, "batch"], classes: int, loss: ClassLoss) -> None:
    """Refuse class numbers of the global batch that a head with so many classes and this loss does not have.

    Raises:
        ValueError: an empty batch, labels out of range, or -1 for a loss that needs a class for every row.
    """
    if len(labels) == 0:
        raise ValueError("the batch is empty: a mean over no rows has no value")
    lowest, highest = (int(end) for end in torch.stack(labels.aminmax()).tolist())  # one wait for the device
    if highest >= classes:
        raise ValueError(
            f"labels reach {highest} but the head has {classes} classes; was the class count taken from another list?"
        )
    if lowest < NO_CLASS:
        raise ValueError(f"labels reach down to {lowest}; the lowest allowed is -1, which means 'no known class'")
    if lowest == NO_CLASS and (loss.reduce != "sum" or loss.query == "own_center"):
        raise ValueError(
            f"{int((labels == NO_CLASS).sum())} labels are -1 ('no known class'), but {type(loss).__name__} "
            "needs a class for every row; only losses that sum over the classes accept them"
        )


def check_ranks(held: range, classes: int) -> None:
    """Refuse a deferred gradient where every rank holds all classes, since no rank would know the others' gradients.

    Raises:
        ValueError: there are several ranks, and each holds all classes.
    """
    if len(held) == classes and world().size > 1:
        raise ValueError(
            f"each of {world().size} ranks holds all {classes} classes, and HeadSGD would move them apart: DDP "
            "does not average a deferred gradient; give the head engine=Sharded(...) and DDP the backbone alone, or "
            "use torch.optim.SGD with head.deferred = False"
        )


def check_ddp(centers: nn.Parameter) -> None:
    """Refuse a forward pass inside DDP for centers that differ between ranks: DDP would mix their classes.

    Raises:
        ValueError: the centers are among the parameters of the model in DDP that is running.
    """
    # set by torch during the forward pass of a model in DDP, for its own compiler
    model = getattr(DistributedDataParallel, "_active_ddp_module", None)
    if model is None or getattr(centers, "_ddp_ignored", False):
        return
    if any(parameter is centers for parameter in model.parameters()):
        raise ValueError(
            "a sharded head is inside DDP, which gives every rank the centers of rank 0: wrap the backbone alone in "
            "DDP, and call head(summed_by_ddp(embeddings), labels) outside of it"
        )
