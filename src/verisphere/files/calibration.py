"""A calibration: thresholds, what they promise, where they come from, what they do; to a file and back."""

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
    """A file that thresholds come from, or were checked on.

    Attributes:
        file: its name, without its folder.
        sha256: its digest, in hexadecimal.
        kind: `embeddings` or `scores`.
        rows: embeddings, or comparisons.
        people: how many; None for scores, which name none.
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
    """What the thresholds do on all comparisons of a file.

    Rates are over all pairs: there people with many images weigh more than in a guarantee, which takes one image each.

    Attributes:
        source: the file.
        points: one for each threshold, over all comparisons; none where it lacks genuine or impostor ones.
        domains: the same for each domain.
        skipped: domains left out because they have no genuine or no impostor comparison.
        lacking: which of `genuine` and `impostor` the whole file has none of.
        shared_people: how many of its people bear the name of one calibrated on; None where one of the two names none.
    """

    source: Source
    points: tuple[OperatingPoint, ...]
    domains: dict[str, tuple[OperatingPoint, ...]]
    skipped: tuple[str, ...]
    lacking: tuple[str, ...]
    shared_people: int | None

    def at(self, threshold: int) -> tuple[tuple[str, OperatingPoint], ...]:
        """What a threshold, given by its place, does on all comparisons (called `all`), then on each domain."""
        overall = (("all", self.points[threshold]),) if self.points else ()
        return (*overall, *((name, points[threshold]) for name, points in self.domains.items()))

    def above_target(self, threshold: int) -> tuple[tuple[str, OperatingPoint], ...]:
        """Those of `at` whose FAR lies above the target even by its lower 95 % bound."""
        return tuple(
            (name, point) for name, point in self.at(threshold) if point.far_lower_95 > exact_rate(point.far_target)
        )


@dataclass(frozen=True)
class Calibration:
    """Thresholds, what they promise, where they come from, and what they do.

    Each guarantee holds by itself: all thresholds come from the same comparisons, so that all hold at once is less
    certain than that one does.

    Attributes:
        source: the file they come from.
        origin: the model that made its embeddings, where that is known.
        thresholds: one for each target FAR, in the order asked for.
        checks: the calibration file itself, then the others.
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

    def described(self) -> "Calibration":
        """The same, each threshold with what it was set on and how often it misses, as the file and its checks say.

        The misses are those of the calibration's own file or, where that has no genuine comparisons, of the first check
        file that has some.
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

    def write_json(self, path: Path) -> None:
        """Write everything, with each threshold's meaning, so that `read_calibration` reads it back."""
        document = {"format": FORMAT, **vars(self)}
        document["thresholds"] = [{**asdict(found), "meaning": found.meaning()} for found in self.thresholds]
        write_whole(path, lambda partial: partial.write_text(json_text(document), encoding="utf-8"))


def distinct_fars(fars: Sequence[Far]) -> None:
    """Pass over FARs that can be calibrated at together.

    Raises:
        ValueError: there is none, one is no rate that can be promised, or one is there twice, in whatever spelling.
    """
    if not fars:
        raise ValueError("no FAR to calibrate at; name one, such as 1e-3")
    rates = [promised_rate(far) for far in fars]
    for far, rate in zip(fars, rates, strict=True):
        if rates.count(rate) > 1:
            raise ValueError(f"FAR {far} is asked for twice")


def read_calibration(path: Path) -> Calibration:
    """What `Calibration.write_json` wrote, with everything checked again.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not such a file, or its parts contradict each other.
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
