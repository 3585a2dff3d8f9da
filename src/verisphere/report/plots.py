"""Pictures of results. Each function returns a figure; `save_plot` writes it whole."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path

import numpy as np
from jaxtyping import Float64, UInt8
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from verisphere.data.files import write_whole
from verisphere.decide import Curve, OneThreshold

INK, PALE = "#1f2933", "#9aa5b1"
GENUINE, IMPOSTOR, COMMON, OWN = "#2274a5", "#e4572e", "#1f2933", "#7b2d8b"
SERIES = ("#2274a5", "#9aa5b1", "#e4572e", "#3a7d44", "#7b2d8b")


def save_plot(figure: Figure, path: Path) -> Path:
    """Write a figure; the suffix chooses the format (.png, .svg)."""
    write_whole(path, lambda partial: figure.savefig(partial, dpi=144, facecolor="white"))
    return path


def save_image(pixels: UInt8[Tensor, "3 height width"], path: Path) -> Path:
    """Write an image."""
    image = Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy())
    write_whole(path, lambda partial: image.save(partial))
    return path


def roc_plot(curves: Mapping[str, Curve], title: str) -> Figure:
    """TAR over FAR, FAR on a logarithmic scale, drawn no further left than the impostors can resolve."""
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.add_subplot()
    for colour, (name, curve) in zip(cycle(SERIES), curves.items(), strict=False):
        seen = curve.impostor_accepted > 0
        axes.step(curve.far[seen], curve.tar[seen], where="post", color=colour, label=name, linewidth=1.8)
    axes.set_xscale("log")
    axes.set_xlim(min(10 / min(curve.impostor_total for curve in curves.values()), 0.1), 1)
    axes.set_ylim(0, 1)
    axes.set_xlabel("FAR (false accept rate)")
    axes.set_ylabel("TAR (true accept rate)")
    axes.set_title(title, loc="left", color=INK)
    axes.legend(loc="lower right", frameon=False)
    _tidy(axes)
    axes.grid(color="#e4e7eb", linewidth=0.7)
    return figure


def domains_plot(
    scores: Mapping[str, tuple[Float64[np.ndarray, " genuine"], Float64[np.ndarray, " impostor"]]],
    result: OneThreshold,
) -> Figure:
    """Genuine and impostor scores of each domain, its own threshold, and the one threshold of all."""
    names = [name for name in scores if name in result.domains]
    figure = Figure(figsize=(7.2, 1.25 * len(names) + 1.1), layout="constrained")
    grid = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    low = min(float(np.quantile(part, 0.0005)) for name in names for part in scores[name])
    edges = np.linspace(low - 0.02, 1.0, 121)
    for axes, name in zip(grid, names, strict=True):
        genuine, impostor = scores[name]
        axes.hist(impostor, edges, density=True, color=IMPOSTOR, alpha=0.55, label="impostor")
        axes.hist(genuine, edges, density=True, color=GENUINE, alpha=0.55, label="genuine")
        domain = result.domains[name]
        axes.axvline(result.calibration_threshold, color=COMMON, linewidth=1.6, label="the one threshold")
        axes.axvline(domain.threshold, color=OWN, linewidth=1.6, linestyle="--", label="its own threshold")
        text = f"{name}\nTAR {domain.tar:.3f}   FAR {domain.far:.2g}"
        axes.text(0.01, 0.92, text, transform=axes.transAxes, ha="left", va="top", fontsize=9, color=INK)
        axes.set_yticks([])
        _tidy(axes)
        axes.spines["left"].set_visible(False)
    grid[-1].set_xlabel("score (cosine)")
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.suptitle(
        f"Thresholds for FAR {result.far_target}: each domain's own, and one for all", color=INK, fontsize=11
    )
    return figure


def training_plot(entries: Sequence[Mapping[str, float | int]]) -> Figure:
    """Loss and learning rate over the epochs, from the log of a run."""
    entries = [entry for entry in entries if "loss" in entry]
    epochs = [entry["epoch"] for entry in entries]
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(epochs, [entry["loss"] for entry in entries], color=GENUINE, linewidth=1.6)
    axes.set_xlabel("epoch")
    axes.set_ylabel("loss", color=GENUINE)
    axes.set_ylim(bottom=0)
    _tidy(axes)
    rates = axes.twinx()
    rates.plot(epochs, [entry["rate"] for entry in entries], color=PALE, linewidth=1.2, linestyle="--")
    rates.set_ylabel("learning rate", color=PALE)
    rates.set_ylim(bottom=0)
    rates.spines[["top"]].set_visible(False)
    return figure


def _tidy(axes) -> None:  # type: ignore[no-untyped-def]  # matplotlib's axes, which its stubs spell in several ways
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(PALE)
    axes.tick_params(colors=INK)
