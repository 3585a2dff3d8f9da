"""1:1 verification of two photographs, or of two folders of them, at the threshold that a model ships."""

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
    """The result of a verification.

    Attributes:
        same: more than half of the comparisons passed (a single comparison: it passed).
        score: the score; of several scores the lower median, which is above the threshold iff more than half are.
        threshold: the threshold with its guarantee.
        meaning: the guarantee in words, with the images of calibration and training.
        misses: the rate at which photographs of one person are rejected at this threshold, in words.
        training: the record of the training.
        drawn: a note where the model was trained or calibrated on drawn faces; else empty.
        comparisons: number of photographs of one side times that of the other.
        passed: number of comparisons with a score above the threshold.
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
        """The answer, the score, the threshold and its meaning; then the notes."""
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
        """The result as JSON."""
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
    """Decides whether two photographs, or two sets of photographs of one person each, show the same person.

    Args:
        left: an image file, or a folder or zip archive of them.
        right: the other side, in the same forms.
        model: the model with its thresholds.
        find: finds the face on each photograph.
        far: target FAR of the threshold; required where the model has several.
        accept_drawn: accept a model that was trained or calibrated on drawn faces.
        progress: reports the progress over the photographs.

    Raises:
        FileNotFoundError: `left` or `right` does not exist.
        ValueError: no photograph of one side shows a face; the model has no such threshold; or it was trained or
            calibrated on drawn faces, which was not accepted.
    """
    asked = None if far is None else str(far)
    threshold, drawn = model.threshold(asked), refuse_drawn(model, far, accept_drawn)
    (left_person, left_rows), (right_person, right_rows) = (
        person_at(path, model, find, progress) for path in (left, right)
    )
    scores = scores_between(left_rows, right_rows).flatten()
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
        left=left_person,
        right=right_person,
        model=str(model.folder),
    )


def _digits_apart(score: float, threshold: float) -> int:
    """Number of digits at which two numbers differ in print, at least 4."""
    return next((digits for digits in (4, 6, 9, 12) if f"{score:.{digits}f}" != f"{threshold:.{digits}f}"), 17)
