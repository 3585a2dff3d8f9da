"""Parts of a training step: the gradients of a batch, and the check on all ranks that they are finite."""

import json
from contextlib import nullcontext
from statistics import fmean

import torch
from jaxtyping import Float
from torch import Tensor

from verisphere.base.collectives import gather_text, highest
from verisphere.head.deferred import computed_gradients
from verisphere.train.objective import Objective, Position
from verisphere.train.sample import Sample

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
