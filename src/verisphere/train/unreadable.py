"""Training images that cannot be read: those of all ranks, and those that a checkpoint has recorded."""

import json

from verisphere.base.collectives import gather_text
from verisphere.files.json_values import shown
from verisphere.images.loader import UnreadableImages
from verisphere.models.checkpoint import Checkpoint

KEY = "unreadable"  # in the checkpoint's state


def unreadable_of_ranks(unreadable: UnreadableImages) -> set[int]:
    """Positions of the unreadable images that any rank has found; every rank must call this."""
    positions: set[int] = set()
    for text in gather_text(json.dumps(sorted(unreadable.positions))):
        positions.update(json.loads(text))
    if len(positions) > unreadable.allowed:
        raise ValueError(
            f"{len(positions)} images cannot be read, counted over all ranks, more than max_unreadable "
            f"{unreadable.allowed} allows; the log of each rank names its own"
        )
    return positions


def unreadable_before(checkpoint: Checkpoint) -> list[int]:
    """Positions of the training images that could not be read before the checkpoint."""
    positions = checkpoint.state.get(KEY, [])
    if isinstance(positions, list) and all(type(position) is int and position >= 0 for position in positions):
        return positions
    raise ValueError(f"{checkpoint.path / 'state.json'}: {KEY} is {shown(positions)}, not a list of positions")
