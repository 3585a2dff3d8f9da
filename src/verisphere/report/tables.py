"""Results as plain tables for a terminal, a log or a README."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from verisphere.base.vocabulary import OperatingPoint, printable
from verisphere.base.words import share
from verisphere.decide import (
    Accuracy,
    GroupDifferences,
    Interval,
    Measure,
    OneThreshold,
    Opis,
    PeopleAtThreshold,
    PointIntervals,
    Spread,
)
from verisphere.decide.identification import IdentificationPoint, MeanPoint, MeanRank, RankRate
from verisphere.decide.intervals import COVERAGE
from verisphere.decide.one_threshold import DomainResult
from verisphere.decide.point import Far, exact_rate, short_far

RULES_MEAN = {
    "at_most": "a realised FAR is never above its target",
    "nearest": "a realised FAR may lie above its target",
    "interpolated": "a realised FAR may lie above its target",
}
#: Columns of the table of group differences, by the names of the figures.
GROUP_FIGURES = {
    "far_max_min": "FAR max/min",
    "far_max_geometric_mean": "FAR max/mean",
    "frr_max_min": "FRR max/min",
    "frr_max_geometric_mean": "FRR max/mean",
    "fdr": "FDR",
    "inequity_rate": "IR",
    "garbe": "GARBE",
}

_GROUPS_NAMED = 10  # groups that a line names


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with the first column aligned to the left, the others to the right; a cell is one line."""
    lines = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "| " + " | ".join(padded) + " |"

    rule = "|" + "|".join(
        ":" + "-" * (width + 1) if not column else "-" * (width + 1) + ":" for column, width in enumerate(widths)
    )
    return "\n".join([line(header), rule + "|", *(line(row) for row in lines[1:])])


def listed(names: Iterable[str]) -> str:
    """Names on one line."""
    return ", ".join(map(printable, names))


def number(value: float, digits: int = 4) -> str:
    """A rate or a score for a table; a value of a million or more is in the short form, without useless decimals."""
    if not math.isfinite(value):
        return str(value)
    return f"{value:.{digits}f}" if abs(value) < 1e6 else f"{value:.{digits}g}"


def small(value: float) -> str:
    """A rate of any size, with three digits."""
    return "0" if value == 0 else f"{value:.3g}"


def percent(rate: float) -> str:
    """A rate in percent: 0.9134 is 91.3 %; with more decimals if it would otherwise look like 0 or 100 %."""
    digits = 1 if 0.001 <= rate <= 0.999 or rate in (0.0, 1.0) else 3
    return f"{100 * rate:.{digits}f}\N{NO-BREAK SPACE}%"


def rate_text(rate: float) -> str:
    """A rate of any size with three digits: 0.0123, 4.56e-5.

    >>> rate_text(0.0123), rate_text(4.56e-05), rate_text(0.0), rate_text(1.0)
    ('0.0123', '4.56e-5', '0', '1')
    """
    return f"{rate:.3g}" if rate == 0 or rate >= 0.01 else f"{rate:.2e}".replace("e-0", "e-")


def target_text(far: Far) -> str:
    """A target rate as a page says it, beside its short form.

    >>> target_text("1e-3"), target_text("0.05")
    ('1 in 1,000 (1e-3)', '1 in 20 (5e-2)')
    """
    return f"{share(float(exact_rate(far)))} ({short_far(far)})"


def tar_text(rate: float) -> str:
    """A TAR as a page says it: per cent with two decimals, with four where it would look like 0 or 100 %.

    >>> tar_text(0.9134), tar_text(1.0), tar_text(0.99998)
    ('91.34\\xa0%', '100.00\\xa0%', '99.9980\\xa0%')
    """
    digits = 2 if 0.0001 <= rate <= 0.9999 or rate in (0.0, 1.0) else 4
    return f"{100 * rate:.{digits}f}\N{NO-BREAK SPACE}%"


def tar_bounds(low: float, high: float) -> str:
    """Bounds of a TAR, in the format of `tar_text`.

    >>> tar_bounds(0.9134, 0.95)
    '91.34 to 95.00\\xa0%'
    """
    return f"{tar_text(low)[:-2]} to {tar_text(high)}"


def operating_points_table(points: Sequence[OperatingPoint], intervals: Sequence[PointIntervals] | None = None) -> str:
    """TAR at each target FAR with its counts and 95 % bounds; no TAR if the impostors are too few for the target."""
    redrawn = {interval.far_target: interval for interval in intervals or ()}

    def over_people(point: OperatingPoint) -> list[str]:
        if intervals is None:
            return []
        interval = redrawn.get(point.far_target)
        return ["-" if interval is None else between(interval.tar.lower_95, interval.tar.upper_95)]

    rows = [
        [
            point.far_target + ("*" if point.below_resolution else ""),
            number(point.threshold, 6),
            "-" if point.below_resolution else number(point.tar),
            "-" if point.below_resolution else between(point.tar_lower_95, point.tar_upper_95),
            *over_people(point),
            f"{point.genuine_accepted:,} / {point.genuine_total:,}",
            small(point.far),
            f"{small(point.far_lower_95)} .. {small(point.far_upper_95)}",
            f"{point.impostor_accepted:,} / {point.impostor_total:,}",
        ]
        for point in points
    ]
    extra = [] if intervals is None else ["95 % over people"]
    text = table(
        ["FAR target", "threshold", "TAR", "95 % bounds", *extra, "genuine", "FAR", "95 % bounds", "impostors"],
        rows,
    )
    if any(point.below_resolution for point in points):
        text += f"\n* below resolution: {points[0].impostor_total:,} impostors cannot show a FAR this low"
    if points:
        text += f"\nrule: {points[0].rule} ({RULES_MEAN[points[0].rule]})"
    return text


def between(lower: float, upper: float, digits: int = 4) -> str:
    """Two bounds."""
    return f"{number(lower, digits)} .. {number(upper, digits)}"


def intervals_table(intervals: Sequence[PointIntervals]) -> str:
    """Threshold and its FAR, with their intervals over redrawn people and the measured coverage of such intervals."""
    rows = [
        [
            one.far_target,
            number(one.threshold.value, 6),
            between(one.threshold.lower_95, one.threshold.upper_95, 6),
            small(one.far.value),
            f"{small(one.far.lower_95)} .. {small(one.far.upper_95)}",
        ]
        for one in intervals
    ]
    text = table(["FAR target", "threshold", "95 % over people", "FAR at this threshold", "95 % over people"], rows)
    first = intervals[0]
    return (
        f"{text}\nintervals from {first.tar.replicates:,} redrawings of {first.people:,} people (seed {first.seed}), "
        f"TAR and threshold with the threshold found anew in each, rule: {first.rule}\n{COVERAGE}"
    )


def neg_log10_far_text(domain: DomainResult) -> str:
    """-log10 FAR of a domain; only a bound if no impostor was accepted.

    >>> from verisphere.decide import one_threshold
    >>> domain = one_threshold({"day": ([0.9], [0.1, 0.2, 0.5, 0.3])}, far="0.25").domains["day"]
    >>> neg_log10_far_text(domain)  # a quarter
    '0.602'
    """
    return f"{'' if domain.impostor_accepted else '> '}{number(domain.neg_log10_far, 3)}"


def one_threshold_table(result: OneThreshold) -> str:
    """Every domain at the common threshold, and at its own threshold."""
    rows = [
        [
            name,
            number(domain.tar),
            small(domain.far) if domain.impostor_accepted else f"0 (< {small(1 / domain.impostor_total)})",
            f"{small(domain.far_lower_95)} .. {small(domain.far_upper_95)}",
            neg_log10_far_text(domain),
            number(domain.threshold),
            "-" if domain.below_resolution else number(domain.tar_own),
            f"{domain.genuine_total:,}",
            f"{domain.impostor_total:,}",
        ]
        for name, domain in result.domains.items()
    ]
    head = (
        f"one threshold {number(result.calibration_threshold, 6)} at FAR {result.far_target} "
        f"(impostors: {result.union}), rule: {result.rule}"
    )
    header = [
        "domain",
        "TAR",
        "FAR",
        "95 % bounds",
        "-log10 FAR",
        "own threshold",
        "TAR at own",
        "genuine",
        "impostors",
    ]
    text = table(header, rows)
    foot = (
        f"TAR mean {number(result.tar_mean)}, standard deviation {number(result.tar_std)}; "
        f"-log10 FAR mean {number(result.neg_log10_far_mean, 3)}, "
        f"standard deviation {number(result.neg_log10_far_std, 3)} (both of a population); gamma {number(result.gamma)}"
    )
    unresolved = [name for name, domain in result.domains.items() if domain.below_resolution]
    if unresolved:
        foot += f"\ntoo few impostors to show this FAR at a threshold of their own: {listed(unresolved)}"
    if result.far_is_bound:
        foot += f"\nFAR 0 entered as 1 / impostors in: {listed(result.far_is_bound)}"
    if result.skipped:
        foot += f"\nskipped, without genuine or without impostor comparisons: {listed(result.skipped)}"
    return f"{head}\n{text}\n{foot}"


def accuracy_line(accuracy: Accuracy) -> str:
    """k-fold accuracy in one line."""
    return (
        f"accuracy {accuracy.mean:.5f}, standard deviation {accuracy.std:.5f}, standard error "
        f"{accuracy.standard_error:.5f} ({accuracy.folds} folds, {accuracy.pairs:,} pairs)"
    )


def interval_text(interval: Interval) -> str:
    """A figure with its bootstrap interval."""
    return f"{interval.value:+.4f} ({interval.lower_95:+.4f} .. {interval.upper_95:+.4f})"


def group_differences_table(results: Sequence[GroupDifferences]) -> str:
    """Differences between groups at each common threshold, with definitions and the reasons for undefined figures."""
    rows = [
        [
            one.far_target,
            number(one.threshold),
            *(measure_text(measure, number if name == "fdr" else small) for name, measure in one.measures.items()),
        ]
        for one in results
    ]
    first = results[0]
    away = 1 - first.alpha
    text = f"differences of {len(first.groups)} groups at one threshold, rule: {first.rule}\n"
    text += table(["FAR target", "threshold", *(GROUP_FIGURES[name] for name in first.measures)], rows)
    text += (
        "\nmax/mean: to the geometric mean; "
        f"FDR = 1 - ({first.alpha:g} (max FAR - min FAR) + {away:g} (max FRR - min FRR)); "
        f"IR = (max/min FAR)^{first.alpha:g} (max/min FRR)^{away:g}; "
        f"GARBE = {first.alpha:g} Gini(FAR) + {away:g} Gini(FRR)"
    )
    text += "".join(f"\n{line}" for one in results for line in _differentials(one))
    text += "".join(f"\nbounds: {printable(words)}" for words in dict.fromkeys(one.bounds for one in results))
    reasons: dict[str, list[str]] = {}
    for one in results:
        for ratio in (one.far_max_min, one.frr_max_min):  # every other undefined figure has one of these reasons
            if ratio.undefined is not None and one.far_target not in reasons.setdefault(ratio.undefined, []):
                reasons[ratio.undefined].append(one.far_target)
    return text + "".join(
        f"\nundefined at FAR {', '.join(fars)}: {printable(reason)}" for reason, fars in reasons.items()
    )


def _differentials(differences: GroupDifferences) -> Iterator[str]:
    """A line for each error rate: each group's rate over the geometric mean of all groups', the highest first."""
    for rate, field in (("FAR", "far_ratio"), ("FRR", "frr_ratio")):
        ratios = {name: getattr(one, field) for name, one in differences.differentials.items()}
        if len(ratios) > 1 and None not in ratios.values():
            ordered = sorted(ratios.items(), key=lambda ratio: -ratio[1])
            shown = ", ".join(f"{printable(name)} {small(ratio)}" for name, ratio in ordered[:_GROUPS_NAMED])
            more = f" and {len(ordered) - _GROUPS_NAMED} more" if len(ordered) > _GROUPS_NAMED else ""
            yield f"{rate} / geometric mean at FAR {differences.far_target}: {shown}{more}"


def measure_text(measure: Measure, write: Callable[[float], str] = small) -> str:
    """A figure of difference with its bounds; for an undefined figure, the bound that is defined."""
    lower, upper = ("-" if end is None else write(end) for end in (measure.lower_95, measure.upper_95))
    if measure.value is not None:
        return f"{write(measure.value)} ({lower} .. {upper})"
    ends = [f"{sign} {end}" for sign, end in ((">=", lower), ("<=", upper)) if end != "-"]
    return " ".join(["undefined", *([f"({', '.join(ends)})"] if ends else [])])


def noise_line(interval: Interval, what: str) -> str:
    """A sentence on a difference that may be chance.

    >>> noise_line(Interval(0.0021, -0.0044, 0.0081, 1000), "accuracy against b.npz")
    'accuracy against b.npz: 0.0021 is inside the noise: 95 % of redrawn people give -0.0044 to 0.0081'
    """
    return (
        f"{what}: {number(round(interval.value, 4) + 0.0)} is inside the noise: 95 % of redrawn people give "
        f"{number(interval.lower_95)} to {number(interval.upper_95)}"
    )


_NAMED = 5  # people of the worst decile whose names a table shows


def people_table(thresholds: Sequence[PeopleAtThreshold], inconsistency: Opis | None) -> str:
    """The spread of people's FAR and FRR at each threshold, the people with the worst, and the inconsistency score."""
    rows, worst = [], []
    for at in thresholds:
        for rate, spread in (("FAR", at.far), ("FRR", at.frr)):
            rows.append([at.far_target, number(at.threshold), rate, *_figures(spread)])
            if spread.without_errors < spread.people:
                names = ", ".join(printable(name) for name in spread.worst_decile[:_NAMED])
                more = f" and {hidden:,} more" if (hidden := len(spread.worst_decile) - _NAMED) > 0 else ""
                worst.append(f"worst decile by {rate} at FAR {at.far_target}: {names}{more}")
    header = ["FAR target", "threshold", "rate", "people", "without", "mean", "std", "Gini", "highest"]
    header += ["worst decile", "its share of errors"]
    lines = [f"rates of each person, rule: {thresholds[0].rule}", table(header, rows), *worst]
    if inconsistency is not None:
        lines.append(
            f"OPIS {small(inconsistency.value)} over {inconsistency.thresholds} thresholds from "
            f"{number(inconsistency.lowest)} (FAR {inconsistency.fars[0]}) to {number(inconsistency.highest)} "
            f"(FAR {inconsistency.fars[1]}), {inconsistency.people:,} people with both kinds of comparison"
        )
    return "\n".join(lines)


def _figures(spread: Spread) -> list[str]:
    optional = ["-" if value is None else number(value) for value in (spread.gini, spread.worst_decile_share)]
    rates = [small(rate) for rate in (spread.mean, spread.std, spread.highest, spread.worst_decile_rate)]
    return [f"{spread.people:,}", f"{spread.without_errors:,}", *rates[:2], optional[0], *rates[2:], optional[1]]


def open_set_table(
    points: Mapping[str, Sequence[IdentificationPoint]], means: Sequence[MeanPoint] | None = None
) -> str:
    """TPIR at each target FPIR in each gallery, and the mean; no TPIR if too few non-mated probes show the target."""
    rows = [
        [
            name,
            point.fpir_target + ("*" if point.below_resolution else ""),
            number(point.threshold, 6),
            "-" if point.below_resolution else number(point.tpir),
            "-" if point.below_resolution else f"{number(point.tpir_lower_95)} .. {number(point.tpir_upper_95)}",
            f"{point.mated_identified:,} / {point.mated_total:,}",
            small(point.fpir),
            f"{small(point.fpir_lower_95)} .. {small(point.fpir_upper_95)}",
            f"{point.nonmated_passed:,} / {point.nonmated_total:,}",
        ]
        for name, points_of_gallery in points.items()
        for point in points_of_gallery
    ]
    for mean in means or ():
        star = "*" if mean.below_resolution else ""
        tpir = "-" if mean.below_resolution else number(mean.tpir)
        rows.append([f"mean of {mean.galleries}", mean.fpir_target + star, "", tpir, "", "", small(mean.fpir), "", ""])
    head = ["gallery", "FPIR target", "threshold", "TPIR", "95 % bounds", "mated", "FPIR", "95 % bounds", "non-mated"]
    text = table(head, rows)
    every = [point for points_of_gallery in points.values() for point in points_of_gallery]
    if any(point.below_resolution for point in every):
        text += "\n* below resolution: the non-mated probes are too few to show an FPIR this low"
    if every[0].rank > 1:
        text += f"\nidentified: the mate passes and is among the {every[0].rank} best people (ties lost)"
    if every[0].rule != "at_most":
        text += f"\nrule: {every[0].rule} (a realised FPIR may lie above its target)"
    return text


def ranks_table(rates: Mapping[str, Sequence[RankRate]], means: Sequence[MeanRank] | None = None) -> str:
    """Rank-k rates of each gallery without a threshold, and their mean."""
    rows = [
        [
            name,
            str(rate.rank),
            number(rate.rate),
            f"{number(rate.lower_95)} .. {number(rate.upper_95)}",
            f"{rate.identified:,} / {rate.mated_total:,}",
        ]
        for name, own in rates.items()
        for rate in own
    ]
    rows += [[f"mean of {mean.galleries}", str(mean.rank), number(mean.rate), "", ""] for mean in means or ()]
    return table(["gallery", "rank", "identified", "95 % bounds", "mated"], rows)
