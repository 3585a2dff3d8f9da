"""A training step: the gradients of a batch, and the check on all ranks that they are finite."""

import json
from contextlib import nullcontext
from statistics import fmean

import torch
from jaxtyping import Float
from torch import Tensor

from verisphere.collectives import gather_text, highest
from verisphere.train.objective import Objective, Progressed
from verisphere.train.sample import Sample

_NAMED = 5  # records in a message
_ROUNDING = 1e-3  # share of a loss by which ranks may differ: machines of several kinds round differently


class TrainingDiverged(ValueError):
    """A loss or gradient was not finite; raised before the update, so parameters are those before the step.

    Batch-norm statistics have seen the step: go on from a checkpoint, not from the network in memory.
    """


def gradients(
    objective: Objective, sample: Sample, progressed: Progressed
) -> tuple[Float[Tensor, ""], Float[Tensor, " batch"], dict[str, float]]:
    """Make the gradients of a batch, part by part.

    Returns:
        The mean loss over the global batch, each of this process's rows', and the pair terms' figures, each a mean over
        the parts that have it.
    """
    total, per_sample, first = torch.zeros((), device=sample.images.device), [], 0
    figures: dict[str, list[float]] = {}
    for number, part in enumerate(sample.parts, start=1):
        rows = slice(first, first + part.rows)
        first += part.rows
        with nullcontext() if number == len(sample.parts) else objective.apart():
            domains = None if sample.domains is None else sample.domains[rows]
            output = objective(sample.images[rows], sample.labels[rows], None, progressed, domains)
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
    """The norm of the backbone's gradient, once all gradients and losses of every process are known to be finite.

    A head that updates its centers itself has no gradient of them; a row's share of it is finite if the row's loss and
    the gradient that it sends to the backbone are.

    One collective of four numbers, and one wait for the device.

    Args:
        objective: after its backward.
        loss: the mean loss, with all that is added to it; it can be infinite where its gradient and each row's loss are
            not.
        per_sample: the losses of this process's rows.
        sample: the rows, for the names of those that are not finite.
        step: steps made before.
        stop: a signal's number, if this process has been asked to end.

    Returns:
        The norm, and the signal's number if any process has been asked to end.

    Raises:
        TrainingDiverged: something is not finite; the same on every process, whichever has it.
        ValueError: the loss of the batch differs between ranks by more than rounding.
    """
    backbone, *others = (
        torch.nn.utils.get_total_norm([one.grad for one in part.parameters() if one.grad is not None])
        for part in (objective.backbone, objective.head, objective.terms)
    )
    # the largest magnitude is NaN where any is
    here = torch.stack([one.to(backbone) for one in (backbone, *others, per_sample.abs().max(), loss)])
    bad = (~here.isfinite().all()).to(backbone)
    value = loss.to(backbone)
    alike = highest(torch.stack([bad, torch.full_like(bad, stop or 0), value, -value]))
    norm, diverged, number, largest, smallest = torch.cat([backbone[None], alike]).tolist()
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
    return norm, int(number) or None


def _what(loss: Float[Tensor, ""], per_sample: Float[Tensor, " batch"], sample: Sample) -> str:
    """What is not finite, with the names of the first records, whichever processes they are on."""
    rows = len(per_sample)
    bad = (~per_sample.isfinite()).nonzero()[:, 0].tolist()
    mine = {"rows": rows, "bad": len(bad), "named": sample.records(bad[:_NAMED])}
    mine["first"] = sample.records(range(min(rows, _NAMED)))
    mine["whole"] = bool(loss.isfinite())
    all_of_them = [json.loads(text) for text in gather_text(json.dumps(mine))]
    count = sum(one["bad"] for one in all_of_them)
    if not count:
        began = f"the batch began with {', '.join(all_of_them[0]['first'])}"
        if all(one["whole"] for one in all_of_them):
            return f"the gradient is not finite though every loss is; {began}"
        return (
            "the loss as a whole is not finite though each record's is: pull_together, or the weight of a pair term, "
            f"may be too large; {began}"
        )
    names = [name for one in all_of_them for name in one["named"]][:_NAMED]
    what = f"the loss of {count} of {sum(one['rows'] for one in all_of_them)} records is not finite: {', '.join(names)}"
    return what + (f" and {count - len(names)} more" if count > len(names) else "")
