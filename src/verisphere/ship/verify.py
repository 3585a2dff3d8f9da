"""Two photographs, or two folders of them: the same person or not, at the threshold a model was shipped with."""

from dataclasses import dataclass
from pathlib import Path

from verisphere.decide import Far, GuaranteedThreshold
from verisphere.files.results import json_text
from verisphere.models.folder import Model
from verisphere.models.model_json import TrainingRecord
from verisphere.ship.face_search import FindFaces
from verisphere.ship.people import (
    SETS,
    Person,
    lower_median,
    notes_on,
    person_at,
    refuse_drawn,
    scores_between,
)
from verisphere.vocabulary import Progress, quietly


@dataclass(frozen=True)
class Verification:
    """What a comparison came to.

    Attributes:
        same: more than half of the comparisons passed (of one comparison: it passed).
        score: the score itself; of several the lower median, which is above the threshold iff more than half are.
        threshold: what it was held against, with its guarantee.
        meaning: the guarantee in words, with what the model was calibrated and trained on.
        misses: how often photographs of one person are rejected at this threshold, in words.
        training: on what the model was trained.
        drawn: that drawings stand behind the threshold; empty where none do.
        comparisons: photographs of one side times those of the other.
        passed: how many scored above the threshold.
    """

    same: bool
    score: float
    threshold: GuaranteedThreshold
    meaning: str
    misses: str
    training: TrainingRecord
    drawn: str
    comparisons: int
    passed: int
    left: Person
    right: Person
    model: str

    def text(self) -> str:
        """The answer, the score, the threshold and its meaning; then what was left out."""
        answer = "same person" if self.same else "different people"
        sign = ">" if self.same else "<="
        digits = _digits_apart(self.score, self.threshold.threshold)
        score = f"score {self.score:.{digits}f} {sign} threshold {self.threshold.threshold:.{digits}f}"
        if self.comparisons > 1:
            score = f"{self.passed} of {self.comparisons} comparisons pass, median {score}"
        lines = [f"{answer}: {score}", self.meaning, self.misses, *([SETS] if self.comparisons > 1 else [])]
        lines += [self.drawn] if self.drawn else []
        return "\n".join([*lines, *notes_on(self.left), *notes_on(self.right)])

    def json(self) -> str:
        """The same as JSON."""
        return json_text(self)


def verify(
    left: Path,
    right: Path,
    model: Model,
    find: FindFaces,
    *,
    far: Far | None = None,
    accept_drawn: bool = False,
    progress: Progress = quietly,
) -> Verification:
    """Decide whether two photographs, or two folders or archives of one person's photographs each, show one person.

    Args:
        left: an image file, or a folder or zip archive of them.
        right: the other.
        model: with its threshold.
        find: finds the face on each photograph.
        far: which of the model's thresholds; needed where it has several.
        accept_drawn: take a model that was trained or calibrated on drawn faces.
        progress: shown over the photographs.

    Raises:
        FileNotFoundError: one of them is not there.
        ValueError: no photograph of one side shows a face; the model has no such threshold; or drawn faces stand behind
            it, which was not accepted.
    """
    asked = None if far is None else str(far)
    threshold, drawn = model.threshold(asked), refuse_drawn(model, far, accept_drawn)
    (one, first), (other, second) = (person_at(path, model, find, progress) for path in (left, right))
    scores = scores_between(first, second).flatten()
    passed = int((scores > threshold.threshold).sum())
    score = lower_median(scores)
    return Verification(
        same=score > threshold.threshold,
        score=score,
        threshold=threshold,
        meaning=model.promise(asked),
        misses=threshold.misses(),
        training=model.training,
        drawn=drawn,
        comparisons=len(scores),
        passed=passed,
        left=one,
        right=other,
        model=str(model.folder),
    )


def _digits_apart(score: float, threshold: float) -> int:
    """Digits at which two numbers look different, 4 where that is enough."""
    return next((digits for digits in (4, 6, 9, 12) if f"{score:.{digits}f}" != f"{threshold:.{digits}f}"), 17)
