"""The training loop: steps, schedule, clipping, checks, log. It does not depend on faces, files or the command line."""

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from statistics import fmean

import torch
from jaxtyping import Float
from torch import Tensor

from verisphere.base.collectives import gather_text, highest, on_first_rank
from verisphere.base.distributed import world
from verisphere.base.seeds import Stream, mixed_seed
from verisphere.head.deferred import computed_gradients
from verisphere.train.objective import Objective, Position
from verisphere.train.sample import Sample
from verisphere.train.schedule import Plateau, Schedule

log = logging.getLogger(__name__)

_MOST_NAMED = 5  # records that a message names
_ROUNDING = 1e-3  # share of a loss by which ranks may differ: machines of several kinds round differently


class TrainingDiverged(ValueError):
    """A loss or gradient was not finite; raised before the update, so the parameters are those before the step.

    Batch-norm statistics include the step: continue from a checkpoint, not from the network in memory.
    """


def gradients(
    objective: Objective, sample: Sample, position: Position
) -> tuple[Float[Tensor, ""], Float[Tensor, " batch"], dict[str, float]]:
    """Compute the gradients of a batch, part by part.

    The mean loss over the global batch, the loss of each row of this rank, and the figures of the pair terms are
    returned, each of these a mean over the parts that have it.
    """
    total, per_sample, first = torch.zeros((), device=sample.images.device), [], 0
    figures: dict[str, list[float]] = {}
    for number, part in enumerate(sample.parts, start=1):
        rows = slice(first, first + part.rows)
        first += part.rows
        with nullcontext() if number == len(sample.parts) else objective.local_gradients():
            domains = None if sample.domains is None else sample.domains[rows]
            teacher = None if sample.teacher is None else sample.teacher[rows]
            output = objective(sample.images[rows], sample.labels[rows], None, position, domains, teacher)
            loss = output.loss if part.weight == 1.0 else output.loss * part.weight
            loss.backward()
        total = total + loss.detach()
        per_sample.append(output.per_sample)
        for name, value in output.figures.items():
            figures.setdefault(name, []).append(value)
    return total, torch.cat(per_sample), {name: fmean(values) for name, values in figures.items()}


def finite_norm(
    objective: Objective,
    loss: Float[Tensor, ""],
    per_sample: Float[Tensor, " batch"],
    sample: Sample,
    step: int,
    stop: int | None,
) -> tuple[float, int | None]:
    """Check that all gradients and losses of all ranks are finite; returns the norm of the backbone's gradient.

    A head with a deferred gradient has no gradient of the centers to check: a row's contribution to it is finite if the
    loss of the row and the gradient that the row sends to the backbone are.

    The check is one all-reduce of four numbers and one synchronisation with the device.

    The mean loss, with everything that is added to it, can be infinite while its gradient and the loss of each row are
    finite. The signal that is returned is that of any rank that has been asked to end.
    """
    backbone, *others = (
        torch.nn.utils.get_total_norm(computed_gradients(part))
        for part in (objective.backbone, objective.head, objective.terms)
    )
    # the largest magnitude is NaN where any is
    checked = torch.stack([number.to(backbone) for number in (backbone, *others, per_sample.abs().max(), loss)])
    not_finite = (~checked.isfinite().all()).to(backbone)
    value = loss.to(backbone)
    of_all_ranks = highest(torch.stack([not_finite, torch.full_like(not_finite, stop or 0), value, -value]))
    norm, diverged, signal_number, largest, smallest = torch.cat([backbone[None], of_all_ranks]).tolist()
    if diverged:
        raise TrainingDiverged(
            f"step {step + 1}: {_what(loss, per_sample, sample)}; no weight was changed. Lower optimizer.rate, "
            "or set clip, or train in float32"
        )
    if largest + smallest > _ROUNDING * max(abs(largest), abs(smallest)):  # the smallest with the other sign
        raise ValueError(
            f"step {step + 1}: the loss of one batch is {-smallest:.6g} on one rank and {largest:.6g} on another; no "
            "weight was changed. A loss must not draw random numbers itself: set `noise` and read `rows.noise`"
        )
    return norm, int(signal_number) or None


def _what(loss: Float[Tensor, ""], per_sample: Float[Tensor, " batch"], sample: Sample) -> str:
    """Name what is not finite, with the names of the first such records over all ranks."""
    rows = len(per_sample)
    bad = (~per_sample.isfinite()).nonzero()[:, 0].tolist()
    own = {"rows": rows, "bad": len(bad), "named": sample.records(bad[:_MOST_NAMED])}
    own["first"] = sample.records(range(min(rows, _MOST_NAMED)))
    own["whole"] = bool(loss.isfinite())
    ranks = [json.loads(text) for text in gather_text(json.dumps(own))]
    count = sum(rank["bad"] for rank in ranks)
    if not count:
        began = f"the batch began with {', '.join(ranks[0]['first'])}"
        if all(rank["whole"] for rank in ranks):
            return f"the gradient is not finite though every loss is; {began}"
        return (
            "the loss as a whole is not finite though each record's is: pull_together, or the weight of a pair term, "
            f"may be too large; {began}"
        )
    names = [name for rank in ranks for name in rank["named"]][:_MOST_NAMED]
    what = f"the loss of {count} of {sum(rank['rows'] for rank in ranks)} records is not finite: {', '.join(names)}"
    return what + (f" and {count - len(names)} more" if count > len(names) else "")


_FIRST_ENTRY = 10  # steps

__all__ = ["Length", "Sample", "TrainingDiverged", "TrainingStopped", "train"]


class TrainingStopped(Exception):
    """The training was asked to end early; a checkpoint has been saved."""

    def __init__(self, reason: int) -> None:
        """Take the number of the signal that stopped the training."""
        super().__init__(f"stopped by signal {reason}")
        self.reason = reason
        self.advice = "continue with --resume"


@dataclass(frozen=True)
class Length:
    """How long a training takes, its learning rates, and the steps between entries, checkpoints and validations.

    Attributes:
        schedule: how learning rate and margin change; its positions are in epochs.
        clip: largest norm of the backbone's gradient; None does not clip.
        validate_every: steps between validations; 0 validates at the end alone.
        until: number of steps after which the training ends early, as a search lets its candidates do; None trains to
            the end. Rate and margin follow the whole length.
    """

    steps_per_epoch: int
    epochs: float
    rate: float
    schedule: Schedule
    clip: float | None = None
    log_every: int = 50
    save_every: int = 1000
    validate_every: int = 0
    until: int | None = None

    @property
    def steps(self) -> int:
        """Number of steps of the whole training."""
        return max(round(self.epochs * self.steps_per_epoch), 1)

    @property
    def end(self) -> int:
        """Number of steps that are made."""
        return self.steps if self.until is None else min(self.until, self.steps)

    def validates(self, done: int) -> bool:
        """Whether a validation is due after a number of steps, other than at the end."""
        return bool(self.validate_every) and done % self.validate_every == 0


def train(
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    samples: Iterable[Sample],
    length: Length,
    *,
    first_step: int = 0,
    record: Callable[[int, dict[str, float]], None],
    save: Callable[[int], None],
    validate: Callable[[], dict[str, float]] | None = None,
    stopping: Callable[[], int | None] = lambda: None,
    seed: int = 0,
    figures_since: dict[str, list[float]] | None = None,
    plateau: Plateau | None = None,
) -> None:
    """Train from `first_step` to the end, and save a checkpoint there.

    Every random number of a step follows from the seed and the number of the step, so a resumed training makes the same
    steps as one that was never interrupted. A checkpoint is saved before the validation of the same step, which may
    fail or take long; a training that is stopped at such a step skips its validation.

    All ranks call this with their own rows of the same batches: they step, stop, save and validate after the same
    steps.

    Args:
        record: takes the number of steps made and figures for the log; the loss and the figures of pair terms are means
            since the last entry. The first entry is made after at most ten steps, so that it shows the loss at the
            beginning.
        figures_since: loss and figures of the pair terms since the last entry of the log. It is updated in place, so
            that `save` can store it; a resumed training passes those of its checkpoint.
        plateau: progress of the validation figure that the schedule follows, or None for a schedule that follows none.
            It is updated in place, as `figures_since` is. A checkpoint is saved before the validation of its step, so a
            resumed training makes that validation again, if the plateau lacks it.
    """

    def validated(done: int, validate: Callable[[], dict[str, float]]) -> None:
        figures = validate()
        record(done, figures)
        log.info("step %d: %s", done, ", ".join(f"{name} {value:.4f}" for name, value in figures.items()))
        if plateau is not None and plateau.see(done, _followed(figures, length.schedule), length.schedule.patience):
            log.info(
                "step %d: no better for %d validations, so the rate falls, if it is not at its lowest",
                done,
                length.schedule.patience,
            )

    missed = plateau is not None and plateau.step < first_step < length.end and length.validates(first_step)
    if validate is not None and missed:
        validated(first_step, validate)
    objective.train()
    done, since, seen = first_step, time.perf_counter(), 0
    unlogged = {} if figures_since is None else figures_since
    for step, sample in enumerate(samples, start=first_step):
        epoch = (step + 0.5) / length.steps_per_epoch  # the middle of the step: no step has rate 0
        rate = length.rate * length.schedule.rate(epoch, length.epochs, plateau.falls if plateau else 0)
        for group in optimizer.param_groups:
            group["lr"] = rate
        objective.head.loss.set_strength(length.schedule.margin(epoch))
        torch.manual_seed(_seed(seed, step))

        optimizer.zero_grad(set_to_none=True)
        loss, per_sample, figures = gradients(objective, sample, Position(step, epoch))
        for name, value in figures.items():
            unlogged.setdefault(name, []).append(value)
        norm, stop = finite_norm(objective, loss, per_sample, sample, step, stopping())
        if length.clip is not None:
            torch.nn.utils.clip_grad_norm_(objective.backbone.parameters(), length.clip)
        optimizer.step()
        unlogged.setdefault("loss", []).append(float(loss))  # `finite_norm` has synchronised with the device already

        done, seen = step + 1, seen + sample.whole
        last = done == length.end
        if last or done == min(_FIRST_ENTRY, length.log_every) or done % length.log_every == 0:
            now = time.perf_counter()
            figures = {
                "epoch": done / length.steps_per_epoch,
                "loss": fmean(unlogged.pop("loss")),
                "rate": rate,
                "margin_share": objective.head.loss.strength,
                "gradient_norm": norm,
                "images_per_second": seen / (now - since),
                **{name: fmean(values) for name, values in unlogged.items()},
            }
            unlogged.clear()
            record(done, figures)
            log.info(
                "step %d of %d: loss %.3f, rate %.4g, %.0f images a second",
                done, length.steps, figures["loss"], rate, figures["images_per_second"],
            )  # fmt: skip
            since, seen = now, 0
        if last or stop is not None or done % length.save_every == 0:
            save(done)
        if stop is not None and not last:
            raise TrainingStopped(stop)
        if validate is not None and (last or length.validates(done)):
            validated(done, validate)
            objective.train()
            since, seen = time.perf_counter(), 0
    if done < length.end:
        raise ValueError(f"the samples end after step {done} of {length.end}")


def _followed(figures: Mapping[str, float], schedule: Schedule) -> float:
    """The figure that a schedule follows, as rank 0 has it: all ranks must take the same decision."""
    name = next(iter(figures), "") if schedule.figure is None else schedule.figure
    if name not in figures:
        raise ValueError(f"schedule.figure is {name!r}, but the validation has {', '.join(figures) or 'no figure'}")
    return float(on_first_rank(lambda: repr(float(figures[name]))))


def _seed(seed: int, step: int) -> int:
    """Seed of a step's random numbers, such as dropout's; each rank has its own, since its images differ."""
    here = world()
    return mixed_seed(Stream.NETWORK, seed, step, *([here.rank] if here.size > 1 else []))
