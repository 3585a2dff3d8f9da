"""Plots of a search in galleries (1:N): the share of probes found within k people, and open-set rates by threshold.

The CMC has over k the share of mated probes whose person is among the k best. TPIR, the share of mated probes that are
found, stands over FPIR, the share of strangers who are. `verisphere.decide.identification` computes both.
"""

from collections.abc import Mapping
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from verisphere.decide import Curve, binomial_bounds
from verisphere.decide.identification import Cmc
from verisphere.report.plots import INK, LINES, STYLES, in_picture, new_figure, tidy


def identification_plot(cmcs: Mapping[str, Cmc], curves: Mapping[str, Curve], title: str) -> Figure:
    """The CMC of each gallery and, if there are curves, TPIR over FPIR below it.

    The curves are from `identification_curve`: TPIR as `tar` and FPIR as `far`.
    """
    figure = new_figure(6.4 if curves else 3.4)
    panels = figure.subplots(2 if curves else 1, 1, squeeze=False)[:, 0]
    _draw_cmc(panels[0], cmcs)
    if curves:
        _draw_curves(panels[1], curves)
    alone = in_picture(next(iter(cmcs))) if len(cmcs) == 1 else ""
    panels[0].set_title(in_picture(title) + (f": {alone}" if alone else ""), loc="left", color=INK, fontsize=11)
    if not alone:
        panels[0].legend(loc="best", frameon=False, fontsize=9)
    for axes in panels:
        tidy(axes)
        axes.grid(color=LINES, linewidth=0.7)
    return figure


def _draw_cmc(axes: Axes, cmcs: Mapping[str, Cmc]) -> None:
    """Closed set: the share of mated probes whose mate is among the k best people over k, with 95 % bounds."""
    lowest = 1.0
    for (colour, dashes), (name, cmc) in zip(cycle(STYLES), cmcs.items(), strict=False):
        rank = np.r_[1, cmc.rank, max(cmc.people, 2)]
        rate = np.r_[cmc.identified[0] if cmc.rank[0] == 1 else 0, cmc.identified, cmc.mated_total] / cmc.mated_total
        axes.plot(rank, rate, color=colour, linestyle=dashes, label=in_picture(name), drawstyle="steps-post")
        bounds = np.array([binomial_bounds(found, cmc.mated_total) for found in cmc.identified]).T
        low, high = np.c_[bounds, bounds[:, -1:]]
        axes.fill_between(
            np.r_[cmc.rank, max(cmc.people, 2)], low, high, color=colour, alpha=0.2, linewidth=0, step="post"
        )
        lowest = min(lowest, float(rate[0]), float(bounds[0, 0]))
    axes.set_xscale("log")
    axes.set_xlim(1, max(2, *(cmc.people for cmc in cmcs.values())))
    bottom = max(lowest - 0.1 * (1 - lowest) - 0.005, 0)
    axes.set_ylim(bottom, 1 + 0.01 * (1 - bottom))
    axes.set_xlabel("rank")
    axes.set_ylabel("identified (closed set)")


def _draw_curves(axes: Axes, curves: Mapping[str, Curve]) -> None:
    """Open set: TPIR over FPIR, from the lowest FPIR that the non-mated probes resolve."""
    for (colour, dashes), (name, curve) in zip(cycle(STYLES), curves.items(), strict=False):
        seen = curve.impostor_accepted > 0
        axes.plot(
            curve.far[seen],
            curve.tar[seen],
            color=colour,
            linestyle=dashes,
            label=in_picture(name),
            drawstyle="steps-post",
        )
    axes.set_xscale("log")
    axes.set_xlim(min(0.5, *(1 / curve.impostor_total for curve in curves.values())), 1)
    axes.set_ylim(0, 1.005)
    axes.set_xlabel("FPIR (false-positive identification rate)")
    axes.set_ylabel("TPIR (identified, open set)")
