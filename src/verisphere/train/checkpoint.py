"""Checkpoints: safetensors and JSON in a folder that is complete or absent. Nothing in one is executed on reading."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from verisphere.data.files import digest, remove_whole, write_whole

FORMAT = 1
_NAME = re.compile(r"step-\d{8}")
#: What a killed process leaves behind: `write_whole` and `remove_whole` work under these names.
_LEFTOVER = re.compile(r"\.(part|gone)-[0-9a-f]+-step-\d{8}")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's folder and what its `state.json` says.

    Attributes:
        path: the folder.
        step: steps that had been made.
        sha256: digest of each part's file.
        state: everything else in `state.json`, such as how to build the backbone.
    """

    path: Path
    step: int
    sha256: dict[str, str]
    state: dict[str, Any]

    def tensors(self, part: str) -> dict[str, Tensor]:
        """The tensors of one part: `backbone`, `head` or `optimizer`.

        Raises:
            ValueError: the file is absent, or not byte for byte what was written.
        """
        path = self.path / f"{part}.safetensors"
        try:
            if digest(path) == self.sha256.get(part):
                return load_file(path)
            reason = "it is not what was written"
        except (OSError, SafetensorError) as error:
            reason = str(error)
        raise ValueError(f"{path} is damaged ({reason}); an older checkpoint beside {self.path.name} may be whole")


def save_checkpoint(
    run: Path,
    step: int,
    parts: dict[str, dict[str, Tensor]],
    state: dict[str, Any],
    keep: int = 2,
) -> Path:
    """Write `run/checkpoints/step-XXXXXXXX`, whole or not at all, then remove all but the newest `keep`.

    One process at a time writes to a run: what an earlier one left half-written is removed too.

    Args:
        run: the run's folder.
        step: steps made so far.
        parts: tensors by name, for each file.
        state: what else is needed to go on; plain JSON values.
        keep: how many checkpoints stay, 1 or more.

    Raises:
        OSError: it cannot be written, for want of space perhaps; older checkpoints are as they were.
    """
    path = run / "checkpoints" / f"step-{step:08d}"

    def write(partial: Path) -> None:
        partial.mkdir()
        digests = {}
        for part, tensors in parts.items():
            file = partial / f"{part}.safetensors"
            try:
                save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, file)
            except SafetensorError as error:  # such as a full disk
                raise OSError(f"{path}: {part} cannot be written: {error}") from None
            digests[part] = digest(file)
        text = json.dumps({"format": FORMAT, "step": step, "sha256": digests, **state}, indent=2)
        (partial / "state.json").write_text(text + "\n")

    if not path.exists():  # the same step again: the folder is complete already
        write_whole(path, write)
    leftovers = [entry for entry in path.parent.iterdir() if _LEFTOVER.fullmatch(entry.name)]
    for old in [*list_checkpoints(run)[:-keep], *leftovers]:
        remove_whole(old)
    return path


def list_checkpoints(run: Path) -> list[Path]:
    """The complete checkpoints of a run, oldest first."""
    folder = run / "checkpoints"
    return sorted(path for path in folder.glob("step-*") if _NAME.fullmatch(path.name)) if folder.is_dir() else []


def read_checkpoint(path: Path) -> Checkpoint:
    """A checkpoint from its folder, or the newest one of a run's folder.

    Raises:
        FileNotFoundError: neither a checkpoint nor a run with one.
        ValueError: `state.json` is not what this version writes.
    """
    if not (path / "state.json").is_file():
        newest = list_checkpoints(path)
        if not newest:
            raise FileNotFoundError(f"{path}: neither a checkpoint (no state.json) nor a run that has one")
        path = newest[-1]
    file = path / "state.json"
    try:
        state = json.loads(file.read_text())
        version = state.pop("format")
        if version != FORMAT:
            raise ValueError(f"its format is {version!r}, this version reads {FORMAT}")
        return Checkpoint(path, int(state.pop("step")), dict(state.pop("sha256")), state)
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{file}: not a checkpoint's state: {reason}") from None


def load_into(module: nn.Module, tensors: dict[str, Tensor], where: str) -> None:
    """Load tensors into a module that must have exactly these, of these shapes.

    Raises:
        ValueError: names or shapes differ; the first few are named.
    """
    own = module.state_dict()
    wrong = sorted(own.keys() ^ tensors.keys()) or [
        f"{name} {tuple(tensors[name].shape)} for {tuple(own[name].shape)}"
        for name in own
        if own[name].shape != tensors[name].shape
    ]
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise ValueError(f"{where} does not fit {type(module).__name__}: {', '.join(wrong[:3])}{more}")
    module.load_state_dict(tensors)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimizer's state (momentum and the like) as named tensors: `<parameter number>.<key>`."""
    return {
        f"{number}.{key}": torch.as_tensor(value)
        for number, values in optimizer.state_dict()["state"].items()
        for key, value in values.items()
        if value is not None
    }


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], where: str) -> None:
    """Put back what `optimizer_tensors` took; settings such as the learning rate stay the optimizer's own.

    Raises:
        ValueError: a tensor belongs to no parameter, or has another shape than its own.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        number, _, key = name.partition(".")
        owner = parameters[int(number)] if number.isdecimal() and int(number) < len(parameters) else None
        if owner is None or tensor.shape not in (owner.shape, ()):  # () is a count of steps
            raise ValueError(f"{where} does not fit {type(optimizer).__name__}: {name} {tuple(tensor.shape)}")
        # in the parameter's memory order, as a running optimizer has it: its fused loops need one order
        state.setdefault(int(number), {})[key] = torch.empty_like(owner).copy_(tensor) if tensor.ndim else tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
