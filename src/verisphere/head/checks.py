"""The checks of a head."""

from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, WeakSet, ref

import torch
from jaxtyping import Int64, Shaped
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from verisphere.base.distributed import world
from verisphere.base.vocabulary import NO_CLASS
from verisphere.head.interface import check_engine
from verisphere.head.subcenters import SubCenters
from verisphere.losses.class_loss import ClassLoss

#: The heads that have each loss, as theirs or as a term of it; and the loss that each head was built with.
_heads_of: WeakKeyDictionary[ClassLoss, WeakSet[nn.Module]] = WeakKeyDictionary()
_loss_of: WeakKeyDictionary[nn.Module, ReferenceType[ClassLoss]] = WeakKeyDictionary()


def check_parts(loss: object, classes: Any, size: Any, centers: object, engine: object) -> None:
    """Refuse arguments of a head that are not of their kind, or outside their range."""
    if not isinstance(loss, ClassLoss):
        made = f"{loss.__name__}(...)" if isinstance(loss, type) else "ArcFace() or another of verisphere.losses"
        raise TypeError(f"loss is {loss!r}; a head takes a loss: write {made}")
    for name, count in (("classes", classes), ("size", size)):
        if isinstance(count, bool) or not hasattr(count, "__index__"):
            raise TypeError(f"{name} is {count!r}; a head takes a whole number: Head(loss, classes, size)")
    if not isinstance(centers, SubCenters):
        raise TypeError(f"centers is {centers!r}; a head takes SubCenters(...) of verisphere.head")
    check_engine("engine", engine)
    for name, count in (("classes", classes), ("size", size)):
        if count < 1:
            raise ValueError(f"{name} is {count}; a head needs at least 1")
    if loss.class_bias and loss.similarity == "cosine":
        raise ValueError(f"{type(loss).__name__} asks for a class bias beside a cosine; it needs similarity 'product'")


def own(loss: ClassLoss, head: nn.Module) -> None:
    """Record that a head has this loss, with every term of it."""
    for part in {loss, *(term for _, term in loss.terms)}:
        _heads_of.setdefault(part, WeakSet()).add(head)
    _loss_of[head] = ref(loss)


def is_own(loss: ClassLoss, head: nn.Module) -> bool:
    """Whether a head was built with this loss."""
    built_with = _loss_of.get(head)
    return built_with is not None and built_with() is loss


def check_own(loss: ClassLoss, head: nn.Module) -> None:
    """Refuse a loss that was assigned to a head after it was built: noise, state and centers fit the first one."""
    if not is_own(loss, head):
        raise ValueError(
            f"head.loss was replaced by this {type(loss).__name__}, and a head keeps the loss that it was built with: "
            "build another, Head(loss, classes, size), and load the centers of this one into it"
        )


def prepare(loss: ClassLoss, head: nn.Module, classes: int) -> None:
    """Prepare a loss for a head, unless that would change what another head, which is still in use, computes."""
    for part in {loss, *(term for _, term in loss.terms)}:
        if not _heads_of.get(part):
            continue
        if part.state_dict():
            harm = "would reset what it has learned"
        elif part.classes != classes:
            harm = f"of {classes} would change the loss of the first"
        elif next(part.buffers(), None) is not None:
            harm = "would share what it was given for the classes of the first"
        else:
            continue
        raise ValueError(
            f"this {type(part).__name__} belongs to another head of {part.classes} classes, and a second head "
            f"{harm}: make a loss for each head, or give this one copy.deepcopy(loss)"
        )
    loss.prepare(classes)
    own(loss, head)


def check_rows(
    embeddings: Shaped[Tensor, "*rows"],
    labels: Shaped[Tensor, "*labelled"],
    weights: Shaped[Tensor, "*weighted"] | None,
    size: int,
) -> None:
    """Refuse a batch whose tensors do not fit one another or a head for embeddings of `size` numbers."""
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
    """Refuse class numbers of the global batch that a head with so many classes and this loss does not have."""
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
    """Refuse a deferred gradient where every rank holds all classes, since no rank would know the others' gradients."""
    if len(held) == classes and world().size > 1:
        raise ValueError(
            f"each of {world().size} ranks holds all {classes} classes, and HeadSGD would move them apart: DDP "
            "does not average a deferred gradient; give the head engine=Sharded(...) and DDP the backbone alone, or "
            "use torch.optim.SGD with head.deferred = False"
        )


def check_ddp(head: nn.Module, sharded: bool, loss: ClassLoss, draws: bool) -> None:
    """Refuse a forward pass inside DDP for centers that differ between ranks, or a loss that needs the global batch.

    DDP would mix the classes of the centers; each rank would compute the loss of its own rows. FSDP would do the same.
    In evaluation mode no state moves and nothing is drawn, so there only a loss that compares the rows of a batch needs
    them all.
    """
    of_batch, draws = loss.of_batch, draws and head.training
    if not head.training:
        of_batch = any(term.of_batch and type(term).of_batch is not ClassLoss.of_batch for _, term in loss.terms)
    if not (sharded or ((of_batch or draws) and world().size > 1)):
        return
    wrapper = _wrapper(head)
    if wrapper is None:
        return
    remedy = f"wrap the backbone alone in {wrapper}, and call head(summed_by_ddp(embeddings), labels) outside of it"
    if sharded:
        raise ValueError(
            f"a sharded head is inside {wrapper}, which takes the centers of different classes on each rank for the "
            f"same: {remedy}"
        )
    what, needs = (type(loss).__name__, "this loss") if of_batch else ("sampled classes", "their choice")
    raise ValueError(
        f"a head with {what} is inside {wrapper}, where each rank sees its own rows only, and {needs} "
        f"depends on the rows of all ranks: give the head engine=Sharded(...), {remedy}"
    )


def _wrapper(head: nn.Module) -> str | None:
    """What averages the gradients of the centers over the ranks; torch marks both kinds for its own compiler."""
    if getattr(head, "_is_fsdp_managed_module", False):
        return "FSDP"
    model = getattr(DistributedDataParallel, "_active_ddp_module", None)  # during its forward pass
    if model is None:
        return None
    # by their names, since centers that are parametrised are computed from another parameter
    centers = {id(parameter) for name, parameter in head.named_parameters() if not name.startswith("loss.")}
    averaged = (*model._module_parameters, *model._delay_all_reduce_params)  # without those that it was given to ignore
    return "DDP" if any(id(parameter) in centers for parameter in averaged) else None


def check_repeated(loss: ClassLoss, draws: bool) -> None:
    """Refuse a forward pass in training that repeats one inside a backward pass, where it would differ."""
    if (loss.moves or draws) and torch._C._current_graph_task_id() != -1:
        raise ValueError(
            "a head runs a second time inside the backward pass, as under activation checkpointing, and "
            f"{'the sampled engine' if draws else type(loss).__name__} would draw or observe the batch again, so that "
            "the gradient would belong to another loss: checkpoint the backbone alone"
        )
