"""A calibration: thresholds, what they promise, where they come from, what they do; as text, to a file and back."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from verisphere.data.documents import read_json_file
from verisphere.data.files import check_file, write_whole
from verisphere.data.json_values import from_json, shown
from verisphere.decide import Far, GenuineRate, GuaranteedThreshold, exact_rate, percent, promised_rate
from verisphere.report.results import json_text
from verisphere.report.tables import listed, number, small, table
from verisphere.vocabulary import OperatingPoint, Origin, printable

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

    def text(self) -> str:
        """The thresholds, what each means, and the checks, as tables."""
        model = (
            f"model {self.origin.model[:12]}" if self.origin else "the model is not known: the file does not name it"
        )
        lines = [f"calibrated on {_size(self.source)}; {model}"]
        lines.append(self.thresholds_table())
        lines += [f"FAR {found.far_target}: {found.meaning()}; {found.misses()}" for found in self.thresholds]
        if len(self.thresholds) > 1:
            lines.append(
                "each holds by itself; that all hold at once is less certain, for they share their comparisons"
            )
        return "\n\n".join(["\n".join(lines), *(_check_text(check, self) for check in self.checks)])

    def thresholds_table(self) -> str:
        """The thresholds, with what they come from."""
        rows = [
            [
                found.far_target,
                found.guarantee,
                number(found.threshold, 6),
                f"{found.comparisons:,}",
                "-" if found.people is None else f"{found.people:,}",
                "-" if found.rank is None else f"{found.rank:,}",
                _confidence(found),
            ]
            for found in self.thresholds
        ]
        return table(["FAR", "guarantee", "threshold", "comparisons", "people", "rank", "confidence"], rows)

    def write_json(self, path: Path) -> None:
        """Write everything, with each threshold's meaning, so that `read_calibration` reads it back."""
        document = {"format": FORMAT, **vars(self)}
        document["thresholds"] = [{**asdict(found), "meaning": found.meaning()} for found in self.thresholds]
        write_whole(path, lambda partial: partial.write_text(json_text(document), encoding="utf-8"))


def _confidence(found: GuaranteedThreshold) -> str:
    """The confidence of a promise; of `approximate` its upper limit."""
    if found.confidence is None:
        return "on average"
    return f"{'at most ' if found.guarantee == 'approximate' else ''}{percent(found.confidence)}"


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


def _size(source: Source) -> str:
    """A file and how much is in it."""
    rows = f"{source.rows:,} {'embeddings' if source.kind == 'embeddings' else 'comparisons'}"
    of = f" of {source.people:,} people" if source.people is not None else ""
    return f"{printable(source.file)} ({rows}{of}, SHA-256 {source.sha256[:12]})"


def _check_text(check: Check, calibration: Calibration) -> str:
    """What the thresholds do on one file."""
    title = f"on {_size(check.source)}"
    if check.source == calibration.source:
        title = f"on the calibration file itself, {printable(check.source.file)}, all comparisons"
    elif check.shared_people:
        title += f"; {check.shared_people:,} of its people bear the name of one calibrated on"
    if check.lacking:
        return f"{title}: no rates, for it has no {' and no '.join(check.lacking)} comparison"
    rows = [
        [f"{found.far_target} {name}", *_rates(point)]
        for place, found in enumerate(calibration.thresholds)
        for name, point in check.at(place)
    ]
    head = ["at FAR", "FAR", "95 % bounds", "impostors", "TAR", "95 % bounds", "genuine"]
    lines = [title, table(head, rows)]
    for place, found in enumerate(calibration.thresholds):
        above = [
            f"{printable(name)} {small(point.far)} (at least {small(point.far_lower_95)})"
            for name, point in check.above_target(place)
        ]
        if above:
            lines.append(f"above the target {found.far_target}: {', '.join(above)}")
    if any(point.below_resolution for points in (check.points, *check.domains.values()) for point in points):
        lines.append("* too few impostors to show a FAR this low")
    lines.append("bounds take comparisons as independent; where they share people, they are too narrow")
    if check.source.people is not None:
        lines.append("over all pairs, people with many images weigh more than in a guarantee, which takes one of each")
    if check.skipped:
        lines.append(f"skipped for want of genuine or impostor comparisons: {listed(check.skipped)}")
    return "\n".join(lines)


def _rates(point: OperatingPoint) -> list[str]:
    return [
        small(point.far) + ("*" if point.below_resolution else ""),
        f"{small(point.far_lower_95)} .. {small(point.far_upper_95)}",
        f"{point.impostor_accepted:,} / {point.impostor_total:,}",
        number(point.tar),
        f"{number(point.tar_lower_95)} .. {number(point.tar_upper_95)}",
        f"{point.genuine_accepted:,} / {point.genuine_total:,}",
    ]
