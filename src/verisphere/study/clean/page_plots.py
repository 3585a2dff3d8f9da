"""Plots of a cleaning: histograms of angles to sub-centers, as ArcFace's figures 6b and 7 have them.

Deng et al. 2021, arXiv:1801.07698v4.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32, Float64
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from verisphere.report.blocks import Plot
from verisphere.report.plots import INK, in_picture, new_figure, tidy
from verisphere.study.clean.cleaning import Cleaning

#: Blue and orange are distinguishable with every kind of colour vision, as are green and purple; line styles differ,
#: too.
CLEAN, NOISY = ("#2274a5", "-"), ("#e4572e", "--")
DOMINANT, OTHERS = ("#3a7d44", "-"), ("#7b2d8b", "--")
_LEAST_AXIS = 120  # degrees; the axis of the paper
_FINE = 10_000  # samples from which a bin is one degree wide; with fewer it is two degrees wide
_STYLES = {
    "dominant": DOMINANT,
    "non_dominant": OTHERS,
    "dominant_clean": CLEAN,
    "dominant_noisy": NOISY,
    "non_dominant_clean": CLEAN,
    "non_dominant_noisy": NOISY,
}
#: Names of the categories where there is one center for each identity.
_OF_ONE_CENTER = {"dominant": "all images", "dominant_clean": "clean", "dominant_noisy": "noisy"}
_TOWER = 2  # a first bin that is as many times higher than the others is cut off on the linear scale
_MARKS = (0, 15, 30, 45, 60, 75, 90, 105, 120, 135, 150, 165, 180)

_Groups: TypeAlias = dict[str, tuple[tuple[str, str], Float32[np.ndarray, "_"]]]
SPLIT, IN_DOMINANT, NEAREST, TO_DOMINANT = "sub_classes", "dominant", "non_dominant_nearest", "non_dominant_angle"


def in_words(category: str) -> str:
    """The name of a category of `Cleaning.categories` in words.

    >>> in_words("non_dominant_noisy")
    'non-dominant and noisy'
    """
    return category.replace("non_dominant", "non-dominant").replace("_", " and ")


def angle_plots(cleaning: Cleaning) -> list[Plot]:
    """The plots of a page; a plot without samples is skipped."""
    sub, rule, categories = cleaning.found.sub, cleaning.rule.angle, cleaning.categories
    total = int(sub.known.sum())
    if not total:
        return []
    counts = ", ".join(f"{in_words(name)} {int(rows.sum()):,}" for name, rows in categories.items())
    line = "" if rule is None else f" The line is the rule: {rule:g}\N{DEGREE SIGN}."

    def plot(name: str, groups: _Groups, title: str, to: str, caption: str, marked: float | None = rule) -> Plot:
        draw = partial(angles_plot, groups, total, title, f"angle to the {to}, degrees", marked)
        return Plot(name, draw, f"Histogram. {caption} Images: {counts}.", caption)

    def styled(kind: str, angles: Float32[np.ndarray, " samples"]) -> _Groups:
        """The angles of the categories of a kind."""
        chosen = {name: rows for name, rows in categories.items() if name.startswith(kind)}
        return {in_words(name): (_STYLES[name], angles[rows]) for name, rows in chosen.items()}

    whole = "All samples"
    if sub.counts.shape[1] == 1:
        groups = {
            name: (_STYLES[kind], sub.angle[categories[kind]])
            for kind, name in _OF_ONE_CENTER.items()
            if kind in categories
        }
        told = f"All images to the center of their identity (ArcFace, figure 7a).{line}"
        return [plot(SPLIT, groups, whole, "center of the identity", told)]
    outside = sub.known & ~sub.in_dominant
    split: _Groups = {
        "dominant": (DOMINANT, sub.angle[sub.in_dominant]),
        "non-dominant": (OTHERS, sub.angle[outside]),
    }
    dominant, nearest = "dominant sub-center", "nearest sub-center"
    plots = [
        plot(
            SPLIT,
            split,
            whole,
            dominant,
            f"All images to the dominant sub-center of their identity (ArcFace, figure 6b).{line}",
        ),
        plot(
            IN_DOMINANT,
            styled("dominant", sub.angle),
            "Samples of dominant sub-classes",
            nearest,
            f"Images of dominant sub-classes to their nearest sub-center (ArcFace, figure 7b).{line}",
        ),
    ]
    if outside.any():
        title = "Samples of non-dominant sub-classes"
        told = "Images of non-dominant sub-classes to their nearest sub-center (ArcFace, figure 7c)."
        plots.append(plot(NEAREST, styled("non_dominant", sub.nearest), title, nearest, told, None))
        told = f"The same images to the dominant sub-center of their identity (ArcFace, figure 7d).{line}"
        plots.append(plot(TO_DOMINANT, styled("non_dominant", sub.angle), title, dominant, told))
    return plots


def angles_plot(
    groups: Mapping[str, tuple[tuple[str, str], Float32[np.ndarray, "_"]]],
    total: int,
    title: str,
    label: str,
    rule: float | None,
) -> Figure:
    """Histograms of the angles of groups of samples, above on a linear scale, below on a logarithmic one.

    A group has a colour, a line style, and angles in degrees; NaN stands for a sample without an angle, which is not
    drawn. The legend has the share of each group in the total. The angle of the rule is a line.
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
