"""Rows of the benchmark of galleries, and populations of strangers whose FPIR is known exactly.

A pool holds the statistic of everybody who may search one gallery. Strangers are drawn from it with replacement, so
they are independent, and the true FPIR of a threshold is the share of the pool above it.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from verisphere.decide import NO_REVIEW, Guarantee, Review, gallery_threshold, strangers_needed
from verisphere.report.tables import small, table

GUARANTEES: tuple[Guarantee, ...] = ("confident", "expected")
TIMES = (1, 3)  # strangers, over the fewest that a guarantee needs


@dataclass(frozen=True)
class Row:
    """A figure of the benchmark.

    Attributes:
        part: which question it answers.
        population: world, or model and data set.
        case: what is varied.
        people: number of people in the gallery; None for two photographs.
        rate: target FPIR, or FAR for two photographs.
        strangers: number of strangers, or of comparisons that share no person, of each calibration.
        figure: what was measured.
        value: the figure.
        lower, upper: its interval, where there is one; the row's `figure` or the benchmark's module says which.
        runs: number of calibrations, or of splits of people.
    """

    part: str
    population: str
    case: str
    people: int | None
    rate: str
    strangers: int | None
    figure: str
    value: float
    lower: float | None = None
    upper: float | None = None
    runs: int | None = None


class Pool:
    """The statistics of everybody who may search a gallery.

    Args:
        statistics: a number for each.
    """

    def __init__(self, statistics: np.ndarray) -> None:
        self.statistics = np.sort(statistics)

    def rate(self, threshold: float) -> float:
        """The share of them who are found: the true FPIR."""
        return 1 - float(np.searchsorted(self.statistics, threshold, side="right")) / len(self.statistics)

    def draw(self, random: np.random.Generator, count: int) -> np.ndarray:
        """So many strangers, drawn with replacement."""
        return self.statistics[random.integers(len(self.statistics), size=count)]


def number_of(times: int, rate: str, guarantee: Guarantee, review: Review = NO_REVIEW) -> int:
    """So many times the fewest strangers."""
    return times * strangers_needed(rate, guarantee, review)


def coverage(
    part: str,
    population: str,
    people: int,
    pools: Sequence[Pool],
    rates: Iterable[str],
    runs: int,
    random: np.random.Generator,
    case: str = "best",
) -> Iterator[Row]:
    """How often the thresholds of calibrations keep their FPIR, and their mean FPIR over the target.

    Args:
        pools: strangers of galleries of `people` people; the calibrations are divided evenly among them.
        rates: target FPIRs.
        runs: number of calibrations.
    """
    each = max(runs // len(pools), 1)
    for rate in rates:
        for guarantee in GUARANTEES:
            for times in TIMES:
                strangers = number_of(times, rate, guarantee)
                found = np.array(
                    [
                        pool.rate(
                            gallery_threshold(pool.draw(random, strangers), rate, guarantee, people=people).threshold
                        )
                        for pool in pools
                        for _ in range(each)
                    ]
                )
                count, about = len(found), (part, population, f"{case}, {guarantee}", people, rate, strangers)
                yield Row(*about, "held", float((found <= float(rate)).mean()), runs=count)
                over = found / float(rate)
                yield Row(*about, "mean FPIR / f", *mean_with_error(over), count)


def mean_with_error(values: np.ndarray) -> tuple[float, float, float]:
    """The mean, less and plus two of its standard errors."""
    mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
    return mean, mean - 2 * error, mean + 2 * error


def spread_of(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean, and the 10 % and 90 % quantiles."""
    lower, upper = np.quantile(values, (0.1, 0.9))
    return float(np.mean(values)), float(lower), float(upper)


def text(rows: Sequence[Row]) -> str:
    """A table for each part, a line for each population, case, gallery, rate and number of strangers."""
    tables = []
    for part in dict.fromkeys(row.part for row in rows):
        of_part = [row for row in rows if row.part == part]
        figures = list(dict.fromkeys(row.figure for row in of_part))
        lines: dict[tuple[str, ...], dict[str, Row]] = {}
        for row in of_part:
            key = row.population, row.case, _count(row.people), small(float(row.rate)), _count(row.strangers)
            lines.setdefault(key, {})[row.figure] = row
        cells = [[*key, *(_cell(found.get(figure)) for figure in figures)] for key, found in lines.items()]
        tables.append(f"{part}\n\n{table(['population', 'case', 'gallery', 'rate', 'strangers', *figures], cells)}")
    return "\n\n".join(tables)


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    ends = "" if row.lower is None else f" ({row.lower:.3f} to {row.upper:.3f})"
    return f"{row.value:.4g}{ends}" if abs(row.value) < 0.01 else f"{row.value:.3f}{ends}"


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """One row a figure, as CSV, its numbers to six digits."""

    def short(value: object) -> object:
        return f"{value:.6g}" if isinstance(value, float) else value

    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: short(value) for name, value in asdict(row).items()} for row in rows)


def read_rows(path: Path) -> list[Row]:
    """The rows of a file that `write_rows` wrote."""
    types = {"people": int, "strangers": int, "runs": int, "value": float, "lower": float, "upper": float}
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Row(**{name: (types.get(name, str)(cell) if cell else None) for name, cell in line.items()})
            for line in csv.DictReader(file)
        ]
