"""Measurements of a dry run: the memory that autograd keeps after a forward pass, and the work of that pass."""

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import cycle, islice

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from verisphere.backbones.backbone import Backbone
from verisphere.head import Dense, Head, SubCenters
from verisphere.losses.class_loss import ClassLoss
from verisphere.train.distill.teachers import Teachers

#: Batch sizes of the two measurements; batch norm needs two rows.
_FEW_ROWS, _MORE_ROWS = 2, 4
#: Numbers of classes in the two measurements of a dense head.
_FEW_CLASSES, _MORE_CLASSES = 32, 64


@dataclass(frozen=True)
class BackboneCost:
    """Bytes that a backbone keeps for its backward, linear in the batch, and the operations of one image's forward.

    The fixed bytes, such as weights in bfloat16, do not depend on the batch size. A multiplication and its addition
    count as two operations.
    """

    fixed: int
    per_image: int
    flops: int

    def saved(self, batch: int) -> int:
        """Bytes kept for a batch."""
        return self.fixed + self.per_image * batch


@dataclass(frozen=True)
class DenseCost:
    """Bytes that the dense engine keeps for its backward, without embeddings; a logit is a pair of row and class."""

    fixed: float
    per_row: float
    per_class: float
    per_logit: float

    def saved(self, batch: int, classes: int) -> int:
        """Bytes kept for a batch and a number of classes."""
        return round(self.fixed + self.per_row * batch + self.per_class * classes + self.per_logit * batch * classes)


def saved_bytes(forward: Callable[[], Tensor], excluded: Iterable[Tensor] = ()) -> int:
    """Bytes that autograd keeps between this forward and its backward, each storage counted once.

    Parameters and inputs exist without the forward, and are `excluded`.

    >>> x = torch.zeros(10, requires_grad=True)
    >>> saved_bytes(lambda: (x.exp() * 2).sum())  # the derivative of exp is itself
    40
    """
    known = {tensor.untyped_storage().data_ptr() for tensor in excluded}
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # the tensor itself would keep the graph alive that keeps it

    with saved_tensors_hooks(note, lambda tensor: tensor):
        result = forward()
    total = sum(kept.values())
    del result  # only now: a freed storage could pass its address to another one
    return total


def measure_backbone(backbone: Backbone, precision: torch.dtype = torch.float32) -> BackboneCost:
    """Measure a copy of the backbone, which is on the CPU, in two forwards on few images, as in a training step.

    Memory that convolutions use only while they run cannot be measured this way and is not included.
    bfloat16 is by autocast.
    """
    copied = copy.deepcopy(backbone).train()
    states = [*copied.parameters(), *copied.buffers()]
    counter = FlopCounterMode(display=False)

    def saved(batch: int) -> int:
        images = torch.zeros(batch, 3, *copied.input_size).to(memory_format=torch.channels_last)

        def forward() -> Tensor:
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
                return copied(images)

        return saved_bytes(forward, [*states, images])

    with torch.random.fork_rng(devices=[]):
        few = saved(_FEW_ROWS)
        with counter:
            more = saved(_MORE_ROWS)
    per_image = (more - few) // (_MORE_ROWS - _FEW_ROWS)
    return BackboneCost(max(few - _FEW_ROWS * per_image, 0), per_image, counter.get_total_flops() // _MORE_ROWS)


@dataclass(frozen=True)
class TeacherCost:
    """Memory and work of the teachers of a distillation, in bytes and operations.

    Those of an image are the most that its forward takes, and 0 where the embeddings are kept on the disk.
    """

    size: int
    weights: int
    per_image: int
    flops: int


def measure_teachers(teachers: Teachers, every_batch: bool) -> TeacherCost:
    """Measure the forward of the teachers' networks on one image.

    Teachers that do not embed every batch embed the set before the training, and are only held in it.
    """
    network = teachers.network
    if network is None:
        return TeacherCost(teachers.size, 0, 0, 0)
    weights = sum(tensor.nbytes for tensor in (*network.parameters(), *network.buffers()))
    if not every_batch:
        return TeacherCost(teachers.size, weights, 0, 0)
    largest = 0

    def note(_: nn.Module, inputs: object, output: object) -> None:
        nonlocal largest
        tensors = [one for one in (*(inputs if isinstance(inputs, tuple) else ()), output) if isinstance(one, Tensor)]
        largest = max(largest, sum(one.nbytes for one in tensors))

    hooks = [part.register_forward_hook(note) for part in network.modules() if not list(part.children())]
    counter = FlopCounterMode(display=False)
    try:
        with torch.no_grad(), counter:
            network(torch.zeros(1, 3, *network.input_size))
    finally:
        for hook in hooks:
            hook.remove()
    return TeacherCost(teachers.size, weights, 2 * largest, counter.get_total_flops())


def copied_loss(loss: ClassLoss, classes: int) -> ClassLoss:
    """A copy of the loss; the classes lie in its domains in turn, since a dry run does not read the data."""
    copied = copy.deepcopy(loss)
    if copied.class_domains:
        copied.prepare_domains(tuple(islice(cycle(copied.class_domains), classes)))
    return copied


def measure_dense(loss: ClassLoss, centers: SubCenters, embedding_size: int = 512) -> DenseCost:
    """Measure a dense head in four forwards on few rows and classes, and fit the four coefficients to them."""

    def saved(batch: int, classes: int) -> int:
        head = Head(copied_loss(loss, classes), classes, embedding_size, centers=centers, engine=Dense())
        embeddings, labels = torch.randn(batch, embedding_size).requires_grad_(), torch.arange(batch)
        teacher = None
        if any(term.teacher for _, term in loss.terms):
            head.set_teacher(torch.randn(classes, embedding_size))
            teacher = torch.randn(batch, embedding_size)
        known = [*head.parameters(), *head.buffers(), embeddings, labels, *([] if teacher is None else [teacher])]
        return saved_bytes(lambda: head(embeddings, labels, teacher=teacher).loss, known)

    with torch.random.fork_rng(devices=[]):
        corner, by_row = saved(_FEW_ROWS, _FEW_CLASSES), saved(_MORE_ROWS, _FEW_CLASSES)
        by_class, both = saved(_FEW_ROWS, _MORE_CLASSES), saved(_MORE_ROWS, _MORE_CLASSES)
    rows, classes = _MORE_ROWS - _FEW_ROWS, _MORE_CLASSES - _FEW_CLASSES
    per_logit = (both - by_row - by_class + corner) / (rows * classes)
    per_row = (by_row - corner) / rows - per_logit * _FEW_CLASSES
    per_class = (by_class - corner) / classes - per_logit * _FEW_ROWS
    fixed = corner - per_row * _FEW_ROWS - per_class * _FEW_CLASSES - per_logit * _FEW_ROWS * _FEW_CLASSES
    return DenseCost(fixed, per_row, per_class, per_logit)
