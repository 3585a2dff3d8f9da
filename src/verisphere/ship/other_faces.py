"""Faces beside the most central one of a photograph: they decide nothing, but those that would match are named."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from verisphere.decide import lower_median
from verisphere.ship.notes import sentence
from verisphere.ship.people import EmbeddedPerson, OtherFace, scores_between


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
