"""The record of a model's training: the digests of its people and images, in a checkpoint or a model folder.

It is one file of tensors: `people` and `images` (int64, sorted), `gap`, the reason why the record is not whole, as the
bytes of a text, and perhaps `written` and `classes` (int64, sorted).
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from verisphere.base.trained_on import TrainedOn, name_digests
from verisphere.models.checkpoint import Checkpoint

#: Part of a checkpoint, and file of a model folder.
PART, FILE = "trained_on", "trained_on.safetensors"
_OPTIONAL = ("written", "classes")
#: Why a run or a model folder that has no record has none.
EARLIER = "an earlier version made the {what}, which recorded no images"


def as_tensors(record: TrainedOn) -> dict[str, Tensor]:
    """A record as the tensors of its file."""
    gap = np.frombuffer(record.gap.encode(), np.uint8).copy()
    columns = {"people": record.people, "images": record.images, "gap": gap}
    columns |= {name: column for name in _OPTIONAL if (column := getattr(record, name)) is not None}
    return {name: torch.from_numpy(column) for name, column in columns.items()}


def from_tensors(tensors: Mapping[str, Tensor], where: Path) -> TrainedOn:
    """The record in the tensors of a file."""
    kinds = {"people": torch.int64, "images": torch.int64, "gap": torch.uint8}
    further = {name: torch.int64 for name in _OPTIONAL if name in tensors}
    if tensors.keys() == (kinds | further).keys() and all(
        tensors[name].dtype == kind and tensors[name].ndim == 1 for name, kind in (kinds | further).items()
    ):
        people, images, gap = (tensors[name].numpy() for name in kinds)
        try:
            return TrainedOn(
                people, images, gap.tobytes().decode(), **{name: tensors[name].numpy() for name in further}
            )
        except UnicodeDecodeError:
            pass
    raise ValueError(f"{where}: not a record of a training: one holds the numbers people and images, and the text gap")


def read_trained_on(path: Path) -> TrainedOn:
    """The record in the file of a model folder."""
    try:
        return from_tensors(load_file(path), path)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path}: {error}") from None


def of_checkpoint(checkpoint: Checkpoint) -> TrainedOn:
    """The record in a checkpoint; of an earlier version the people in the list of its run, without images."""
    if PART in checkpoint.sha256:
        return from_tensors(checkpoint.tensors(PART), checkpoint.file(PART))
    unknown = TrainedOn.unknown(EARLIER.format(what="run"))
    people = checkpoint.people
    return unknown if people is None else TrainedOn(name_digests(people), unknown.images, unknown.gap)
