"""Plots of cleaning: histograms of angles to sub-centers, as ArcFace's figures 6b and 7 have them.

Deng et al. 2021, arXiv:1801.07698v4.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from jaxtyping import Float32, Float64
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from verisphere.report.cleaning_findings import Category, CleaningFindings
from verisphere.report.plots import INK, in_picture, new_figure, tidy

#: Blue and orange are distinguishable with every kind of colour vision, as are green and purple; line styles differ,
#: too.
CLEAN, NOISY = ("#2274a5", "-"), ("#e4572e", "--")
DOMINANT, OTHERS = ("#3a7d44", "-"), ("#7b2d8b", "--")
_LEAST_AXIS = 120  # degrees; the axis of the paper
_FINE = 10_000  # samples from which a bin is one degree wide; with fewer it is two degrees wide
_KINDS = {None: "all images", False: "clean", True: "noisy"}
_TOWER = 2  # a first bin that is as many times higher than the others is cut off on the linear scale
_MARKS = (0, 15, 30, 45, 60, 75, 90, 105, 120, 135, 150, 165, 180)

SPLIT, IN_DOMINANT, NEAREST, TO_DOMINANT = "sub_classes", "dominant", "non_dominant_nearest", "non_dominant_angle"


def cleaning_figures(findings: CleaningFindings) -> dict[str, Callable[[], Figure]]:
    """What draws the plots of a page, by file name; a plot without samples is skipped."""
    total = sum(len(category.angle) for category in findings.categories)
    dominant = [category for category in findings.categories if category.dominant]
    others = [category for category in findings.categories if not category.dominant]
    if not total:
        return {}
    if findings.sub_centers == 1:
        kinds = {_KINDS[part.noisy]: (_style(part), part.angle) for part in dominant}
        label = "angle to the center of the identity, degrees"
        return {SPLIT: partial(angles_plot, kinds, total, "All samples", label, findings.angle)}
    to_dominant, to_nearest = (f"angle to the {which} sub-center, degrees" for which in ("dominant", "nearest"))
    split = {
        name: (style, np.concatenate([part.angle for part in parts]))
        for name, style, parts in (("dominant", DOMINANT, dominant), ("non-dominant", OTHERS, others))
    }
    inside = {part.name: (_style(part), part.angle) for part in dominant}
    title = "Samples of dominant sub-classes"
    figures: dict[str, Callable[[], Figure]] = {
        SPLIT: partial(angles_plot, split, total, "All samples", to_dominant, findings.angle),
        IN_DOMINANT: partial(angles_plot, inside, total, title, to_nearest, findings.angle),
    }
    if any(len(part.angle) for part in others):
        title = "Samples of non-dominant sub-classes"
        nearest = {part.name: (_style(part), part.nearest) for part in others}
        outside = {part.name: (_style(part), part.angle) for part in others}
        figures[NEAREST] = partial(angles_plot, nearest, total, title, to_nearest, None)
        figures[TO_DOMINANT] = partial(angles_plot, outside, total, title, to_dominant, findings.angle)
    return figures


def angles_plot(
    groups: Mapping[str, tuple[tuple[str, str], Float32[np.ndarray, "_"]]],
    total: int,
    title: str,
    label: str,
    rule: float | None,
) -> Figure:
    """Histograms of the angles of groups of samples, above on a linear scale, below on a logarithmic one.

    Args:
        groups: colour, line style and angles in degrees of each group, by its name; NaN for a sample without an angle,
            which is not drawn. The legend has the share of each group.
        total: number of samples that the shares refer to.
        title: title of the plot.
        label: label of the axis of angles.
        rule: angle of the rule, drawn as a line; None draws none.
    """
    figure = new_figure(4.4)
    even, logarithmic = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    edges = bins([angles for _, angles in groups.values()], total)
    highest, others, at_start = 1, 1, 0
    for name, ((colour, dashes), angles) in groups.items():
        counts = np.histogram(angles[~np.isnan(angles)], edges)[0]
        highest, others = max(highest, int(counts.max())), max(others, int(counts[1:].max()))
        at_start += int(counts[0])
        share = f"{in_picture(name)} ({100 * len(angles) / total:.2f} %)"
        for axes in (even, logarithmic):
            axes.stairs(counts, edges, fill=True, color=colour, alpha=0.35)
            axes.stairs(counts, edges, color=colour, linestyle=dashes, linewidth=1.3, label=share)
    if rule is not None:
        for axes in (even, logarithmic):
            axes.axvline(rule, color=INK, linewidth=1.5, label=f"rule: {rule:g}\N{DEGREE SIGN}")
    for axes in (even, logarithmic):
        axes.set_ylabel("images")
        axes.set_xlim(0, float(edges[-1]))
        tidy(axes)
    even.set_ylim(0, 1.06 * highest)
    if highest > _TOWER * others:
        even.set_ylim(0, 1.3 * others)
        words = f"\N{UPWARDS ARROW} {at_start:,} within {edges[1]:g}\N{DEGREE SIGN}"
        even.text(2.5 * edges[1], 1.27 * others, words, fontsize=8.5, color=INK, va="top")
    even.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    even.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    logarithmic.set_ylim(0.5, 3 * highest)  # set before the scale, which cannot choose limits for empty bins
    logarithmic.set_yscale("log")
    logarithmic.yaxis.set_major_locator(LogLocator(10, numticks=4))
    logarithmic.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    logarithmic.yaxis.set_minor_locator(NullLocator())
    logarithmic.set_xticks([mark for mark in _MARKS if mark <= edges[-1]])
    logarithmic.set_xlabel(label)
    even.set_title(in_picture(title), loc="left", color=INK, fontsize=11)
    handles, labels = even.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=1, frameon=False, fontsize=9)
    return figure


def bins(groups: Sequence[Float32[np.ndarray, "_"]], total: int) -> Float64[np.ndarray, " edges"]:
    """Edges of bins from 0 to 120 degrees, and on to the whole bin that holds the largest angle.

    >>> bins([np.array([30.0, 121.0], np.float32)], total=2)[[0, 1, -1]].tolist()
    [0.0, 2.0, 122.0]
    """
    width = 1 if total >= _FINE else 2
    largest = max((float(np.nanmax(angles, initial=0.0)) for angles in groups), default=0.0)
    last = max(_LEAST_AXIS, width * int(np.ceil(largest / width)))
    return np.arange(0, last + width, width, dtype=np.float64)


def _style(category: Category) -> tuple[str, str]:
    if category.noisy is None:
        return DOMINANT if category.dominant else OTHERS
    return NOISY if category.noisy else CLEAN
