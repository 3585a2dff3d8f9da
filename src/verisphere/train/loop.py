"""The training loop: steps, schedule, clipping, checks, log. It knows nothing of faces, files or command lines."""

import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from verisphere.train.objective import Objective
from verisphere.train.schedule import Schedule

log = logging.getLogger(__name__)


class TrainingDiverged(ValueError):
    """A loss or gradient was not finite; the weights are those before the step."""


class TrainingStopped(Exception):
    """The training was asked to end early, and has left a checkpoint."""

    def __init__(self, reason: int) -> None:
        """Stopped for this reason: a signal's number."""
        super().__init__(f"stopped by signal {reason}")
        self.reason = reason


@dataclass(frozen=True, eq=False)
class Sample:
    """One batch, on the device: normalised images, labels, and what to call each record in a message."""

    images: Float[Tensor, "batch 3 height width"]
    labels: Int64[Tensor, " batch"]
    records: Callable[[Sequence[int]], list[str]]


@dataclass(frozen=True)
class Settings:
    """How long and how to train.

    Attributes:
        steps_per_epoch: batches in an epoch.
        epochs: how many epochs.
        rate: base learning rate.
        schedule: of learning rate and margin.
        clip: largest gradient norm over the backbone; None does not clip.
        log_every: steps between entries of the log.
        save_every: steps between checkpoints.
        validate_every: steps between validations; 0 validates at the end alone.
    """

    steps_per_epoch: int
    epochs: float
    rate: float
    schedule: Schedule
    clip: float | None = None
    log_every: int = 50
    save_every: int = 1000
    validate_every: int = 0

    @property
    def steps(self) -> int:
        """Steps of the whole training."""
        return math.ceil(self.epochs * self.steps_per_epoch)


def train(
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    samples: Iterable[Sample],
    settings: Settings,
    *,
    first_step: int = 0,
    record: Callable[[dict[str, float]], None],
    save: Callable[[int], None],
    validate: Callable[[], dict[str, float]] | None = None,
    stopping: Callable[[], int | None] = lambda: None,
    seed: int = 0,
) -> None:
    """Train from `first_step` to the end, leaving a checkpoint there.

    Every random number of a step follows from the seed and the step's number, so a resumed training makes the same
    steps as one that was never interrupted.

    Args:
        objective: backbone and head.
        optimizer: over both.
        samples: batches from `first_step` on.
        settings: length, schedule, clipping, intervals.
        first_step: steps made already.
        record: takes each entry of the log.
        save: writes a checkpoint after this many steps.
        validate: measures the backbone as it is.
        stopping: a signal's number once the training should end early.
        seed: of the steps' random numbers.

    Raises:
        TrainingDiverged: a loss or gradient is NaN or infinite; raised before the update.
        TrainingStopped: `stopping` asked for it; a checkpoint has been left.
    """
    objective.train()
    since, seen = time.perf_counter(), 0
    for step, sample in enumerate(samples, start=first_step):
        epoch = (step + 0.5) / settings.steps_per_epoch  # the middle of the step: no step has rate 0
        rate = settings.rate * settings.schedule.rate(epoch, settings.epochs)
        for group in optimizer.param_groups:
            group["lr"] = rate
        objective.head.loss.set_strength(settings.schedule.margin(epoch))
        torch.manual_seed((seed << 32) + step)

        optimizer.zero_grad(set_to_none=True)
        output = objective(sample.images, sample.labels)
        output.loss.backward()
        norm = _finite_norm(objective, output.per_sample, sample, step)
        if settings.clip is not None:
            torch.nn.utils.clip_grad_norm_(objective.backbone.parameters(), settings.clip)
        optimizer.step()

        done, seen = step + 1, seen + len(sample.labels)
        if done % settings.log_every == 0 or done == settings.steps:
            now = time.perf_counter()
            entry = {
                "step": float(done),
                "epoch": done / settings.steps_per_epoch,
                "loss": float(output.loss.detach()),
                "rate": rate,
                "margin": objective.head.loss.strength,
                "gradient_norm": norm,
                "images_per_second": seen / (now - since),
            }
            record(entry)
            log.info(
                "step %d of %d: loss %.3f, rate %.4g, %.0f images a second",
                done, settings.steps, entry["loss"], rate, entry["images_per_second"],
            )  # fmt: skip
            since, seen = now, 0
        last = done == settings.steps
        if validate is not None and (last or (settings.validate_every and done % settings.validate_every == 0)):
            figures = validate()
            record({"step": float(done), **figures})
            log.info("step %d: %s", done, ", ".join(f"{name} {value:.4f}" for name, value in figures.items()))
            objective.train()
            since, seen = time.perf_counter(), 0
        reason = stopping()
        if last or reason is not None or done % settings.save_every == 0:
            save(done)
        if reason is not None and not last:
            raise TrainingStopped(reason)


def _finite_norm(objective: Objective, per_sample: Tensor, sample: Sample, step: int) -> float:
    """The gradient's norm, once it and the loss are known to be finite."""
    gradients = [parameter.grad for parameter in objective.parameters() if parameter.grad is not None]
    norm = float(torch.nn.utils.get_total_norm(gradients))
    if math.isfinite(norm) and bool(per_sample.isfinite().all()):
        return norm
    bad = (~per_sample.isfinite()).nonzero()[:, 0].tolist()
    if bad:
        names = sample.records(bad)
        what = f"the loss of {len(bad)} of {len(per_sample)} records is not finite: " + ", ".join(names[:5])
        what += f" and {len(names) - 5} more" if len(names) > 5 else ""
    else:
        names = sample.records(range(len(per_sample)))
        what = f"the gradient is not finite though every loss is; the batch began with {', '.join(names[:5])}"
    raise TrainingDiverged(
        f"step {step + 1}: {what}; no weight was changed. Lower optimizer.rate, or set clip, or train in float32"
    )
