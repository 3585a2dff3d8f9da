"""Why a training failed: its log first, then its weights, then images that it was trained on."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

from verisphere.base.identity import decided
from verisphere.base.vocabulary import Embeddings
from verisphere.base.words import Names
from verisphere.decide.bounds import binomial_bounds, mean_bounds
from verisphere.files.documents import read_yaml_file
from verisphere.files.metrics import METRICS, read_metrics
from verisphere.head import Head
from verisphere.images.faces import Faces
from verisphere.images.select import shared_people
from verisphere.measure.protocols.plausible import implausible_set
from verisphere.models.checkpoint import Checkpoint, list_checkpoints, read_checkpoint
from verisphere.models.embed import embed, open_model
from verisphere.models.run_head import open_head
from verisphere.report.outcome import TrainingOutcome, training_outcome
from verisphere.study.why.answer import FALSE_ALARM, Cause, Seen
from verisphere.study.why.case import IMAGES, runs_of_neighbours
from verisphere.study.why.of_pixels import UNRELATED, standing_out
from verisphere.study.why.of_rows import unit
from verisphere.study.why.pixels import Pixels
from verisphere.train.optimizer import USUAL_RATES
from verisphere.train.recipe import Recipe, read_recipe
from verisphere.train.restore import data_digest

#: Steps of a log before which a loss that has not fallen is no sign; and classes whose centers are looked at.
_STEPS, _CLASSES = 100, 128
#: Share of their length by which weights move at least in a training that learns; measured: 0.04 to 2.
_STILL = 0.02
#: Times by which a loss rises above where it was, where the rate is too high, and share of its fall that it gains: that
#: of a batch varies by less, or near its end by more than itself.
_RISE, _AGAIN = 1.3, 0.1
#: Share of the loss of a network that knows nothing, and change in the second half, of a training that has not started;
#: and the multiple of the usual rate from which on that is put down to the rate.
_NOTHING, _FLAT, _FAR_ABOVE = 0.9, 0.02, 10
#: The scale of the papers; and share of the loss of a network that knows nothing which the best network has at most.
_USUAL_SCALE, _LOWEST = 64, 0.25
#: Lengths of a filter that its steps have at most where the loss fell by more than half all the same; and share of a
#: weight that its decay takes at each step at least where it is the decay that shrinks it: usual are 5e-5.
_RECOVERED, _SHRINKS = 10, 0.01
#: Correlation of the small pixels of two encodings of one image; measured: 0.9999 at JPEG of quality 80, and 0.93 at
#: most of the images of two people. And images of a person of the training that each image is compared with.
_COPY, _OF_PERSON = 0.995, 32


@dataclass(frozen=True, eq=False)
class RunCase:
    """The folder of a training, of which each part is read when a check asks for it."""

    run: Path
    trust: bool = False

    @cached_property
    def losses(self) -> list[tuple[int, float]]:
        """Step and mean loss of each entry of the log."""
        logged = [(entry.get("step"), entry.get("loss")) for entry in read_metrics(self.run / METRICS)]
        return [(int(step), float(loss)) for step, loss in logged if step is not None and loss is not None]

    @cached_property
    def outcome(self) -> TrainingOutcome:
        """The course of loss and validation, as `train` prints it."""
        return training_outcome(read_metrics(self.run / METRICS))

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe, with its images and, as it was begun with, its network."""
        path = self.run / "recipe.yaml"
        foreign = [name for name in _classes(read_yaml_file(path)) if not name.startswith("verisphere.")]
        if foreign and not self.trust:
            raise ValueError(f"{path}: names {foreign[0]}; --trust-code loads it, which runs its code")
        return read_recipe(path, []).recipe

    @property
    def names_rule(self) -> Names | None:
        """How names were taken: as asked, else as the recipe says."""
        return decided(self.recipe.data.names_rule if "recipe" in vars(self) else None)

    @cached_property
    def checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint."""
        return read_checkpoint(self.run) if list_checkpoints(self.run) else None

    @cached_property
    def moved(self) -> float | None:
        """How far the filters and matrices are from where they began, as a share of their length there."""
        if self.checkpoint is None or self.recipe.start is not None:
            return None
        now, began = self.checkpoint.tensors("backbone"), dict(self.recipe.backbone.named_parameters())
        pairs = [(now[name], weight.detach()) for name, weight in began.items() if weight.ndim > 1]
        squares = [(float((one - other).square().sum()), float(other.square().sum())) for one, other in pairs]
        return float(np.sqrt(sum(change for change, _ in squares) / max(sum(size for _, size in squares), 1e-30)))

    @cached_property
    def some(self) -> tuple[list[int], np.ndarray]:
        """Some images of some people of the training, and who is on each."""
        every = self.recipe.data.labels.numpy()
        order = np.argsort(every, kind="stable")
        known = order[every[order] >= 0]
        place = np.arange(len(known)) - np.searchsorted(every[known], every[known])
        people = np.unique(every[known])
        chosen = people[np.unique(np.linspace(0, len(people) - 1, min(len(people), _CLASSES)).astype(int))]
        at = known[(place < IMAGES // len(chosen)) & np.isin(every[known], chosen)]
        return at.tolist(), every[at]

    def rows_of(self, faces: Faces) -> Embeddings:
        """The rows of images by the newest checkpoint."""
        return embed(open_model(self.run, torch.device("cpu"), self.trust), faces, str(self.run))


def _classes(value: Any) -> list[str]:
    """The class paths in plain data."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = [str(value["class_path"])] if isinstance(value, dict) and "class_path" in value else []
    return own + [name for part in inside for name in _classes(part)]


def rate(case: RunCase) -> Cause | Seen:
    """Whether the loss rose or was not a number, or the weights were thrown far away or stayed where they were."""
    course, number = case.outcome.loss, case.recipe.optimizer.rate
    rate = f"optimizer.rate {number:g}"
    high, low = "learning rate too high", "learning rate too low"
    if case.outcome.without_loss or any(entry.get("loss", 0) is None for entry in read_metrics(case.run / METRICS)):
        return Cause(high, f"{rate}: a loss of the log is not a number")
    if course is None or course.entries < 2:
        if course is not None and course.last > 2 * _loss_of(case):
            twice = f"a loss of {course.last:.4g}, twice that of a network which knows nothing, ends the log"
            return Cause(high, f"{rate}: {twice}")
        return Seen("the log has no two losses to compare", "too few to tell")
    evidence = f"{rate}: {course.text()}"
    evidence += "" if case.moved is None else f"; the weights moved by {case.moved:.2g} of their length"
    lowest = min((loss for step, loss in case.losses if step <= course.step - course.last_steps), default=course.last)
    peak = max((loss for step, loss in case.losses if step > case.losses[-1][0] / 10), default=0.0)
    late = "; validation improved" if case.outcome.advice.startswith("validation improved") else ""
    back = course.last > _RISE * lowest > 0 and course.last - lowest > _AGAIN * (course.first - lowest)
    again = not course.margin_grew and (back or peak > _RISE * course.first > 0)
    told = course.step >= _STEPS / 2
    if told and not late and (course.trend == "rose" or again):
        return Cause(high, f"{evidence}; entries go from {lowest:.4g} to {peak:.4g}")
    if told and case.moved is not None:
        length = _RECOVERED if course.last < course.first / 2 else 1
        far = (1 + 2 * length**2 * course.step) ** 0.25
        if case.moved > far:
            steps = f"{'' if length == 1 else f'{length} times '}the weights themselves"
            return Cause(high, f"{evidence}, and {far:.2g} at most where no step is longer than {steps}")
        unlearned = course.trend == "hardly changed" or course.last >= _NOTHING * _loss_of(case)
        rates = [entry.get("rate") for entry in read_metrics(case.run / METRICS)]
        most = max((one for one in rates if one is not None), default=number)
        if most < number / _FAR_ABOVE and unlearned:
            evidence += f"; the schedule let the rate reach {most:.2g} at most: its warm-up is longer than the training"
            return Cause(low, evidence, "verisphere train RECIPE --schedule.warmup FEWER --out ANEW")
        usual = median([one for one in rates if one is not None] or [number])
        if usual < number / _FAR_ABOVE and course.last >= _NOTHING * _loss_of(case):
            evidence += f"; the schedule let the rate be {usual:.2g} in half of the log: it falls too early"
            return Cause(low, evidence, "verisphere train RECIPE --schedule.shape polynomial --out ANEW")
        if case.moved < _STILL and unlearned:
            return Cause(low, evidence, f"verisphere train RECIPE --optimizer.rate {number * 100:g} --out ANEW")
    return Seen(f"{evidence}{late}", "well" if course.step >= _STEPS else "too few to tell")


def start(case: RunCase) -> Cause | Seen:
    """Whether the loss stays at that of a network which knows nothing, whose cosines are all alike."""
    losses = case.losses
    if not losses or losses[-1][0] < _STEPS or len(losses) < 4:
        return Seen(f"{losses[-1][0] if losses else 0} steps in {len(losses)} entries", "too few to tell")
    quarters = [fmean(loss for _, loss in losses[-count:]) for count in (len(losses) // 4, len(losses) // 2)]
    change, last = abs(quarters[0] / quarters[1] - 1), quarters[0]
    nothing = _loss_of(case)
    evidence = f"loss {last:.4g} over the last quarter of {losses[-1][0]:,} steps, {change:.1%} from its half; a "
    evidence += f"network that knows nothing of these people has {nothing:.4g}"
    if change <= _FLAT and last >= _NOTHING * nothing:
        best, scale = _loss_of(case, best=True), getattr(case.recipe.loss, "scale", None)
        if scale and scale < _USUAL_SCALE and best > _LOWEST * nothing:
            evidence += f"; at loss.scale {scale:g} the best network there can be has {best:.4g}"
            larger = f"verisphere train RECIPE --loss.scale {_USUAL_SCALE} --out ANEW"
            return Cause("loss stuck at a constant", evidence, larger)
        optimizer, usual = case.recipe.optimizer, USUAL_RATES[case.recipe.optimizer.name]
        if optimizer.rate >= _FAR_ABOVE * usual:
            evidence += f"; optimizer.rate {optimizer.rate:g}, and {usual:g} is usual"
            lower = f"verisphere train RECIPE --optimizer.rate {usual:g} --out ANEW"
            return Cause("learning rate too high", evidence, lower)
        return Cause("loss stuck at a constant", evidence)
    return Seen(evidence)


def _loss_of(case: RunCase, best: bool = False) -> float:
    """The loss of rows of cosine 0 to all classes, at the margin of the end; NaN where it cannot be computed so.

    The best that there can be has cosine 1 to its own class and -1 / (classes - 1) to the others, which C unit vectors
    can have to each other (NormFace, Wang et al. 2017, section 3.3): what a small scale allows.
    """
    loss, share = case.recipe.loss, read_metrics(case.run / METRICS)[-1].get("margin_share")
    loss.set_strength(1.0 if share is None else float(share))
    cosines = torch.zeros(4, len(case.recipe.data.people))
    if best:
        cosines -= 1 / max(cosines.shape[1] - 1, 1)
        cosines[:, 0] = 1
    people = torch.zeros(4, dtype=torch.int64)
    try:
        return loss.forward(cosines, people, norms=torch.full((4,), 20.0)).item()
    except (ValueError, TypeError):  # such as V-Softmax, which compares rows with each other, too: rows of such cosines
        head = Head(loss, classes=cosines.shape[1], size=5)
    head.centers.data[:, 0] = torch.stack(
        [cosines[0], (1 - cosines[0] ** 2).sqrt(), *torch.zeros(3, cosines.shape[1])], 1
    )
    try:
        return head(20 * (torch.eye(5)[[0, 0, 0, 0]] if best else torch.eye(5)[[0, 2, 3, 4]]), people).loss.item()
    except (ValueError, TypeError):
        return float("nan")


def data(case: RunCase) -> Cause | Seen:
    """Whether the data are those of the newest checkpoint."""
    if case.checkpoint is None:
        return Seen("no checkpoint yet", "too few to tell")
    before, now = case.checkpoint.state.get("data"), data_digest(case.recipe.data)
    if isinstance(before, dict) and any(before.get(name) != value for name, value in now.items()):
        evidence = f"trained on {before.get('images')} images of {before.get('people')} people, and the data now have "
        evidence += f"{now['images']} of {now['people']}, or others under these counts"
        return Cause("images of other names or people", evidence)
    return Seen(f"{now['images']:,} images of {now['people']:,} people, as they were trained on")


def labels(case: RunCase) -> Cause | Seen:
    """Whether one person's images are more alike than two people's, in pixels: networks learn any labels by heart."""
    faces, (at, person) = case.recipe.data, case.some
    several = np.flatnonzero(np.bincount(person)[person] > 1)
    at, person = [at[one] for one in several], person[several]
    if len(set(person)) < 2:
        return Seen("no two people have two images", "too few to tell")
    small = _small(faces.images(at))
    scores = standing_out(small - small.mean(0), person)
    least, most = mean_bounds(scores.tolist(), 1 - 2 * FALSE_ALARM)
    evidence = f"the pixels of a person's images are {scores.mean():.2f} standard deviations more alike than those of "
    evidence += f"two people ({least:.2f} to {most:.2f}; {len(at)} images of {len(scores)} people)"
    if most < UNRELATED:
        return Cause("label shift", f"{evidence}: the labels are not those of the images")
    return Seen(evidence, "well" if least > 0 else "too few to tell")


def _small(images: Pixels) -> Float64[np.ndarray, "images dim"]:
    """Pixels of 16 x 16, without their mean."""
    small = torch.nn.functional.interpolate(images.float(), (16, 16), mode="area").flatten(1).double().numpy()
    return small - small.mean(1, keepdims=True)


def centers(case: RunCase) -> Cause | Seen:
    """Whether images of the training have rows of their own, and come near the centers of their people."""
    if case.checkpoint is None:
        return Seen("no checkpoint yet", "too few to tell")
    head, (at, labels) = open_head(case.run), case.some
    rows = case.rows_of(case.recipe.data.select(at))
    units = rows.embeddings / np.linalg.norm(rows.embeddings, axis=1, keepdims=True)
    spread = float(np.median((units @ units.T)[~np.equal.outer(labels, labels)])) if len(set(labels)) > 1 else 0.0
    cosines = np.einsum("nd,ckd->nck", units, head.centers.numpy()).max(2)
    own = cosines[np.arange(len(at)), labels]
    nearer = (cosines > own[:, None]).sum(1)
    missed = [label for label in np.unique(labels) if (nearer[labels == label] >= len(head.people) / 4).all()]
    reached = float((nearer == 0).mean())
    evidence = f"{reached:.1%} of {len(at)} images are nearest to their own center; two people have a cosine of "
    evidence += f"{spread:.4f} in the median; {len(missed)} of {len(np.unique(labels))} centers are reached by no image"
    if spread > 0.99 and case.checkpoint.step < _STEPS:  # before, the statistics of batch norm are new
        return Seen(evidence, "too few to tell")
    if spread > 0.99:
        shrunk, field = case.recipe.optimizer.rate * case.recipe.optimizer.weight_decay, "rate"
        if shrunk >= _SHRINKS:
            field = "weight_decay"
            evidence += f"; rate x weight_decay takes {shrunk:.2g} of a weight at each step"
        return Cause("embeddings collapsed", evidence, f"verisphere train RECIPE --optimizer.{field} LOWER --out ANEW")
    optimizer, usual = case.recipe.optimizer, USUAL_RATES[case.recipe.optimizer.name]
    surely = binomial_bounds(int((nearer == 0).sum()), len(at), 1 - 2 * FALSE_ALARM)[0]
    if surely <= 1 / len(head.people) and case.checkpoint.step >= _STEPS and optimizer.rate >= _FAR_ABOVE * usual:
        evidence += (
            f"; as many images would be nearest by chance; optimizer.rate {optimizer.rate:g}, and {usual:g} is usual"
        )
        lower = f"verisphere train RECIPE --optimizer.rate {usual:g} --out ANEW"
        return Cause("learning rate too high", evidence, lower)
    if reached > 0.5 and len(missed) > 0.01 * len(np.unique(labels)):
        names = ", ".join(head.people[label] for label in missed[:3])
        return Cause("centers that no image reaches", f"{evidence}, such as {names}")
    return Seen(evidence, "well" if reached > 0.5 else "too few to tell")


def validation(case: RunCase) -> Cause | Seen:
    """Whether people of the validation are people of the training."""
    validation, training = case.recipe.validation, case.recipe.data
    if validation is None:
        return Seen("the recipe has no validation", "not asked")
    if both := shared_people(validation, training):
        evidence = f"{len(both):,} of the {len(validation.people):,} people of the validation are trained on, such as "
        return Cause("validation people in the training", f"{evidence}{both[0]}")
    if case.checkpoint is not None:
        rows = case.rows_of(faces := validation.select(runs_of_neighbours(len(validation), IMAGES)))
        reasons = [reason for reason in implausible_set(rows) if "no higher than impostor" not in reason]
        known = rows.in_training
        if known is not None and known.images.any():
            evidence = (
                f"{known.images.sum():,} of {len(rows):,} images of the validation are trained on, pixel by pixel"
            )
            return Cause("validation people in the training", f"{evidence}, under other names")
        if copies := _copies(case, faces, rows):
            evidence = f"{copies:,} of {len(rows):,} images of the validation are trained on, encoded otherwise"
            return Cause("validation people in the training", f"{evidence}, under other names")
        if reasons:
            return Cause("label shift", f"in the validation, {reasons[0]}", "make the labels of the validation anew")
    return Seen(f"none of the {len(validation.people):,} people of the validation is trained on, and their labels fit")


def _copies(case: RunCase, faces: Faces, rows: Embeddings) -> int:
    """How many images look like one of the training, of the person whose center is nearest."""
    cosines = np.einsum("nd,ckd->nck", unit(rows.embeddings), open_head(case.run).centers.numpy()).max(2)
    nearest, training = cosines.argmax(1), case.recipe.data
    small, copies = unit(_small(faces.images(range(len(faces))))), 0
    for label in np.unique(nearest):
        theirs = np.flatnonzero(training.labels.numpy() == label)[:_OF_PERSON].tolist()
        copies += int(((small[nearest == label] @ unit(_small(training.images(theirs))).T).max(1) > _COPY).sum())
    return copies
