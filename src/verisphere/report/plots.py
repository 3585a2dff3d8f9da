"""ROC and DET plots in a common style, and what other plots share with them.

Of a search in galleries (1:N) the CMC has over k the share of mated probes whose person is among the k best. TPIR, the
share of mated probes that are found, stands over FPIR, the share of strangers who are.
`verisphere.decide.identification` computes both.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle, islice, product
from pathlib import Path
from typing import TypeAlias

import matplotlib as mpl
import numpy as np
from jaxtyping import UInt8
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from PIL import Image
from scipy.special import ndtr, ndtri
from torch import Tensor

from verisphere.base.vocabulary import printable
from verisphere.base.words import in_per_cent
from verisphere.decide import Curve, binomial_bounds
from verisphere.decide.identification import Cmc
from verisphere.decide.point import short_far
from verisphere.files.disk import write_whole

INK, PALE, LINES = "#1f2933", "#9aa5b1", "#e4e7eb"
SERIES = ("#2274a5", "#8a5a00", "#e4572e", "#3a7d44", "#7b2d8b")
STYLES = tuple((colour, dashes) for dashes, colour in product(("-", "--", ":"), SERIES))
#: Of each curve the FAR, and the lower and upper bound of the TAR at it.
Bands: TypeAlias = Mapping[str, Sequence[tuple[float, float, float]]]
_Place: TypeAlias = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
_LONGEST_NAME = 44  # letters of a name in a plot
# Marks on a normal-deviate axis, in order of priority.
_MARKED_RATES = (0.5, 0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6, 0.9, 0.99, 0.999, 0.9999, 0.05, 0.2, 0.3, 0.7, 0.8, 0.95, 1e-7)
_LARGEST_FAR = 0.5  # at the right border of a DET plot
MOST_STEPS = 100  # a curve with fewer points is drawn in steps


def save_plot(figure: Figure, path: Path) -> Path:
    """Writes a figure as .png or .svg, with letters as outlines; equal figures give equal bytes."""
    metadata = {"Date": None} if path.suffix == ".svg" else None
    with _drawing():
        write_whole(path, lambda partial: figure.savefig(partial, dpi=200, facecolor="white", metadata=metadata))
    return path


@contextmanager
def _drawing() -> Iterator[None]:
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "verisphere"}), warnings.catch_warnings():
        # names of people and domains can be in any script; a letter that the font lacks is drawn as a box
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def in_picture(name: str) -> str:
    """A name for matplotlib: on one line, of bounded length, not interpreted as a formula, not hidden in a legend."""
    name = printable(" ".join(name.split()))
    name = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "\u2026"
    name = name.replace("$", r"\$")
    return f"\u2009{name}" if name.startswith("_") else name  # matplotlib excludes such labels from a legend


def new_figure(height: float) -> Figure:
    """An empty figure of the common width and this height, in inches, with a margin."""
    figure = Figure(figsize=(4.8, height), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    figure.set_facecolor("white")
    return figure


def save_image(pixels: UInt8[Tensor, "3 height width"], path: Path) -> Path:
    """Writes an image."""
    image = Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy())
    write_whole(path, lambda partial: image.save(partial))
    return path


def roc_plot(curves: Mapping[str, Curve], title: str, bands: Bands | None = None) -> Figure:
    """TAR over FAR, with a logarithmic FAR axis that begins where the impostors resolve the FAR.

    `bands` has for each curve the bounds of its TAR at some FARs, between which a band is drawn.
    """
    figure = new_figure(3.6)
    axes = figure.add_subplot()
    draw_roc(axes, curves)
    _draw_bands(axes, curves, bands or {})
    _finish(axes, title, curves)
    return figure


def draw_roc(axes: Axes, curves: Mapping[str, Curve]) -> None:
    """Draws the curves of `roc_plot` into axes; those drawn there before keep their place."""
    before = len(axes.lines)
    left = min(_least_far(curves), axes.get_xlim()[0] if before else 1.0)
    for (colour, dashes), (name, curve) in zip(_styles(before), curves.items(), strict=False):
        seen = curve.impostor_accepted > 0
        (line,) = axes.plot(curve.far[seen], curve.tar[seen], color=colour, linestyle=dashes, label=in_picture(name))
        line.set_drawstyle("steps-post" if seen.sum() < MOST_STEPS else "default")
    axes.set_xscale("log")
    rate_axis(axes.xaxis)
    axes.set_xlim(left, 1)
    axes.set_ylim(0, 1.005)
    axes.yaxis.set_major_formatter(per_cent)
    axes.set_xlabel("FAR (false accept rate)")
    axes.set_ylabel("TAR (true accept rate)")


def det_plot(curves: Mapping[str, Curve], title: str, bands: Bands | None = None) -> Figure:
    """FRR over FAR, both on normal-deviate axes (Martin et al. 1997): normal scores of equal variance fall on a line.

    FRR = 1 - TAR. The axes begin where the impostor and the genuine pairs resolve the rates; a point with a rate of 0
    or 1 has no place on these axes.
    """
    figure = new_figure(3.6)
    axes = figure.add_subplot()
    draw_det(axes, curves)
    _draw_bands(axes, curves, bands or {}, lambda far, tar: (ndtri(far), ndtri(np.clip(1 - tar, 1e-9, 1 - 1e-9))))
    _finish(axes, title, curves)
    return figure


def draw_det(axes: Axes, curves: Mapping[str, Curve]) -> None:
    """Draws the curves of `det_plot` into axes; those drawn there before keep their place."""
    before = len(axes.lines)
    # Normal deviates of the rates at the borders, including those of curves that were drawn before.
    (left, _), (bottom, top) = (axes.get_xlim(), axes.get_ylim()) if before else ((np.inf, 0.0), (np.inf, -np.inf))
    low_far = min(_least_far(curves), float(ndtr(left)))
    resolved = min(1 / max(curve.genuine_total for curve in curves.values()), 0.01)
    drawn: list[float] = []
    for (colour, dashes), (name, curve) in zip(_styles(before), curves.items(), strict=False):
        inside = (curve.impostor_accepted > 0) & (curve.far < 1) & (curve.frr > 0) & (curve.frr < 1)
        far, frr = ndtri(curve.far[inside]), ndtri(curve.frr[inside])
        axes.plot(far, frr, color=colour, linestyle=dashes, label=in_picture(name))
        drawn += curve.frr[inside & (curve.far >= low_far) & (curve.far <= _LARGEST_FAR)].tolist()
    _deviates(axes.xaxis, low_far, _LARGEST_FAR)
    lowest, highest = max(min(drawn, default=0.0) / 1.5, resolved), min(max([0.5, *drawn]) ** 0.8, 1 - resolved)
    _deviates(axes.yaxis, min(lowest, float(ndtr(bottom))), max(highest, float(ndtr(top))))
    axes.set_xlabel("FAR (false accept rate)")
    axes.set_ylabel("FRR = 1 - TAR (false reject rate)")


def _draw_bands(
    axes: Axes, curves: Mapping[str, Curve], bands: Bands, place: _Place = lambda far, tar: (far, tar)
) -> None:
    """A band between the bounds of each curve, in its colour; the axes keep their limits."""
    axes.autoscale(False)
    for (colour, _), name in zip(STYLES, curves, strict=False):
        far, low, high = np.array(sorted(bands.get(name, ()))).reshape(-1, 3).T
        across, (_, below), (_, above) = place(far, low)[0], place(far, low), place(far, high)
        axes.fill_between(across, below, above, color=colour, alpha=0.2, linewidth=0)


def _styles(drawn: int) -> Iterator[tuple[str, str]]:
    """Colours and dashes, starting behind those of the lines that are drawn already."""
    return islice(cycle(STYLES), drawn, None)


def _least_far(curves: Mapping[str, Curve]) -> float:
    """The FAR at the left border: ten impostors of the largest set."""
    return min(10 / max(curve.impostor_total for curve in curves.values()), 0.1)


def _deviates(axis: Axis, low: float, high: float) -> None:
    """Makes an axis of normal deviates show rates from low to high; marks that would overlap are skipped."""
    begin, end = ndtri(low), ndtri(high)
    marks: list[float] = []
    for rate in _MARKED_RATES:
        if low <= rate <= high and all(abs(ndtri(rate) - ndtri(other)) > 0.12 * (end - begin) for other in marks):
            marks.append(rate)
    axis.set_ticks(ndtri(marks), labels=[_rate_mark(rate) for rate in marks])
    axis.set_view_interval(begin, end, ignore=True)


def rate_axis(axis: Axis) -> None:
    """Makes a logarithmic axis of an error rate write its marks as `_rate_mark` does."""
    axis.set_major_formatter(lambda rate, _: _rate_mark(rate))
    axis.set_minor_formatter(lambda *_: "")


def _rate_mark(rate: float) -> str:
    """A rate on an axis: up to a tenth in the short form that a page has beside 1 in N, above in per cent, as `share`.

    >>> [_rate_mark(rate) for rate in (0.001, 0.05, 0.1, 0.2, 0.999)]
    ['1e-3', '5e-2', '1e-1', '20 %', '99.9 %']
    """
    return per_cent(rate, 0) if in_per_cent([rate]) else short_far(f"{rate:.0e}")


def per_cent(rate: float, _: object) -> str:
    """A share on an axis, as matplotlib asks for it: in per cent."""
    return f"{100 * rate:g} %"


def _finish(axes: Axes, title: str, curves: Mapping[str, Curve]) -> None:
    """A title, grid lines, and the names of the curves; a single curve is named in the title."""
    alone = next(iter(curves)) if len(curves) == 1 else ""
    axes.set_title(in_picture(f"{title}: {alone}" if alone else title), loc="left", color=INK, fontsize=11)
    if not alone:
        axes.legend(loc="best", frameon=False, fontsize=9)
    tidy(axes)
    axes.grid(color=LINES, linewidth=0.7)


def tidy(axes: Axes) -> None:
    """Removes the frame at the top and on the right."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(PALE)
    axes.tick_params(colors=INK)


_MOST_DOMAINS = 12  # bars of domains; one further bar stands for all others
_LONGEST_DOMAIN = 20  # letters of a domain's name beside its bar
_AROUND, _BAR = 0.8, 0.22  # inches: of the marks and the name of an axis, and of a bar across


def data_plot(
    title: str,
    images_per_identity: Sequence[tuple[str, int]],
    yaw: Sequence[tuple[int, int, int]] | None,
    domains: Mapping[str, int] | None,
) -> Figure:
    """The distributions of a data set, a panel each, from top to bottom.

    `images_per_identity` has intervals in words, and their people; `yaw` the first and last degree of intervals, and
    their images; `domains` are in order of falling number.
    """
    heights = [_AROUND + _BAR * max(len(images_per_identity), 3)]
    if yaw is not None:
        heights.append(2.5)
    if domains:
        heights.append(_AROUND + _BAR * min(len(domains), _MOST_DOMAINS + 1))
    figure = new_figure(sum(heights) + 0.4)
    panels = list(figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0])
    panels[0].set_title(in_picture(title), loc="left", color=INK, fontsize=11)
    _draw_images(panels[0], images_per_identity)
    if yaw is not None:
        _draw_yaw(panels[1], yaw)
    if domains:
        _draw_domains(panels[-1], domains)
    for axes in panels:
        tidy(axes)
        axes.set_axisbelow(True)
    return figure


def _draw_images(axes: Axes, rows: Sequence[tuple[str, int]]) -> None:
    _draw_across(axes, rows)
    axes.set_ylabel("images")
    axes.set_xscale("symlog", linthresh=1)  # this scale has a place for a count of 0
    axes.set_xlim(0, 4 * max([1, *(count for _, count in rows)]) ** 1.2)  # room for the count behind its bar
    axes.xaxis.set_major_formatter(lambda value, _: _few_letters(value))
    axes.set_xlabel("identities with as many images")


def _draw_yaw(axes: Axes, rows: Sequence[tuple[int, int, int]]) -> None:
    total = max(sum(count for *_, count in rows), 1)
    axes.bar(
        [first for first, *_ in rows],
        [100 * count / total for *_, count in rows],
        width=[last - first for first, last, _ in rows],
        align="edge",
        color=SERIES[0],
        edgecolor="white",
    )
    axes.set_xticks([rows[0][0], *(last for _, last, _ in rows)][::2])
    axes.set_xlabel("estimated yaw, degrees")
    axes.set_ylabel("% of images")
    axes.grid(axis="y", color=LINES, linewidth=0.7)


def _draw_domains(axes: Axes, domains: Mapping[str, int]) -> None:
    names, counts = list(domains), list(domains.values())
    rows = [(_short(name), count) for name, count in zip(names[:_MOST_DOMAINS], counts, strict=False)]
    if len(names) > _MOST_DOMAINS:
        rows.append((f"{len(names) - _MOST_DOMAINS:,} others", sum(counts[_MOST_DOMAINS:])))
    _draw_across(axes, rows)
    axes.xaxis.set_major_formatter(lambda value, _: _few_letters(value))
    axes.locator_params(axis="x", nbins=5)
    axes.set_xlim(0, 1.25 * max(counts))
    axes.set_xlabel("images of a domain")


def _few_letters(count: float) -> str:
    """A short text for a number at a tick, so that neighbouring texts do not touch.

    >>> _few_letters(500.0), _few_letters(2e4), _few_letters(2.5e6)
    ('500', '20k', '2.5M')
    """
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:g}{letter}"
    return f"{count:g}"


def _short(name: str) -> str:
    return in_picture(name if len(name) <= _LONGEST_DOMAIN else f"{name[: _LONGEST_DOMAIN - 1]}\u2026")


def _draw_across(axes: Axes, rows: Sequence[tuple[str, int]]) -> None:
    """Bars from left to right, the first at the top: beside them is room for names of any length.

    The count stands at the end of each bar, since the ticks do not show the length of a bar between them.
    """
    places = range(len(rows))
    bars = axes.barh(places, [count for _, count in rows], height=0.75, color=SERIES[0])
    axes.bar_label(bars, [f"{count:,}" for _, count in rows], padding=3, fontsize=8, color=INK)
    axes.set_yticks(places, [name for name, _ in rows], fontsize=8)
    axes.invert_yaxis()
    axes.grid(axis="x", color=LINES, linewidth=0.7)


_TITLES = {
    "loss": "loss",
    "rate": "learning rate",
    "margin_share": "share of the margin",
    "gradient_norm": "gradient norm",
    "validation_tar": "TAR in validation",
    "anchor_tar": "TAR at the anchor, in training",
    "anchor_threshold": "threshold at the anchor",
    "anchor_set_fill": "fill of the online-updating set",
    "anchor_negatives": "negative pairs a step",
    "anchor_positives": "positive pairs a step",
    "anchor_too_few": "share of steps with too few negatives",
    "anchor_far_loss": "FAR loss",
    "anchor_tar_loss": "TAR loss",
    "tcp_queue_fill": "fill of the queue",
    "tcp_capped": "share of rows whose weight was cut off",
    "tcp_domain_loss": "loss of the implicit domains",
    "tcp_gamma": "gamma on the queue",
    "tcp_threshold": "thresholds on the queue",
    "tcp_weight": "weights of the domains",
    "tcp_share": "shares of the domains",
}
#: Figures whose names differ only in such an ending (a FAR or a domain) share a panel, with a line for each ending.
_AT_FAR = re.compile(r"(.+?)_at_far_(.+)")
_OF_DOMAIN = re.compile(r"(tcp_\w+?)_of_(.+)")
#: Panels in which small differences matter, so that they do not begin at 0.
_NOT_FROM_ZERO = {_TITLES[name] for name in ("anchor_tar", "anchor_threshold", "tcp_threshold", "tcp_weight")}
_UNDRAWN = ("step", "epoch", "images_per_second")

Lines: TypeAlias = dict[str, tuple[list[float], list[float]]]


def training_plot(entries: Sequence[Mapping[str, float | int | None]], title: str) -> Figure:
    """All figures in the log of a run, over the epochs, with a panel for each kind of figure, such as validation TARs.

    Entries are lines of `metrics.jsonl`; a figure that was not finite is None there, and is skipped.
    """
    panels = _panels(entries)
    figure = new_figure(1.25 * max(len(panels), 1) + 0.8)
    grid = figure.subplots(max(len(panels), 1), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (label, lines) in zip(grid, panels.items(), strict=False):
        for (colour, dashes), (name, (epochs, values)) in zip(cycle(STYLES), lines.items(), strict=False):
            mark = "." if len(epochs) < 30 else None
            axes.plot(
                epochs,
                values,
                color=colour,
                linestyle=dashes,
                linewidth=1.6,
                marker=mark,
                label=in_picture(name),
                clip_on=False,  # a marker on the border is not clipped
            )
        axes.set_title(in_picture(label), loc="left", color=INK, fontsize=10)
        axes.margins(y=0.12)
        if label not in _NOT_FROM_ZERO:
            axes.set_ylim(bottom=min([0.0, *(min(values) for _, values in lines.values())]))
        if len(lines) > 1:
            axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
        tidy(axes)
        axes.grid(color=LINES, linewidth=0.7)
    grid[-1].set_xlim(left=0)
    grid[-1].set_xlabel("epoch")
    figure.suptitle(in_picture(title), x=0.02, ha="left", color=INK, fontsize=11)
    return figure


def _panels(entries: Sequence[Mapping[str, float | int | None]]) -> dict[str, Lines]:
    """For each panel, the epochs and values of its lines; the log states only the step of a validation."""
    epochs_a_step = 1.0
    for entry in entries:
        step, epoch = entry.get("step"), entry.get("epoch")
        if step and epoch:
            epochs_a_step = epoch / step
    panels: dict[str, Lines] = {}
    for entry in entries:
        epoch = entry.get("epoch")
        epoch = epochs_a_step * (entry.get("step") or 0) if epoch is None else epoch
        for name, value in entry.items():
            if name in _UNDRAWN or not isinstance(value, (int, float)):
                continue
            panel, line = _place(name)
            epochs, values = panels.setdefault(panel, {}).setdefault(line, ([], []))
            epochs.append(float(epoch))
            values.append(float(value))
    return panels


def _place(name: str) -> tuple[str, str]:
    """Title of the panel of a figure, and the name of its line there."""
    at_far, of_domain = _AT_FAR.fullmatch(name), _OF_DOMAIN.fullmatch(name)
    parts = at_far or of_domain
    panel = name if parts is None else parts[1]
    line = name if parts is None else f"FAR {parts[2]}" if at_far else parts[2]
    return _TITLES.get(panel, panel.replace("_", " ")), line


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
    axes.xaxis.set_major_formatter(lambda rank, _: f"{rank:,.0f}")
    axes.xaxis.set_minor_formatter(lambda rank, _: f"{rank:,.0f}" if f"{rank:.0f}"[0] in "25" and rank < 100 else "")
    axes.set_xlim(1, max(2, *(cmc.people for cmc in cmcs.values())))
    bottom = max(lowest - 0.1 * (1 - lowest) - 0.005, 0)
    axes.set_ylim(bottom, 1 + 0.01 * (1 - bottom))
    axes.yaxis.set_major_formatter(per_cent)
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
    rate_axis(axes.xaxis)
    axes.set_xlim(min(0.5, *(1 / curve.impostor_total for curve in curves.values())), 1)
    axes.set_ylim(0, 1.005)
    rate_axis(axes.xaxis)
    axes.yaxis.set_major_formatter(per_cent)
    axes.set_xlabel("FPIR (false-positive identification rate)")
    axes.set_ylabel("TPIR (identified, open set)")
