"""What a dry run measures instead of guessing: what autograd keeps of a forward, and the work of one."""

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from verisphere.backbones.backbone import Backbone
from verisphere.head import Dense, Head, SubCenters
from verisphere.losses.class_loss import ClassLoss

#: Batches of the two measurements; batch norm needs two rows.
_FEW, _MORE = 2, 4
#: Classes of the two measurements of a dense head.
_CLASSES, _MORE_CLASSES = 32, 64


@dataclass(frozen=True)
class BackboneCost:
    """What a backbone keeps for its backward, linear in the batch, and the work of its forward.

    Attributes:
        fixed: bytes at any batch size, such as weights in bfloat16.
        per_image: bytes for each image.
        flops: floating-point operations of an image's forward; a product and its sum are two.
    """

    fixed: int
    per_image: int
    flops: int

    def saved(self, batch: int) -> int:
        """Bytes for a batch."""
        return self.fixed + self.per_image * batch


@dataclass(frozen=True)
class DenseCost:
    """What the dense engine keeps for its backward, the embeddings left out.

    Attributes:
        fixed: bytes in any case.
        per_row: bytes for each row of the batch.
        per_class: bytes for each class.
        per_logit: bytes for each row and class.
    """

    fixed: float
    per_row: float
    per_class: float
    per_logit: float

    def saved(self, batch: int, classes: int) -> int:
        """Bytes for a batch and so many classes."""
        return round(self.fixed + self.per_row * batch + self.per_class * classes + self.per_logit * batch * classes)


def saved_bytes(forward: Callable[[], Tensor], left_out: Iterable[Tensor] = ()) -> int:
    """Bytes that autograd keeps between this forward and its backward, each storage counted once.

    >>> x = torch.zeros(10, requires_grad=True)
    >>> saved_bytes(lambda: (x.exp() * 2).sum())  # the derivative of exp is itself
    40

    Args:
        forward: what is run, once.
        left_out: tensors that would be there all the same: parameters, inputs.
    """
    known = {one.untyped_storage().data_ptr() for one in left_out}
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # itself would hold the graph that holds it

    with saved_tensors_hooks(note, lambda tensor: tensor):
        result = forward()
    total = sum(kept.values())
    del result  # not before: what is freed could give its address to another
    return total


def measure_backbone(backbone: Backbone, precision: torch.dtype = torch.float32) -> BackboneCost:
    """Run a copy of the backbone twice, on few images, as a training step would.

    Convolutions take further memory while they run, which nothing announces; it is not in here.

    Args:
        backbone: on the CPU.
        precision: float32, or bfloat16 for autocast.
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
        few = saved(_FEW)
        with counter:
            more = saved(_MORE)
    per_image = (more - few) // (_MORE - _FEW)
    return BackboneCost(max(few - _FEW * per_image, 0), per_image, counter.get_total_flops() // _MORE)


def measure_dense(loss: ClassLoss, centers: SubCenters, embedding_size: int = 512) -> DenseCost:
    """Run a dense head of this loss four times, on few rows and classes, and lay a plane through what it keeps."""

    def saved(batch: int, classes: int) -> int:
        head = Head(copy.deepcopy(loss), classes, embedding_size, centers=centers, engine=Dense())
        embeddings, labels = torch.randn(batch, embedding_size).requires_grad_(), torch.arange(batch)
        return saved_bytes(
            lambda: head(embeddings, labels).loss, [*head.parameters(), *head.buffers(), embeddings, labels]
        )

    with torch.random.fork_rng(devices=[]):
        corner, by_row = saved(_FEW, _CLASSES), saved(_MORE, _CLASSES)
        by_class, both = saved(_FEW, _MORE_CLASSES), saved(_MORE, _MORE_CLASSES)
    rows, classes = _MORE - _FEW, _MORE_CLASSES - _CLASSES
    per_logit = (both - by_row - by_class + corner) / (rows * classes)
    per_row = (by_row - corner) / rows - per_logit * _CLASSES
    per_class = (by_class - corner) / classes - per_logit * _FEW
    fixed = corner - per_row * _FEW - per_class * _CLASSES - per_logit * _FEW * _CLASSES
    return DenseCost(fixed, per_row, per_class, per_logit)
