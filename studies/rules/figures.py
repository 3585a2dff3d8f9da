"""Figures of a study of rules: precision, recall, noise left, clean images lost, with intervals; tables and a plot."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from math import isfinite

import numpy as np
from jaxtyping import Float64, Int64
from matplotlib.figure import Figure as Picture

from studies.rules.cells import Cell, CellCounts
from verisphere.decide.bounds import mean_bounds
from verisphere.files.tables import csv_for_people
from verisphere.report.plots import INK, LINES, SERIES, in_picture, new_figure, tidy
from verisphere.report.tables import table

COLUMNS = ("set", "kind", "rate", "rule", "figure", "mean", "people_lower_95", "people_upper_95",
           "seeds_lower_95", "seeds_upper_95", "per_seed")  # fmt: skip
PRECISION, RECALL, LEFT, LOST, IDENTITIES = "precision", "recall", "noise_left", "clean_lost", "identities_lost"
#: Sizes at which a group of people by their number of images begins.
SIZES = (1, 2, 5, 6, 10, 20)
_SHOWN_ANGLE = "75"  # the angle of the tables of each noise
#: Colour, dashes and marker of each family of rules in the plot.
_LINES = (*((SERIES[place], "-", "o") for place in (0, 2, 3, 4)), (INK, "--", "o"), (INK, "-", "*"))
_LOWEST_RECALL, _LOWEST_PRECISION = 0.4, 0.7  # where the plot begins


@dataclass(frozen=True)
class RuleFigure:
    """A figure of a rule under one kind and rate of noise.

    Attributes:
        measured: name of the set.
        kind: kind of noise.
        rate: share of each person's images whose label is wrong.
        rule: name of the rule.
        name: `precision`, the share of dropped images that are noisy; `recall`, the share of noisy images that are
            dropped; `noise_left`, the share of kept images that are noisy; `clean_lost`, the share of clean images that
            are dropped, of all people and of those with so many images; `identities_lost`, the share of people of whom
            no image is kept.
        mean: mean over seeds; NaN where a seed has nothing to divide by.
        per_seed: the figure at each seed.
        lower_95, upper_95: the middle 95 % over redrawn people of the mean over seeds.
        lower_95_over_seeds, upper_95_over_seeds: Student's bounds of the mean over further seeds; NaN for one seed.
    """

    measured: str
    kind: str
    rate: float
    rule: str
    name: str
    mean: float
    per_seed: dict[int, float]
    lower_95: float
    upper_95: float
    lower_95_over_seeds: float
    upper_95_over_seeds: float


def figures_of(
    counts: Mapping[Cell, CellCounts],
    rules: Sequence[str],
    sizes: Int64[np.ndarray, " people"],
    redrawn: Int64[np.ndarray, "replicates people"],
) -> list[RuleFigure]:
    """Every figure of every rule under each noise, from the cells of one set.

    Args:
        counts: counts of each cell.
        rules: names of the rules, in the order of the counts.
        sizes: number of images of each person, before noise.
        redrawn: how often each person is drawn in each replicate; the same draws serve all seeds.
    """
    figures = []
    everyone = np.ones((1, len(sizes)), np.int64)
    noises = dict.fromkeys((cell.measured, cell.kind, cell.rate) for cell in counts)
    for measured, kind, rate in noises:
        cells = [cell for cell in counts if (cell.measured, cell.kind, cell.rate) == (measured, kind, rate)]
        values = [shares(counts[cell], sizes, everyone) for cell in cells]
        replicates = [shares(counts[cell], sizes, redrawn) for cell in cells]
        for name in values[0]:
            per_seed = np.stack([of_cell[name][0] for of_cell in values])  # (seeds, rules)
            over_people = np.mean([of_cell[name] for of_cell in replicates], axis=0)  # (replicates, rules)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # where all replicates are NaN
                lower, upper = np.nanpercentile(over_people, [2.5, 97.5], axis=0)
            for place, rule in enumerate(rules):
                of_seeds = per_seed[:, place].tolist()
                figures.append(
                    RuleFigure(
                        measured,
                        kind,
                        rate,
                        rule,
                        name,
                        float(np.mean(of_seeds)),
                        {cell.seed: value for cell, value in zip(cells, of_seeds, strict=True)},
                        float(lower[place]),
                        float(upper[place]),
                        *mean_bounds(of_seeds),
                    )
                )
    return figures


def shares(
    counts: CellCounts, sizes: Int64[np.ndarray, " people"], draws: Int64[np.ndarray, "replicates people"]
) -> dict[str, Float64[np.ndarray, "replicates rules"]]:
    """The figures of each rule where people are drawn so often; NaN where there is nothing to divide by.

    >>> counts = CellCounts(np.array([1, 0]), np.array([2, 5]), np.array([[1, 0]]), np.array([[0, 1]]))
    >>> {name: share.item() for name, share in shares(counts, np.array([3, 5]), np.array([[1, 1]])).items()}
    ... # doctest: +NORMALIZE_WHITESPACE
    {'precision': 0.5, 'recall': 1.0, 'noise_left': 0.0, 'clean_lost': 0.14285714285714285, 'identities_lost': 0.0,
     'clean_lost, 2 to 4 images': 0.0, 'clean_lost, 5 images': 0.2}
    """
    noisy, clean = draws @ counts.noisy[:, None], draws @ counts.clean[:, None]  # (replicates, 1)
    noisy_dropped, clean_dropped = draws @ counts.noisy_dropped.T, draws @ counts.clean_dropped.T
    dropped = noisy_dropped + clean_dropped
    images = counts.noisy + counts.clean
    gone = (counts.noisy_dropped + counts.clean_dropped == images) & (images > 0)
    present = draws @ (images > 0).astype(np.int64)[:, None]
    figures = {
        PRECISION: _share(noisy_dropped, dropped),
        RECALL: _share(noisy_dropped, noisy),
        LEFT: _share(noisy - noisy_dropped, noisy + clean - dropped),
        LOST: _share(clean_dropped, clean),
        IDENTITIES: _share(draws @ gone.T.astype(np.int64), present),
    }
    for begin, end in zip(SIZES, (*SIZES[1:], None), strict=True):
        of_size = (sizes >= begin) & (sizes < (end or np.inf))
        if of_size.any():
            some = draws * of_size
            words = f"{begin} or more" if end is None else f"{begin}" if end == begin + 1 else f"{begin} to {end - 1}"
            figures[f"{LOST}, {words} images"] = _share(some @ counts.clean_dropped.T, some @ counts.clean[:, None])
    return figures


def _share(part: np.ndarray, whole: np.ndarray) -> Float64[np.ndarray, "replicates rules"]:
    part, whole = np.broadcast_arrays(part, whole)
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)


def results_csv(figures: Sequence[RuleFigure]) -> str:
    """One row for each figure of each rule under each noise."""
    rows = []
    for figure in figures:
        bounds = (figure.lower_95, figure.upper_95, figure.lower_95_over_seeds, figure.upper_95_over_seeds)
        per_seed = ";".join(f"{seed}:{value:.6g}" for seed, value in figure.per_seed.items())
        numbers = [f"{value:.6g}" for value in (figure.mean, *bounds)]
        rows.append([figure.measured, figure.kind, f"{figure.rate:g}", figure.rule, figure.name, *numbers, per_seed])
    return csv_for_people(COLUMNS, rows)


def results_text(figures: Sequence[RuleFigure], seeds: int, replicates: int) -> str:
    """Tables of the rules at 75 degrees, of their best angles, and of the images that people with few images lose."""
    by_noise: dict[tuple[str, str, float], dict[str, dict[str, RuleFigure]]] = {}
    for figure in figures:
        of_noise = by_noise.setdefault((figure.measured, figure.kind, figure.rate), {})
        of_noise.setdefault(figure.rule, {})[figure.name] = figure
    texts = []
    for (measured, kind, rate), of_rules in by_noise.items():
        shown = {rule: row for rule, row in of_rules.items() if angle_of(rule) in (None, _SHOWN_ANGLE)}
        by_size = [name for name in next(iter(of_rules.values())) if name.startswith(f"{LOST},")]
        header = [
            "rule",
            PRECISION,
            RECALL,
            LEFT,
            LOST,
            IDENTITIES,
            *(name.removeprefix(f"{LOST}, ") for name in by_size),
        ]
        columns = (PRECISION, RECALL, LEFT, LOST, IDENTITIES, *by_size)
        rows = [[rule, *(_cell(row[name]) for name in columns)] for rule, row in (shown or of_rules).items()]
        noise = f"{rate:.0%} noise" + ("" if kind == "none" else f", {kind}")
        texts.append(f"{measured}, {noise}\n{table([word.replace('_', ' ') for word in header], rows)}")
    texts += [_best_angles(measured, by_noise) for measured in dict.fromkeys(noise[0] for noise in by_noise)]
    texts.append(
        f"means over {seeds} seeds; in brackets the middle 95 % of {replicates:,} redrawings of people. All angles and "
        "the bounds over seeds are in results.csv.\nThe last columns of a table are the share of clean images lost, by "
        "the number of images of a person before the noise."
    )
    return "\n\n".join(text for text in texts if text)


def angle_of(rule: str) -> str | None:
    """The angle in the name of a rule; None for a rule without one.

    >>> angle_of("K = 3, 75, only dominant"), angle_of("DBSCAN")
    ('75', None)
    """
    parts = rule.split(", ")
    return parts[1] if len(parts) > 1 else None


def family_of(rule: str) -> str:
    """The name of a rule without its angle.

    >>> family_of("K = 3, 75, only dominant")
    'K = 3, only dominant'
    """
    parts = rule.split(", ")
    return ", ".join([parts[0], *parts[2:]])


def _best_angles(
    measured: str, by_noise: Mapping[tuple[str, str, float], Mapping[str, Mapping[str, RuleFigure]]]
) -> str:
    """For each family of rules the angle with the largest mean over all noises of F1, and its worst figures."""
    noises = [rules for (name, _, rate), rules in by_noise.items() if name == measured and rate > 0]
    if not noises:
        return ""
    best: dict[str, tuple[float, str]] = {}
    for rule in noises[0]:
        scores = [_f1(rules[rule][PRECISION].mean, rules[rule][RECALL].mean) for rules in noises]
        best[family_of(rule)] = max(best.get(family_of(rule), (-1.0, "")), (float(np.mean(scores)), rule))
    rows = []
    for family, (score, rule) in best.items():
        worst = [min(rules[rule][name].mean for rules in noises) for name in (PRECISION, RECALL)]
        worst += [max(rules[rule][name].mean for rules in noises) for name in (LOST, IDENTITIES)]
        rows.append([family, angle_of(rule) or "-", f"{score:.3f}", *(f"{value:.3f}" for value in worst)])
    header = [
        "rule",
        "best angle",
        "mean F1",
        "worst precision",
        "worst recall",
        "most clean lost",
        "most identities lost",
    ]
    return (
        f"{measured}: the angle of each rule with the highest F1 (2 PR / (P + R)), averaged over all kinds and rates "
        f"of noise, which only the truth can tell; its figures under the worst of them\n{table(header, rows)}"
    )


def _f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if isfinite(precision) and precision + recall > 0 else 0.0


def _cell(figure: RuleFigure) -> str:
    if not isfinite(figure.mean):
        return "-"
    bounds = f" [{figure.lower_95:.3f}, {figure.upper_95:.3f}]" if figure.name in (PRECISION, RECALL, LOST) else ""
    return f"{figure.mean:.3f}{bounds}"


def results_plot(figures: Sequence[RuleFigure], measured: str) -> Picture | None:
    """Recall and precision of each family of rules over its angles: a panel for each kind and rate of noise.

    Returns:
        the plot; None where no noise was put in.
    """
    drawn = [figure for figure in figures if figure.measured == measured and figure.rate > 0]
    rates, kinds = sorted({figure.rate for figure in drawn}), list(dict.fromkeys(figure.kind for figure in drawn))
    if not drawn:
        return None
    families = list(dict.fromkeys(family_of(figure.rule) for figure in drawn if "only dominant" not in figure.rule))
    points = {(figure.kind, figure.rate, figure.rule, figure.name): figure.mean for figure in drawn}
    rules = list(dict.fromkeys(figure.rule for figure in drawn))
    picture = new_figure(2.6 * len(rates) + 0.7)
    picture.set_figwidth(2.9 * len(kinds) + 0.6)
    grid = picture.subplots(len(rates), len(kinds), squeeze=False, sharex=True, sharey=True)
    for row, rate in enumerate(rates):
        for column, kind in enumerate(kinds):
            axes = grid[row, column]
            for family, (colour, dashes, marker) in zip(families, cycle(_LINES), strict=False):
                of_family = [rule for rule in rules if family_of(rule) == family]
                recall, precision = (
                    [points[kind, rate, rule, name] for rule in of_family] for name in (RECALL, PRECISION)
                )
                size = 9 if len(of_family) == 1 else 3
                axes.plot(
                    recall, precision, dashes, marker=marker, markersize=size, color=colour, label=in_picture(family)
                )
                at = [place for place, rule in enumerate(of_family) if angle_of(rule) == _SHOWN_ANGLE]
                ringed = [recall[place] for place in at], [precision[place] for place in at]
                axes.plot(*ringed, "o", markersize=7, mfc="none", color=colour)
            axes.set(xlim=(_LOWEST_RECALL, 1.02), ylim=(_LOWEST_PRECISION, 1.01))
            axes.set_title(in_picture(f"{rate:.0%}, {kind}"), loc="left", color=INK, fontsize=10)
            tidy(axes)
            axes.grid(color=LINES, linewidth=0.7)
    grid[0, 0].legend(loc="lower left", frameon=False, fontsize=8)
    picture.supxlabel("recall: share of the noise that is dropped", color=INK, fontsize=9)
    picture.supylabel("precision: share of the dropped images that are noise", color=INK, fontsize=9)
    marks = f"a point for each angle, the smallest on the right; ring: {_SHOWN_ANGLE} degrees"
    limits = f"points below a recall of {_LOWEST_RECALL:g} or a precision of {_LOWEST_PRECISION:g} are not drawn"
    title = f"{in_picture(measured)}: {marks}\n{limits}"
    picture.suptitle(title, x=0.02, ha="left", color=INK, fontsize=10)
    return picture
