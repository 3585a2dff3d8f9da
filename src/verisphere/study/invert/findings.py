"""The findings of an inversion: the content of `inversion.json`, and their text."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from verisphere.base.vocabulary import OperatingPoint
from verisphere.base.words import Names
from verisphere.files.leak_figures import attack_worked
from verisphere.files.results import Result
from verisphere.report.tables import number, table

#: The quantile of the cosines with other people to which an image's cosine with its own person is compared.
QUANTILE = 0.95
_OF = {"inverted": "the model itself", "judge": "the judge"}


@dataclass(frozen=True)
class Cosines:
    """Cosines of images with photographs: their number, their mean, and the value that 5 % of them exceed."""

    count: int
    mean: float
    quantile_95: float

    @classmethod
    def of(cls, values: Float[np.ndarray, " comparisons"]) -> "Cosines | None":
        """A summary of cosines; None if there are none."""
        if not len(values):
            return None
        return cls(len(values), float(values.mean()), float(np.quantile(values, QUANTILE)))


@dataclass(frozen=True)
class Comparison:
    """One comparison that `Likeness.points` counts: accepted if the cosine exceeds the threshold."""

    image: str  # name, also of a stranger's photograph
    given: str  # the photograph that the image stands for
    photograph: str  # another one of the same person
    cosine: float
    real: float | None = None  # cosine of the two photographs; None if they are one, and for strangers


@dataclass(frozen=True)
class Likeness:
    """Generated images against photographs, under one model.

    `points` have at each FAR the share of images accepted against one photograph of their person other than the target,
    of the first image of each person where these are chosen as the most similar; the threshold comes from pairs of
    photographs of two people. Where images stand for the most similar person, `stranger_points` have the share of
    strangers' photographs that are accepted as the person chosen for them in the same way, at the same thresholds; of
    those for whom one person is chosen the first counts.
    `other_points` have that of the counted images against the photographs that the others of these are compared with.
    """

    model: str
    same_photo: Cosines | None  # with the photograph whose embedding was the target; None in a closed set
    same_person: Cosines | None  # with other photographs of the same person
    others: Cosines | None
    real_same_person: Cosines | None  # of two photographs of one person; None if there is no such pair
    real_others: Cosines | None
    points: tuple[OperatingPoint, ...] = ()
    real_points: tuple[OperatingPoint, ...] = ()  # the same share for photographs in place of the images
    comparisons: tuple[Comparison, ...] = ()
    stranger_points: tuple[OperatingPoint, ...] = ()
    stranger_comparisons: tuple[Comparison, ...] = ()
    other_points: tuple[OperatingPoint, ...] = ()

    def worked(self, reached: float, needed: float) -> bool:
        """Whether the attack worked by these points; see `attack_worked`."""
        return attack_worked(reached, needed, self.points, self.stranger_points, self.other_points)

    @property
    def own(self) -> Cosines | None:
        """The cosines with the person's other photographs or, if there are none, with the photograph itself."""
        return self.same_person or self.same_photo

    @property
    def recognised(self) -> bool | None:
        """Whether the mean own cosine exceeds the 95 % quantile of the cosines with others; None if one is missing."""
        if self.own is None or self.others is None:
            return None
        return self.own.mean > self.others.quantile_95


@dataclass(frozen=True)
class Distance:
    """The distance of a set of generated images from real images, and of real images from other real images."""

    name: str  # `kernel` or `frechet`
    space: str  # the model whose unit embeddings are compared
    images: int
    generated: float
    real: float


@dataclass(frozen=True)
class PairAccuracy:
    """Accuracy on the pairs of a list with generated images on one side or both."""

    model: str  # `inverted` or `judge`
    sides: str  # `both generated`, `generated and photograph` or `both photographs`
    pairs: int
    folds: int
    mean: float
    standard_error: float


@dataclass(frozen=True)
class InversionFindings(Result):
    """An inversion.

    `needed` is what an attack that worked has reached, the mean cosine of two photographs of one person under the
    inverted model: of the people of the images or, where the most similar people are chosen, of all who can be.
    """

    model: str
    sha256: str | None
    judge: str | None
    target: str  # `photographs`, `embeddings`, `centers`, or `directions` drawn at random
    images: tuple[str, ...]
    people: tuple[str, ...]
    settings: dict[str, Any]
    likeness: tuple[Likeness, ...]
    distances: tuple[Distance, ...]
    pairs: tuple[PairAccuracy, ...]
    version: str
    reached: float | None = None  # mean cosine of the images with their targets under the inverted model
    needed: float | None = None
    names_rule: Names | None = None

    @property
    def verdict(self) -> str | None:
        """Whether the images are as similar to their targets as two photographs of one person, or surely recognised."""
        if self.reached is None or self.needed is None:
            return None
        cosines = (
            f"the mean cosine of the images with their targets is {number(self.reached, 3)} under the inverted model, "
            f"and that of two photographs of one person {number(self.needed, 3)}"
        )
        if self.reached >= self.needed:
            return f"the attack worked: {cosines}"
        if any(entry.worked(self.reached, self.needed) for entry in self.likeness if entry.model == "judge"):
            return f"the attack worked, since the judge surely takes its images for their people: {cosines}"
        return (
            f"the attack failed, and says nothing on what can be recovered: {cosines}; raise --steps, or change --rate"
        )

    def text(self) -> str:
        """Tables of likeness, distances and pairs."""
        blocks = []
        if self.likeness:
            header = ["cosine under", "own photo", "own person", "others", "others, 95 %", "real, own", "real, others"]
            blocks.append(table(header, [_row(entry) for entry in self.likeness]))
        blocks += [
            f"accepted at FAR {ours.far_target} under {_OF[entry.model]}: {ours.genuine_accepted} of "
            f"{ours.genuine_total} images (95 % {number(ours.tar_lower_95, 3)} .. {number(ours.tar_upper_95, 3)})"
            + "".join(
                f"; {whose} {number(points[place].tar, 3)}"
                for whose, points in (
                    ("as other people", entry.other_points),
                    ("photographs", entry.real_points),
                    ("strangers' photographs, chosen likewise,", entry.stranger_points),
                )
                if points
            )
            for entry in self.likeness
            for place, ours in enumerate(entry.points)
            if not ours.below_resolution
        ]
        blocks += [
            f"{one.name} distance from photographs of others ({_OF[one.space]}, {one.images:,} images): "
            f"{number(one.generated, 4)}; real photographs {number(one.real, 4)}"
            for one in self.distances
        ]
        blocks += [
            f"accuracy on {one.pairs:,} pairs, {one.sides} ({_OF[one.model]}): {number(one.mean, 4)} +- "
            f"{number(one.standard_error, 4)} over {one.folds} folds"
            for one in self.pairs
        ]
        if self.likeness and (judged := self.likeness[-1]).recognised is not None:
            verdict = "exceeds" if judged.recognised else "does not exceed"
            blocks.append(f"mean own cosine under {_OF[judged.model]} {verdict} the 95 % quantile of those to others")
        blocks += [self.verdict] if self.verdict else []
        return "\n".join(blocks) or f"{len(self.images):,} images; without photographs nothing is compared"


def _row(entry: Likeness) -> list[str]:
    cells = [None if found is None else found.mean for found in (entry.same_photo, entry.same_person, entry.others)]
    quantile = None if entry.others is None else entry.others.quantile_95
    real = [None if found is None else found.mean for found in (entry.real_same_person, entry.real_others)]
    return [_OF[entry.model], *("-" if value is None else number(value, 3) for value in (*cells, quantile, *real))]
