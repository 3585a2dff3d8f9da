"""What a report is made of: the figures of each set, the calibrated thresholds on it, and the runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import PurePath

import numpy as np
from jaxtyping import Float64, Int64

from verisphere.base.vocabulary import Embeddings, OperatingPoint, Progress, Redrawing
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


@dataclass(frozen=True)
class SampleImage:
    """One image of a sample pair; the domain is None if the set has none."""

    name: str
    identity: str
    domain: str | None


@dataclass(frozen=True)
class SamplePair:
    """Two images, their score, and whether it is above the threshold."""

    left: SampleImage
    right: SampleImage
    score: float
    accepted: bool


@dataclass(frozen=True)
class Samples:
    """Sample pairs of a set, and the threshold that they are decided at.

    Genuine pairs come by rising score, impostor pairs by falling score. `uris` has the images as data URIs, by name;
    `missing` is the reason why there are none, and empty if there are.
    """

    genuine: tuple[SamplePair, ...]
    impostor: tuple[SamplePair, ...]
    uris: Mapping[str, str]
    missing: str = ""
    threshold: float = 0.0

    def decided_at(self, threshold: float) -> "Samples":
        """The same pairs, decided at this threshold."""
        same, other = (
            tuple(replace(pair, accepted=pair.score > threshold) for pair in pairs)
            for pairs in (self.genuine, self.impostor)
        )
        return replace(self, genuine=same, impostor=other, threshold=threshold)


@dataclass(frozen=True, eq=False)
class Findings:
    """The results over all pairs of one set.

    Attributes:
        title: title of the set and the model; unique on a page.
        model: the origin of the embeddings in words.
        headline: the operating point at the FAR of the one threshold.
        interval: interval of the TAR of the headline over redrawn people; None below resolution.
        band: intervals of the TAR at the FAR of the one threshold and at lower ones, over redrawn people, by the FAR.
        cmc: shares of probes found within k people: one image of each person is enrolled, the others are probes.
        curve: thinned ROC curve.
        by_domain: histogram of the pairs within each domain.
        samples: pairs at the error boundary.
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
        title: title, unique among the runs of a page.
        recipe: the resolved recipe as YAML.
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
class Stops:
    """The thresholds of the control of one set, which fall while its FAR rises.

    Attributes:
        covered: whether the promised thresholds are of the model of this set.
        counts: numbers of accepted and of all impostor pairs, of accepted and of all genuine pairs at each stop; over
            all pairs under the name `ALL`, and within each domain.
        fpir: for each size of a gallery, the mean share of strangers found at each stop.
    """

    title: str
    covered: bool
    thresholds: tuple[float, ...]
    counts: Mapping[str, Int64[np.ndarray, "stops 4"]]
    fpir: Mapping[int, Float64[np.ndarray, " stops"]]


@dataclass(frozen=True)
class Control:
    """The stops of all sets, at equal FAR over all pairs; at a promised threshold a set that it is for has it itself.

    Attributes:
        sets: the stops of each set, the leading one first.
        names: a name for each stop: the target FAR that it is the threshold of, else empty.
        promises: the promised FAR of each stop; empty between promised thresholds.
        words: what is promised at each of these FARs.
        start: the stop that the page begins with.
        promised: promised FARs with their thresholds, which rise.
    """

    sets: tuple[Stops, ...]
    names: tuple[str, ...]
    promises: tuple[str, ...]
    words: Mapping[str, str]
    start: int
    promised: tuple[tuple[str, float], ...]


@dataclass(frozen=True, eq=False)
class Contents:
    """Everything on a page; there is no control without sets."""

    title: str
    asked: FigureOptions
    findings: tuple[Findings, ...]
    comparisons: tuple[Comparison, ...]
    calibrated: Calibrated | None
    gallery: ShippedGallery | None
    trainings: tuple[Training, ...]
    control: Control | None = None

    @property
    def compared(self) -> str:
        """How sets were compared, and that some were not; empty for one set."""
        count, sets = len(self.comparisons), len(self.findings)
        told = []
        if count:
            told.append(
                f"Every two sets of the same images are compared, each at its own threshold: comparisons: {count}. "
                f"People are redrawn {self.comparisons[0].interval.replicates:,} times, alike for both, so what they "
                "have in common cancels. Beyond chance are differences that Holm's method finds at 5 % over all of "
                "these comparisons together, so one whose own interval leaves out zero may be chance."
            )
        if len({(one.ours, one.theirs) for one in self.comparisons}) < sets * (sets - 1) // 2:
            few = f"too few pairs of strangers for FAR {target_text(self.asked.far)}"
            told.append(f"Sets of different images, or of {few}, are not compared.")
        return " ".join(told)
