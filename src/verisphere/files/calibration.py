"""The calibration file: thresholds, their guarantees, the data that they come from, and checks on other files."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from verisphere.decide import Far, GenuineRate, GuaranteedThreshold, exact_rate, promised_rate
from verisphere.files.disk import check_file, write_whole
from verisphere.files.documents import read_json_file
from verisphere.files.json_values import from_json, shown
from verisphere.files.results import json_text
from verisphere.vocabulary import OperatingPoint, Origin

FORMAT = 1
Kind = Literal["embeddings", "scores"]


@dataclass(frozen=True)
class Source:
    """A file that thresholds come from, or on which they were checked.

    Attributes:
        file: name of the file, without the folder.
        sha256: digest of the file, in hexadecimal.
        kind: `embeddings` or `scores`.
        rows: number of embeddings or of comparisons.
        people: number of people; None for scores, which name no people.
    """

    file: str
    sha256: str
    kind: Kind
    rows: int
    people: int | None

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind) or len(self.sha256) != 64 or self.rows < 1:
            raise ValueError(f"{self.kind!r} file {self.file!r} of {self.rows} rows with digest {self.sha256!r}")
        if (self.people is None) != (self.kind == "scores"):
            raise ValueError(f"{self.kind} file {self.file!r} with {self.people} people")


@dataclass(frozen=True)
class Check:
    """The rates of the thresholds over all comparisons of a file.

    Rates are over all pairs: people with many images count more than in a guarantee, which uses one image of each
    person.

    Attributes:
        source: the file.
        points: a point for each threshold, over all comparisons; empty if genuine or impostor comparisons are missing.
        domains: the points of each domain.
        skipped: domains that were skipped because they have no genuine or no impostor comparison.
        lacking: missing kinds, `genuine` or `impostor`, of the whole file.
        shared_people: number of people of the file who have the name of a person of the calibration file; None if one
            of the two files names no people.
    """

    source: Source
    points: tuple[OperatingPoint, ...]
    domains: dict[str, tuple[OperatingPoint, ...]]
    skipped: tuple[str, ...]
    lacking: tuple[str, ...]
    shared_people: int | None

    def at(self, threshold: int) -> tuple[tuple[str, OperatingPoint], ...]:
        """The rates at the threshold of this position: over all comparisons (named `all`), then over each domain."""
        overall = (("all", self.points[threshold]),) if self.points else ()
        return (*overall, *((name, points[threshold]) for name, points in self.domains.items()))

    def above_target(self, threshold: int) -> tuple[tuple[str, OperatingPoint], ...]:
        """The points of `at` at which even the lower 95 % bound of the FAR is above the target."""
        return tuple(
            (name, point) for name, point in self.at(threshold) if point.far_lower_95 > exact_rate(point.far_target)
        )


@dataclass(frozen=True)
class Calibration:
    """Thresholds with their guarantees, the data that they come from, and their rates on checked files.

    Each guarantee holds individually: all thresholds come from the same comparisons, so it is less certain that all
    guarantees hold together than that one holds.

    Attributes:
        source: the file that the thresholds come from.
        origin: the origin of the source's embeddings, if known.
        thresholds: a threshold for each target FAR, in the order of the request.
        checks: the check on the calibration file itself, then those on other files.
    """

    source: Source
    origin: Origin | None
    thresholds: tuple[GuaranteedThreshold, ...]
    checks: tuple[Check, ...]

    def __post_init__(self) -> None:
        distinct_fars([threshold.far_target for threshold in self.thresholds])
        stated = [(threshold.far_target, threshold.threshold) for threshold in self.thresholds]
        for check in self.checks:
            for points in ([] if check.lacking else [check.points]) + list(check.domains.values()):
                if [(point.far_target, point.threshold) for point in points] != stated:
                    raise ValueError(f"the check on {check.source.file!r} is not of the thresholds that are stated")

    @property
    def threshold(self) -> float:
        """The one threshold: accept iff score > threshold.

        Raises:
            ValueError: there are several target FARs, each with its own threshold.
        """
        if len(self.thresholds) > 1:
            targets = ", ".join(found.far_target for found in self.thresholds)
            raise ValueError(f"there is one threshold for each FAR ({targets}): read thresholds[0].threshold and so on")
        return self.thresholds[0].threshold

    def meaning(self) -> str:
        """The guarantee of each threshold and its rate of misses, a line for each sentence."""
        return "\n".join(line for found in self.thresholds for line in (found.meaning(), found.misses()))

    def described(self) -> "Calibration":
        """The same calibration, each threshold completed by the source of its images and by its rate of misses.

        The misses are those on the calibration file or, if it has no genuine comparisons, on the first checked file
        with genuine comparisons.
        """
        measured = [check for check in self.checks if check.points]
        source = None if self.origin is None else self.origin.source
        thresholds = tuple(
            replace(
                found,
                calibrated_on=source if found.calibrated_on is None else found.calibrated_on,
                genuine=GenuineRate.at(measured[0].points[place], measured[0].source.file) if measured else None,
            )
            for place, found in enumerate(self.thresholds)
        )
        return replace(self, thresholds=thresholds)

    def write_json(self, path: str | Path) -> None:
        """Writes the calibration, with the meaning of each threshold, for `read_calibration`."""
        document = {"format": FORMAT, **vars(self)}
        document["thresholds"] = [{**asdict(found), "meaning": found.meaning()} for found in self.thresholds]
        write_whole(path, lambda partial: partial.write_text(json_text(document), encoding="utf-8"))


def distinct_fars(fars: Sequence[Far]) -> None:
    """Refuses target FARs that cannot be calibrated together.

    Raises:
        ValueError: there is no FAR, a FAR cannot be guaranteed, or two are equal, even if spelled differently.
    """
    if not fars:
        raise ValueError("no FAR to calibrate at; name one, such as 1e-3")
    rates = [promised_rate(far) for far in fars]
    for far, rate in zip(fars, rates, strict=True):
        if rates.count(rate) > 1:
            raise ValueError(f"FAR {far} is asked for twice")


def read_calibration(path: Path) -> Calibration:
    """Reads a file of `Calibration.write_json`, with all checks.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not a calibration, or its parts contradict each other.
    """
    check_file(path)
    try:
        document = read_json_file(path)
        if not isinstance(document, dict) or "format" not in document:
            raise ValueError("no object with a format")
        if document["format"] != FORMAT:
            raise ValueError(f"format {shown(document['format'])}, and this version reads format {FORMAT}")
        return from_json(Calibration, document).described()
    except ValueError as error:
        reason = str(error) or type(error).__name__
        raise ValueError(f"{path}: not a calibration as `verisphere calibrate` writes it: {reason}") from None
