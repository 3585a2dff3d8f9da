"""ROC and DET plots in a common style, and what other plots share with them.

A function returns a figure; `save_plot` writes it completely or not at all.
"""

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
from verisphere.decide import Curve
from verisphere.decide.point import short_far
from verisphere.files.disk import write_whole

INK, PALE, LINES = "#1f2933", "#9aa5b1", "#e4e7eb"
SERIES = ("#2274a5", "#9aa5b1", "#e4572e", "#3a7d44", "#7b2d8b")
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
    axes.xaxis.set_major_formatter(lambda rate, _: _rate_mark(rate))
    axes.set_xlim(left, 1)
    axes.set_ylim(0, 1.005)
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
        if low <= rate <= high and all(abs(ndtri(rate) - ndtri(other)) > 0.08 * (end - begin) for other in marks):
            marks.append(rate)
    axis.set_ticks(ndtri(marks), labels=[_rate_mark(rate) for rate in marks])
    axis.set_view_interval(begin, end, ignore=True)


def _rate_mark(rate: float) -> str:
    """A rate on an axis: powers of ten in the short form that a page has beside 1 in N."""
    return short_far(f"{rate:.0e}") if f"{rate:.0e}".startswith("1e-") else f"{rate:g}"


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
