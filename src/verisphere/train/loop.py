"""The training loop: steps, schedule, clipping, checks, log. It knows nothing of faces, files or command lines."""

import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from verisphere.data.seeds import Stream, mixed_seed
from verisphere.train.objective import Objective
from verisphere.train.schedule import Schedule

log = logging.getLogger(__name__)


class TrainingDiverged(ValueError):
    """A loss or gradient was not finite; raised before the update, so parameters are those before the step.

    Batch-norm statistics have seen the step: go on from a checkpoint, not from the network in memory.
    """


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
class Plan:
    """How long to train, at what rates, and what happens how often.

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
        return max(round(self.epochs * self.steps_per_epoch), 1)


def train(
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    samples: Iterable[Sample],
    plan: Plan,
    *,
    first_step: int = 0,
    record: Callable[[int, dict[str, float]], None],
    save: Callable[[int], None],
    validate: Callable[[], dict[str, float]] | None = None,
    stopping: Callable[[], int | None] = lambda: None,
    seed: int = 0,
) -> None:
    """Train from `first_step` to the end, leaving a checkpoint there.

    Every random number of a step follows from the seed and the step's number, so a resumed training makes the same
    steps as one that was never interrupted. A checkpoint comes before the validation of the same step, which may fail
    or take long; one who stops at such a step goes without its validation.

    Args:
        objective: backbone and head.
        optimizer: over both.
        samples: batches from `first_step` to the end.
        plan: length, schedule, clipping, intervals.
        first_step: steps made already.
        record: takes the number of steps made and figures for the log.
        save: writes a checkpoint after this many steps.
        validate: measures the backbone as it is.
        stopping: a signal's number once the training should end early.
        seed: of the steps' random numbers.

    Raises:
        TrainingDiverged: a loss or gradient is NaN or infinite; raised before the update.
        TrainingStopped: `stopping` asked for it; a checkpoint has been left.
        ValueError: the samples end before the plan does.
    """
    objective.train()
    done, since, seen = first_step, time.perf_counter(), 0
    for step, sample in enumerate(samples, start=first_step):
        epoch = (step + 0.5) / plan.steps_per_epoch  # the middle of the step: no step has rate 0
        rate = plan.rate * plan.schedule.rate(epoch, plan.epochs)
        for group in optimizer.param_groups:
            group["lr"] = rate
        objective.head.loss.set_strength(plan.schedule.margin(epoch))
        torch.manual_seed(mixed_seed(Stream.NETWORK, seed, step))

        optimizer.zero_grad(set_to_none=True)
        output = objective(sample.images, sample.labels)
        output.loss.backward()
        norm = _finite_norm(objective, output.per_sample, sample, step)
        if plan.clip is not None:
            torch.nn.utils.clip_grad_norm_(objective.backbone.parameters(), plan.clip)
        optimizer.step()

        done, seen = step + 1, seen + len(sample.labels)
        last, stop = done == plan.steps, stopping()
        if last or done % plan.log_every == 0:
            now = time.perf_counter()
            figures = {
                "epoch": done / plan.steps_per_epoch,
                "loss": float(output.loss.detach()),
                "rate": rate,
                "margin_share": objective.head.loss.strength,
                "gradient_norm": norm,
                "images_per_second": seen / (now - since),
            }
            record(done, figures)
            log.info(
                "step %d of %d: loss %.3f, rate %.4g, %.0f images a second",
                done, plan.steps, figures["loss"], rate, figures["images_per_second"],
            )  # fmt: skip
            since, seen = now, 0
        if last or stop is not None or done % plan.save_every == 0:
            save(done)
        if stop is not None and not last:
            raise TrainingStopped(stop)
        if validate is not None and (last or (plan.validate_every and done % plan.validate_every == 0)):
            figures = validate()
            record(done, figures)
            log.info("step %d: %s", done, ", ".join(f"{name} {value:.4f}" for name, value in figures.items()))
            objective.train()
            since, seen = time.perf_counter(), 0
    if done < plan.steps:
        raise ValueError(f"the samples end after step {done} of {plan.steps}")


def _finite_norm(objective: Objective, per_sample: Float[Tensor, " batch"], sample: Sample, step: int) -> float:
    """The norm of the backbone's gradient, once it, the head's where it has one, and every loss are known to be finite.

    A head that updates its centers itself has no gradient of them; a row's share of it is finite if the row's loss and
    the gradient that it sends to the backbone are.
    """
    backbone, head = (
        torch.nn.utils.get_total_norm([one.grad for one in part.parameters() if one.grad is not None])
        for part in (objective.backbone, objective.head)
    )
    # one wait for the device, not three; the largest magnitude is NaN where any is
    norm, *others = torch.stack([backbone, head.to(backbone), per_sample.abs().max().to(backbone)]).tolist()
    if math.isfinite(norm) and all(math.isfinite(one) for one in others):
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
