"""The outcome of a training from its log: the trend of the loss, that of the validation, and advice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

Entry: TypeAlias = Mapping[str, float | int | None]
Trend: TypeAlias = Literal["rose", "fell", "hardly changed"]

#: Largest relative change of the loss, and absolute change of a TAR, that counts as no change: batches and pairs vary
#: as much.
LOSS_TOLERANCE, TAR_TOLERANCE = 0.05, 0.005
#: Least number of steps over which the loss at either end is averaged, because of its noise.
AVERAGED_STEPS = 10.0
#: A TAR of at least this value need not improve further.
_HIGH_TAR = 0.95
VALIDATION = "validation_tar_at_far_"


@dataclass(frozen=True)
class LossCourse:
    """The loss at the beginning and at the end of a training, over steps with the final margin.

    Attributes:
        first: mean over the first ten steps or a few more, in whole entries; if only one entry can be compared, the
            first loss in the log, with any margin.
        last: mean over the last tenth of the steps, at least ten.
        first_steps, last_steps: number of steps behind `first` and behind `last`.
        margin_grew: whether earlier entries could not be compared because they had a smaller margin.
        margin_share: share of the margin at the last entry; None if the log has no margin.
    """

    first: float
    last: float
    first_steps: int
    last_steps: int
    entries: int
    step: int
    margin_grew: bool
    margin_share: float | None

    @property
    def trend(self) -> Trend | None:
        """Trend of the loss; None if there is only one entry."""
        return _trend(self.last - self.first, LOSS_TOLERANCE * abs(self.first)) if self.entries > 1 else None

    def text(self) -> str:
        """The course as a sentence without a full stop."""
        if self.trend is not None:
            since, these = (" since the margin reached its full size,", " of these") if self.margin_grew else ("", "")
            means = f"means over the first {self.first_steps} and the last {self.last_steps}{these} steps"
            if self.first_steps == self.last_steps == 1:
                means = "the first and the last step alone"
            return f"the loss {self.trend}{since} from {self.first:.4g} to {self.last:.4g} ({means})"
        if self.margin_grew:
            full = self.margin_share is None or self.margin_share >= 1
            size = "its full size" if full else f"{100 * (self.margin_share or 0.0):.0f} % of its full size"
            return (
                f"the loss went from {self.first:.4g} to {self.last:.4g} while the margin grew to {size}, which raises "
                "it by itself; a shorter schedule.margin_warmup (or more epochs) would show a trend"
            )
        return (
            f"the loss was {self.last:.4g} at step {self.step}; no other step was logged to compare it with (log_every "
            "sets how often)"
        )


@dataclass(frozen=True)
class ValidationCourse:
    """TAR in validation at one target FAR over a training: pairs of the number of steps and the TAR, at least one."""

    far_target: str
    tars: tuple[tuple[int, float], ...]

    @property
    def best(self) -> tuple[int, float]:
        """Step and value of the highest TAR; the first of equal ones."""
        return max(self.tars, key=lambda measured: measured[1])

    @property
    def trend(self) -> Trend | None:
        """Trend of the TAR; None if it was measured once."""
        change = self.tars[-1][1] - self.tars[0][1]
        return _trend(change, TAR_TOLERANCE) if len(self.tars) > 1 else None

    @property
    def passed_its_best(self) -> bool:
        """Whether an earlier TAR was higher than the last one by more than the tolerance."""
        return self.best[1] - self.tars[-1][1] > TAR_TOLERANCE

    def text(self) -> str:
        """The course as a sentence."""
        (begun, first), (ended, last) = self.tars[0], self.tars[-1]
        at = f"TAR in validation at FAR {self.far_target}"
        if self.trend is None:
            return f"{at} was {last:.4f} at step {ended}, measured once (validate_every sets how often)"
        word = {"rose": "improved", "fell": "got worse", "hardly changed": "did not improve"}[self.trend]
        best = f"; the best was {self.best[1]:.4f} at step {self.best[0]}" if self.passed_its_best else ""
        return f"{at} {word}, from {first:.4f} at step {begun} to {last:.4f} at step {ended}{best}"


@dataclass(frozen=True)
class TrainingOutcome:
    """The outcome of a training; `without_loss` counts entries with a null loss, if no entry has a number, else 0."""

    loss: LossCourse | None
    validation: tuple[ValidationCourse, ...]
    without_loss: int = 0

    @property
    def advice(self) -> str:
        """Advice on what to change if the training did not go well; else empty."""
        loss = None if self.loss is None else self.loss.trend
        trends = [course.trend for course in self.validation]
        if loss == "rose" and "rose" in trends:
            return "validation improved all the same: terms that begin late or grow can raise a loss"
        if loss == "rose":
            return "lower the rate (optimizer.rate) or the margin of the loss"
        if loss == "hardly changed" and "rose" not in trends:
            return (
                "raise the rate (optimizer.rate) or train for more epochs; if that changes nothing, check that images "
                "and labels belong together"
            )
        past = [course.best[0] for course in self.validation if course.passed_its_best]
        if past or "fell" in trends:
            when = f" (validation was best at step {past[0]})" if past else ""
            return f"train for fewer epochs{when}, on more people, or with stronger augmentation"
        if trends and all(
            course.trend == "hardly changed" and course.best[1] < _HIGH_TAR for course in self.validation
        ):
            return "what was learned holds only for the people trained on: train on more people"
        return ""

    def text(self) -> str:
        """A line for the loss, a line for each target FAR of the validation, and the advice."""
        lines = [course.text() for course in (self.loss, *self.validation) if course is not None]
        if self.without_loss:
            lines.insert(
                0, f"no loss can be given: it is null in every entry of the log that has one ({self.without_loss})"
            )
        if not self.advice:
            return "\n".join(lines)
        if self.loss is not None and self.loss.trend == "rose":
            return "\n".join([f"{lines[0]}: {self.advice}", *lines[1:]])
        return "\n".join([*lines, f"advice: {self.advice}"])


def training_outcome(entries: Sequence[Entry]) -> TrainingOutcome:
    """The outcome of a whole training, from all lines of `metrics.jsonl`, those before interruptions included."""
    tars: dict[str, list[tuple[int, float]]] = {}
    for entry in entries:
        for name, value in entry.items():
            if name.startswith(VALIDATION) and value is not None:
                tars.setdefault(name.removeprefix(VALIDATION), []).append((_step(entry), float(value)))
    validation = tuple(ValidationCourse(far, tuple(measured)) for far, measured in tars.items())
    loss = _loss_course(entries)
    return TrainingOutcome(loss, validation, sum("loss" in entry for entry in entries) if loss is None else 0)


def _loss_course(entries: Sequence[Entry]) -> LossCourse | None:
    logged = [entry for entry in entries if entry.get("loss") is not None]
    if not logged:
        return None
    # An entry has the mean loss since the previous entry, so both must have the final margin.
    full = logged[-1].get("margin_share")
    pairs = pairwise([{"step": 0, "margin_share": logged[0].get("margin_share")}, *logged])
    compared = [
        (max(_step(entry) - _step(before), 1), float(entry["loss"] or 0.0))
        for before, entry in pairs
        if before.get("margin_share") == entry.get("margin_share") == full
    ] or [(1, float(logged[-1]["loss"] or 0.0))]
    tenth = sum(steps for steps, _ in compared) / 10
    (first, first_steps), (last, last_steps) = (
        _mean(compared, AVERAGED_STEPS),
        _mean(compared[::-1], max(AVERAGED_STEPS, tenth)),
    )
    return LossCourse(
        first if len(compared) > 1 else float(logged[0]["loss"] or 0.0),
        last,
        first_steps,
        last_steps,
        len(compared),
        _step(logged[-1]),
        margin_grew=len(compared) < len(logged),
        margin_share=full,
    )


def _mean(entries: Sequence[tuple[int, float]], enough: float) -> tuple[float, int]:
    """Mean loss and number of steps of the first entries that cover enough steps, at most the first half of all."""
    part = [entries[0]]
    while sum(steps for steps, _ in part) < enough and len(part) < len(entries) // 2:
        part.append(entries[len(part)])
    covered = sum(steps for steps, _ in part)
    return sum(steps * loss for steps, loss in part) / covered, covered


def _trend(change: float, tolerance: float) -> Trend:
    if abs(change) <= tolerance:
        return "hardly changed"
    return "rose" if change > 0 else "fell"


def _step(entry: Entry) -> int:
    return int(entry.get("step") or 0)
