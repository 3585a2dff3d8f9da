"""1:1 verification of two photographs, or of two folders of them, at the threshold that a model ships."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from verisphere.base.vocabulary import Progress, quietly
from verisphere.decide import Far, lower_median
from verisphere.decide.probability import StatedProbability
from verisphere.files.results import Result
from verisphere.models.folder import Model
from verisphere.models.model_json import TrainingRecord
from verisphere.ship.catalogue import PairThreshold
from verisphere.ship.face_search import FindFaces
from verisphere.ship.model_file import ModelFile, ScoreOnly, pair_threshold, score_only
from verisphere.ship.notes import (
    PHOTOGRAPHS_NAMED,
    SETS,
    SETS_DIFFERENT,
    notes_on_faces,
    notes_on_model,
    notes_on_skipped,
    promise_in_words,
    refuse_drawn,
    sealed_origin,
    sentence,
    shipped_probability,
)
from verisphere.ship.people import EmbeddedPerson, OtherFace, Person, embedded_person, scores_between


@dataclass(frozen=True)
class OtherPair:
    """A comparison that passes, in which at least one face is not the most central of its photograph.

    None stands for the most central faces of all photographs of a side; the score of several is their lower median.
    """

    left: OtherFace | None
    right: OtherFace | None
    score: float

    def __str__(self) -> str:
        """The match in one sentence."""
        first, *second = map(str, filter(None, (self.left, self.right)))
        said = f"{first} and {second[0]} would match each other" if second else f"{first} would match"
        return sentence(f"{said}: score {self.score:.4f}")


def other_pairs(left: EmbeddedPerson, right: EmbeddedPerson, threshold: float) -> tuple[OtherPair, ...]:
    """The comparisons of other faces that pass, best first.

    Each is compared with all photographs of the other side. Only for two single photographs is it also compared with
    the other faces of the other side.
    """
    passing = [match for match in _compared(left, right) if match.score > threshold]
    return tuple(sorted(passing, key=lambda match: -match.score))


def _compared(left: EmbeddedPerson, right: EmbeddedPerson) -> Iterator[OtherPair]:
    for face, row in zip(left.others, left.other_rows, strict=True):
        yield OtherPair(face, None, lower_median(scores_between(row[None], right.rows).flatten()))
    for face, row in zip(right.others, right.other_rows, strict=True):
        yield OtherPair(None, face, lower_median(scores_between(left.rows, row[None]).flatten()))
    if len(left.rows) == len(right.rows) == 1 and left.others:
        scores = scores_between(left.other_rows, right.other_rows)
        for first, second in np.ndindex(scores.shape):
            yield OtherPair(left.others[first], right.others[second], float(scores[first, second]))


@dataclass(frozen=True)
class Verification(Result):
    """The result of a verification.

    Attributes:
        same: more than half of the comparisons passed (a single comparison: it passed).
        unsure: the score lies between the thresholds of the promised FAR and FRR; `same` is then false.
        score: the score; of several scores the lower median, which is above the threshold iff more than half are.
        promise: what is promised about strangers, and how many pairs of one person fail, as it is said to people.
        meaning: the exact wording of the guarantee, with the images of calibration and training.
        misses: the exact wording of the rate at which photographs of one person are rejected at this threshold.
        notes: what to know before the answer, printed first, in this order.
    """

    same: bool
    unsure: bool
    score: float
    threshold: PairThreshold
    promise: str
    meaning: str
    misses: str
    training: TrainingRecord
    drawn: str
    notes: tuple[str, ...]
    comparisons: int
    passed: int
    other_pairs: tuple[OtherPair, ...]
    left: Person
    right: Person
    model: str
    probability: StatedProbability | None = None

    def __str__(self) -> str:
        return self.text()

    def text(self, *, explain: bool = False) -> str:
        """The notes; the answer with score and threshold; the promise, and on request also its exact wording."""
        answer = "Same person" if self.same else "Unsure" if self.unsure else "Different people"
        digits = _digits_apart(self.score, self.threshold.threshold)
        score = f"score {self.score:.{digits}f}, threshold {self.threshold.threshold:.{digits}f}"
        if self.comparisons > 1:
            score = f"{self.passed} of {self.comparisons} comparisons pass, median {score}"
        lines = [*self.notes, f"{answer}: {score}.", self.promise, *([SETS] if self.comparisons > 1 else [])]
        lines += [SETS_DIFFERENT] if self.comparisons > 1 and self.threshold.frr else []
        lines += [] if self.probability is None else [str(self.probability)]
        lines += [self.meaning, self.misses] if explain else []
        return "\n".join([*lines, *notes_on_skipped(self.left), *notes_on_skipped(self.right)])


def verify(
    left: Path,
    right: Path,
    model: Model,
    find: FindFaces,
    *,
    far: Far | None = None,
    probability: float | None = None,
    accept_drawn: bool = False,
    progress: Progress = quietly,
) -> Verification | ScoreOnly:
    """Decides whether two photographs, or two sets of photographs of one person each, show the same person.

    A side is an image file, or a folder or zip archive of them. The FAR is required where the model has several.
    A `probability` is the prior of one person, for the probability after the comparison of two photographs. By a file
    that is no entry of the catalogue there is a score and no decision.
    """
    asked = None if far is None else str(far)
    if isinstance(model, ModelFile) and model.entry is None and probability is None:
        return score_only(left, right, model, find, asked, progress)
    threshold = pair_threshold(model, asked)
    stated = None if probability is None else shipped_probability(model, probability)
    notes = notes_on_model(model, threshold, accept_drawn, find, *sealed_origin(model))
    first, second = (embedded_person(path, model, find, progress) for path in (left, right))
    scores = scores_between(first.rows, second.rows).flatten()
    if stated is not None and len(scores) > 1:
        raise ValueError(f"a probability is that of two photographs, and these are {len(scores)} comparisons: omit it")
    others = other_pairs(first, second, threshold.threshold)
    faces = (*notes_on_faces(first.person, second.person), *map(str, others[:PHOTOGRAPHS_NAMED]))
    passed = int((scores > threshold.threshold).sum())
    score = lower_median(scores)
    return Verification(
        same=score > threshold.threshold,
        unsure=threshold.unsure(score),
        score=score,
        threshold=threshold,
        promise=promise_in_words(model, threshold),
        meaning=threshold.meaning(model.training),
        misses=threshold.misses(),
        training=model.training,
        drawn=refuse_drawn(model, threshold.calibrated_on, accept_drawn),
        notes=(*notes, *faces),
        comparisons=len(scores),
        passed=passed,
        other_pairs=others,
        left=first.person,
        right=second.person,
        model=str(model.folder),
        probability=None if stated is None else stated(score),
    )


def _digits_apart(score: float, threshold: float) -> int:
    """Number of digits at which two numbers differ in print, at least 4."""
    return next((digits for digits in (4, 6, 9, 12) if f"{score:.{digits}f}" != f"{threshold:.{digits}f}"), 17)
