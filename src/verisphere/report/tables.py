"""Results as plain tables for a terminal, a log or a README."""

import math
from collections.abc import Sequence

from verisphere.decide import Accuracy, Interval, OneThreshold
from verisphere.vocabulary import OperatingPoint


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with aligned columns: the first to the left, the others to the right."""
    lines = [list(header), *(list(row) for row in rows)]
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


def number(value: float, digits: int = 4) -> str:
    """A rate or a score as it is read in a table."""
    return f"{value:.{digits}f}" if math.isfinite(value) else str(value)


def small(value: float) -> str:
    """A rate that may be tiny."""
    return "0" if value == 0 else f"{value:.3g}"


def operating_points_table(points: Sequence[OperatingPoint]) -> str:
    """TAR at each target FAR with its counts and 95 % bounds; no TAR where the impostors are too few for the target."""
    rows = [
        [
            point.far_target + ("*" if point.below_resolution else ""),
            number(point.threshold, 6),
            "-" if point.below_resolution else number(point.tar),
            "-" if point.below_resolution else f"{number(point.tar_lower_95)} .. {number(point.tar_upper_95)}",
            f"{point.genuine_accepted:,} / {point.genuine_total:,}",
            small(point.far),
            f"{small(point.far_lower_95)} .. {small(point.far_upper_95)}",
            f"{point.impostor_accepted:,} / {point.impostor_total:,}",
        ]
        for point in points
    ]
    text = table(
        ["FAR target", "threshold", "TAR", "95 % bounds", "genuine", "FAR", "95 % bounds", "impostors"],
        rows,
    )
    if any(point.below_resolution for point in points):
        text += f"\n* below resolution: {points[0].impostor_total:,} impostors cannot show a FAR this low"
    if points and points[0].rule != "at_most":
        text += f"\nrule: {points[0].rule} (a realised FAR may lie above its target)"
    return text


def one_threshold_table(result: OneThreshold) -> str:
    """Every domain at the common threshold, and what it would have at its own."""
    rows = [
        [
            name,
            number(domain.tar),
            small(domain.far) if domain.impostor_accepted else f"0 (< {small(1 / domain.impostor_total)})",
            f"{small(domain.far_lower_95)} .. {small(domain.far_upper_95)}",
            number(domain.threshold),
            "-" if domain.below_resolution else number(domain.tar_own),
            f"{domain.genuine_total:,}",
            f"{domain.impostor_total:,}",
        ]
        for name, domain in result.domains.items()
    ]
    head = (
        f"one threshold {number(result.calibration_threshold, 6)} at FAR {result.far_target} "
        f"(impostors: {result.union})"
    )
    text = table(["domain", "TAR", "FAR", "95 % bounds", "own threshold", "TAR at own", "genuine", "impostors"], rows)
    foot = (
        f"TAR mean {number(result.tar_mean)}, standard deviation {number(math.sqrt(result.tar_variance))}; "
        f"-log10 FAR mean {number(result.neg_log10_far_mean, 3)}, "
        f"standard deviation {number(math.sqrt(result.neg_log10_far_variance), 3)}; gamma {number(result.gamma)}"
    )
    unresolved = [name for name, domain in result.domains.items() if domain.below_resolution]
    if unresolved:
        foot += f"\ntoo few impostors to show this FAR at a threshold of their own: {', '.join(unresolved)}"
    if result.far_is_bound:
        foot += f"\nFAR 0 entered as 1 / impostors in: {', '.join(result.far_is_bound)}"
    if result.skipped:
        foot += f"\nskipped for want of genuine or impostor comparisons: {', '.join(result.skipped)}"
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
