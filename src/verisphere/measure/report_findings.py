"""What a report is made of: the figures of each set, the calibrated thresholds on it, and the runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import PurePath
from typing import Any, TypeAlias

from verisphere.base.vocabulary import Embeddings, OperatingPoint, Progress, Redrawing
from verisphere.base.words import counted
from verisphere.decide import Curve, Far, Interval, OneThreshold
from verisphere.decide.curve import Histogram
from verisphere.decide.guarantee import GuaranteedThreshold
from verisphere.decide.identification import Cmc
from verisphere.decide.point import far_text
from verisphere.files.gallery_calibration import GalleryCalibration
from verisphere.report.tables import target_text

#: Represents all pairs of a set among the names of its domains, which are never empty.
ALL = ""


@dataclass(frozen=True)
class FigureOptions:
    """The options of the figures of every set; see `make_report`."""

    targets: tuple[Far, ...]
    one_far: Far
    redrawing: Redrawing
    degrees: bool
    progress: Progress

    @property
    def far(self) -> str:
        """The target FAR of the one threshold as text."""
        return far_text(self.one_far)


@dataclass(frozen=True)
class File:
    """A source of figures; `sha256` is None where the source is not a file."""

    name: str
    sha256: str | None


#: The rows of two images, and their score.
Sample: TypeAlias = tuple[int, int, float]


@dataclass(frozen=True)
class Samples:
    """Sample pairs of a set.

    Genuine pairs by rising score, impostor pairs by falling score. `uris` has the images as data URIs, by name;
    `missing` is the reason why there are none, and empty if there are.
    """

    genuine: tuple[Sample, ...]
    impostor: tuple[Sample, ...]
    uris: Mapping[str, str]
    missing: str = ""


@dataclass(frozen=True, eq=False)
class Findings:
    """The results over all pairs of one set.

    Attributes:
        model: the origin of the embeddings in words.
        headline: the operating point at the FAR of the one threshold.
        interval: interval of the TAR of the headline over redrawn people; None below resolution.
        band: intervals of the TAR at the FAR of the one threshold and at lower ones, over redrawn people, by the FAR.
        cmc: shares of probes found within k people: one image of each person is enrolled, the others are probes.
        first: what is said of these reasons and of the training before the figures, a line each.
        doubt: why the images that were embedded for the report do not look like aligned faces; empty where they do.
    """

    title: str
    file: File
    embeddings: Embeddings
    people: int
    model: str
    points: tuple[OperatingPoint, ...]
    headline: OperatingPoint
    interval: Interval | None
    one: OneThreshold | None
    curve: Curve
    histogram: Histogram
    by_domain: Mapping[str, Histogram]
    samples: Samples
    band: Mapping[Fraction, Interval]
    cmc: Cmc
    implausible: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    doubt: str = ""

    @property
    def images(self) -> str:
        """The name of the set of images; empty where the embeddings do not say it."""
        return PurePath(self.embeddings.origin.images).name if self.embeddings.origin is not None else ""

    def image(self, row: int) -> tuple[str, str, str | None]:
        """Name, identity and domain of an image."""
        of = self.embeddings
        domain = None if of.domains is None else str(of.domains[row])
        return str(of.names[row]), str(of.identities[row]), domain

    @property
    def several_domains(self) -> bool:
        """Whether domains can be compared: at least two have pairs of both kinds."""
        return self.one is not None and len(self.one.domains) > 1


@dataclass(frozen=True)
class Comparison:
    """Difference of the TAR of two models on the same images, at one target FAR.

    Attributes:
        p_holm: the p-value, corrected for the number of all comparisons of the report.
    """

    ours: str
    theirs: str
    far_target: str
    interval: Interval
    p_value: float
    p_holm: float

    @property
    def verdict(self) -> str:
        """Whether the difference may be chance, all comparisons of the report considered."""
        if not self.interval.value:
            return "no difference"
        return "beyond chance" if self.p_holm <= 0.05 else "may be chance"

    @property
    def words(self) -> str:
        """Which set recognises more, and how much more."""
        value, low, high = (100 * end for end in (self.interval.value, self.interval.lower_95, self.interval.upper_95))
        at, more, fewer = f"At FAR {target_text(self.far_target)}", self.ours, self.theirs
        if not value:
            return f"{at} {more} and {fewer} recognise equally many"
        if value < 0:
            more, fewer, low, high = fewer, more, -high, -low
        size = f"{abs(value):.2f} points of TAR (95 % over people: {low:+.2f} to {high:+.2f})"
        return f"{at} {more} recognises more than {fewer}: {size}"

    def __str__(self) -> str:
        return f"{self.words}; {self.verdict}."


@dataclass(frozen=True)
class Shipped:
    """A calibrated threshold, and its rates on each set of its model.

    Attributes:
        points: for each title of a set, the operating points on `ALL` of its pairs and within each domain; bounds of
            TARs are over redrawn people.
        over_people: for each title, the FAR over redrawn people of the points that are above the target by their
            binomial bounds.
    """

    threshold: GuaranteedThreshold
    points: Mapping[str, Mapping[str, OperatingPoint]]
    over_people: Mapping[str, Mapping[str, Interval]]

    def on(self, title: str) -> OperatingPoint:
        """The operating point on all pairs of a set."""
        return self.points[title][ALL]


@dataclass(frozen=True)
class Calibrated:
    """Calibrated thresholds, and titles of the sets that are their own file.

    Notes are on the map of scores to probabilities, on sets on which the thresholds were not checked, with the reason,
    and on sets whose model is not recorded.
    """

    file: File
    shipped: tuple[Shipped, ...]
    own: frozenset[str]
    notes: tuple[str, ...]

    def first(self, title: str) -> Shipped | None:
        """The first threshold, which is shown before any other, if it was tried on this set."""
        return self.shipped[0] if title in self.shipped[0].points else None


@dataclass(frozen=True)
class ShippedGallery:
    """The thresholds of a gallery, their file of strangers, and notes on sets that are not known to be of its model."""

    file: File
    calibration: GalleryCalibration
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Training:
    """A run.

    Attributes:
        people: number of people in training; None if the run does not record it.
        measured: whether embeddings of the run are on the page.
        trained: the images of the training in words; empty where the run has no checkpoint.
    """

    title: str
    folder: str
    entries: Sequence[Mapping[str, float | int | None]]
    recipe: str
    people: int | None
    files: tuple[File, ...]
    measured: bool
    trained: str = ""


@dataclass(frozen=True, eq=False)
class Contents:
    """Everything on a page; there is no control without sets, which is as `control` makes it."""

    title: str
    asked: FigureOptions
    findings: tuple[Findings, ...]
    comparisons: tuple[Comparison, ...]
    calibrated: Calibrated | None
    gallery: ShippedGallery | None
    trainings: tuple[Training, ...]
    control: Mapping[str, Any] | None = None

    def deciding(self, findings: Findings) -> OperatingPoint:
        """The operating point of a set that decides: at the first shipped threshold, where it was tried on the set."""
        shipped = None if self.calibrated is None else self.calibrated.first(findings.title)
        return findings.headline if shipped is None else shipped.on(findings.title)

    @property
    def compared(self) -> str:
        """How sets were compared, and that some were not; empty for one set."""
        count, sets = len(self.comparisons), len(self.findings)
        told = []
        if count:
            redrawn, made = self.comparisons[0].interval.replicates, counted(count, "comparison")
            told.append(
                f"Every two sets of the same images are compared, each at its own threshold: {made}. "
                f"People are redrawn {redrawn:,} times, alike for both, so what they have in common cancels. Beyond "
                "chance are differences that Holm's method finds at 5 % over all of these comparisons together, so one "
                "whose own interval leaves out zero may be chance."
            )
        if len({(one.ours, one.theirs) for one in self.comparisons}) < sets * (sets - 1) // 2:
            few = f"too few pairs of strangers for FAR {target_text(self.asked.far)}"
            told.append(f"Sets of different images or people, or of {few}, are not compared.")
        return " ".join(told)
