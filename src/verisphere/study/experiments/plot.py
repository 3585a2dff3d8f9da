"""The plot of an experiment on one set: for each figure the arms as dots, with intervals of their differences."""

from collections.abc import Mapping, Sequence
from math import isfinite

from matplotlib.figure import Figure as Picture
from matplotlib.ticker import MaxNLocator

from verisphere.measure.set_figures import COMPARED, Figure
from verisphere.report.plots import INK, LINES, PALE, SERIES, in_picture, new_figure, tidy
from verisphere.study.experiments.compare import ArmFigure, ArmResult, compared
from verisphere.study.experiments.text import figure_title

_TITLES = {
    "tar": "TAR at FAR {}",
    "accuracy": "accuracy on pairs",
    "gamma": "gamma at FAR {}",
    "tar_std_over_domains": "spread of TAR over domains, FAR {}",
    "neg_log10_far_std_over_domains": "spread of -log10 FAR, FAR {}",
}
_ROW, _HEAD = 0.24, 0.75  # inches: of a row, and of a panel's title and ticks
_WIDTH, _COLUMNS = 4.8, 2  # inches of a panel, and how many stand side by side


def experiment_plot(
    results: Mapping[str, ArmResult], baseline: str, measured: str, skipped: Sequence[str] = ()
) -> Picture | None:
    """A panel for each figure: the mean of each arm as a dot, its seeds as rings.

    A bar is the 95 % interval of the difference over people, drawn from the mean of the baseline, which a line marks. A
    bar that reaches the line is inside the noise and is drawn pale, as is a difference that other seeds might reverse.
    The TAR at a skipped target FAR, which is below resolution, is not drawn; None if nothing is.
    """
    panels: dict[Figure, dict[str, ArmFigure]] = {}
    for arm, result in results.items():
        for figure in result.figures:
            unseen = figure.name == "tar" and figure.far_target in skipped
            drawn = figure.measured == measured and figure.name in COMPARED and isfinite(figure.mean)
            if drawn and not unseen:
                panels.setdefault(compared(figure), {})[arm] = figure
    if not panels:
        return None
    height = _ROW * max(len(results), 2) + _HEAD
    columns = min(len(panels), _COLUMNS)
    rows = -(-len(panels) // columns)
    picture = new_figure(height * rows + 0.6)
    picture.set_figwidth(_WIDTH * columns)
    grid = picture.subplots(rows, columns, squeeze=False).flatten()
    for axes in grid[len(panels) :]:
        axes.remove()
    for axes, (key, by_arm) in zip(grid, panels.items(), strict=False):
        base = by_arm[baseline].mean if baseline in by_arm else None
        if base is not None:
            axes.axvline(base, color=PALE, linewidth=0.9, zorder=1)
        for row, figure in enumerate(by_arm.values()):
            seeds = list(figure.per_seed.values())
            difference, colour = figure.difference, INK
            if difference is not None and base is not None:
                colour = PALE if difference.may_be_chance else SERIES[0]
                ends = [base + difference.lower_95, base + difference.upper_95]
                axes.plot(ends, [row, row], color=colour, linewidth=1.6, solid_capstyle="butt", zorder=3)
            axes.plot([figure.mean], [row], "o", color=colour, markersize=5.5, zorder=4)
            axes.plot(seeds, [row] * len(seeds), "o", color=INK, mfc="white", mew=0.6, markersize=3, zorder=5)
        named = axes.get_subplotspec().is_first_col() or list(by_arm) != list(next(iter(panels.values())))
        axes.set_yticks(range(len(by_arm)), labels=[in_picture(arm) if named else "" for arm in by_arm])
        axes.set_ylim(len(by_arm) - 0.5, -0.5)
        axes.margins(x=0.08)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.set_title(in_picture(figure_title(key, _TITLES)), loc="left", color=INK, fontsize=10)
        tidy(axes)
        axes.grid(axis="x", color=LINES, linewidth=0.7)
    several = any(len(figure.per_seed) > 1 for by_arm in panels.values() for figure in by_arm.values())
    pale = "of people or seeds" if several else "of people; one seed does not say what another would change"
    marks = (
        f"dot: mean, rings: seeds, bar: 95 % of the difference to {in_picture(baseline)} over people",
        f"pale: inside the noise {pale}",
    )
    picture.supxlabel(("; " if columns > 1 else "\n").join(marks), color=INK, fontsize=8)
    picture.suptitle(in_picture(measured), x=0.02, ha="left", color=INK, fontsize=11)
    return picture
