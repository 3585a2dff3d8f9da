"""Plots of a search: its draws, rewards and losses, and the losses as functions of a probability.

The losses over the epochs are figure 2 of Loss Function Search, the probabilities its figure 1 (Wang et al. 2020,
arXiv:2007.06542).
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from verisphere.losses import ClassLoss
from verisphere.report.plots import INK, LINES, PALE, SERIES, in_picture, new_figure, tidy
from verisphere.study.search.course import Course

_OWN = 0.5  # own cosine at which a loss is shown whose margin depends on the angle
_POINTS = 400
_BEST, _MEAN = SERIES[2], SERIES[0]
_MOST_PANELS = 12  # searched values that are drawn
_APART = 0.5  # share of the distance between rounds over which the candidates of a round are spread


@dataclass(frozen=True)
class LossCurve:
    """A loss over the own class's softmax probability p (Wang et al. 2020, figure 1); `lowered` is exp(-loss), p_m."""

    name: str
    probability: Float64[np.ndarray, " points"]
    lowered: Float64[np.ndarray, " points"]


def draws_plot(course: Course) -> Figure:
    """The values of all candidates, with a panel for each searched value."""
    tried = course.tried
    names = list(tried[0].values)[:_MOST_PANELS]
    figure = new_figure(1.7 * len(names) + 1.0)
    grid = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    places = _places(course)
    for axes, name in zip(grid, names, strict=True):
        values = np.array([one.values[name] for one in tried])
        best = np.array([one.best for one in tried])
        axes.plot(places[~best], values[~best], "o", color=PALE, markersize=4, label="candidate")
        axes.plot(places[best], values[best], "D", color=_BEST, markersize=5, label="best of its round")
        if means := course.means.get(name):
            axes.plot(*zip(*means, strict=True), color=_MEAN, linewidth=1.6, label="mean of the distribution")
        if name in course.logarithmic:
            axes.set_yscale("log")
        axes.set_title(in_picture(name), loc="left", color=INK, fontsize=10)
        axes.margins(y=0.12)
        _tidy(axes)
    _along(course, grid[-1])
    _legend(figure, grid[0])
    return figure


def rewards_plot(course: Course) -> Figure:
    """The reward of each candidate with its spread, and how often another one would have been the best."""
    several = len(course.rounds) > 1 and bool(course.several)
    figure = new_figure(4.6 if several else 3.2)
    axes, *below = figure.subplots(
        2 if several else 1, 1, sharex=True, squeeze=False, height_ratios=(2, 1)[: 1 + several]
    )[:, 0]
    tried, places = course.tried, _places(course)
    for best, colour, mark, label in ((False, PALE, "o", "candidate"), (True, _BEST, "D", "best of its round")):
        rows = [row for row, one in enumerate(tried) if one.best == best and one.reward is not None]
        if rows:
            axes.errorbar(
                places[rows],
                [tried[row].reward for row in rows],
                [tried[row].spread or 0.0 for row in rows],
                fmt=mark, color=colour, markersize=4.5, elinewidth=0.9, label=label,
            )  # fmt: skip
    axes.set_ylabel(in_picture(course.search.reward.title))
    _tidy(axes)
    _legend(figure, axes)
    if several:
        at = [entry.best.at for entry in course.rounds]
        chance = [1 - 1 / len(entry.tried) for entry in course.rounds]
        below[0].plot(at, [entry.another_wins for entry in course.rounds], ".-", color=INK, label="another wins")
        below[0].plot(at, chance, ":", color=PALE, label="a draw by lot")
        below[0].set_ylim(-0.03, 1.03)
        below[0].yaxis.set_major_formatter(PercentFormatter(1.0))
        below[0].set_ylabel("redrawings")
        below[0].legend(frameon=False, fontsize=8, ncols=2, loc="best")
        _tidy(below[0])
    _along(course, (below or [axes])[-1])
    return figure


def losses_plot(course: Course) -> Figure:
    """The training loss of every candidate over the epochs; the result and its ancestors are drawn in colour."""
    figure = new_figure(3.4)
    axes = figure.add_subplot()
    for descends, colour, width, label in ((False, PALE, 0.8, "other candidates"), (True, _BEST, 1.8, "result")):
        lines = [one.losses for one in course.tried if one.descends == descends and one.losses]
        for number, line in enumerate(lines):
            axes.plot(
                *zip(*line, strict=True),
                color=colour,
                linewidth=width,
                label=None if number else label,
                zorder=2 + descends,
            )
    axes.set_ylabel("training loss")
    axes.set_xlabel("epoch")
    axes.set_xlim(left=0)
    _tidy(axes)
    _legend(figure, axes)
    return figure


def probabilities_plot(curves: Sequence[LossCurve]) -> Figure:
    """By how much a loss lowers the softmax probability of the own class: above as a factor, below the result."""
    figure = new_figure(4.8)
    above, below = figure.subplots(2, 1, sharex=True)
    below.plot([0, 1], [0, 1], color=PALE, linewidth=1, linestyle=":", label="no margin")
    above.axhline(1.0, color=PALE, linewidth=1, linestyle=":")
    for curve, colour, dashes in zip(curves, (_MEAN, _BEST), ("--", "-"), strict=False):
        above.plot(curve.probability, curve.lowered / curve.probability, color=colour, linestyle=dashes)
        below.plot(curve.probability, curve.lowered, color=colour, linestyle=dashes, label=in_picture(curve.name))
    above.set_ylabel("h(p)")
    below.set_ylabel("h(p) p")
    below.set_xlabel("softmax probability p of the own class")
    for axes in (above, below):
        axes.set_ylim(0, 1.03)
        axes.set_xlim(0, 1)
        _tidy(axes)
    _legend(figure, below)
    return figure


def loss_curve(name: str, loss: ClassLoss) -> LossCurve:
    """The curve of a loss for two classes: the own cosine is fixed, and the other cosine takes all values."""
    other = torch.linspace(-1.0, 1.0, _POINTS, dtype=torch.float64)
    own = torch.full_like(other, _OWN)
    rows = torch.stack([own, other], dim=1)
    losses = torch.stack([loss.forward(row[None], torch.zeros(1, dtype=torch.long)) for row in rows])
    return LossCurve(name, torch.sigmoid(loss.scale * (own - other)).numpy(), torch.exp(-losses).detach().numpy())


def _places(course: Course) -> np.ndarray:
    """Places of the candidates on the horizontal axis; the candidates of a round are beside each other."""
    at = sorted({one.at for one in course.tried})
    distance = min((after - before for before, after in itertools.pairwise(at)), default=1.0)
    places = []
    for entry in course.rounds:
        together = len({one.at for one in entry.tried}) == 1
        offsets = np.linspace(-_APART / 2, _APART / 2, len(entry.tried)) if together and len(entry.tried) > 1 else [0.0]
        places += [
            one.at + distance * offset
            for one, offset in zip(entry.tried, np.resize(offsets, len(entry.tried)), strict=True)
        ]
    return np.array(places)


def _along(course: Course, axes: Axes) -> None:
    axes.set_xlabel(course.position)
    if len(course.rounds) == 1:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)


def _tidy(axes: Axes) -> None:
    tidy(axes)
    axes.grid(color=LINES, linewidth=0.7)
