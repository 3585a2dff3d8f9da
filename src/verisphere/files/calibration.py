"""The calibration file: thresholds, their guarantees, the data that they come from, and checks on other files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any, Literal, get_args

from verisphere.base.provenance import UNRECORDED, unrecorded
from verisphere.base.trained_on import SharedWithTraining
from verisphere.base.vocabulary import OperatingPoint, Origin, check_word
from verisphere.base.words import NAMES, Names
from verisphere.decide import Far, GenuineRate, GuaranteedThreshold, Interval, exact_rate, promised_rate
from verisphere.decide.both_errors import Unsure
from verisphere.decide.each_domain import DomainThreshold, far_within
from verisphere.decide.probability import ScoreProbability
from verisphere.files.disk import check_file
from verisphere.files.documents import read_json_file
from verisphere.files.json_values import from_json, shown
from verisphere.files.results import Result
from verisphere.files.verdicts import Verdict

FORMAT = 1
Kind = Literal["embeddings", "scores"]
_MADE_OF = {True: "templates of several photographs each", False: "single photographs"}


@dataclass(frozen=True)
class Source:
    """A file that thresholds come from, or on which they were checked."""

    file: str
    sha256: str
    kind: Kind  # `embeddings` or `scores`
    rows: int  # number of embeddings or of comparisons
    people: int | None  # None for scores, which name no people
    in_training: SharedWithTraining | None = None
    names_rule: Names | None = None
    pooled: bool = False  # whether the rows are templates, of several photographs each

    @property
    def made_of(self) -> str:
        """What a row is, in words."""
        return _MADE_OF[self.pooled]

    def check_probes(self, file: object, pooled: bool) -> None:
        """Refuse a threshold from strangers for probes of which only one of both are templates."""
        if self.pooled != pooled:
            raise ValueError(
                f"{file}: its strangers are {self.made_of}, and the probes {_MADE_OF[pooled]}; calibrate again with "
                "strangers like the probes"
            )

    def __post_init__(self) -> None:
        if self.names_rule is not None:
            check_word("names_rule", self.names_rule, NAMES)
        if self.kind not in get_args(Kind) or len(self.sha256) != 64 or self.rows < 1:
            raise ValueError(f"{self.kind!r} file {self.file!r} of {self.rows} rows with digest {self.sha256!r}")
        if (self.people is None) != (self.kind == "scores") or not 0 <= (self.people or 0) <= self.rows:
            raise ValueError(f"{self.kind} file {self.file!r} of {self.rows} rows with {self.people} people")


@dataclass(frozen=True)
class Check:
    """The rates of the thresholds over all comparisons of a file.

    Rates are over all pairs: people with many images count more than in a guarantee, which uses one image of each
    person.

    Attributes:
        points: a point for each threshold, over all comparisons; empty if genuine or impostor comparisons are missing.
        skipped: domains that were skipped because they have no genuine or no impostor comparison.
        lacking: missing kinds, `genuine` or `impostor`, of the whole file.
        shared_people: number of people of the file who have the name of a person of the calibration file; None if one
            of both names no people.
        far_over_people: at each threshold, the FAR over redrawn people of all comparisons (as `""`) and of each domain
            whose FAR is above the target by its binomial bounds; empty if the file names no people.
        unsure: where an FRR is promised too, how all comparisons are answered at each threshold.
        cllr: cost on this file, in bits, of the log-likelihood ratios fitted on another, and the least cost of an
            increasing map of its scores.
        tar_over_people: whether the bounds of its TARs are over people; otherwise they take comparisons as independent.
    """

    source: Source
    points: tuple[OperatingPoint, ...]
    domains: dict[str, tuple[OperatingPoint, ...]]
    skipped: tuple[str, ...]
    lacking: tuple[str, ...]
    shared_people: int | None
    far_over_people: tuple[dict[str, Interval], ...] = ()
    origin: Origin | None = None
    unsure: tuple[Unsure, ...] = ()
    cllr: tuple[float, float] | None = None
    tar_over_people: bool = False

    def weak(self) -> Iterator[str]:
        """Why rates on another file than the calibrated one say little of new people."""
        if self.source.in_training:
            more = "so with new people both errors may be larger than measured there"
            yield f"{self.source.in_training.found()} of {self.source.file}, {more}"
        if unrecorded(self.origin):
            yield f"rates were also measured on {self.source.file}, which was {UNRECORDED}"

    def at(self, threshold: int) -> tuple[tuple[str, OperatingPoint], ...]:
        """The rates at the threshold of this position: over all comparisons (named `all`), then over each domain."""
        overall = (("all", self.points[threshold]),) if self.points else ()
        return (*overall, *((name, points[threshold]) for name, points in self.domains.items()))

    def over_target(
        self, threshold: int, within: Sequence[DomainThreshold] = ()
    ) -> Iterator[tuple[str, OperatingPoint, Interval | None, bool]]:
        """The points of `at` whose FAR is above the target by its binomial bounds, with the FAR over redrawn people.

        Binomial bounds are too narrow where comparisons share people: the interval over people decides, the last value.
        """
        redrawn = self.far_over_people[threshold] if self.far_over_people else {}
        keys = [""] * bool(self.points) + list(self.domains)
        for key, (name, point) in zip(keys, self.at(threshold), strict=True):
            target, interval = exact_rate(far_within(within, key, point.far_target)), redrawn.get(key)
            if point.far_lower_95 > target:
                yield name, point, interval, interval is not None and interval.lower_95 > target


@dataclass(frozen=True)
class Calibration(Result):
    """Thresholds with their guarantees, the data that they come from, and their rates on checked files.

    Each guarantee holds individually: all thresholds come from the same comparisons, so it is less certain that all
    guarantees hold together than that one holds.
    """

    source: Source
    origin: Origin | None
    thresholds: tuple[GuaranteedThreshold, ...]
    checks: tuple[Check, ...]  # on the calibration file itself, then on other files
    implausible: tuple[str, ...] = ()  # why scores cannot be those of a working model with right labels
    verdicts: tuple[Verdict, ...] = ()
    probability: ScoreProbability | None = None

    def __post_init__(self) -> None:
        distinct_fars([threshold.far_target for threshold in self.thresholds])
        stated = [(threshold.far_target, threshold.threshold) for threshold in self.thresholds]
        for check in self.checks:
            if check.unsure and len(check.unsure) != sum(threshold.frr is not None for threshold in self.thresholds):
                raise ValueError(f"the check on {check.source.file!r} says how many are unsure at other thresholds")
            if check.cllr and not (self.probability and 0 <= min(check.cllr) <= max(check.cllr) < inf):
                raise ValueError(f"the check on {check.source.file!r} cannot have the Cllr {check.cllr}")
            for points in ([] if check.lacking else [check.points]) + list(check.domains.values()):
                if [(point.far_target, point.threshold) for point in points] != stated:
                    raise ValueError(f"the check on {check.source.file!r} is not of the thresholds that are stated")

    def __str__(self) -> str:
        """Each threshold with its promise, as it is said to people; `meaning` has the exact wording."""
        return "\n".join(map(str, self.thresholds))

    @property
    def sources(self) -> tuple[Source, ...]:
        """The file that the thresholds come from, and those on which they were checked."""
        return (self.source, *(check.source for check in self.checks))

    @property
    def threshold(self) -> float:
        """The one threshold: accept iff score > threshold."""
        if len(self.thresholds) > 1:
            targets = ", ".join(found.far_target for found in self.thresholds)
            raise ValueError(f"there is one threshold for each FAR ({targets}): read thresholds[0].threshold and so on")
        return self.thresholds[0].threshold

    def meaning(self) -> str:
        """The guarantee of each threshold and its rate of misses, a line for each sentence."""
        return "\n".join(line for found in self.thresholds for line in (found.meaning(), found.misses()))

    def described(self, implausible: str = "") -> "Calibration":
        """The same calibration, each threshold completed by the source of its images, its misses and its warning.

        The misses are those on the calibration file or, if it has no genuine comparisons, on the first checked file
        with such comparisons. Where people of a checked file were in the training, or its pixels are not recorded, each
        threshold says so. `implausible` is given to each threshold that says nothing of it.
        """
        if self.implausible and not implausible:
            implausible = f"scores that it was calibrated or checked on cannot be right: {self.implausible[0]}"
        measured = [check for check in self.checks if check.points]
        source = None if self.origin is None else self.origin.source
        weak = "; ".join(note for check in self.checks if check.source != self.source for note in check.weak())
        thresholds = tuple(
            replace(
                found,
                calibrated_on=source if found.calibrated_on is None else found.calibrated_on,
                genuine=GenuineRate.at(measured[0].points[place], measured[0].source.file) if measured else None,
                in_training=self.source.in_training or None,
                implausible=found.implausible or implausible,
                weak_checks=weak,
            )
            for place, found in enumerate(self.thresholds)
        )
        return replace(self, thresholds=thresholds)

    def fields(self) -> dict[str, Any]:
        """The values of the JSON that `read_calibration` reads, with the meaning of each threshold."""
        document = {"format": FORMAT, **_without_empty(self, "implausible", "verdicts", "probability")}
        document["checks"] = [
            _without_empty(check, "far_over_people", "origin", "unsure", "cllr", "tar_over_people")
            for check in self.checks
        ]
        document["thresholds"] = [
            {**_without_empty(found, "assumption", "domains", "frr", "weak_checks"), "meaning": found.meaning()}
            for found in self.thresholds
        ]
        return document


def _without_empty(part: Calibration | Check | GuaranteedThreshold, *names: str) -> dict[str, Any]:
    """The fields of a part; without these fields, which earlier versions do not have, where they are empty."""
    return {field: value for field, value in vars(part).items() if value or field not in names}


def distinct_fars(fars: Sequence[Far]) -> None:
    """Refuses target FARs that cannot be calibrated together."""
    if not fars:
        raise ValueError("no FAR to calibrate at; name one, such as 1e-3")
    rates = [promised_rate(far) for far in fars]
    for far, rate in zip(fars, rates, strict=True):
        if rates.count(rate) > 1:
            raise ValueError(f"FAR {far} is asked for twice")


def read_calibration(path: Path) -> Calibration:
    """Reads a file of `Calibration.write_json`, with all checks."""
    check_file(path)
    try:
        document = read_json_file(path)
        if not isinstance(document, dict) or "format" not in document:
            raise ValueError("no object with a format")
        if "gallery" in document:
            raise ValueError("it is that of a gallery, which `verisphere identify --calibration` takes")
        if document["format"] != FORMAT:
            raise ValueError(f"format {shown(document['format'])}, and this version reads format {FORMAT}")
        return from_json(Calibration, document).described()
    except ValueError as error:
        reason = str(error) or type(error).__name__
        raise ValueError(f"{path}: not a calibration as `verisphere calibrate` writes it: {reason}") from None
