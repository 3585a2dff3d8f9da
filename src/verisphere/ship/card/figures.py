"""The figures of evaluations in a card: read from their files, shown at the thresholds that each found for itself."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from verisphere.base.vocabulary import OperatingPoint, Rule, check_word
from verisphere.decide import OneThreshold, exact_rate
from verisphere.files.documents import read_json_file
from verisphere.files.json_values import from_json
from verisphere.files.results import EvaluatedFile
from verisphere.report.markdown import plain
from verisphere.report.tables import number, operating_points_table, small, table
from verisphere.ship.card.words import DIGITS, Section, Sources


@dataclass(frozen=True)
class ShownAccuracy:
    """The part of a k-fold accuracy that a card shows."""

    mean: float
    std: float
    folds: int
    pairs: int

    def __post_init__(self) -> None:
        if not (0 <= self.mean <= 1 and 0 <= self.std <= 1 and 1 <= self.folds <= self.pairs):
            raise ValueError(f"an accuracy of {self.mean} +- {self.std}, {self.folds} folds and {self.pairs} pairs")


@dataclass(frozen=True)
class Figures:
    """The figures of a file of `verisphere evaluate --json`, and why they cannot be right, if they cannot."""

    operating_points: tuple[OperatingPoint, ...]
    sources: tuple[EvaluatedFile, ...]
    accuracy: ShownAccuracy | None
    one_threshold: tuple[OneThreshold, ...] | None
    implausible: tuple[str, ...] = ()
    calibration: EvaluatedFile | None = None

    def __post_init__(self) -> None:
        for point in self.operating_points:
            _check_target(point)

    @property
    def made_by_models(self) -> tuple[EvaluatedFile, ...]:
        """The files of embeddings and scores, without the lists of what is compared; the file of the one threshold."""
        return tuple(source for source in (*self.sources, self.calibration) if source and not source.is_list)


def _check_target(point: OperatingPoint) -> None:
    """Refuses an operating point that its rule could not have found at its target."""
    rate = exact_rate(point.far_target)
    check_word("rule", point.rule, Rule)
    if point.rule == "at_most" and point.impostor_accepted > rate * point.impostor_total:
        raise ValueError(f"rule at_most at FAR {point.far_target} accepts no {point.far} of impostors")
    if point.below_resolution != (rate * point.impostor_total < 1):
        raise ValueError(f"below_resolution contradicts {point.impostor_total} impostors at FAR {point.far_target}")


def read_figures(path: Path) -> Figures:
    """The figures in a file of `verisphere evaluate --json`."""
    what = "not figures that `verisphere evaluate --json` writes"
    try:
        fields = read_json_file(path)
        if isinstance(fields, dict) and "galleries" in fields:
            what = "figures of an identification, and a card shows those of pairs"
        return from_json(Figures, {"accuracy": None, "one_threshold": None, "sources": []} | fields)
    except (ValueError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path}: {what}: {reason}") from None


def implausible_figures(figures: Mapping[str, Figures]) -> Iterator[str]:
    """For each evaluation whose figures cannot be right, the reasons."""
    for name, figure in figures.items():
        if figure.implausible:
            reasons = plain("; ".join(figure.implausible))
            yield f"**Implausible figures.** Those of {plain(name)} cannot be right, so they say nothing: {reasons}."


def evaluations_section(figures: Mapping[str, Figures], source: Sources) -> Section:
    """TAR at stated FARs, at thresholds of the evaluations themselves."""
    yield "## Operating points"
    if not figures:
        yield "No evaluation was given to the export: TAR at stated FARs is not known here."
        return
    yield (
        "Thresholds in these tables were found on the evaluated comparisons themselves: they are not those that are "
        "shipped."
    )
    for name, figure in figures.items():
        yield f"From {source[name]}, {_evaluated(figure)}:"
        shown = operating_points_table(figure.operating_points)
        yield re.sub(r"\|\n(?!\|)", "|\n\n", shown)  # Markdown would take a line after a table for a row of it
        if figure.accuracy is not None:
            accuracy = figure.accuracy
            yield (
                f"Accuracy {accuracy.mean:.5f}, standard deviation {accuracy.std:.5f} over {accuracy.folds} folds of "
                f"{accuracy.pairs:,} pairs in all."
            )


def _evaluated(figure: Figures) -> str:
    """The evaluated files, and whether they name the model."""
    named = [f"{plain(source.file)} (SHA-256 {plain(source.sha256[:DIGITS])})" for source in figure.sources]
    files = ", ".join(named) or "of unnamed files"
    untold = [plain(source.file) for source in figure.made_by_models if source.origin is None]
    if figure.made_by_models and not untold:
        return f"{files}, whose embeddings the exported weights made, as the export checked"
    which = f"the scores of {', '.join(untold)}" if len(untold) < len(figure.made_by_models) else "the scores"
    return f"{files}; nothing names the model that made {which}: that it was this one is the exporter's word"


def one_threshold_section(result: OneThreshold, source: str) -> Section:
    """The figures of an evaluation at its own threshold."""
    yield (
        f"One threshold {number(result.calibration_threshold, 6)} at FAR {result.far_target}, found by the evaluation "
        f"itself (impostors: {plain(result.union)}); it is not the one shipped. From {source}."
    )
    yield table(
        ["domain", "TAR", "FAR", "FAR, 95 % bounds", "TAR at its own threshold", "genuine", "impostors"],
        [
            [
                plain(name),
                number(domain.tar),
                small(domain.far),
                f"{small(domain.far_lower_95)} .. {small(domain.far_upper_95)}",
                "-" if domain.below_resolution else number(domain.tar_own),
                f"{domain.genuine_total:,}",
                f"{domain.impostor_total:,}",
            ]
            for name, domain in result.domains.items()
        ],
    )
    if result.skipped:
        yield f"Skipped, without genuine or without impostor pairs: {', '.join(map(plain, result.skipped))}."
