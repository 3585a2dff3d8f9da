"""Pictures of losses: curves side by side, decision margins of two classes, and spreads of angles.

Everything drawn comes in as plain arrays; `figures.loss_curves` computes them from the losses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import numpy as np
from jaxtyping import Float, Float64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator
from PIL import Image

from verisphere.files.disk import write_whole
from verisphere.report.plots import INK, LINES, PALE, SERIES, STYLES, in_picture, new_figure, save_plot, tidy

_WIDE = 8.4  # inches, of pictures with panels side by side
_COLOURS = 96  # of a compact picture: lines have few, and their edges need some
#: Blue, red, purple: three that stay apart for every eye, also where they overlap.
_SPREADS = (SERIES[0], SERIES[2], SERIES[4])

Line = tuple[Float64[np.ndarray, "points"], Float64[np.ndarray, "points"]]


@dataclass(frozen=True, eq=False)
class Panel:
    """One set of axes.

    Attributes:
        title: over the axes.
        across: what runs along the horizontal axis.
        up: what runs along the vertical axis.
        lines: (x, y) of each curve by its name; a point that is nan breaks it.
        marks: x of dotted vertical lines, by name.
        shaded: from where to where along x the ground is grey.
        step: distance of marks on the horizontal axis; None leaves the choice to the plot.
    """

    title: str
    across: str
    up: str
    lines: Mapping[str, Line]
    marks: Mapping[str, float] = field(default_factory=dict)
    shaded: tuple[float, float] | None = None
    step: float | None = None


def wide_figure(height: float) -> Figure:
    """An empty figure for panels side by side."""
    figure = new_figure(height)
    figure.set_figwidth(_WIDE)
    return figure


def save_compact(figure: Figure, path: Path) -> Path:
    """Write a figure as PNG with a palette, a third of the size, which a page in a repository asks for."""
    save_plot(figure, path)
    with Image.open(path) as image:
        few = image.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    write_whole(path, lambda partial: few.save(partial, optimize=True))
    return path


def curves_plot(panels: Sequence[Panel], title: str, height: float = 3.6) -> Figure:
    """Panels of curves side by side; where the next panel names the same curves, its legend does for both."""
    figure = wide_figure(height)
    named = [list(panel.lines) for panel in panels]
    for place, (axes, panel) in enumerate(zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True)):
        if panel.shaded is not None:
            axes.axvspan(*panel.shaded, color=LINES, alpha=0.6, linewidth=0)
        for (colour, dashes), (name, (x, y)) in zip(cycle(STYLES), panel.lines.items(), strict=False):
            axes.plot(x, y, color=colour, linestyle=dashes, linewidth=1.8, label=in_picture(name))
        for name, x_of in panel.marks.items():
            axes.axvline(x_of, color=INK, linestyle=":", linewidth=1.2, label=in_picture(name))
        if panel.step is not None:
            axes.xaxis.set_major_locator(MultipleLocator(panel.step))
        _name(axes, panel.title, panel.across, panel.up)
        axes.grid(color=LINES, linewidth=0.7)
        if named[place] not in named[place + 1 :]:
            axes.legend(frameon=False, fontsize=8)
    _head(figure, title)
    return figure


def decision_margins_plot(boundaries: Mapping[str, Line], title: str) -> Figure:
    """For two classes, the angles at which each wins, and the grey margin between, where neither does.

    The classes are alike, so the boundary of the second is that of the first with the angles exchanged.

    Args:
        boundaries: for each loss the boundary of class 1, (theta_1, theta_2) in degrees, theta_1 rising from 0.
        title: of the picture.
    """
    figure = wide_figure(2.75)
    for axes, (name, (first, second)) in zip(
        figure.subplots(1, len(boundaries), squeeze=False, sharey=True)[0], boundaries.items(), strict=True
    ):
        corner = [0.0]
        axes.fill(
            np.concatenate([corner, first, second[::-1]]),
            np.concatenate([corner, second, first[::-1]]),
            color=LINES,
            linewidth=0,
        )
        axes.plot(first, second, color=SERIES[0], linewidth=1.8)
        axes.plot(second, first, color=SERIES[2], linewidth=1.8)
        axes.plot([0, 90], [0, 90], color=INK, linewidth=0.9, linestyle="--")
        # where class 1 wins theta_1 is small: above the diagonal
        axes.text(22, 76, "class 1", color=SERIES[0], fontsize=9, ha="center", va="center")
        axes.text(76, 14, "class 2", color=SERIES[2], fontsize=9, ha="center", va="center")
        axes.set_xlim(0, 90)
        axes.set_ylim(0, 90)
        axes.set_aspect("equal")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MultipleLocator(30))
        _name(axes, name, "angle to center 1 (degrees)", "")
        axes.xaxis.label.set_fontsize(8)
    figure.axes[0].set_ylabel("angle to center 2 (degrees)", fontsize=8)
    _head(figure, title)
    return figure


def angles_plot(panels: Mapping[str, Mapping[str, Float[np.ndarray, "rows"]]], title: str) -> Figure:
    """How angles are spread, panel by panel, one outline for each moment; shares of the rows in bins of 3 degrees.

    Args:
        panels: by the title of a panel, the angles in degrees of each moment by its name.
        title: of the picture.
    """
    figure = wide_figure(3.2)
    edges = np.arange(0.0, 181.0, 3.0)
    for axes, (name, moments) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for colour, (moment, degrees) in zip(cycle(_SPREADS), moments.items(), strict=False):
            share = np.histogram(degrees, edges)[0] / max(len(degrees), 1)
            axes.stairs(share, edges, fill=True, color=colour, alpha=0.35)
            axes.stairs(share, edges, color=colour, linewidth=1.4, label=in_picture(moment))
        axes.set_xlim(0, 180)
        axes.xaxis.set_major_locator(MultipleLocator(30))
        _name(axes, name, "angle to the own center (degrees)", "")
        axes.set_title(name, loc="left", color=INK, fontsize=8.5)
        axes.legend(frameon=False, fontsize=8)
    figure.axes[0].set_ylabel("share of the photographs")
    _head(figure, title)
    return figure


def soft_indicator(x: Float64[np.ndarray, "points"], temperature: float) -> Float64[np.ndarray, "points"]:
    """1 / (1 + exp(-x / temperature)): AnchorFace's stand-in for the indicator of x > 0 (Liu et al. 2022, eq. 3).

    Args:
        x: score less threshold.
        temperature: tau, > 0; toward 0 it becomes the indicator.
    """
    return 0.5 * (1.0 + np.tanh(0.5 * x / temperature))  # the same number, and no exponential to overflow


def soft_indicator_slope(x: Float64[np.ndarray, "points"], temperature: float) -> Float64[np.ndarray, "points"]:
    """The derivative of `soft_indicator` in x: largest, 1 / (4 * temperature), at x = 0."""
    value = soft_indicator(x, temperature)
    return value * (1.0 - value) / temperature


def _name(axes: Axes, title: str, across: str, up: str) -> None:
    axes.set_title(title, loc="left", color=INK, fontsize=9.5)
    axes.set_xlabel(across, color=INK, fontsize=9)
    axes.set_ylabel(up, color=INK, fontsize=9)
    tidy(axes)
    axes.tick_params(labelsize=8)
    axes.spines[["left", "bottom"]].set_color(PALE)


def _head(figure: Figure, title: str) -> None:
    figure.suptitle(title, x=0.015, ha="left", color=INK, fontsize=11)
