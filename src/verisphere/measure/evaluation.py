"""The results of one evaluation: as tables, as JSON, as a curve and as its picture."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, pvariance, variance
from typing import Any

from verisphere.base.vocabulary import OperatingPoint, printable
from verisphere.decide import Accuracy, Curve, GroupDifferences, Interval, OneThreshold, PointIntervals
from verisphere.files.disk import write_text
from verisphere.files.results import EvaluatedFile, Result, curve_csv, first_lines, people_csv
from verisphere.measure.protocols.people import PeopleOfSet
from verisphere.report.plots import save_plot
from verisphere.report.score_plots import curve_plot
from verisphere.report.tables import (
    accuracy_line,
    group_differences_table,
    interval_text,
    intervals_table,
    noise_line,
    number,
    one_threshold_table,
    operating_points_table,
    people_table,
    table,
)

THIRD_DECIMAL = 0.001
PEOPLE_UNKNOWN = (
    "The bounds take comparisons as independent. A scores file does not say who was compared; where comparisons share "
    "people the bounds are too narrow, and only an evaluation of embeddings can redraw people."
)


@dataclass(frozen=True)
class Difference:
    """The difference of a figure between two models on the same images, with its 95 % interval over redrawn people.

    Attributes:
        figure: `tar` at a target FAR, or `accuracy`.
        inside_noise: whether the interval contains zero: the difference may be chance.
        only_ours: number of comparisons that only our model decides correctly; for TAR, of genuine comparisons.
    """

    figure: str
    far_target: str | None
    rule: str | None
    against: str
    value: float
    lower_95: float
    upper_95: float
    replicates: int
    inside_noise: bool
    only_ours: int
    only_theirs: int
    compared: int

    @property
    def title(self) -> str:
        """The figure in words."""
        return self.figure + (f" at FAR {self.far_target}" if self.far_target else "")

    @property
    def interval(self) -> Interval:
        """The figure with its interval."""
        return Interval(self.value, self.lower_95, self.upper_95, self.replicates)


@dataclass(frozen=True)
class AccuracyOverDomains:
    """Mean and spread of the accuracies of several lists or groups, each decided at the thresholds of its own folds.

    The standard deviation is divided by the number of accuracies, as in OneFace's tables 2 and 3, or by one less, which
    agrees with the rows that OneFace's table 5 quotes from other papers; None for one domain.
    """

    mean: float
    std_population: float
    std_sample: float | None
    domains: int


def accuracy_over_domains(accuracies: Sequence[Accuracy]) -> AccuracyOverDomains:
    """The mean of accuracies and both standard deviations."""
    means = [accuracy.mean for accuracy in accuracies]
    return AccuracyOverDomains(
        fmean(means), math.sqrt(pvariance(means)), math.sqrt(variance(means)) if len(means) > 1 else None, len(means)
    )


@dataclass(frozen=True)
class Evaluation(Result):
    """The results of one call of `verisphere evaluate`.

    Attributes:
        accuracy: the accuracy of listed pairs; of several lists, that of all pairs in one list.
        domain_accuracy: the accuracy of each list, or of each group that a list states, over its own folds.
        curve: the curve of all thresholds, if requested; not part of the JSON.
        people_known: whether the people of each comparison are known; not part of the JSON.
        by_person: each person's own error rates, if requested; the JSON has their spread and the worst decile.
    """

    operating_points: tuple[OperatingPoint, ...]
    sources: tuple[EvaluatedFile, ...]
    accuracy: Accuracy | None = None
    one_threshold: tuple[OneThreshold, ...] | None = None
    differences: tuple[Difference, ...] | None = None
    group_differences: tuple[GroupDifferences, ...] | None = None
    intervals: tuple[PointIntervals, ...] | None = None
    accuracy_interval: Interval | None = None
    curve: Curve | None = None
    people_known: bool = True
    by_person: PeopleOfSet | None = None
    notes: tuple[str, ...] = ()
    domain_accuracy: dict[str, Accuracy] | None = None
    accuracy_over_domains: AccuracyOverDomains | None = None
    implausible: tuple[str, ...] = ()
    against: tuple[EvaluatedFile, ...] = ()
    calibration: EvaluatedFile | None = None

    def text(self) -> str:
        """The first lines; the figures as tables, and a sentence for each figure that is inside the noise."""
        notes = first_lines([*self.sources, *self.against, *filter(None, [self.calibration])], self.implausible)
        parts = [notes.rstrip("\n")] if notes else []
        parts.append(operating_points_table(self.operating_points, self.intervals))
        if self.intervals:
            parts.append(intervals_table(self.intervals))
        if self.domain_accuracy is not None and self.accuracy_over_domains is not None:
            parts.append(_accuracies_text(self.domain_accuracy, self.accuracy_over_domains))
        if self.accuracy is not None:
            together = "" if self.domain_accuracy is None else "combined, all pairs in one list: "
            parts.append(together + accuracy_line(self.accuracy))
        parts += [one_threshold_table(result) for result in self.one_threshold or ()]
        if self.group_differences and len(self.group_differences[0].groups) > 1:
            parts.append(group_differences_table(self.group_differences))
        if self.by_person:
            parts.append(people_table(self.by_person.spreads, self.by_person.opis))
        if self.differences:
            parts.append(_differences_text(self.differences))
        parts += ["\n".join(lines) for lines in (list(self._third_decimals()), list(self.notes)) if lines]
        if not self.people_known:
            parts.append(PEOPLE_UNKNOWN)
        return "\n\n".join(parts)

    def _third_decimals(self) -> Iterator[str]:
        """A line for each kind of figure whose third decimal is inside the noise, for few comparisons or people."""
        redrawn = {one.far_target: one.tar for one in self.intervals or ()}
        ends = {
            point.far_target: (interval.lower_95, interval.upper_95)
            if (interval := redrawn.get(point.far_target))
            else (point.tar_lower_95, point.tar_upper_95)
            for point in self.operating_points
            if not point.below_resolution
        }
        wide = [far for far, (lower, upper) in ends.items() if upper - lower > THIRD_DECIMAL]
        if wide:
            whose = "95 % interval over people" if redrawn else "95 % bounds"
            yield f"third decimal inside the noise ({whose} wider than 0.001): TAR at FAR {', '.join(wide)}"
        interval, accuracy = self.accuracy_interval, self.accuracy
        if interval is not None:
            ends_are = f"95 % of redrawn people give {number(interval.lower_95)} to {number(interval.upper_95)}"
            inside = interval.upper_95 - interval.lower_95 > THIRD_DECIMAL
            yield f"accuracy: {ends_are}" + (", so its third decimal is inside the noise" if inside else "")
        elif accuracy is not None and 4 * accuracy.standard_error > THIRD_DECIMAL:  # two of them on each side
            yield f"third decimal inside the noise (standard error {accuracy.standard_error:.5f}): accuracy"

    def fields(self) -> dict[str, Any]:
        """The figures of the JSON; those that were not requested have no key."""
        present = {name: value for name, value in vars(self).items() if value not in (None, ())}
        for name in ("curve", "people_known", "group_differences", "by_person"):
            present.pop(name, None)
        if self.by_person is not None:
            present["by_person"] = {"thresholds": self.by_person.spreads, "opis": self.by_person.opis}
        if self.one_threshold:
            groups = self.group_differences or (None,) * len(self.one_threshold)
            present["one_threshold"] = [
                result.fields() | ({} if differences is None else {"group_differences": _without_gaps(differences)})
                for result, differences in zip(self.one_threshold, groups, strict=True)
            ]
        return present

    def write_curve(self, path: Path) -> None:
        """Write the curve as CSV; see `curve_csv`."""
        assert self.curve is not None, "the evaluation was not asked for a curve"
        write_text(path, curve_csv(self.curve, self.operating_points))

    def write_by_person(self, path: Path) -> None:
        """Write each person's comparisons and error rates at each threshold, as CSV."""
        assert self.by_person is not None, "the evaluation was not asked for each person's rates"
        write_text(path, people_csv(self.by_person.spreads, self.by_person.counts))

    def write_plot(self, path: Path) -> None:
        """Draw the curve, ROC above and DET below, with the operating points."""
        assert self.curve is not None, "the evaluation was not asked for a curve"
        title = ", ".join(source.file for source in self.sources)
        save_plot(curve_plot(self.curve, self.operating_points, title), path)


def _differences_text(differences: tuple[Difference, ...]) -> str:
    rows = [
        [
            difference.against,
            difference.title,
            interval_text(difference.interval),
            f"{difference.only_ours:,} : {difference.only_theirs:,} of {difference.compared:,}",
            "inside" if difference.inside_noise else "beyond",
        ]
        for difference in differences
    ]
    header = ["against", "figure", "difference, 95 % over people", "right by one alone", "the noise"]
    lines = [table(header, rows)]
    rules = dict.fromkeys(difference.rule for difference in differences if difference.rule is not None)
    lines += [f"rule: {rule}, each model at a threshold of its own" for rule in rules]
    lines += [
        noise_line(difference.interval, printable(f"{difference.title} against {difference.against}"))
        for difference in differences
        if difference.inside_noise
    ]
    return "\n".join(lines)


def _accuracies_text(accuracies: dict[str, Accuracy], over_domains: AccuracyOverDomains) -> str:
    rows = [
        [
            name,
            f"{accuracy.mean:.5f}",
            f"{accuracy.std:.5f}",
            f"{accuracy.standard_error:.5f}",
            f"{accuracy.folds}",
            f"{accuracy.pairs:,}",
        ]
        for name, accuracy in accuracies.items()
    ]
    sample = "" if over_domains.std_sample is None else f", {over_domains.std_sample:.5f} (sample)"
    return (
        table(["domain", "accuracy", "standard deviation", "standard error", "folds", "pairs"], rows)
        + f"\nmean over {over_domains.domains} domains {over_domains.mean:.5f}, standard deviation "
        f"{over_domains.std_population:.5f} (population){sample}"
    )


def _without_gaps(differences: GroupDifferences) -> dict[str, Any]:
    """The JSON form of group differences: a figure without a value or a bound lacks that key, and states the reason."""
    fields = asdict(differences)
    for name in differences.measures:
        fields[name] = {key: value for key, value in fields[name].items() if value is not None}
    for name, ratios in fields["differentials"].items():
        fields["differentials"][name] = {key: value for key, value in ratios.items() if value is not None}
    return fields
