"""The loss of a model in a smaller precision: TAR at each FAR in both, on the same images, and the drop."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, comb, isqrt
from pathlib import Path

import numpy as np

from verisphere.base.trained_on import SharedWithTraining
from verisphere.base.vocabulary import REDRAWING, Embeddings, ImageSource, OperatingPoint, Progress, Redrawing, quietly
from verisphere.base.words import Names, SmallerPrecision
from verisphere.decide import Far, Interval, enough, exact_rate, ordered
from verisphere.decide.point import point_at
from verisphere.files.documents import read_result
from verisphere.files.embeddings import known_people
from verisphere.measure.protocols.all_pairs import PairsOfSet, all_pairs
from verisphere.measure.protocols.redrawn import MOST_SCORES, tar_differences
from verisphere.report.tables import interval_text, noise_line, number, small, table

FORMAT = 1
#: The rule of the point at float32's threshold, which the smaller model did not choose.
_GIVEN = "of float32"


@dataclass(frozen=True)
class DropAtFar:
    """Both models at a target FAR, over all pairs of the same images.

    Attributes:
        drop: TAR in float32 minus TAR of the smaller model, with its 95 % interval over redrawn people, the same for
            both; None if the impostors are too few for the FAR, or too many to be held.
    """

    float32: OperatingPoint
    smaller: OperatingPoint
    at_float32_threshold: OperatingPoint
    drop: Interval | None


@dataclass(frozen=True)
class RangeImages:
    """The images from which the ranges of 8-bit values come; the people on them are not measured."""

    images: int
    people: int
    seed: int


@dataclass(frozen=True)
class PrecisionDrop:
    """The loss of a model in a smaller precision, measured on a named set.

    Attributes:
        ranges: images of the same set that set the ranges of int8, which are not measured; None for fp16.
    """

    precision: SmallerPrecision
    measured_on: ImageSource
    images: int
    people: int
    ranges: RangeImages | None
    bytes_float32: int
    bytes_smaller: int
    cosine_mean: float
    cosine_lowest: float
    points: tuple[DropAtFar, ...]
    flip: bool | None = None
    in_training: SharedWithTraining | None = None
    names_rule: Names | None = None  # how names of the measured people that are equal once folded were taken

    def text(self) -> str:
        """The set, the sizes, and a table."""
        return "\n".join([*self.lines(), self.table(), *self.notes()])

    def lines(self) -> list[str]:
        """The set and the sizes, one sentence each."""
        known = self.in_training.described() if self.in_training is not None else ""
        lines = [f"{known}; the drop of TAR is not that of new people" if self.in_training else known] if known else []
        lines += [
            f"{self.precision} against float32, measured on {self.images:,} {self.measured_on.described(self.people)}",
            f"{self.bytes_smaller:,} bytes for {self.bytes_float32:,}; cosine between the two embeddings of an image: "
            f"{number(self.cosine_mean)} on average, {number(self.cosine_lowest)} at the lowest",
        ]
        if self.flip is not None:
            lines.append(f"embeddings of both {'with' if self.flip else 'without'} that of the mirror image added")
        if self.ranges is not None:
            lines.append(
                f"ranges of {self.precision} from {self.ranges.images:,} images of people who are not measured "
                f"({self.ranges.people:,} of that set, drawn by seed {self.ranges.seed})"
            )
        return lines

    def table(self) -> str:
        """TAR of both models at each FAR, the drop, both thresholds, and the smaller model's FAR at float32's."""
        header = ["FAR target", "TAR float32", f"TAR {self.precision}", "drop, 95 % over people", "threshold float32",
                  f"threshold {self.precision}", "FAR at float32's"]  # fmt: skip
        rows = []
        for point in self.points:
            few = point.float32.below_resolution
            rows.append(
                [
                    point.float32.far_target + ("*" if few else ""),
                    "-" if few else number(point.float32.tar),
                    "-" if few else number(point.smaller.tar),
                    "-" if point.drop is None else interval_text(point.drop),
                    number(point.float32.threshold, 6),
                    number(point.smaller.threshold, 6),
                    "-" if few else small(point.at_float32_threshold.far),
                ]
            )
        return table(header, rows)

    def notes(self) -> list[str]:
        """Results that the table cannot show, one sentence each."""
        lines = []
        if any(point.float32.below_resolution for point in self.points):
            total = self.points[0].float32.impostor_total
            lines.append(f"* below resolution: {total:,} impostors cannot show a FAR this low")
        lines += [
            noise_line(point.drop, f"drop of TAR at FAR {point.float32.far_target}")
            for point in self.points
            if point.drop is not None and point.drop.holds_zero
        ]
        return lines

    def summary(self) -> str:
        """The drops in one line, for a card."""
        drops = [f"{point.drop.value:+.4f} at FAR {point.float32.far_target}" for point in self.points if point.drop]
        return ", ".join(drops) or "not shown: the impostors are too few for the FARs asked for"


def check_fars(fars: Sequence[Far]) -> None:
    """Refuse target FARs that cannot be measured together.

    >>> check_fars(["1e-2", "0.01"])
    Traceback (most recent call last):
    ValueError: FAR 1e-2 is asked for twice; give each once
    """
    rates = [exact_rate(far) for far in fars]
    for far, rate in zip(fars, rates, strict=True):
        if rates.count(rate) > 1:
            raise ValueError(f"FAR {far} is asked for twice; give each once")


def check_impostors(identities: Sequence[str], fars: Sequence[Far]) -> None:
    """Refuse images that can show none of the FARs, before they are measured."""
    counts = Counter(identities)
    impostors = comb(len(identities), 2) - sum(comb(count, 2) for count in counts.values())
    far = max(fars, key=exact_rate)
    rate = exact_rate(far)
    if rate * impostors >= 1:
        return
    advice = "give a --far above 0"
    if rate > 0:
        needed = ceil(1 / rate)
        images = Fraction(len(identities), len(counts))  # of a person, on average
        people = isqrt(ceil(2 * needed / images**2)) + 2  # whose pairs are at least this many
        advice = f"it takes {needed:,}, such as of {people:,} measured people with as many images each; or raise --far"
    raise ValueError(
        f"{impostors:,} pairs of different people ({len(counts):,} people are measured) cannot show FAR {far}; {advice}"
    )


def precision_drop(
    float32: Embeddings,
    smaller: Embeddings,
    fars: Sequence[Far],
    redrawing: Redrawing = REDRAWING,
    progress: Progress = quietly,
) -> tuple[DropAtFar, ...]:
    """Both models at each target FAR, by the rule `at_most`, over all pairs of the same images in the same order."""
    sets = [
        PairsOfSet(known_people(replace(embeddings, domains=None), source), progress)  # domains are not used
        for source, embeddings in (("float32", float32), ("smaller", smaller))
    ]
    before, after = (all_pairs(pairs, fars, progress=progress).operating_points for pairs in sets)
    impostor = ordered(sets[1].everything(genuine=False), "impostor")
    genuine = ordered(sets[1].everything(genuine=True), "genuine")
    sets[1].prepare([], [], [point.threshold for point in before])
    held = [
        point.far_target
        for point in before
        if not point.below_resolution and enough(point.far_target, point.impostor_total) <= MOST_SCORES
    ]
    drops: dict[str, Interval] = {}
    if held:
        (differences,) = tar_differences(sets[0], [sets[1]], held, redrawing, progress)
        drops = {far: difference.interval for far, difference in zip(held, differences, strict=True)}
    return tuple(
        DropAtFar(ours, theirs, point_at(genuine, impostor, ours.threshold, far, _GIVEN), drops.get(ours.far_target))
        for far, ours, theirs in zip(fars, before, after, strict=True)
    )


def cosines(float32: Embeddings, smaller: Embeddings) -> tuple[float, float]:
    """Mean and least cosine between the embeddings of an image by both models."""
    rows, others = (one.embeddings.astype(np.float64) for one in (float32, smaller))
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(others, axis=1)
    each = (rows * others).sum(1) / lengths
    return float(each.mean()), float(each.min())


def read_precision_drop(path: Path) -> PrecisionDrop:
    """The figures in a file of `verisphere export --precision`."""
    return read_result(PrecisionDrop, path, "figures that `verisphere export --precision` writes", format=FORMAT)
