"""Plots of the distributions of genuine and impostor scores, over all pairs and within domains, and of their curve.

`score_picture` shows strangers and the same person, with what falls on the wrong side of a threshold. It stands in the
page as elements whose colours are those of the page; a script may move the threshold by the two attributes `data-low`
and `data-high`, the scores at the borders.
"""

from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.special import logit

from verisphere.base.vocabulary import OperatingPoint
from verisphere.base.words import in_per_cent, share
from verisphere.decide import Curve, OneThreshold
from verisphere.decide.curve import Histogram
from verisphere.decide.point import short_far
from verisphere.files.calibration import Calibration
from verisphere.report.html import Markup, tag
from verisphere.report.plots import INK, LINES, MOST_STEPS, PALE, in_picture, new_figure, per_cent, rate_axis, tidy
from verisphere.report.tables import number, tar_text

WIDTH, HEIGHT, FLOOR, TOP = 480, 250, 214, 44


def score_picture(histogram: Histogram, threshold: float, label: str) -> Markup:
    """Both kinds of scores over one axis, the wrong side of each in a full colour, and the threshold between them.

    Heights are square roots of shares, so that the tails, which the errors come from, can be seen. A threshold that
    lies beyond the border is drawn at it; `label` is the picture in words.
    """
    low, high = float(histogram.edges[0]), float(histogram.edges[-1])
    kinds = {"strangers": histogram.impostor / histogram.impostor_total, "same": histogram.genuine}
    kinds["same"] = histogram.genuine / histogram.genuine_total
    tallest = max(float(np.sqrt(shares).max()) for shares in kinds.values()) or 1.0
    across = (histogram.edges - low) / (high - low) * WIDTH
    at = float(np.clip((threshold - low) / (high - low), 0, 1)) * WIDTH
    paths = {name: _outline(across, np.sqrt(shares) / tallest) for name, shares in kinds.items()}
    peaks = {name: float(np.clip(across[int(shares.argmax())], 60, WIDTH - 60)) for name, shares in kinds.items()}
    if peaks["same"] - peaks["strangers"] < 130:  # the names would touch
        peaks = {"strangers": 45.0, "same": WIDTH - 55.0}
    sides = {"strangers": (at, WIDTH - at), "same": (0.0, at)}
    clips = (
        tag("clipPath", tag("rect", x=f"{x:.1f}", y="0", width=f"{width:.1f}", height=str(FLOOR)), id=f"wrong-{name}")
        for name, (x, width) in sides.items()
    )
    fills = [tag("path", d=path, class_=f"fill {name}") for name, path in paths.items()]
    fills += [
        tag("path", d=path, class_=f"fill wrong {name}", clip_path=f"url(#wrong-{name})")
        for name, path in paths.items()
    ]
    names = (
        tag("text", text, x=f"{peaks[name]:.1f}", y=str(TOP - 12), class_=name, text_anchor="middle")
        for name, text in (("strangers", "strangers"), ("same", "same person"))
    )
    marks = MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(low, high)
    axis = (
        tag("text", f"{mark:g}", x=f"{(mark - low) / (high - low) * WIDTH:.1f}", y=str(FLOOR + 16), class_="mark",
            text_anchor="middle")
        for mark in np.round(marks, 10)
        if low < mark < high
    )  # fmt: skip
    line = tag("path", d=f"M0 {TOP - 6}V{FLOOR + 2}", class_="threshold", transform=f"translate({at:.1f} 0)")
    below = tag("text", "score: the more alike, the further right", x=str(WIDTH), y=str(HEIGHT - 2), class_="mark",
                text_anchor="end")  # fmt: skip
    floor = tag("path", d=f"M0 {FLOOR}H{WIDTH}", class_="axis")
    parts = (tag("defs", *clips), *fills, floor, *names, *axis, below, line)
    borders = {"data_low": repr(low), "data_high": repr(high)}
    return tag("svg", *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=label, class_="scores", **borders)


def _outline(across: Float64[np.ndarray, " edges"], heights: Float64[np.ndarray, " bins"]) -> str:
    """The outline of a histogram, closed at the floor."""
    ups = FLOOR - heights * (FLOOR - TOP)
    steps = "".join(f"V{up:.1f}H{right:.1f}" for up, right in zip(ups, across[1:], strict=True))
    return f"M{across[0]:.1f} {FLOOR}{steps}V{FLOOR}Z"


MOST_DOMAINS = 12
GENUINE, IMPOSTOR, COMMON, OWN, SHIPPED = "#2274a5", "#e4572e", "#1f2933", "#7b2d8b", "#3a7d44"
_SHARE = "share of the pairs of each kind"
_SCORE_LABEL = {False: "score (cosine)", True: "angle (degrees)"}


def histogram_plot(
    histogram: Histogram,
    thresholds: Mapping[str, float],
    title: str,
    shipped: Mapping[str, float] | None = None,
    degrees: bool = False,
) -> Figure:
    """Genuine and impostor scores of all pairs, above on a linear scale, below on a logarithmic one, with thresholds.

    `degrees` draws cosines as angles in degrees (ArcFace, figure 10), genuine pairs on the left. `shipped` thresholds
    are calibrated ones.
    """
    figure = new_figure(4.2)
    even, logarithmic = figure.subplots(2, 1, sharex=True)
    for axes in (even, logarithmic):
        draw_scores(axes, histogram, degrees)
        for marks, colour in ((thresholds, COMMON), (shipped or {}, SHIPPED)):
            for dashes, (name, threshold) in zip(cycle(("-", "--", ":", "-.")), marks.items(), strict=False):
                if np.isfinite(threshold):
                    label = f"{in_picture(name)}: {_score_text(threshold, degrees)}"
                    place = float(_place(threshold, degrees))
                    axes.axvline(place, color=colour, linewidth=1.5, linestyle=dashes, label=label)
        tidy(axes)
    logarithmic.set_yscale("log")
    least = 0.5 / max(histogram.genuine_total, histogram.impostor_total)
    logarithmic.set_ylim(least, 1)
    even.set_ylim(bottom=0)
    figure.supylabel(_SHARE, fontsize=9, color=INK)
    even.yaxis.set_major_formatter(per_cent)
    rate_axis(logarithmic.yaxis)
    logarithmic.set_xlabel(_SCORE_LABEL[degrees])
    even.set_title(in_picture(title), loc="left", color=INK, fontsize=11)
    handles, labels = even.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def domains_plot(
    histograms: Mapping[str, Histogram], result: OneThreshold, title: str, degrees: bool = False
) -> Figure:
    """Genuine and impostor scores of each domain, its own threshold, and the one threshold of all.

    Of more than twelve domains, only those whose own threshold is furthest from the common threshold are drawn. The
    histograms have the same bins; only domains in `result` are drawn.
    """
    names = _furthest([name for name in histograms if name in result.domains], result)
    figure = new_figure(1.15 * len(names) + 1.4)
    grid = figure.subplots(len(names), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    alike = in_per_cent(result.domains[name].far for name in names)
    for axes, name in zip(grid, names, strict=True):
        domain = result.domains[name]
        draw_scores(axes, histograms[name], degrees)
        common = _score_text(result.calibration_threshold, degrees)
        for threshold, colour, dashes, label in (
            (result.calibration_threshold, COMMON, "-", f"the one threshold: {common}"),
            (domain.threshold, OWN, "--", "its own threshold"),
        ):
            if np.isfinite(threshold):
                place = float(_place(threshold, degrees))
                axes.axvline(place, color=colour, linewidth=1.6, linestyle=dashes, label=label)
        own = _score_text(domain.threshold, degrees).partition(",")[0]  # without the cosine: the panel is small
        far = share(domain.far, per_cent=alike)
        text = f"{in_picture(name)}: TAR {tar_text(domain.tar)}, FAR {far}; own threshold {own}"
        axes.set_title(text, loc="left", fontsize=9, color=INK)
        tidy(axes)
    grid[0].yaxis.set_major_formatter(per_cent)
    grid[0].set_ylim(bottom=0)  # of all, once everything is drawn: it ends the search for limits
    figure.supylabel(_SHARE, fontsize=9, color=INK)
    grid[-1].set_xlabel(_SCORE_LABEL[degrees])
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    figure.suptitle(
        in_picture(f"{title}, FAR {short_far(result.far_target)}"), x=0.02, ha="left", color=INK, fontsize=11
    )
    return figure


def reliability_plot(calibration: Calibration) -> Figure:
    """The share of genuine comparisons beside the probability that is stated at an even prior, on axes of log-odds."""
    found = calibration.probability
    if found is None or not found.observed:
        raise ValueError(f"{calibration.source.file}: no probability of known people, so no bands over people to draw")
    edge = max(map(abs, found.bounds)) + 0.5
    shares = np.array([(one.value, one.lower_95, one.upper_95) for one in found.observed])
    stated, (value, lower, upper) = logit(found.stated), np.clip(logit(shares.T), -edge, edge)
    figure = new_figure(4.2)
    axes = figure.add_subplot()
    axes.axline((0, 0), slope=1, color=PALE, linewidth=1, label="as stated")
    axes.fill_between(stated, lower, upper, color=GENUINE, alpha=0.25, linewidth=0, label="95 % over redrawn people")
    axes.plot(stated, value, "o-", color=GENUINE, markersize=4, label="observed")
    marks = np.array([rate for rate in (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999) if abs(logit(rate)) < edge])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(logit(marks), labels=[f"{100 * mark:g} %" for mark in marks])
        axis.set_view_interval(-edge, edge, ignore=True)
    costs = f"Cllr {found.cllr:.4f}, minimum {found.min_cllr:.4f}"
    axes.set_xlabel(f"stated probability of one person, even prior\n{costs}")
    axes.set_ylabel("observed share of genuine comparisons")
    axes.set_title(in_picture(calibration.source.file), loc="left", color=INK, fontsize=11)
    axes.legend(loc="best", frameon=False, fontsize=9)
    tidy(axes)
    axes.grid(color=LINES, linewidth=0.7)
    return figure


def curve_plot(curve: Curve, points: Sequence[OperatingPoint], title: str) -> Figure:
    """ROC above and DET below, over one logarithmic FAR axis, with the operating points that can be resolved.

    The FRR = 1 - TAR of the DET curve is logarithmic too. A rate of 0 has no place on such an axis: curves extend to
    the edge, where an operating point has an open mark. An axis shows at least two decades. Where no operating point
    can be resolved, or the curve is a single point, the plot says so.
    """
    figure = new_figure(5.6)
    roc, det = figure.subplots(2, 1, sharex=True)
    left, bottom = (min(0.5 / total, 0.01) for total in (curve.impostor_total, curve.genuine_total))
    marked = [point for point in points if not point.below_resolution]
    rules = ", ".join(dict.fromkeys(point.rule for point in marked))
    fars = np.array([point.far for point in marked])
    tars = np.array([point.tar for point in marked])
    frrs = np.array([(point.genuine_total - point.genuine_accepted) / point.genuine_total for point in marked])
    for axes, rate, marks, low in ((roc, curve.tar, tars, 0.0), (det, curve.frr, frrs, bottom)):
        # Always within the axes; unclipped, so that a line along an edge has its full width.
        axes.plot(*_to_the_edges(curve, rate, left, low), color=GENUINE, clip_on=False, zorder=3)
        edge = (fars == 0) | ((marks == 0) & (axes is det))
        _mark(axes, fars[~edge], marks[~edge], f"at the FARs asked for, rule: {rules}", IMPOSTOR)
        _mark(
            axes, fars[edge].clip(left), marks[edge].clip(low), f"with a rate of 0, at the edge, rule: {rules}", "white"
        )
        axes.grid(color=LINES, linewidth=0.7)
        tidy(axes)
    names = {
        label: handle for axes in (roc, det) for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if names:
        figure.legend(names.values(), names, loc="outside lower center", frameon=False, fontsize=9)
    words = ["FAR (false accept rate)"]
    if len(curve.thresholds) == 1:
        words.append("no curve: it has one threshold alone")
    if points and not marked:
        words.append("no operating point: too few impostors for these FARs")
    roc.set_xscale("log")
    roc.set_xlim(left, 1)
    rate_axis(roc.xaxis)
    roc.set_ylim(0, 1.005)
    roc.yaxis.set_major_formatter(per_cent)
    roc.set_ylabel("TAR (true accept rate)")
    det.set_yscale("log")
    rate_axis(det.yaxis)
    det.set_ylim(bottom, 1)
    det.set_ylabel("FRR = 1 - TAR (false reject rate)")
    det.set_xlabel("\n".join(words))
    roc.set_title(in_picture(title), loc="left", color=INK, fontsize=11)
    return figure


def _to_the_edges(
    curve: Curve, rate: Float64[np.ndarray, " points"], left: float, low: float
) -> tuple[Float64[np.ndarray, " corners"], Float64[np.ndarray, " corners"]]:
    """FAR and another rate of a curve, clipped to the axes, with the corners of its steps.

    The last point of FAR 0 represents all of them. Few points are drawn in steps, many as a line; but no slope leads to
    an edge, which represents 0 and is not a place on the scale.
    """
    first = max(int(np.count_nonzero(curve.impostor_accepted == 0)) - 1, 0)
    far, other = curve.far[first:].clip(left), rate[first:].clip(low)
    step = (far[:-1] == left) | (other[1:] == low) | (len(far) < MOST_STEPS)
    after = np.flatnonzero(step) + 1
    return np.insert(far, after, far[after]), np.insert(other, after, other[after - 1])


def _mark(
    axes: Axes, far: Float64[np.ndarray, " marks"], rate: Float64[np.ndarray, " marks"], label: str, face: str
) -> None:
    """Points as dots, in front of everything and not clipped at the edge."""
    if len(far):  # an unclipped empty line would break the layout
        (marks,) = axes.plot(far, rate, "o", color=IMPOSTOR, markersize=5, label=label, clip_on=False, zorder=4)
        marks.set_markerfacecolor(face)


def _place(score: float | Float64[np.ndarray, " scores"], degrees: bool) -> float | Float64[np.ndarray, " scores"]:
    """The place of a score on the axis: the score itself, or the angle in degrees whose cosine it is."""
    return np.degrees(np.arccos(np.clip(score, -1.0, 1.0))) if degrees else score


def _score_text(score: float, degrees: bool) -> str:
    """A score in a legend, with its angle on an axis of angles."""
    return f"{_place(score, degrees):.1f}\u00b0, cosine {number(score)}" if degrees else number(score)


def draw_scores(axes: Axes, histogram: Histogram, degrees: bool = False) -> None:
    """Draws genuine and impostor scores into axes as filled steps, as shares of each kind."""
    kinds = (
        ("strangers", histogram.impostor, histogram.impostor_total, IMPOSTOR),
        ("same person", histogram.genuine, histogram.genuine_total, GENUINE),
    )
    order = slice(None, None, -1 if degrees else 1)  # angles fall where cosines rise
    edges = np.asarray(_place(histogram.edges, degrees))[order]
    for name, counts, total, colour in kinds:
        axes.stairs(counts[order] / max(total, 1), edges, fill=True, color=colour, alpha=0.5, label=name)


def _furthest(names: list[str], result: OneThreshold) -> list[str]:
    """The domains that are drawn, in the given order."""
    if len(names) <= MOST_DOMAINS:
        return names
    common = result.calibration_threshold

    def distance(name: str) -> float:
        own = result.domains[name].threshold
        return 0.0 if own == common else abs(own - common)

    chosen = set(sorted(names, key=distance, reverse=True)[:MOST_DOMAINS])
    return [name for name in names if name in chosen]
