"""Features of 2 and 3 numbers on their circle and sphere, with class centers and decision boundaries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64, Int64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Wedge

from figures.loss_plots import wide_figure
from verisphere.report.plots import INK, LINES, PALE

#: One colour a class: those that Okabe and Ito chose for every kind of colour vision, and for their black and yellow,
#: which lines in ink and the paper would hide, two others. Numbers stand beside them all the same.
CLASSES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7b2d8b", "#6b6200")
_BAND = (0.80, 0.97)  # radii between which points of a circle are strewn, so that they do not hide one another


def colour_of(number: int) -> str:
    """The colour of a class; from the ninth on they come again."""
    return CLASSES[number % len(CLASSES)]


@dataclass(frozen=True, eq=False)
class Circle:
    """Features in the plane.

    Attributes:
        unit: directions of the features.
        labels: class of each.
        centers: directions of the class centers.
        wedges: (from, to, class) in degrees, filled in the class's colour; class -1 is grey, a margin.
        rays: angles in degrees of lines from the middle, by name; each name is a line style.
    """

    unit: Float64[np.ndarray, "rows 2"]
    labels: Int64[np.ndarray, "rows"]
    centers: Float64[np.ndarray, "classes 2"]
    wedges: Sequence[tuple[float, float, int]] = ()
    rays: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Sphere:
    """Features in space.

    Attributes:
        unit: directions of the features.
        labels: class of each.
        centers: directions of the class centers.
        curves: (name, class, line style, points on the sphere); a name is shown once, class -1 is drawn in ink.
    """

    unit: Float64[np.ndarray, "rows 3"]
    labels: Int64[np.ndarray, "rows"]
    centers: Float64[np.ndarray, "classes 3"]
    curves: Sequence[tuple[str, int, str, Float64[np.ndarray, "points 3"]]] = ()


def circles_plot(circles: Mapping[str, Circle], title: str) -> Figure:
    """Features of several trainings on their circles, side by side.

    A point's angle is its feature's; its distance from the middle is strewn over a band and means nothing.
    """
    figure = wide_figure(4.6)
    styles = ("-", "--", ":")  # of rays, by their names' order
    for axes, (name, circle) in zip(figure.subplots(1, len(circles), squeeze=False)[0], circles.items(), strict=True):
        _frame(axes, name)
        for start, end, number in circle.wedges:
            colour, alpha = (PALE, 0.45) if number < 0 else (colour_of(number), 0.25)
            axes.add_patch(Wedge((0, 0), 1.0, start, end, color=colour, alpha=alpha, linewidth=0))
        turn = np.linspace(0, 2 * np.pi, 361)
        axes.plot(np.cos(turn), np.sin(turn), color=PALE, linewidth=0.8)
        angles = np.arctan2(circle.unit[:, 1], circle.unit[:, 0])
        # the golden ratio's multiples fill an interval evenly, and the same picture comes out each time
        strewn = _BAND[0] + (_BAND[1] - _BAND[0]) * (np.arange(len(angles)) * 0.6180339887 % 1.0)
        for number, center in enumerate(circle.centers):
            own = circle.labels == number
            x, y = strewn[own] * np.cos(angles[own]), strewn[own] * np.sin(angles[own])
            axes.scatter(x, y, s=5, color=colour_of(number), linewidths=0, alpha=0.8, zorder=3)
            axes.plot([0, 0.78 * center[0]], [0, 0.78 * center[1]], color=colour_of(number), linewidth=1.6, zorder=2)
            _number(axes, 1.1 * center, number)
        for style, (label, degrees) in zip(styles, circle.rays.items(), strict=False):
            for place, ray in enumerate(np.radians(np.asarray(degrees, dtype=np.float64))):
                ends = [0, 1.04 * np.cos(ray)], [0, 1.04 * np.sin(ray)]
                shown = label if place == 0 else None
                axes.plot(*ends, color=INK, linestyle=style, linewidth=1.1, zorder=4, label=shown)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    figure.suptitle(title, x=0.015, ha="left", color=INK, fontsize=11)
    return figure


def spheres_plot(spheres: Mapping[str, Sphere], title: str) -> Figure:
    """Features of several trainings on their spheres, each a row: seen from one side, and from the other."""
    figure = wide_figure(4.4 * len(spheres))
    for row, (name, sphere) in zip(figure.subplots(len(spheres), 2, squeeze=False), spheres.items(), strict=True):
        toward = _view(sphere.centers)
        for axes, side, seen in zip(row, (1.0, -1.0), ("one side", "the other side"), strict=True):
            _frame(axes, f"{name}: {seen}", lowest=-1.3)
            axes.add_patch(Wedge((0, 0), 1.0, 0, 360, color=LINES, alpha=0.35, linewidth=0))
            right, up, depth = toward * np.array([[side], [1.0], [side]])
            named: set[str] = set()
            for label, number, style, points in sphere.curves:
                colour = INK if number < 0 else colour_of(number)
                x, y = _front(points, right, up, depth)
                shown = None if label in named else label
                named.add(label)
                axes.plot(x, y, color=colour, linestyle=style, linewidth=1.3, label=shown, zorder=3)
            for number, center in enumerate(sphere.centers):
                own = sphere.unit[sphere.labels == number]
                own = own[own @ depth > 0]
                axes.scatter(own @ right, own @ up, s=6, color=colour_of(number), linewidths=0, alpha=0.7, zorder=2)
                if center @ depth > 0:
                    place = np.array([center @ right, center @ up])
                    axes.plot(*place, marker="+", color=INK, markersize=8, zorder=5)
                    _number(axes, place + 0.09, number)
        # below both views, and wider than one: it must not push them apart
        row[0].legend(loc="lower left", ncols=3, frameon=False, fontsize=8).set_in_layout(False)
    figure.suptitle(title, x=0.015, ha="left", color=INK, fontsize=11)
    return figure


def _view(centers: Float64[np.ndarray, "classes 3"]) -> Float64[np.ndarray, "3 3"]:
    """Axes to the right, up and toward the eye; the eye is a little aside the first center."""
    depth = centers[0] + 0.5 * np.roll(centers[0], 1)
    depth /= np.linalg.norm(depth)
    right = np.cross(np.eye(3)[np.abs(depth).argmin()], depth)
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(depth, right), depth])


def _front(
    points: Float64[np.ndarray, "points 3"],
    right: Float64[np.ndarray, "3"],
    up: Float64[np.ndarray, "3"],
    depth: Float64[np.ndarray, "3"],
) -> tuple[Float64[np.ndarray, "points"], Float64[np.ndarray, "points"]]:
    """A line on the sphere as it is seen; nan where it runs behind."""
    hidden = points @ depth < 0
    return np.where(hidden, np.nan, points @ right), np.where(hidden, np.nan, points @ up)


def _frame(axes: Axes, title: str, lowest: float = -1.18) -> None:
    axes.set_title(title, loc="left", color=INK, fontsize=9.5)
    axes.set_aspect("equal")
    axes.set_xlim(-1.22, 1.22)
    axes.set_ylim(lowest, 1.18)
    axes.set_axis_off()


def _number(axes: Axes, place: Float64[np.ndarray, "2"], number: int) -> None:
    x, y = place
    paper = {"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.8}
    axes.text(
        x, y, str(number + 1), color=colour_of(number), fontsize=10, ha="center", va="center", bbox=paper, zorder=6
    )
