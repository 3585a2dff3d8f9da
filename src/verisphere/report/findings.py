"""What a report page shows, as plain values; the page only lays them out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from verisphere.decide import Curve, Interval, OneThreshold
from verisphere.decide.guarantee import GuaranteedThreshold
from verisphere.decide.histogram import Histogram
from verisphere.report.samples import Samples
from verisphere.vocabulary import OperatingPoint, Origin

#: Stands for all pairs of a set among the names of its domains, none of which is empty.
ALL = ""


@dataclass(frozen=True)
class File:
    """A file that figures come from.

    Attributes:
        name: as the page shows it.
        sha256: of its bytes, in hexadecimal; None where it is no file.
    """

    name: str
    sha256: str | None


@dataclass(frozen=True, eq=False)
class Findings:
    """What all pairs of one set show.

    Attributes:
        title: of the set and the model; unique on a page.
        file: where the embeddings were.
        images, people: how many.
        size: numbers an embedding.
        origin: what made the embeddings, where that is known.
        model: the same in words.
        points: one for each target FAR.
        headline: the point at the FAR of the one threshold.
        interval: of the headline's TAR over redrawn people; None below resolution.
        one: the domains at the one threshold, where there are domains.
        without_domains: why there is none; empty where there is.
        curve: ROC, thinned.
        histogram: of all pairs.
        by_domain: of the pairs within each domain.
        samples: pairs at the error boundary.
    """

    title: str
    file: File
    images: int
    people: int
    size: int
    origin: Origin | None
    model: str
    points: tuple[OperatingPoint, ...]
    headline: OperatingPoint
    interval: Interval | None
    one: OneThreshold | None
    without_domains: str
    curve: Curve
    histogram: Histogram
    by_domain: Mapping[str, Histogram]
    samples: Samples


@dataclass(frozen=True)
class Comparison:
    """TAR of one model less that of another on the same images, at one target FAR."""

    ours: str
    theirs: str
    far_target: str
    interval: Interval


@dataclass(frozen=True)
class Shipped:
    """A calibrated threshold, and what it does on each set of its model.

    Attributes:
        threshold: with what it promises.
        points: by the title of the set: on `ALL` of its pairs, and within each of its domains.
    """

    threshold: GuaranteedThreshold
    points: Mapping[str, Mapping[str, OperatingPoint]]


@dataclass(frozen=True)
class Calibrated:
    """Calibrated thresholds.

    Attributes:
        file: that they were found on.
        shipped: the thresholds.
        own: titles of the sets that are the very file they were found on.
        notes: on which sets they were not tried, and why; or on whose word they were.
    """

    file: File
    shipped: tuple[Shipped, ...]
    own: frozenset[str]
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Training:
    """A run.

    Attributes:
        title: unique among the runs of a page.
        folder: as it was given.
        entries: lines of its log.
        recipe: its resolved recipe, YAML.
        people: that it was trained on; None where the run does not list them.
        trained: on what, in words; empty where the run has no checkpoint.
        files: that were read.
        measured: embeddings of it are on the page.
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
    """Everything on a page.

    Attributes:
        far: target FAR of the one threshold.
        replicates, seed: of the bootstrap over people.
        version: of verisphere.
    """

    title: str
    far: str
    findings: tuple[Findings, ...]
    comparisons: tuple[Comparison, ...]
    calibrated: Calibrated | None
    trainings: tuple[Training, ...]
    replicates: int
    seed: int
    version: str
